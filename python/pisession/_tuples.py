"""What goes to and comes from the native module: plain tuples, in this order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from ._errors import Error

# type, custom_type, from_seq, to_seq, cursor, order, limit
EntryQuery: TypeAlias = tuple[
    str | None, str | None, int | None, int | None, int | None, str, int | None
]
# type, custom_type, stop_at_type, stop_at_id, cursor, order, limit
PathScan: TypeAlias = tuple[
    str | None, str | None, str | None, str | None, int | None, str, int | None
]
# from_seq, to_seq, order, limit
UsageScan: TypeAlias = tuple[int | None, int | None, str, int | None]
# cursor, order, limit
ListRead: TypeAlias = tuple[int | None, str, int]
# (message,), (custom_type, data), or custom_type for one without data
Node: TypeAlias = tuple[Any] | tuple[str, Any] | str

# id, parent_id, seq, timestamp, type, custom_type, payload
EntryTuple: TypeAlias = tuple[str, str | None, int, int, str, str | None, bytes]
# id, parent_id, seq, timestamp, type, custom_type
StructureTuple: TypeAlias = tuple[str, str | None, int, int, str, str | None]
# input, output, cache_read, cache_write, total
CostTuple: TypeAlias = tuple[float, float, float, float, float]
# input, output, cache_read, cache_write, cache_write_1h, reasoning, total_tokens, cost
UsageTuple: TypeAlias = tuple[
    float, float, float, float, float | None, float | None, float, CostTuple
]
# message_count, usage
StatsTuple: TypeAlias = tuple[int, UsageTuple]
# first_seq, seqs, timestamp, stats
CommitTuple: TypeAlias = tuple[int, list[int], int, StatsTuple]
# id, created_at, storage_version, cwd, parent_session_id, legacy_parent_session_path, path
MetadataTuple: TypeAlias = tuple[str, int, int, str | None, str | None, str | None, Path | None]
# metadata, path, modified_at, format, name, message_count, problem
ListingTuple: TypeAlias = tuple[
    MetadataTuple | None, Path | None, int | None, str, str | None, int | None, Error | None
]
# read_only, legacy, copy_to, salvage, strict
OpenTuple: TypeAlias = tuple[bool, str, Any, bool, bool]
# kind, line, value, offset, length, message, is_damage
WarningTuple: TypeAlias = tuple[str, int, int, int, int, str, bool]
# kind, count, message, name, address, entry_id
LossTuple: TypeAlias = tuple[str, int, str, str | None, tuple[str, str] | None, str | None]
# version, session_id, warnings, ids, usage, usage_rows, backup
LegacyTuple: TypeAlias = tuple[
    int, str, list[WarningTuple], list[tuple[str, str]], UsageTuple, int, Path | None
]
# kind, message, id, line, offset, length, hint
FindingTuple: TypeAlias = tuple[
    str, str, str | None, int | None, int | None, int | None, str | None
]
# session, made
ConversionTuple: TypeAlias = tuple[MetadataTuple, bool]
