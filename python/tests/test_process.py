"""Whole programs: Ctrl-C while waiting, how programs end, forks, SQLite beside us."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import URIS, run, start, wait_until

import pisession

BLOCKED = {
    "begin": "session.begin_mutation()",
    "append": "branch.append_message({'role': 'user'})",
    "create_branch": "session.create_branch('other')",
    "mutate": "session.mutate(lambda m: None)",
    "close": "session.close()",
    "close_repository": "repository.close()",
}

INTERRUPTED = """
    import sys, threading
    import pisession

    repository = pisession.open_repository(sys.argv[1])
    session = repository.create()
    branch = session.create_branch("main")
    held, release = threading.Event(), threading.Event()

    def hold():
        with session.begin_mutation():
            held.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    print("waiting", flush=True)
    try:
        {call}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    release.set()
    holder.join()
    # The place in the queue was given back: the line is free, or closed by the call.
    try:
        session.set_name("after")
    except pisession.ClosedError:
        pass
    repository.close()
"""


@pytest.mark.parametrize("call", BLOCKED.values(), ids=BLOCKED)
def test_ctrl_c_is_noticed_while_a_call_waits(call: str, uri: str) -> None:
    program = start(INTERRUPTED.format(call=call), uri)
    assert program.stdout is not None
    assert program.stdout.readline() == "waiting\n"
    # The program sleeps in the wait now, or will in a moment; either way the signal must be seen.
    wait_until(lambda: sleeps(program), "the wait")
    program.send_signal(signal.SIGINT)
    line = program.stdout.readline()
    stdout, stderr = program.communicate(timeout=60)
    assert (program.returncode, stderr) == (0, ""), stdout
    assert line == "interrupted\n"


def sleeps(program: "subprocess.Popen[str]") -> bool:
    return "\tS" in Path(f"/proc/{program.pid}/status").read_text()


AT_WORK = {
    "a lock of another program": """
        other = lock(session.metadata.path)
        begin()
        session.set_name("x")
    """,
    "a long query": """
        begin()
        session.query(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        )
    """,
}

WORKING = '''
    import signal, subprocess, sys
    import pisession

    LOCK = """if True:
        import sqlite3, sys
        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        print("locked", flush=True)
        sys.stdin.read()
        connection.close()
    """

    def lock(path):
        arguments = [sys.executable, "-c", LOCK, str(path)]
        other = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert other.stdout.readline() == b"locked\\n"
        return other

    def begin():
        signal.setitimer(signal.ITIMER_REAL, 0.05)

    {handler}
    repository = pisession.open_repository(sys.argv[1], busy_timeout=3600)
    session = repository.create()
    try:
        {call}
    except {expected} as error:
        print(type(error).__name__)
    sys.stdout.flush()
    if "other" in globals():
        other.communicate()
    session.set_name("after")
    repository.close()
'''


@pytest.mark.parametrize("call", AT_WORK.values(), ids=AT_WORK)
def test_ctrl_c_is_noticed_while_storage_is_at_work(call: str, tmp_path: Path) -> None:
    handler = "signal.signal(signal.SIGALRM, signal.default_int_handler)"
    program = working(handler, call, "KeyboardInterrupt")
    assert run(program, f"sqlite:{tmp_path}") == "KeyboardInterrupt\n"


@pytest.mark.parametrize("call", AT_WORK.values(), ids=AT_WORK)
def test_a_signal_handler_cannot_use_a_session_inside_a_call(call: str, tmp_path: Path) -> None:
    handler = "signal.signal(signal.SIGALRM, lambda *_: print(session.name()))"
    program = working(handler, call, "pisession.NestedMutationError")
    assert run(program, f"sqlite:{tmp_path}") == "NestedMutationError\n"


def working(handler: str, call: str, expected: str) -> str:
    indented = textwrap.indent(textwrap.dedent(call).strip(), " " * 8).strip()
    return WORKING.format(handler=handler, call=indented, expected=expected)


def test_a_signal_handler_that_does_not_raise_keeps_the_place_in_the_queue(uri: str) -> None:
    printed = run(
        """
        import signal, sys, threading
        import pisession

        seen = []
        signal.signal(signal.SIGALRM, lambda *_: (seen.append(1), release.set()))
        repository = pisession.open_repository(sys.argv[1])
        session = repository.create()
        held, release = threading.Event(), threading.Event()

        def hold():
            with session.begin_mutation() as m:
                m.append_list("app", "order", "holder")
                held.set()
                release.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with session.begin_mutation() as m:   # the handler runs while this waits, and frees it
            m.append_list("app", "order", "main")
        holder.join()
        print(seen, [element.value for element in session.read_list("app", "order")])
        repository.close()
        """,
        uri,
    )
    assert printed == "[1] ['holder', 'main']\n"


PROGRAMS = {
    "nothing": "",
    "idle": "session = repository.create(); session.close()",
    "closed": "with repository, repository.create() as session: session.set_name('x')",
    "repository closed": "session = repository.create(); repository.close()",
    "many sessions": "kept = [repository.create() for _ in range(20)]; repository.close()",
    "iterator left": (
        "session = repository.create(); b = session.create_branch('main');"
        "b.append_many([pisession.NewMessage({}) for _ in range(600)]);"
        "it = iter(b.entries()); next(it); repository.close()"
    ),
    "cycle": "session = repository.create(); c = [session]; c.append(c); repository.close(); del c",
    "mutation ended": (
        "session = repository.create(); m = session.begin_mutation(); m.end(); repository.close()"
    ),
    "error caught": "session = repository.create()\ntry: session.create_branch('')\n"
    "except pisession.Error: pass\nrepository.close()",
    "daemon reads": (
        "session = repository.create()\n"
        "def read():\n"
        "    try:\n"
        "        while True: session.stats()\n"
        "    except pisession.Error: pass\n"
        "threading.Thread(target=read, daemon=True).start()\nrepository.close()"
    ),
    "daemon waits": (
        "session = repository.create(); m = session.begin_mutation()\n"
        "def wait():\n"
        "    try: session.begin_mutation()\n"
        "    except pisession.Error: pass\n"
        "threading.Thread(target=wait, daemon=True).start(); m.end(); repository.close()"
    ),
    "thread": (
        "session = repository.create(); t = threading.Thread(target=session.set_name, args=('x',));"
        "t.start(); t.join(); repository.close()"
    ),
    "cancelled": (
        "session = repository.create(); ctx = pisession.Context(); ctx.cancel()\n"
        "try: session.set_name('x', ctx=ctx)\nexcept pisession.CancelledError: pass\n"
        "repository.close()"
    ),
    "timed out": (
        "session = repository.create()\n"
        "try: session.set_name('x', ctx=pisession.Context(timeout=0))\nexcept TimeoutError: pass\n"
        "repository.close()"
    ),
    "exit inside": "session = repository.create()\nrepository.close()\nsys.exit(0)",
    "context only": "ctx = pisession.Context(timeout=1)",
    "record kept": "session = repository.create(); x = session.metadata; repository.close()",
}

LEFT_OPEN = {
    "unclosed": "session = repository.create(); session.set_name('x')",
    "unclosed in mutation": "session = repository.create(); m = session.begin_mutation()",
    "held by a daemon": (
        "session = repository.create(); held = threading.Event()\n"
        "def hold():\n"
        "    with session.begin_mutation():\n"
        "        held.set(); threading.Event().wait()\n"
        "threading.Thread(target=hold, daemon=True).start(); held.wait()"
    ),
}


BUSY_DAEMONS = """
    import sys, threading
    import pisession

    repository = pisession.open_repository(sys.argv[1])
    session = repository.create()
    branch = session.create_branch("main")
    started = threading.Barrier(4)

    def work(call):
        started.wait()
        while True:
            try:
                call()
            except pisession.ClosedError:
                pass

    for call in (session.stats, lambda: branch.append_message({}), branch.find_entries):
        threading.Thread(target=work, args=(call,), daemon=True).start()
    started.wait()
