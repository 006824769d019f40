"""What `make install` lays down is enough to compile, link and run a program, and to use the command line."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    run(["make", "install", "BUILD=debug", f"PREFIX={folder}"])
    return folder


def run(command: list[str], cwd: Path = ROOT, **more: str) -> str:
    """Runs a command that must succeed; what it printed."""
    environment = os.environ | more
    ran = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def program(folder: Path) -> Path:
    """The C program of the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```c\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert block is not None
    source = folder / "readme.c"
    source.write_text(block.group(1), encoding="utf-8")
    return source


def flags(prefix: Path, *what: str) -> list[str]:
    """What the package file says, read as pkg-config does."""
    values: dict[str, str] = {}
    for line in (prefix / "lib" / "pkgconfig" / "pisession.pc").read_text(encoding="utf-8").splitlines():
        match = re.match(r"([\w.]+)\s*[=:]\s*(.*)", line)
        if match:
            value = re.sub(r"\$\{(\w+)\}", lambda name: values[name.group(1)], match.group(2))
            values[match.group(1)] = value
    return [flag for name in what for flag in values[name].split()]


def test_a_program_links_to_the_shared_library_by_its_soname(prefix: Path, tmp_path: Path) -> None:
    binary = tmp_path / "shared"
    run(["gcc", *flags(prefix, "Cflags"), str(program(tmp_path)), "-o", str(binary), *flags(prefix, "Libs")])
    needed = re.findall(r"NEEDED.*\[(libpisession[^]]*)\]", run(["readelf", "-d", str(binary)]))
    assert len(needed) == 1
    assert re.fullmatch(r"libpisession\.so\.\d+", needed[0])
    library = prefix / "lib" / needed[0]
    assert library.is_symlink()
    assert library.resolve().name.startswith("libpisession.so.0.")
    assert run([str(binary)], cwd=tmp_path, LD_LIBRARY_PATH=str(prefix / "lib"))


def test_a_program_links_to_the_static_library(prefix: Path, tmp_path: Path) -> None:
    binary = tmp_path / "static"
    archive = str(prefix / "lib" / "libpisession.a")
    compile_it = ["gcc", *flags(prefix, "Cflags"), str(program(tmp_path)), "-o", str(binary)]
    run([*compile_it, archive, *flags(prefix, "Libs.private")])
    assert run([str(binary)], cwd=tmp_path)


def test_the_command_line_is_installed(prefix: Path) -> None:
    assert re.search(r"\d+\.\d+\.\d+", run([str(prefix / "bin" / "pisession"), "--version"]))
