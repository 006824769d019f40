"""Session files outside of repositories: opened as they are, copied, imported."""

from __future__ import annotations

import os

from . import _pisession
from ._pisession import Context
from ._records import Import, SessionMetadata, file_warnings
from ._repository import Repository
from ._session import Session
from ._values import path_text


def open_file(
    path: str | os.PathLike[str],
    *,
    strict: bool = False,
    salvage: bool = False,
    copy_to: Repository | None = None,
    ctx: Context | None = None,
) -> Session:
    """Open the session file at `path`, whatever it is called, as a session.

    Files of versions 1, 2 and 3 are read as they are and never written; `Session.file_warnings`
    tells what was found in them. A file of format 4 is opened for reading.

    Args:
        path: The file.
        strict: Refuse a file whose structure is damaged, instead of warning of it.
        salvage: Go on although the file is damaged: needed to copy from one that is, and to read
            one of format 4.
        copy_to: Make a new session in this repository, whole, and give that one. Without it the
            session is read-only.
        ctx: The authority of this call.

    Raises:
        NotASessionError: If it is anything else.
        UnsupportedError: If it is an SQLite database.
        CorruptError: If it is damaged, and `strict`, or is to be copied without `salvage`.
    """
    native = None if copy_to is None else copy_to._native
    session = _pisession.open_file(path_text("path", path), strict, salvage, native, ctx)
    return Session(None, session) if copy_to is None else copy_to._session(session)


def import_file(
    path: str | os.PathLike[str],
    repository: Repository,
    *,
    strict: bool = False,
    salvage: bool = False,
    id: str | None = None,
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
        ctx: The authority of this call.

    Raises:
        SessionExistsError: If a session of that id is something else.
        CorruptError: If the file is damaged, without `salvage`.
        UnsupportedVersionError: If the file is of a version above 3.
    """
    metadata, added, entries, warnings = _pisession.import_file(
        path_text("path", path), repository._native, strict, salvage, id, ctx
    )
    return Import(SessionMetadata(*metadata), added, entries, file_warnings(warnings))
