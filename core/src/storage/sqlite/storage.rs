//! Storage of one session in a database.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::connection::Connection;
use super::database::Database;
use super::fault::Latch;
use super::read::View;
use super::sessions;
use super::tree::SessionTree;
use super::write::{Memory, Totals, Writing};
use super::{backup, copy, integrity, query, rows};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::gate::{Gate, Inside};
use crate::model::address::reserved;
use crate::model::entry::{Entry, EntryStructure};
use crate::model::id::{Clock, time_of};
use crate::model::usage::{Stats, UsageRow};
use crate::model::value::{Address, ListElement, StoredValue};
use crate::model::write::{CommitResult, Write};
use crate::repository::OpenMode;
use crate::session::check::{CheckDepth, Finding};
use crate::sql::{Rows, SqlValue};
use crate::storage::copy::{Planner, Sink};
use crate::storage::query::{BranchScan, EntryScan, ListRead, UsageScan};
use crate::storage::{Reads, Storage, closed, commit, path, read_only};
use crate::sync::lock;

/// One session of a database.
pub(crate) struct SqliteStorage {
    database: Database,
    id: String,
    sid: i64,
    clock: Arc<dyn Clock>,
    max_payload: usize,
    mode: OpenMode,
    memory: Mutex<Memory>,
    tips: Tips,
    /// Closing waits for what was admitted.
    gate: Gate,
}

/// Tips that this storage committed, so that an append need not read the one it just wrote.
///
/// Only the writer of the session remembers, and it forgets before each commit what that commit changes:
/// while a commit is in flight its tips are read from the database, so no reader sees one out of its time.
#[derive(Default)]
struct Tips(Mutex<HashMap<Address, StoredValue>>);

impl Tips {
    /// How many tips are remembered.
    const LIMIT: usize = 64;

    fn get(&self, address: &Address) -> Option<StoredValue> {
        if address.namespace() != reserved::BRANCH_TIP {
            return None;
        }
        lock(&self.0).get(address).cloned()
    }

    fn forget(&self, writes: &[Write]) {
        let mut tips = lock(&self.0);
        for write in writes {
            if let Write::SetValue(address, _) | Write::DeleteValue(address) = write {
                tips.remove(address);
            }
        }
    }

    fn remember(&self, writes: &[Write], first_seq: u64) {
        let mut tips = lock(&self.0);
        for (seq, write) in (first_seq..).zip(writes) {
            match write {
                Write::SetValue(address, value) if address.namespace() == reserved::BRANCH_TIP => {
                    if tips.len() >= Self::LIMIT {
                        tips.clear();
                    }
                    let stored = StoredValue { address: address.clone(), value: value.clone(), seq };
                    tips.insert(address.clone(), stored);
                }
                Write::DeleteValue(address) => {
                    tips.remove(address);
                }
                _ => {}
            }
        }
    }
}

impl SqliteStorage {
    /// The session `id` of `database`. Closing it does not close the database.
    ///
    /// # Errors
    /// `UnknownSession`, `UnsupportedVersion`.
    pub(crate) fn open(
        database: Database,
        id: &str,
        clock: Arc<dyn Clock>,
        max_payload: usize,
        mode: OpenMode,
        ctx: &Context,
    ) -> Result<SqliteStorage> {
        let sid = database.look(ctx, |connection| sessions::find(connection, id))?;
        Ok(SqliteStorage {
            database,
            id: id.to_owned(),
            sid,
            clock,
            max_payload,
            mode,
            memory: Mutex::default(),
            tips: Tips::default(),
            gate: Gate::default(),
        })
    }

