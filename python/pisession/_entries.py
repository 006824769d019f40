"""Entries: what the conversation tree is made of, and what is appended to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

from ._records import Record, Usage, time_of, usage_in
from ._tuples import EntryTuple, StructureTuple
from ._values import ABSENT, Absent, JsonInput, preview, read_json

# A union of one each: what stubtest takes for what a type checker makes of it.
EntryType: TypeAlias = (
    Literal["message"] | Literal["compaction"] | Literal["branch_summary"] | Literal["custom"]
)


@dataclass(frozen=True, repr=False)
class Entry(Record):
    """An entry of the conversation tree, as stored. Its class says what it is.

    Attributes:
        id: Its id.
        parent_id: Its parent's id; None for a root.
        seq: Its place in the session's order.
        timestamp: When its commit was made, Unix milliseconds.
        payload_json: The object of its payload fields, exactly as stored.
    """

    id: str
    parent_id: str | None
    seq: int
    timestamp: int
    payload_json: bytes

    type: ClassVar[EntryType]

    @property
    def time(self) -> datetime:
        """When its commit was made, in UTC."""
        return time_of(self.timestamp)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The payload fields, converted at the first look. Every look gives the same dict."""
        payload: dict[str, Any] = read_json(self.payload_json)
        return payload

    @property
    def message(self) -> dict[str, Any]:
        """The message of a message entry; other entries have none (`AttributeError`)."""
        raise AttributeError(f"a {self.type} entry has no message", name="message", obj=self)

    def _summary(self) -> str:
        return preview(self.payload_json)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, seq={self.seq}, {self._summary()})"


@dataclass(frozen=True, repr=False)
class MessageEntry(Entry):
    """An agent message."""

    type: ClassVar[EntryType] = "message"

    @property
    def message(self) -> dict[str, Any]:
        """The message."""
        message: dict[str, Any] = self.payload["message"]
        return message

    @property
    def role(self) -> str | None:
        """The role of the message."""
        role = self.message.get("role")
        return role if isinstance(role, str) else None

    @property
    def terminate(self) -> bool:
        """Whether the run ends after this message."""
        return self.payload.get("terminate") is True


@dataclass(frozen=True, repr=False)
class CompactionEntry(Entry):
    """A compaction: a summary that stands for what came before it."""

    type: ClassVar[EntryType] = "compaction"

    @property
    def summary(self) -> str:
        """The summary."""
        return str(self.payload["summary"])

    @property
    def retained_tail(self) -> list[Any]:
        """The messages that were kept as they were."""
        tail: list[Any] = self.payload["retainedTail"]
        return tail

    @property
    def tokens_before(self) -> float:
        """How many tokens the context had before it."""
        tokens: float = self.payload["tokensBefore"]
        return tokens

    @property
    def details(self) -> Any:
        """What else its maker noted; None if nothing."""
        return self.payload.get("details")

    @property
    def usage(self) -> Usage | None:
        """What making it cost."""
        return usage_in(self.payload)

    @property
    def from_hook(self) -> bool:
        """Whether a hook made it."""
        return self.payload["fromHook"] is True


@dataclass(frozen=True, repr=False)
class BranchSummaryEntry(Entry):
    """A summary of a branch that was left."""

    type: ClassVar[EntryType] = "branch_summary"

    @property
    def from_id(self) -> str | None:
        """The entry the branch was left at; None for the root."""
        from_id: str | None = self.payload["fromId"]
        return from_id

    @property
    def summary(self) -> str:
        """The summary."""
        return str(self.payload["summary"])

    @property
    def details(self) -> Any:
        """What else its maker noted; None if nothing."""
        return self.payload.get("details")

    @property
    def usage(self) -> Usage | None:
        """What making it cost."""
        return usage_in(self.payload)

    @property
    def from_hook(self) -> bool:
        """Whether a hook made it."""
        return self.payload["fromHook"] is True


@dataclass(frozen=True, repr=False)
class CustomEntry(Entry):
    """An entry of the application's own type, with or without data.

    Attributes:
        custom_type: The application's name for what it is.
    """

    custom_type: str

    type: ClassVar[EntryType] = "custom"

    @property
    def data(self) -> Any:
        """The data; None if it is a JSON null or not there, see `has_data`."""
        return self.payload.get("data")

    @property
    def has_data(self) -> bool:
        """Whether there is data."""
        return "data" in self.payload

    def _summary(self) -> str:
        return f"custom_type={self.custom_type!r}, {super()._summary()}"


_ENTRY_CLASSES: dict[str, type[Entry]] = {
    cls.type: cls for cls in (MessageEntry, CompactionEntry, BranchSummaryEntry)
}


def entry_of(native: EntryTuple) -> Entry:
    """Make the record of an entry."""
    entry_id, parent_id, seq, timestamp, type_name, custom_type, payload = native
    if custom_type is not None:
        return CustomEntry(entry_id, parent_id, seq, timestamp, payload, custom_type)
    return _ENTRY_CLASSES[type_name](entry_id, parent_id, seq, timestamp, payload)


@dataclass(frozen=True)
class EntryStructure:
    """Where an entry stands, without its payload.

    Attributes:
        id: Its id.
        parent_id: Its parent's id; None for a root.
        seq: Its place in the session's order.
        timestamp: When its commit was made, Unix milliseconds.
        type: What it is.
        custom_type: The application's name for what it is, for custom entries only.
    """

    id: str
    parent_id: str | None
    seq: int
    timestamp: int
    type: EntryType
    custom_type: str | None = None

    @property
    def time(self) -> datetime:
        """When its commit was made, in UTC."""
        return time_of(self.timestamp)


def structure_of(native: StructureTuple) -> EntryStructure:
    """Make the record of where an entry stands."""
    entry_id, parent_id, seq, timestamp, type_name, custom_type = native
    entry_type = CustomEntry.type if custom_type is not None else _ENTRY_CLASSES[type_name].type
    return EntryStructure(entry_id, parent_id, seq, timestamp, entry_type, custom_type)


@dataclass(frozen=True)
class NewMessage:
    """A message to be appended.

    Attributes:
        message: The message, opaque but for `role` and `stopReason`.
    """

    message: JsonInput


@dataclass(frozen=True)
class NewCustomEntry:
    """An entry of the application's own type, to be appended.

    Attributes:
        custom_type: The application's name for what it is.
        data: Its data; `ABSENT` for none.
    """

    custom_type: str
    data: JsonInput | Absent = ABSENT
