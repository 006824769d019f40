"""Sessions: global durable data, branches, and the one mutation line."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from . import _pisession
from ._branch import Branch, _Entries
from ._entries import Entry, EntryType
from ._entries import entry_of as _entry_of
from ._mutation import Mutation, Mutator
from ._pisession import Context
from ._reads import Reads
from ._records import (
    Address,
    BranchInfo,
    CheckDepth,
    Compaction,
    Export,
    Finding,
    Gap,
    Legacy,
    Order,
    SessionMetadata,
    UsageRow,
)
from ._records import legacy_of as _legacy_of
from ._records import losses_of as _losses_of
from ._records import usage_of as _usage_of
from ._rows import Rows, SqlValue
from ._tuples import EntryQuery
from ._values import (
    JsonInput,
    count,
    optional_callable,
    optional_count,
    optional_text,
    path_text,
    text,
)

_Result = TypeVar("_Result")

# How many addresses are read at once.
_ADDRESSES = 1_000


class Session(Reads[_pisession.Session]):
    """One open session.

    A session has no branch of its own: `main` is an ordinary name. Handles may be used from any
    thread. Close it, or use it in a `with` block: one that is dropped unclosed gives its lock
    back without loss, and warns with a `ResourceWarning`.
    """

    def __init__(self, repository: object, native: _pisession.Session) -> None:
        # The repository lives as long as its sessions do.
        self._repository = repository
        self._native = native
        self._metadata = SessionMetadata(*native.metadata())
        self._process = os.getpid()
        self._closed = False

    @property
    def metadata(self) -> SessionMetadata:
        """What the session says of itself."""
        return self._metadata

    @property
    def id(self) -> str:
        """Its id."""
        return self._metadata.id

    @property
    def closed(self) -> bool:
        """Whether it was closed, by itself or with its repository."""
        return self._closed

    @property
    def legacy(self) -> Legacy | None:
        """What reading the file of version 1 to 3 found from which it was opened.

        A copy or an upgraded file has it from the call that made it; any other session has None.
        """
        found = self._native.legacy()
        return None if found is None else _legacy_of(found)

    def new_id(self, timestamp: int | None = None) -> str:
        """Make a new id; with a `timestamp` (Unix milliseconds) one that carries it.

        Raises:
            InvalidArgumentError: If the timestamp does not fit into the 48 bits an id has for it.
        """
        if timestamp is not None:
            count("timestamp", timestamp, 2**48)
        return self._native.new_id(timestamp)

    # Entries and usage

    def find_entries(
        self,
        *,
        type: EntryType | None = None,
        custom_type: str | None = None,
        from_seq: int | None = None,
        to_seq: int | None = None,
        cursor: int | None = None,
        order: Order = "desc",
        limit: int | None = None,
        ctx: Context | None = None,
    ) -> list[Entry]:
        """Find entries of the whole session, newest first by default.

        Args:
            type: Only entries of this type.
            custom_type: Only custom entries of this type.
            from_seq: From this `seq` on, inclusive.
            to_seq: Up to this `seq`, inclusive.
            cursor: Only entries beyond this `seq`: below it descending, above it ascending.
            order: "desc" or "asc".
            limit: At most so many.
            ctx: The authority of this call.
        """
        query = _query(type, custom_type, from_seq, to_seq, cursor, order, limit)
        return [_entry_of(entry) for entry in self._native.find_entries(query, ctx)]

    def find_entry(
        self,
        *,
        type: EntryType | None = None,
        custom_type: str | None = None,
        from_seq: int | None = None,
        to_seq: int | None = None,
        cursor: int | None = None,
        order: Order = "desc",
        limit: int | None = None,
        ctx: Context | None = None,
    ) -> Entry | None:
        """Find the first of `find_entries`; None when there is none."""
        query = _query(type, custom_type, from_seq, to_seq, cursor, order, limit)
        found = self._native.find_entry(query, ctx)
        return None if found is None else _entry_of(found)

    def entries(
        self,
        *,
        type: EntryType | None = None,
        custom_type: str | None = None,
        from_seq: int | None = None,
        to_seq: int | None = None,
        cursor: int | None = None,
        order: Order = "desc",
        limit: int | None = None,
        ctx: Context | None = None,
    ) -> Iterator[Entry]:
        """Iterate over the entries that `find_entries` gives, read in pages.

        Memory does not grow with the session.
        """
        query = _query(type, custom_type, from_seq, to_seq, cursor, order, limit)
        return _Entries(self, self._native.entries(query, ctx))

    def scan_usage(
        self,
        *,
        from_seq: int | None = None,
        to_seq: int | None = None,
        order: Order = "asc",
        limit: int | None = None,
        ctx: Context | None = None,
    ) -> list[UsageRow]:
        """Get rows of the cost ledger, oldest first by default."""
        scan = (
            optional_count("from_seq", from_seq),
            optional_count("to_seq", to_seq),
            text("order", order),
            optional_count("limit", limit),
        )
        rows = self._native.scan_usage(scan, ctx)
        return [UsageRow(row[0], row[1], _usage_of(row[2]), row[3]) for row in rows]

    def next_seq(self, *, ctx: Context | None = None) -> int:
        """Get the `seq` the next commit starts at."""
        return self._native.next_seq(ctx)

    # Name and labels

    def name(self, *, ctx: Context | None = None) -> str | None:
        """Get the session's name; None when it has none."""
        return self._native.name(ctx)

    def set_name(self, name: str | None, *, ctx: Context | None = None) -> None:
        """Set the session's name; None deletes it."""
        self._native.set_name(name, ctx)

    def get_label(self, entry_id: str, *, ctx: Context | None = None) -> str | None:
        """Get the label of an entry; None when it has none."""
        return self._native.get_label(entry_id, ctx)

    def set_label(self, entry_id: str, label: str | None, *, ctx: Context | None = None) -> None:
        """Label an entry; None deletes the label. The entry need not exist."""
        self._native.set_label(entry_id, label, ctx)

    # Branches

    def branch(self, name: str, *, ctx: Context | None = None) -> Branch | None:
        """Get the branch of that name; None when there is none."""
        native = self._native.branch(name, ctx)
        return None if native is None else Branch(self, native)

    def branches(self, *, ctx: Context | None = None) -> list[BranchInfo]:
        """Get all branches with their tips, names ascending."""
        return [BranchInfo(*branch) for branch in self._native.branches(ctx)]

    def create_branch(
        self, name: str, at: str | None = None, *, ctx: Context | None = None
    ) -> Branch:
        """Make a branch at an entry (None for an empty branch). It writes nothing but the tip.

        Raises:
            InvalidBranchError: If the name is empty or holds U+0000.
            BranchExistsError: If there is one of that name.
            UnknownTargetError: If there is no entry `at`.
        """
        return Branch(self, self._native.create_branch(name, at, ctx))

    # Values and lists

    def set_value(
        self, namespace: str, key: str, value: JsonInput, *, ctx: Context | None = None
    ) -> None:
        """Set or replace a value."""
        self._native.set_value(namespace, key, value, ctx)

    def delete_value(self, namespace: str, key: str = "", *, ctx: Context | None = None) -> None:
        """Delete a value; fine when it is absent."""
        self._native.delete_value(namespace, key, ctx)

    def append_list(
        self, namespace: str, key: str, element: JsonInput, *, ctx: Context | None = None
    ) -> None:
        """Append an element to a list."""
        self._native.append_list(namespace, key, element, ctx)

    def delete_list(self, namespace: str, key: str = "", *, ctx: Context | None = None) -> None:
        """Delete a whole list; fine when it is absent."""
        self._native.delete_list(namespace, key, ctx)

    def value_addresses(
        self, *, after: Address | None = None, ctx: Context | None = None
    ) -> Iterator[Address]:
        """Iterate over the addresses that hold a value, ascending, after `after`, read in pages."""
        return _addresses(self._native.value_addresses, after, ctx)

    def list_addresses(
        self, *, after: Address | None = None, ctx: Context | None = None
    ) -> Iterator[Address]:
        """Iterate over the addresses that hold a list, ascending, after `after`, read in pages."""
        return _addresses(self._native.list_addresses, after, ctx)

    # The mutation line

    def begin_mutation(self, *, ctx: Context | None = None) -> Mutation:
        """Wait for the turn on the mutation line; use what it gives in a `with` block.

        Args:
            ctx: The authority of this call, and of the commit at the end of the block.

        Raises:
            ClosedError: If the session is closed, or is closed while this waits.
            CancelledError: If the context is cancelled while this waits.
            DeadlineExceededError: If the context's deadline passes while this waits.
            NestedMutationError: If this thread holds the line itself.
        """
        return Mutation(self, self._native.begin_mutation(ctx), ctx)

    def mutate(self, f: Callable[[Mutator], _Result], *, ctx: Context | None = None) -> _Result:
        """Run `f` on the mutation line: begin, `f`, commit what it collected, end.

        An exception in `f` commits nothing; a commit that `f` made before it stays. The mutator
        is dead when `f` has returned.

        Raises:
            TypeError: If `f` is asynchronous or a generator function: nothing can be awaited inside
                a mutation, and its body must have run when it returns.
        """
        with self.begin_mutation(ctx=ctx) as mutation:
            result = f(Mutator(self, mutation._native, ctx))
            _check_has_run(result)
            return result

    # The file

    def query(
        self, sql: str, parameters: Sequence[SqlValue] = (), *, ctx: Context | None = None
    ) -> Rows:
        """Run one read-only SQL statement over the documented views of this session.

        Args:
            sql: The statement.
            parameters: What stands for each `?` in it.
            ctx: The authority of this call.

        Raises:
            UnsupportedError: If the session is not kept in SQLite.
            InvalidArgumentError: If the SQL is wrong or would write.

        Examples:
            >>> import pisession, tempfile
            >>> folder = tempfile.TemporaryDirectory()
            >>> with pisession.open_repository(f"sqlite:{folder.name}") as repository:
            ...     session = repository.create()
            ...     _ = session.create_branch("main").append_message({"role": "user"})
            ...     rows = session.query("SELECT type, count(*) AS n FROM entry GROUP BY type")
            >>> [(row.type, row["n"]) for row in rows]
            [('message', 1)]
            >>> folder.cleanup()
        """
        if isinstance(parameters, (str, bytes)):
            raise TypeError("parameters must be several values, not one str or bytes")
        columns, rows = self._native.query(sql, list(parameters), ctx)
        return Rows(columns, rows)

    def check(
        self,
        *,
        depth: CheckDepth = "quick",
        progress: Callable[[int], object] | None = None,
        ctx: Context | None = None,
    ) -> tuple[Finding, ...]:
        """Look the session over and name what is wrong with it. It repairs and writes nothing.

        Damage is never an error: it is a finding. What a reader of old files warned of stands in
        `legacy` and is not repeated.

        Args:
            depth: "brief" looks at what costs little, "quick" reads everything once, "full" also
                holds what was read against what the file says beside it.
            progress: Told now and then how many entries were read. It must not use sessions; what
                it raises ends the check.
            ctx: The authority of this call.
        """
        optional_callable("progress", progress)
        return tuple(Finding(*found) for found in self._native.check(depth, progress, ctx))

    def compact(self, *, ctx: Context | None = None) -> Compaction:
        """Rewrite the session's file with what is alive, while it stays in use.

        Overwritten values, deleted lists and the like leave it. Closing does it by itself when
        more is dead than alive.

        Raises:
            UnsupportedError: If the session is not kept as JSON lines.
            ReadOnlyError: If it is open for reading.
            FullError: If there is no room; the file is as it was.
        """
        return Compaction(*self._native.compact(ctx))

    def gaps(self) -> tuple[Gap, ...]:
        """Get the damaged lines that opening with `salvage` read past."""
        return tuple(Gap(*gap) for gap in self._native.gaps())

    def backup_to(self, path: str | os.PathLike[str], *, ctx: Context | None = None) -> None:
        """Copy the session, as it is now, into a new single file, while it stays in use.

        Raises:
            UnsupportedError: If the session is not kept in SQLite.
            SessionExistsError: If there is a file at `path`.
        """
        self._native.backup_to(path_text("path", path), ctx)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        branch: str | None = None,
        overwrite: bool = False,
        ctx: Context | None = None,
    ) -> Export:
        """Write the session as a session file of version 3, which coding agents open.

        A session that came from such a file gives its lines again, and behind them what came to
        it since. The file appears whole, and durably, or not at all.

        Args:
            path: The new file.
            branch: Only the path to the tip of this branch. Without it all entries are exported,
                and the file opens at `main`.
            overwrite: Replace a file that is there.
            ctx: The authority of this call.

        Raises:
            SessionExistsError: If there is a file at `path`, without `overwrite`.
            UnknownBranchError: If there is no branch of that name.
        """
        name = optional_text("branch", branch)
        entries, lines, size, losses = self._native.export(
            path_text("path", path), name, overwrite, ctx
        )
        return Export(Path(path), entries, lines, size, _losses_of(losses))

    # The end

    def close(self, *, ctx: Context | None = None) -> None:
        """Refuse new work, fail the mutations that wait, wait for what has begun, close.

        Idempotent.

        Raises:
            DeadlineExceededError: If what has begun does not end in time; the session takes no
                new work and keeps its lock until it is closed again.
            NestedMutationError: If this thread holds the line itself.
        """
        self._native.close(ctx)
        self._closed = True

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

    def _warn_if_open(self) -> None:
        # In a forked child it belongs to the parent.
        if not self._closed and self._process == os.getpid():
            message = f"unclosed {self!r}"
            self._closed = True
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)

    def __del__(self) -> None:
        # It is not there if `__init__` failed. The native handle is dropped after this: it gives
        # back the lock and waits for nothing.
        if hasattr(self, "_closed"):
            self._warn_if_open()

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        return f"<pisession.Session {self.id!r}{state}>"


