"""Branches: one named path through the entry tree, its tip, queries along it, direct appends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from . import _pisession
from ._entries import Entry, EntryType, NewCustomEntry, NewMessage
from ._entries import entry_of as _entry_of
from ._pisession import Context
from ._reads import Handle, path_scan
from ._records import PathOrder
from ._tuples import Node
from ._values import ABSENT, Absent, JsonInput, string

if TYPE_CHECKING:
    from ._session import Session


class Branch(Handle):
    """A named path of a session. It is a name and holds no state: two of one name are equal."""

    def __init__(self, session: Session, native: _pisession.Branch) -> None:
        # The session lives as long as its branches do.
        self._session = session
        self._native = native

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    def tip_id(self, *, ctx: Context | None = None) -> str | None:
        """Get its tip; None for a null tip.

        Raises:
            UnknownBranchError: If it was deleted.
        """
        return self._native.tip_id(ctx)

    def find_entries(
        self,
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
        """Find entries on its path. Applied in this order: stop, filter, cursor, limit.

        Args:
            type: Only entries of this type.
            custom_type: Only custom entries of this type.
            stop_at_type: Stop at the first entry of this type, inclusively.
            stop_at_id: Stop at this entry, inclusively.
            cursor: Only entries beyond this `seq`: below it newest first, above it oldest first.
            order: "newest_first" (from the tip) or "oldest_first" (from the root).
            limit: At most so many.
            ctx: The authority of this call.

        Raises:
            UnknownBranchError: If it was deleted.
        """
        scan = path_scan(type, custom_type, stop_at_type, stop_at_id, cursor, order, limit)
        return [_entry_of(entry) for entry in self._native.find_entries(scan, ctx)]

    def find_entry(
        self,
        *,
        type: EntryType | None = None,
        custom_type: str | None = None,
        stop_at_type: EntryType | None = None,
        stop_at_id: str | None = None,
        cursor: int | None = None,
        order: PathOrder = "newest_first",
        limit: int | None = None,
        ctx: Context | None = None,
    ) -> Entry | None:
        """Find the first of `find_entries`; None when there is none."""
        scan = path_scan(type, custom_type, stop_at_type, stop_at_id, cursor, order, limit)
        found = self._native.find_entry(scan, ctx)
        return None if found is None else _entry_of(found)

    def entries(
        self,
        *,
        type: EntryType | None = None,
        custom_type: str | None = None,
        stop_at_type: EntryType | None = None,
        stop_at_id: str | None = None,
        cursor: int | None = None,
        order: PathOrder = "newest_first",
        limit: int | None = None,
        ctx: Context | None = None,
    ) -> Iterator[Entry]:
        """Iterate over the entries that `find_entries` gives, read in pages.

        It goes along the path of the tip the branch has now: a snapshot, and memory does not
        grow with it.
        """
        scan = path_scan(type, custom_type, stop_at_type, stop_at_id, cursor, order, limit)
        return _Entries(self, self._native.entries(scan, ctx))

    def append_message(self, message: JsonInput, *, ctx: Context | None = None) -> str:
        """Append a message under the tip and move the tip, in one commit; give the entry's id.

        Raises:
            PendingAssistantError: If it is an assistant's message that is still pending.
            UnknownBranchError: If the branch was deleted.
        """
        return self._native.append_many([(message,)], ctx)[0]

    def append_custom_entry(
        self,
        custom_type: str,
        data: JsonInput | Absent = ABSENT,
        *,
        ctx: Context | None = None,
    ) -> str:
        """Append an entry of the application's own type, with or without data; give its id."""
        return self._native.append_many([_custom(custom_type, data)], ctx)[0]

    def append_many(
        self, nodes: Iterable[NewMessage | NewCustomEntry], *, ctx: Context | None = None
    ) -> list[str]:
        """Append several entries, each under the one before, in one commit; give their ids."""
        return self._native.append_many([_node(node) for node in nodes], ctx)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Branch):
            return NotImplemented
        return self._native.equals(other._native)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<pisession.Branch {self.name!r} of {self._session!r}>"


def _custom(custom_type: str, data: JsonInput | Absent) -> Node:
    string("custom_type", custom_type)
    return custom_type if isinstance(data, Absent) else (custom_type, data)


def _node(node: Any) -> Node:
    match node:
        case NewMessage(message):
            return (message,)
        case NewCustomEntry(custom_type, data):
            return _custom(custom_type, data)
    raise TypeError(f"a node is a NewMessage or a NewCustomEntry, not {type(node).__name__}")


class _Entries(Iterator[Entry]):
    """Keeps the handle alive that the entries come from."""

    def __init__(self, owner: object, native: _pisession.Entries) -> None:
        self._owner = owner
        self._native = native

    def __next__(self) -> Entry:
        return _entry_of(next(self._native))
