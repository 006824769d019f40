"""Clocks and ids that the host gives: the same bytes every time, and what they raise is raised."""

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import run

import pisession


def counting() -> tuple[Callable[[], int], Callable[[int | None], str]]:
    """A clock that counts seconds, and ids that count."""
    seconds, numbers = itertools.count(1_700_000_000), itertools.count(1)
    return (
        lambda: next(seconds) * 1000,
        lambda timestamp: f"id-{next(numbers)}" + ("" if timestamp is None else f"-{timestamp}"),
    )


def write(uri: str) -> None:
    clock, ids = counting()
    with (
        pisession.open_repository(uri, clock=clock, ids=ids) as repository,
        repository.create(cwd="/work") as session,
    ):
        main = session.create_branch("main")
        main.append_message({"role": "user", "content": "hello"})
        with session.begin_mutation() as m:
            m.insert_message({"role": "user"}, parent_id=None)
            m.set_value("app", "x", 1)


def test_times_and_ids_are_those_of_the_host(uri: str) -> None:
    clock, ids = counting()
    with (
        pisession.open_repository(uri, clock=clock, ids=ids) as repository,
        repository.create() as session,
    ):
        assert session.id == "id-1"
        assert session.metadata.created_at == 1_700_000_000_000
        assert session.new_id(5) == "id-2-5"
        id = session.create_branch("main").append_message({"role": "user"})
        assert id == "id-3"
        entry = session.get_entry(id)
        assert entry is not None
        # The branch was made a second before.
        assert entry.timestamp == 1_700_000_002_000


def test_the_same_clock_and_ids_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write(f"jsonl:{tmp_path / name}")
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.jsonl")}
        for name in ("first", "second")
    )
    assert first == second
    assert len(first) == 1


def fail(*_: Any) -> Any:
    raise ZeroDivisionError("broken")


def test_what_a_clock_raises_the_call_raises_and_nothing_is_written(uri: str) -> None:
    broken = False

    def clock() -> int:
        if broken:
            fail()
        return 1_700_000_000_000

    with pisession.open_repository(uri, clock=clock) as repository:
        with repository.create() as session:
            main = session.create_branch("main")
            before = session.next_seq()
            broken = True
            with pytest.raises(ZeroDivisionError, match="broken"):
                main.append_message({"role": "user"})
            with pytest.raises(ZeroDivisionError), session.begin_mutation() as m:
                m.set_value("app", "x", 1)
            broken = False
            assert (session.next_seq(), session.get_value("app", "x")) == (before, None)
            main.append_message({"role": "user"})
        broken = True
        with pytest.raises(ZeroDivisionError):
            repository.create()
        assert len(repository.list()) == 1


def test_what_ids_raise_the_call_raises_and_nothing_is_written(uri: str) -> None:
    with pisession.open_repository(uri, ids=fail) as repository:
        with pytest.raises(ZeroDivisionError):
            repository.create()
        with repository.create(id="s") as session:
            main = session.create_branch("main")
            before = session.next_seq()
            calls: list[Callable[[], object]] = [
                lambda: main.append_message({"role": "user"}),
                session.new_id,
            ]
            for call in calls:
                with pytest.raises(ZeroDivisionError, match="broken"):
                    call()
            with session.begin_mutation() as m, pytest.raises(ZeroDivisionError):
                m.insert_message({}, parent_id=None)
            assert session.next_seq() == before
        assert len(repository.list()) == 1


@pytest.mark.parametrize("clock", [lambda: 1.5, lambda: None, lambda: "now"])
def test_a_clock_that_gives_no_int_is_a_type_error(clock: Any) -> None:
    with (
        pisession.open_repository("memory:", clock=clock) as repository,
        pytest.raises(TypeError),
    ):
        repository.create()


@pytest.mark.parametrize("time", [-1, 253_402_300_800_000])
def test_a_time_that_no_file_can_hold_is_refused(uri: str, time: int) -> None:
    with (
        pisession.open_repository(uri, clock=lambda: time) as repository,
        pytest.raises(pisession.InvalidArgumentError, match="clock"),
    ):
        repository.create()


@pytest.mark.parametrize("id", ["", "a\0b"])
def test_an_id_that_is_none_is_refused(uri: str, id: str) -> None:
    with pisession.open_repository(uri, ids=lambda _: id) as repository:
        with pytest.raises(pisession.InvalidIdError):
            repository.create()
        with repository.create(id="s") as session, pytest.raises(pisession.InvalidIdError):
            session.create_branch("main").append_message({})
        assert len(repository.list()) == 1


def test_what_is_not_callable_is_refused() -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match="clock must be callable, not int"):
        pisession.open_repository("memory:", clock=wrong)
    with pytest.raises(TypeError, match="ids must be callable, not int"):
        pisession.open_repository("memory:", ids=wrong)


def test_a_clock_cannot_use_the_session_it_is_asked_for(uri: str) -> None:
    held: list[pisession.Session] = []

    def clock() -> int:
        for session in held:
            session.stats()
        return 0

    with (
        pisession.open_repository(uri, clock=clock) as repository,
        repository.create() as session,
    ):
        held.append(session)
        with pytest.raises(pisession.NestedMutationError):
            session.set_name("x")
        held.clear()
        session.set_name("y")
        assert session.name() == "y"


def test_many_threads_ask_one_clock(uri: str) -> None:
    clock, ids = counting()
    with (
        pisession.open_repository(uri, clock=clock, ids=ids) as repository,
        repository.create() as session,
    ):
        main = session.create_branch("main")

        def append() -> None:
            for _ in range(50):
                main.append_message({"role": "user"})
                session.find_entry()

        threads = [threading.Thread(target=append) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times = [entry.timestamp for entry in main.find_entries(order="oldest_first")]
        assert times == sorted(times)
        assert len(set(times)) == 200


def test_daemon_threads_with_a_clock_do_not_disturb_the_end(uri: str) -> None:
    run(
        """
        import sys, threading, time
        import pisession

        repository = pisession.open_repository(sys.argv[1], clock=lambda: time.time_ns() // 10**6)
        session = repository.create()
        started = threading.Event()

        def write():
            try:
                while True:
                    session.set_value("app", "x", 1)
                    started.set()
            except pisession.Error:
                pass

        threading.Thread(target=write, daemon=True).start()
        started.wait()
        repository.close()
        """,
        uri,
    )