"""


@pytest.mark.parametrize("attempt", range(10))
def test_daemon_threads_that_never_stop_do_not_disturb_the_end(attempt: int, uri: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BUSY_DAEMONS), uri],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, ""), f"attempt {attempt}"


ENDS = {
    "idle": "done.wait()",
    "busy": "while True: branch.append_message({}); session.find_entries(limit=5)",
    "cancelled": "while True: held.wait(); session.set_name('x', ctx=ctx)",
}

ENDING = """
    import sys, threading
    import pisession

    repository = pisession.open_repository(sys.argv[1], durability="process")
    session = repository.create()
    branch = session.create_branch("main")
    ctx, done, held = pisession.Context(), threading.Event(), threading.Event()
    begun = threading.Barrier(4)

    def work():
        begun.wait()
        try:
            {work}
        except pisession.Error:
            pass

    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    begun.wait()
    with session.begin_mutation():
        held.set()
        ctx.cancel()
    {end}
"""


@pytest.mark.parametrize("end", ["repository.close()", "session.close()", "sys.exit()"])
@pytest.mark.parametrize("work", ENDS.values(), ids=ENDS)
def test_programs_end_well_whatever_their_threads_do(work: str, end: str, uri: str) -> None:
    code = textwrap.dedent(ENDING.format(work=work, end=end))
    for attempt in range(2):
        ended = subprocess.run(
            [sys.executable, "-c", code, uri], capture_output=True, text=True, timeout=60
        )
        assert (ended.returncode, ended.stderr) == (0, ""), f"attempt {attempt}"


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_short_programs_end_well_and_quietly(program: str, uri: str) -> None:
    run(
        "import sys, threading, pisession\nrepository = pisession.open_repository(sys.argv[1])\n"
        + program,
        uri,
    )


@pytest.mark.parametrize("program", LEFT_OPEN.values(), ids=LEFT_OPEN)
def test_what_is_left_open_is_closed_at_exit(program: str, uri: str) -> None:
    code = "import sys, threading, pisession\nrepository = pisession.open_repository(sys.argv[1])\n"
    ended = subprocess.run(
        [sys.executable, "-c", code + program, uri], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_is_left_open_warns_at_exit(uri: str) -> None:
    code = "import sys, pisession; s = pisession.open_repository(sys.argv[1]).create(id='s')"
    ended = subprocess.run(
        [sys.executable, "-W", "always", "-c", code, uri],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0
    assert "ResourceWarning: unclosed <pisession.Session 's'>" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_forked_child_is_refused_and_the_parent_goes_on(uri: str) -> None:
    printed = run(
        """
        import os, sys
        import pisession

        repository = pisession.open_repository(sys.argv[1])
        session = repository.create(id="s")
        branch = session.create_branch("main")
        branch.append_many([pisession.NewMessage({}), pisession.NewMessage({})])
        entries = branch.entries()
        next(entries)
        m = session.begin_mutation()
        calls = {
            "next": lambda: next(entries),
            "stats": session.stats,
            "begin": session.begin_mutation,
            "append": lambda: branch.append_message({"role": "user"}),
            "commit": m.commit,
            "close": session.close,
            "create": repository.create,
            "open": lambda: repository.open("s"),
            "list": repository.list,
            "close_repository": repository.close,
        }
        child = os.fork()
        if child == 0:
            for name, call in calls.items():
                try:
                    call()
                    print(name, "was not refused")
                except pisession.ForkedError:
                    pass
            # What the child opens itself works; what it drops and leaves open says nothing.
            with pisession.open_repository("memory:") as own, own.create() as mine:
                mine.set_name("child")
            del session, branch, m, calls
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        m.set_value("app", "x", 1)
        m.commit()
        m.end()
        branch.append_message({"role": "user"})
        print(status, session.get_value("app", "x"), session.stats().message_count)
        repository.close()
        """,
        uri,
    )
    assert printed == "0 1 3\n"


FORKED_EXIT = """
    import os, signal, sys, threading, warnings
    import pisession

    warnings.simplefilter("ignore")  # a fork beside threads is what this is about
    repository = pisession.open_repository(sys.argv[1])
    session = repository.create()
    held, release = threading.Event(), threading.Event()

    def hold():
        with repository._lock:
            held.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # ends one that hangs
        sys.exit(7)
    status = os.waitpid(child, 0)[1]
    release.set()
    holder.join()
    print(os.waitstatus_to_exitcode(status))
    repository.close()
