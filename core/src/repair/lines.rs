//! Reads past every damage of a file of JSON lines of format 4: lines that broke, lines that ran together,
//! records between damaged ones, a header that is lost.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::NewEntry;
use crate::model::id::check_id;
use crate::model::json::{Json, MAX_DEPTH, count_of, text_of};
use crate::model::scan::{end_of_text, scan_value};
use crate::repair::found::{Found, Payloads, Piece, What};
use crate::repository::jsonl::name;
use crate::session::backend::SessionMetadata;
use crate::session::check::{Finding, FindingKind};
use crate::storage::commit::MAX_SEQ;
use crate::storage::jsonl::header::Header;
use crate::storage::jsonl::line::{Record, Span, payload_of_entry, payload_of_usage, read_line};

/// How every record of a line begins.
const RECORD: &[u8] = b"{\"kind\":";
/// How much of the file is read in one step.
const CHUNK: usize = 1 << 20;

/// The file, whose payloads are read when they are needed.
pub(super) struct Lines {
    file: File,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)
            .map_err(|error| Error::io("cannot open the session's file", error).with_path(path))?;
        Ok(Self { file })
    }

    fn text(&self, span: Span) -> Result<String> {
        let mut bytes = vec![0; span.length as usize];
        self.file
            .read_exact_at(&mut bytes, span.offset)
            .map_err(|error| Error::io("cannot read a payload", error).with_offset(span.offset))?;
        String::from_utf8(bytes).map_err(|_| changed().with_offset(span.offset))
    }

    /// Everything that can be read of it.
    ///
    /// # Errors
    /// `UnsupportedVersion`; `NotASession` if there is neither a header nor a record.
    pub(super) fn read(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(u64),
        ctx: &Context,
    ) -> Result<Found<Span>> {
        // As it is now: another program may go on writing it.
        let length = self
            .file
            .metadata()
            .map_err(|error| Error::io("cannot look at the session's file", error))?
            .len();
        let mut reader = BufReader::with_capacity(CHUNK, (&self.file).take(length));
        let mut bytes = Vec::new();
        let mut read = Reading::default();
        let mut header = None;
        for line in 1.. {
            bytes.clear();
            let length = reader
                .read_until(b'\n', &mut bytes)
                .map_err(|error| Error::io("cannot read the file", error))?;
            if line % 256 == 1 {
                ctx.check()?;
                progress(read.end);
            }
            if length == 0 {
                break;
            }
            let is_terminated = bytes.pop_if(|last| *last == b'\n').is_some();
            let at = Line { number: line, offset: read.end, is_terminated };
            if line == 1 {
                header = Some(read.header(&bytes, &at, path)?);
            } else {
                read.line(&bytes, &at);
            }
            read.end += length as u64;
        }
        let Some((metadata, next_seq, lost)) = header else {
            return Err(crate::storage::jsonl::header::not_a_session("it is empty"));
        };
        let (metadata, next_seq) = match (lost, read.moved_header) {
            (None, _) => (metadata, next_seq),
            // A header that lacks a part is one all the same.
            (Some(error), None) if read.pieces.is_empty() && error.kind() != ErrorKind::Corrupt => {
                return Err(error);
            }
            (Some(_), Some(header)) => (header.metadata, header.next_seq),
            (Some(_), None) => (metadata, next_seq),
        };
        Ok(Found { metadata, next_seq, pieces: read.pieces, findings: read.findings })
    }
}

impl Payloads<Span> for Lines {
    fn read(&self, what: &What, payload: &Span) -> Result<Json> {
        let text = self.text(*payload)?;
        match what {
            What::Entry(entry) => payload_of_entry(&text, entry.entry_type).ok_or_else(changed),
            What::Usage(_) => payload_of_usage(&text).ok_or_else(changed),
            _ => Json::parse(text),
        }
    }
}

fn changed() -> Error {
    Error::new(ErrorKind::FileChanged, "the file was changed while it was read").with_hint("repair it again")
}

