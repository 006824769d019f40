"""Errors: one base, a class for every kind, and the built-in classes one would catch anyway."""

from __future__ import annotations

import enum
import errno as _errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from . import _pisession

_KINDS = {name: (number, retryable) for name, number, retryable in _pisession.ERROR_KINDS}


class ErrorKind(enum.StrEnum):
    """What kind of failure an error is: the same names as in Rust and C."""

    IO = "Io"
    FULL = "Full"
    BUSY = "Busy"
    SESSION_BUSY = "SessionBusy"
    CANCELLED = "Cancelled"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    CLOSED = "Closed"
    READ_ONLY = "ReadOnly"
    LEGACY_READ_ONLY = "LegacyReadOnly"
    UNSUPPORTED = "Unsupported"
    UNKNOWN_SESSION = "UnknownSession"
    SESSION_EXISTS = "SessionExists"
    AMBIGUOUS_SESSION = "AmbiguousSession"
    UNKNOWN_BRANCH = "UnknownBranch"
    UNKNOWN_ENTRY = "UnknownEntry"
    UNKNOWN_TARGET = "UnknownTarget"
    MISSING_PARENT = "MissingParent"
    BRANCH_EXISTS = "BranchExists"
    DUPLICATE_ID = "DuplicateId"
    ENTRY_NOT_ON_BRANCH = "EntryNotOnBranch"
    INVALID_ID = "InvalidId"
    INVALID_ADDRESS = "InvalidAddress"
    INVALID_BRANCH = "InvalidBranch"
    INVALID_LANE = "InvalidLane"
    INVALID_JSON = "InvalidJson"
    INVALID_ARGUMENT = "InvalidArgument"
    TOO_LARGE = "TooLarge"
    RESERVED_ADDRESS = "ReservedAddress"
    PENDING_ASSISTANT = "PendingAssistant"
    COMMIT_ATTEMPTED = "CommitAttempted"
    MUTATION_ENDED = "MutationEnded"
    NESTED_MUTATION = "NestedMutation"
    NOT_A_SESSION = "NotASession"
    UNSUPPORTED_VERSION = "UnsupportedVersion"
    CORRUPT = "Corrupt"
    FILE_CHANGED = "FileChanged"
    STORAGE_FAULT = "StorageFault"
    FOREIGN_SQLITE = "ForeignSqlite"
    FORKED = "Forked"
    MISUSE = "Misuse"
    PANIC = "Panic"

    @property
    def number(self) -> int:
        """Its stable number; C returns it negated."""
        return _KINDS[self.value][0]

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later without anything else being changed."""
        return _KINDS[self.value][1]


class Error(Exception):
    """The base of every error of this library.

    Attributes:
        kind: What kind of failure it is.
        message: What failed, in a sentence.
        hint: What to do about it, where that is known.
        retryable: Whether the same call may succeed later without anything else being changed.
        path: The file it is about.
        line: The line in that file, from 1.
        offset: The byte offset in that file.
        id: The session, entry or other id it is about.
    """

    kind: ClassVar[ErrorKind]
    retryable: ClassVar[bool]

    message: str
    hint: str | None
    path: Path | None
    line: int | None
    offset: int | None
    id: str | None

    def __init__(
        self,
        message: str = "",
        *,
        hint: str | None = None,
        path: Path | None = None,
        line: int | None = None,
        offset: int | None = None,
        id: str | None = None,
        errno: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.path = path
        self.line = line
        self.offset = offset
        self.id = id
        if isinstance(self, OSError):
            _fill_os_error(self, errno, message, path)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            cls.retryable = cls.kind.retryable

    def __str__(self) -> str:
        place = ", ".join(
            part
            for part in (
                None if self.path is None else str(self.path),
                None if self.line is None else f"line {self.line}",
                None if self.offset is None else f"byte {self.offset}",
            )
            if part is not None
        )
        text = f"{self.message} ({place})" if place else self.message
        return f"{text}; {self.hint}" if self.hint else text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Callable[..., Error], tuple[Any, ...]]:
        fields = {
            name: getattr(self, name) for name in ("hint", "path", "line", "offset", "id")
        } | {"errno": getattr(self, "errno", None)}
        return _rebuild, (type(self), self.message, fields, dict(self.__dict__))


def _rebuild(
    cls: type[Error], message: str, fields: dict[str, Any], state: dict[str, Any]
) -> Error:
    error = cls(message, **fields)
    error.__dict__.update(state)
    return error


def _fill_os_error(error: OSError, errno: int | None, message: str, path: Path | None) -> None:
    error.errno = _ERRNO.get(type(error)) if errno is None else errno
    error.strerror = message
    error.filename = None if path is None else str(path)


class IoError(Error, OSError):
    """The operating system refused an operation; `errno` tells how."""

    kind = ErrorKind.IO


class FullError(Error, OSError):
    """The disk is full or a size limit was reached. Nothing was written."""

    kind = ErrorKind.FULL


class BusyError(Error):
    """Another process holds the database's lock past the busy timeout."""

    kind = ErrorKind.BUSY


class SessionBusyError(Error):
    """The session is open for writing elsewhere."""

    kind = ErrorKind.SESSION_BUSY


class CancelledError(Error):
    """The call's context was cancelled."""

    kind = ErrorKind.CANCELLED


class DeadlineExceededError(Error, TimeoutError):
    """The call's deadline passed."""

    kind = ErrorKind.DEADLINE_EXCEEDED


class ClosedError(Error):
    """The session or repository is closed."""

    kind = ErrorKind.CLOSED


class ReadOnlyError(Error, PermissionError):
    """The session was opened for reading only."""

    kind = ErrorKind.READ_ONLY


class LegacyReadOnlyError(Error, PermissionError):
    """The session is a file of version 1 to 3, which is never written in place."""

    kind = ErrorKind.LEGACY_READ_ONLY


