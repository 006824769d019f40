#!/usr/bin/env python3
"""Kills a program that forks a session with SIGKILL at random points, again and again.

Each round: a session that a writer made (core/examples/crash_writer.rs) is forked and the fork deleted,
over and over, until the kill; in every other round the writer goes on writing it all the while. Then the
source must hold every commit that was acknowledged, the fork must be there whole or not at all, the same
fork must be possible at once, and nothing unfinished may lie about.

Source and destination are kept in a folder of SQLite files, in a SQLite container and as JSON lines, turn
by turn. Ends with "N passed, N failed". The seed is printed; --seed repeats the same choices.
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
from pathlib import Path

from soak import LONGEST_WAIT, PLACES, Failed, Session, build_writer, check, check_integrity, write_and_kill

# How many commits a source has at the least.
COMMITS = 150


def fork_and_kill(command: list[str], choose: random.Random) -> int:
    """One life of the program that forks; how many forks it made."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as forker:
        assert forker.stdout is not None
        made = 0
        try:
            for _ in range(choose.randint(0, 3)):
                if not select.select([forker.stdout], [], [], LONGEST_WAIT)[0]:
                    raise Failed(f"no fork was made in {LONGEST_WAIT:.0f} s")
                some = os.read(forker.stdout.fileno(), 65536)
                if not some:
                    break
                made += some.count(b"\n")
            # Somewhere within the next fork.
            select.select([], [], [], choose.random() * 0.08)
        finally:
            forker.send_signal(signal.SIGKILL)
        _, stderr = forker.communicate(timeout=LONGEST_WAIT)
        if forker.returncode != -signal.SIGKILL:
            raise Failed(f"the program that forks ended by itself: {stderr.decode(errors='replace').strip()}")
    return made


def check_nothing_is_left(place: Path) -> None:
    """Only sessions lie where forks were made."""
    if place.suffix == ".sqlite":
        with contextlib.closing(sqlite3.connect(place)) as connection:
            unfinished = connection.execute("SELECT id, state FROM session_row WHERE state <> 0").fetchall()
            strays = connection.execute(
                "SELECT count(*) FROM entry_row WHERE sid NOT IN (SELECT sid FROM session_row)"
            ).fetchone()[0]
        if unfinished or strays:
            raise Failed(f"left in the container: {unfinished}, {strays} rows of no session")
    left = [
        path
        for path in place.parent.rglob("*")
        if path.name.endswith((".new", ".tmp")) or (path.name.endswith(".lock") and "-fork" in path.name)
    ]
    if left:
        raise Failed(f"left behind: {left}")


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rounds", type=int, default=50)
    arguments.add_argument("--durability", choices=["power", "process"], default="process")
    arguments.add_argument("--seed", type=int, default=None)
    options = arguments.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"{options.rounds} rounds of forks at durability {options.durability}, seed {seed}", flush=True)

    choose = random.Random(seed)
    program = str(build_writer())
    folder = Path(tempfile.mkdtemp(prefix="pisession-forks-"))
    sources: dict[str, Session] = {}
    passed = failed = forks = 0
    for turn in range(options.rounds):
        place = PLACES[turn % len(PLACES)]
        scheme, below = PLACES[turn // len(PLACES) % len(PLACES)].split(":")
        into = folder / f"forks-{turn % len(PLACES)}" / below
        try:
            source = sources.get(place)
            if source is None:
                source = sources[place] = Session(folder, place, "source")
            write = [program, "write", source.uri, source.name, "process"]
            while len(source.acknowledged) < COMMITS:
                source.acknowledged += write_and_kill(write, choose, None)
            fork = [program, "fork", source.uri, source.name, f"{scheme}:{into}", options.durability]
            if turn % 2 == 0:
                forks += fork_and_kill(fork, choose)
            else:
                with subprocess.Popen(write, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as writer:
                    try:
                        forks += fork_and_kill(fork, choose)
                    finally:
                        writer.send_signal(signal.SIGKILL)
                        printed, _ = writer.communicate(timeout=LONGEST_WAIT)
                source.acknowledged += printed.decode().split("\n")[:-1]
            check([program, "check", source.uri, source.name], source.acknowledged)
            check([program, "check-fork", source.uri, source.name, f"{scheme}:{into}"], [])
            if source.database is not None:
                check_integrity(source.database)
            check_nothing_is_left(into)
            # A source that only grows makes every round longer.
            if len(source.acknowledged) > 10 * COMMITS:
                del sources[place]
                for path in folder.glob(f"{place.split(':')[1]}*"):
                    if path.is_dir():
                        shutil.rmtree(path)
                    else:
                        path.unlink()
            passed += 1
        except (Failed, subprocess.TimeoutExpired) as wrong:
            failed += 1
            print(f"round {turn}, {place} into {scheme}:{into}: {wrong}", flush=True)
    if failed:
        print(f"the files are in {folder}")
    else:
        shutil.rmtree(folder)
    print(f"{forks} forks were made and deleted")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