/// A line of the file.
struct Line {
    number: u64,
    offset: u64,
    is_terminated: bool,
}

#[derive(Default)]
struct Reading {
    pieces: Vec<Piece<Span>>,
    findings: Vec<Finding>,
    end: u64,
    /// A header that does not stand in the first line.
    moved_header: Option<Header>,
}

/// What the header says, and the error if it is none.
type HeaderFound = (SessionMetadata, Option<u64>, Option<Error>);

impl Reading {
    fn header(&mut self, bytes: &[u8], at: &Line, path: &Path) -> Result<HeaderFound> {
        let text = String::from_utf8_lossy(bytes);
        let error = match Header::parse(&text) {
            Ok(header) => return Ok((header.metadata, header.next_seq, None)),
            Err(error) if error.kind() == ErrorKind::UnsupportedVersion => return Err(error.with_path(path)),
            Err(error) => error.with_path(path),
        };
        // What stands before the first record: fields of a record are not the header's.
        let head = &text[..memchr::memmem::find(text.as_bytes(), RECORD).unwrap_or(text.len())];
        let field = |name: &str| value_after(head, name);
        let words = |name: &str| field(name).and_then(text_of).map(|text| text.into_owned());
        let named = path.file_name().and_then(|name| name.to_str()).and_then(name::read);
        let id = words("id")
            .filter(|id| check_id(id).is_ok())
            .or_else(|| named.as_ref().map(|(_, id)| id.clone()));
        let created_at = field("createdAt").and_then(count_of);
        let created_at = created_at.and_then(|time| i64::try_from(time).ok());
        let metadata = SessionMetadata {
            id: id.unwrap_or_default(),
            created_at: created_at.or(named.map(|(time, _)| time)).unwrap_or(0),
            storage_version: 1,
            cwd: words("cwd"),
            parent_session_id: words("parentSessionId"),
            legacy_parent_session_path: words("legacyParentSessionPath"),
            path: None,
        };
        let next_seq = field("nextSeq").and_then(count_of);
        let message = format!(
            "the header is damaged ({}): the id is '{}', the cwd {}",
            error.message(),
            metadata.id,
            metadata.cwd.as_deref().unwrap_or("is lost")
        );
        let finding = Finding::of_file(FindingKind::DamagedHeader, message).at_line(at.number, at.offset);
        self.findings.push(Finding { length: Some(bytes.len() as u64), ..finding });
        self.between(bytes, at);
        Ok((metadata, next_seq.filter(|seq| (1..=MAX_SEQ).contains(seq)), Some(error)))
    }

    /// Takes what a line holds.
    fn line(&mut self, bytes: &[u8], at: &Line) {
        let whole = std::str::from_utf8(bytes)
            .map_err(|error| format!("it is not UTF-8 (byte {} of the line)", error.valid_up_to()))
            .and_then(|text| self.take(text, at.offset, at));
        let Err(reason) = whole else { return };
        if let Some(header) = std::str::from_utf8(bytes).ok().and_then(|text| Header::parse(text).ok()) {
            self.moved_header.get_or_insert(header);
        }
        let count = self.between(bytes, at);
        let kept = match count {
            0 => "nothing of it is kept".to_owned(),
            count => format!("{count} of what it holds are kept"),
        };
        let (kind, what) = match at.is_terminated {
            true => (FindingKind::DamagedLine, "the line is damaged"),
            false => (FindingKind::TornTail, "the last line of the file breaks off"),
        };
        let message = format!("{what} ({} bytes): {reason}; {kept}", bytes.len());
        let finding = Finding::of_file(kind, message).at_line(at.number, at.offset);
        self.findings.push(Finding { length: Some(bytes.len() as u64), ..finding });
    }

