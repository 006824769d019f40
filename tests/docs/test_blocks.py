"""The code of the README and the book runs as it stands.

- `python` blocks of one page run in order in one namespace, in an empty folder.
- `c` and `cpp` blocks with a `main` are programs; others are the inside of one, and get the header and the
  includes. They are compiled with all warnings as errors, linked to the library and run in an empty folder.
- `console` blocks hold commands (`$ `) and what they print; `...` stands for any text, also for any lines.
- `rust` blocks are doc tests of the core. `text`, `cmake` and `sh` blocks are not code of ours.

The library and the programs are those of `target/debug`, or of the folder in PISESSION_TARGET.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("PISESSION_TARGET", ROOT / "target" / "debug"))
KNOWN = {"rust", "c", "cpp", "cmake", "python", "console", "sh", "text", "sql", "toml"}
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
LONGEST_WAIT = 120


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands and what it holds."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block of a page."""
    found: list[Block] = []
    fence = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    text = page.read_text(encoding="utf-8")
    for match in fence.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match.group(1), match.group(2)))
    return found


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def of_language(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def names(blocks: list[Block]) -> list[str]:
    return [block.name for block in blocks]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_says_what_it_is(page: Path) -> None:
    unknown = [block.name for block in blocks_of(page) if block.language not in KNOWN]
    assert unknown == []
    # An opening fence that found no end would hide the blocks after it.
    fences = len(re.findall(r"^```", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert fences == 2 * len(blocks_of(page))


PYTHON_PAGES = [page for page in PAGES if any(block.language == "python" for block in blocks_of(page))]


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page: Path, tmp_path: Path) -> None:
    # Line numbers of the page, so that a traceback points into it.
    lines: list[str] = []
    for block in blocks_of(page):
        if block.language == "python":
            lines += [""] * (block.line - len(lines)) + block.text.splitlines()
    script = tmp_path / f"{page.stem}.py"
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    command = [sys.executable, "-W", "error", str(script)]
    ran = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=LONGEST_WAIT, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), f"{ran.stdout}{ran.stderr}"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library under the names that linker and loader look for."""
    folder = tmp_path_factory.mktemp("lib")
    built = TARGET / "libpisession.so"
    said = subprocess.run(["readelf", "-d", str(built)], capture_output=True, text=True, check=True).stdout
    soname = re.search(r"soname: \[(.*)\]", said)
    assert soname is not None
    for name in ("libpisession.so", soname.group(1)):
        (folder / name).symlink_to(built)
    return folder


@dataclass(frozen=True)
class Compiler:
    """How blocks of a language become programs."""

    command: list[str]
    suffix: str
    prologue: str


COMPILERS = {
    "c": Compiler(
        ["gcc", "-std=c11", *WARNINGS],
        ".c",
        "#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n#include <pisession.h>\n",
    ),
    "cpp": Compiler(
        ["g++", "-std=c++17", "-pthread", "-Wconversion", *WARNINGS],
        ".cpp",
        "#include <iostream>\n#include <string>\n#include <thread>\n#include <pisession.hpp>\n",
    ),
}
COMPILED = [block for block in BLOCKS if block.language in COMPILERS]


@pytest.mark.parametrize("block", COMPILED, ids=names(COMPILED))
def test_c_and_cpp_blocks_compile_and_run(block: Block, library: Path, tmp_path: Path) -> None:
    compiler = COMPILERS[block.language]
    program = block.text
    if not re.search(r"^int main\(", program, re.MULTILINE):
        program = f'int main() {{\n#line {block.line + 1} "{block.page.name}"\n{program}\nreturn 0;\n}}\n'
        program = compiler.prologue + program
    source = tmp_path / f"block{compiler.suffix}"
    source.write_text(program, encoding="utf-8")
    binary = tmp_path / "block"
    link = [f"-I{ROOT / 'include'}", str(source), "-o", str(binary), f"-L{library}", "-lpisession"]
    built = subprocess.run([*compiler.command, *link], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    work = tmp_path / "work"
    work.mkdir()
    environment = os.environ | {"LD_LIBRARY_PATH": str(library)}
    ran = subprocess.run(
        [str(binary)],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONGEST_WAIT,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), f"{ran.stdout}{ran.stderr}"


CONSOLE_PAGES = [page for page in PAGES if any(block.language == "console" for block in blocks_of(page))]


def commands_of(block: Block) -> list[tuple[str, list[str]]]:
    """Its commands, each with the lines it is said to print."""
    commands: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            commands[-1][1].append(line)
    return commands


def matches(expected: list[str], printed: str) -> bool:
    """Whether that is what was printed; a line `...` stands for any lines, `...` in a line for any text."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += r"[^\n]*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ ]*\n"
    return re.fullmatch(pattern, printed) is not None


@pytest.mark.parametrize("page", CONSOLE_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_console_blocks_print_what_they_say(page: Path, tmp_path: Path) -> None:
    environment = os.environ | {
        "PATH": f"{TARGET}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
    }
    shutil.copytree(ROOT / "examples" / "data", tmp_path / "examples" / "data")
    for block in blocks_of(page):
        if block.language != "console":
            continue
        for command, expected in commands_of(block):
            ran = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LONGEST_WAIT,
                check=False,
            )
            wanted = "\n".join(expected)
            assert matches(expected, ran.stdout), (
                f"{block.name}: {command}\nexpected\n{wanted}\nprinted\n{ran.stdout}"
            )
