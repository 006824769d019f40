//! The file that a session was imported from, put together again: lines that the list `pisession.legacy`
//! keeps, and between them those that its entries print.
//!
//! It is read while it is written, by the reader of old files: that tells which entries a kept line gives.
//! Payloads go through; what stays in memory follows the number of entries.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::file_lines::FileLines;
use crate::legacy::lines::{Line, Lines};
use crate::legacy::print::{Stored, reference_of};
use crate::legacy::same::SourceRecord;
use crate::legacy::scan::{Reading, Scanned};
use crate::legacy::times::NewIds;
use crate::legacy::tree::{self, Tree};
use crate::legacy::writes::{LIST, hex};
use crate::model::entry::Entry;
use crate::model::value::{Address, ListElement};
use crate::session::reader::SessionReader;
use crate::session::{EntryQuery, Session};
use crate::storage::indexed_id::IndexedId;
use crate::storage::query::{ListRead, Order};

/// How many entries or elements are read at a time.
const PAGE: u64 = 32;
/// How many lines are written between two looks at the context.
const LOOK: u64 = 256;

/// The ids that entries had in the file they came from.
#[derive(Debug, Default)]
pub(super) struct OldIds {
    /// Ids here and there, in stored order.
    pub(super) pairs: Vec<(Box<str>, Box<str>)>,
    /// Position in the pairs by the id here.
    by_id: HashMap<IndexedId, u32>,
    /// The `firstKeptEntryId` of compactions, as JSON.
    kept: HashMap<Box<str>, Box<str>>,
    /// How many lines are kept whole.
    pub(super) lines: u64,
    /// The file that the session was written from; none if it was just opened from one, or from none.
    source: Option<SourceRecord>,
}

#[derive(Deserialize)]
struct IdsElement {
    ids: Vec<(Box<str>, Box<str>)>,
    kept: HashMap<Box<str>, Box<RawValue>>,
}

#[derive(Deserialize)]
struct LineElement {
    line: u64,
    text: Option<String>,
    bytes: Option<String>,
}

impl OldIds {
    pub(super) fn of(session: &Session, ctx: &Context) -> Result<Self> {
        let mut found = Self::default();
        let mut elements = Elements::of(session, ctx);
        let mut is_list = false;
        while let Some(element) = elements.next()? {
            is_list = true;
            if element.value.get("line").is_some() {
                found.lines += 1;
            } else if element.value.get("ids").is_some() {
                let element: IdsElement = element.value.read().map_err(|_| unfitting(session))?;
                for (old, new) in element.ids {
                    found.push(&new, &old);
                }
                let kept = element.kept.into_iter().map(|(id, first)| (id, first.get().into()));
                found.kept.extend(kept);
            }
        }
        if is_list {
            found.source = SourceRecord::of(session, ctx)?;
        }
        if is_list && found.source.is_none() {
            return Err(Error::new(ErrorKind::Corrupt, "the import that made the session was cut off")
                .with_id(session.id())
                .with_hint("import the same file again, which completes it"));
        }
        if let Some(legacy) = session.legacy().filter(|_| !is_list) {
            for (old, new) in legacy.ids() {
                found.push(&new, old);
            }
        }
        Ok(found)
    }

    fn push(&mut self, new: &str, old: &str) {
        self.by_id.insert(IndexedId::of(new).into_owned(), self.pairs.len() as u32);
        self.pairs.push((new.into(), old.into()));
    }

    fn get(&self, id: &str) -> Option<&str> {
        let position = self.by_id.get(&IndexedId::of(id).into_owned())?;
        self.pairs.get(*position as usize).map(|(_, old)| &**old)
    }
}

/// The elements of the list one by one.
pub(super) struct Elements<'a> {
    session: &'a Session,
    ctx: &'a Context,
    page: VecDeque<ListElement>,
    cursor: u64,
}

