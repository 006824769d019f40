"""Repositories: where sessions are made, found, opened and deleted."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias

from . import _pisession
from ._errors import ClosedError, Error, InvalidArgumentError
from ._pisession import Context
from ._reads import Handle
from ._records import Durability, LegacyPolicy, SessionListing, SessionMetadata
from ._session import Session
from ._tuples import MetadataTuple, OpenTuple
from ._values import count, optional_callable, path_text, seconds, text

_open: weakref.WeakSet[Repository] = weakref.WeakSet()

# Inside `Repository` the word `list` is a method.
_Listings: TypeAlias = list[SessionListing]

ForkPosition: TypeAlias = Literal["at"] | Literal["before"]

# How long the end of the program waits for a mutation that a daemon thread holds.
_EXIT_TIMEOUT = 1.0


def open_repository(
    uri: str,
    *,
    durability: Durability = "power",
    busy_timeout: float | timedelta = 5.0,
    max_payload: int | None = None,
    clock: Callable[[], int] | None = None,
    ids: Callable[[int | None], str] | None = None,
) -> Repository:
    """Open the repository that `uri` names.

    What is not there yet is made by the first `create`.

    Args:
        uri: `memory:` (a new one each time); `sqlite:PATH`: a folder of one file per session, or
            a container (an existing file, or a name ending in .sqlite, .sqlite3 or .db); or
            `jsonl:PATH`: a folder of one JSON lines file per session. The path is taken as it
            stands.
        durability: What a commit that was acknowledged survives: "power" (process crash, kernel
            crash and power loss) or "process" (process crash).
        busy_timeout: Seconds (or a timedelta) a commit waits for another process's lock.
        max_payload: How many bytes a payload may have; 256 MiB by default.
        clock: Gives the time, in milliseconds since 1970; the system's clock by default. It is
            asked in the middle of calls, of any thread: it must not use sessions. What it raises,
            the call raises, and nothing is written.
        ids: Gives new ids, likewise. It is given a timestamp that the id is to carry, or None.
            UUIDs of version 7 by default.

    Raises:
        InvalidArgumentError: If `uri` names no kind of repository.

    Examples:
        >>> import pisession
        >>> with pisession.open_repository("memory:") as repository:
        ...     with repository.create() as session:
        ...         session.set_name("first")
        ...     [listing.name for listing in repository.list(details=True)]
        ['first']
    """
    busy_timeout = seconds("busy_timeout", busy_timeout)
    text("durability", durability)
    if max_payload is not None:
        count("max_payload", max_payload)
    optional_callable("clock", clock)
    optional_callable("ids", ids)
    native = _pisession.open_repository(uri, durability, busy_timeout, max_payload, clock, ids)
    return Repository(uri, native)


@dataclass(frozen=True)
class Fork:
    """A new session, and what its source had that was left behind.

    Attributes:
        session: The new session, open for writing.
        left_out: Names of lanes whose configuration was not taken, since the source holds it by
            half. Only a fork of the whole tree leaves any out.
    """

    session: Session
    left_out: tuple[str, ...]


class Repository(Handle):
    """A place where sessions are kept, open. `open_repository` opens one."""

    def __init__(self, uri: str, native: _pisession.Repository) -> None:
        self._uri = uri
        self._native = native
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        _open.add(self)

    @property
    def uri(self) -> str:
        """The text it was opened by."""
        return self._uri

    def create(
        self,
        *,
        id: str | None = None,
        parent_session_id: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        ctx: Context | None = None,
    ) -> Session:
        """Make a session, open for writing. It holds nothing but its metadata: no branch, no value.

        Raises:
            SessionExistsError: If there is one of that id.
            InvalidIdError: If the id is empty, too long, or holds what ids cannot have.
        """
        folder = None if cwd is None else path_text("cwd", cwd)
        return self._session(self._native.create(id, parent_session_id, folder, ctx))

    def fork(
        self,
        source: Session | str | SessionMetadata | SessionListing,
        *,
        tree: bool = False,
        branch: str | None = None,
        entry: str | None = None,
        position: ForkPosition = "at",
        id: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        ctx: Context | None = None,
    ) -> Fork:
        """Make a new session from another one, here or in any other repository.

        The fork has one coherent snapshot of its source: the commits that were made before, none
        that is made later. It may be made inside a mutation, and beside one of another process.

        Args:
            source: The session to fork: one that is open, in whatever mode and repository, or one
                of this repository, by its id or by what `list` says of it.
            tree: Take all entries and branches, and what applications keep beside them, in place
                of one path; then branch, entry and position are not given.
            branch: The branch whose path is taken, by default "main"; with an entry and no branch
                any path of the tree is taken, and becomes "main".
            entry: The id of the entry at which the path ends; by default the branch's tip.
            position: "at" makes the entry the new tip, "before" its parent.
            id: The id of the new session.
            cwd: The working folder of the new session; by default the source's.
            ctx: The authority of this call.

        Raises:
            UnknownBranchError: If the source has no such branch.
            UnknownEntryError: If it has no such entry.
            EntryNotOnBranchError: If the entry is not on the branch.
            CorruptError: If the lane of the branch is there by half.
            SessionExistsError: If there is a session of that id.

        Examples:
            >>> import pisession
            >>> with pisession.open_repository("memory:") as repository:
            ...     session = repository.create()
            ...     main = session.create_branch("main")
            ...     question = main.append_message({"role": "user", "content": "hello"})
            ...     fork = repository.fork(session, entry=question).session
            ...     fork.branch("main").tip_id() == question
            True
        """
        text("position", position)
        if position not in ("at", "before"):
            raise InvalidArgumentError(f"{position!r} is no position of a fork: 'at' or 'before'")
        if tree and (branch is not None or entry is not None or position != "at"):
            raise InvalidArgumentError("a fork of the whole tree has no branch, entry or position")
        folder = None if cwd is None else path_text("cwd", cwd)
        before = position == "before"
        session, left_out = self._native.fork(
            source._native if isinstance(source, Session) else _named(source),
            tree,
            branch,
            entry,
            before,
            id,
            folder,
            ctx,
        )
        return Fork(self._session(session), tuple(left_out))

    def open(
        self,
        session: str | SessionMetadata | SessionListing,
        *,
        legacy: LegacyPolicy = "read_only",
        copy_to: Repository | None = None,
        salvage: bool = False,
        strict: bool = False,
        ctx: Context | None = None,
    ) -> Session:
        """Open a session for writing, by its id or by what `list` says of it.

        Args:
            session: Its id, its metadata or its line in a listing.
            legacy: What a write does if the session is a file of version 1 to 3: "read_only", it
                is refused with `LegacyReadOnlyError`; "copy", it goes to a new session, which this
                call makes whole, with a new id; "upgrade", this call rewrites the file as format 4
                and keeps the old one as `NAME.vN.bak`.
            copy_to: The repository in which "copy" makes the new session; this one by default.
            salvage: Go on although a file of JSON lines is damaged. One of format 4 is then open
                for reading only; of an old one what can be read is copied or upgraded.
            strict: Refuse an old file whose structure is damaged, instead of warning of it.
            ctx: The authority of this call.

        Raises:
            UnknownSessionError: If there is none.
            SessionBusyError: If it is open for writing elsewhere.
            AmbiguousSessionError: If two files claim that id.
            CorruptError: If it is damaged, without `salvage` or with `strict`.
            UnsupportedVersionError: If a file of a version above 3 shall be copied or upgraded.
        """
        return self._open(session, (False, legacy, copy_to, salvage, strict), ctx)

    def open_read_only(
        self,
        session: str | SessionMetadata | SessionListing,
        *,
        salvage: bool = False,
        strict: bool = False,
        ctx: Context | None = None,
    ) -> Session:
        """Open a session for reading, beside whoever writes it.

        Args:
            session: Its id, its metadata or its line in a listing.
            salvage: Read past damage in a file of JSON lines.
            strict: Refuse an old file whose structure is damaged, instead of warning of it.
            ctx: The authority of this call.

        Raises:
            UnknownSessionError: If there is none.
            AmbiguousSessionError: If two files claim that id.
            CorruptError: If it is damaged, without `salvage` or with `strict`.
        """
        return self._open(session, (True, "read_only", None, salvage, strict), ctx)

    def _open(
        self,
        session: str | SessionMetadata | SessionListing,
        options: OpenTuple,
        ctx: Context | None,
    ) -> Session:
        native = self._native.open(*_named(session), native_options(options), ctx)
        return (options[2] or self)._session(native)

    def list(self, *, details: bool = False, ctx: Context | None = None) -> _Listings:
        """List the sessions, newest first. A bad file is listed with its problem.

        Args:
            details: Also look up name and number of messages, which costs an open each.
            ctx: The authority of this call.
        """
        return [listing_of(*listing) for listing in self._native.list(details, ctx)]

    def delete(self, id: str, *, ctx: Context | None = None) -> None:
        """Delete a session that is open nowhere.

        Raises:
            UnknownSessionError: If there is none.
            SessionBusyError: If it is open.
        """
        self._native.delete(id, ctx)

    def close(self, *, ctx: Context | None = None) -> None:
        """Close it and every session that was opened through it, and wait for all. Idempotent.

        It makes, opens, lists and deletes nothing any more.

        Raises:
            Error: The first of the errors of closing; its message names the others.
        """
        self._native.close(ctx)
        with self._lock:
            sessions = tuple(self._sessions)
        for session in sessions:
            session._closed = True
        _open.discard(self)

    def _session(self, native: _pisession.Session) -> Session:
        session = Session(self, native)
        with self._lock:
            self._sessions.add(session)
        _open.add(self)
        return session

    def _close_at_exit(self) -> None:
        # In a forked child it belongs to the parent, and the lock may be held by a thread that is
        # not there.
        if self._process != os.getpid():
            return
        with self._lock:
            unclosed = [session for session in self._sessions if not session.closed]
        try:
            # A mutation that does not end is left.
            self.close(ctx=Context(timeout=_EXIT_TIMEOUT))
        except Error:
            return
        for session in unclosed:
            session._closed = False
            session._warn_if_open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # In a forked child it belongs to the parent, who closes it.
        if self._process == os.getpid():
            self.close()

    def __repr__(self) -> str:
        return f"<pisession.Repository {self._uri!r}>"


def listing_of(
    metadata: MetadataTuple | None,
    path: Path | None,
    modified_at: int | None,
    format: str,
    name: str | None,
    message_count: int | None,
    problem: Error | None,
) -> SessionListing:
    known = None if metadata is None else SessionMetadata(*metadata)
    return SessionListing(known, path, modified_at, format, name, message_count, problem)


def native_options(options: OpenTuple) -> OpenTuple:
    """Put the native repository in the place of the one that copies go to."""
    read_only, legacy, copy_to, salvage, strict = options
    text("legacy", legacy)
    if copy_to is not None and not isinstance(copy_to, Repository):
        raise TypeError(f"copy_to must be a Repository, not {type(copy_to).__name__}")
    return read_only, legacy, None if copy_to is None else copy_to._native, salvage, strict


def _named(session: str | SessionMetadata | SessionListing) -> tuple[str, str | None]:
    match session:
        case str():
            return session, None
        case SessionListing(metadata=SessionMetadata() as metadata):
            return _named(metadata)
        case SessionMetadata(id=id, path=path):
            return id, None if path is None else str(path)
        case SessionListing(path=path, problem=problem):
            raise problem or InvalidArgumentError(f"the session in {path} cannot be read")
    raise TypeError(f"a session is named by a str or its metadata, not {type(session).__name__}")


@atexit.register
def _close_all() -> None:
    _pisession.begin_exit(ClosedError("the program is ending"))
    for repository in tuple(_open):
        repository._close_at_exit()
    _pisession.finish_exit(_EXIT_TIMEOUT)
