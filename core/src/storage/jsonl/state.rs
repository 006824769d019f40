//! What a format-4 file holds, as an index of places: replayed line by line, payloads left in the file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Take};

use hashbrown::HashSet;

use crate::error::{Error, ErrorKind, Result};
use crate::file_lines::FileLines;
use crate::model::entry::EntryType;
use crate::model::id::check_id;
use crate::model::usage::Stats;
use crate::storage::index::{EntryIndex, Placement};
use crate::storage::indexed_id::IndexedId;
use crate::storage::jsonl::header::{Header, not_a_session};
use crate::storage::jsonl::line::{Record, Span, read_line};
use crate::storage::tables::{Tables, UsagePlace};

/// The session as its file says.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) header: Header,
    pub(crate) entries: EntryIndex<Span>,
    pub(crate) tables: Tables<Span>,
    pub(crate) stats: Stats,
    pub(crate) next_seq: u64,
    /// The highest `seq` of a line; the header's `nextSeq` may be beyond it, and lines may stand below that.
    highest: u64,
    /// The end of what was understood: where the next line begins.
    pub(crate) end: u64,
    /// Whether the last line that counts lacks its line end.
    pub(crate) unterminated: bool,
    /// How many lines were read.
    pub(crate) lines: u64,
    /// By `seq`, records of values and elements with fields that are not known here: rewritten as they stand.
    pub(crate) odd: HashMap<u64, Span>,
}

/// Damage that reading went past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The line, from 1.
    pub line: u64,
    /// The offset of its first byte in the file.
    pub offset: u64,
    /// Its length without the line end.
    pub length: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// How damage inside the file is taken.
#[derive(Debug)]
pub(crate) enum Damaged<'a> {
    /// It is an error.
    Refuse,
    /// It is noted and passed over.
    Note(&'a mut Vec<Gap>),
}

impl State {
    /// A session of which the file holds the header, which ends at `end`.
    pub(crate) fn new(header: Header, end: u64) -> Self {
        Self {
            next_seq: header.next_seq.unwrap_or(1),
            header,
            entries: EntryIndex::default(),
            tables: Tables::default(),
            stats: Stats::default(),
            highest: 0,
            end,
            unterminated: false,
            lines: 1,
            odd: HashMap::new(),
        }
    }

