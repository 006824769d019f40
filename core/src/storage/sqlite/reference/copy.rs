//! Copying a session out of a container: one snapshot of it, while its owner may go on writing.
//!
//! A copy holds nothing that could not have been committed here: what is not so is `Corrupt` before it is
//! given.

use rusqlite::{Row, params};

use super::super::copy::{Pages, merge};
use super::super::database::Database;
use super::super::read::count;
use super::path::Walks;
use super::read::{ELEMENT, View};
use crate::context::Context;
use crate::error::Result;
use crate::model::address::reserved;
use crate::model::entry::Entry;
use crate::model::id::check_id;
use crate::model::value::{Address, StoredValue};
use crate::model::write::Write;
use crate::storage::copy::{self, Entries, Ordered, PAGE, Plan, Planner, Record, Sink, Values};
use crate::storage::query::{BranchScan, EntryScan, PathOrder, UsageScan};

/// Where values and list elements stand, in `seq` order; whether it is an element.
const OTHERS: &str = "SELECT seq, namespace, key, 0 FROM scalar_values WHERE session_id = ?1
UNION ALL SELECT seq, namespace, key, 1 FROM list_values WHERE session_id = ?1 ORDER BY 1";
/// An entry that does not stand behind its parent.
const ASTRAY: &str = "SELECT e.id, p.id FROM entries e
LEFT JOIN entries p ON p.session_id = e.session_id AND p.id = e.parent_id
WHERE e.session_id = ?1 AND e.parent_id IS NOT NULL AND (p.id IS NULL OR p.seq >= e.seq) LIMIT 1";

pub(super) fn run(
    database: &Database,
    id: &str,
    walks: &Walks,
    planner: &mut Planner<'_>,
    into: &mut dyn Sink,
    ctx: &Context,
) -> Result<()> {
    database.read_at_boundary(ctx, |connection, begun| {
        // What sorting many values needs goes to a file.
        connection.execute("copy the session", "PRAGMA temp_store = FILE", [])?;
        let _snapshot = connection.snapshot()?;
        let view = View { connection, id };
        let next_seq = view.next_seq()?;
        begun();
        let mut plan = planner(&Planned { view, walks, next_seq, ctx })?;
        let copy = Copy { view, walks, entries: plan.entries.clone(), ctx };
        copy.check_tree()?;
        let kinds = copy.kinds(&plan)?;
        let mut out = Ordered::start(&mut plan, &mut *into, ctx)?;
        merge(kinds, &mut out, ctx)?;
        out.finish(ctx)
    })
}

/// The snapshot, for planning.
struct Planned<'a> {
    view: View<'a>,
    walks: &'a Walks,
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
        Ok(self.view.structure(id)?.map(|entry| entry.parent_id))
    }

    fn is_on_path(&self, tip: &str, id: &str) -> Result<bool> {
        let Some(entry) = self.view.structure(id)? else { return Ok(false) };
        let first =
            BranchScan { cursor: Some(entry.seq.saturating_add(1)), limit: Some(1), ..BranchScan::default() };
        Ok(self.walks.scan(&self.view, tip, &first, self.ctx)?.first().is_some_and(|found| found == id))
    }
}

/// What is streamed of the snapshot.
#[derive(Clone)]
struct Copy<'a> {
    view: View<'a>,
    walks: &'a Walks,
    entries: Entries,
    ctx: &'a Context,
}

