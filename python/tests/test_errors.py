"""Errors: one base, a class for every kind, second bases, pickling."""

import copy
import errno
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pisession
from pisession import ErrorKind, _pisession

SECOND_BASES: dict[str, type[Exception] | None] = {
    "Io": OSError,
    "Full": OSError,
    "Busy": None,
    "SessionBusy": None,
    "Cancelled": None,
    "DeadlineExceeded": TimeoutError,
    "Closed": None,
    "ReadOnly": PermissionError,
    "LegacyReadOnly": PermissionError,
    "Unsupported": NotImplementedError,
    "UnknownSession": FileNotFoundError,
    "SessionExists": FileExistsError,
    "AmbiguousSession": LookupError,
    "UnknownBranch": LookupError,
    "UnknownEntry": LookupError,
    "UnknownTarget": LookupError,
    "MissingParent": LookupError,
    "BranchExists": ValueError,
    "DuplicateId": ValueError,
    "EntryNotOnBranch": ValueError,
    "InvalidId": ValueError,
    "InvalidAddress": ValueError,
    "InvalidBranch": ValueError,
    "InvalidLane": ValueError,
    "InvalidJson": ValueError,
    "InvalidArgument": ValueError,
    "TooLarge": ValueError,
    "ReservedAddress": ValueError,
    "PendingAssistant": ValueError,
    "CommitAttempted": RuntimeError,
    "MutationEnded": RuntimeError,
    "NestedMutation": RuntimeError,
    "NotASession": None,
    "UnsupportedVersion": None,
    "Corrupt": None,
    "FileChanged": None,
    "StorageFault": None,
    "ForeignSqlite": None,
    "Forked": None,
    "Misuse": None,
    "Panic": None,
}
RETRYABLE = {"Full", "Busy", "SessionBusy", "DeadlineExceeded"}


def test_the_core_knows_the_same_kinds() -> None:
    assert [kind.value for kind in ErrorKind] == [name for name, _, _ in _pisession.ERROR_KINDS]
    assert list(SECOND_BASES) == [kind.value for kind in ErrorKind]
    assert [kind.number for kind in ErrorKind] == list(range(1, len(ErrorKind) + 1))


@pytest.mark.parametrize("name", SECOND_BASES)
def test_every_kind_is_a_class_with_its_second_base(name: str) -> None:
    cls: type[pisession.Error] = getattr(pisession, f"{name}Error")
    assert cls.kind == name
    assert cls.kind is ErrorKind(name)
    assert cls.retryable is (name in RETRYABLE) is cls.kind.retryable
    second = SECOND_BASES[name]
    bases = (pisession.Error,) if second is None else (pisession.Error, second)
    assert cls.__bases__ == bases
    assert cls.__doc__
    assert f"{name}Error" in pisession.__all__


@pytest.mark.parametrize("name", SECOND_BASES)
def test_every_error_is_pickled_and_copied_whole(name: str) -> None:
    cls: type[pisession.Error] = getattr(pisession, f"{name}Error")
    error = cls("it failed", hint="try", path=Path("/f"), line=3, offset=40, id="x", errno=28)
    error.add_note("a note")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is cls
        assert str(again) == str(error) == "it failed (/f, line 3, byte 40); try"
        assert again.args == ("it failed",)
        fields = (again.message, again.hint, again.path, again.line, again.offset, again.id)
        assert fields == ("it failed", "try", Path("/f"), 3, 40, "x")
        assert again.__notes__ == ["a note"]
        if isinstance(again, OSError):
            assert (again.errno, again.filename) == (28, "/f")


def test_what_the_core_says_arrives(repository: pisession.Repository) -> None:
    repository.create(id="s").close()
    with pytest.raises(pisession.SessionExistsError) as exists:
        repository.create(id="s")
    assert exists.value.id == "s"
    assert exists.value.errno == errno.EEXIST
    assert exists.value.hint is not None
    assert exists.value.hint in str(exists.value)
    with pytest.raises(FileNotFoundError) as unknown:
        repository.open("nobody")
    assert isinstance(unknown.value, pisession.UnknownSessionError)
    assert unknown.value.errno == errno.ENOENT
    assert not unknown.value.retryable
    assert repr(unknown.value).startswith("UnknownSessionError(")


