//! An old file line by line, and the JSON objects of a line: each byte is looked at once, and nothing of a
//! payload is decoded.
//!
//! Lines end at `\n` only: other separators occur inside strings.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Take};

use sha2::{Digest as _, Sha256};
use smallvec::SmallVec;

use crate::file_lines::FileLines;
use crate::model::json::{self, Fault, MAX_DEPTH, Member, scan_value, skip_white, walk};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How deep a field of an entry may nest: payloads may nest two levels more, and conversion adds these.
const DEPTH: usize = MAX_DEPTH - 2;

/// One line of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: u64,
    /// Where it starts in the file.
    pub(super) offset: u64,
    /// Where its text starts in the file: behind a byte-order mark.
    pub(super) text_offset: u64,
    /// Without the line end.
    pub(super) bytes: &'a [u8],
    /// Whether it has a line end.
    pub(super) terminated: bool,
}

impl Line<'_> {
    /// How many bytes it has, without the line end.
    pub(super) fn length(&self) -> u64 {
        self.bytes.len() as u64 + (self.text_offset - self.offset)
    }

    pub(super) fn is_blank(&self) -> bool {
        skip_white(self.bytes, 0) == self.bytes.len()
    }
}

/// Reads the lines of a file, up to the size it had when it was opened.
pub(super) struct Lines {
    lines: FileLines<Take<File>>,
    number: u64,
    offset: u64,
    hash: Option<Hash>,
}

/// SHA-256 of the bytes of a file, and of its lines.
struct Hash {
    bytes: Sha256,
    /// From where on the two differ.
    lines: Option<Sha256>,
}

/// What tells that a file, or the lines of a file, are those that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digests {
    /// Of its bytes.
    pub(super) bytes: [u8; 32],
    /// Of its lines, each with a line feed and without a carriage return or byte-order mark: as an export
    /// gives them.
    pub(super) lines: [u8; 32],
}

impl Lines {
    /// From the start of `file`, `size` bytes; with `hash`, their digests are computed on the way.
    pub(super) fn of(file: &File, size: u64, hash: bool) -> io::Result<Self> {
        let mut file = file.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        let lines = FileLines::of(file.take(size), size);
        Ok(Self {
            lines,
            number: 0,
            offset: 0,
            hash: hash.then(|| Hash { bytes: Sha256::new(), lines: None }),
        })
    }

    /// The first bytes of what is still to be read.
    pub(super) fn peek(&mut self) -> io::Result<&[u8]> {
        self.lines.peek()
    }

    /// How many bytes were read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut bytes = self.lines.next()?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let whole = bytes;
        let offset = self.offset;
        self.number += 1;
        self.offset += bytes.len() as u64;
        let terminated = bytes.ends_with(b"\n");
        if terminated {
            bytes = &bytes[..bytes.len() - 1];
            bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        }
        let mut text_offset = offset;
        if let Some(rest) = bytes.strip_prefix(BYTE_ORDER_MARK).filter(|_| self.number == 1) {
            bytes = rest;
            text_offset += BYTE_ORDER_MARK.len() as u64;
        }
        if let Some(hash) = &mut self.hash {
            hash.take(whole, bytes);
        }
        Ok(Some(Line { number: self.number, offset, text_offset, bytes, terminated }))
    }

    /// The digests of all that was read.
    pub(super) fn finish(self) -> Option<Digests> {
        let Hash { bytes, lines } = self.hash?;
        let bytes = bytes.finalize().into();
        Some(Digests { bytes, lines: lines.map_or(bytes, |lines| lines.finalize().into()) })
    }
}

impl Hash {
    /// Takes a line: as it stands in the file, and its text.
    fn take(&mut self, whole: &[u8], text: &[u8]) {
        if self.lines.is_none() && whole.len() != text.len() + 1 {
            self.lines = Some(self.bytes.clone());
        }
        self.bytes.update(whole);
        if let Some(lines) = &mut self.lines {
            lines.update(text);
            lines.update(b"\n");
        }
    }
}