impl<'a> Elements<'a> {
    pub(super) fn of(session: &'a Session, ctx: &'a Context) -> Self {
        Self { session, ctx, page: VecDeque::new(), cursor: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Option<ListElement>> {
        if self.page.is_empty() {
            let read = ListRead { cursor: Some(self.cursor), limit: PAGE, ..ListRead::default() };
            self.page = self.session.read_list(&Address::known(LIST, ""), &read, self.ctx)?.into();
        }
        let element = self.page.pop_front();
        self.cursor = element.as_ref().map_or(self.cursor, |element| element.seq);
        Ok(element)
    }
}

/// Entries by `seq`, one by one.
pub(super) struct EntryStream<'a> {
    session: &'a Session,
    ctx: &'a Context,
    from: u64,
    to: u64,
    page: VecDeque<Entry>,
}

impl<'a> EntryStream<'a> {
    pub(super) fn of(session: &'a Session, from: u64, to: u64, ctx: &'a Context) -> Self {
        Self { session, ctx, from, to, page: VecDeque::new() }
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        if self.page.is_empty() && self.from <= self.to {
            let query = EntryQuery {
                from_seq: Some(self.from),
                to_seq: Some(self.to),
                order: Order::Ascending,
                limit: Some(PAGE),
                ..EntryQuery::default()
            };
            self.page = self.session.find_entries(&query, self.ctx)?.into();
            self.from = self.page.back().map_or(u64::MAX, |last| last.seq + 1);
        }
        Ok(self.page.pop_front())
    }
}

/// The old file.
pub(super) struct Restored {
    /// Its lines, each with a line feed; it has no name and goes with this.
    pub(super) file: File,
    /// Where that is kept, for errors.
    folder: PathBuf,
    pub(super) size: u64,
    pub(super) lines: u64,
    pub(super) scanned: Scanned,
    pub(super) tree: Tree,
    new_ids: NewIds,
}

impl Restored {
    /// The file that the session came from. None if it came from none, or if the session no longer gives that
    /// file's lines: another program changed what only an import writes.
    pub(super) fn of(session: &Session, old: &OldIds, folder: &Path, ctx: &Context) -> Result<Option<Self>> {
        if old.source.is_none() && session.legacy().is_none() {
            return Ok(None);
        }
        let file = tempfile::tempfile_in(folder).map_err(|error| failed(error, folder))?;
        let path = session.metadata().path.clone().unwrap_or_default();
        let mut writing = Writing {
            file: &file,
            folder,
            reading: Reading::new(&path, &file),
            lines: 0,
            size: 0,
            hash: Sha256::new(),
            bytes: Vec::new(),
        };
        if let Some(source) = &old.source {
            match writing.take_list(session, old, ctx) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(None),
                // Lines that the reader of old files refuses are not those of the file.
                Err(error) if error.kind() == ErrorKind::NotASession => return Ok(None),
                Err(error) => return Err(error),
            }
            if hex(&writing.hash.clone().finalize()) != source.lines_sha256 {
                return Ok(None);
            }
        } else {
            writing.take_file(session, &path, ctx)?;
        }
        let (lines, size) = (writing.lines, writing.size);
        let mut scanned = writing.reading.finish()?;
        let tree = tree::resolve(&mut scanned);
        let new_ids = NewIds::of(&scanned.header.id);
        Ok(Some(Self { file, folder: folder.to_owned(), size, lines, scanned, tree, new_ids }))
    }

    /// Whether the lines of the first `size` bytes of `file` are the first of these. The last one may break off.
    pub(super) fn begins_with(&self, path: &Path, file: &File, size: u64, ctx: &Context) -> Result<bool> {
        let mut own = FileLines::of(self.read()?, self.size);
        let unread = |error| Error::io("cannot read the session file", error).with_path(path);
        let mut lines = Lines::of(file, size, false).map_err(unread)?;
        while let Some(line) = lines.next().map_err(unread)? {
            if line.number % LOOK == 0 {
                ctx.check()?;
            }
            let there = own.next().map_err(|error| self.unread(error))?;
            let there = there.strip_suffix(b"\n").unwrap_or(there);
            let is_same = if line.terminated {
                there == line.bytes
            } else {
                // It may break off within the line end.
                there.starts_with(line.bytes.strip_suffix(b"\r").unwrap_or(line.bytes))
            };
            if !is_same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Its bytes, from the start.
    pub(super) fn read(&self) -> Result<io::Take<&File>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0)).map_err(|error| self.unread(error))?;
        Ok(file.take(self.size))
    }

    pub(super) fn unread(&self, error: io::Error) -> Error {
        Error::io("cannot read a temporary file in", error).with_path(&self.folder)
    }

    /// The entries that the file gives, in stored order: their ids here and their nodes.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Uuid, u32)> {
        self.tree.order.iter().map(|node| (self.id(*node), *node))
    }

    /// The id here of the entry that a node gives.
    fn id(&self, node: u32) -> Uuid {
        let node = &self.scanned.nodes[node as usize];
        self.new_ids.id(self.scanned.keys.text(node.key), node.occurrence, node.time)
    }

    /// The id here of the entry that a node gives, or the nearest above it.
    pub(super) fn entry_at(&self, node: u32) -> Option<String> {
        self.entry_id(*self.tree.kept.get(node as usize)?)
    }

    /// The id here of the entry at a position in stored order.
    pub(super) fn entry_id(&self, position: u32) -> Option<String> {
        Some(self.id(*self.tree.order.get(position as usize)?).to_string())
    }

    /// The name by which lines behind the file refer to a node; none if there is no such name.
    pub(super) fn name(&self, node: u32) -> Option<&str> {
        let found = self.scanned.nodes.get(node as usize)?;
        let name = self.scanned.keys.text(found.key);
        // One that holds a lone surrogate is named here by its spelling.
        let is_name = found.has_id && !name.contains('\\');
        (is_name && self.scanned.keys.last(found.key) == Some(node)).then_some(name)
    }
}

