//! An old file line by line, and the JSON objects of a line: each byte is looked at once, and nothing of a
//! payload is decoded.
//!
//! Lines end at `\n` only: other separators occur inside strings. The file is read in large chunks; one
//! line is in memory at a time, of whatever length.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Take};

use sha2::{Digest as _, Sha256};

use crate::model::json::{self, Fault, MAX_DEPTH, Member, scan_string, scan_value, skip_white};

const CHUNK: usize = 1 << 20;
/// What the line buffer may keep once a longer line is done with.
const KEPT_BUFFER: usize = 4 << 20;
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
    reader: BufReader<Take<File>>,
    number: u64,
    offset: u64,
    buffer: Vec<u8>,
    hash: Option<Sha256>,
}

impl Lines {
    /// From the start of `file`, `size` bytes; with `hash`, their SHA-256 is computed on the way.
    pub(super) fn of(file: &File, size: u64, hash: bool) -> io::Result<Self> {
        let mut file = file.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Self {
            reader: BufReader::with_capacity(CHUNK, file.take(size)),
            number: 0,
            offset: 0,
            buffer: Vec::new(),
            hash: hash.then(Sha256::new),
        })
    }

    /// The first bytes of what is still to be read.
    pub(super) fn peek(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    /// How many bytes were read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        if self.buffer.capacity() > KEPT_BUFFER {
            self.buffer.shrink_to(KEPT_BUFFER);
        }
        if self.reader.read_until(b'\n', &mut self.buffer)? == 0 {
            return Ok(None);
        }
        if let Some(hash) = &mut self.hash {
            hash.update(&self.buffer);
        }
        let offset = self.offset;
        self.number += 1;
        self.offset += self.buffer.len() as u64;
        let mut bytes = self.buffer.as_slice();
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
        Ok(Some(Line { number: self.number, offset, text_offset, bytes, terminated }))
    }

    /// The SHA-256 of all that was read.
    pub(super) fn finish(self) -> Option<[u8; 32]> {
        self.hash.map(|hash| hash.finalize().into())
    }
}

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
    pub(super) members: Vec<Member<'a>>,
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
        let start = skip_white(text.as_bytes(), pos);
        let mut members = Vec::with_capacity(8);
        let mut message = None;
        let end = walk(text, start, &mut |key, at| {
            let is_message = Member { key, value: "" }.is("message");
            let end = if is_message && text.as_bytes().get(at) == Some(&b'{') {
                let mut found = Message::default();
                let end = scan_message(text, at, &mut found)?;
                message = Some(found);
                end
            } else {
                if is_message {
                    message = None;
                }
                scan_value(text, at, DEPTH)?
            };
            members.push(Member { key, value: &text[at..end] });
            Ok(end)
        })?;
        Ok(Self { start, end, members, message })
    }
}

fn scan_message<'a>(text: &'a str, pos: usize, message: &mut Message<'a>) -> Result<usize, Fault> {
    walk(text, pos, &mut |key, at| {
        let end = scan_value(text, at, DEPTH - 1)?;
        let member = Member { key, value: &text[at..end] };
        match &*member.name() {
            "role" => message.role = Some(member.value),
            "usage" => message.usage = Some(member.value),
            "stopReason" => message.stop_reason = Some(member.value),
            _ => {}
        }
        Ok(end)
    })
}

/// What is called at each field of an object: key and start of the value; it returns the value's end.
type Field<'a, 'f> = dyn FnMut(&'a str, usize) -> Result<usize, Fault> + 'f;

/// Walks the fields of the object at `pos`; the offset behind it.
pub(super) fn walk<'a>(text: &'a str, pos: usize, field: &mut Field<'a, '_>) -> Result<usize, Fault> {
    let bytes = text.as_bytes();
    let expect = |pos: usize, byte: u8, reason| {
        if bytes.get(pos) == Some(&byte) { Ok(pos + 1) } else { Err(Fault { offset: pos, reason }) }
    };
    let mut pos = skip_white(bytes, expect(pos, b'{', "an object was expected")?);
    if bytes.get(pos) == Some(&b'}') {
        return Ok(pos + 1);
    }
    loop {
        expect(pos, b'"', "a key was expected")?;
        let end = scan_string(bytes, pos + 1)?;
        let key = &text[pos + 1..end - 1];
        pos = skip_white(bytes, expect(skip_white(bytes, end), b':', "':' was expected")?);
        pos = skip_white(bytes, field(key, pos)?);
        match bytes.get(pos) {
            Some(b',') => pos = skip_white(bytes, pos + 1),
            Some(b'}') => return Ok(pos + 1),
            _ => return Err(Fault { offset: pos, reason: "',' or a closing bracket was expected" }),
        }
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
pub(super) fn objects<'a>(line: &Line<'a>) -> Result<Vec<Object<'a>>, NoObjects> {
    let text = std::str::from_utf8(line.bytes).map_err(|_| NoObjects::NoJson)?;
    let mut found = Vec::with_capacity(1);
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
