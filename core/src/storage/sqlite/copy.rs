//! Copying from a session of a database: one snapshot of it, read row by row while others go on writing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rusqlite::{Row, params};

use super::database::Database;
use super::read::{ALL, Found, PAYLOAD, USAGE, View, count, entry_of, json, whole_of};
use super::schema::{MAX_SEQ, SEQ_BITS, key, seq_of};
use super::tree::SessionTree;
use crate::context::Context;
use crate::error::Result;
use crate::model::address::reserved;
use crate::model::entry::EntryStructure;
use crate::model::usage::UsageRow;
use crate::model::value::{Address, StoredValue};
use crate::model::write::Write;
use crate::storage::copy::{self, Entries, Ordered, PAGE, Plan, Planner, Record, Sink, Values};
use crate::storage::path::{self, Tree as _, is_on_path};
use crate::storage::query::{BranchScan, PathOrder};

/// Values and elements of the session in `seq` order: `seq`, the value's number or none, the element's key.
const OTHERS: &str = "SELECT seq, vid, NULL FROM value_row WHERE sid = ?1
UNION ALL SELECT e.key & ?2, NULL, e.key FROM list_row l
  JOIN list_element_row e ON e.key BETWEEN l.lid << 40 AND l.lid << 40 | ?2 WHERE l.sid = ?1 ORDER BY 1";
const VALUE: &str = "SELECT namespace, key, seq, payload FROM value_row WHERE vid = ?1";
const LIST: &str = "SELECT namespace, key FROM list_row WHERE lid = ?1";
const ELEMENT: &str = "SELECT payload FROM list_element_row WHERE key = ?1";
const PARENT: &str = "SELECT p.id FROM entry_row e LEFT JOIN entry_row p ON p.key = e.sid << 40 | e.parent
WHERE e.sid = ?1 AND e.id = ?2";

/// Every statement of this file that must not read more than it gives.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 4] = [VALUE, LIST, ELEMENT, PARENT];

pub(super) fn run(
    database: &Database,
    sid: i64,
    id: &str,
    planner: &mut Planner<'_>,
    into: &mut dyn Sink,
    ctx: &Context,
) -> Result<()> {
    database.read_at_boundary(ctx, |reader, begun| {
        // What sorting many values needs goes to a file.
        reader.execute("copy the session", "PRAGMA temp_store = FILE", [])?;
        let _snapshot = reader.snapshot()?;
        let view = View { connection: reader, sid };
        let next_seq = view.session(id)?.next_seq;
        begun();
        let mut plan = planner(&Planned { view, next_seq, ctx })?;
        let mut out = Ordered::start(&mut plan, &mut *into, ctx)?;
        Copy { view, plan: &plan, ctx }.stream(&mut out)?;
        out.finish(ctx)
    })
}

/// The snapshot, for planning.
struct Planned<'a> {
    view: View<'a>,
    next_seq: u64,
    ctx: &'a Context,
}

impl copy::View for Planned<'_> {
    fn next_seq(&self) -> Result<u64> {
        Ok(self.next_seq)
    }

    fn get_value(&self, address: &Address) -> Result<Option<StoredValue>> {
        self.view.get_value(address)
    }

    fn values_of(&self, namespace: &str) -> Result<Vec<StoredValue>> {
        self.view.scan_values(namespace, "", self.ctx)
    }

    fn value_addresses(&self, after: &Address, limit: usize) -> Result<Vec<Address>> {
        self.view.value_addresses(Some(after), limit, self.ctx)
    }

    fn list_addresses(&self, after: &Address, limit: usize) -> Result<Vec<Address>> {
        self.view.list_addresses(Some(after), limit, self.ctx)
    }

    fn parent_of(&self, id: &str) -> Result<Option<Option<String>>> {
        self.view.connection.first(PARENT, params![self.view.sid, id], |row| row.get(0))
    }

    fn is_on_path(&self, tip: &str, id: &str) -> Result<bool> {
        let tree = SessionTree::<EntryStructure>::new(self.view);
        match (tree.find(tip)?, tree.find(id)?) {
            (Some(tip), Some(node)) => is_on_path(&tree, tip, &node),
            _ => Ok(false),
        }
    }
}

