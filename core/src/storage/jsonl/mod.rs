//! The JSONL backend, format 4: one file per session, one line per commit, payloads read on demand.
//!
//! Opening changes no byte. A commit is one append; one that fails is cut back. The file is never rewritten
//! but by [`compact`](JsonlStorage::compact), and never while anyone could lose what it holds.

mod check;
pub(crate) mod compact;
mod copy;
pub(crate) mod draft;
pub(crate) mod header;
pub(crate) mod line;
pub(crate) mod lines;
mod spans;
pub(crate) mod state;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::ops::Deref;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hashbrown::HashMap;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::folder::sync_name;
use crate::gate::{Gate, Inside};
use crate::model::entry::{Entry, EntryStructure};
use crate::model::id::{Clock, time_of};
use crate::model::json::Json;
use crate::model::usage::{Stats, UsageRow};
use crate::model::value::{Address, ListElement, StoredValue};
use crate::model::write::{CommitResult, Write};
use crate::repository::{Durability, OpenMode};
use crate::session::backend::SessionMetadata;
use crate::session::check::{CheckDepth, Finding};
use crate::storage::copy::{Planner, Sink};
use crate::storage::jsonl::compact::Compaction;
use crate::storage::jsonl::line::{Span, payload_of_entry, payload_of_usage, write_line};
use crate::storage::jsonl::spans::Spans;
use crate::storage::jsonl::state::{Damaged, Gap, State};
use crate::storage::query::{BranchScan, EntryScan, ListRead, UsageScan};
use crate::storage::tables::KnownIn;
use crate::storage::{Reads, Storage, closed, commit, read_only};

/// Dead bytes below this are left in the file by `close`.
const COMPACT_FROM: u64 = 16 << 20;

/// A value longer than this is read from the file each time.
const SHORT_VALUE: usize = 64;
/// What is written in a longer buffer than this does not keep it for the next commit.
const KEPT_LINE: usize = 64 << 10;

/// How a file is opened.
#[derive(Debug, Clone)]
pub(crate) struct JsonlOptions {
    pub(crate) mode: OpenMode,
    pub(crate) durability: Durability,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) max_payload: usize,
    /// Read past damage; read-only.
    pub(crate) salvage: bool,
    /// Compact in `close` when it is worth it.
    pub(crate) compact_on_close: bool,
}

/// Storage of one session in a JSONL file.
#[derive(Debug)]
pub(crate) struct JsonlStorage {
    path: PathBuf,
    options: JsonlOptions,
    current: RwLock<Current>,
    /// Held by a commit from its checks to its end: the buffer for its line, kept empty for the next one's.
    committing: Mutex<String>,
    /// Closing waits for what was admitted.
    gate: Gate,
    closed: AtomicBool,
    /// The state of the file can no longer be proven.
    faulted: AtomicBool,
    /// All of the file, and the name that leads to it, are known to be on the disk but for the commit at work.
    synced: AtomicBool,
    gaps: Vec<Gap>,
}

/// The file as it is open now, and what it holds.
#[derive(Debug)]
struct Current {
    file: Arc<File>,
    identity: Identity,
    state: State,
    /// Short values as they were last set here, with their `seq`: tips and counters are read for each commit.
    short_values: HashMap<Address, (u64, Json)>,
}

/// The file and what it holds, during one read.
struct Reading<'a> {
    current: RwLockReadGuard<'a, Current>,
    _admitted: Inside<'a>,
}

impl Deref for Reading<'_> {
    type Target = Current;

    fn deref(&self) -> &Current {
        &self.current
    }
}

/// What must not change behind us: which file it is, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    length: u64,
}

impl Identity {
    fn of(metadata: &fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino(), length: metadata.len() }
    }

    fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

impl JsonlStorage {
    /// Opens the session file at `path`. Changes no byte.
    pub(crate) fn open(path: &Path, options: JsonlOptions) -> Result<Self> {
        let writes = options.mode == OpenMode::ReadWrite && !options.salvage;
        let mut gaps = Vec::new();
        let mut damaged = if options.salvage { Damaged::Note(&mut gaps) } else { Damaged::Refuse };
        let current = Current::open(path, writes, &mut damaged)?;
        Ok(Self { gaps, ..Self::of(path, current, options) })
    }

