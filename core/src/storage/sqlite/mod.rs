//! The SQLite backend: one file holds one session or many, behind one schema of our own.
//!
//! A [`Database`] is one file and owns its connections; a [`SqliteStorage`] is one session in it. Who may
//! write a session is settled above, by a lock file: nothing here ever locks the database file for that.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::id::Clock;
use crate::repository::{Durability, OpenMode};
use crate::session::backend::SessionMetadata;

/// How a database file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Opens the file, or makes it with an empty schema. It appears under its name complete.
    Create,
    /// Reads and writes; never makes the file.
    Write,
    /// Reads; never makes the file and leaves nothing beside it.
    Read,
}

/// What a database knows of one of its sessions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredSession {
    /// Without `path`.
    pub(crate) metadata: SessionMetadata,
    /// Time of the last commit, Unix ms.
    pub(crate) modified_at: i64,
    /// Its name, when details were asked for.
    pub(crate) name: Option<String>,
    /// How many messages it has.
    pub(crate) message_count: u64,
}

/// One SQLite file. Cheap to clone; clones share its connections.
#[derive(Clone)]
pub(crate) struct Database {}

fn missing<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, "SQLite is not there yet"))
}

impl Database {
    /// Makes a new file, with this session in it if one is given. It appears under its name complete
    /// (temporary file, sync, link); its folder must exist. Nothing stays open.
    ///
    /// # Errors
    /// `SessionExists` if there is a file at `path`.
    pub(crate) fn create(_path: &Path, _session: Option<&SessionMetadata>, _ctx: &Context) -> Result<()> {
        missing()
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `UnknownSession` if there is none, `NotASession`, `UnsupportedVersion`, `Corrupt`, `Busy`.
    pub(crate) fn open(
        _path: &Path,
        _access: Access,
        _durability: Durability,
        _busy_timeout: Duration,
        _ctx: &Context,
    ) -> Result<Database> {
        missing()
    }

    /// Adds a session that holds nothing but its metadata; `modified_at` is its `created_at`.
    ///
    /// # Errors
    /// `SessionExists`.
    pub(crate) fn insert_session(&self, _metadata: &SessionMetadata, _ctx: &Context) -> Result<()> {
        missing()
    }

    /// Its sessions, in any order; names only with `details`.
    pub(crate) fn sessions(&self, _details: bool, _ctx: &Context) -> Result<Vec<StoredSession>> {
        missing()
    }

    /// The session of that id, with its name.
    pub(crate) fn session(&self, _id: &str, _ctx: &Context) -> Result<Option<StoredSession>> {
        missing()
    }

    /// Deletes a session: gone for everyone at once, its rows in batches after that.
    ///
    /// # Errors
    /// `UnknownSession`.
    pub(crate) fn delete_session(&self, _id: &str, _ctx: &Context) -> Result<()> {
        missing()
    }

    /// Checkpoints and closes the connections. Idempotent; everything else fails with `Closed` afterwards.
    /// A database that is dropped without it closes without a checkpoint, as a crash would, without loss.
    pub(crate) fn close(&self) -> Result<()> {
        missing()
    }
}

/// Storage of one session in a database. Closing it does not close the database.
pub(crate) struct SqliteStorage {}

impl SqliteStorage {
    /// The session `id` of `database`.
    ///
    /// # Errors
    /// `UnknownSession`, `UnsupportedVersion`.
    pub(crate) fn open(
        _database: Database,
        _id: &str,
        _clock: Arc<dyn Clock>,
        _max_payload: usize,
        _mode: OpenMode,
        _ctx: &Context,
    ) -> Result<SqliteStorage> {
        missing()
    }
}

mod skeleton;
