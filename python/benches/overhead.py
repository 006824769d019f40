#!/usr/bin/env python3
"""What Python adds to the core: processor time through both, the difference and the ratio.

The core's side is `core.rs` beside this file. Both are processor time of a thread, the best of
ten tries: a machine does other things as well. The package must be of a release build.

usage: overhead.py CORE [ROUNDS]

CORE is the program made of core.rs.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pisession

MESSAGE = {
    "role": "user",
    "content": [
        {"type": "text", "text": "word " * 100},
        {"type": "tool", "name": "read", "arguments": {"path": "src/main.rs", "from": 1, "to": 40}},
        {"type": "text", "text": "wörd " * 50 + "\n"},
    ],
    "timestamp": 1_700_000_000_000,
    "usage": {"input": 100, "output": 20.5, "cached": True, "other": None},
}
# What an operation through Python may take longer, in microseconds.
READ, APPEND = 5.0, 15.0


def per_round(rounds: int, operation: Callable[[], object]) -> float:
    """Nanoseconds of this thread's processor time a round takes; the best of ten tries."""
    best = float("inf")
    for _ in range(10):
        before = time.thread_time_ns()
        for _ in range(rounds):
            operation()
        best = min(best, (time.thread_time_ns() - before) / rounds)
    return best


def measure(kind: str, folder: Path, rounds: int) -> dict[str, float]:
    """Run every operation on a session of that kind."""
    uri = "memory:" if kind == "memory" else f"{kind}:{folder / kind}"
    took = {}
    with (
        pisession.open_repository(uri, durability="process") as repository,
        repository.create() as session,
    ):
        main = session.create_branch("main")
        took["append_message"] = per_round(rounds, lambda: main.append_message(MESSAGE))
        session.set_value("app", "counter", 1)
        took["get_value"] = per_round(rounds, lambda: session.get_value("app", "counter"))
        session.append_list("app", "list", 1)
        took["read_list"] = per_round(rounds, lambda: session.read_list("app", "list"))
        tip = main.tip_id()
        assert tip is not None
        took["get_entry"] = per_round(rounds, lambda: session.get_entry(tip))
        took["find_entry"] = per_round(rounds, main.find_entry)
        took["find_50_entries"] = per_round(rounds // 10, lambda: main.find_entries(limit=50))
        took["stats"] = per_round(rounds, session.stats)
        took["tip_id"] = per_round(rounds, main.tip_id)
    return took


def main() -> int:
    """Print the table; 1 if something takes longer than it may."""
    core, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    message = json.dumps(MESSAGE, ensure_ascii=False, separators=(",", ":"))
    with tempfile.TemporaryDirectory() as folder:
        printed = subprocess.run(
            [core, folder, message, str(rounds)], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    by_core = {
        (kind, what): float(nanos)
        for kind, what, nanos in (line.split() for line in printed.splitlines())
    }
    print(f"processor time, a message of {len(message.encode())} bytes, durability process")
    print(f"{'operation':<24} {'core':>10} {'Python':>10} {'more':>10} {'ratio':>7}  aim")
    missed = 0
    for kind in ("memory", "jsonl", "sqlite"):
        with tempfile.TemporaryDirectory() as folder:
            took = measure(kind, Path(folder), rounds)
        for what, nanos in took.items():
            ours, more = by_core[kind, what], (nanos - by_core[kind, what]) / 1e3
            aim = APPEND if what == "append_message" else READ
            if what == "find_50_entries":
                aim = 50 * READ
            missed += more > aim
            print(
                f"{kind + ' ' + what:<24} {ours / 1e3:>7.2f} us {nanos / 1e3:>7.2f} us "
                f"{more:>7.2f} us {nanos / max(ours, 1):>6.1f}x  < {aim:g} us"
                + (" MISSED" if more > aim else "")
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