    /// Takes the whole commits that stand in a damaged line, and where it has an end also the whole writes of
    /// broken ones; how many writes. A commit that breaks off at the end of the file was never acknowledged.
    fn between(&mut self, bytes: &[u8], at: &Line) -> usize {
        let before = self.pieces.len();
        let mut start = 0;
        for chunk in bytes.utf8_chunks() {
            self.chunk(chunk.valid(), at.offset + start as u64, at);
            start += chunk.valid().len() + chunk.invalid().len();
        }
        self.pieces.len() - before
    }

    fn chunk(&mut self, text: &str, offset: u64, at: &Line) {
        let bytes = text.as_bytes();
        let mut from = 0;
        while let Some(hit) = memchr::memmem::find(&bytes[from..], RECORD).map(|hit| from + hit) {
            from = hit + 1;
            let in_front = bytes[..hit].iter().rposition(|byte| !byte.is_ascii_whitespace());
            let taken = match in_front.map(|place| (place, bytes[place])) {
                // The value of a field, and no record, unless nothing comes behind it.
                Some((_, b':')) if !ends_text(text, hit) => None,
                Some((place, b'[')) if let Some(end) = self.piece_at(text, place, offset, at) => Some(end),
                Some((_, b'[' | b',')) if !at.is_terminated => None,
                _ => self.piece_at(text, hit, offset, at),
            };
            from = taken.unwrap_or(from);
        }
    }

    /// Takes the commit or write that stands at `start` of the text; where it ends.
    fn piece_at(&mut self, text: &str, start: usize, offset: u64, at: &Line) -> Option<usize> {
        let end = scan_value(text, start, MAX_DEPTH).ok()?;
        self.take(&text[start..end], offset + start as u64, at).ok()?;
        Some(end)
    }

    /// Takes a commit whole, or says what is wrong with it.
    fn take(&mut self, text: &str, offset: u64, at: &Line) -> Result<(), String> {
        let records = read_line(text, offset).map_err(|damage| damage.reason)?;
        let mut pieces = Vec::with_capacity(records.len());
        for (record, span) in records {
            let from = (span.offset - offset) as usize;
            let payload = &text[from..from + span.length as usize];
            let seq = record.seq();
            let (what, payload_at) = match record {
                Record::Entry(row) => {
                    let entry = row.into_structure();
                    let read =
                        payload_of_entry(payload, entry.entry_type).ok_or("an entry has no payload")?;
                    NewEntry {
                        id: entry.id.clone(),
                        parent_id: entry.parent_id.clone(),
                        entry_type: entry.entry_type,
                        custom_type: entry.custom_type.clone(),
                        payload: read,
                        made_at: Some(entry.timestamp),
                    }
                    .check()
                    .map_err(|error| error.message().to_owned())?;
                    (What::Entry(entry), Some(span))
                }
                Record::Usage { id, .. } => {
                    check_id(&id).map_err(|error| error.message().to_owned())?;
                    (What::Usage(id), Some(span))
                }
                Record::SetValue { address, .. } => (What::SetValue(address), Some(span)),
                Record::DeleteValue { address, .. } => (What::DeleteValue(address), None),
                Record::AppendList { address, .. } => (What::AppendList(address), Some(span)),
                Record::DeleteList { address, .. } => (What::DeleteList(address), None),
            };
            let mut hasher = DefaultHasher::new();
            (what.name(), payload).hash(&mut hasher);
            let place = Some((at.number, at.offset));
            pieces.push(Piece { seq, what, payload: payload_at, place, hash: hasher.finish() });
        }
        self.pieces.append(&mut pieces);
        Ok(())
    }
}

/// Whether the value at `start` is the last of the text.
fn ends_text(text: &str, start: usize) -> bool {
    scan_value(text, start, MAX_DEPTH).is_ok_and(|end| end_of_text(text, end).is_ok())
}

/// The JSON of the field `name` in a text that need not be JSON.
fn value_after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let key = format!("\"{name}\":");
    let start = text.find(&key)? + key.len();
    let end = scan_value(text, start, MAX_DEPTH).ok()?;
    Some(&text[start..end])
}