    /// The session in a file that was made here and stands at `path` now; `file` can be appended to.
    pub(crate) fn made(path: &Path, file: File, state: State, options: JsonlOptions) -> Result<Self> {
        let metadata = file
            .metadata()
            .map_err(|error| Error::io("cannot look at the session's file", error).with_path(path))?;
        let identity = Identity::of(&metadata);
        let current = Current { file: Arc::new(file), identity, state, short_values: HashMap::new() };
        Ok(Self::of(path, current, options))
    }

    fn of(path: &Path, current: Current, options: JsonlOptions) -> Self {
        Self {
            path: path.to_owned(),
            options,
            current: RwLock::new(current),
            committing: Mutex::default(),
            gate: Gate::default(),
            closed: AtomicBool::new(false),
            faulted: AtomicBool::new(false),
            synced: AtomicBool::new(false),
            gaps: Vec::new(),
        }
    }

    /// The same storage, whose file has been renamed.
    pub(crate) fn renamed_to(self, path: &Path) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    /// What the header says of the session.
    pub(crate) fn metadata(&self) -> SessionMetadata {
        self.lock().state.header.metadata.clone()
    }

    fn writes(&self) -> bool {
        self.options.mode == OpenMode::ReadWrite && !self.options.salvage
    }

    fn lock(&self) -> RwLockReadGuard<'_, Current> {
        // Applying a commit that was written cannot panic half-way: it was checked first.
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_mut(&self) -> RwLockWriteGuard<'_, Current> {
        self.current.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state to read from.
    fn read(&self, ctx: &Context) -> Result<Reading<'_>> {
        ctx.check()?;
        let admitted = self.gate.enter().ok_or_else(closed)?;
        self.follow()?;
        Ok(Reading { current: self.lock(), _admitted: admitted })
    }

    /// Takes in what the writer did meanwhile, where this session only reads beside one.
    fn follow(&self) -> Result<()> {
        if self.options.mode != OpenMode::ReadOnly || self.options.salvage {
            return Ok(());
        }
        let now = Identity::of(&self.file_metadata()?);
        if self.lock().is_all_of(now) {
            return Ok(());
        }
        let mut current = self.lock_mut();
        // Another thread may have gone on beyond what was seen before the lock.
        let now = Identity::of(&self.file_metadata()?);
        if !now.is_same_file(&current.identity) {
            let other = Current::open(&self.path, false, &mut Damaged::Refuse)?;
            if !other.state.goes_on_from(&current.state) {
                return Err(self.changed("was replaced by one that does not go on from what was read"));
            }
            *current = other;
        } else if now.length < current.state.end {
            return Err(self.changed("is shorter than what was read of it"));
        } else if !current.is_all_of(now) {
            let file = Arc::clone(&current.file);
            current.state.read_more(&file, now.length).map_err(|error| error.with_path(&self.path))?;
            current.identity = now;
        }
        Ok(())
    }

    fn file_metadata(&self) -> Result<fs::Metadata> {
        fs::metadata(&self.path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Error::new(ErrorKind::UnknownSession, "the session's file is gone").with_path(&self.path)
            }
            _ => Error::io("cannot look at the session's file", error).with_path(&self.path),
        })
    }

    fn changed(&self, what: &str) -> Error {
        Error::new(ErrorKind::FileChanged, format!("the file {what}: another program wrote it"))
            .with_path(&self.path)
            .with_hint("open the session again to read what is there now")
    }

    /// Refuses what cannot be done once the state of the file is unknown.
    fn check_fault(&self) -> Result<()> {
        if self.faulted.load(Ordering::Acquire) {
            return Err(Error::new(
                ErrorKind::StorageFault,
                "an earlier failure left the file in a state that cannot be proven",
            )
            .with_path(&self.path)
            .with_hint("open the session again"));
        }
        Ok(())
    }

    /// Refuses to write to a file that is not as it was left.
    fn check_unchanged(&self, left: Identity) -> Result<()> {
        let now = Identity::of(&self.file_metadata()?);
        if now == left {
            return Ok(());
        }
        Err(self.changed(if now.is_same_file(&left) {
            "has another length than it was left with"
        } else {
            "was replaced"
        }))
    }

    fn is_power(&self) -> bool {
        self.options.durability == Durability::Power
    }

    /// Cuts off the torn tail that a crash left: nobody was told of it.
    fn cut_torn_tail(&self, current: &mut Current) -> Result<()> {
        let end = current.state.end;
        let failed = |error| {
            Error::io("cannot cut off the torn end of the session's file", error)
                .with_path(&self.path)
                .with_offset(end)
        };
        current.file.set_len(end).map_err(failed)?;
        current.identity.length = end;
        // What is written next must not meet remains of it after a power loss.
        let synced = if self.is_power() { current.file.sync_data() } else { Ok(()) };
        synced.map_err(|error| {
            // It may have lost what stands before the tail, and no later sync tells.
            self.fault(failed(error), "what is on the disk is not known")
        })
    }

    /// Ends writing: the error for what failed, with what it leaves unknown.
    fn fault(&self, error: Error, unknown: &str) -> Error {
        self.faulted.store(true, Ordering::Release);
        Error::new(ErrorKind::StorageFault, format!("{}, and {unknown}", error.message()))
            .with_path(&self.path)
            .with_hint("open the session again")
            .with_source(error)
    }

    /// Appends a line. What a failure leaves is cut off again; `Err` means the file is as it was, or the
    /// storage has faulted.
    fn append(&self, current: &Current, line: &str) -> Result<()> {
        let (file, end) = (&*current.file, current.state.end);
        let mut writer = file;
        let failed = |what: &str, error| Error::io(what, error).with_path(&self.path);
        let (error, is_known) = if let Err(error) = writer.write_all(line.as_bytes()) {
            (failed("cannot append to the session's file", error), true)
        } else if !self.is_power() {
            return Ok(());
        } else if let Err(error) = file.sync_data() {
            let error = failed("cannot sync the session's file", error);
            // A sync that failed may have lost whatever was not on the disk before, and no later one tells.
            let is_known = error.kind() == ErrorKind::Full && self.synced.load(Ordering::Acquire);
            (error, is_known)
        } else if self.synced.load(Ordering::Acquire) {
            return Ok(());
        } else if let Err(error) = sync_name(&self.path) {
            // The file is on the disk, and perhaps not its name: whoever made it may have died before.
            (error, true)
        } else {
            self.synced.store(true, Ordering::Release);
            return Ok(());
        };
        let cut = file.set_len(end).and_then(|()| if self.is_power() { file.sync_data() } else { Ok(()) });
        let what = match cut {
            Ok(()) if is_known => return Err(error),
            Ok(()) => "what is on the disk is not known".to_owned(),
            Err(cause) => format!("what was left of it cannot be cut off: {cause}"),
        };
        Err(self.fault(error, &what))
    }

    fn text(&self, file: &File, span: Span) -> Result<String> {
        let mut bytes = vec![0; span.length as usize];
        file.read_exact_at(&mut bytes, span.offset).map_err(|error| self.unreadable(span, error))?;
        String::from_utf8(bytes).map_err(|_| self.not_as_indexed(span))
    }

    fn json(&self, file: &File, span: Span) -> Result<Json> {
        Ok(Json::trusted(self.text(file, span)?))
    }

    fn entries(&self, current: &Current, positions: &[usize]) -> Result<Vec<Entry>> {
        let entries = &current.state.entries;
        let mut spans = Spans::of(Arc::clone(&current.file));
        let mut found = Vec::with_capacity(positions.len());
        for (number, position) in positions.iter().enumerate() {
            let place = entries.entry(*position);
            let next = positions[number + 1..].iter().map(|next| entries.entry(*next).payload);
            let bytes =
                spans.read(place.payload, next).map_err(|error| self.unreadable(place.payload, error))?;
            let payload = simdutf8::basic::from_utf8(bytes)
                .ok()
                .and_then(|record| payload_of_entry(record, place.entry_type))
                .ok_or_else(|| self.not_as_indexed(place.payload))?;
            found.push(entries.with_payload(*position, payload));
        }
        Ok(found)
    }

    fn unreadable(&self, span: Span, error: std::io::Error) -> Error {
        Error::io("cannot read a payload", error).with_path(&self.path).with_offset(span.offset)
    }

    fn not_as_indexed(&self, span: Span) -> Error {
        self.changed("holds other bytes than it did").with_offset(span.offset)
    }
}

