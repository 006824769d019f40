//! A file of version 1 to 3 as storage that is only read: an index in memory, payloads from the file.
//!
//! The file is never written. Payloads are read, and put into the form they have here, when they are asked
//! for; before each such read the file is compared with what it was when it was opened.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::legacy::Legacy;
use crate::legacy::lines::Object;
use crate::legacy::nodes::{Kind, NONE};
use crate::legacy::payload::{Old, entry_type};
use crate::legacy::report::{Origin, Origins, Placed};
use crate::legacy::scan::{Scanned, read_at};
use crate::legacy::times::NewIds;
use crate::legacy::tree::Tree;
use crate::legacy::values::{Values, set_values};
use crate::model::entry::{Entry, EntryStructure, EntryType};
use crate::model::json::{Json, compact_lines};
use crate::model::usage::{Stats, UsageRow};
use crate::model::value::{Address, ListElement, StoredValue};
use crate::model::write::{CommitResult, Write};
use crate::storage::copy::indexed::{Indexed, What};
use crate::storage::copy::{Ordered, PAGE, Planner, Sink};
use crate::storage::index::{EntryIndex, Placement};
use crate::storage::indexed_id::IndexedId;
use crate::storage::query::{BranchScan, EntryScan, ListRead, UsageScan};
use crate::storage::tables::Tables;
use crate::storage::{Reads, Storage, closed};

/// What tells that a file is still the one that was opened, unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

/// Where an entry's JSON stands, and what else its payload needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Locator {
    offset: u64,
    length: u64,
    /// Position of the entry that its `fromId` or `targetId` names; for a compaction with a kept range, the
    /// position where that ends, walking to the root.
    reference: u32,
    keeps: bool,
    pub(super) kind: Kind,
}

/// A file of version 1 to 3.
#[derive(Debug)]
pub(crate) struct LegacyStorage {
    pub(super) path: PathBuf,
    pub(super) file: File,
    stamp: Stamp,
    version: u64,
    pub(super) entries: EntryIndex<Locator>,
    tables: Tables,
    /// Addresses of the values in `seq` order.
    pub(super) values: Vec<Address>,
    stats: Stats,
    next_seq: u64,
    closed: RwLock<bool>,
}

impl LegacyStorage {
    /// The storage of a file that was read, and the report on it.
    pub(super) fn new(
        path: PathBuf,
        file: File,
        stamp: Stamp,
        scanned: Scanned,
        tree: &Tree,
    ) -> Result<(Self, Legacy)> {
        let version = scanned.header.version;
        let mut entries = EntryIndex::with_capacity(tree.order.len());
        let mut placed = Vec::with_capacity(tree.order.len());
        let mut stats = Stats { message_count: 0, usage: scanned.usage };
        let id_at = |placed: &[Placed], position: u32| -> Option<String> {
            placed.get(position as usize).map(|placed: &Placed| placed.new_id.hyphenated().to_string())
        };
        let mut ranges = vec![NONE; if tree.ranges.is_empty() { 0 } else { scanned.nodes.len() }];
        for (number, (node, _)) in tree.ranges.iter().enumerate() {
            ranges[*node as usize] = number as u32;
        }
        let kept = |node: u32| if node == NONE { NONE } else { tree.kept[node as usize] };
        let new_ids = NewIds::of(&scanned.header.id);
        for (position, number) in tree.order.iter().enumerate() {
            let node = &scanned.nodes[*number as usize];
            let key = scanned.keys.text(node.key);
            let new_id = new_ids.id(key, node.occurrence, node.time);
            let entry_type = entry_type(node.kind);
            stats.message_count += u64::from(entry_type == EntryType::Message);
            let range = ranges.get(*number as usize).and_then(|range| tree.ranges.get(*range as usize));
            let parent = kept(node.parent);
            let place = Placement {
                parent: (parent != NONE).then_some(parent as usize),
                seq: position as u64 + 1,
                timestamp: node.time,
                entry_type,
                custom_type: scanned.custom_types.get(node.custom_type as usize).map(|name| &**name),
            };
            let locator = Locator {
                offset: node.offset,
                length: node.length,
                reference: range.map_or_else(|| kept(node.reference), |(_, end)| *end),
                keeps: range.is_some(),
                kind: node.kind,
            };
            entries.push_at(IndexedId::Uuid(new_id), place, locator)?;
            placed.push(Placed {
                new_id,
                line: node.line,
                value: node.value,
                old_id: node.has_id.then(|| scanned.keys.span(node.key)),
            });
        }
        let mut tables = Tables::default();
        let found = Values::find(&path, &file, &scanned, tree)?;
        let first_seq = entries.len() as u64 + 1;
        let values = set_values(&mut tables, found, first_seq, &|position| id_at(&placed, position));
        let next_seq = first_seq + values.len() as u64;
        let selected = scanned.nodes.get(scanned.selected as usize).map(|node| Origin {
            id: node.has_id.then(|| scanned.keys.text(node.key).to_owned()),
            line: node.line,
            value: node.value,
        });
        let mut legacy = Legacy {
            version,
            session_id: scanned.header.id,
            header_line: scanned.header_line,
            header_created_at: scanned.header.created_at,
            warnings: scanned.warnings,
            selected,
            usage: scanned.usage,
            usage_rows: scanned.usage_rows,
            ..Legacy::default()
        };
        for name in scanned.nodes.iter().filter_map(|node| node.kind.dropped()) {
            *legacy.dropped.entry(name).or_default() += 1;
        }
        legacy.origins = Origins { texts: scanned.keys.into_texts(), placed }.into();
        let closed = RwLock::new(false);
        let storage = Self { path, file, stamp, version, entries, tables, values, stats, next_seq, closed };
        Ok((storage, legacy))
    }

