"""Threads share handles; waiting releases the interpreter; dropping never waits."""

import gc
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pisession


def test_threads_share_a_session_and_lose_no_increment(session: pisession.Session) -> None:
    def count(m: pisession.Mutator) -> None:
        m.set_value("app", "counter", m.get_value("app", "counter", default=0) + 1)

    def work(_: int) -> None:
        for _ in range(25):
            session.mutate(count)
            session.stats()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert session.get_value("app", "counter") == 200


def test_threads_share_a_branch_and_every_append_is_on_it(main: pisession.Branch) -> None:
    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda n: main.append_message({"n": n}), range(100)))
    assert sorted(ids) == sorted(entry.id for entry in main.find_entries())


def test_threads_share_an_iterator_and_each_entry_comes_once(main: pisession.Branch) -> None:
    ids = main.append_many([pisession.NewMessage({"n": n}) for n in range(1000)])
    shared = iter(main.entries())

    def take(_: int) -> list[str]:
        return [entry.id for entry in shared]

    with ThreadPoolExecutor(4) as threads:
        taken = [id for some in threads.map(take, range(4)) for id in some]
    assert sorted(taken) == sorted(ids)


def test_threads_share_one_mutation(session: pisession.Session) -> None:
    with session.begin_mutation() as m, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: m.append_list("app", "log", n), range(200)))
    elements = session.read_list("app", "log")
    assert sorted(element.value for element in elements) == list(range(200))


class Waiter(threading.Thread):
    """A thread that waits for the mutation line."""

    def __init__(
        self, session: pisession.Session, ctx: pisession.Context | None = None, name: str = ""
    ) -> None:
        super().__init__(name=name)
        self.session = session
        self.ctx = ctx
        self.error: BaseException | None = None
        self.waiting = threading.Event()
        self.start()
        self.waiting.wait()

    def run(self) -> None:
        self.waiting.set()
        try:
            with self.session.begin_mutation(ctx=self.ctx) as m:
                m.append_list("app", "order", self.name)
        except pisession.Error as error:
            self.error = error


def test_others_run_while_one_waits(session: pisession.Session) -> None:
    with session.begin_mutation():
        waiter = Waiter(session)
        for _ in range(1000):
            assert session.stats().message_count == 0, "reads do not wait either"
        assert waiter.is_alive()
    waiter.join()
    assert waiter.error is None


def test_a_waiter_is_cancelled_and_another_thread_runs_out_of_time(
    session: pisession.Session,
) -> None:
    ctx = pisession.Context()
    with session.begin_mutation():
        cancelled = Waiter(session, ctx)
        late = Waiter(session, pisession.Context(timeout=0.05))
        ctx.cancel()
        cancelled.join()
        late.join()
    assert isinstance(cancelled.error, pisession.CancelledError)
    assert isinstance(late.error, pisession.DeadlineExceededError)
    assert session.read_list("app", "order") == []


def test_close_refuses_the_waiting_and_waits_for_the_begun(session: pisession.Session) -> None:
    m = session.begin_mutation()
    waiter = Waiter(session)
    closer = threading.Thread(target=session.close)
    closer.start()
    waiter.join()
    assert isinstance(waiter.error, pisession.ClosedError)
    m.set_value("app", "x", 1)
    m.commit()
    assert not session.closed
    m.end()
    closer.join()
    assert session.closed


def test_handles_are_dropped_on_another_thread(repository: pisession.Repository) -> None:
    session = repository.create(id="s")
    main = session.create_branch("main")
    main.append_many([pisession.NewMessage({"n": n}) for n in range(600)])
    m = session.begin_mutation()
    entries = main.entries()
    next(iter(entries))
    held: list[object] = [entries, main, m]
    del main, m, entries
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    session.set_value("app", "x", 1)  # the mutation ended with its handle
    held.append(session)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del session
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
    repository.open("s").close()


def test_an_unclosed_session_warns_and_gives_its_lock_back(
    repository: pisession.Repository,
) -> None:
    session = repository.create(id="s")
    session.set_name("kept")
    held = [session]
    del session
    with pytest.warns(ResourceWarning, match="unclosed <pisession.Session 's'>"):
        held.clear()
    with repository.open("s") as session:
        assert session.name() == "kept"


def test_a_branch_keeps_its_session_alive(repository: pisession.Repository) -> None:
    held = [repository.create(id="s").create_branch("main")]
    gc.collect()
    held[0].append_message({"role": "user"})
    with pytest.warns(ResourceWarning):
        held.clear()


def test_dropping_a_session_does_not_wait_for_its_mutation(
    repository: pisession.Repository,
) -> None:
    session = repository.create(id="s")
    m = session.begin_mutation()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del session
        gc.collect()
        m.set_value("app", "x", 1)
        m.commit()
        del m
        gc.collect()
    with repository.open("s") as again:
        assert again.get_value("app", "x") == 1


WAITS: dict[str, Callable[[pisession.Session, pisession.Branch, pisession.Context], object]] = {
    "begin": lambda session, main, ctx: session.begin_mutation(ctx=ctx),
    "append": lambda session, main, ctx: main.append_message({}, ctx=ctx),
    "set_value": lambda session, main, ctx: session.set_value("app", "x", 1, ctx=ctx),
    "close": lambda session, main, ctx: session.close(ctx=ctx),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_thread_ticks_while_another_waits_a_second(
    session: pisession.Session,
    main: pisession.Branch,
    wait: Callable[[pisession.Session, pisession.Branch, pisession.Context], object],
) -> None:
    ticks, stop = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.wait(0.005):
            ticks += 1

    ticking = threading.Thread(target=tick)
    begun, release = threading.Event(), threading.Event()

    def hold() -> None:
        with session.begin_mutation():
            begun.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    begun.wait()
    ticking.start()
    try:
        with pytest.raises(pisession.DeadlineExceededError):
            wait(session, main, pisession.Context(timeout=1))
        seen = ticks
    finally:
        stop.set()
        release.set()
        ticking.join()
        holder.join()
    assert seen >= 50


def test_a_thread_ticks_while_a_long_query_runs(tmp_path: Path) -> None:
    ticks, stop = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.wait(0.005):
            ticks += 1

    ticking = threading.Thread(target=tick)
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    )
    with pisession.open_repository(f"sqlite:{tmp_path}") as repository:
        session = repository.create()
        ticking.start()
        try:
            with pytest.raises(pisession.DeadlineExceededError):
                session.query(endless, ctx=pisession.Context(timeout=1))
        finally:
            stop.set()
            ticking.join()
    assert ticks >= 50
