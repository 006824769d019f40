"""Mutation blocks: collected writes, one commit, an end on every path."""

import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import pisession


def test_a_block_commits_what_it_collected_at_its_end(session: pisession.Session) -> None:
    for _ in range(2):
        with session.begin_mutation() as m:
            n = m.get_value("app", "counter", default=0)
            m.set_value("app", "counter", n + 1)
            m.append_list("app", "log", n)
            assert m.get_value("app", "counter", default=0) == n, "reads see no collected write"
            assert session.get_value("app", "counter", default=0) == n
    assert session.get_value("app", "counter") == 2
    assert [element.value for element in session.read_list("app", "log")] == [0, 1]
    with session.begin_mutation() as m:
        m.delete_value("app", "counter")
        m.delete_list("app", "log")
    assert [*session.value_addresses(), *session.list_addresses()] == []


def test_one_block_is_one_commit(session: pisession.Session) -> None:
    with session.begin_mutation() as m:
        m.set_value("app", "a", 1)
        m.set_value("app", "b", 2)
        result = m.commit()
        assert session.get_value("app", "b") == 2, "it is applied, though the block goes on"
        assert m.get_value("app", "b") == 2
    assert result.seqs == (result.first_seq, result.first_seq + 1)
    stored = session.get_stored_value("app", "b")
    assert stored is not None
    assert stored.seq == result.seqs[1]
    assert result.stats == session.stats()
    assert result.time.timestamp() * 1000 == pytest.approx(result.timestamp)


def test_a_block_without_writes_commits_nothing(session: pisession.Session) -> None:
    before = session.next_seq()
    with session.begin_mutation() as m:
        assert m.stats().message_count == 0
    assert session.next_seq() == before
    with session.begin_mutation() as m:
        empty = m.commit()
    assert (empty.first_seq, empty.seqs) == (before, ())


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_an_exception_in_a_block_commits_nothing_and_ends_it(
    session: pisession.Session, error: type[BaseException]
) -> None:
    def block() -> None:
        with session.begin_mutation() as m:
            m.set_value("app", "x", 1)
            raise error

    with pytest.raises(error):
        block()
    assert session.get_value("app", "x") is None
    session.set_value("app", "x", 2)


def test_a_commit_made_before_an_exception_stays(session: pisession.Session) -> None:
    def decide(m: pisession.Mutator) -> None:
        m.set_value("app", "x", 1)
        m.commit()
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        session.mutate(decide)
    assert session.get_value("app", "x") == 1