impl Current {
    fn open(path: &Path, writes: bool, damaged: &mut Damaged<'_>) -> Result<Self> {
        let file =
            OpenOptions::new().read(true).append(writes).open(path).map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => {
                    Error::new(ErrorKind::UnknownSession, "the session's file is gone").with_path(path)
                }
                _ => Error::io("cannot open the session's file", error).with_path(path),
            })?;
        let metadata = file
            .metadata()
            .map_err(|error| Error::io("cannot look at the session's file", error).with_path(path))?;
        let state = State::read(&file, metadata.len(), damaged).map_err(|error| error.with_path(path))?;
        let identity = Identity::of(&metadata);
        Ok(Self { file: Arc::new(file), identity, state, short_values: HashMap::new() })
    }

    /// Whether everything in the file as it is now was understood. Of a torn tail no length tells whether it was
    /// cut off since, and something else written in its place.
    fn is_all_of(&self, now: Identity) -> bool {
        now.is_same_file(&self.identity) && now.length == self.state.end
    }

    /// Keeps what the writes from `first_seq` on set, if it is short; what they set otherwise or delete is kept no
    /// longer.
    fn keep_short_values(&mut self, writes: &[Write], first_seq: u64) {
        for (seq, write) in (first_seq..).zip(writes) {
            match write {
                Write::SetValue(address, value) if value.as_str().len() <= SHORT_VALUE => {
                    let kept = (seq, value.clone());
                    match self.short_values.get_mut(address) {
                        Some(before) => *before = kept,
                        None => drop(self.short_values.insert(address.clone(), kept)),
                    }
                }
                Write::SetValue(address, _) | Write::DeleteValue(address) => {
                    self.short_values.remove(address);
                }
                _ => {}
            }
        }
    }
}