def test_refusals_of_branches_and_entries(session: pisession.Session) -> None:
    main = session.create_branch("main")
    with pytest.raises(pisession.BranchExistsError):
        session.create_branch("main")
    with pytest.raises(pisession.UnknownTargetError):
        session.create_branch("other", "nobody")
    with pytest.raises(pisession.InvalidBranchError):
        session.create_branch("")
    with session.begin_mutation() as m:
        m.delete_value("pi.branch.tip", "main")
    with pytest.raises(pisession.UnknownBranchError):
        main.append_message({"role": "user"})
    with pytest.raises(LookupError):
        main.tip_id()
    with pytest.raises(pisession.ReservedAddressError):
        session.set_value("pi.mine", "x", 1)
    with pytest.raises(pisession.InvalidAddressError):
        session.set_value("", "x", 1)


def test_an_error_keeps_the_exception_that_was_being_handled(
    repository: pisession.Repository,
) -> None:
    mine = ValueError("mine")

    def inside_except() -> None:
        try:
            raise mine
        except ValueError:
            repository.open("nobody")

    def inside_finally() -> None:
        try:
            raise mine
        finally:
            repository.open("nobody")

    def leaving_a_block() -> None:
        with repository.create() as session, session.begin_mutation() as m:
            held.append(m)
            with session:  # it cannot be closed by the thread that holds its line
                raise mine

    held: list[pisession.Mutation] = []
    for fail in (inside_except, inside_finally, leaving_a_block):
        with pytest.raises(pisession.Error) as caught:
            fail()
        context: BaseException | None = caught.value
        while context is not None and context is not mine:
            context = context.__context__
        assert context is mine, fail.__name__
        mine.__traceback__ = None
    with pytest.raises(pisession.Error) as alone:
        repository.open("nobody")
    assert alone.value.__context__ is None


