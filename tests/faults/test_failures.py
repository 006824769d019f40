"""Every system call of an operation fails in turn: what is there is the old state or the new one, memory and
file agree, the error says what it is, and the session goes on once the system does."""

import errno
import os
import random
import resource
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from scenario import (
    CASES,
    LEVELS,
    OPERATIONS,
    PLACES,
    Call,
    Failed,
    Operation,
    Scenario,
    at,
    calls_of,
    name_of,
)

# How many failures of an operation are tried; the others are left out by chance.
MOST = int(os.environ.get("FAULTS", "15"))
FOR_EVER = 1_000_000

OUT_OF_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# What may happen to a call.
FAILURES = {
    "create": (errno.ENOSPC, errno.EACCES),
    "mkdir": (errno.ENOSPC, errno.EIO),
    "link": (errno.ENOSPC, errno.EPERM),
    "rename": (errno.EACCES, errno.EIO),
    "write": (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG),
    "ftruncate": (errno.EIO, errno.ENOSPC),
    "fsync": (errno.EIO, errno.ENOSPC),
    "fdatasync": (errno.EIO, errno.ENOSPC),
    "unlink": (errno.EIO,),
    "rmdir": (errno.EIO,),
    "open": (errno.EIO,),
    "read": (errno.EIO,),
}


@dataclass(frozen=True)
class Fault:
    """What happens, in the words of the library, and the error it should come out as."""

    plan: str
    what: str
    full: bool = False


def faults_of(calls: list[Call]) -> Iterator[Fault]:
    """Each call fails once in each way, or with all after it; writes are cut short, and the disk is full."""
    changes = [call for call in calls if call.changes]
    reads = [call for call in calls if not call.changes]
    for kind, some in (("changes", changes), ("reads", reads)):
        for number, call in enumerate(some, 1):
            where = f"{call.name} of {Path(call.path).name} (the {number}th of {kind})"
            for error in FAILURES[call.name]:
                what = f"{where}: {errno.errorcode[error]}"
                yield Fault(f"plan {kind} {number} 1 fail {error}", what, error in OUT_OF_ROOM)
            yield Fault(f"plan {kind} {number} {FOR_EVER} fail {errno.EIO}", f"{where}: EIO from then on")
            if call.name == "write":
                yield Fault(f"plan {kind} {number} 1 short 1", f"{where}: one byte of it")
    bytes_written = sum(call.result for call in changes if call.name == "write")
    for room in sorted({*range(0, bytes_written, 97), max(bytes_written - 1, 0)}):
        yield Fault(f"plan write 1 {FOR_EVER} room {room}", f"room for {room} bytes", True)