/// What is streamed of the snapshot, row by row: payloads may be large.
struct Copy<'a> {
    view: View<'a>,
    plan: &'a Plan,
    ctx: &'a Context,
}

/// Records of one kind in `seq` order, read page by page.
pub(super) struct Pages<'a> {
    /// Reads those after a `seq`; none at the end.
    read: Box<dyn FnMut(u64) -> Result<Vec<Record>> + 'a>,
    page: VecDeque<Record>,
    last: u64,
    ended: bool,
}

impl<'a> Pages<'a> {
    pub(super) fn new(read: impl FnMut(u64) -> Result<Vec<Record>> + 'a) -> Self {
        Self { read: Box::new(read), page: VecDeque::new(), last: 0, ended: false }
    }

    /// Records that are read one by one: they may be large.
    fn one_by_one(mut next: impl FnMut() -> Result<Option<Record>> + 'a) -> Self {
        Self::new(move |_| Ok(next()?.into_iter().collect()))
    }

    fn peek(&mut self) -> Result<Option<u64>> {
        if self.page.is_empty() && !self.ended {
            self.page = (self.read)(self.last)?.into();
            match self.page.back() {
                Some(record) => self.last = record.seq,
                None => self.ended = true,
            }
        }
        Ok(self.page.front().map(|record| record.seq))
    }
}

/// Gives the records of every kind, all together in `seq` order.
pub(super) fn merge(mut kinds: Vec<Pages<'_>>, out: &mut Ordered<'_>, ctx: &Context) -> Result<()> {
    for number in 0_usize.. {
        if number.is_multiple_of(PAGE) {
            ctx.check()?;
        }
        let mut next: Option<(u64, usize)> = None;
        for (kind, pages) in kinds.iter_mut().enumerate() {
            if let Some(seq) = pages.peek()?
                && next.is_none_or(|(least, _)| seq < least)
            {
                next = Some((seq, kind));
            }
        }
        match next.and_then(|(_, kind)| kinds[kind].page.pop_front()) {
            Some(record) => out.put(record, ctx)?,
            None => break,
        }
    }
    Ok(())
}

