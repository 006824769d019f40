"""Repairing sessions, and copying them elsewhere as they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from . import _pisession
from ._errors import Error
from ._pisession import Context
from ._records import FileWarning, Finding, SessionListing, SessionMetadata
from ._repository import Repository, listing_of
from ._session import Session
from ._values import optional_callable, path_text


@dataclass(frozen=True)
class RepairCounts:
    """How much a repair kept.

    Attributes:
        entries: Entries of every type.
        messages: Of these, messages.
        values: Values, the tips of branches included.
        elements: Elements of lists.
        usage: Rows of the ledger.
    """

    entries: int
    messages: int
    values: int
    elements: int
    usage: int


@dataclass(frozen=True)
class Repair:
    """What a repair did, or would do.

    Attributes:
        source: What the damaged session says of itself.
        session: The new session; None if there was only a look.
        kept: How much was kept.
        findings: What was damaged, and what was changed or left out therefore.
        warnings: What the reader of a file of version 1 to 3 warned of.
    """

    source: SessionMetadata
    session: SessionMetadata | None
    kept: RepairCounts
    findings: tuple[Finding, ...]
    warnings: tuple[FileWarning, ...]

    @property
    def is_sound(self) -> bool:
        """Whether there was nothing to repair."""
        return not self.findings and not self.warnings


@dataclass(frozen=True)
class Conversion:
    """What the conversion of a session did.

    Attributes:
        session: The session in its new place.
        made: Whether it was made; if not, it was there already, and holds the same.
    """

    session: SessionMetadata
    made: bool


@dataclass(frozen=True)
class Converted:
    """A session of a repository that was converted, or why it was not.

    Attributes:
        source: Where it is listed.
        conversion: What was done; None if it failed.
        error: Why it failed.
    """

    source: SessionListing
    conversion: Conversion | None
    error: Error | None


def repair_file(
    path: str | os.PathLike[str],
    into: Repository | None = None,
    *,
    id: str | None = None,
    session: str | None = None,
    ctx: Context | None = None,
) -> Repair:
    """Make a sound new session of what can be read of the damaged one in the file at `path`.

    The file is only read. Ids, seqs and times stay; what is missing is told.

    Args:
        path: The file: JSON lines of any version, or SQLite.
        into: Where the new session is made. Without it nothing is made, and what would be is told.
        id: The id of the new session; the damaged one's by default.
        session: Which session is meant, in a database that holds several.
        ctx: The authority of this call.

    Raises:
        NotASessionError: If nothing in the file is of a session.
        SessionExistsError: If there is a session of that id in `into`.
        AmbiguousSessionError: If the database holds several sessions.
        UnsupportedVersionError: If the file is of a newer version.
    """
    native = None if into is None else into._native
    source, made, kept, findings, warnings = _pisession.repair_file(
        path_text("path", path), native, id, session, ctx
    )
    return Repair(
        SessionMetadata(*source),
        None if made is None else SessionMetadata(*made),
        RepairCounts(*kept),
        tuple(Finding(*finding) for finding in findings),
        tuple(FileWarning(*warning) for warning in warnings),
    )


def convert_session(
    session: Session,
    into: Repository,
    *,
    progress: Callable[[int], object] | None = None,
    ctx: Context | None = None,
) -> Conversion:
    """Copy a session into another repository as it is, whole or not at all.

    One that is there already and holds the same is left as it is. A session that was opened from a
    file of version 1 to 3 is imported.

    Args:
        session: The session; it may be in use.
        into: Where it is copied to.
        progress: Told now and then how much was copied. It must not use sessions; what it raises
            ends the conversion, which can be run again.
        ctx: The authority of this call.

    Raises:
        SessionExistsError: If a session of that id is there that is something else.
    """
    optional_callable("progress", progress)
    metadata, made = _pisession.convert_session(session._native, into._native, progress, ctx)
    return Conversion(SessionMetadata(*metadata), made)


def convert_repository(
    source: Repository, into: Repository, *, ctx: Context | None = None
) -> list[Converted]:
    """Copy every session of a repository into another one.

    One that fails does not stop the others. Run again, it goes on with what is missing.

    Args:
        source: The repository whose sessions are copied.
        into: Where they are copied to.
        ctx: The authority of this call.
    """
    done = _pisession.convert_repository(source._native, into._native, ctx)
    return [
        Converted(
            listing_of(*listing),
            None if made is None else Conversion(SessionMetadata(*made[0]), made[1]),
            error,
        )
        for listing, made, error in done
    ]
