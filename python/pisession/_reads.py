"""The reads that a session and a mutation share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NoReturn, TypeVar

from . import _pisession
from ._entries import Entry, EntryStructure, EntryType
from ._entries import entry_of as _entry_of
from ._entries import structure_of as _structure_of
from ._pisession import Context
from ._records import ListElement, Order, PathOrder, Stats, StoredValue
from ._records import stats_of as _stats_of
from ._tuples import PathScan
from ._values import count, optional_count, optional_text, read_json, string, text

LIST_LIMIT = 1_000

_Native = TypeVar("_Native", bound=_pisession.Session | _pisession.Mutation)


class Handle:
    """What is open cannot be pickled or copied."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: it is a handle of something "
            "open in this process; hand over the session's id and open it there"
        )


class Reads(Handle, Generic[_Native]):
    """Reads, by the session itself or inside a mutation.

    A read sees the newest applied commit, never a part of one, and never waits for a mutation.
    Several reads are not a snapshot; read-decide-write belongs in a mutation.
    """

    _native: _Native

    def get_entry(self, id: str, *, ctx: Context | None = None) -> Entry | None:
        """Get the entry of that id; None when there is none."""
        found = self.get_entries([string("id", id)], ctx=ctx)
        return found[0] if found else None

    def get_entries(self, ids: Iterable[str], *, ctx: Context | None = None) -> list[Entry]:
        """Get those of `ids` that exist, in the order asked; asked for twice comes twice."""
        if isinstance(ids, str):
            raise TypeError("ids must be several ids, not one str; use get_entry")
        return [_entry_of(entry) for entry in self._native.get_entries(list(ids), ctx)]

    def stats(self, *, ctx: Context | None = None) -> Stats:
        """Totals of the session."""
        return _stats_of(self._native.stats(ctx))

    def get_value(
        self, namespace: str, key: str = "", *, default: Any = None, ctx: Context | None = None
    ) -> Any:
        """Get the value at an address, converted; `default` when it is absent."""
        stored = self._native.get_value(namespace, key, ctx)
        return default if stored is None else read_json(stored[0])

    def get_stored_value(
        self, namespace: str, key: str = "", *, ctx: Context | None = None
    ) -> StoredValue | None:
        """Get the value at an address with its `seq`, as stored; None when it is absent."""
        stored = self._native.get_value(namespace, key, ctx)
        return None if stored is None else StoredValue(namespace, key, *stored)

    def scan_values(
        self, namespace: str, prefix: str = "", *, ctx: Context | None = None
    ) -> list[StoredValue]:
        """Get the values whose key starts with `prefix`, keys ascending by code point."""
        found = self._native.scan_values(namespace, prefix, ctx)
        return [StoredValue(*stored) for stored in found]

    def read_list(
        self,
        namespace: str,
        key: str = "",
        *,
        cursor: int | None = None,
        order: Order = "asc",
        limit: int = LIST_LIMIT,
        ctx: Context | None = None,
    ) -> list[ListElement]:
        """Get elements of the list at an address; empty when it is absent.

        Args:
            namespace: Where the list is.
            key: Where the list is.
            cursor: Only elements after (descending: before) this `seq`.
            order: "asc" or "desc".
            limit: At most so many; must be positive, more than 10,000 count as 10,000.
            ctx: The authority of this call.
        """
        read = (optional_count("cursor", cursor), text("order", order), count("limit", limit))
        found = self._native.read_list(namespace, key, read, ctx)
        return [ListElement(value, seq) for seq, value in found]

    def scan_branch(
        self,
        start: str,
        *,
        type: EntryType | None = None,
        custom_type: str | None = None,
        stop_at_type: EntryType | None = None,
        stop_at_id: str | None = None,
        cursor: int | None = None,
        order: PathOrder = "newest_first",
        limit: int | None = None,
        ctx: Context | None = None,
    ) -> list[Entry]:
        """Get entries on the path from the entry `start` to its root; see `Branch.find_entries`.

        Raises:
            UnknownEntryError: If there is no entry `start`.
        """
        scan = path_scan(type, custom_type, stop_at_type, stop_at_id, cursor, order, limit)
        return [_entry_of(entry) for entry in self._native.scan_branch(start, scan, ctx)]

    def scan_branch_structure(
        self,
        start: str,
        *,
        type: EntryType | None = None,
        custom_type: str | None = None,
        stop_at_type: EntryType | None = None,
        stop_at_id: str | None = None,
        cursor: int | None = None,
        order: PathOrder = "newest_first",
        limit: int | None = None,
        ctx: Context | None = None,
    ) -> list[EntryStructure]:
        """Get where the entries of `scan_branch` stand, without their payloads."""
        scan = path_scan(type, custom_type, stop_at_type, stop_at_id, cursor, order, limit)
        found = self._native.scan_branch_structure(start, scan, ctx)
        return [_structure_of(structure) for structure in found]


def path_scan(
    type: EntryType | None,
    custom_type: str | None,
    stop_at_type: EntryType | None,
    stop_at_id: str | None,
    cursor: int | None,
    order: PathOrder,
    limit: int | None,
) -> PathScan:
    """Check the arguments of a query along a path."""
    return (
        optional_text("type", type),
        optional_text("custom_type", custom_type),
        optional_text("stop_at_type", stop_at_type),
        optional_text("stop_at_id", stop_at_id),
        optional_count("cursor", cursor),
        text("order", order),
        optional_count("limit", limit),
    )