/// How many fields of an object are kept without an allocation.
const MEMBERS: usize = 6;

/// The message of an entry, as far as reading a file needs it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Message<'a> {
    pub(super) role: Option<&'a str>,
    pub(super) usage: Option<&'a str>,
    pub(super) stop_reason: Option<&'a str>,
}

/// One JSON object of a line.
#[derive(Debug)]
pub(super) struct Object<'a> {
    /// Where it starts and ends in the line's text.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) members: SmallVec<[Member<'a>; MEMBERS]>,
    /// Its fields `type`, `id`, `parentId` and `timestamp`, which every entry is asked for.
    pub(super) type_name: Option<&'a str>,
    pub(super) id: Option<&'a str>,
    pub(super) parent_id: Option<&'a str>,
    pub(super) timestamp: Option<&'a str>,
    /// Its field `message`, if that is an object.
    pub(super) message: Option<Message<'a>>,
}

impl<'a> Object<'a> {
    /// The text of field `name`; the last one counts.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.members.iter().rev().find(|member| member.is(name)).map(|member| member.value)
    }

    /// The text of field `name` if it is a string.
    pub(super) fn string(&self, name: &str) -> Option<&'a str> {
        self.get(name).filter(|value| is_string(value))
    }

    /// Reads one object that starts at or after `pos`.
    pub(super) fn scan(text: &'a str, pos: usize) -> Result<Self, Fault> {
        Self::scan_within(text, pos, DEPTH)
    }

    /// The same for fields that may nest `depth` levels.
    pub(super) fn scan_within(text: &'a str, pos: usize, depth: usize) -> Result<Self, Fault> {
        let start = skip_white(text.as_bytes(), pos);
        let mut object = Self {
            start,
            end: start,
            members: SmallVec::new(),
            type_name: None,
            id: None,
            parent_id: None,
            timestamp: None,
            message: None,
        };
        object.end = walk(text, start, |key, name, at| {
            let is_message = name == "message" && text.as_bytes().get(at) == Some(&b'{');
            let end = if is_message {
                let (message, end) = Message::scan(text, at, depth - 1)?;
                object.message = Some(message);
                end
            } else {
                scan_value(text, at, depth)?
            };
            let value = &text[at..end];
            match name {
                "message" if !is_message => object.message = None,
                "type" => object.type_name = Some(value),
                "id" => object.id = Some(value),
                "parentId" => object.parent_id = Some(value),
                "timestamp" => object.timestamp = Some(value),
                _ => {}
            }
            object.members.push(Member { key, value });
            Ok(end)
        })?;
        Ok(object)
    }
}

impl<'a> Message<'a> {
    /// Reads the object at `pos`; also the offset behind it.
    fn scan(text: &'a str, pos: usize, depth: usize) -> Result<(Self, usize), Fault> {
        let mut message = Self::default();
        let end = walk(text, pos, |_, name, at| {
            let end = scan_value(text, at, depth)?;
            match name {
                "role" => message.role = Some(&text[at..end]),
                "usage" => message.usage = Some(&text[at..end]),
                "stopReason" => message.stop_reason = Some(&text[at..end]),
                _ => {}
            }
            Ok(end)
        })?;
        Ok((message, end))
    }
}

/// Why a line is no sequence of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoObjects {
    /// It is not JSON at all.
    NoJson,
    /// It is JSON, but some value is no object.
    OtherJson,
}

/// The objects of a line, in order; at least one.
pub(super) fn objects<'a>(line: &Line<'a>) -> Result<SmallVec<[Object<'a>; 1]>, NoObjects> {
    let text = simdutf8::basic::from_utf8(line.bytes).map_err(|_| NoObjects::NoJson)?;
    let mut found = SmallVec::new();
    let mut only_objects = true;
    let mut pos = skip_white(line.bytes, 0);
    while pos < text.len() {
        if text.as_bytes()[pos] == b'{' {
            let object = Object::scan(text, pos).map_err(|_| NoObjects::NoJson)?;
            pos = object.end;
            found.push(object);
        } else {
            only_objects = false;
            pos = scan_value(text, pos, DEPTH).map_err(|_| NoObjects::NoJson)?;
        }
        pos = skip_white(line.bytes, pos);
    }
    if only_objects && !found.is_empty() { Ok(found) } else { Err(NoObjects::OtherJson) }
}

