"""Records: what is read from a session. Frozen, comparable, picklable."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ._errors import Error
from ._tuples import LegacyTuple, LossTuple, StatsTuple, UsageTuple
from ._values import JsonInput, preview, read_json

# Unions of one each: what stubtest takes for what a type checker makes of them.
Order: TypeAlias = Literal["asc"] | Literal["desc"]
PathOrder: TypeAlias = Literal["newest_first"] | Literal["oldest_first"]
CheckDepth: TypeAlias = Literal["brief"] | Literal["quick"] | Literal["full"]
Durability: TypeAlias = Literal["power"] | Literal["process"]
LegacyPolicy: TypeAlias = Literal["read_only"] | Literal["copy"] | Literal["upgrade"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(milliseconds: int) -> datetime:
    """Give a time in UTC."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


class Record:
    """Converted payloads are kept beside the fields, and are no part of the state."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Cost:
    """Costs of a request, in the currency of its provider."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    total: float = 0


@dataclass(frozen=True)
class Usage:
    """Tokens and costs of a request, or the sums of many.

    Attributes:
        cache_write_1h: Of the tokens written to the cache, those for an hour; in a sum once any
            row had it.
        reasoning: Reasoning tokens; in a sum once any row had it.
    """

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    cache_write_1h: float | None = None
    reasoning: float | None = None
    total_tokens: float = 0
    cost: Cost = Cost()

    def to_dict(self) -> dict[str, JsonInput]:
        """Give the JSON object of the files."""
        optional = {"cacheWrite1h": self.cache_write_1h, "reasoning": self.reasoning}
        return {
            "input": self.input,
            "output": self.output,
            "cacheRead": self.cache_read,
            "cacheWrite": self.cache_write,
            **{name: number for name, number in optional.items() if number is not None},
            "totalTokens": self.total_tokens,
            "cost": {
                "input": self.cost.input,
                "output": self.cost.output,
                "cacheRead": self.cost.cache_read,
                "cacheWrite": self.cost.cache_write,
                "total": self.cost.total,
            },
        }


def usage_in(payload: dict[str, Any]) -> Usage | None:
    """Give the usage in a payload; what is no number counts as 0."""
    usage = payload.get("usage")
    if not isinstance(usage, dict):
        return None

    def number(owner: Any, name: str, absent: Any = 0) -> Any:
        found = owner.get(name) if isinstance(owner, dict) else None
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        return found if is_number else absent

    cost = usage.get("cost")
    return Usage(
        input=number(usage, "input"),
        output=number(usage, "output"),
        cache_read=number(usage, "cacheRead"),
        cache_write=number(usage, "cacheWrite"),
        cache_write_1h=number(usage, "cacheWrite1h", None),
        reasoning=number(usage, "reasoning", None),
        total_tokens=number(usage, "totalTokens"),
        cost=Cost(
            input=number(cost, "input"),
            output=number(cost, "output"),
            cache_read=number(cost, "cacheRead"),
            cache_write=number(cost, "cacheWrite"),
            total=number(cost, "total"),
        ),
    )


def usage_of(native: UsageTuple) -> Usage:
    """Make the record of a usage."""
    return Usage(*native[:7], Cost(*native[7]))


@dataclass(frozen=True, repr=False)
class UsageRow(Record):
    """A row of the cost ledger, as stored.

    Attributes:
        id: Its id.
        seq: Its place in the session's order.
        usage: Its counters.
        payload_json: Its fields but id and seq, exactly as stored.
    """

    id: str
    seq: int
    usage: Usage
    payload_json: bytes

    @cached_property
    def payload(self) -> dict[str, Any]:
        """Its fields but id and seq, converted at the first look."""
        payload: dict[str, Any] = read_json(self.payload_json)
        return payload

    @property
    def adjustment(self) -> bool:
        """Whether it corrects the ledger and stands for no request."""
        return self.payload.get("adjustment") is True

    @property
    def entry_id(self) -> str | None:
        """The entry it is about."""
        return self.payload.get("entryId")

    @property
    def details(self) -> Any:
        """What else its writer noted; None if nothing."""
        return self.payload.get("details")

    def __repr__(self) -> str:
        return f"UsageRow(id={self.id!r}, seq={self.seq}, {self.usage})"