def _addresses(
    read: Callable[[tuple[str, str] | None, int, Context | None], Sequence[tuple[str, str]]],
    after: Address | None,
    ctx: Context | None,
) -> Iterator[Address]:
    place = None if after is None else (after.namespace, after.key)
    # The first page is read at once: a closed session says so here.
    page = read(place, _ADDRESSES, ctx)

    def rest() -> Iterator[Address]:
        nonlocal page
        while page:
            yield from (Address(*address) for address in page)
            page = read(page[-1], _ADDRESSES, ctx) if len(page) == _ADDRESSES else []

    return rest()


def _check_has_run(result: object) -> None:
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        # It says nothing of never having been run.
        result.close()
    if inspect.isawaitable(result) or inspect.isasyncgen(result):
        raise TypeError("a mutation's function must not be async: it awaits nothing")
    if inspect.isgenerator(result):
        raise TypeError("a mutation's function must not be a generator: it would run after the end")


def _query(
    type: EntryType | None,
    custom_type: str | None,
    from_seq: int | None,
    to_seq: int | None,
    cursor: int | None,
    order: Order,
    limit: int | None,
) -> EntryQuery:
    return (
        optional_text("type", type),
        optional_text("custom_type", custom_type),
        optional_count("from_seq", from_seq),
        optional_count("to_seq", to_seq),
        optional_count("cursor", cursor),
        text("order", order),
        optional_count("limit", limit),
    )
