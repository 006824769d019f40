"""A notebook that several programs keep together, one at a time.

usage: notebook.py REPOSITORY-URI SESSION-ID [TURNS]

Each turn this program opens the session, writes a line on its own branch `python`, counts
the turn in a value that all programs share, prints what it sees, and closes the session
again. A session is open for writing in one place at a time, so while the other program (the
same thing in C: examples/c/notebook.c) has its turn, this one waits for its own.
"""

import sys
import time

import pisession

BRANCH = "python"
LONGEST_WAIT = 30.0  # seconds


def main() -> int:
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    uri, session_id = sys.argv[1:3]
    turns = int(sys.argv[3]) if len(sys.argv) == 4 else 1

    with pisession.open_repository(uri) as repository:
        for turn in range(1, turns + 1):
            with open_session(repository, session_id) as session:
                take_turn(session, turn)
            time.sleep(0.05)  # the others' chance to take theirs
    return 0


def open_session(
    repository: pisession.Repository, session_id: str
) -> pisession.Session:
    """Open the session, or make it; wait while another program has it."""
    give_up = time.monotonic() + LONGEST_WAIT
    while True:
        try:
            return repository.open(session_id)
        except pisession.UnknownSessionError:
            pass  # it is made below
        except pisession.SessionBusyError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.01)
            continue
        try:
            return repository.create(id=session_id)
        except pisession.SessionExistsError:
            pass  # another program was faster: open its session


def take_turn(session: pisession.Session, turn: int) -> None:
    branch = session.branch(BRANCH) or session.create_branch(BRANCH)
    branch.append_message({"role": "user", "content": f"turn {turn} of Python"})

    # Read, decide, commit: between `with` and the end of the block nobody else writes.
    with session.begin_mutation() as m:
        count = m.get_value("notebook", "turns", default=0)
        m.set_value("notebook", "turns", count + 1)

    print(f"python: turn {turn}, {count + 1} turns by all")
    for info in session.branches():
        print(f"  {info.name}: {newest_message(session, info.name)}")


def newest_message(session: pisession.Session, name: str) -> str:
    branch = session.branch(name)
    entry = branch and branch.find_entry(type="message")
    return str(entry.message.get("content")) if entry else "nothing yet"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pisession.Error as error:
        sys.exit(f"notebook.py: {error}")
