"""`python -m pisession` is the command line where it is installed, and says so where it is not."""

import os
import subprocess
import sys
from pathlib import Path


def command(*arguments: str, path: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "pisession", *arguments],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_program_on_path_gets_the_arguments_and_its_status_is_ours(tmp_path: Path) -> None:
    program = tmp_path / "pisession"
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\nexit 3\n')
    program.chmod(0o755)
    ran = command("list", "a b", "--json", path=str(tmp_path))
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "list|a b|--json|", "")


def test_without_the_program_it_says_what_to_do(tmp_path: Path) -> None:
    ran = command("list", path=str(tmp_path))
    assert (ran.returncode, ran.stdout) == (127, "")
    assert "the command line 'pisession' is not installed" in ran.stderr
    assert "cargo install --path cli" in ran.stderr
