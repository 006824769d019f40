"""Session files by their path: opened, copied, upgraded, imported."""

from __future__ import annotations

import os
from collections.abc import Callable

from . import _pisession
from ._pisession import Context
from ._records import Import, LegacyPolicy, SessionMetadata, legacy_of
from ._repository import Repository, native_options
from ._session import Session
from ._values import optional_callable, path_text


def open_file(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    legacy: LegacyPolicy = "read_only",
    copy_to: Repository | None = None,
    salvage: bool = False,
    strict: bool = False,
    ctx: Context | None = None,
) -> Session:
    """Open the session file at `path`, whatever it is called, as a session.

    A file of format 4 opens as in its repository, for writing unless `read_only`. Files of versions
    1, 2 and 3 are read as they are; `Session.legacy` tells what was found in them.

    Args:
        path: The file.
        read_only: Open it for reading; nothing is copied or upgraded.
        legacy: What a write does if the file is of version 1 to 3: "read_only", it is refused with
            `LegacyReadOnlyError`; "copy", it goes to a new session, which this call makes whole,
            with a new id; "upgrade", this call rewrites the file as format 4 and keeps the old one
            as `NAME.vN.bak`, see `Session.legacy`.
        copy_to: The repository in which "copy" makes the new session; a file beside this one by
            default.
        salvage: Go on although the file is damaged. One of format 4 is then open for reading only;
            of an old one what can be read is copied or upgraded.
        strict: Refuse an old file whose structure is damaged, instead of warning of it.
        ctx: The authority of this call.

    Raises:
        NotASessionError: If it is anything else.
        UnsupportedError: If it is an SQLite database.
        SessionBusyError: If it is to be written and is open for writing elsewhere.
        CorruptError: If it is damaged, and `strict`, or is to be written without `salvage`.
        UnsupportedVersionError: If a file of a version above 3 shall be copied or upgraded.
        FileChangedError: If another program writes it meanwhile.

    Examples:
        >>> import pathlib, tempfile
        >>> import pisession
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "old.jsonl")
        >>> header = '{"type":"session","id":"old","timestamp":"2026-01-02T03:04:05Z","cwd":"/"}'
        >>> _ = path.write_text(header)
        >>> with pisession.open_file(path, legacy="upgrade") as session:
        ...     session.set_name("goes on")
        ...     session.legacy.backup.name
        'old.jsonl.v1.bak'
        >>> folder.cleanup()
    """
    options = native_options((read_only, legacy, copy_to, salvage, strict))
    session = _pisession.open_file(path_text("path", path), options, ctx)
    return Session(None, session) if copy_to is None else copy_to._session(session)


def import_file(
    path: str | os.PathLike[str],
    repository: Repository,
    *,
    strict: bool = False,
    salvage: bool = False,
    id: str | None = None,
    progress: Callable[[int, int], object] | None = None,
    ctx: Context | None = None,
) -> Import:
    """Make a session in `repository` from the session file of version 1 to 3 at `path`.

    A session that came from this file, or from one that starts with it, is left as it is and
    returned.

    Args:
        path: The file.
        repository: Where the session is to be.
        strict: Refuse a file whose structure is damaged, instead of warning of it.
        salvage: Import what can be read of a damaged file.
        id: The id of the session; the file's by default.
        progress: Told now and then about work done and all work, in bytes. It is called in the
            middle of the import: it must not use sessions. What it raises ends the import, and
            the import can be run again.
        ctx: The authority of this call.

    Raises:
        SessionExistsError: If a session of that id is something else.
        CorruptError: If the file is damaged, without `salvage`.
        UnsupportedVersionError: If the file is of a version above 3.
    """
    optional_callable("progress", progress)
    metadata, added, entries, legacy = _pisession.import_file(
        path_text("path", path), repository._native, strict, salvage, id, progress, ctx
    )
    return Import(SessionMetadata(*metadata), added, entries, legacy_of(legacy))