@dataclass(frozen=True)
class Stats:
    """Totals of a session.

    Attributes:
        message_count: Entries of type `message`.
        usage: Sums over the ledger.
    """

    message_count: int
    usage: Usage


def stats_of(native: StatsTuple) -> Stats:
    """Make the record of a session's totals."""
    message_count, usage = native
    return Stats(message_count, usage_of(usage))


@dataclass(frozen=True)
class CommitResult:
    """What a commit did.

    Attributes:
        first_seq: The first `seq`; of an empty commit the next one.
        seqs: The `seq` of each write, in their order.
        timestamp: The one timestamp of all its entries, Unix milliseconds.
        stats: The session's totals right after it.
    """

    first_seq: int
    seqs: tuple[int, ...]
    timestamp: int
    stats: Stats

    @property
    def time(self) -> datetime:
        """The one timestamp of all its entries, in UTC."""
        return time_of(self.timestamp)


@dataclass(frozen=True, repr=False)
class StoredValue(Record):
    """A value as stored.

    Attributes:
        namespace: Where it is.
        key: Where it is.
        value_json: What is there, exactly as stored.
        seq: When it was set, in the session's order.
    """

    namespace: str
    key: str
    value_json: bytes
    seq: int

    @cached_property
    def value(self) -> Any:
        """What is there, converted at the first look."""
        return read_json(self.value_json)

    def __repr__(self) -> str:
        place = f"{self.namespace!r}, {self.key!r}"
        return f"StoredValue({place}, {preview(self.value_json)}, seq={self.seq})"


@dataclass(frozen=True, repr=False)
class ListElement(Record):
    """An element of a list.

    Attributes:
        value_json: What it is, exactly as stored.
        seq: Its place in the session's order, and its cursor.
    """

    value_json: bytes
    seq: int

    @cached_property
    def value(self) -> Any:
        """What it is, converted at the first look."""
        return read_json(self.value_json)

    def __repr__(self) -> str:
        return f"ListElement({preview(self.value_json)}, seq={self.seq})"


@dataclass(frozen=True)
class BranchInfo:
    """A branch and where it points.

    Attributes:
        name: Its name.
        tip_id: Its tip; None for a null tip.
    """

    name: str
    tip_id: str | None


@dataclass(frozen=True)
class Address:
    """Where a value or a list is kept.

    Attributes:
        namespace: Not empty; `pi` and all `pi.*` are the library's own.
        key: May be empty.
    """

    namespace: str
    key: str


@dataclass(frozen=True)
class SessionMetadata:
    """What a session says of itself.

    Attributes:
        id: Its id, unique in its repository.
        created_at: When it was made, Unix milliseconds.
        storage_version: Version of the stored form.
        cwd: The working folder it was made for.
        parent_session_id: The session it was forked or copied from.
        legacy_parent_session_path: The file of an old session it came from, where that has no
            id here.
        path: The file it is kept in.
    """

    id: str
    created_at: int
    storage_version: int
    cwd: str | None = None
    parent_session_id: str | None = None
    legacy_parent_session_path: str | None = None
    path: Path | None = None

    @property
    def created(self) -> datetime:
        """When it was made, in UTC."""
        return time_of(self.created_at)


