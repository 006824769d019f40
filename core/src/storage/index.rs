//! The entries of a session as an index in memory: placement whole, payloads wherever the backend keeps them.
//!
//! Memory follows the number of entries, not their size.

use std::hash::BuildHasher;
use std::ops::ControlFlow;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::{Entry, EntryStructure, EntryType, NewEntry};
use crate::model::json::Json;
use crate::storage::indexed_id::IndexedId;
use crate::storage::path::{self, Node, Step, Tree, Visit};
use crate::storage::query::{BranchScan, EntryScan, Order};

const NONE: u32 = u32::MAX;

/// One entry of the index; `payload` is what the backend needs to find its payload.
#[derive(Debug)]
pub(crate) struct Indexed<P> {
    pub(crate) id: IndexedId,
    pub(crate) seq: u64,
    pub(crate) timestamp: i64,
    pub(crate) entry_type: EntryType,
    pub(crate) custom_type: Option<Box<str>>,
    pub(crate) payload: P,
    parent: u32,
    jump: u32,
    depth: u32,
}

/// A new entry, with its ids as an index keeps them.
#[derive(Debug)]
pub(crate) struct NewRow {
    pub(crate) id: IndexedId,
    /// Its parent's id; none for a root.
    pub(crate) parent_id: Option<IndexedId>,
    pub(crate) seq: u64,
    pub(crate) timestamp: i64,
    pub(crate) entry_type: EntryType,
    pub(crate) custom_type: Option<Box<str>>,
}

impl NewRow {
    pub(crate) fn of(entry: &NewEntry, seq: u64, timestamp: i64) -> Self {
        Self {
            id: IndexedId::of(&entry.id).into_owned(),
            parent_id: entry.parent_id.as_deref().map(|id| IndexedId::of(id).into_owned()),
            seq,
            timestamp: entry.made_at.unwrap_or(timestamp),
            entry_type: entry.entry_type,
            custom_type: entry.custom_type.as_deref().map(Into::into),
        }
    }

    /// The same with ids as text.
    pub(crate) fn into_structure(self) -> EntryStructure {
        EntryStructure {
            id: self.id.to_string(),
            parent_id: self.parent_id.map(|id| id.to_string()),
            seq: self.seq,
            timestamp: self.timestamp,
            entry_type: self.entry_type,
            custom_type: self.custom_type.map(Into::into),
        }
    }
}

/// Where a new entry stands.
#[derive(Debug)]
pub(crate) struct Placement<'a> {
    /// The place of its parent; none for a root.
    pub(crate) parent: Option<usize>,
    pub(crate) seq: u64,
    pub(crate) timestamp: i64,
    pub(crate) entry_type: EntryType,
    pub(crate) custom_type: Option<&'a str>,
}

