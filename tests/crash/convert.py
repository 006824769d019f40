#!/usr/bin/env python3
"""Kills conversions with SIGKILL at random points, and looks at both ends.

Sessions are made once by core/examples/crash_writer.rs. Each round converts them into another kind of
repository and kills the conversion; then the source must be as it was, byte for byte, and each session of the
destination either absent or whole and sound; and converting again must make what is missing and nothing else.

Ends with "N passed, N failed". The seed is printed; --seed repeats the same choices.
"""

import argparse
import hashlib
import json
import os
import random
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from soak import Failed, build_writer, read_until

ROOT = Path(__file__).resolve().parents[2]
SESSIONS = 4
COMMITS = 100
# From where to where, below the folder of all.
WAYS = (
    ("sqlite:source.sqlite", "jsonl:lines"),
    ("jsonl:source", "sqlite:files"),
    ("jsonl:source", "sqlite:container.sqlite"),
    ("sqlite:source.sqlite", "sqlite:container.sqlite"),
)


def build_program() -> str:
    """The command line, built if it has to be."""
    subprocess.run(["cargo", "build", "--quiet", "--package", "pisession-cli"], cwd=ROOT, check=True)
    return str(ROOT / "target" / "debug" / "pisession")


def make_sessions(writer: Path, uri: str) -> None:
    for number in range(SESSIONS):
        command = [str(writer), "write", uri, f"session-{number}", "process"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
            try:
                read_until(process, COMMITS, None)
            finally:
                process.kill()


def bytes_of(path: Path) -> str:
    """A hash of every file at `path` that holds data; locks and the index of a log come and go."""
    sums = hashlib.sha256()
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    for file in (file for file in files if file.is_file() and file.suffix in (".jsonl", ".sqlite")):
        sums.update(str(file).encode())
        sums.update(file.read_bytes())
    return sums.hexdigest()


class Program:
    """The command line."""

    def __init__(self, program: str) -> None:
        self.program = program

    def run(self, *arguments: str) -> str:
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{' '.join(arguments)}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def ids(self, uri: str) -> list[str]:
        if not Path(uri.split(":", 1)[1]).exists():
            return []
        lines = [json.loads(line) for line in self.run("ls", uri, "--json").splitlines()]
        wrong = [line for line in lines if "problem" in line]
        if wrong:
            raise Failed(f"what cannot be read is there: {wrong}")
        return [line["id"] for line in lines]

    def dump(self, uri: str, session: str) -> str:
        """The dump without the working folder, which a session of JSON lines always has."""
        return re.sub(r',"cwd":"[^"]*"', "", self.run("dump", f"{uri}#{session}"), count=1)

    def kill_conversion(self, source: str, into: str, after: float) -> None:
        command = [self.program, "convert", source, into]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            select.select([], [], [], after)
            process.kill()
            process.communicate()


def look(program: Program, into: str, dumps: dict[str, str]) -> int:
    """Whether each session there is whole; how many there are."""
    ids = program.ids(into)
    for session in ids:
        if program.dump(into, session) != dumps[session]:
            raise Failed(f"the session {session} is there and is not whole")
    if ids:
        program.run("doctor", into, "--full")
    return len(ids)


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=None)
    options = arguments.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"{options.rounds} rounds, seed {seed}", flush=True)
    choose = random.Random(seed)
    program = Program(build_program())
    writer = build_writer()
    folder = Path(tempfile.mkdtemp(prefix="pisession-convert-"))
    os.chdir(folder)
    dumps: dict[str, dict[str, str]] = {}
    hashes: dict[str, str] = {}
    for source in sorted({source for source, _ in WAYS}):
        make_sessions(writer, source)
        # What the killed writers left in the log is taken in.
        subprocess.run(
            [str(writer), "check", source, "session-0"], input="", text=True, capture_output=True, check=False
        )
        dumps[source] = {session: program.dump(source, session) for session in program.ids(source)}
        assert len(dumps[source]) == SESSIONS
        hashes[source] = bytes_of(folder / source.split(":")[1])
    passed = failed = found = 0
    for turn in range(options.rounds):
        source, into = WAYS[turn % len(WAYS)]
        into = f"{into.split(':')[0]}:{turn}-{into.split(':')[1]}"
        try:
            began = time.monotonic()
            program.run(
                "convert", source, f"{into}.whole.db" if into.startswith("sqlite") else f"{into}.whole"
            )
            whole = time.monotonic() - began
            for _ in range(2):
                program.kill_conversion(source, into, choose.random() * whole)
                found += look(program, into, dumps[source])
            program.run("convert", source, into)
            if look(program, into, dumps[source]) != SESSIONS:
                raise Failed("a session is missing that should have been made the second time")
            if bytes_of(folder / source.split(":")[1]) != hashes[source]:
                raise Failed("the source was changed")
            passed += 1
        except (Failed, subprocess.TimeoutExpired) as wrong:
            failed += 1
            print(f"round {turn}, {source} to {into}: {wrong}", flush=True)
    if failed:
        print(f"the files are in {folder}")
    else:
        shutil.rmtree(folder)
    print(f"{found} whole sessions were found after {2 * options.rounds} conversions were killed")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