struct Writing<'a> {
    file: &'a File,
    folder: &'a Path,
    reading: Reading<'a>,
    lines: u64,
    size: u64,
    hash: Sha256,
    bytes: Vec<u8>,
}

impl Writing<'_> {
    fn line(&mut self, bytes: &[u8], ctx: &Context) -> Result<()> {
        if self.lines.is_multiple_of(LOOK) {
            ctx.check()?;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.bytes.push(b'\n');
        // At once: the reader looks into the file when an id comes again.
        self.file.write_all(&self.bytes).map_err(|error| failed(error, self.folder))?;
        self.hash.update(&self.bytes);
        self.lines += 1;
        let line =
            Line { number: self.lines, offset: self.size, text_offset: self.size, bytes, terminated: true };
        self.size += self.bytes.len() as u64;
        let _ = self.reading.line(&line)?;
        Ok(())
    }

    /// Breaks where the list does not fit the entries.
    fn take_list(&mut self, session: &Session, old: &OldIds, ctx: &Context) -> Result<ControlFlow<()>> {
        let mut elements = Elements::of(session, ctx);
        let mut entries = EntryStream::of(session, 1, u64::MAX, ctx);
        let mut position = 0;
        let mut printed = |count: usize| -> Result<Option<String>> {
            // Entries that lines of the list gave are passed by.
            while position < count && entries.next()?.is_some() {
                position += 1;
            }
            position += 1;
            Ok(entries.next()?.and_then(|entry| printed_by(&entry, old)))
        };
        while let Some(element) = elements.next()? {
            if element.value.get("line").is_none() {
                break;
            }
            let Ok(kept) = element.value.read::<LineElement>() else { return Ok(ControlFlow::Break(())) };
            while self.lines + 1 < kept.line {
                let Some(line) = printed(self.reading.entry_count())? else {
                    return Ok(ControlFlow::Break(()));
                };
                self.line(line.as_bytes(), ctx)?;
            }
            match (kept.text, kept.bytes.map(|bytes| STANDARD.decode(bytes))) {
                (Some(text), _) => self.line(text.as_bytes(), ctx)?,
                (None, Some(Ok(bytes))) => self.line(&bytes, ctx)?,
                _ => return Ok(ControlFlow::Break(())),
            }
        }
        while let Some(line) = printed(self.reading.entry_count())? {
            self.line(line.as_bytes(), ctx)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn take_file(&mut self, session: &Session, path: &Path, ctx: &Context) -> Result<()> {
        let io = |error| Error::io("cannot read the session file", error).with_path(path);
        let file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        let mut lines = Lines::of(&file, size, false).map_err(io)?;
        while let Some(line) = lines.next().map_err(io)? {
            self.line(line.bytes, ctx)?;
        }
        // A read notices that the file is no longer what was opened.
        session.find_entries(&EntryQuery { limit: Some(1), ..EntryQuery::default() }, ctx).map(drop)
    }
}

/// The line that the entry printed in the file; none for an entry that came from no file.
fn printed_by(entry: &Entry, old: &OldIds) -> Option<String> {
    let reference = reference_of(entry).and_then(|id| old.get(&id).map(str::to_owned));
    let parent_id = match &entry.parent_id {
        Some(parent) => Some(old.get(parent)?),
        None => None,
    };
    Stored {
        entry_type: entry.entry_type,
        custom_type: entry.custom_type.as_deref(),
        payload: entry.payload.as_str(),
        timestamp: entry.timestamp,
        id: old.get(&entry.id)?,
        parent_id,
        reference: reference.as_deref(),
        first_kept: old.kept.get(entry.id.as_str()).map(|first| &**first),
    }
    .line()
}

fn unfitting(session: &Session) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the list '{LIST}' does not fit the session's entries: it says where lines of the old file were"),
    )
    .with_id(session.id())
    .with_hint("another program changed that list, which only importing writes; import the file again under another id")
}

fn failed(error: io::Error, folder: &Path) -> Error {
    Error::io("cannot write a temporary file in", error).with_path(folder)
}
