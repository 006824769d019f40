//! The entry tree of a session for the walk along paths: `at` is the `seq`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;

use rusqlite::{Row, params};

use super::fault::corrupt;
use super::read::{
    CLIMB, CLIMB_WHOLE, Found, NODE, NODE_BY_ID, PAYLOAD, View, entry_of, json, node_of, structure_of,
};
use super::schema::key;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::entry::{Entry, EntryStructure};
use crate::storage::path::{self, Node, Step, Tree, Visit, damage};
use crate::storage::query::BranchScan;

/// How many nodes a scan remembers.
const REMEMBERED: usize = 1024;

/// What a scan takes of an entry.
pub(super) trait Taken: Sized {
    /// The statement that steps down a path.
    const WALK: &'static str;
    /// The row of the walk as what is taken of the entry at `node`.
    fn of(view: &View<'_>, node: &Node, row: &Row<'_>) -> Result<Found<Self>>;
}

/// The walk that reads payloads as it goes: for scans that keep what they meet.
pub(super) struct Eager(pub(super) Entry);

impl Taken for Eager {
    const WALK: &'static str = CLIMB_WHOLE;

    fn of(view: &View<'_>, node: &Node, row: &Row<'_>) -> Result<Found<Self>> {
        let taken = || {
            let entry = entry_of(structure_of(node.seq, node.entry_type, row)?, json(row, 8)?);
            Ok(Found { entry: Eager(entry), parent: node.parent })
        };
        taken().map_err(|error| view.connection.fault("read an entry", error))
    }
}

impl Taken for EntryStructure {
    const WALK: &'static str = CLIMB;

    fn of(view: &View<'_>, node: &Node, row: &Row<'_>) -> Result<Found<Self>> {
        let taken =
            || Ok(Found { entry: structure_of(node.seq, node.entry_type, row)?, parent: node.parent });
        taken().map_err(|error| view.connection.fault("read an entry", error))
    }
}

/// The walk that reads the payload of what is kept only: for scans that skip.
impl Taken for Entry {
    const WALK: &'static str = CLIMB;

    fn of(view: &View<'_>, node: &Node, row: &Row<'_>) -> Result<Found<Self>> {
        let Found { entry: place, parent } = EntryStructure::of(view, node, row)?;
        let payload = view
            .connection
            .first(PAYLOAD, [key(view.sid, place.seq)], |row| json(row, 0))?
            .ok_or_else(|| view.lost(place.seq))?;
        Ok(Found { entry: entry_of(place, payload), parent })
    }
}

/// The tree from which a scan takes `T`.
pub(super) struct SessionTree<'a, T> {
    view: View<'a>,
    /// Nodes that the scan met on its way: it looks for several places from the same tip.
    met: RefCell<HashMap<u64, Node>>,
    taken: std::marker::PhantomData<fn() -> T>,
}

impl<'a, T> SessionTree<'a, T> {
    pub(super) fn new(view: View<'a>) -> Self {
        Self { view, met: RefCell::default(), taken: std::marker::PhantomData }
    }
}

impl<T: Taken> Tree for SessionTree<'_, T> {
    type Row = Found<T>;

    fn find(&self, id: &str) -> Result<Option<Node>> {
        self.view.connection.first(NODE_BY_ID, params![self.view.sid, id], node_of)
    }

    fn node(&self, at: u64) -> Result<Node> {
        if let Some(node) = self.met.borrow().get(&at) {
            return Ok(*node);
        }
        let found = self.view.connection.first(NODE, [key(self.view.sid, at)], node_of)?;
        let node = found.ok_or_else(|| self.view.lost(at))?;
        let mut met = self.met.borrow_mut();
        if met.len() >= REMEMBERED {
            met.clear();
        }
        met.insert(at, node);
        Ok(node)
    }

    /// Steps down by key while the next row is the parent, and seeks the parent where another branch's rows
    /// lie between.
    fn climb(&self, from: u64, visit: &mut Visit<'_, Self::Row>) -> Result<()> {
        let View { connection, sid } = self.view;
        let failed = |error| connection.fault("read the database", error);
        let mut statement = connection.prepared(T::WALK)?;
        let mut next = Some(from);
        let mut child: Option<Node> = None;
        while let Some(start) = next {
            let mut rows = statement.query([key(sid, 0), key(sid, start)]).map_err(failed)?;
            let mut is_first = true;
            while let (Some(wanted), Some(row)) = (next, rows.next().map_err(failed)?) {
                let node = node_of(row).map_err(failed)?;
                if node.seq != wanted {
                    if is_first {
                        return Err(self.view.lost(wanted));
                    }
                    break;
                }
                is_first = false;
                // Each is one less deep than its child, so that a walk by depth meets what it looks for.
                if let Some(child) = child.filter(|child| child.depth != node.depth.saturating_add(1)) {
                    return Err(self.damaged(&child));
                }
                child = Some(node);
                let custom_type =
                    row.get_ref(7).and_then(|text| Ok(text.as_str_or_null()?)).map_err(failed)?;
                let step = Step { node, custom_type, load: &mut || T::of(&self.view, &node, row) };
                if visit(step)? == ControlFlow::Break(()) {
                    return Ok(());
                }
                next = node.parent;
            }
            if is_first {
                return Err(self.view.lost(start));
            }
        }
        Ok(())
    }

    fn damaged(&self, node: &Node) -> Error {
        corrupt(self.view.connection.path(), damage(node))
    }
}

impl View<'_> {
    /// Entries on the path from an entry to its root.
    pub(super) fn scan_branch(&self, start: &str, scan: &BranchScan, ctx: &Context) -> Result<Vec<Entry>> {
        let filters = scan.entry_type.is_some() || scan.custom_type.is_some();
        let skips = scan.cursor.is_some() && scan.stop_at_type.is_some();
        if filters || skips {
            let found = path::scan(&SessionTree::<Entry>::new(*self), start, scan, ctx)?;
            return self.with_parents(found);
        }
        let found = path::scan(&SessionTree::<Eager>::new(*self), start, scan, ctx)?;
        self.with_parents(found.into_iter().map(Into::into).collect())
    }
}

impl From<Found<Eager>> for Found<Entry> {
    fn from(found: Found<Eager>) -> Self {
        Self { entry: found.entry.0, parent: found.parent }
    }
}