LONE = "\ud800"
REFUSED: dict[str, tuple[Callable[[pisession.Repository, pisession.Session], object], str]] = {
    "cwd": (lambda r, s: r.create(cwd=LONE), "a working folder must be Unicode text"),
    "sql": (lambda r, s: s.query(f"SELECT '{LONE}'"), "an SQL statement must be Unicode text"),
    "sql text": (lambda r, s: s.query("SELECT ?", [LONE]), r"parameters\[0\] must be Unicode text"),
    "sql int": (lambda r, s: s.query("SELECT ?, ?", [1, 2**63]), r"parameters\[1\] does not fit"),
    "backup": (lambda r, s: s.backup_to(LONE), "path must be text that names a file"),
    "durability": (
        lambda r, s: pisession.open_repository("memory:", durability=LONE),  # type: ignore[arg-type]
        "durability must be Unicode text",
    ),
    "uri": (lambda r, s: pisession.open_repository(f"memory:{LONE}"), "URI must be Unicode text"),
    "busy timeout": (
        lambda r, s: pisession.open_repository("memory:", busy_timeout=10**400),
        "busy_timeout must be from 0",
    ),
    "timeout": (lambda r, s: pisession.Context(timeout=-(10**400)), "is not possible"),
    "traceparent": (
        lambda r, s: pisession.Context(traceparent=LONE),
        "a traceparent must be Unicode text",
    ),
    "raw": (lambda r, s: s.set_value("app", "x", pisession.RawJson(LONE)), "the text of value"),
    "raw inside": (
        lambda r, s: s.set_value("app", "x", {"a": pisession.RawJson(LONE)}),
        r"the text of value\[\"a\"\] must be Unicode text",
    ),
    "custom type": (lambda r, s: s.find_entries(custom_type=LONE), "custom_type must be Unicode"),
    "stop": (
        lambda r, s: s.create_branch("main").find_entries(stop_at_id=LONE),
        "stop_at_id must be Unicode text",
    ),
    "limit": (lambda r, s: s.find_entries(limit=10**5000), "limit must be from 0"),
    "id before": (lambda r, s: s.new_id(-1), "timestamp must be from 0 to 2.*48 - 1"),
    "id after": (lambda r, s: s.new_id(2**48), "timestamp must be from 0 to 2.*48 - 1"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_no_call_can_take_is_an_error_of_the_library(
    repository: pisession.Repository,
    session: pisession.Session,
    case: tuple[Callable[[pisession.Repository, pisession.Session], object], str],
) -> None:
    call, message = case
    with pytest.raises(pisession.Error, match=message):
        call(repository, session)


def test_ids_carry_every_time_that_fits(session: pisession.Session) -> None:
    assert session.new_id(0).startswith("00000000-0000-7")
    assert session.new_id(2**48 - 1).startswith("ffffffff-ffff-7")


ANY: Any = 3
EMPTY: Any = {}
MISTYPED: dict[str, tuple[Callable[[pisession.Repository, pisession.Session], object], str]] = {
    "cwd": (lambda r, s: r.create(cwd=ANY), "cwd must be a str or an os.PathLike, not int"),
    "path": (lambda r, s: s.backup_to(ANY), "path must be a str or an os.PathLike, not int"),
    "parameter": (
        lambda r, s: s.query("SELECT ?", [EMPTY]),
        r"parameters\[0\] must be .*, not dict",
    ),
    "parameters": (lambda r, s: s.query("SELECT ?", "x"), "parameters must be several values"),
    "raw": (
        lambda r, s: s.set_value("a", "x", pisession.RawJson(ANY)),
        "the text of value must be",
    ),
    "timeout": (lambda r, s: pisession.Context(timeout="x"), "timeout must be a number"),  # type: ignore[arg-type]
    "busy timeout": (
        lambda r, s: pisession.open_repository("memory:", busy_timeout="x"),  # type: ignore[arg-type]
        "busy_timeout must be a number of seconds",
    ),
    "get_entry": (lambda r, s: s.get_entry(ANY), "^id must be a str, not int"),
    "order": (lambda r, s: s.find_entries(order=ANY), "order must be a str, not int"),
    "type": (lambda r, s: s.find_entries(type=ANY), "type must be a str, not int"),
    "stop": (
        lambda r, s: s.create_branch("m").entries(stop_at_type=ANY),
        "stop_at_type must be a str",
    ),
    "tip name": (lambda r, s: s.mutate(lambda m: m.set_branch_tip(ANY, None)), "^name must be"),
    "tip": (lambda r, s: s.mutate(lambda m: m.set_branch_tip("m", ANY)), "^entry_id must be"),
    "parent": (
        lambda r, s: s.mutate(lambda m: m.insert_message({}, parent_id=ANY)),
        "^parent_id must be a str",
    ),
    "entry": (lambda r, s: s.mutate(lambda m: m.insert_entry(ANY)), "^entry must be a mapping"),
    "row": (lambda r, s: s.mutate(lambda m: m.insert_usage_row(ANY)), "^row must be a mapping"),
    "usage": (lambda r, s: s.mutate(lambda m: m.insert_usage(ANY)), "^usage must be a Usage"),
    "custom_type": (
        lambda r, s: s.create_branch("m").append_custom_entry(ANY),
        "^custom_type must be a str",
    ),
    "timestamp": (lambda r, s: s.new_id("x"), "timestamp must be an int"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", MISTYPED.values(), ids=MISTYPED)
def test_a_type_error_names_the_argument_as_the_caller_does(
    repository: pisession.Repository,
    session: pisession.Session,
    case: tuple[Callable[[pisession.Repository, pisession.Session], object], str],
) -> None:
    call, message = case
    with pytest.raises(TypeError, match=message):
        call(repository, session)


def test_contexts_end_calls(session: pisession.Session) -> None:
    cancelled = pisession.Context()
    cancelled.cancel()
    assert cancelled.cancelled
    with pytest.raises(pisession.CancelledError):
        session.set_value("app", "x", 1, ctx=cancelled)
    with pytest.raises(TimeoutError):
        session.set_value("app", "x", 1, ctx=pisession.Context(timeout=0))
    assert session.get_value("app", "x") is None
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert pisession.Context(traceparent=parent).traceparent == parent
    for timeout in (-1, float("nan")):
        with pytest.raises(pisession.InvalidArgumentError):
            pisession.Context(timeout=timeout)
    with pytest.raises(pisession.InvalidArgumentError):
        pisession.Context(traceparent="nonsense")
    with pytest.raises(TypeError):
        pisession.Context(timeout="soon")  # type: ignore[arg-type]