/// Whether the coding agent itself keeps the line as one JSON value: anything that counts as true in
/// ECMAScript, bytes that are no UTF-8 replaced.
pub(super) fn is_kept_by_agent(line: &Line<'_>) -> bool {
    let text = String::from_utf8_lossy(line.bytes);
    let Ok(end) = scan_value(&text, 0, DEPTH) else { return false };
    if json::end_of_text(&text, end).is_err() {
        return false;
    }
    match text.trim_matches([' ', '\t', '\r', '\n']) {
        "null" | "false" | "\"\"" => false,
        value => json::number_of(value) != Some(0.0),
    }
}

/// Whether a JSON text is a string.
pub(super) fn is_string(value: &str) -> bool {
    value.starts_with('"')
}

/// What a JSON string spells. One that is no Unicode text (it has a lone surrogate) is named by its
/// spelling, so that it still differs from others.
pub(super) fn spelled(value: &str) -> Cow<'_, str> {
    json::text_of(value).unwrap_or_else(|| Cow::Borrowed(&value[1..value.len() - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_lines::{CHUNK, KEPT_BUFFER};

    #[test]
    fn lines_of_every_length_come_whole_and_in_order() {
        let lengths = [0, 1, CHUNK - 2, CHUNK - 1, CHUNK, 1, CHUNK + 1, 3 * KEPT_BUFFER, 0, 5, 2 * CHUNK, 7];
        for end in ["\n", "\r\n"] {
            for last in ["", "the last line has no end"] {
                let lines: Vec<String> = (b'a'..)
                    .zip(lengths)
                    .map(|(letter, length)| char::from(letter).to_string().repeat(length))
                    .collect();
                let text = format!("{}{end}{last}", lines.join(end));
                let mut file = tempfile::tempfile().unwrap();
                std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
                let mut read = Lines::of(&file, text.len() as u64, true).unwrap();
                let mut offset = 0;
                for (number, expected) in (1..).zip(lines.iter().map(String::as_str).chain([last])) {
                    if number as usize > lines.len() && last.is_empty() {
                        break;
                    }
                    let line = read.next().unwrap().unwrap();
                    assert!(line.bytes == expected.as_bytes(), "line {number}");
                    assert_eq!((line.number, line.offset), (number, offset));
                    assert_eq!(line.terminated, number as usize <= lines.len());
                    offset += (expected.len() + if line.terminated { end.len() } else { 0 }) as u64;
                }
                assert!(read.next().unwrap().is_none());
                assert_eq!(read.offset(), text.len() as u64);
                let plain =
                    lines.iter().map(String::as_str).chain(Some(last).filter(|last| !last.is_empty()));
                let plain: String = plain.map(|line| format!("{line}\n")).collect();
                let (bytes, lines) = (Sha256::digest(&text).into(), Sha256::digest(&plain).into());
                assert_eq!(read.finish(), Some(Digests { bytes, lines }));
            }
        }
    }

    #[test]
    fn fields_that_place_an_entry_are_known_by_what_their_keys_spell() {
        let text =
            r#" {"type":"a","\u0069d":"b","id":"c","parentId":null,"message":{"role":"user"},"message":1}"#;
        let object = Object::scan(text, 0).unwrap();
        assert_eq!((object.type_name, object.id), (Some("\"a\""), Some("\"c\"")));
        assert_eq!((object.parent_id, object.timestamp), (Some("null"), None));
        assert!(object.message.is_none());
        assert_eq!((object.start, object.end, object.members.len()), (1, text.len(), 6));
    }
}
