"""What the fault tests share: the preloaded library, the program in it, and where sessions are kept."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "target" / "faults"
LEVELS = ("power", "process")
# Where sessions are kept, below a folder.
PLACES = ("jsonl:lines", "sqlite:sessions", "sqlite:container.sqlite")
SESSION = "s"
# A file of version 3, for imports and upgrades.
OLD_FILE = ROOT / "examples" / "data" / "sample.jsonl"


def build() -> None:
    """Compiles the library and the program."""
    BUILT.mkdir(parents=True, exist_ok=True)
    strict = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
    source = ROOT / "tests" / "faults" / "faults.c"
    made = BUILT / f"faults.{os.getpid()}.so"
    subprocess.run(["cc", *strict, "-o", made, source, "-ldl", "-lpthread"], check=True)
    made.replace(BUILT / "faults.so")
    program = ["cargo", "build", "--quiet", "--package", "pisession", "--example", "fault_scenario"]
    subprocess.run(program, cwd=ROOT, check=True)


@dataclass(frozen=True)
class Call:
    """A line of the record: one call that concerned the folder."""

    name: str
    # What it gave, or minus the error number.
    result: int
    inode: int
    path: str
    second: str
    offset: int
    length: int
    data: bytes

    @classmethod
    def parse(cls, line: str) -> "Call":
        name, result, inode, path, second, offset, length, data = line.split("\t")
        return cls(name, int(result), int(inode), path, second, int(offset), int(length), bytes.fromhex(data))

    @property
    def changes(self) -> bool:
        """Whether it is one of the calls that the library names `changes`."""
        return self.name not in ("open", "read", "mark")


def read_record(path: Path) -> list[Call]:
    return [Call.parse(line) for line in path.read_text().splitlines()]


class Killed(Exception):
    """The program was killed, as it was told to be."""


class Failed(Exception):
    """A step did not work."""

    def __init__(self, step: str, answer: str) -> None:
        super().__init__(f"{step}: {answer}")
        self.kind, self.path, self.message = answer.split(" ", 2)


class Scenario:
    """The program `fault_scenario`, to which steps are given one by one."""

    def __init__(self, level: str, folder: Path | None = None, record: Path | None = None) -> None:
        environment = dict(os.environ)
        if folder is not None:
            environment |= {"LD_PRELOAD": str(BUILT / "faults.so"), "FAULTS_FOLDER": str(folder.resolve())}
        if record is not None:
            environment["FAULTS_RECORD"] = str(record)
        self.process = subprocess.Popen(
            [ROOT / "target" / "debug" / "examples" / "fault_scenario", level],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=environment,
            # Python ignores SIGXFSZ, and so does what it starts: a file over its limit is an error.
            restore_signals=False,
        )

    def __enter__(self) -> "Scenario":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def do(self, step: str) -> str:
        """Does one step. Raises `Failed` if it fails, `Killed` if the program dies of it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(f"{step}\n")
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer.endswith("\n"):
            code = self.process.wait()
            if code == -signal.SIGKILL:
                raise Killed(step)
            raise AssertionError(f"the program ended at '{step}' with {code}")
        word, _, text = answer.rstrip("\n").partition(" ")
        if word == "ok":
            return text
        raise Failed(step, text)

    def do_all(self, steps: Sequence[str]) -> str:
        """Does steps; what the last one said."""
        said = ""
        for step in steps:
            said = self.do(step)
        return said


def at(place: str, folder: Path) -> str:
    """The step that goes to a place below the folder."""
    scheme, below = place.split(":")
    return f"at {scheme}:{folder / below}"


@dataclass(frozen=True)
class Operation:
    """Something done to a session, and what is there before."""

    name: str
    before: tuple[str, ...]
    # What is done first; the faults begin afterwards.
    opening: tuple[str, ...]
    step: str
    # Whether the file breaks off in its last line, as after a crash.
    torn: bool = False

    def prepare(self, place: str, level: str, folder: Path) -> None:
        """Makes in a new folder what is there before."""
        folder.mkdir()
        with Scenario(level) as scenario:
            scenario.do_all([at(place, folder), *self.before, "close"])
        if self.torn:
            (file,) = folder.rglob("*.jsonl")
            os.truncate(file, file.stat().st_size - 10)


FILLED = ("create s", "commit 50", "commit 50", "commit 3000", "commit 50")
OPERATIONS = (
    Operation("create", (), (), "create s"),
    Operation("append", FILLED, ("open s",), "commit 50"),
    Operation("append-more", FILLED[:-1], ("open s",), "commit 3000"),
    Operation("append-after-crash", FILLED, ("open s",), "commit 50", torn=True),
    Operation("read", FILLED, ("open s",), "state"),
    Operation("compact", FILLED, ("open s",), "compact"),
    Operation("delete", FILLED, (), "delete s"),
    Operation("import", (), (), f"import {OLD_FILE} s"),
    Operation("upgrade", (f"old {OLD_FILE} s",), (), "upgrade s"),
    Operation("fork", ("create o", *FILLED[1:]), (), "fork o s"),
    Operation("export", (f"import {OLD_FILE} s",), ("open s",), "export"),
)
# What only files of JSON lines know.
OF_LINES = ("compact", "upgrade")


def matters(operation: Operation, place: str) -> bool:
    return place.startswith("jsonl") or not (operation.torn or operation.name in OF_LINES)


# Every case: an operation at a place with a durability.
CASES = [
    (operation, place, level)
    for operation in OPERATIONS
    for place in PLACES
    for level in LEVELS
    if matters(operation, place)
]
# Those in which something is changed.
CHANGING = [case for case in CASES if case[0].step != "state"]


def name_of(case: tuple[Operation, str, str]) -> str:
    operation, place, level = case
    return f"{operation.name}-{place}-{level}"


def calls_of(operation: Operation, place: str, level: str, prepared: Path, folder: Path) -> list[Call]:
    """The calls that the step of an operation makes, if nothing happens to any."""
    folder.mkdir()
    record = folder / "record"
    with Scenario(level, folder, record) as scenario:
        shutil.copytree(prepared, folder / "sessions")
        scenario.do_all([at(place, folder / "sessions"), *operation.opening, "faults mark"])
        scenario.do_all([operation.step, "faults mark"])
    calls = read_record(record)
    marks = [number for number, call in enumerate(calls) if call.name == "mark"]
    return calls[marks[0] + 1 : marks[1]]
