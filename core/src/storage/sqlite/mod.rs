//! The SQLite backend: one file holds one session or many, behind one schema of our own.
//!
//! A [`Database`] is one file and owns its connections; a [`SqliteStorage`] is one session in it. Who may
//! write a session is settled above, by a lock file: nothing here ever locks the database file for that.

mod backup;
mod connection;
mod copy;
mod create;
mod database;
mod draft;
mod fault;
mod guard;
mod header;
mod integrity;
pub(crate) mod peek;
mod query;
mod read;
pub(crate) mod reference;
mod rows;
pub(crate) mod salvage;
mod schema;
mod sessions;
mod storage;
#[cfg(test)]
mod tests;
mod tree;
mod write;

pub(crate) use create::TEMPORARY_SUFFIX;
pub(crate) use database::Database;
pub(crate) use draft::SessionDraft;
pub(crate) use storage::SqliteStorage;

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

/// Whose tables a database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schema {
    Ours,
    /// Those of the reference implementation: they are only read.
    Reference,
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
    pub(crate) schema: Schema,
}
