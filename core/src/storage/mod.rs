//! Storage of one session: four kinds of durable data, atomic commits, and a small fixed set of queries.
//!
//! Storage knows nothing of agents. Its own queue serialises commits; that queue is not the session's
//! mutation line.

pub(crate) mod commit;
pub(crate) mod copy;
pub(crate) mod index;
pub(crate) mod indexed_id;
pub(crate) mod jsonl;
pub(crate) mod memory;
pub(crate) mod path;
pub(crate) mod query;
pub(crate) mod sqlite;
pub(crate) mod tables;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::{Entry, EntryStructure};
use crate::model::usage::{Stats, UsageRow};
use crate::model::value::{Address, ListElement, StoredValue};
use crate::model::write::{CommitResult, Write};
use crate::session::check::{CheckDepth, Finding};
use copy::{Planner, Sink};
use jsonl::compact::Compaction;
use jsonl::state::Gap;
use query::{BranchScan, EntryScan, ListRead, UsageScan};

/// What can be asked. A read sees the newest fully applied commit and never part of one; several reads
/// are no snapshot. Arguments have been checked by the session.
// Public in a private module: the sealed part of `SessionReader` names it.
#[allow(unreachable_pub)]
pub trait Reads: Send + Sync {
    /// Those of `ids` that exist, in the order asked; an id asked for twice comes twice.
    fn get_entries(&self, ids: &[&str], ctx: &Context) -> Result<Vec<Entry>>;
    /// The value at `address`.
    fn get_value(&self, address: &Address, ctx: &Context) -> Result<Option<StoredValue>>;
    /// Values of `namespace` whose key starts with `prefix`, keys ascending by code point.
    fn scan_values(&self, namespace: &str, prefix: &str, ctx: &Context) -> Result<Vec<StoredValue>>;
    /// Elements of a list; empty when it is absent.
    fn read_list(&self, address: &Address, read: &ListRead, ctx: &Context) -> Result<Vec<ListElement>>;
    /// Entries on the path from an entry to its root, which may stop, filter, page and limit.
    fn scan_branch(&self, start: &str, scan: &BranchScan, ctx: &Context) -> Result<Vec<Entry>>;
    /// The same without payloads.
    fn scan_branch_structure(
        &self,
        start: &str,
        scan: &BranchScan,
        ctx: &Context,
    ) -> Result<Vec<EntryStructure>>;
    /// Entries of the whole session.
    fn scan_entries(&self, scan: &EntryScan, ctx: &Context) -> Result<Vec<Entry>>;
    /// Rows of the ledger.
    fn scan_usage(&self, scan: &UsageScan, ctx: &Context) -> Result<Vec<UsageRow>>;
    /// Addresses that hold a value, ascending by namespace and key, after `after`, at most `limit`.
    fn value_addresses(&self, after: Option<&Address>, limit: usize, ctx: &Context) -> Result<Vec<Address>>;
    /// Addresses that hold a list, ascending by namespace and key, after `after`, at most `limit`.
    fn list_addresses(&self, after: Option<&Address>, limit: usize, ctx: &Context) -> Result<Vec<Address>>;
    /// Totals of the session.
    fn stats(&self, ctx: &Context) -> Result<Stats>;
    /// The `seq` the next commit starts at.
    fn next_seq(&self, ctx: &Context) -> Result<u64>;
}

/// Storage of one session.
pub(crate) trait Storage: Reads {
    /// Applies `writes` in order, all or nothing. Checks them with [`commit::check`] first.
    fn commit(&self, writes: &[Write], ctx: &Context) -> Result<CommitResult>;

    /// Copies what `plan` names, over one boundary between commits: those admitted before are in it, later
    /// ones are not, and none waits for the copy. `into` is started, and is left as it is on an error.
    fn copy(&self, plan: &mut Planner<'_>, into: &mut dyn Sink, ctx: &Context) -> Result<()>;

    /// Read-only SQL over the documented views (see the `query` of a session).
    fn query(
        &self,
        _sql: &str,
        _parameters: &[crate::sql::SqlValue],
        _ctx: &Context,
    ) -> Result<crate::sql::Rows> {
        Err(Error::new(ErrorKind::Unsupported, "this session is not kept in SQLite")
            .with_hint("copy it into a sqlite: repository to query it"))
    }

    /// Copies the session into a new single SQLite file.
    fn backup_to(&self, _path: &std::path::Path, _ctx: &Context) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "this session is not kept in SQLite")
            .with_hint("copy its file, or copy it into a sqlite: repository"))
    }

    /// Rewrites the session's file with what is alive.
    fn compact(&self, _ctx: &Context) -> Result<Compaction> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "this session is not kept as JSON lines: it has no dead lines",
        )
        .with_hint(
            "SQLite uses the room of deleted rows again; a backup of a session is as small as it can be",
        ))
    }

    /// Damage that opening read past.
    fn gaps(&self) -> &[Gap] {
        &[]
    }

    /// What is wrong with the file under the data. Reads only.
    fn check_file(&self, _depth: CheckDepth, _ctx: &Context) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    /// What is wrong with how the session is stored, beyond what reading it shows. Reads only.
    fn check_rows(&self, _depth: CheckDepth, _ctx: &Context) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    /// Refuses new work, waits for what was admitted, releases. Idempotent: after `DeadlineExceeded` or
    /// `Cancelled` it goes on when it is called again, and none of several callers returns before it is done.
    fn close(&self, ctx: &Context) -> Result<()>;
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the session is closed").with_hint("open it again from its repository")
}

pub(crate) fn read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "the session was opened for reading only")
        .with_hint("open it for writing; it must not be open for writing elsewhere")
}