WRITES: dict[str, Callable[[pisession.Mutator], object]] = {
    "set_value": lambda m: m.set_value("app", "x", 2),
    "delete_value": lambda m: m.delete_value("app", "x"),
    "append_list": lambda m: m.append_list("app", "x", 2),
    "delete_list": lambda m: m.delete_list("app", "x"),
    "set_branch_tip": lambda m: m.set_branch_tip("main", None),
    "insert_message": lambda m: m.insert_message({"role": "user"}, parent_id=None),
    "insert_custom_entry": lambda m: m.insert_custom_entry("note", parent_id=None),
    "insert_usage": lambda m: m.insert_usage(pisession.Usage()),
    "commit": lambda m: m.commit(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_after_the_commit_is_refused(
    session: pisession.Session, write: Callable[[pisession.Mutator], object]
) -> None:
    with session.begin_mutation() as m:
        m.set_value("app", "x", 1)
        m.commit()
        with pytest.raises(pisession.CommitAttemptedError):
            write(m)
    assert session.get_value("app", "x") == 1
    assert session.find_entries() == []


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_after_the_end_is_refused(
    session: pisession.Session, write: Callable[[pisession.Mutator], object]
) -> None:
    m = session.begin_mutation()
    m.set_value("app", "x", 1)
    m.end()
    m.end()
    with pytest.raises(pisession.MutationEndedError):
        write(m)
    with pytest.raises(pisession.MutationEndedError):
        m.get_value("app", "x")
    assert session.get_value("app", "x") is None, "what was not committed is dropped"


def test_a_failed_commit_uses_the_mutation_up(session: pisession.Session) -> None:
    def block() -> None:
        with session.begin_mutation() as m:
            m.insert_message({"role": "user"}, parent_id="nobody")
            with pytest.raises(pisession.MissingParentError):
                m.commit()
            m.set_value("app", "x", 1)

    with pytest.raises(pisession.CommitAttemptedError):
        block()
    assert session.get_value("app", "x") is None


def test_a_commit_that_fails_at_the_end_of_the_block_fails_the_block(
    session: pisession.Session,
) -> None:
    def block(m: pisession.Mutator) -> None:
        m.set_value("app", "x", 1)
        m.insert_message({"role": "user"}, parent_id="nobody")

    with pytest.raises(pisession.MissingParentError):
        session.mutate(block)
    assert session.get_value("app", "x") is None, "all or nothing"
    session.set_value("app", "x", 2)


def test_a_write_that_was_refused_leaves_the_others(session: pisession.Session) -> None:
    with session.begin_mutation() as m:
        m.set_value("app", "a", 1)
        with pytest.raises(TypeError):
            m.set_value("app", "b", object())  # type: ignore[arg-type]
        m.set_value("app", "c", 3)
    assert [stored.key for stored in session.scan_values("app")] == ["a", "c"]


def test_mutate_gives_what_its_function_gives(session: pisession.Session) -> None:
    kept: list[pisession.Mutator] = []

    def count(m: pisession.Mutator) -> int:
        kept.append(m)
        n = int(m.get_value("app", "counter", default=0)) + 1
        m.set_value("app", "counter", n)
        return n

    assert [session.mutate(count), session.mutate(count)] == [1, 2]
    assert session.get_value("app", "counter") == 2
    assert not hasattr(kept[0], "end")
    with pytest.raises(pisession.MutationEndedError):
        kept[0].get_value("app", "counter")


def test_mutate_takes_no_async_function(session: pisession.Session) -> None:
    async def decide(m: pisession.Mutator) -> None:
        m.set_value("app", "x", 1)

    with pytest.raises(TypeError, match="must not be async"):
        session.mutate(decide)  # type: ignore[unused-coroutine]
    session.set_value("app", "x", 2)


def test_mutate_takes_no_generator_function(session: pisession.Session) -> None:
    def decide(m: pisession.Mutator) -> Iterator[None]:
        m.set_value("app", "x", 1)
        yield

    async def decide_later(m: pisession.Mutator) -> AsyncIterator[None]:
        m.set_value("app", "x", 1)
        yield

    with pytest.raises(TypeError, match="must not be a generator"):
        session.mutate(decide)
    with pytest.raises(TypeError, match="must not be async"):
        session.mutate(decide_later)
    session.set_value("app", "x", 2)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Let threads take turns as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def beside(work: Callable[[], object], other: Callable[[], object]) -> None:
    """Do both at once, `other` on a thread of its own."""
    both = threading.Barrier(2)

    def wait_and_work() -> None:
        both.wait()
        other()

    thread = threading.Thread(target=wait_and_work)
    thread.start()
    both.wait()
    try:
        work()
    finally:
        thread.join()


@pytest.mark.usefixtures("hasty_threads")
def test_a_commit_beside_an_end_is_whole_or_refused(session: pisession.Session) -> None:
    for number in range(1, 1001):
        m = session.begin_mutation()
        m.set_value("app", "x", number)
        results: list[pisession.CommitResult | pisession.Error] = []

        def commit(
            m: pisession.Mutation = m,
            results: list[pisession.CommitResult | pisession.Error] = results,
        ) -> None:
            try:
                results.append(m.commit())
            except pisession.Error as error:
                results.append(error)

        beside(m.end, commit)
        if isinstance(results[0], pisession.CommitResult):
            assert len(results[0].seqs) == 1
            assert session.get_value("app", "x") == number
        else:
            assert isinstance(results[0], pisession.MutationEndedError)
            assert session.get_value("app", "x") != number


@pytest.mark.usefixtures("hasty_threads")
def test_a_write_beside_a_commit_is_in_it_or_refused(session: pisession.Session) -> None:
    for number in range(1, 301):
        m = session.begin_mutation()
        m.set_value("app", "x", number)
        results: list[pisession.CommitResult] = []
        taken: list[int] = []

        def write(m: pisession.Mutation = m, taken: list[int] = taken, n: int = number) -> None:
            try:
                while True:
                    m.set_value("app", "y", [n, len(taken)])
                    taken.append(len(taken))
            except pisession.CommitAttemptedError:
                return

        def commit(
            m: pisession.Mutation = m, results: list[pisession.CommitResult] = results
        ) -> None:
            results.append(m.commit())

        try:
            beside(commit, write)
        finally:
            m.end()
        assert len(results[0].seqs) == 1 + len(taken)
        assert session.get_value("app", "x") == number
        if taken:
            assert session.get_value("app", "y") == [number, taken[-1]]


def test_a_commit_whose_context_is_over_is_the_one_attempt(session: pisession.Session) -> None:
    with session.begin_mutation() as m:
        m.set_value("app", "x", 1)
        with pytest.raises(pisession.DeadlineExceededError):
            m.commit(ctx=pisession.Context(timeout=0))
        with pytest.raises(pisession.CommitAttemptedError):
            m.commit()
    assert session.get_value("app", "x") is None


def test_a_nested_writer_is_refused_and_does_not_hang(session: pisession.Session) -> None:
    main = session.create_branch("main")
    nested: list[Callable[[], Any]] = [
        session.begin_mutation,
        lambda: session.set_value("app", "x", 1),
        lambda: main.append_message({"role": "user"}),
        session.close,
    ]
    with session.begin_mutation():
        for call in nested:
            with pytest.raises(pisession.NestedMutationError):
                call()
    session.set_value("app", "x", 1)


def test_a_mutation_that_is_dropped_ends(session: pisession.Session) -> None:
    m = session.begin_mutation()
    m.set_value("app", "x", 1)
    del m
    session.set_value("app", "y", 2)
    assert session.get_value("app", "x") is None


def test_entries_are_inserted_with_their_tip(session: pisession.Session) -> None:
    with session.begin_mutation() as m:
        first = m.insert_message({"role": "user", "content": "a"}, parent_id=None)
        second = m.insert_entry({"parentId": first, "type": "custom", "customType": "note"})
        m.set_branch_tip("main", second)
    main = session.branch("main")
    assert main is not None
    assert [entry.id for entry in main.find_entries()] == [second, first]
    with pytest.raises(pisession.UnknownTargetError), session.begin_mutation() as m:
        m.set_branch_tip("main", "nobody")
    with session.begin_mutation() as m:
        with pytest.raises(pisession.InvalidArgumentError):
            m.insert_entry({"parentId": None, "type": "nonsense"})
        m.insert_message({"role": "user"}, parent_id=None, id=first)
        with pytest.raises(pisession.DuplicateIdError):
            m.commit()


def test_the_context_of_the_block_is_that_of_its_commit(session: pisession.Session) -> None:
    ctx = pisession.Context()

    def block(m: pisession.Mutator) -> None:
        m.set_value("app", "x", 1)
        ctx.cancel()

    with pytest.raises(pisession.CancelledError):
        session.mutate(block, ctx=ctx)
    assert session.get_value("app", "x") is None
