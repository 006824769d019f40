//! Is a file ours? Judged before anything of it is opened for writing.

use std::path::Path;

use super::connection::{Connection, Purpose};
use super::schema::{APPLICATION_ID, USER_VERSION};
use crate::error::{Error, ErrorKind, Result};

/// The oldest SQLite whose WAL may be shared by processes without the risk of corruption.
const OLDEST_LIBRARY: i32 = 3_051_003;

const MAGIC: &[u8] = b"SQLite format 3\0";

/// Tables by which a container of the reference implementation is known.
const REFERENCE_TABLES: [&str; 3] = ["sessions", "scalar_values", "usage_ledger"];

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

/// Judges the first 100 bytes of a file.
pub(super) fn check(bytes: &[u8], path: &Path) -> Result<()> {
    if bytes.is_empty() {
        return Err(not_a_session(path, "it is empty"));
    }
    let number =
        |at: usize| bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, i32::from_be_bytes);
    if !bytes.starts_with(MAGIC) || bytes.len() < 100 {
        return Err(not_a_session(path, "it is no SQLite database"));
    }
    check_marks(number(68), number(60), path)?;
    // Written to without a WAL: by somebody who changed the journal mode, so the locks would not hold.
    if bytes[18] != 2 {
        return Err(not_a_session(path, "its journal mode was changed")
            .with_hint("set it back with `PRAGMA journal_mode = wal`"));
    }
    Ok(())
}

/// Judges the file that a connection has open, with what its WAL holds.
pub(super) fn check_through(connection: &Connection) -> Result<()> {
    let number = |sql| connection.first(sql, [], |row| row.get::<_, i32>(0)).map(Option::unwrap_or_default);
    let path = connection.path();
    let application_id = number("PRAGMA application_id").map_err(|error| match error.kind() {
        ErrorKind::NotASession => not_a_session(path, "it is no SQLite database"),
        _ => error,
    })?;
    check_marks(application_id, number("PRAGMA user_version")?, path)?;
    // Reads a page of the schema.
    connection.first("SELECT count(*) FROM session_row WHERE state <> 0", [], |_| Ok(())).map(drop)
}

fn check_marks(application_id: i32, user_version: i32, path: &Path) -> Result<()> {
    if application_id != APPLICATION_ID {
        return Err(foreign(path));
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

/// A SQLite database that is not ours.
fn foreign(path: &Path) -> Error {
    if is_of_the_reference(path).unwrap_or(false) {
        return not_a_session(path, "it is a container of the reference implementation")
            .with_hint("it cannot be opened yet, and was left as it is");
    }
    not_a_session(path, "it is a SQLite database of another application")
}

fn is_of_the_reference(path: &Path) -> Result<bool> {
    let connection = Connection::open(path, Purpose::ReadImmutable, std::time::Duration::ZERO)?;
    for table in REFERENCE_TABLES {
        let found = connection.first(
            "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1",
            [table],
            |_| Ok(()),
        )?;
        if found.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
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