@dataclass(frozen=True)
class SessionListing:
    """One line of a listing.

    Attributes:
        metadata: What the session says of itself; None if it cannot be read, see `problem`.
        path: The file it is in.
        modified_at: When it was last written, Unix milliseconds, where that is known.
        format: How it is kept.
        name: Its name, when details were asked for.
        message_count: How many messages it has, when details were asked for.
        problem: Why it cannot be read.
    """

    metadata: SessionMetadata | None
    path: Path | None
    modified_at: int | None
    format: str
    name: str | None = None
    message_count: int | None = None
    problem: Error | None = None

    @property
    def id(self) -> str | None:
        """The session's id; None if it cannot be read."""
        return None if self.metadata is None else self.metadata.id

    @property
    def modified(self) -> datetime | None:
        """When it was last written, in UTC, where that is known."""
        return None if self.modified_at is None else time_of(self.modified_at)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a session, found by a check or a repair.

    Attributes:
        kind: What it is, for example "damaged_line".
        message: It in a sentence.
        id: The entry, branch or other id it is about.
        line: The line of the file it is in, from 1.
        offset: The offset in the file where it begins.
        length: How many bytes of the file it takes.
        hint: What to do about it.
    """

    kind: str
    message: str
    id: str | None
    line: int | None
    offset: int | None
    length: int | None
    hint: str | None


@dataclass(frozen=True)
class Gap:
    """A damaged line of a file, which opening with `salvage` read past.

    Attributes:
        line: The line, from 1.
        offset: Where it starts in the file.
        length: How many bytes it has, without its end.
        reason: What is wrong with it.
    """

    line: int
    offset: int
    length: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(frozen=True)
class Compaction:
    """What a compaction did.

    Attributes:
        before: Bytes of the file before.
        after: Bytes of the file after.
    """

    before: int
    after: int


@dataclass(frozen=True)
class FileWarning:
    """One thing that reading a session file of version 1 to 3 found.

    Attributes:
        kind: What it is about, for example "bad_line".
        line: The line, from 1.
        value: Which of the values on the line, from 0.
        offset: Where the line starts in the file.
        length: How many bytes the line has, without its end.
        message: What was found, in plain words.
        is_damage: Whether the file's structure is damaged there; strict reading refuses it.
    """

    kind: str
    line: int
    value: int
    offset: int
    length: int
    message: str
    is_damage: bool

    def __str__(self) -> str:
        return f"line {self.line}: {self.message} ({self.kind})"


@dataclass(frozen=True)
class Legacy:
    """What reading a session file of version 1 to 3 found.

    Attributes:
        version: The version of the file; 1 where it says none.
        session_id: The session id in the file.
        warnings: What is wrong with the file, by line.
        ids: Old ids with the ids of their entries here, in stored order. An old id that the file
            uses for several entries comes several times.
        usage: The usage in the file, summed.
        usage_rows: How many usage objects went into it.
        backup: Where the file as it was is kept, if opening it upgraded it.
    """

    version: int
    session_id: str
    warnings: tuple[FileWarning, ...]
    ids: tuple[tuple[str, str], ...]
    usage: Usage
    usage_rows: int
    backup: Path | None


@dataclass(frozen=True)
class Import:
    """What an import did.

    Attributes:
        session: The session: the new one, or the one that held the file already.
        added: Whether anything was added.
        entries: How many entries the file gives.
        legacy: What reading the file found: its warnings, the map of its ids.
    """

    session: SessionMetadata
    added: bool
    entries: int
    legacy: Legacy


@dataclass(frozen=True)
class Loss:
    """One kind of thing that a session has and a file of version 3 cannot hold.

    Attributes:
        kind: What it is about, for example "usage_row".
        count: How many of them.
        message: What is not in the file, in plain words.
        name: The namespace, branch or field.
        address: The address of the first of them, for values and lists.
        entry_id: The first entry, for what belongs to entries.
    """

    kind: str
    count: int
    message: str
    name: str | None
    address: Address | None
    entry_id: str | None

    def __str__(self) -> str:
        return f"{self.message} ({self.kind})"


@dataclass(frozen=True)
class Export:
    """What an export did.

    Attributes:
        path: The file.
        entries: How many entries of the session are in it.
        lines: How many lines it has, the header included.
        bytes: How many bytes it has.
        losses: What the session has and version 3 cannot hold, by kind and name.
    """

    path: Path
    entries: int
    lines: int
    bytes: int
    losses: tuple[Loss, ...]


def losses_of(found: list[LossTuple]) -> tuple[Loss, ...]:
    """Make the records."""
    return tuple(
        Loss(kind, count, message, name, Address(*address) if address else None, entry_id)
        for kind, count, message, name, address, entry_id in found
    )


def legacy_of(found: LegacyTuple) -> Legacy:
    """Make the record."""
    version, session_id, warnings, ids, usage, usage_rows, backup = found
    return Legacy(
        version,
        session_id,
        tuple(FileWarning(*warning) for warning in warnings),
        tuple(ids),
        usage_of(usage),
        usage_rows,
        backup,
    )
