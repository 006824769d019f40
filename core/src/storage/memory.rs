//! The memory backend: maps, and nothing persisted.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::context::Context;
use crate::error::Result;
use crate::model::entry::{Entry, EntryStructure};
use crate::model::id::{Clock, time_of};
use crate::model::json::Json;
use crate::model::usage::{Stats, UsageRow};
use crate::model::value::{Address, ListElement, StoredValue};
use crate::model::write::{CommitResult, Write};
use crate::repository::OpenMode;
use crate::storage::copy::indexed::{Indexed, Item, What};
use crate::storage::copy::{Ordered, PAGE, Planner, Record, Sink};
use crate::storage::index::{EntryIndex, NewRow};
use crate::storage::query::{BranchScan, EntryScan, ListRead, UsageScan};
use crate::storage::tables::{KnownIn, Tables};
use crate::storage::{Reads, Storage, closed, commit};

/// What a session in memory holds; it outlives the session, for the repository to open again.
#[derive(Debug)]
pub(crate) struct MemoryState {
    entries: EntryIndex<Json>,
    tables: Tables,
    stats: Stats,
    next_seq: u64,
}

impl Default for MemoryState {
    fn default() -> Self {
        Self {
            entries: EntryIndex::default(),
            tables: Tables::default(),
            stats: Stats::default(),
            next_seq: 1,
        }
    }
}

/// A session in memory that is being made.
#[derive(Debug, Default)]
pub(crate) struct MemoryDraft {
    state: MemoryState,
}

impl MemoryDraft {
    pub(crate) fn into_state(self) -> MemoryState {
        self.state
    }
}

impl Sink for MemoryDraft {
    fn start(&mut self, next_seq: u64, _ctx: &Context) -> Result<()> {
        self.state = MemoryState { next_seq, ..MemoryState::default() };
        Ok(())
    }

    fn put(&mut self, record: Record, _ctx: &Context) -> Result<()> {
        self.state.apply(&record.write, record.seq, 0)?;
        self.state.stats = commit::stats_after(&self.state.stats, std::slice::from_ref(&record.write));
        Ok(())
    }
}

/// Storage of one session in memory.
#[derive(Debug)]
pub(crate) struct MemoryStorage {
    state: Arc<RwLock<MemoryState>>,
    closed: RwLock<bool>,
    clock: Arc<dyn Clock>,
    max_payload: usize,
    mode: OpenMode,
}

impl MemoryStorage {
    pub(crate) fn new(
        state: Arc<RwLock<MemoryState>>,
        clock: Arc<dyn Clock>,
        max_payload: usize,
        mode: OpenMode,
    ) -> Self {
        Self { state, closed: RwLock::new(false), clock, max_payload, mode }
    }