    /// Reads a file of `size` bytes from its start.
    pub(crate) fn read(file: &File, size: u64, damaged: &mut Damaged<'_>) -> Result<Self> {
        let mut lines = lines_from(file, 0, size)?;
        let line = lines.next().map_err(unreadable)?;
        let length = line.len() as u64;
        let (bytes, terminated) = without_line_end(line);
        if bytes.is_empty() {
            return Err(not_a_session("it is empty or begins with an empty line"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| not_a_session("its first line is not UTF-8"))?;
        let header = Header::parse(text)?;
        let mut state = Self::new(header, length);
        state.unterminated = !terminated;
        state.read_lines(&mut lines, damaged)?;
        Ok(state)
    }

    /// Whether this is a later state of the session that `before` is of: entries are written once and stay.
    pub(crate) fn goes_on_from(&self, before: &Self) -> bool {
        self.header.metadata.id == before.header.metadata.id
            && self.next_seq >= before.next_seq
            && self.entries.begins_with(&before.entries)
    }

    /// Reads what was added behind what was understood, up to `size`: a file that grows is read to an end.
    pub(crate) fn read_more(&mut self, file: &File, size: u64) -> Result<()> {
        let mut lines = lines_from(file, self.end, size)?;
        if self.unterminated {
            let line_end = lines.next().map_err(unreadable)?;
            if line_end.is_empty() {
                return Ok(());
            }
            if line_end != b"\n" {
                return Err(Error::new(
                    ErrorKind::FileChanged,
                    "the last line of the file was changed behind this session",
                )
                .with_hint("open the session again"));
            }
            self.end += 1;
            self.unterminated = false;
        }
        self.read_lines(&mut lines, &mut Damaged::Refuse)
    }

    fn read_lines(&mut self, lines: &mut FileLines<Take<&File>>, damaged: &mut Damaged<'_>) -> Result<()> {
        loop {
            let line = lines.next().map_err(unreadable)?;
            if line.is_empty() {
                return Ok(());
            }
            let offset = self.end;
            let length = line.len() as u64;
            let (bytes, terminated) = without_line_end(line);
            if let Err(reason) = self.take_line(bytes, offset) {
                let damaged_length = bytes.len() as u64;
                // A torn tail: what a crash left of a commit that nobody was told of. After a power loss its end
                // may have reached the disk, and a part before it not.
                if !terminated || has_a_hole(bytes) {
                    let bytes = bytes.to_vec();
                    if !terminated || lines.peek().map_err(unreadable)?.is_empty() {
                        self.take_before_hole(&bytes, offset);
                        return Ok(());
                    }
                }
                match damaged {
                    Damaged::Refuse => {
                        return Err(Error::new(ErrorKind::Corrupt, format!("a line is damaged: {reason}"))
                            .with_line(self.lines + 1, offset)
                            .with_hint("open it with `salvage` to read past the damage, or repair it into a new session"));
                    }
                    Damaged::Note(gaps) => {
                        gaps.push(Gap { line: self.lines + 1, offset, length: damaged_length, reason })
                    }
                }
            }
            self.lines += 1;
            self.end = offset + length;
            self.unterminated = !terminated;
        }
    }

    /// Takes one line whole, or says what is wrong with it and changes nothing.
    fn take_line(&mut self, bytes: &[u8], offset: u64) -> Result<(), String> {
        let line = simdutf8::compat::from_utf8(bytes)
            .map_err(|error| format!("it is not UTF-8 (byte {} of the line)", error.valid_up_to()))?;
        let records = read_line(line, offset).map_err(|damage| damage.reason)?;
        let before = self.entries.len();
        if let Err(reason) = self.add_entries(&records) {
            self.entries.truncate(before);
            return Err(reason);
        }
        for (record, span) in records {
            self.note(record, span);
        }
        Ok(())
    }

    /// Takes what stands before a hole, if that is a whole commit: it lacked its line end when the commit that
    /// was torn was appended to it.
    fn take_before_hole(&mut self, bytes: &[u8], offset: u64) {
        let Some(hole) = bytes.iter().position(|byte| *byte == 0) else { return };
        if self.take_line(&bytes[..hole], offset).is_ok() {
            self.lines += 1;
            self.end = offset + hole as u64;
            self.unterminated = true;
        }
    }

    /// Checks the records of a line and adds its entries to the index.
    fn add_entries(&mut self, records: &[(Record, Span)]) -> Result<(), String> {
        let mut last = self.highest;
        // The ids of the line's usage rows.
        let mut usage_ids: HashSet<IndexedId<&str>> = HashSet::new();
        for (record, span) in records {
            let seq = record.seq();
            if seq <= last {
                return Err(format!("the seq {seq} does not come after {last}"));
            }
            last = seq;
            let id = match record {
                Record::Entry(entry) => entry.id.borrowed(),
                Record::Usage { id, .. } => IndexedId::of(id),
                _ => continue,
            };
            if let IndexedId::Text(id) = id {
                check_id(id).map_err(|error| error.message().to_owned())?;
            }
            if self.entries.place_of(id).is_some() || self.tables.has_usage(id) || usage_ids.contains(&id) {
                return Err(format!("the id '{id}' was used before"));
            }
            match record {
                Record::Entry(entry) => {
                    self.entries.push(entry, *span).map_err(|error| error.message().to_owned())?;
                }
                _ => drop(usage_ids.insert(id)),
            }
        }
        Ok(())
    }

    /// Adds an entry that was checked, whose parent's place is known.
    pub(crate) fn push_entry(&mut self, id: IndexedId, place: Placement<'_>, span: Span) -> Result<()> {
        self.highest = place.seq;
        self.next_seq = self.next_seq.max(self.highest + 1);
        self.stats.message_count += u64::from(place.entry_type == EntryType::Message);
        self.entries.push_at(id, place, span)
    }

    /// Applies a record that was checked.
    pub(crate) fn apply(&mut self, record: Record, span: Span) -> Result<()> {
        if let Record::Entry(entry) = &record {
            self.entries.push(entry, span)?;
        }
        self.note(record, span);
        Ok(())
    }

    /// The same for a record whose entry is in the index.
    fn note(&mut self, record: Record, span: Span) {
        self.highest = record.seq();
        self.next_seq = self.next_seq.max(self.highest + 1);
        match record {
            Record::Entry(entry) => {
                self.stats.message_count += u64::from(entry.entry_type == EntryType::Message);
            }
            Record::Usage { id, seq, usage } => {
                self.stats.usage.add(&usage);
                self.tables.add_usage(UsagePlace { id: id.into(), seq, payload: span });
            }
            Record::SetValue { address, seq, odd } => {
                self.odd.extend(odd.map(|odd| (seq, odd)));
                self.tables.set_value(&address, span, seq);
            }
            Record::DeleteValue { address, .. } => self.tables.delete_value(&address),
            Record::AppendList { address, seq, odd } => {
                self.odd.extend(odd.map(|odd| (seq, odd)));
                self.tables.append_list(&address, span, seq);
            }
            Record::DeleteList { address, .. } => self.tables.delete_list(&address),
        }
    }
}

/// The lines from `offset` on of the first `size` bytes of a file.
fn lines_from(mut file: &File, offset: u64, size: u64) -> Result<FileLines<Take<&File>>> {
    file.seek(SeekFrom::Start(offset)).map_err(unreadable)?;
    let length = size.saturating_sub(offset);
    Ok(FileLines::of(file.take(length), length))
}

fn unreadable(error: std::io::Error) -> Error {
    Error::io("cannot read the file", error)
}

/// A line without its line end, and whether it had one.
fn without_line_end(line: &[u8]) -> (&[u8], bool) {
    line.strip_suffix(b"\n").map_or((line, false), |line| (line, true))
}

/// Whether bytes that never reached the disk read as zeros between others.
fn has_a_hole(line: &[u8]) -> bool {
    line.contains(&0) && line.iter().any(|byte| *byte != 0)
}