"""


def test_a_forked_child_exits_whatever_other_threads_held(uri: str) -> None:
    assert run(FORKED_EXIT, uri) == "7\n"


FORKED_ITERATOR = """
    import os, signal, sys, threading, warnings
    import pisession

    warnings.simplefilter("ignore")
    repository = pisession.open_repository(sys.argv[1], durability="process")
    session = repository.create()
    branch = session.create_branch("main")
    branch.append_many([pisession.NewMessage({"text": "x" * 500}) for _ in range(2000)])
    entries, stop = branch.entries(), threading.Event()

    def read():
        global entries
        while not stop.is_set():
            for _ in entries:
                pass
            entries = branch.entries()

    reader = threading.Thread(target=read)
    reader.start()
    codes = set()
    for _ in range(30):
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            try:
                next(entries)
            except pisession.ForkedError:
                os._exit(7)
            os._exit(1)
        codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        if codes != {7}:
            break
    stop.set()
    reader.join()
    print(codes)
    repository.close()
"""


def test_an_iterator_is_refused_in_a_child_even_while_another_thread_reads(uri: str) -> None:
    assert run(FORKED_ITERATOR, uri) == "{7}\n"


def test_a_forked_child_may_leave_the_blocks_of_its_parent(uri: str) -> None:
    printed = run(
        """
        import os, sys
        import pisession

        with pisession.open_repository(sys.argv[1]) as repository, repository.create() as session:
            with session.begin_mutation() as m:
                m.set_value("app", "x", 1)
                child = os.fork()
                if child == 0:
                    sys.exit(7)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            child = os.fork()
        if child == 0:
            os._exit(8)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        uri,
    )
    assert printed == "7\n8\n"


