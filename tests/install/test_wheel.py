"""The wheel is enough for an empty environment, and says of itself what an index asks for."""

import email
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(command: list[str], cwd: Path = ROOT, **more: str) -> str:
    """Runs a command that must succeed and say nothing on stderr; what it printed."""
    ran = subprocess.run(
        command, cwd=cwd, env=os.environ | more, capture_output=True, text=True, timeout=900, check=False
    )
    assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="module")
def wheel() -> Path:
    environment = Path(sys.executable).parents[1]
    return ROOT / run(["make", "--silent", "wheel", "BUILD=debug", f"VENV={environment}"]).split()[-1]


def test_one_wheel_is_for_every_python_from_3_11_on(wheel: Path) -> None:
    tag = re.fullmatch(r"pisession-[\d.]+-cp311-abi3-manylinux_2_(\d+)_\w+\.whl", wheel.name)
    assert tag, wheel.name
    assert int(tag.group(1)) <= 36, "it needs a newer glibc than Debian 12 has"


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = {name.removeprefix("pisession/") for name in names if name.startswith("pisession/")}
    source = {path.name for path in (ROOT / "python" / "pisession").glob("*.py*")} | {"py.typed"}
    assert package - {"_pisession.abi3.so"} == source - {"_pisession.abi3.so"}
    assert "_pisession.abi3.so" in package
    others = {name for name in names if not name.startswith("pisession/")}
    assert all(".dist-info/" in name for name in others), others


def test_its_metadata_is_what_an_index_shows(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    readme = (ROOT / "python" / "README.md").read_text(encoding="utf-8")
    assert metadata["Name"] == "pisession"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert metadata.get_payload(decode=True).decode().strip() == readme.strip()  # type: ignore[union-attr]
    needed = [line for line in metadata.get_all("Requires-Dist") or [] if "extra ==" not in line]
    assert needed == []
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])


def test_an_empty_environment_runs_the_readme(wheel: Path, tmp_path: Path) -> None:
    run([sys.executable, "-m", "venv", str(tmp_path / "venv")])
    python = str(tmp_path / "venv" / "bin" / "python")
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", str(wheel)])
    for number, page in enumerate((ROOT / "README.md", ROOT / "python" / "README.md")):
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        assert blocks
        folder = tmp_path / f"work-{number}"
        folder.mkdir()
        for block in blocks:
            assert run([python, "-I", "-W", "error", "-c", block], cwd=folder)
    where = run([python, "-I", "-c", "import pisession; print(pisession.__file__)"], cwd=tmp_path)
    assert where.startswith(str(tmp_path / "venv"))
    beside = tmp_path / "venv" / "bin" / "pisession"
    beside.write_text("#!/bin/sh\necho beside $1\n")
    beside.chmod(0o755)
    assert run([python, "-I", "-m", "pisession", "list"], cwd=tmp_path) == "beside list\n"
