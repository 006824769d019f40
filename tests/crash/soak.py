#!/usr/bin/env python3
"""Kills a writer with SIGKILL at random points, again and again, and looks at what is left.

Each round: the writer (core/examples/crash_writer.rs) appends to a session and names each commit that was
acknowledged; it is killed; the checker reopens the session and must find every acknowledged commit, and no
torn one. A session lives through ten rounds, so that what one crash left is what the next one meets.

The sessions are kept in a folder of SQLite files, in a SQLite container and as JSON lines, turn by turn. Of
SQLite, its own integrity check must be content, and in every other round this program opens and closes the
database with Python's sqlite3 all the while, as a person looking at the file would.

Ends with "N passed, N failed". The seed is printed; --seed repeats the same choices.
"""

import argparse
import contextlib
import os
import random
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROUNDS_PER_SESSION = 10
# Where sessions are kept, below the folder of all.
PLACES = ("sqlite:sessions", "sqlite:container.sqlite", "jsonl:lines")
LONGEST_WAIT = 60.0


class Failed(Exception):
    """A round that did not end as it must."""


def build_writer() -> Path:
    """The writer's program, built if it has to be."""
    subprocess.run(
        ["cargo", "build", "--quiet", "--package", "pisession", "--example", "crash_writer"],
        cwd=ROOT,
        check=True,
    )
    return ROOT / "target" / "debug" / "examples" / "crash_writer"


def look_at(database: Path) -> None:
    """What a person with sqlite3 does in another process: open, read, close."""
    with contextlib.suppress(sqlite3.Error):
        connection = sqlite3.connect(database, timeout=1)
        with contextlib.closing(connection):
            connection.execute("SELECT count(*) FROM entry").fetchone()


def read_until(writer: subprocess.Popen[bytes], commits: int, meddle: Path | None) -> bytes:
    """What the writer printed up to that many commits."""
    assert writer.stdout is not None
    printed = b""
    give_up = time.monotonic() + LONGEST_WAIT
    while printed.count(b"\n") < commits:
        if time.monotonic() > give_up:
            raise Failed(f"the writer did not make {commits} commits in {LONGEST_WAIT:.0f} s")
        if meddle is not None and meddle.exists():
            look_at(meddle)
        if select.select([writer.stdout], [], [], 0.05)[0]:
            some = os.read(writer.stdout.fileno(), 65536)
            if not some:
                raise Failed(f"the writer ended by itself: {complaint(writer)}")
            printed += some
    return printed


def complaint(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    process.wait()
    return process.stderr.read().decode(errors="replace").strip() or f"exit {process.returncode}"


def write_and_kill(command: list[str], choose: random.Random, meddle: Path | None) -> list[str]:
    """One life of the writer; the lines of the commits it acknowledged."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as writer:
        assert writer.stdout is not None
        try:
            # One life in eight ends while the session is being opened or made.
            commits = 0 if choose.random() < 1 / 8 else choose.randint(1, 60)
            printed = read_until(writer, commits, meddle)
            # Somewhere within the next commits, not always right after one was acknowledged.
            select.select([], [], [], choose.random() * 0.01)
        finally:
            writer.send_signal(signal.SIGKILL)
        rest, stderr = writer.communicate(timeout=LONGEST_WAIT)
        if writer.returncode != -signal.SIGKILL:
            raise Failed(f"the writer ended by itself: {stderr.decode(errors='replace').strip()}")
    # The last line may be cut off: then the commit's acknowledgement never arrived.
    return (printed + rest).decode().split("\n")[:-1]


def check(command: list[str], acknowledged: list[str]) -> str:
    """Reopens the session; says what is wrong with it by failing."""
    lines = "".join(f"{line}\n" for line in acknowledged)
    checker = subprocess.run(
        command, input=lines, text=True, capture_output=True, timeout=LONGEST_WAIT, check=False
    )
    if checker.returncode != 0:
        raise Failed(f"{checker.stderr.strip() or checker.stdout.strip() or f'exit {checker.returncode}'}")
    return checker.stdout.strip()


def check_integrity(database: Path) -> None:
    if not database.exists():
        return
    with contextlib.closing(sqlite3.connect(database)) as connection:
        found = connection.execute("PRAGMA integrity_check").fetchall()
    if found != [("ok",)]:
        raise Failed(f"integrity_check: {found[:3]}")


class Session:
    """A session that one writer after the other goes on with."""

    def __init__(self, folder: Path, place: str, name: str) -> None:
        scheme, below = place.split(":")
        self.name = name
        self.uri = f"{scheme}:{folder / below}"
        # The lines that all its writers printed.
        self.acknowledged: list[str] = []
        if scheme == "jsonl":
            self.database: Path | None = None
        elif below.endswith(".sqlite"):
            self.database = folder / below
        else:
            self.database = folder / below / f"{name}.sqlite"


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rounds", type=int, default=50, help="in all, or with --each of each place")
    arguments.add_argument("--each", action="store_true")
    arguments.add_argument("--durability", choices=["power", "process"], default="power")
    arguments.add_argument("--seed", type=int, default=None)
    options = arguments.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    rounds = options.rounds * (len(PLACES) if options.each else 1)
    print(f"{rounds} rounds at durability {options.durability}, seed {seed}", flush=True)

    choose = random.Random(seed)
    program = str(build_writer())
    folder = Path(tempfile.mkdtemp(prefix="pisession-soak-"))
    sessions: dict[str, Session] = {}
    passed = failed = commits = 0
    for turn in range(rounds):
        place, number = PLACES[turn % len(PLACES)], turn // len(PLACES)
        if number % ROUNDS_PER_SESSION == 0:
            sessions[place] = Session(folder, place, f"session-{number // ROUNDS_PER_SESSION}")
        session = sessions[place]
        try:
            meddle = session.database if number % 2 else None
            command = [program, "write", session.uri, session.name, options.durability]
            more = write_and_kill(command, choose, meddle)
            session.acknowledged += more
            commits += len(more)
            check([program, "check", session.uri, session.name], session.acknowledged)
            if session.database is not None:
                check_integrity(session.database)
            passed += 1
        except (Failed, subprocess.TimeoutExpired) as wrong:
            failed += 1
            print(f"round {turn}, {session.uri}, {session.name}: {wrong}", flush=True)
    if failed:
        print(f"the files are in {folder}")
    else:
        shutil.rmtree(folder)
    print(f"{commits} commits were acknowledged and looked for")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
