"""What the tests share: repositories of every kind, waiting, programs of their own."""

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pisession

URIS = ["memory:", "jsonl:{folder}", "sqlite:{folder}", "sqlite:{folder}/container.db"]


@pytest.fixture(params=URIS)
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URI of an empty repository, of every kind."""
    return str(request.param).format(folder=tmp_path / "sessions")


@pytest.fixture
def repository(uri: str) -> Iterator[pisession.Repository]:
    """An empty repository of every kind."""
    with pisession.open_repository(uri) as repository:
        yield repository


@pytest.fixture
def session(repository: pisession.Repository) -> Iterator[pisession.Session]:
    """A fresh session, in a repository of every kind."""
    with repository.create() as session:
        yield session


@pytest.fixture
def main(session: pisession.Session) -> pisession.Branch:
    """An empty branch of the fresh session."""
    return session.create_branch("main")


def wait_until(condition: Callable[[], bool], what: str = "the condition") -> None:
    """Wait until it is true, but not for ever."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, f"{what} did not come about"
        time.sleep(0.001)


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a program of its own, warnings being errors."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, *arguments: str) -> str:
    """Run a program of its own, which must end well and say nothing on stderr; what it printed."""
    program = start(code, *arguments)
    stdout, stderr = program.communicate(timeout=60)
    assert (program.returncode, stderr) == (0, ""), stdout
    return stdout