class Failing:
    """Does one operation again and again, in fresh copies of what is there before."""

    def __init__(self, case: tuple[Operation, str, str], folder: Path) -> None:
        self.operation, self.place, self.level = case
        self.folder = folder
        self.prepared = folder / "prepared"
        self.operation.prepare(self.place, self.level, self.prepared)
        self.calls = calls_of(self.operation, self.place, self.level, self.prepared, folder / "calls")
        self.program = Scenario(self.level, folder)
        self.checker = Scenario(self.level)
        self.old = self.survivor(self.copy(self.prepared, "old"))
        new = self.copy(self.prepared, "new")
        self.checker.do_all([at(self.place, new), *self.operation.opening, self.operation.step, "close"])
        self.new = self.survivor(new)

    def copy(self, source: Path, name: str) -> Path:
        return Path(shutil.copytree(source, self.folder / name))

    def survivor(self, sessions: Path) -> str:
        return self.checker.do_all([at(self.place, sessions), "survive s"])

    def meets(self, fault: Fault) -> None:
        """The operation under a fault, and all that must hold then."""
        sessions = self.copy(self.prepared, "sessions")
        self.program.do_all([at(self.place, sessions), *self.operation.opening, f"faults {fault.plan}"])
        failure = None
        try:
            self.program.do(self.operation.step)
        except Failed as failed:
            failure = failed
        self.program.do("faults off")
        left = self.copy(sessions, "left")
        self.looks_right(fault, failure, self.survivor(left))
        if self.operation.opening:
            self.goes_on(failure, self.survivor(self.copy(sessions, "again")), sessions)
        elif failure is not None:
            # The same once more, now that nothing is in the way.
            self.retries(sessions)
        for name in ("sessions", "left", "again"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def looks_right(self, fault: Fault, failure: Failed | None, left: str) -> None:
        name = self.operation.name
        if failure is None:
            assert left == self.new, "it was done, and the new state is not there"
            return
        allowed = {"Full", "StorageFault"} if fault.full else {"Io", "StorageFault"}
        dead = fault.plan.startswith("plan changes") and f" {FOR_EVER} " in fault.plan
        assert failure.kind in allowed, failure
        assert failure.path != "-", f"names no file: {failure}"
        if name == "import":
            # One that could not even be removed is completed by the next attempt.
            return
        if name == "delete" or failure.kind == "StorageFault" or dead:
            # What is not known, or cannot be taken back any more.
            assert left in (self.old, self.new)
        else:
            assert left == self.old, "it failed, and the old state is not there"

    def goes_on(self, failure: Failed | None, left: str, sessions: Path) -> None:
        try:
            memory = self.program.do("state")
            if failure is None or failure.kind != "StorageFault":
                assert memory == left, "memory holds something else than the file"
            self.program.do("commit 70")
            assert failure is None or failure.kind != "StorageFault", "it goes on in an unknown state"
            memory = self.program.do("state")
            self.program.do("close")
            assert self.survivor(sessions) == memory, "what was committed afterwards is not there"
        except Failed as failed:
            assert failure is not None and failure.kind == "StorageFault", failed
            assert failed.kind == "StorageFault", failed
            self.program.do_all([at(self.place, sessions), "open s", "commit 70", "close"])

    def retries(self, sessions: Path) -> None:
        try:
            self.program.do_all([at(self.place, sessions), self.operation.step])
        except Failed as failed:
            # A deletion of which only the last sync failed, or a creation that could not be taken back.
            expected = "UnknownSession" if self.operation.name == "delete" else "SessionExists"
            assert failed.kind == expected, failed
        self.program.do("close")
        assert self.survivor(sessions) == self.new

    def close(self) -> None:
        for program in (self.program, self.checker):
            program.__exit__(None, None, None)


@pytest.mark.parametrize("case", CASES, ids=map(name_of, CASES))
def test_after_any_failure_the_old_state_or_the_new_one_is_there(
    case: tuple[Operation, str, str], folder: Path
) -> None:
    failing = Failing(case, folder)
    faults = list(faults_of(failing.calls))
    try:
        wrong = problems_of(failing, random.Random(1).sample(faults, min(MOST, len(faults))))
    finally:
        failing.close()
    assert not wrong, f"{len(wrong)} of {len(faults)}:\n" + "\n".join(wrong)


def problems_of(failing: Failing, faults: list[Fault]) -> list[str]:
    wrong = []
    for fault in faults:
        try:
            failing.meets(fault)
        except (AssertionError, Failed) as problem:
            wrong.append(f"{fault.what}: {problem}")
            for name in ("sessions", "left", "again"):
                shutil.rmtree(failing.folder / name, ignore_errors=True)
            failing.close()
            failing.program = Scenario(failing.level, failing.folder)
            failing.checker = Scenario(failing.level)
    return wrong


APPENDS = [operation for operation in OPERATIONS if operation.name.startswith("append")]


@pytest.mark.parametrize("operation", APPENDS, ids=[operation.name for operation in APPENDS])
def test_a_file_that_could_not_be_synced_is_written_no_more(operation: Operation, folder: Path) -> None:
    """A later sync would not tell what the failed one lost."""
    failing = Failing((operation, "jsonl:lines", "power"), folder)
    program = failing.program
    try:
        changes = list(enumerate((call for call in failing.calls if call.changes), 1))
        syncs = [number for number, call in changes if "sync" in call.name and call.path.endswith(".jsonl")]
        assert len(syncs) == (2 if operation.torn else 1)
        for number in syncs:
            sessions = failing.copy(failing.prepared, f"sessions{number}")
            steps = [at("jsonl:lines", sessions), *operation.opening]
            program.do_all([*steps, f"faults plan changes {number} 1 fail {errno.EIO}"])
            for step in (operation.step, "commit 70", "compact"):
                with pytest.raises(Failed) as failed:
                    program.do(step)
                assert failed.value.kind == "StorageFault", failed.value
            program.do("faults off")
            assert failing.survivor(failing.copy(sessions, f"left{number}")) == failing.old
    finally:
        failing.close()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("place", PLACES)
def test_a_limit_on_file_sizes_refuses_commits_and_nothing_else(place: str, level: str, folder: Path) -> None:
    sessions = folder / "sessions"
    sessions.mkdir()
    with Scenario(level) as program, Scenario(level) as checker:
        program.do_all([at(place, sessions), "create s", "commit 50", "commit 50"])
        largest = max(path.stat().st_size for path in sessions.rglob("*") if path.is_file())
        resource.prlimit(program.process.pid, resource.RLIMIT_FSIZE, (largest + 1000, resource.RLIM_INFINITY))
        with pytest.raises(Failed) as failed:
            # In the end one does not fit.
            program.do_all([f"commit {bytes}" for bytes in (9, 900, 9000, 90000, 900000)])
        assert failed.value.kind == "Full", failed.value
        memory = program.do("state")
        left = Path(shutil.copytree(sessions, folder / "left"))
        assert checker.do_all([at(place, left), "survive s"]) == memory
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(program.process.pid, resource.RLIMIT_FSIZE, unlimited)
        program.do_all(["commit 90000", "commit 90000"])
        memory = program.do("state")
        program.do("close")
        assert checker.do_all([at(place, sessions), "survive s"]) == memory
