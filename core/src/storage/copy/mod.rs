//! Copies of sessions: one coherent boundary of a source, streamed record by record into a new session.
//!
//! A fork, a conversion and a repair are copies that differ in their [`Plan`] alone. A storage runs the plan
//! over one boundary of its own (no commit is ever in it by half), then gives what was planned in `seq` order.
//! Records keep ids, `seq`s and timestamps. Memory follows the number of what is copied at most, never its
//! size, and commits go on meanwhile.

pub(crate) mod indexed;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::{Entry, NewEntry};
use crate::model::usage::{NewUsage, UsageRow};
use crate::model::value::{Address, StoredValue};
use crate::model::write::Write;
use crate::session::Session;
use crate::storage::jsonl::draft::JsonlDraft;

/// How many records are given between two looks at what else there is to do.
pub(crate) const PAGE: usize = 256;

/// One durable thing of a session with its place in the session's order: an entry (whose `made_at` is its
/// timestamp), a usage row, a value or an element of a list. Never a deletion.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) seq: u64,
    pub(crate) write: Write,
}

impl From<Entry> for Record {
    fn from(entry: Entry) -> Self {
        let write = Write::Entry(NewEntry {
            id: entry.id,
            parent_id: entry.parent_id,
            entry_type: entry.entry_type,
            custom_type: entry.custom_type,
            payload: entry.payload,
            made_at: Some(entry.timestamp),
        });
        Self { seq: entry.seq, write }
    }
}

impl From<UsageRow> for Record {
    fn from(row: UsageRow) -> Self {
        let write = Write::Usage(NewUsage { id: row.id, usage: row.usage, payload: row.payload });
        Self { seq: row.seq, write }
    }
}

impl From<StoredValue> for Record {
    fn from(stored: StoredValue) -> Self {
        Self { seq: stored.seq, write: Write::SetValue(stored.address, stored.value) }
    }
}

/// The boundary of a session that a copy is planned over: every look sees the same commits. It lasts as long
/// as the planning, which must be short.
pub(crate) trait View {
    /// The `seq` the next commit of the source starts at.
    fn next_seq(&self) -> Result<u64>;
    fn get_value(&self, address: &Address) -> Result<Option<StoredValue>>;
    /// The values of a namespace, keys ascending.
    fn values_of(&self, namespace: &str) -> Result<Vec<StoredValue>>;
    /// Addresses that hold a value, ascending, after `after`, at most `limit`.
    fn value_addresses(&self, after: &Address, limit: usize) -> Result<Vec<Address>>;
    /// Addresses that hold a list, ascending, after `after`, at most `limit`.
    fn list_addresses(&self, after: &Address, limit: usize) -> Result<Vec<Address>>;
    /// The parent of an entry; the outer none if there is no such entry, the inner for a root.
    fn parent_of(&self, id: &str) -> Result<Option<Option<String>>>;
    /// Whether an entry is another one, which must exist, or an ancestor of it.
    fn is_on_path(&self, tip: &str, id: &str) -> Result<bool>;
}

/// What is copied.
pub(crate) struct Plan {
    /// The `seq` the next commit of the copy starts at: above that of all records.
    pub(crate) next_seq: u64,
    pub(crate) entries: Entries,
    pub(crate) values: Values,
    pub(crate) usage: bool,
    /// What the copy has beside that, in any order. No `seq` may be one of what is copied.
    pub(crate) added: Vec<Record>,
}

/// Which entries are copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entries {
    All,
    /// The path from the root to that entry, which exists; none for no entries at all.
    Path(Option<String>),
}

/// Which values and lists are copied.
pub(crate) enum Values {
    /// Those whose address passes.
    Where(fn(&Address) -> bool),
    /// The labels of the entries on a path that is copied, and nothing else.
    LabelsOfEntries,
}

impl Plan {
    /// Everything: the copy holds what the source does.
    pub(crate) fn whole(view: &dyn View) -> Result<Self> {
        Ok(Self {
            next_seq: view.next_seq()?,
            entries: Entries::All,
            values: Values::Where(|_| true),
            usage: true,
            added: Vec::new(),
        })
    }
}

/// What plans a copy over the boundary it is made at. It may be asked again, over another one.
pub(crate) type Planner<'a> = dyn FnMut(&dyn View) -> Result<Plan> + 'a;

/// Where the records of a copy go.
pub(crate) trait Sink {
    /// Begins the copy, or begins it again with nothing in it.
    fn start(&mut self, next_seq: u64, ctx: &Context) -> Result<()>;
    /// Takes a record; their `seq`s ascend, and a parent comes before its children.
    fn put(&mut self, record: Record, ctx: &Context) -> Result<()>;
    /// The file of JSON lines that this is: whoever reads such a file copies records as they stand.
    fn as_jsonl(&mut self) -> Option<&mut JsonlDraft> {
        None
    }
}

/// A session that is being made: its id is reserved, and nobody sees it. Dropped, it leaves nothing.
pub(crate) trait Draft: Sink {
    /// Makes it appear whole, open for writing. It was started.
    fn publish(self: Box<Self>, ctx: &Context) -> Result<Session>;
}

/// Puts what a plan adds between what is copied.
pub(crate) struct Ordered<'a> {
    sink: &'a mut dyn Sink,
    added: VecDeque<Record>,
    last: u64,
    next_seq: u64,
}

impl<'a> Ordered<'a> {
    /// Starts `sink` with what is planned.
    pub(crate) fn start(plan: &mut Plan, sink: &'a mut dyn Sink, ctx: &Context) -> Result<Self> {
        let mut added = std::mem::take(&mut plan.added);
        added.sort_by_key(|record| record.seq);
        sink.start(plan.next_seq, ctx)?;
        Ok(Self { sink, added: added.into(), last: 0, next_seq: plan.next_seq })
    }

    pub(crate) fn put(&mut self, record: Record, ctx: &Context) -> Result<()> {
        self.at(record.seq, ctx)?.put(record, ctx)
    }

    /// Where the record of `seq` goes, which is the next: what is added before it has been put.
    pub(crate) fn at(&mut self, seq: u64, ctx: &Context) -> Result<&mut dyn Sink> {
        while let Some(added) = self.added.pop_front_if(|added| added.seq < seq) {
            self.pass(added.seq)?;
            self.sink.put(added, ctx)?;
        }
        self.pass(seq)?;
        Ok(self.sink)
    }

    fn pass(&mut self, seq: u64) -> Result<()> {
        if seq <= self.last || seq >= self.next_seq {
            let (first, end) = (self.last + 1, self.next_seq);
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("a copy has the seq {seq} where one from {first} to below {end} must stand"),
            )
            .with_hint("nothing was made; look at the source with `pisession doctor`"));
        }
        self.last = seq;
        Ok(())
    }

    /// Puts what is added behind all that is copied.
    pub(crate) fn finish(mut self, ctx: &Context) -> Result<()> {
        while let Some(added) = self.added.pop_front() {
            self.put(added, ctx)?;
        }
        Ok(())
    }
}
