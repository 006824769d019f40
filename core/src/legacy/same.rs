//! Whether a session already holds what an import would write.

use std::collections::VecDeque;

use crate::context::Context;
use crate::error::Result;
use crate::legacy::restore::Elements;
use crate::legacy::writes::LIST;
use crate::model::entry::Entry;
use crate::model::json::{Json, count_of, text_of};
use crate::model::value::Address;
use crate::model::write::Write;
use crate::session::reader::SessionReader;
use crate::session::{EntryQuery, Session};
use crate::storage::query::{ListRead, Order, UsageScan};

/// How many entries are compared at a time.
const PAGE: u64 = 32;

/// Compares writes with what a session holds.
pub(super) struct Comparison<'a> {
    session: &'a Session,
    ctx: &'a Context,
    entries: VecDeque<Entry>,
    elements: Elements<'a>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(session: &'a Session, ctx: &'a Context) -> Self {
        Self { session, ctx, entries: VecDeque::new(), elements: Elements::of(session, ctx) }
    }

    /// Whether `write` is what the session holds at `seq`. Asked in order of `seq`.
    pub(super) fn holds(&mut self, write: &Write, seq: u64) -> Result<bool> {
        Ok(match write {
            Write::Entry(new) => self.next_entry(seq)?.is_some_and(|entry| {
                entry.seq == seq
                    && entry.id == new.id
                    && entry.parent_id == new.parent_id
                    && entry.entry_type == new.entry_type
                    && entry.custom_type == new.custom_type
                    && Some(entry.timestamp) == new.made_at
                    && entry.payload == new.payload
            }),
            Write::SetValue(address, value) => self
                .session
                .get_value(address, self.ctx)?
                .is_some_and(|stored| stored.seq == seq && stored.value == *value),
            Write::Usage(new) => {
                let scan = UsageScan { from_seq: Some(seq), to_seq: Some(seq), ..UsageScan::default() };
                let rows = self.session.scan_usage(&scan, self.ctx)?;
                rows.first().is_some_and(|row| row.id == new.id && row.payload == new.payload)
            }
            Write::AppendList(_, element) => {
                self.elements.next()?.is_some_and(|stored| stored.seq == seq && stored.value == *element)
            }
            Write::DeleteValue(_) | Write::DeleteList(_) => false,
        })
    }

    fn next_entry(&mut self, seq: u64) -> Result<Option<Entry>> {
        if self.entries.is_empty() {
            let query = EntryQuery {
                from_seq: Some(seq),
                order: Order::Ascending,
                limit: Some(PAGE),
                ..EntryQuery::default()
            };
            self.entries = self.session.find_entries(&query, self.ctx)?.into();
        }
        Ok(self.entries.pop_front())
    }
}

/// Which file a session was imported from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceRecord {
    pub(super) bytes: u64,
    pub(super) sha256: String,
    /// SHA-256 of what an export gives of it again: its lines, each with a line feed.
    pub(super) lines_sha256: String,
}

impl SourceRecord {
    /// The source record of a session; none if its import was not finished, or it was never imported.
    pub(super) fn of(session: &Session, ctx: &Context) -> Result<Option<Self>> {
        let last = ListRead { order: Order::Descending, limit: 1, ..ListRead::default() };
        let elements = session.read_list(&Address::known(LIST, ""), &last, ctx)?;
        Ok(elements.first().and_then(|element| Self::in_element(&element.value)))
    }

    fn in_element(element: &Json) -> Option<Self> {
        let source = element.get("source").and_then(|source| Json::parse(source).ok())?;
        let bytes = source.get("bytes").and_then(count_of)?;
        let text = |name| Some(text_of(source.get(name)?)?.into_owned());
        let sha256 = text("sha256")?;
        let lines_sha256 = text("linesSha256").unwrap_or_else(|| sha256.clone());
        Some(Self { bytes, sha256, lines_sha256 })
    }
}

/// Whether an element of the list of an import is its source record, with which it ends.
pub(crate) fn is_source(element: &Json) -> bool {
    SourceRecord::in_element(element).is_some()
}

/// Whether the session is of an import that got as far as its list and not to its end.
pub(crate) fn is_cut_off(session: &Session, ctx: &Context) -> Result<bool> {
    let first = ListRead { limit: 1, ..ListRead::default() };
    let is_begun = !session.read_list(&Address::known(LIST, ""), &first, ctx)?.is_empty();
    Ok(is_begun && SourceRecord::of(session, ctx)?.is_none())
}
