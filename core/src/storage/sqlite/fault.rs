//! What SQLite's errors mean here.

use std::io;
use std::path::Path;

use nix::errno::Errno;
use rusqlite::ErrorCode;

use crate::error::{Error, ErrorKind};

const DAMAGED: &str = "the file is damaged; look at it with `pisession doctor`";

/// The error of doing `what` (a verb and its object) on the database at `path`.
pub(super) fn fault(what: &str, path: &Path, error: rusqlite::Error) -> Error {
    if let Some(cause) = system_error(&error) {
        let hint = if is_room(Errno::last()) { FULL.1 } else { "look at the disk" };
        return Error::io(format!("cannot {what}"), cause).with_path(path).with_hint(hint);
    }
    let (kind, hint) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (ErrorKind::Busy, "another program holds the database's lock; try again, or raise `busy_timeout`")
        }
        Some(ErrorCode::DiskFull) => FULL,
        Some(ErrorCode::DatabaseCorrupt) => (ErrorKind::Corrupt, DAMAGED),
        Some(ErrorCode::NotADatabase) => (ErrorKind::NotASession, "the file was left as it is"),
        Some(ErrorCode::ConstraintViolation) if message(&error).contains("session_row.id") => {
            (ErrorKind::SessionExists, "open it, or choose another id")
        }
        Some(ErrorCode::TooBig) => (ErrorKind::TooLarge, "store less at once"),
        Some(ErrorCode::ReadOnly) if extended(&error) == rusqlite::ffi::SQLITE_READONLY_DBMOVED => {
            (ErrorKind::FileChanged, "the file was moved or deleted while it was open; reopen the session")
        }
        Some(ErrorCode::ReadOnly) if extended(&error) == rusqlite::ffi::SQLITE_READONLY_ROLLBACK => (
            ErrorKind::Corrupt,
            "its last writer died in the middle of a commit; open it once with the program that wrote it, which \
             takes that back",
        ),
        Some(ErrorCode::SystemIoFailure) => (ErrorKind::Io, "nothing was written; look at the disk"),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            (ErrorKind::Io, "look at the permissions of the file and its folder")
        }
        // Our statements fit our tables, and what they write was checked: the file has other tables or rows.
        Some(ErrorCode::ConstraintViolation) => (ErrorKind::Corrupt, DAMAGED),
        Some(_) if is_of_other_tables(&error) => (ErrorKind::Corrupt, DAMAGED),
        Some(_) => (ErrorKind::Io, "reopen the session"),
        // What is stored does not have the types the schema gives it.
        None => (ErrorKind::Corrupt, DAMAGED),
    };
    Error::new(kind, format!("cannot {what}: {error}")).with_path(path).with_hint(hint).with_source(error)
}

/// What a disk without room means: SQLite took back what it had written.
const FULL: (ErrorKind, &str) = (ErrorKind::Full, "nothing was written; make room and try again");

/// Forgets what the system said last. What it says from here on is why SQLite fails.
pub(super) fn listen() {
    Errno::clear();
}

/// The error of the system behind one of SQLite's, which tells a full disk from other failures only when it
/// writes, and takes a read that fails for damage. Calls that work leave what the system said alone.
fn system_error(error: &rusqlite::Error) -> Option<io::Error> {
    let said = Errno::last();
    let is_behind = match error.sqlite_error_code()? {
        ErrorCode::SystemIoFailure => said == Errno::EIO || is_room(said),
        ErrorCode::DatabaseCorrupt => said == Errno::EIO,
        ErrorCode::CannotOpen => is_room(said),
        _ => false,
    };
    is_behind.then(|| said.into())
}

/// Whether that means: no room, or a quota or the limit on a file's size.
pub(super) fn is_room(said: Errno) -> bool {
    matches!(said, Errno::ENOSPC | Errno::EFBIG | Errno::EDQUOT)
}

/// Whether it is unknown what a failed COMMIT left behind: its last frame may be on the disk.
pub(super) fn is_uncertain(error: &rusqlite::Error) -> bool {
    let was_taken_back = extended(error) == rusqlite::ffi::SQLITE_IOERR_WRITE && is_room(Errno::last());
    !was_taken_back
        && matches!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt))
}

/// Whether a statement of ours cannot be prepared, now or again after the schema was changed.
fn is_of_other_tables(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqlInputError { error, .. } => primary(error) == rusqlite::ffi::SQLITE_ERROR,
        rusqlite::Error::SqliteFailure(failure, Some(message)) => {
            primary(failure) == rusqlite::ffi::SQLITE_ERROR && message.starts_with("no such ")
        }
        _ => false,
    }
}

fn primary(failure: &rusqlite::ffi::Error) -> i32 {
    failure.extended_code & 0xff
}

fn message(error: &rusqlite::Error) -> &str {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        _ => "",
    }
}

fn extended(error: &rusqlite::Error) -> i32 {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => failure.extended_code,
        _ => 0,
    }
}

/// Why nothing is committed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Latch {
    /// What the last commit left behind is unknown.
    Fault = 1,
    /// The WAL was replaced behind our back.
    Foreign = 2,
}

impl Latch {
    pub(super) fn error(self, path: &Path) -> Error {
        match self {
            Self::Fault => Error::new(
                ErrorKind::StorageFault,
                "an earlier commit failed and may or may not have reached the disk",
            )
            .with_hint(
                "close every session of this file that is open in this process, then open the session again: it \
                 shows what is there",
            ),
            Self::Foreign => Error::new(
                ErrorKind::ForeignSqlite,
                "another SQLite library in this process interfered with the database's write-ahead log",
            )
            .with_hint(
                "open session files in this process through this library only; commits since then may be \
                 lost: look at the session from another process, then close every session of this file that \
                 is open here before opening one again",
            ),
        }
        .with_path(path)
    }
}

/// Something the schema rules out was found.
pub(super) fn corrupt(path: &Path, what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, what).with_path(path).with_hint(DAMAGED)
}
