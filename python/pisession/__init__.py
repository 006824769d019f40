"""The durable session engine for AI agents.

A session keeps an immutable tree of conversation entries with named branches, replaceable values,
append-only lists and a cost ledger, changed only by atomic commits along one mutation line.

    >>> import pisession
    >>> with pisession.open_repository("memory:") as repository:
    ...     with repository.create() as session:
    ...         main = session.create_branch("main")
    ...         id = main.append_message({"role": "user", "content": "hello"})
    ...         with session.begin_mutation() as m:
    ...             n = m.get_value("app", "counter", default=0)
    ...             m.set_value("app", "counter", n + 1)
    ...         [entry.message["role"] for entry in main.find_entries(limit=50)]
    ['user']
"""

import os as _os
import threading as _threading

from . import _pisession
from ._branch import Branch
from ._care import (
    Conversion,
    Converted,
    Repair,
    RepairCounts,
    convert_repository,
    convert_session,
    repair_file,
)
from ._entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    EntryStructure,
    EntryType,
    MessageEntry,
    NewCustomEntry,
    NewMessage,
)
from ._errors import (
    AmbiguousSessionError,
    BranchExistsError,
    BusyError,
    CancelledError,
    ClosedError,
    CommitAttemptedError,
    CorruptError,
    DeadlineExceededError,
    DuplicateIdError,
    EntryNotOnBranchError,
    Error,
    ErrorKind,
    FileChangedError,
    ForeignSqliteError,
    ForkedError,
    FullError,
    InvalidAddressError,
    InvalidArgumentError,
    InvalidBranchError,
    InvalidIdError,
    InvalidJsonError,
    InvalidLaneError,
    IoError,
    LegacyReadOnlyError,
    MissingParentError,
    MisuseError,
    MutationEndedError,
    NestedMutationError,
    NotASessionError,
    PanicError,
    PendingAssistantError,
    ReadOnlyError,
    ReservedAddressError,
    SessionBusyError,
    SessionExistsError,
    StorageFaultError,
    TooLargeError,
    UnknownBranchError,
    UnknownEntryError,
    UnknownSessionError,
    UnknownTargetError,
    UnsupportedError,
    UnsupportedVersionError,
)
from ._files import import_file, open_file
from ._mutation import Mutation, Mutator
from ._pisession import Context, __version__
from ._records import (
    Address,
    BranchInfo,
    CheckDepth,
    CommitResult,
    Compaction,
    Cost,
    Durability,
    Export,
    FileWarning,
    Finding,
    Gap,
    Import,
    Legacy,
    LegacyPolicy,
    ListElement,
    Loss,
    Order,
    PathOrder,
    SessionListing,
    SessionMetadata,
    Stats,
    StoredValue,
    Usage,
    UsageRow,
)
from ._repository import Fork, Repository, open_repository
from ._rows import Row, Rows, SqlValue
from ._session import Session
from ._values import ABSENT, Absent, JsonInput, RawJson

__all__ = [
    "ABSENT",
    "Absent",
    "Address",
    "AmbiguousSessionError",
    "Branch",
    "BranchExistsError",
    "BranchInfo",
    "BranchSummaryEntry",
    "BusyError",
    "CancelledError",
    "CheckDepth",
    "ClosedError",
    "CommitAttemptedError",
    "CommitResult",
    "Compaction",
    "CompactionEntry",
    "Context",
    "Conversion",
    "Converted",
    "CorruptError",
    "Cost",
    "CustomEntry",
    "DeadlineExceededError",
    "DuplicateIdError",
    "Durability",
    "Entry",
    "EntryNotOnBranchError",
    "EntryStructure",
    "EntryType",
    "Error",
    "ErrorKind",
    "Export",
    "FileChangedError",
    "FileWarning",
    "Finding",
    "ForeignSqliteError",
    "Fork",
    "ForkedError",
    "FullError",
    "Gap",
    "Import",
    "InvalidAddressError",
    "InvalidArgumentError",
    "InvalidBranchError",
    "InvalidIdError",
    "InvalidJsonError",
    "InvalidLaneError",
    "IoError",
    "JsonInput",
    "Legacy",
    "LegacyPolicy",
    "LegacyReadOnlyError",
    "ListElement",
    "Loss",
    "MessageEntry",
    "MissingParentError",
    "MisuseError",
    "Mutation",
    "MutationEndedError",
    "Mutator",
    "NestedMutationError",
    "NewCustomEntry",
    "NewMessage",
    "NotASessionError",
    "Order",
    "PanicError",
    "PathOrder",
    "PendingAssistantError",
    "RawJson",
    "ReadOnlyError",
    "Repair",
    "RepairCounts",
    "Repository",
    "ReservedAddressError",
    "Row",
    "Rows",
    "Session",
    "SessionBusyError",
    "SessionExistsError",
    "SessionListing",
    "SessionMetadata",
    "SqlValue",
    "Stats",
    "StorageFaultError",
    "StoredValue",
    "TooLargeError",
    "UnknownBranchError",
    "UnknownEntryError",
    "UnknownSessionError",
    "UnknownTargetError",
    "UnsupportedError",
    "UnsupportedVersionError",
    "Usage",
    "UsageRow",
    "__version__",
    "convert_repository",
    "convert_session",
    "import_file",
    "open_file",
    "open_repository",
    "repair_file",
]


# Tracebacks and pickles name classes as people do.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__


def _after_fork_in_child() -> None:
    _pisession.after_fork_in_child(_threading.main_thread().ident or 0)


# The native module listens for Ctrl-C in the waits of the thread that handles signals.
_pisession.set_main_thread(_threading.main_thread().ident or 0)
_os.register_at_fork(after_in_child=_after_fork_in_child)