    fn read(&self, ctx: &Context) -> Result<RwLockReadGuard<'_, MemoryState>> {
        ctx.check()?;
        if *self.closed.read().unwrap_or_else(PoisonError::into_inner) {
            return Err(closed());
        }
        // A panic inside a commit cannot leave a half-applied one: checks come first and applying cannot fail.
        Ok(self.state.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl MemoryState {
    fn entry(&self, position: usize) -> Entry {
        self.entries.with_payload(position, self.entries.entry(position).payload.clone())
    }

    fn apply(&mut self, write: &Write, seq: u64, timestamp: i64) -> Result<()> {
        match write {
            Write::Entry(entry) => {
                self.entries.push(&NewRow::of(entry, seq, timestamp), entry.payload.clone())?;
            }
            Write::Usage(row) => {
                self.tables.append_usage(UsageRow::stored(row.id.clone(), seq, row.payload.clone()));
            }
            Write::SetValue(address, value) => self.tables.set_value(address, value.clone(), seq),
            Write::DeleteValue(address) => self.tables.delete_value(address),
            Write::AppendList(address, element) => self.tables.append_list(address, element.clone(), seq),
            Write::DeleteList(address) => self.tables.delete_list(address),
        }
        Ok(())
    }
}

impl Reads for MemoryStorage {
    fn get_entries(&self, ids: &[&str], ctx: &Context) -> Result<Vec<Entry>> {
        let state = self.read(ctx)?;
        Ok(ids
            .iter()
            .filter_map(|id| state.entries.position(id))
            .map(|position| state.entry(position))
            .collect())
    }

    fn get_value(&self, address: &Address, ctx: &Context) -> Result<Option<StoredValue>> {
        Ok(self.read(ctx)?.tables.get_value(address))
    }

    fn scan_values(&self, namespace: &str, prefix: &str, ctx: &Context) -> Result<Vec<StoredValue>> {
        Ok(self.read(ctx)?.tables.scan_values(namespace, prefix))
    }

    fn read_list(&self, address: &Address, read: &ListRead, ctx: &Context) -> Result<Vec<ListElement>> {
        Ok(self.read(ctx)?.tables.read_list(address, read))
    }

    fn scan_branch(&self, start: &str, scan: &BranchScan, ctx: &Context) -> Result<Vec<Entry>> {
        let state = self.read(ctx)?;
        let found = state.entries.scan_branch(start, scan, ctx)?;
        Ok(found.into_iter().map(|position| state.entry(position)).collect())
    }

    fn scan_branch_structure(
        &self,
        start: &str,
        scan: &BranchScan,
        ctx: &Context,
    ) -> Result<Vec<EntryStructure>> {
        let state = self.read(ctx)?;
        let found = state.entries.scan_branch(start, scan, ctx)?;
        Ok(found.into_iter().map(|position| state.entries.structure(position)).collect())
    }

    fn scan_entries(&self, scan: &EntryScan, ctx: &Context) -> Result<Vec<Entry>> {
        let state = self.read(ctx)?;
        Ok(state.entries.scan_entries(scan).into_iter().map(|position| state.entry(position)).collect())
    }

    fn scan_usage(&self, scan: &UsageScan, ctx: &Context) -> Result<Vec<UsageRow>> {
        Ok(self.read(ctx)?.tables.scan_usage(scan))
    }

    fn value_addresses(&self, after: Option<&Address>, limit: usize, ctx: &Context) -> Result<Vec<Address>> {
        Ok(self.read(ctx)?.tables.value_addresses(after, limit))
    }

    fn list_addresses(&self, after: Option<&Address>, limit: usize, ctx: &Context) -> Result<Vec<Address>> {
        Ok(self.read(ctx)?.tables.list_addresses(after, limit))
    }

    fn stats(&self, ctx: &Context) -> Result<Stats> {
        Ok(self.read(ctx)?.stats)
    }

    fn next_seq(&self, ctx: &Context) -> Result<u64> {
        Ok(self.read(ctx)?.next_seq)
    }
}

impl Storage for MemoryStorage {
    fn commit(&self, writes: &[Write], ctx: &Context) -> Result<CommitResult> {
        ctx.check()?;
        if self.mode == OpenMode::ReadOnly {
            return Err(crate::storage::read_only());
        }
        let is_closed = self.closed.read().unwrap_or_else(PoisonError::into_inner);
        if *is_closed {
            return Err(closed());
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let timestamp = time_of(self.clock.as_ref())?;
        let known = KnownIn { entries: &state.entries, tables: &state.tables };
        commit::check(writes, &known, state.next_seq, self.max_payload)?;
        let first_seq = state.next_seq;
        for (seq, write) in (first_seq..).zip(writes) {
            state.apply(write, seq, timestamp)?;
        }
        state.next_seq += writes.len() as u64;
        state.stats = commit::stats_after(&state.stats, writes);
        let seqs = (first_seq..state.next_seq).collect();
        Ok(CommitResult { first_seq, seqs, timestamp, stats: state.stats })
    }

    fn copy(&self, plan: &mut Planner<'_>, into: &mut dyn Sink, ctx: &Context) -> Result<()> {
        let (mut plan, items) = {
            let state = self.read(ctx)?;
            let places = Indexed {
                entries: &state.entries,
                tables: &state.tables,
                next_seq: state.next_seq,
                json: &|json| Ok(json.clone()),
            };
            let plan = plan(&places)?;
            let items = places.select(&plan, ctx)?;
            (plan, items)
        };
        let mut out = Ordered::start(&mut plan, into, ctx)?;
        for some in items.chunks(PAGE) {
            let records: Vec<Option<Record>> = {
                let state = self.read(ctx)?;
                let record = |item: &Item<Json, Json>| match &item.what {
                    What::Entry(position, payload) => {
                        Some(state.entries.with_payload(*position as usize, payload.clone()).into())
                    }
                    What::Usage(_, json) | What::Value(_, json) | What::Element(_, json) => {
                        item.what.record(item.seq, json.clone())
                    }
                };
                some.iter().map(record).collect()
            };
            for record in records.into_iter().flatten() {
                out.put(record, ctx)?;
            }
        }
        out.finish(ctx)
    }

    fn close(&self, _ctx: &Context) -> Result<()> {
        // Waits for the commits that were admitted: each holds the flag for reading.
        *self.closed.write().unwrap_or_else(PoisonError::into_inner) = true;
        Ok(())
    }
}