/// The entries of a session in `seq` order, found by id and by place.
#[derive(Debug)]
pub(crate) struct EntryIndex<P> {
    entries: Vec<Indexed<P>>,
    by_id: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl<P> Default for EntryIndex<P> {
    fn default() -> Self {
        Self { entries: Vec::new(), by_id: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl<P> EntryIndex<P> {
    /// An index with room for so many entries.
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self {
            entries: Vec::with_capacity(entries),
            by_id: HashTable::with_capacity(entries),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Adds an entry behind the others; its parent must be there.
    pub(crate) fn push(&mut self, entry: &NewRow, payload: P) -> Result<()> {
        let parent = match &entry.parent_id {
            None => None,
            Some(id) => Some(self.place_of(id.borrowed()).ok_or_else(|| {
                Error::new(
                    ErrorKind::MissingParent,
                    format!("the parent '{id}' of entry '{}' does not exist", entry.id),
                )
                .with_id(id.to_string())
            })?),
        };
        let place = Placement {
            parent,
            seq: entry.seq,
            timestamp: entry.timestamp,
            entry_type: entry.entry_type,
            custom_type: entry.custom_type.as_deref(),
        };
        self.push_at(entry.id.clone(), place, payload)
    }

    /// The same where the parent's place is known.
    pub(crate) fn push_at(&mut self, id: IndexedId, place: Placement<'_>, payload: P) -> Result<()> {
        let at = u32::try_from(self.entries.len()).ok().filter(|at| *at != NONE).ok_or_else(|| {
            Error::new(ErrorKind::TooLarge, "a session in memory holds at most 4,294,967,294 entries")
        })?;
        let (parent, jump, depth) = match place.parent {
            None => (NONE, at, 0),
            Some(parent) => {
                let parent = self.node_at(parent);
                (parent.at as u32, path::jump_of_child(&Structure(self), &parent)? as u32, parent.depth + 1)
            }
        };
        let hash = self.hasher.hash_one(id.borrowed());
        self.entries.push(Indexed {
            id,
            seq: place.seq,
            timestamp: place.timestamp,
            entry_type: place.entry_type,
            custom_type: place.custom_type.map(Into::into),
            payload,
            parent,
            jump,
            depth,
        });
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_id.insert_unique(hash, at, |at| hasher.hash_one(entries[*at as usize].id.borrowed()));
        Ok(())
    }

    /// Takes the last entries away again, so that `length` are left.
    pub(crate) fn truncate(&mut self, length: usize) {
        while self.entries.len() > length {
            let Some(entry) = self.entries.pop() else { return };
            let at = self.entries.len() as u32;
            if let Ok(place) =
                self.by_id.find_entry(self.hasher.hash_one(entry.id.borrowed()), |found| *found == at)
            {
                place.remove();
            }
        }
    }

    /// Whether the first entries are those of `other`, at the same places.
    pub(crate) fn begins_with(&self, other: &Self) -> bool {
        let is_same = |(one, other): (&Indexed<P>, &Indexed<P>)| {
            (&one.id, one.seq, one.parent) == (&other.id, other.seq, other.parent)
        };
        self.len() >= other.len() && self.entries.iter().zip(&other.entries).all(is_same)
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The place of the entry of that id.
    pub(crate) fn position(&self, id: &str) -> Option<usize> {
        self.place_of(IndexedId::of(id))
    }

    /// The same for an id that was read before.
    pub(crate) fn place_of(&self, id: IndexedId<&str>) -> Option<usize> {
        // Most are asked for as the parent of the next.
        if self.entries.last().is_some_and(|last| last.id.borrowed() == id) {
            return Some(self.entries.len() - 1);
        }
        self.by_id
            .find(self.hasher.hash_one(id), |at| self.entries[*at as usize].id.borrowed() == id)
            .map(|at| *at as usize)
    }

    /// The entry at that place.
    pub(crate) fn entry(&self, position: usize) -> &Indexed<P> {
        &self.entries[position]
    }

    /// Every entry, mutable: for a backend that moves payloads.
    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Indexed<P>> {
        self.entries.iter_mut()
    }

    /// The place of the parent of the entry at that place; none for a root.
    pub(crate) fn parent(&self, position: usize) -> Option<usize> {
        Some(self.entries[position].parent).filter(|parent| *parent != NONE).map(|parent| parent as usize)
    }

    /// Whether the entry at a place is the one at `tip`, or an ancestor of it.
    pub(crate) fn is_on_path(&self, tip: usize, position: usize) -> Result<bool> {
        path::is_on_path(&Structure(self), self.node_at(tip), &self.node_at(position))
    }

    /// Where the entry at that place stands.
    pub(crate) fn structure(&self, position: usize) -> EntryStructure {
        let entry = &self.entries[position];
        EntryStructure {
            id: entry.id.to_string(),
            parent_id: self.entries.get(entry.parent as usize).map(|parent| parent.id.to_string()),
            seq: entry.seq,
            timestamp: entry.timestamp,
            entry_type: entry.entry_type,
            custom_type: entry.custom_type.as_deref().map(str::to_owned),
        }
    }

    /// The entry at that place, with the payload that was found for it.
    pub(crate) fn with_payload(&self, position: usize, payload: Json) -> Entry {
        let place = self.structure(position);
        Entry {
            id: place.id,
            parent_id: place.parent_id,
            seq: place.seq,
            timestamp: place.timestamp,
            entry_type: place.entry_type,
            custom_type: place.custom_type,
            payload,
        }
    }

    /// Places of the entries on a path (see [`path::scan`]).
    pub(crate) fn scan_branch(&self, start: &str, scan: &BranchScan, ctx: &Context) -> Result<Vec<usize>> {
        path::scan(&Structure(self), start, scan, ctx)
    }

    /// Places of the entries of the whole session that `scan` asks for.
    pub(crate) fn scan_entries(&self, scan: &EntryScan) -> Vec<usize> {
        let first = scan.from_seq.map_or(0, |seq| self.entries.partition_point(|entry| entry.seq < seq));
        let end =
            scan.to_seq.map_or(self.len(), |seq| self.entries.partition_point(|entry| entry.seq <= seq));
        let passes = |position: &usize| {
            let entry = &self.entries[*position];
            scan.entry_type.is_none_or(|wanted| wanted == entry.entry_type)
                && scan
                    .custom_type
                    .as_deref()
                    .is_none_or(|wanted| Some(wanted) == entry.custom_type.as_deref())
        };
        let limit = scan.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        match scan.order {
            Order::Ascending => (first..end).filter(passes).take(limit).collect(),
            Order::Descending => (first..end).rev().filter(passes).take(limit).collect(),
        }
    }

    fn node_at(&self, position: usize) -> Node {
        let entry = &self.entries[position];
        Node {
            at: position as u64,
            seq: entry.seq,
            parent: (entry.parent != NONE).then_some(u64::from(entry.parent)),
            jump: u64::from(entry.jump),
            depth: entry.depth,
            entry_type: entry.entry_type,
        }
    }
}

/// The index as a tree whose rows are places.
struct Structure<'a, P>(&'a EntryIndex<P>);

impl<P> Tree for Structure<'_, P> {
    type Row = usize;

    fn find(&self, id: &str) -> Result<Option<Node>> {
        Ok(self.0.position(id).map(|position| self.0.node_at(position)))
    }

    fn node(&self, at: u64) -> Result<Node> {
        Ok(self.0.node_at(at as usize))
    }

    fn climb(&self, from: u64, visit: &mut Visit<'_, usize>) -> Result<()> {
        let mut at = Some(from);
        while let Some(position) = at {
            let node = self.0.node_at(position as usize);
            let custom_type = self.0.entries[position as usize].custom_type.as_deref();
            let step = Step { node, custom_type, load: &mut || Ok(position as usize) };
            if visit(step)? == ControlFlow::Break(()) {
                break;
            }
            at = node.parent;
        }
        Ok(())
    }
}