    /// Looks whether the file is still the one that was opened.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let now = std::fs::metadata(&self.path).map(|metadata| Stamp::of(&metadata));
        match now {
            Ok(now) if now == self.stamp => Ok(()),
            _ => Err(changed(&self.path)),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.stamp.size
    }

    pub(super) fn value(&self, address: &Address) -> Option<StoredValue> {
        self.tables.get_value(address)
    }

    /// The entry at a position, its payload read from the file.
    pub(super) fn entry(&self, position: usize) -> Result<Entry> {
        let locator = self.entries.entry(position).payload;
        let tail = if locator.keeps { self.kept_messages(position, locator.reference)? } else { Vec::new() };
        let payload = self.with_old(position, |old| old.payload(&tail))?;
        Ok(self.entries.with_payload(position, Json::trusted(payload)))
    }

    fn all(&self, positions: impl IntoIterator<Item = usize>) -> Result<Vec<Entry>> {
        self.check_unchanged()?;
        positions.into_iter().map(|position| self.entry(position)).collect()
    }

    /// The messages from above the compaction at `position` up to below the entry at `end`, oldest first.
    fn kept_messages(&self, position: usize, end: u32) -> Result<Vec<String>> {
        let mut messages = Vec::new();
        let mut at = self.entries.parent(position);
        while let Some(above) = at.filter(|at| *at != end as usize) {
            // Only what may give a message is read: there can be many of the others, below many compactions.
            if self.entries.entry(above).payload.kind.may_be_kept() {
                messages.extend(self.with_old(above, |old| old.kept_message())?);
            }
            at = self.entries.parent(above);
        }
        messages.reverse();
        Ok(messages)
    }

    fn with_old<T>(&self, position: usize, read: impl FnOnce(&Old<'_>) -> T) -> Result<T> {
        let entry = self.entries.entry(position);
        let locator = entry.payload;
        let bytes = read_at(&self.path, &self.file, locator.offset, locator.length)?;
        let text = String::from_utf8(bytes).map_err(|_| changed(&self.path))?;
        let text = compact_lines(&text);
        let object = Object::scan(&text, 0).map_err(|_| changed(&self.path))?;
        Ok(read(&self.old(locator, object, entry.timestamp)))
    }

    /// An old entry whose JSON was read.
    pub(super) fn old<'a>(&self, locator: Locator, object: Object<'a>, time: i64) -> Old<'a> {
        let has_reference = !locator.keeps && (locator.reference as usize) < self.entries.len();
        let reference = has_reference.then(|| self.entries.entry(locator.reference as usize).id.to_string());
        Old { kind: locator.kind, object, version: self.version, time, reference }
    }

    /// The entry that the `fromId` or `targetId` of the entry at a position names.
    pub(super) fn reference(&self, position: usize) -> Option<usize> {
        let locator = self.entries.entry(position).payload;
        (!locator.keeps && locator.reference != NONE).then_some(locator.reference as usize)
    }

    /// Where the JSON of the entry at a position ends in the file.
    pub(super) fn end_of(&self, position: usize) -> u64 {
        let locator = self.entries.entry(position).payload;
        locator.offset + locator.length
    }

    /// The `firstKeptEntryId` of the compaction at a position, as JSON.
    pub(super) fn first_kept(&self, position: usize) -> Result<Option<String>> {
        self.with_old(position, |old| old.object.string("firstKeptEntryId").map(str::to_owned))
    }

    fn open(&self, ctx: &Context) -> Result<()> {
        ctx.check()?;
        if *self.closed.read().unwrap_or_else(PoisonError::into_inner) { Err(closed()) } else { Ok(()) }
    }
}

