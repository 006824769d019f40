//! Paths through the entries, from parent to parent.
//!
//! The tables have no jumps: what lies below a cursor is found by walking there. A path never changes, so the
//! last walk is remembered, and whoever pages along one walks it once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use super::read::View;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::{EntryStructure, EntryType};
use crate::storage::indexed_id::IndexedId;
use crate::storage::query::{BranchScan, PathOrder};
use crate::sync::lock;

/// The last walk.
#[derive(Default)]
pub(super) struct Walks(pub(super) Mutex<Option<Walk>>);

/// A path as far as it was walked, newest entry first.
pub(super) struct Walk {
    start: EntryStructure,
    steps: Vec<Step>,
    /// The parent of the last step.
    next: Option<String>,
    custom_types: HashSet<Arc<str>>,
}

/// An entry on the way.
struct Step {
    id: IndexedId,
    seq: u64,
    entry_type: EntryType,
    custom_type: Option<Arc<str>>,
}

impl Walks {
    /// The ids of the entries that `scan` asks for, on the path from `start` to its root.
    pub(super) fn scan(
        &self,
        view: &View<'_>,
        start: &str,
        scan: &BranchScan,
        ctx: &Context,
    ) -> Result<Vec<String>> {
        let tip = view.structure(start)?.ok_or_else(|| {
            Error::new(ErrorKind::UnknownEntry, format!("no entry '{start}' to start the scan at"))
                .with_id(start)
        })?;
        if scan.limit == Some(0) {
            return Ok(Vec::new());
        }
        // Taken while it is used: whoever scans meanwhile walks for itself.
        let remembered = lock(&self.0).take().filter(|walk| walk.start == tip);
        let mut walk = remembered.unwrap_or_else(|| Walk::from(tip));
        let found = match scan.order {
            PathOrder::NewestFirst => walk.newest_first(view, scan, ctx),
            PathOrder::OldestFirst => walk.oldest_first(view, scan, ctx),
        }?;
        *lock(&self.0) = Some(walk);
        Ok(found)
    }
}

impl Walk {
    fn from(tip: EntryStructure) -> Self {
        let mut walk =
            Self { start: tip.clone(), steps: Vec::new(), next: None, custom_types: HashSet::new() };
        walk.push(tip);
        walk
    }

    #[cfg(test)]
    pub(super) fn length(&self) -> usize {
        self.steps.len()
    }

    fn push(&mut self, entry: EntryStructure) {
        let custom_type = entry.custom_type.map(|name| match self.custom_types.get(name.as_str()) {
            Some(known) => Arc::clone(known),
            None => {
                let name: Arc<str> = name.into();
                self.custom_types.insert(Arc::clone(&name));
                name
            }
        });
        self.next = entry.parent_id;
        self.steps.push(Step {
            id: IndexedId::of(&entry.id).into_owned(),
            seq: entry.seq,
            entry_type: entry.entry_type,
            custom_type,
        });
    }

    /// The step at that place, walking there; none behind the root.
    fn step(&mut self, at: usize, view: &View<'_>, ctx: &Context) -> Result<Option<&Step>> {
        while self.steps.len() <= at {
            let Some(id) = &self.next else { return Ok(None) };
            if self.steps.len().is_multiple_of(256) {
                ctx.check()?;
            }
            let entry = view.structure(id)?.ok_or_else(|| view.lost(id))?;
            // Each parent is older: so every walk ends.
            if self.steps.last().is_some_and(|child| child.seq <= entry.seq) {
                return Err(view
                    .corrupt(format!("the entry '{id}' is newer than one that hangs on it"))
                    .with_id(id));
            }
            self.push(entry);
        }
        Ok(self.steps.get(at))
    }

    fn newest_first(&mut self, view: &View<'_>, scan: &BranchScan, ctx: &Context) -> Result<Vec<String>> {
        let limit = limit_of(scan);
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(step) = self.step(at, view, ctx)? {
            if scan.cursor.is_none_or(|cursor| step.seq < cursor) && step.passes(scan) {
                found.push(step.id.to_string());
            }
            if found.len() >= limit || step.stops(scan) {
                break;
            }
            at += 1;
        }
        Ok(found)
    }

    fn oldest_first(&mut self, view: &View<'_>, scan: &BranchScan, ctx: &Context) -> Result<Vec<String>> {
        while self.step(self.steps.len(), view, ctx)?.is_some() {}
        let limit = limit_of(scan);
        let mut found = Vec::new();
        for step in self.steps.iter().rev() {
            if scan.cursor.is_none_or(|cursor| step.seq > cursor) && step.passes(scan) {
                found.push(step.id.to_string());
            }
            if found.len() >= limit || step.stops(scan) {
                break;
            }
        }
        Ok(found)
    }
}

impl Step {
    fn passes(&self, scan: &BranchScan) -> bool {
        scan.entry_type.is_none_or(|wanted| wanted == self.entry_type)
            && scan.custom_type.as_deref().is_none_or(|wanted| Some(wanted) == self.custom_type.as_deref())
    }

    fn stops(&self, scan: &BranchScan) -> bool {
        scan.stop_at_type == Some(self.entry_type)
            || scan.stop_at_id.as_deref().is_some_and(|id| IndexedId::of(id) == self.id.borrowed())
    }
}

fn limit_of(scan: &BranchScan) -> usize {
    scan.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}