    fn admitted(&self) -> Result<Inside<'_>> {
        self.gate.enter().ok_or_else(closed)
    }

    /// The error for a session that stands at the seq `now` where we left it at `left`.
    fn not_as_left(&self, now: u64, left: u64) -> Error {
        if now < left {
            // Commits of ours are out of sight: a stranger in this process rebuilt the index of the log while
            // we wrote it. They are in the log; one more commit now would be written over them.
            return self.database.latch(Latch::Foreign);
        }
        Error::new(ErrorKind::FileChanged, "the session was written by a program that does not hold its lock")
            .with_path(self.database.path())
            .with_hint("nothing was written; try again")
    }

    /// One statement that reads a few rows.
    fn look<T>(&self, ctx: &Context, mut read: impl FnMut(&View<'_>) -> Result<T>) -> Result<T> {
        let _admitted = self.admitted()?;
        let sid = self.sid;
        self.database.look(ctx, |connection| read(&View { connection, sid }))
    }

    /// One statement, which is one snapshot by itself.
    fn read<T>(&self, ctx: &Context, mut read: impl FnMut(&View<'_>) -> Result<T>) -> Result<T> {
        let _admitted = self.admitted()?;
        let sid = self.sid;
        self.database.read(ctx, |connection| read(&View { connection, sid }))
    }

    /// Several statements over one snapshot.
    fn read_all<T>(&self, ctx: &Context, mut read: impl FnMut(&View<'_>) -> Result<T>) -> Result<T> {
        self.read(ctx, |view| {
            let _snapshot = view.connection.snapshot()?;
            read(view)
        })
    }

    fn apply(
        &self,
        writer: &Connection,
        memory: &mut Memory,
        writes: &[Write],
        timestamp: i64,
    ) -> Result<CommitResult> {
        let view = View { connection: writer, sid: self.sid };
        let transaction = writer.writing()?;
        let before = match memory.totals.take() {
            Some(totals) => totals,
            None => view.session(&self.id)?,
        };
        let first_seq = before.next_seq;
        let writing = Writing::new(view, &memory.nodes);
        commit::check(writes, &writing, first_seq, self.max_payload)?;
        let after = Totals {
            next_seq: first_seq + writes.len() as u64,
            stats: commit::stats_after(&before.stats, writes),
        };
        if !writes.is_empty() {
            if let Err(error) = writing.apply(writes, first_seq, timestamp) {
                // Rows of somebody without its lock may have been in the way.
                let now = view.session(&self.id)?.next_seq;
                return Err(if now == first_seq { error } else { self.not_as_left(now, first_seq) });
            }
            if !writing.finish(&before, &after, timestamp)? {
                // Gone, or else written by somebody without its lock. The next commit looks again.
                let now = view.session(&self.id)?.next_seq;
                return Err(self.not_as_left(now, first_seq));
            }
            self.tips.forget(writes);
            self.database.finish(transaction, writer, "commit to the database")?;
            self.tips.remember(writes, first_seq);
            writing.committed();
        }
        memory.totals = Some(after);
        let seqs = (first_seq..after.next_seq).collect();
        Ok(CommitResult { first_seq, seqs, timestamp, stats: after.stats })
    }
}

impl Reads for SqliteStorage {
    fn get_entries(&self, ids: &[&str], ctx: &Context) -> Result<Vec<Entry>> {
        self.read_all(ctx, |view| view.get_entries(ids, ctx))
    }

    fn get_value(&self, address: &Address, ctx: &Context) -> Result<Option<StoredValue>> {
        if let Some(tip) = self.tips.get(address) {
            ctx.check()?;
            let _admitted = self.admitted()?;
            return Ok(Some(tip));
        }
        self.look(ctx, |view| view.get_value(address))
    }

    fn scan_values(&self, namespace: &str, prefix: &str, ctx: &Context) -> Result<Vec<StoredValue>> {
        self.read(ctx, |view| view.scan_values(namespace, prefix, ctx))
    }

    fn read_list(&self, address: &Address, read: &ListRead, ctx: &Context) -> Result<Vec<ListElement>> {
        self.read(ctx, |view| view.read_list(address, read, ctx))
    }

    fn scan_branch(&self, start: &str, scan: &BranchScan, ctx: &Context) -> Result<Vec<Entry>> {
        self.read_all(ctx, |view| view.scan_branch(start, scan, ctx))
    }

    fn scan_branch_structure(
        &self,
        start: &str,
        scan: &BranchScan,
        ctx: &Context,
    ) -> Result<Vec<EntryStructure>> {
        self.read_all(ctx, |view| {
            let found = path::scan(&SessionTree::<EntryStructure>::new(*view), start, scan, ctx)?;
            view.with_parents(found)
        })
    }

    fn scan_entries(&self, scan: &EntryScan, ctx: &Context) -> Result<Vec<Entry>> {
        self.read_all(ctx, |view| view.scan_entries(scan, ctx))
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
        Ok(self.look(ctx, |view| view.session(&self.id))?.stats)
    }

    fn next_seq(&self, ctx: &Context) -> Result<u64> {
        Ok(self.look(ctx, |view| view.session(&self.id))?.next_seq)
    }
}

impl Storage for SqliteStorage {
    fn commit(&self, writes: &[Write], ctx: &Context) -> Result<CommitResult> {
        ctx.check()?;
        if self.mode == OpenMode::ReadOnly {
            return Err(read_only());
        }
        let _admitted = self.admitted()?;
        let writer = self.database.writer(ctx)?;
        let timestamp = time_of(self.clock.as_ref())?;
        self.apply(&writer, &mut lock(&self.memory), writes, timestamp)
    }

    fn copy(&self, plan: &mut Planner<'_>, into: &mut dyn Sink, ctx: &Context) -> Result<()> {
        let _admitted = self.admitted()?;
        copy::run(&self.database, self.sid, &self.id, plan, into, ctx)
    }

    fn query(&self, sql: &str, parameters: &[SqlValue], ctx: &Context) -> Result<Rows> {
        let _admitted = self.admitted()?;
        query::run(&self.database, self.sid, sql, parameters, ctx)
    }

    fn backup_to(&self, path: &Path, ctx: &Context) -> Result<()> {
        let _admitted = self.admitted()?;
        backup::run(&self.database, self.sid, path, ctx)
    }

    fn check_file(&self, depth: CheckDepth, ctx: &Context) -> Result<Vec<Finding>> {
        let _admitted = self.admitted()?;
        let mut findings = integrity::check(&self.database, depth, ctx)?;
        // Of a file that is damaged, what is missing says nothing.
        if findings.is_empty() && depth == CheckDepth::Full {
            findings = self.database.read(ctx, |connection| rows::strays(connection, ctx))?;
        }
        Ok(findings)
    }

    fn check_rows(&self, depth: CheckDepth, ctx: &Context) -> Result<Vec<Finding>> {
        if depth < CheckDepth::Full {
            return Ok(Vec::new());
        }
        self.read_all(ctx, |view| rows::check(view, ctx))
    }

    fn close(&self, ctx: &Context) -> Result<()> {
        self.gate.shut();
        self.gate.drain(ctx)
    }
}
