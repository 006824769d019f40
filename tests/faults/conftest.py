"""The library and the program are built once; folders are in memory where the system has such a place."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import scenario


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    scenario.build()


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder. Syncing costs nothing there."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="pisession-faults-", dir=memory if memory.is_dir() else None))
    yield made.resolve()
    shutil.rmtree(made)
