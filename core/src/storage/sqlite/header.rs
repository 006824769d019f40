//! Is a file ours? Judged before anything of it is opened for writing.

use std::path::Path;
use std::time::Duration;

use super::connection::Connection;
use super::schema::{APPLICATION_ID, USER_VERSION};
use super::{Access, Database, Schema, reference};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::repository::Durability;

/// The oldest SQLite whose WAL may be shared by processes without the risk of corruption.
const OLDEST_LIBRARY: i32 = 3_051_003;

pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";

/// Refuses to write with a SQLite that can corrupt the file.
pub(super) fn check_library(path: &Path) -> Result<()> {
    check_library_version(rusqlite::version_number(), path)
}

fn check_library_version(number: i32, path: &Path) -> Result<()> {
    if number < OLDEST_LIBRARY {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("this library was built with SQLite {number}, which can corrupt a shared database"),
        )
        .with_path(path)
        .with_hint("build it with SQLite 3.51.3 or newer, or open the session for reading only"));
    }
    Ok(())
}

/// Where the mark of an application stands in the first bytes of a file, and the way its journal is kept.
const APPLICATION_ID_AT: usize = 68;
const JOURNAL_AT: usize = 18;
const WAL: u8 = 2;

/// Whether the first 100 bytes of a file are those of a database that no application marked. Whose tables it
/// has is told by its schema, which may be in its WAL.
pub(super) fn is_unmarked(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) && bytes.get(APPLICATION_ID_AT..).is_some_and(|rest| rest.starts_with(&[0; 4]))
}

/// Whether such a file is changed in place, beside a journal of what was there.
pub(super) fn is_changed_in_place(bytes: &[u8]) -> bool {
    bytes.get(JOURNAL_AT).is_some_and(|journal| *journal != WAL)
}

/// Judges the first 100 bytes of a file of ours.
pub(super) fn check(bytes: &[u8], path: &Path) -> Result<()> {
    if bytes.is_empty() {
        return Err(not_a_session(path, "it is empty"));
    }
    let number =
        |at: usize| bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, i32::from_be_bytes);
    if !bytes.starts_with(MAGIC) || bytes.len() < 100 {
        return Err(not_a_session(path, "it is no SQLite database"));
    }
    check_marks(number(APPLICATION_ID_AT), number(60), path)?;
    // Written to without a WAL: by somebody who changed the journal mode, so the locks would not hold.
    if bytes[JOURNAL_AT] != WAL {
        return Err(not_a_session(path, "its journal mode was changed")
            .with_hint("set it back with `PRAGMA journal_mode = wal`"));
    }
    Ok(())
}

/// Judges the file that a connection has open, with what its WAL holds.
pub(super) fn check_through(connection: &Connection) -> Result<Schema> {
    let schema = schema_through(connection)?;
    if schema == Schema::Ours {
        // Reads a page of the schema.
        connection.first("SELECT count(*) FROM session_row WHERE state <> 0", [], |_| Ok(()))?;
    }
    Ok(schema)
}

/// Judges the marks alone: whose the file is, however damaged.
pub(super) fn schema_through(connection: &Connection) -> Result<Schema> {
    let number = |sql| connection.first(sql, [], |row| row.get::<_, i32>(0)).map(Option::unwrap_or_default);
    let path = connection.path();
    let application_id = number("PRAGMA application_id").map_err(|error| match error.kind() {
        ErrorKind::NotASession => not_a_session(path, "it is no SQLite database"),
        _ => error,
    })?;
    if application_id == 0 {
        return if reference::is_one(connection)? {
            Ok(Schema::Reference)
        } else {
            Err(not_a_session(path, OTHERS))
        };
    }
    check_marks(application_id, number("PRAGMA user_version")?, path)?;
    Ok(Schema::Ours)
}

fn check_marks(application_id: i32, user_version: i32, path: &Path) -> Result<()> {
    if application_id != APPLICATION_ID {
        return Err(not_a_session(path, OTHERS));
    }
    if user_version > USER_VERSION {
        return Err(Error::new(
            ErrorKind::UnsupportedVersion,
            format!("the file is of version {user_version}; this library reads up to {USER_VERSION}"),
        )
        .with_path(path)
        .with_hint("use a newer version of the library; the file was left as it is"));
    }
    if user_version < 1 {
        return Err(not_a_session(path, "its version is not one that was ever written"));
    }
    Ok(())
}

const OTHERS: &str = "it is a SQLite database of another application";

/// The refusal to write to a database that no application marked.
pub(super) fn not_ours(path: &Path, ctx: &Context) -> Error {
    let opened = Database::open(path, Access::Read, Durability::Process, Duration::ZERO, ctx);
    match opened {
        Ok(_) => reference::read_only(path),
        Err(error) => error,
    }
}

pub(super) fn not_a_session(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::NotASession, format!("the file holds no session: {why}"))
        .with_path(path)
        .with_hint("the file was left as it is")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_sqlite_may_not_write() {
        assert_eq!(
            check_library_version(3_051_002, Path::new("x")).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert!(check_library_version(3_051_003, Path::new("x")).is_ok());
    }
}
