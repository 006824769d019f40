"""Mutations: read, decide, commit at most once. Writes are collected and committed together."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from . import _pisession
from ._pisession import Context
from ._reads import Reads
from ._records import CommitResult, Usage
from ._records import stats_of as _stats_of
from ._values import ABSENT, Absent, JsonInput, RawJson, optional_string, string

if TYPE_CHECKING:
    from ._session import Session

_TIP = "pi.branch.tip"


class Mutator(Reads[_pisession.Mutation]):
    """The inside of a mutation: its reads, its writes and its one commit, without its end.

    Reads do not see the writes that were collected. Inside it never run a model request, a tool,
    a timer or another writer of the session: it blocks every writer of the session.
    """

    def __init__(self, session: Session, native: _pisession.Mutation, ctx: Context | None) -> None:
        # The session lives as long as its mutation does.
        self._session = session
        self._native = native
        self._ctx = ctx

    def set_value(self, namespace: str, key: str, value: JsonInput) -> None:
        """Set or replace a value."""
        self._native.set_value(namespace, key, value)

    def delete_value(self, namespace: str, key: str = "") -> None:
        """Delete a value; fine when it is absent."""
        self._native.delete_value(namespace, key)

    def append_list(self, namespace: str, key: str, element: JsonInput) -> None:
        """Append an element to a list."""
        self._native.append_list(namespace, key, element)

    def delete_list(self, namespace: str, key: str = "") -> None:
        """Delete a whole list; fine when it is absent."""
        self._native.delete_list(namespace, key)

    def set_branch_tip(self, name: str, entry_id: str | None) -> None:
        """Point a branch at an entry that exists or is inserted by the same commit."""
        self._native.set_value(_TIP, string("name", name), optional_string("entry_id", entry_id))

    def insert_entry(self, entry: Mapping[str, JsonInput] | RawJson) -> str:
        """Insert an entry of any type from its JSON object; give its id. It moves no tip.

        Args:
            entry: `id` (a mapping may leave it out for a new one), `parentId`, `type`,
                `customType` for a custom entry, and the payload fields of the type.
        """
        return self._insert_entry(entry, "entry")

    def insert_usage_row(self, row: Mapping[str, JsonInput] | RawJson) -> str:
        """Append a row to the cost ledger from its JSON object; give its id.

        Args:
            row: `id` (a mapping may leave it out for a new one), `usage`, `adjustment`,
                `entryId`, `details`, and others, which are kept.
        """
        return self._insert_usage_row(row, "row")

    def insert_message(
        self,
        message: JsonInput,
        *,
        parent_id: str | None,
        id: str | None = None,
        terminate: bool = False,
    ) -> str:
        """Insert a message under `parent_id` (None for a root); give its id. It moves no tip."""
        fields = _entry_fields("message", parent_id, id)
        fields["message"] = message
        if terminate:
            fields["terminate"] = True
        return self._insert_entry(fields, "")

    def insert_custom_entry(
        self,
        custom_type: str,
        data: JsonInput | Absent = ABSENT,
        *,
        parent_id: str | None,
        id: str | None = None,
    ) -> str:
        """Insert an entry of the application's own type; give its id. It moves no tip."""
        fields = _entry_fields("custom", parent_id, id)
        fields["customType"] = string("custom_type", custom_type)
        if not isinstance(data, Absent):
            fields["data"] = data
        return self._insert_entry(fields, "")

    def insert_usage(
        self,
        usage: Usage,
        *,
        id: str | None = None,
        entry_id: str | None = None,
        adjustment: bool = False,
        details: JsonInput | Absent = ABSENT,
    ) -> str:
        """Append a row to the cost ledger; give its id.

        Args:
            usage: The counters.
            id: The row's id; a new one by default.
            entry_id: The entry it is about.
            adjustment: Whether it corrects the ledger and stands for no request.
            details: What else is to be noted.
        """
        if not isinstance(usage, Usage):
            raise TypeError(f"usage must be a Usage, not {type(usage).__name__}")
        fields: dict[str, JsonInput] = {"usage": usage.to_dict(), "adjustment": adjustment}
        if id is not None:
            fields["id"] = string("id", id)
        if entry_id is not None:
            fields["entryId"] = string("entry_id", entry_id)
        if not isinstance(details, Absent):
            fields["details"] = details
        return self._insert_usage_row(fields, "")

    def commit(self, *, ctx: Context | None = None) -> CommitResult:
        """Apply what was collected, all or nothing. Legal once, also without any write.

        The session's other writers wait until the mutation ends; what is done until then is
        publication.

        Raises:
            CommitAttemptedError: The second time, also after a failed first.
            MutationEndedError: After the end.
        """
        first_seq, seqs, timestamp, stats = self._native.commit(self._ctx if ctx is None else ctx)
        return CommitResult(first_seq, tuple(seqs), timestamp, _stats_of(stats))

    def _insert_entry(self, entry: Mapping[str, JsonInput] | RawJson, name: str) -> str:
        return self._native.insert_entry(self._with_id(entry, name), name)

    def _insert_usage_row(self, row: Mapping[str, JsonInput] | RawJson, name: str) -> str:
        return self._native.insert_usage_row(self._with_id(row, name), name)

    def _with_id(self, item: Mapping[str, JsonInput] | RawJson, name: str) -> JsonInput:
        if isinstance(item, RawJson):
            return item
        if not isinstance(item, Mapping):
            raise TypeError(f"{name} must be a mapping or RawJson, not {type(item).__name__}")
        return {"id": self._native.new_id(), **item}

    def _commit_collected(self) -> None:
        if self._native.pending:
            self.commit()

    def __repr__(self) -> str:
        return f"<pisession.{type(self).__name__} of {self._session!r}>"


def _entry_fields(type: str, parent_id: str | None, id: str | None) -> dict[str, JsonInput]:
    fields: dict[str, JsonInput] = {
        "parentId": optional_string("parent_id", parent_id),
        "type": type,
    }
    if id is not None:
        fields["id"] = string("id", id)
    return fields


class Mutation(Mutator):
    """One turn of a session's mutation line, as a `with` block.

    At the end of the block what was collected is committed, unless `commit` was called; after an
    exception nothing is. In either case the mutation ends.
    """

    def end(self) -> None:
        """End the mutation and let the next writer in. What was not committed is dropped.

        It waits for a commit that another thread has begun. Idempotent.
        """
        self._native.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._commit_collected()
        finally:
            self.end()