impl Copy<'_> {
    fn stream(&self, out: &mut Ordered<'_>) -> Result<()> {
        let connection = self.view.connection;
        let failed = |error| connection.fault("copy the session", error);
        let (first, last) = (key(self.view.sid, 0), key(self.view.sid, MAX_SEQ));
        let mut all = connection.prepared(ALL[0])?;
        let mut ledger = connection.prepared(USAGE[0])?;
        let mut others = connection.prepared(OTHERS)?;
        let mut kinds = Vec::new();
        match &self.plan.entries {
            Entries::All => {
                let mut rows = all.query(params![first, last, i64::MAX]).map_err(failed)?;
                let mut before: Option<(u64, String)> = None;
                kinds.push(Pages::one_by_one(move || {
                    let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
                    let Found { mut entry, parent } = whole_of(row).map_err(failed)?;
                    entry.parent_id = match (parent, &before) {
                        (None, _) => None,
                        (Some(parent), Some((seq, id))) if *seq == parent => Some(id.clone()),
                        (Some(parent), _) => Some(self.view.id_at(parent)?),
                    };
                    before = Some((entry.seq, entry.id.clone()));
                    Ok(Some(entry.into()))
                }));
            }
            Entries::Path(None) => {}
            Entries::Path(Some(tip)) => {
                let mut path = self.path(tip);
                kinds.push(Pages::one_by_one(move || {
                    let Some(place) = path.next()? else { return Ok(None) };
                    let payload =
                        connection.first(PAYLOAD, [key(self.view.sid, place.seq)], |row| json(row, 0))?;
                    let payload = payload.ok_or_else(|| self.view.lost(place.seq))?;
                    Ok(Some(entry_of(place, payload).into()))
                }));
            }
        }
        if self.plan.usage {
            let mut rows = ledger.query(params![first, last, i64::MAX]).map_err(failed)?;
            kinds.push(Pages::one_by_one(move || {
                let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
                let stored =
                    |row: &Row<'_>| Ok(UsageRow::stored(row.get(1)?, seq_of(row.get(0)?), json(row, 2)?));
                Ok(Some(stored(row).map_err(failed)?.into()))
            }));
        }
        match self.plan.values {
            Values::LabelsOfEntries => {
                let mut labels = self.labels()?.into_iter();
                kinds.push(Pages::one_by_one(move || Ok(labels.next())));
            }
            Values::Where(passes) => {
                let mut rows = others.query(params![self.view.sid, MAX_SEQ.cast_signed()]).map_err(failed)?;
                let mut lists = HashMap::new();
                kinds.push(Pages::one_by_one(move || {
                    while let Some(row) = rows.next().map_err(failed)? {
                        let place = || Ok((count(row, 0)?, row.get(1)?, row.get(2)?));
                        let (seq, vid, key) = place().map_err(failed)?;
                        if let Some(record) = self.other(seq, vid, key, passes, &mut lists)? {
                            return Ok(Some(record));
                        }
                    }
                    Ok(None)
                }));
            }
        }
        merge(kinds, out, self.ctx)
    }

    /// The entries of the path that is copied, oldest first, without their payloads.
    fn path<'a>(&'a self, tip: &'a str) -> Path<'a> {
        Path { copy: self, tip, page: VecDeque::new(), last: None, ended: false }
    }

    /// The value or element in a row; none if it is not copied.
    fn other(
        &self,
        seq: u64,
        vid: Option<i64>,
        key: Option<i64>,
        passes: fn(&Address) -> bool,
        lists: &mut HashMap<i64, Option<Arc<Address>>>,
    ) -> Result<Option<Record>> {
        let connection = self.view.connection;
        if let Some(vid) = vid {
            let stored = connection.first(VALUE, [vid], |row| {
                let address = Address::known(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
                Ok(StoredValue { address, seq: count(row, 2)?, value: json(row, 3)? })
            })?;
            let stored = stored.ok_or_else(|| self.view.lost(seq))?;
            return Ok(Some(stored).filter(|stored| passes(&stored.address)).map(Into::into));
        }
        let Some(key) = key else { return Ok(None) };
        let list = key >> SEQ_BITS;
        let address = match lists.get(&list) {
            Some(address) => address.clone(),
            None => {
                let address = connection.first(LIST, [list], |row| {
                    Ok(Address::known(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?))
                })?;
                let address = address.filter(passes).map(Arc::new);
                lists.insert(list, address.clone());
                address
            }
        };
        let Some(address) = address else { return Ok(None) };
        let element = connection.first(ELEMENT, [key], |row| json(row, 0))?;
        let element = element.ok_or_else(|| self.view.lost(seq))?;
        Ok(Some(Record { seq, write: Write::AppendList((*address).clone(), element) }))
    }

    /// The labels of the entries that are copied.
    fn labels(&self) -> Result<Vec<Record>> {
        let mut found = Vec::new();
        let first = Address::known(reserved::ENTRY_LABEL, "");
        let first = self.view.value_addresses(Some(&first), 1, self.ctx)?;
        let Entries::Path(Some(tip)) = &self.plan.entries else { return Ok(found) };
        if first.first().is_none_or(|address| address.namespace() != reserved::ENTRY_LABEL) {
            return Ok(found);
        }
        let mut path = self.path(tip);
        while let Some(place) = path.next()? {
            let label = Address::known(reserved::ENTRY_LABEL, &place.id);
            found.extend(self.view.get_value(&label)?.map(Record::from));
        }
        found.sort_by_key(|record| record.seq);
        Ok(found)
    }
}

/// A path that is read page by page.
struct Path<'a> {
    copy: &'a Copy<'a>,
    tip: &'a str,
    page: VecDeque<EntryStructure>,
    last: Option<u64>,
    ended: bool,
}

impl Path<'_> {
    fn next(&mut self) -> Result<Option<EntryStructure>> {
        if self.page.is_empty() && !self.ended {
            let view = self.copy.view;
            let scan = BranchScan {
                order: PathOrder::OldestFirst,
                limit: Some(PAGE as u64),
                cursor: self.last,
                ..BranchScan::default()
            };
            let tree = SessionTree::<EntryStructure>::new(view);
            let page = path::scan(&tree, self.tip, &scan, self.copy.ctx)?;
            self.page = view.with_parents(page)?.into();
            self.last = self.page.back().map(|place| place.seq);
            self.ended = self.page.is_empty();
        }
        Ok(self.page.pop_front())
    }
}
