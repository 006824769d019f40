"""Errors: one base, a class for every kind, second bases, pickling."""

import copy
import errno
import pickle
from pathlib import Path

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