impl Reads for JsonlStorage {
    fn get_entries(&self, ids: &[&str], ctx: &Context) -> Result<Vec<Entry>> {
        let current = self.read(ctx)?;
        let found: Vec<usize> = ids.iter().filter_map(|id| current.state.entries.position(id)).collect();
        self.entries(&current, &found)
    }

    fn get_value(&self, address: &Address, ctx: &Context) -> Result<Option<StoredValue>> {
        let current = self.read(ctx)?;
        let Some((span, seq)) = current.state.tables.value(address) else { return Ok(None) };
        let value = match current.short_values.get(address) {
            Some((set_at, value)) if *set_at == seq => value.clone(),
            _ => self.json(&current.file, span)?,
        };
        Ok(Some(StoredValue { address: address.clone(), value, seq }))
    }

    fn scan_values(&self, namespace: &str, prefix: &str, ctx: &Context) -> Result<Vec<StoredValue>> {
        let current = self.read(ctx)?;
        let found = current.state.tables.values_from(namespace, prefix).into_iter();
        found
            .map(|(address, span, seq)| {
                Ok(StoredValue { address, value: self.json(&current.file, span)?, seq })
            })
            .collect()
    }

    fn read_list(&self, address: &Address, read: &ListRead, ctx: &Context) -> Result<Vec<ListElement>> {
        let current = self.read(ctx)?;
        let found = current.state.tables.elements(address, read).into_iter();
        found.map(|(seq, span)| Ok(ListElement { seq, value: self.json(&current.file, span)? })).collect()
    }

    fn scan_branch(&self, start: &str, scan: &BranchScan, ctx: &Context) -> Result<Vec<Entry>> {
        let current = self.read(ctx)?;
        let found = current.state.entries.scan_branch(start, scan, ctx)?;
        self.entries(&current, &found)
    }

    fn scan_branch_structure(
        &self,
        start: &str,
        scan: &BranchScan,
        ctx: &Context,
    ) -> Result<Vec<EntryStructure>> {
        let current = self.read(ctx)?;
        let found = current.state.entries.scan_branch(start, scan, ctx)?;
        Ok(found.into_iter().map(|position| current.state.entries.structure(position)).collect())
    }

    fn scan_entries(&self, scan: &EntryScan, ctx: &Context) -> Result<Vec<Entry>> {
        let current = self.read(ctx)?;
        self.entries(&current, &current.state.entries.scan_entries(scan))
    }

    fn scan_usage(&self, scan: &UsageScan, ctx: &Context) -> Result<Vec<UsageRow>> {
        let current = self.read(ctx)?;
        let found = current.state.tables.usage_places(scan).into_iter();
        found
            .map(|row| {
                let record = self.text(&current.file, row.payload)?;
                let payload = payload_of_usage(&record).ok_or_else(|| self.not_as_indexed(row.payload))?;
                Ok(UsageRow::stored(row.id.into(), row.seq, payload))
            })
            .collect()
    }