impl<'a> Copy<'a> {
    /// Refuses a tree that hangs on nothing. A path is looked over as it is walked.
    fn check_tree(&self) -> Result<()> {
        if self.entries != Entries::All {
            return Ok(());
        }
        let pair = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?));
        match self.view.connection.first(ASTRAY, [self.view.id], pair)? {
            None => Ok(()),
            Some((id, None)) => {
                Err(self.view.corrupt(format!("the parent of the entry '{id}' is missing")).with_id(&id))
            }
            Some((id, Some(_))) => {
                Err(self.view.corrupt(format!("the entry '{id}' is older than its parent")).with_id(&id))
            }
        }
    }

    fn kinds(&self, plan: &Plan) -> Result<Vec<Pages<'a>>> {
        let mut path = self.path()?.into_iter();
        let copy = self.clone();
        let mut kinds = vec![match &self.entries {
            Entries::All => Pages::new(move |after| copy.all_entries(after)),
            Entries::Path(_) => Pages::new(move |_| {
                path.by_ref().take(PAGE).map(|id| copy.record(copy.view.known_entry(&id)?)).collect()
            }),
        }];
        if plan.usage {
            let copy = self.clone();
            kinds.push(Pages::new(move |after| copy.usage(after)));
        }
        let mut others = match plan.values {
            Values::LabelsOfEntries => self.labels()?,
            Values::Where(passes) => self.places(passes)?,
        }
        .into_iter();
        let copy = self.clone();
        kinds.push(Pages::new(move |_| others.by_ref().take(PAGE).map(|place| copy.other(place)).collect()));
        Ok(kinds)
    }

    /// The ids of the entries on the path that is copied, oldest first.
    fn path(&self) -> Result<Vec<String>> {
        let Entries::Path(Some(tip)) = &self.entries else { return Ok(Vec::new()) };
        let whole = BranchScan { order: PathOrder::OldestFirst, ..BranchScan::default() };
        self.walks.scan(&self.view, tip, &whole, self.ctx)
    }

    fn all_entries(&self, after: u64) -> Result<Vec<Record>> {
        let from_seq = Some(after + 1).filter(|_| after > 0);
        let scan = EntryScan { from_seq, limit: Some(PAGE as u64), ..EntryScan::default() };
        let page = self.view.scan_entries(&scan, self.ctx)?;
        page.into_iter().map(|entry| self.record(entry)).collect()
    }

    fn record(&self, entry: Entry) -> Result<Record> {
        let record = Record::from(entry);
        if let Write::Entry(entry) = &record.write
            && let Err(error) = entry.check()
        {
            let what = format!("the entry '{}' cannot be copied: {}", entry.id(), error.message());
            return Err(self.view.corrupt(what).with_id(entry.id()).with_source(error));
        }
        Ok(record)
    }

    fn usage(&self, after: u64) -> Result<Vec<Record>> {
        let from_seq = Some(after + 1).filter(|_| after > 0);
        let scan = UsageScan { from_seq, limit: Some(PAGE as u64), ..UsageScan::default() };
        let page = self.view.scan_usage(&scan, self.ctx)?;
        let record = |row: crate::model::usage::UsageRow| match check_id(&row.id) {
            Ok(()) => Ok(row.into()),
            Err(error) => {
                Err(self.view.corrupt("a row of the ledger has an impossible id").with_source(error))
            }
        };
        page.into_iter().map(record).collect()
    }

    /// Where the values and elements stand whose address passes.
    fn places(&self, passes: fn(&Address) -> bool) -> Result<Vec<Place>> {
        let failed = |error| self.view.connection.fault("copy the session", error);
        let mut statement = self.view.connection.prepared(OTHERS)?;
        let mut rows = statement.query([self.view.id]).map_err(failed)?;
        let mut places = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let seq = count(row, 0).map_err(failed)?;
            let text = |column| Ok(row.get_ref(column)?.as_str()?);
            let (namespace, key) = (text(1).map_err(failed)?, text(2).map_err(failed)?);
            let address = Address::new(namespace, key).map_err(|error| {
                self.view.corrupt("a value or list has an impossible address").with_source(error)
            })?;
            if passes(&address) {
                let is_element = row.get(3).map_err(failed)?;
                places.push(Place { seq, address, is_element });
            }
            if places.len().is_multiple_of(PAGE) {
                self.ctx.check()?;
            }
        }
        Ok(places)
    }

    /// Where the labels of the entries on the path stand.
    fn labels(&self) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        let first = Address::known(reserved::ENTRY_LABEL, "");
        let first = self.view.value_addresses(Some(&first), 1, self.ctx)?;
        if first.first().is_none_or(|address| address.namespace() != reserved::ENTRY_LABEL) {
            return Ok(places);
        }
        for id in self.path()? {
            let address = Address::known(reserved::ENTRY_LABEL, &id);
            if let Some(label) = self.view.get_value(&address)? {
                places.push(Place { seq: label.seq, address, is_element: false });
            }
        }
        places.sort_by_key(|place| place.seq);
        Ok(places)
    }

    fn other(&self, place: Place) -> Result<Record> {
        let Place { seq, address, is_element } = place;
        let found = if is_element {
            let parameters = params![self.view.id, address.namespace(), address.key(), seq.cast_signed()];
            let element = self.view.connection.first(ELEMENT, parameters, |row| super::read::json(row, 0))?;
            element.map(|element| Record { seq, write: Write::AppendList(address.clone(), element) })
        } else {
            self.view.get_value(&address)?.map(Record::from)
        };
        found.ok_or_else(|| self.view.corrupt(format!("what stands at {address} is missing")))
    }
}

/// Where a value or an element of a list stands.
struct Place {
    seq: u64,
    address: Address,
    is_element: bool,
}