fn changed(path: &Path) -> Error {
    Error::new(ErrorKind::FileChanged, "another program changed the session file since it was opened")
        .with_path(path)
        .with_hint("open it again to read what is there now")
}

impl Reads for LegacyStorage {
    fn get_entries(&self, ids: &[&str], ctx: &Context) -> Result<Vec<Entry>> {
        self.open(ctx)?;
        self.all(ids.iter().filter_map(|id| self.entries.position(id)))
    }

    fn get_value(&self, address: &Address, ctx: &Context) -> Result<Option<StoredValue>> {
        self.open(ctx)?;
        Ok(self.tables.get_value(address))
    }

    fn scan_values(&self, namespace: &str, prefix: &str, ctx: &Context) -> Result<Vec<StoredValue>> {
        self.open(ctx)?;
        Ok(self.tables.scan_values(namespace, prefix))
    }

    fn read_list(&self, address: &Address, read: &ListRead, ctx: &Context) -> Result<Vec<ListElement>> {
        self.open(ctx)?;
        Ok(self.tables.read_list(address, read))
    }

    fn scan_branch(&self, start: &str, scan: &BranchScan, ctx: &Context) -> Result<Vec<Entry>> {
        self.open(ctx)?;
        self.all(self.entries.scan_branch(start, scan, ctx)?)
    }

    fn scan_branch_structure(
        &self,
        start: &str,
        scan: &BranchScan,
        ctx: &Context,
    ) -> Result<Vec<EntryStructure>> {
        self.open(ctx)?;
        let found = self.entries.scan_branch(start, scan, ctx)?;
        Ok(found.into_iter().map(|position| self.entries.structure(position)).collect())
    }

    fn scan_entries(&self, scan: &EntryScan, ctx: &Context) -> Result<Vec<Entry>> {
        self.open(ctx)?;
        self.all(self.entries.scan_entries(scan))
    }

    fn scan_usage(&self, scan: &UsageScan, ctx: &Context) -> Result<Vec<UsageRow>> {
        self.open(ctx)?;
        Ok(self.tables.scan_usage(scan))
    }

    fn value_addresses(&self, after: Option<&Address>, limit: usize, ctx: &Context) -> Result<Vec<Address>> {
        self.open(ctx)?;
        Ok(self.tables.value_addresses(after, limit))
    }

    fn list_addresses(&self, after: Option<&Address>, limit: usize, ctx: &Context) -> Result<Vec<Address>> {
        self.open(ctx)?;
        Ok(self.tables.list_addresses(after, limit))
    }

    fn stats(&self, ctx: &Context) -> Result<Stats> {
        self.open(ctx)?;
        Ok(self.stats)
    }

    fn next_seq(&self, ctx: &Context) -> Result<u64> {
        self.open(ctx)?;
        Ok(self.next_seq)
    }
}

impl Storage for LegacyStorage {
    fn copy(&self, plan: &mut Planner<'_>, into: &mut dyn Sink, ctx: &Context) -> Result<()> {
        self.open(ctx)?;
        let places = Indexed {
            entries: &self.entries,
            tables: &self.tables,
            next_seq: self.next_seq,
            json: &|json| Ok(json.clone()),
        };
        let mut plan = plan(&places)?;
        let items = places.select(&plan, ctx)?;
        let mut out = Ordered::start(&mut plan, into, ctx)?;
        for some in items.chunks(PAGE) {
            self.open(ctx)?;
            self.check_unchanged()?;
            for item in some {
                let record = match &item.what {
                    What::Entry(position, _) => Some(self.entry(*position as usize)?.into()),
                    What::Usage(_, json) | What::Value(_, json) | What::Element(_, json) => {
                        item.what.record(item.seq, json.clone())
                    }
                };
                if let Some(record) = record {
                    out.put(record, ctx)?;
                }
            }
        }
        // What was read is what the file held when it was opened.
        self.check_unchanged()?;
        out.finish(ctx)
    }

    fn commit(&self, _writes: &[Write], ctx: &Context) -> Result<CommitResult> {
        self.open(ctx)?;
        Err(Error::new(
            ErrorKind::LegacyReadOnly,
            format!("the session is a file of version {}, which is only read", self.version),
        )
        .with_path(&self.path)
        .with_hint(
            "open it with the legacy policy `copy` to go on in a new session, or with `upgrade` to rewrite the \
             file as format 4, or import it into a repository",
        ))
    }

    fn close(&self, _ctx: &Context) -> Result<()> {
        *self.closed.write().unwrap_or_else(PoisonError::into_inner) = true;
        Ok(())
    }
}