    fn value_addresses(&self, after: Option<&Address>, limit: usize, ctx: &Context) -> Result<Vec<Address>> {
        Ok(self.read(ctx)?.state.tables.value_addresses(after, limit))
    }

    fn list_addresses(&self, after: Option<&Address>, limit: usize, ctx: &Context) -> Result<Vec<Address>> {
        Ok(self.read(ctx)?.state.tables.list_addresses(after, limit))
    }

    fn stats(&self, ctx: &Context) -> Result<Stats> {
        Ok(self.read(ctx)?.state.stats)
    }

    fn next_seq(&self, ctx: &Context) -> Result<u64> {
        Ok(self.read(ctx)?.state.next_seq)
    }
}

impl Storage for JsonlStorage {
    fn copy(&self, plan: &mut Planner<'_>, into: &mut dyn Sink, ctx: &Context) -> Result<()> {
        self.copy_into(plan, into, ctx)
    }

    fn compact(&self, ctx: &Context) -> Result<Compaction> {
        self.compact_on_request(ctx)
    }

    fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    fn check_file(&self, _depth: CheckDepth, ctx: &Context) -> Result<Vec<Finding>> {
        let current = self.read(ctx)?;
        Ok(check::file(&current.state, current.identity.length, &self.gaps))
    }

    fn check_rows(&self, depth: CheckDepth, ctx: &Context) -> Result<Vec<Finding>> {
        if depth < CheckDepth::Full {
            return Ok(Vec::new());
        }
        let current = self.read(ctx)?;
        check::lines_again(&current.file, current.identity.length, &current.state, &self.gaps)
            .map_err(|error| error.with_path(&self.path))
    }

    fn commit(&self, writes: &[Write], ctx: &Context) -> Result<CommitResult> {
        ctx.check()?;
        if !self.writes() {
            return Err(read_only());
        }
        let _admitted = self.gate.enter().ok_or_else(closed)?;
        let mut kept = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = std::mem::take(&mut *kept);
        self.check_fault()?;
        let timestamp = time_of(self.options.clock.as_ref())?;
        let (first_seq, records, has_torn_tail) = {
            let current = self.lock();
            let state = &current.state;
            let known = KnownIn { entries: &state.entries, tables: &state.tables };
            commit::check(writes, &known, state.next_seq, self.options.max_payload)?;
            if writes.is_empty() {
                return Ok(CommitResult {
                    first_seq: state.next_seq,
                    seqs: Vec::new(),
                    timestamp,
                    stats: state.stats,
                });
            }
            if state.unterminated {
                line.push('\n');
            }
            let records = write_line(&mut line, writes, state.next_seq, timestamp, state.end)?;
            self.check_unchanged(current.identity)?;
            (state.next_seq, records, current.identity.length > state.end)
        };
        if has_torn_tail {
            self.cut_torn_tail(&mut self.lock_mut())?;
        }
        self.append(&self.lock(), &line)?;
        let mut current = self.lock_mut();
        let state = &mut current.state;
        for (record, span) in records {
            state.apply(record, span)?;
        }
        state.end += line.len() as u64;
        state.unterminated = false;
        state.lines += 1;
        let result = CommitResult {
            first_seq,
            seqs: (first_seq..state.next_seq).collect(),
            timestamp,
            stats: state.stats,
        };
        current.identity.length = current.state.end;
        current.keep_short_values(writes, first_seq);
        if line.capacity() <= KEPT_LINE {
            line.clear();
            *kept = line;
        }
        Ok(result)
    }

    fn close(&self, ctx: &Context) -> Result<()> {
        self.gate.shut();
        self.gate.drain(ctx)?;
        let _committing = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.closed.swap(true, Ordering::AcqRel) || !self.writes() || self.faulted.load(Ordering::Acquire)
        {
            return Ok(());
        }
        let mut current = self.lock_mut();
        if self.options.compact_on_close && current.state.end > COMPACT_FROM {
            let live = current.state.live_bytes();
            let dead = current.state.end.saturating_sub(live);
            if dead > live && dead > COMPACT_FROM {
                // The old file is whole: a session that cannot be compacted now is closed all the same.
                if let Err(error) = self.compact_now(&mut current, ctx) {
                    tracing::warn!(path = %self.path.display(), %error, "the session's file was not compacted");
                }
            }
        }
        Ok(())
    }
}
