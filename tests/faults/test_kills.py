"""The process is killed at every system call of an operation, and at every byte of a small rewrite: what is
there is the old state or the new one, and what is left over is in nobody's way."""

import os
import random
import shutil
from pathlib import Path

import pytest
from scenario import (
    CHANGING,
    LEVELS,
    OLD_FILE,
    Killed,
    Operation,
    Scenario,
    at,
    calls_of,
    name_of,
)

# How many places of an operation it is killed at; the others are left out by chance.
MOST = int(os.environ.get("KILLS", "4"))
FOR_EVER = 1_000_000

SMALL = Operation("compact-small", ("create s", *["commit 3"] * 4), ("open s",), "compact")
LARGE = Operation("compact-large", ("create s", *["commit 300000"] * 8), ("open s",), "compact")
SMALL_APPEND = Operation("append-small", ("create s", *["commit 3"] * 3), ("open s",), "commit 3")


class Killing:
    """Kills one operation again and again, in fresh copies of what is there before."""

    def __init__(self, operation: Operation, place: str, level: str, folder: Path) -> None:
        self.operation, self.place, self.level, self.folder = operation, place, level, folder
        self.prepared = folder / "prepared"
        operation.prepare(place, level, self.prepared)
        self.calls = calls_of(operation, place, level, self.prepared, folder / "calls")
        self.checker = Scenario(level)
        self.old = self.survivor(self.copy(self.prepared, "old"))
        new = self.copy(self.prepared, "new")
        self.checker.do_all([at(place, new), *operation.opening, operation.step, "close"])
        self.new = self.survivor(new)

    def copy(self, source: Path, name: str) -> Path:
        return Path(shutil.copytree(source, self.folder / name))

    def survivor(self, sessions: Path) -> str:
        return self.checker.do_all([at(self.place, sessions), "survive s"])

    def dies_of(self, plan: str) -> None:
        """The operation, killed by that plan, and all that must hold then."""
        sessions = self.copy(self.prepared, "sessions")
        with Scenario(self.level, self.folder) as program:
            program.do_all([at(self.place, sessions), *self.operation.opening, f"faults {plan}"])
            with pytest.raises(Killed):
                program.do_all([self.operation.step, "faults off"])
        if self.operation.name == "import":
            # What it left is completed by the next attempt.
            imported = f"import {OLD_FILE} s"
            self.checker.do_all([at(self.place, self.copy(sessions, "again")), imported])
            assert self.survivor(self.folder / "again") == self.new
        else:
            left = self.survivor(self.copy(sessions, "left"))
            assert left in (self.old, self.new), f"holds {left}, neither {self.old} nor {self.new}"
        self.is_swept(sessions)
        for name in ("sessions", "left", "again"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def is_swept(self, sessions: Path) -> None:
        """The next create leaves no file that is none of a session."""
        listed = self.checker.do_all([at(self.place, sessions), "states"])
        assert "!" not in listed, listed
        self.checker.do_all(["create another", "close"])
        # The log of a killed writer belongs to its database until somebody writes to that.
        of_sessions = (".jsonl", ".jsonl.v3.bak", ".sqlite", ".sqlite-wal", ".sqlite-shm")
        # That of another working folder is swept at the next create for that.
        files = [path for path in sessions.rglob("*") if path.is_file() and "--home-" not in str(path)]
        # A file that an export made lies in a folder that is nobody's to sweep.
        left = [
            path
            for path in files
            if not path.name.endswith(of_sessions) and not path.name.startswith(".pisession-export-")
        ]
        assert not left, f"left over: {[path.name for path in left]}"


def kill_all(killing: Killing, plans: list[str], most: int) -> None:
    with killing.checker:
        wrong = problems_of(killing, random.Random(1).sample(plans, min(most, len(plans))))
    assert not wrong, f"{len(wrong)} of {len(plans)}:\n" + "\n".join(wrong)


def problems_of(killing: Killing, plans: list[str]) -> list[str]:
    wrong = []
    for plan in plans:
        try:
            killing.dies_of(plan)
        except AssertionError as problem:
            wrong.append(f"{plan}: {problem}")
            for name in ("sessions", "left", "again"):
                shutil.rmtree(killing.folder / name, ignore_errors=True)
    return wrong


def plans_of(killing: Killing) -> list[str]:
    """Before the first call, and after each."""
    count = sum(call.changes for call in killing.calls)
    return ["plan changes 1 1 before 0", *(f"plan changes {n} 1 after 0" for n in range(1, count + 1))]


@pytest.mark.parametrize("case", CHANGING, ids=map(name_of, CHANGING))
def test_killed_at_any_call_the_old_state_or_the_new_one_is_there(
    case: tuple[Operation, str, str], folder: Path
) -> None:
    killing = Killing(*case, folder)
    kill_all(killing, plans_of(killing), MOST)


@pytest.mark.parametrize("level", LEVELS)
def test_killed_at_any_call_of_a_large_rewrite_the_file_is_whole(level: str, folder: Path) -> None:
    killing = Killing(LARGE, "jsonl:lines", level, folder)
    assert sum(call.name == "write" for call in killing.calls) >= 2
    plans = plans_of(killing)
    kill_all(killing, plans, len(plans))


@pytest.mark.parametrize("operation", (SMALL, SMALL_APPEND), ids=("rewrite", "append"))
def test_killed_at_any_byte_the_file_is_whole(operation: Operation, folder: Path) -> None:
    killing = Killing(operation, "jsonl:lines", "power", folder)
    length = sum(call.result for call in killing.calls if call.name == "write")
    plans = [f"plan write 1 {FOR_EVER} life {cut}" for cut in range(length)]
    kill_all(killing, plans, 20 * MOST)
