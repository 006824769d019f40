"""The example programs run."""

import subprocess
import sys
from pathlib import Path

import pytest

import pisession

NOTEBOOK = Path(__file__).parents[2] / "examples" / "python" / "notebook.py"


def start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(NOTEBOOK), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_notebook_writes_counts_and_prints(uri: str) -> None:
    program = start(uri, "notes", "2")
    stdout, stderr = program.communicate(timeout=60)
    assert (program.returncode, stderr) == (0, "")
    assert stdout.splitlines() == [
        "python: turn 1, 1 turns by all",
        "  python: turn 1 of Python",
        "python: turn 2, 2 turns by all",
        "  python: turn 2 of Python",
    ]


def test_the_notebook_takes_turns_with_others(uri: str) -> None:
    if uri == "memory:":
        pytest.skip("programs share no memory")
    programs = [start(uri, "notes", "10") for _ in range(3)]
    for program in programs:
        _, stderr = program.communicate(timeout=120)
        assert (program.returncode, stderr) == (0, "")
    with (
        pisession.open_repository(uri) as repository,
        repository.open_read_only("notes") as session,
    ):
        assert session.get_value("notebook", "turns") == 30
        assert session.stats().message_count == 30


def test_the_notebook_says_what_is_wrong() -> None:
    program = start("nonsense:x", "notes")
    _, stderr = program.communicate(timeout=60)
    assert program.returncode == 1
    assert stderr.startswith("notebook.py: 'nonsense:x' names no kind of repository")
    assert "Traceback" not in stderr