class UnsupportedError(Error, NotImplementedError):
    """This backend cannot do that."""

    kind = ErrorKind.UNSUPPORTED


class UnknownSessionError(Error, FileNotFoundError):
    """No session of that id, or its file is gone."""

    kind = ErrorKind.UNKNOWN_SESSION


class SessionExistsError(Error, FileExistsError):
    """A session of that id exists already."""

    kind = ErrorKind.SESSION_EXISTS


class AmbiguousSessionError(Error, LookupError):
    """Two files claim that session id."""

    kind = ErrorKind.AMBIGUOUS_SESSION


class UnknownBranchError(Error, LookupError):
    """No branch of that name."""

    kind = ErrorKind.UNKNOWN_BRANCH


class UnknownEntryError(Error, LookupError):
    """No entry of that id."""

    kind = ErrorKind.UNKNOWN_ENTRY


class UnknownTargetError(Error, LookupError):
    """A tip or branch point names an entry that does not exist."""

    kind = ErrorKind.UNKNOWN_TARGET


class MissingParentError(Error, LookupError):
    """An entry names a parent that does not exist."""

    kind = ErrorKind.MISSING_PARENT


class BranchExistsError(Error, ValueError):
    """A branch of that name exists already."""

    kind = ErrorKind.BRANCH_EXISTS


class DuplicateIdError(Error, ValueError):
    """An entry or usage row of that id exists already."""

    kind = ErrorKind.DUPLICATE_ID


class EntryNotOnBranchError(Error, ValueError):
    """The entry is not on the path of that branch."""

    kind = ErrorKind.ENTRY_NOT_ON_BRANCH


class InvalidIdError(Error, ValueError):
    """An id is empty, too long, or holds characters ids cannot have."""

    kind = ErrorKind.INVALID_ID


class InvalidAddressError(Error, ValueError):
    """A namespace is empty, or a part of an address holds characters it cannot have."""

    kind = ErrorKind.INVALID_ADDRESS


class InvalidBranchError(Error, ValueError):
    """A branch name is empty or holds characters it cannot have."""

    kind = ErrorKind.INVALID_BRANCH


class InvalidLaneError(Error, ValueError):
    """A lane name is empty or holds characters it cannot have."""

    kind = ErrorKind.INVALID_LANE


class InvalidJsonError(Error, ValueError):
    """A payload is not JSON as this library takes it."""

    kind = ErrorKind.INVALID_JSON


class InvalidArgumentError(Error, ValueError):
    """An argument has a value the call does not take."""

    kind = ErrorKind.INVALID_ARGUMENT


class TooLargeError(Error, ValueError):
    """A payload, a commit or a count is over its limit."""

    kind = ErrorKind.TOO_LARGE


class ReservedAddressError(Error, ValueError):
    """The address belongs to the library and is not declared."""

    kind = ErrorKind.RESERVED_ADDRESS


class PendingAssistantError(Error, ValueError):
    """An assistant message that is still pending cannot be stored."""

    kind = ErrorKind.PENDING_ASSISTANT


class CommitAttemptedError(Error, RuntimeError):
    """The mutation has used its one commit."""

    kind = ErrorKind.COMMIT_ATTEMPTED


class MutationEndedError(Error, RuntimeError):
    """The mutation has ended."""

    kind = ErrorKind.MUTATION_ENDED


class NestedMutationError(Error, RuntimeError):
    """A writer was called from inside a mutation of the same session and would wait for itself."""

    kind = ErrorKind.NESTED_MUTATION


class NotASessionError(Error):
    """The file is not a session."""

    kind = ErrorKind.NOT_A_SESSION


class UnsupportedVersionError(Error):
    """The file was written by a newer version of the format."""

    kind = ErrorKind.UNSUPPORTED_VERSION


class CorruptError(Error):
    """The file is damaged."""

    kind = ErrorKind.CORRUPT


class FileChangedError(Error):
    """Another program changed the file behind an open session."""

    kind = ErrorKind.FILE_CHANGED


class StorageFaultError(Error):
    """Storage cannot prove its state after a failure; reopen the session."""

    kind = ErrorKind.STORAGE_FAULT


class ForeignSqliteError(Error):
    """Another SQLite library in this process interfered with the database file."""

    kind = ErrorKind.FOREIGN_SQLITE


class ForkedError(Error):
    """The handle was made before a `fork` and is used in the child."""

    kind = ErrorKind.FORKED


class MisuseError(Error):
    """A handle was misused."""

    kind = ErrorKind.MISUSE


class PanicError(Error):
    """A panic was caught at the boundary of the library. Please report it."""

    kind = ErrorKind.PANIC


# What `errno` says where the operating system was not asked.
_ERRNO: dict[type, int] = {
    DeadlineExceededError: _errno.ETIMEDOUT,
    ReadOnlyError: _errno.EACCES,
    LegacyReadOnlyError: _errno.EACCES,
    UnknownSessionError: _errno.ENOENT,
    SessionExistsError: _errno.EEXIST,
}

_CLASSES: dict[str, type[Error]] = {cls.kind.value: cls for cls in Error.__subclasses__()}


def from_native(
    kind: str,
    message: str,
    hint: str | None,
    path: Path | None,
    line: int | None,
    offset: int | None,
    id: str | None,
    errno: int | None,
) -> Error:
    """Make the exception for an error of the core. Called by the native module."""
    return _CLASSES[kind](
        message, hint=hint, path=path, line=line, offset=offset, id=id, errno=errno
    )


def in_context(error: Error) -> Error:
    """Link an error that is about to be raised to the exception that is being handled.

    `raise` would; what the native module raises has no context otherwise.
    """
    error.__context__ = sys.exception()
    return error
