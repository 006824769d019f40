//! Sessions in a container of the reference implementation: read where they are, never written.
//!
//! Its tables are not ours and its process may be at work in them. Every call reads one snapshot; what the
//! tables contradict is `Corrupt`, never passed over. Its index of branches decides nothing here: paths are
//! followed from parent to parent, so that a container without that index reads whole.

mod check;
mod copy;
mod path;
mod read;
pub(super) mod salvage;
mod sessions;
#[cfg(test)]
mod tests;

use std::path::Path;

use self::path::Walks;
use self::read::View;
use super::connection::Connection;
use super::database::Database;
use super::{Schema, integrity};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::gate::{Gate, Inside};
use crate::model::entry::{Entry, EntryStructure};
use crate::model::usage::{Stats, UsageRow};
use crate::model::value::{Address, ListElement, StoredValue};
use crate::model::write::{CommitResult, Write};
use crate::session::check::{CheckDepth, Finding};
use crate::sql::{Rows, SqlValue};
use crate::storage::copy::{Planner, Sink};
use crate::storage::query::{BranchScan, EntryScan, ListRead, UsageScan};
use crate::storage::{Reads, Storage, closed};

pub(super) use sessions::{session, sessions};

/// The tables by which such a container is known. Its index of branches is not among them.
const TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN
  ('sessions', 'entries', 'scalar_values', 'list_values', 'usage_ledger')";
const TABLE_COUNT: i64 = 5;
/// The one version of its storage that there is.
const STORAGE_VERSION: u32 = 1;

const HINT: &str = "fork or convert the session into a repository of this library, and go on there";

/// Whether a connection has such a container open. Keys are compared by code point: in UTF-8 only.
pub(super) fn is_one(connection: &Connection) -> Result<bool> {
    let tables = connection.first(TABLES, [], |row| row.get::<_, i64>(0))?;
    if tables != Some(TABLE_COUNT) {
        return Ok(false);
    }
    let encoding = connection.first("PRAGMA encoding", [], |row| row.get::<_, String>(0))?;
    Ok(encoding.is_some_and(|encoding| encoding == "UTF-8"))
}

/// The refusal of whatever would write.
pub(crate) fn read_only(path: &Path) -> Error {
    Error::new(
        ErrorKind::ReadOnly,
        "the file is a container of the reference implementation, which is only read",
    )
    .with_path(path)
    .with_hint(HINT)
}

/// The refusal of a session of a version that is not read; none for the one that is.
pub(crate) fn unsupported(id: &str, version: u32, path: &Path) -> Option<Error> {
    (version != STORAGE_VERSION).then(|| {
        let hint = if version > STORAGE_VERSION {
            "use a newer version of the library; the file was left as it is"
        } else {
            "open it with the program that wrote it, which brings it up to date; the file was left as it is"
        };
        Error::new(
            ErrorKind::UnsupportedVersion,
            format!(
                "the session is of storage version {version} of the reference implementation; this library \
                 reads version {STORAGE_VERSION}"
            ),
        )
        .with_path(path)
        .with_id(id)
        .with_hint(hint)
    })
}

/// One session of a container of the reference implementation.
pub(crate) struct ReferenceStorage {
    database: Database,
    id: String,
    walks: Walks,
    /// Closing waits for what was admitted.
    gate: Gate,
}

impl ReferenceStorage {
    /// The session `id` of `database`. Closing it does not close the database.
    ///
    /// # Errors
    /// `UnknownSession`, `UnsupportedVersion`.
    pub(crate) fn open(database: Database, id: &str, ctx: &Context) -> Result<Self> {
        debug_assert_eq!(database.schema(), Schema::Reference);
        let stored = database.session(id, ctx)?;
        let stored =
            stored.ok_or_else(|| crate::repository::unknown_session(id).with_path(database.path()))?;
        match unsupported(id, stored.metadata.storage_version, database.path()) {
            Some(error) => Err(error),
            None => Ok(Self { database, id: id.to_owned(), walks: Walks::default(), gate: Gate::default() }),
        }
    }

