"""Another SQLite library in the writing process: no acknowledged commit may be missing.

A child process appends to a session through `pisession` and prints each acknowledged commit. Beside the
writer, in the same process, a thread opens and closes the file with Python's own `sqlite3`, copies the whole
folder, or drops this process's locks while other processes open and close. Then the child is killed with
SIGKILL. Afterwards every acknowledged entry must be there, and no other signal may have ended the child.

    python3 tests/crash/foreign_sqlite.py [ROUNDS]
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

STRANGERS = ("peek", "copy", "outside")
PEEK = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
    "c.execute('SELECT * FROM session').fetchall(); c.close()"
)


def peek(path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.execute("SELECT count(*) FROM entry").fetchall()
    except sqlite3.DatabaseError as error:
        # Another library may find the file locked or in the middle of a change; it must not harm the writer.
        print(f"stranger: {error}", file=sys.stderr)
    connection.close()


def copy(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(path.parent, Path(folder) / "copy", ignore_dangling_symlinks=True)


def outside(path: Path) -> None:
    # Closing any descriptor of a file drops the POSIX locks that this process has on it.
    path.open("rb").close()
    subprocess.run([sys.executable, "-c", PEEK, str(path)], check=False)


def write(folder: Path, stranger: str, commits: int) -> None:
    import pisession

    with pisession.open_repository(f"sqlite:{folder}") as repository:
        session = repository.create(id="s")
        main = session.create_branch("main")
        (path,) = folder.glob("*.sqlite")
        bothering = {"peek": peek, "copy": copy, "outside": outside}[stranger]

        def bother() -> None:
            while True:
                bothering(path)

        threading.Thread(target=bother, daemon=True).start()
        try:
            for count in range(commits):
                main.append_message({"role": "user", "content": "x" * 500})
                print(count + 1, flush=True)
        except pisession.ForeignSqliteError as error:
            # The stranger was noticed: nothing more is acknowledged, and nothing that was may be missing.
            print(error, file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)


def check(stranger: str, commits: int) -> str | None:
    """One round; what was wrong with it, if anything."""
    import pisession

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "sessions"
        arguments = [sys.executable, __file__, "--write", str(folder), stranger, str(commits)]
        child = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=False)
        acknowledged = int((child.stdout.split() or ["0"])[-1])
        if child.returncode != -signal.SIGKILL:
            return f"the writer ended with {child.returncode} after {acknowledged} commits"
        with pisession.open_repository(f"sqlite:{folder}") as repository, repository.open("s") as session:
            found = session.stats().message_count
        if found < acknowledged:
            return f"{acknowledged} commits were acknowledged and {found} are there"
    return None


def main() -> int:
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else int(os.environ.get("ROUNDS", "6"))
    failures = 0
    for number in range(rounds):
        stranger = STRANGERS[number % len(STRANGERS)]
        problem = check(stranger, 300)
        failures += problem is not None
        print(f"{number + 1}/{rounds} {stranger}: {problem or 'ok'}")
    print(f"{rounds - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