FOREIGN = """
    import signal, sqlite3, sys
    import pisession

    repository = pisession.open_repository(sys.argv[1])
    session = repository.create(id="s")
    branch = session.create_branch("main")
    path = session.metadata.path or sys.argv[1].removeprefix("sqlite:")
    for number in range(50):
        session.set_value("app", "number", number)
        print(number, flush=True)
        connection = sqlite3.connect(path)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.close()
    signal.pause()
"""


@pytest.mark.parametrize("uri", [uri for uri in URIS if uri.startswith("sqlite:")], indirect=True)
def test_a_look_with_sqlite3_in_the_same_process_loses_no_commit(uri: str) -> None:
    program = start(FOREIGN, uri)
    assert program.stdout is not None
    acknowledged = -1
    while acknowledged < 49:
        line = program.stdout.readline()
        assert line, program.communicate()[1]
        acknowledged = int(line)
    program.kill()
    program.communicate()
    assert program.returncode == -signal.SIGKILL
    with pisession.open_repository(uri) as repository, repository.open("s") as session:
        assert session.get_value("app", "number") == acknowledged


ORPHAN = """
    import os, signal, sys
    import pisession

    repository = pisession.open_repository(sys.argv[1])
    session = repository.create(id="s")
    session.create_branch("main").append_message({"role": "user"})
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
        signal.pause()
    signal.pause()
"""


@pytest.mark.parametrize("uri", URIS[1:], indirect=True)
def test_a_child_does_not_keep_the_sessions_of_a_parent_that_was_killed(uri: str) -> None:
    program = start(ORPHAN, uri)
    assert program.stdout is not None
    child = int(program.stdout.readline())
    try:
        program.kill()
        program.wait()
        with pisession.open_repository(uri) as repository, repository.open("s") as session:
            assert session.stats().message_count == 1
            session.set_name("mine")
        assert Path(f"/proc/{child}").exists(), "the child lives"
    finally:
        os.kill(child, signal.SIGKILL)
        program.communicate()


MULTIPROCESSING = """
    import multiprocessing, sys, warnings
    import pisession

    def look(uri, queue):
        with pisession.open_repository(uri) as repository:
            if uri != "memory:":
                with repository.open_read_only("s") as session:
                    queue.put(session.stats().message_count)
                try:
                    repository.open("s")
                except pisession.SessionBusyError:
                    queue.put("busy")
        queue.put("done")

    def refused(handle, queue):
        try:
            handle.stats()
        except pisession.ForkedError:
            queue.put("forked")

    if __name__ == "__main__":
        warnings.simplefilter("ignore")
        uri, method = sys.argv[1:]
        context = multiprocessing.get_context(method)
        with pisession.open_repository(uri) as repository, repository.create(id="s") as session:
            main = session.create_branch("main")
            main.append_message({"role": "user"})
            queue = context.SimpleQueue()
            child = context.Process(target=look, args=(uri, queue))
            child.start()
            child.join()
            seen = []
            while not queue.empty():
                seen.append(queue.get())
            if method == "fork":
                other = context.Process(target=refused, args=(session, queue))
                other.start()
                other.join()
                seen.append(queue.get())
            else:
                try:
                    context.Process(target=refused, args=(session, queue)).start()
                except TypeError:
                    seen.append("no handle")
            main.append_message({"role": "user"})
            print(child.exitcode, *seen, session.stats().message_count)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_works_beside_an_open_session(
    uri: str, method: str, tmp_path: Path
) -> None:
    # A spawned child imports the program, so that it must be a file.
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(MULTIPROCESSING), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(program), uri, method], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    handles = "forked" if method == "fork" else "no handle"
    seen = "done" if uri == "memory:" else "1 busy done"
    assert ran.stdout == f"0 {seen} {handles} 2\n"