    fn admitted(&self) -> Result<Inside<'_>> {
        self.gate.enter().ok_or_else(closed)
    }

    /// Reads one snapshot.
    fn read<T>(&self, ctx: &Context, mut read: impl FnMut(&View<'_>) -> Result<T>) -> Result<T> {
        let _admitted = self.admitted()?;
        self.database.read(ctx, |connection| {
            let _snapshot = connection.snapshot()?;
            read(&View { connection, id: &self.id })
        })
    }

    fn unsupported(&self, what: &str) -> Error {
        Error::new(
            ErrorKind::Unsupported,
            format!("the session is in a container of the reference implementation, {what}"),
        )
        .with_path(self.database.path())
        .with_hint(HINT)
    }
}

impl Reads for ReferenceStorage {
    fn get_entries(&self, ids: &[&str], ctx: &Context) -> Result<Vec<Entry>> {
        self.read(ctx, |view| view.get_entries(ids, ctx))
    }

    fn get_value(&self, address: &Address, ctx: &Context) -> Result<Option<StoredValue>> {
        self.read(ctx, |view| view.get_value(address))
    }

    fn scan_values(&self, namespace: &str, prefix: &str, ctx: &Context) -> Result<Vec<StoredValue>> {
        self.read(ctx, |view| view.scan_values(namespace, prefix, ctx))
    }

    fn read_list(&self, address: &Address, read: &ListRead, ctx: &Context) -> Result<Vec<ListElement>> {
        self.read(ctx, |view| view.read_list(address, read, ctx))
    }

    fn scan_branch(&self, start: &str, scan: &BranchScan, ctx: &Context) -> Result<Vec<Entry>> {
        self.read(ctx, |view| {
            let found = self.walks.scan(view, start, scan, ctx)?;
            found.iter().map(|id| view.known_entry(id)).collect()
        })
    }

    fn scan_branch_structure(
        &self,
        start: &str,
        scan: &BranchScan,
        ctx: &Context,
    ) -> Result<Vec<EntryStructure>> {
        self.read(ctx, |view| {
            let found = self.walks.scan(view, start, scan, ctx)?;
            found.iter().map(|id| view.structure(id)?.ok_or_else(|| view.lost(id))).collect()
        })
    }

    fn scan_entries(&self, scan: &EntryScan, ctx: &Context) -> Result<Vec<Entry>> {
        self.read(ctx, |view| view.scan_entries(scan, ctx))
    }

    fn scan_usage(&self, scan: &UsageScan, ctx: &Context) -> Result<Vec<UsageRow>> {
        self.read(ctx, |view| view.scan_usage(scan, ctx))
    }

    fn value_addresses(&self, after: Option<&Address>, limit: usize, ctx: &Context) -> Result<Vec<Address>> {
        self.read(ctx, |view| view.value_addresses(after, limit, ctx))
    }

    fn list_addresses(&self, after: Option<&Address>, limit: usize, ctx: &Context) -> Result<Vec<Address>> {
        self.read(ctx, |view| view.list_addresses(after, limit, ctx))
    }

    fn stats(&self, ctx: &Context) -> Result<Stats> {
        Ok(self.read(ctx, |view| view.totals())?.stats)
    }

    fn next_seq(&self, ctx: &Context) -> Result<u64> {
        self.read(ctx, |view| view.next_seq())
    }
}

impl Storage for ReferenceStorage {
    fn commit(&self, _writes: &[Write], ctx: &Context) -> Result<CommitResult> {
        ctx.check()?;
        let _admitted = self.admitted()?;
        Err(read_only(self.database.path()))
    }

    fn copy(&self, plan: &mut Planner<'_>, into: &mut dyn Sink, ctx: &Context) -> Result<()> {
        let _admitted = self.admitted()?;
        copy::run(&self.database, &self.id, &self.walks, plan, into, ctx)
    }

    fn query(&self, _sql: &str, _parameters: &[SqlValue], _ctx: &Context) -> Result<Rows> {
        Err(self.unsupported("which has no views to query"))
    }

    fn backup_to(&self, _path: &Path, _ctx: &Context) -> Result<()> {
        Err(self.unsupported("whose sessions are not copied as they stand"))
    }

    fn check_file(&self, depth: CheckDepth, ctx: &Context) -> Result<Vec<Finding>> {
        let _admitted = self.admitted()?;
        integrity::check(&self.database, depth, ctx)
    }

    fn check_rows(&self, _depth: CheckDepth, ctx: &Context) -> Result<Vec<Finding>> {
        self.read(ctx, |view| check::contradictions(view, ctx))
    }

    fn close(&self, ctx: &Context) -> Result<()> {
        self.gate.shut();
        self.gate.drain(ctx)
    }
}
