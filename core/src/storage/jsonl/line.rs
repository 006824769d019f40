//! One commit as one line: how it is written, and how it is read back.

use std::fmt::Write as _;
use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::{EntryType, NewEntry, Place, check_payload};
use crate::model::json::{
    Fault, Json, MAX_DEPTH, Member, Members, count_of, end_of_text, number_of, push_quoted, scan_object,
    scan_value, skip_white, text_of,
};
use crate::model::scan::plain_end_in_words;
use crate::model::usage::{NewUsage, Usage, push_inner, rest_object};
use crate::model::value::Address;
use crate::model::write::Write;
use crate::storage::commit::{MAX_SEQ, payload_length};
use crate::storage::index::NewRow;
use crate::storage::indexed_id::IndexedId;

/// A piece of a file: from where, how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl Span {
    /// Where it ends in the file.
    pub(crate) fn end(self) -> u64 {
        self.offset + u64::from(self.length)
    }
}

/// A write as it stands in a line, with the place of what it holds: for entries and usage rows the whole
/// object, for values and elements the JSON text itself.
#[derive(Debug)]
pub(crate) enum Record {
    Entry(NewRow),
    Usage {
        id: String,
        seq: u64,
        usage: Usage,
    },
    /// `odd` is the place of the whole record where it has fields that are not known here.
    SetValue {
        address: Address,
        seq: u64,
        odd: Option<Span>,
    },
    DeleteValue {
        address: Address,
        seq: u64,
    },
    /// `odd` as above.
    AppendList {
        address: Address,
        seq: u64,
        odd: Option<Span>,
    },
    DeleteList {
        address: Address,
        seq: u64,
    },
}

impl Record {
    pub(crate) fn seq(&self) -> u64 {
        match self {
            Self::Entry(entry) => entry.seq,
            Self::Usage { seq, .. }
            | Self::SetValue { seq, .. }
            | Self::DeleteValue { seq, .. }
            | Self::AppendList { seq, .. }
            | Self::DeleteList { seq, .. } => *seq,
        }
    }
}

/// Why a line is damaged.
#[derive(Debug)]
pub(crate) struct Damage {
    pub(crate) reason: String,
}

fn damage(reason: impl Into<String>) -> Damage {
    Damage { reason: reason.into() }
}

/// The fields of a record of a value or an element.
const RECORD_FIELDS: [&str; 6] = ["kind", "op", "seq", "namespace", "key", "value"];

/// How many bytes stand around a payload in its record, as a rule.
const FRAME: usize = 192;

/// Appends a commit as one line, with its line end, to `out`, which will stand at `offset` of the file.
pub(crate) fn write_line(
    out: &mut String,
    writes: &[Write],
    first_seq: u64,
    timestamp: i64,
    offset: u64,
) -> Result<Vec<(Record, Span)>> {
    out.reserve(writes.iter().map(|write| payload_length(write) + FRAME).sum());
    let mut records = Vec::with_capacity(writes.len());
    let many = writes.len() > 1;
    if many {
        out.push('[');
    }
    for (seq, write) in (first_seq..).zip(writes) {
        if seq > first_seq {
            out.push(',');
        }
        let start = out.len();
        let record = write_record(out, write, seq, timestamp);
        let (from, to) = match (&record, write) {
            (
                Record::SetValue { .. } | Record::AppendList { .. },
                Write::SetValue(_, json) | Write::AppendList(_, json),
            ) => (out.len() - 1 - json.as_str().len(), out.len() - 1),
            _ => (start, out.len()),
        };
        let length = u32::try_from(to - from)
            .map_err(|_| Error::new(ErrorKind::TooLarge, "a record is over 4 GiB"))?;
        records.push((record, Span { offset: offset + from as u64, length }));
    }
    out.push_str(if many { "]\n" } else { "\n" });
    Ok(records)
}

fn write_record(out: &mut String, write: &Write, seq: u64, timestamp: i64) -> Record {
    // Writing to a String cannot fail.
    match write {
        Write::Entry(entry) => {
            let row = NewRow::of(entry, seq, timestamp);
            push_entry(out, entry);
            let _ = write!(out, ",\"seq\":{seq},\"timestamp\":{}}}", row.timestamp);
            Record::Entry(row)
        }
        Write::Usage(row) => {
            out.push_str("{\"kind\":\"usage\",\"id\":");
            push_quoted(out, &row.id);
            push_inner(out, &row.payload);
            let _ = write!(out, ",\"seq\":{seq}}}");
            Record::Usage { id: row.id.clone(), seq, usage: row.usage }
        }
        Write::SetValue(address, json) => {
            push_address(out, "value", "set", seq, address, Some(json));
            Record::SetValue { address: address.clone(), seq, odd: None }
        }
        Write::DeleteValue(address) => {
            push_address(out, "value", "delete", seq, address, None);
            Record::DeleteValue { address: address.clone(), seq }
        }
        Write::AppendList(address, json) => {
            push_address(out, "list", "append", seq, address, Some(json));
            Record::AppendList { address: address.clone(), seq, odd: None }
        }
        Write::DeleteList(address) => {
            push_address(out, "list", "delete", seq, address, None);
            Record::DeleteList { address: address.clone(), seq }
        }
    }
}

fn push_entry(out: &mut String, entry: &NewEntry) {
    out.push_str("{\"kind\":\"entry\",\"id\":");
    push_quoted(out, &entry.id);
    out.push_str(",\"parentId\":");
    match &entry.parent_id {
        Some(id) => push_quoted(out, id),
        None => out.push_str("null"),
    }
    out.push_str(",\"type\":");
    push_quoted(out, entry.entry_type.name());
    if let Some(custom_type) = &entry.custom_type {
        out.push_str(",\"customType\":");
        push_quoted(out, custom_type);
    }
    push_inner(out, &entry.payload);
}

fn push_address(out: &mut String, kind: &str, op: &str, seq: u64, address: &Address, json: Option<&Json>) {
    for piece in ["{\"kind\":\"", kind, "\",\"op\":\"", op, "\",\"seq\":"] {
        out.push_str(piece);
    }
    let _ = write!(out, "{seq}");
    out.push_str(",\"namespace\":");
    push_quoted(out, address.namespace());
    out.push_str(",\"key\":");
    push_quoted(out, address.key());
    if let Some(json) = json {
        out.push_str(",\"value\":");
        out.push_str(json.as_str());
    }
    out.push('}');
}

/// Reads a line (without its line end) that stands at `offset` of the file.
pub(crate) fn read_line(line: &str, offset: u64) -> Result<Vec<(Record, Span)>, Damage> {
    let bytes = line.as_bytes();
    let start = skip_white(bytes, 0);
    let mut records = Vec::new();
    let mut members: Vec<Member<'_>> = Vec::new();
    let end = match bytes.get(start) {
        Some(b'{') => {
            let (record, end) = read_object(line, start, offset, &mut members)?;
            records.push(record);
            end
        }
        Some(b'[') => {
            let mut pos = skip_white(bytes, start + 1);
            if bytes.get(pos) == Some(&b']') {
                pos + 1
            } else {
                loop {
                    pos = skip_white(bytes, pos);
                    if bytes.get(pos) != Some(&b'{') {
                        return Err(damage("an element of it is no object"));
                    }
                    let (record, end) = read_object(line, pos, offset, &mut members)?;
                    records.push(record);
                    pos = skip_white(bytes, end);
                    match bytes.get(pos) {
                        Some(b',') => pos += 1,
                        Some(b']') => break pos + 1,
                        _ => return Err(damage("it ends inside an array")),
                    }
                }
            }
        }
        None => return Err(damage("it is empty")),
        Some(_) => return Err(damage("it is neither an object nor an array")),
    };
    end_of_text(line, end).map_err(not_json)?;
    Ok(records)
}

fn not_json(fault: Fault) -> Damage {
    damage(format!("it is not JSON: {} (byte {} of the line)", fault.reason, fault.offset))
}

/// Reads the record whose object starts at `start` of the line; with where it ends there. What `members` holds
/// does not matter: it is kept for the next record.
fn read_object<'a>(
    line: &'a str,
    start: usize,
    offset: u64,
    members: &mut Vec<Member<'a>>,
) -> Result<((Record, Span), usize), Damage> {
    let text = &line[start..];
    if let Some((row, length)) = read_written_message(text) {
        return Ok(((Record::Entry(row), span_of(offset, start, start + length)?), start + length));
    }
    if let Some((record, value)) = read_written_value(text) {
        let (from, to) = (start + value.start, start + value.end);
        return Ok(((record, span_of(offset, from, to)?), to + 1));
    }
    members.clear();
    let end = scan_object(line, start, MAX_DEPTH, members).map_err(not_json)?;
    Ok((read_record(line, start, end, members, offset)?, end))
}

/// The piece of the file that is a piece of the line that stands at `offset`.
fn span_of(offset: u64, from: usize, to: usize) -> Result<Span, Damage> {
    let length = u32::try_from(to - from).map_err(|_| damage("a record is over 4 GiB"))?;
    Ok(Span { offset: offset + from as u64, length })
}

fn read_record(
    line: &str,
    start: usize,
    end: usize,
    members: &[Member<'_>],
    offset: u64,
) -> Result<(Record, Span), Damage> {
    let get = |name: &str| members.iter().rev().find(|member| member.is(name)).map(|member| member.value);
    let text = |name: &str| get(name).and_then(text_of);
    let seq = get("seq")
        .and_then(count_of)
        .filter(|seq| (1..=MAX_SEQ).contains(seq))
        .ok_or_else(|| damage("a record has no seq from 1 to 2^53-1"))?;
    let whole = span_of(offset, start, end)?;
    let kind = text("kind").ok_or_else(|| damage("a record has no kind"))?;
    match &*kind {
        "entry" => Ok((Record::Entry(read_entry(members, seq)?), whole)),
        "usage" => {
            let id = text("id").ok_or_else(|| damage("a usage row has no id"))?.into_owned();
            let kept: Vec<Member<'_>> = members.iter().filter(|member| !is_outer(member)).copied().collect();
            let row = NewUsage::stored(id, &kept).map_err(|error| damage(error.message()))?;
            Ok((Record::Usage { id: row.id, seq, usage: row.usage }, whole))
        }
        "value" | "list" => {
            let namespace = text("namespace").ok_or_else(|| damage("a record has no namespace"))?;
            let key = text("key").ok_or_else(|| damage("a record has no key"))?;
            let address = Address::new(namespace, key).map_err(|error| damage(error.message()))?;
            let op = text("op").unwrap_or_default();
            match (&*kind, &*op) {
                ("value", "delete") => Ok((Record::DeleteValue { address, seq }, whole)),
                ("list", "delete") => Ok((Record::DeleteList { address, seq }, whole)),
                ("value", "set") | ("list", "append") => {
                    let json = get("value").ok_or_else(|| damage("a record has no value"))?;
                    // `json` is a piece of `line`: where it stands is the difference of their addresses.
                    let from = json.as_ptr() as usize - line.as_ptr() as usize;
                    let (from, to) = with_white(line.as_bytes(), from, from + json.len());
                    let place = span_of(offset, from, to)?;
                    let is_known = |member: &Member<'_>| RECORD_FIELDS.iter().any(|name| member.is(name));
                    let odd = (!members.iter().all(is_known)).then_some(whole);
                    let record = if kind == "value" {
                        Record::SetValue { address, seq, odd }
                    } else {
                        Record::AppendList { address, seq, odd }
                    };
                    Ok((record, place))
                }
                _ => Err(damage(format!("a {kind} record has the unknown op '{op}'"))),
            }
        }
        other => Err(damage(format!("a record is of the unknown kind '{other}'"))),
    }
}

/// A value with the white space around it, up to the colon and the comma or bracket: it may be the payload's.
fn with_white(bytes: &[u8], mut from: usize, to: usize) -> (usize, usize) {
    while from > 0 && matches!(bytes[from - 1], b' ' | b'\t') {
        from -= 1;
    }
    (from, skip_white(bytes, to))
}

/// Fields of a record that are the line's and not the writer's.
fn is_outer(member: &Member<'_>) -> bool {
    ["kind", "seq", "timestamp"].iter().any(|name| member.is(name))
}

fn read_entry(members: &[Member<'_>], seq: u64) -> Result<NewRow, Damage> {
    let get = |name: &str| members.iter().rev().find(|member| member.is(name)).map(|member| member.value);
    let timestamp = get("timestamp")
        .and_then(number_of)
        .filter(|number| number.fract() == 0.0 && number.abs() <= MAX_SEQ as f64)
        .ok_or_else(|| damage("an entry has no timestamp"))?;
    let (place, _) = Place::of(members).map_err(|error| damage(error.message()))?;
    check_payload(place.entry_type, members)
        .map_err(|what| damage(format!("a {} entry {what}", place.entry_type)))?;
    Ok(NewRow {
        id: IndexedId::of(&place.id).into_owned(),
        parent_id: place.parent_id.as_deref().map(|id| IndexedId::of(id).into_owned()),
        seq,
        timestamp: timestamp as i64,
        entry_type: place.entry_type,
        custom_type: place.custom_type.map(Into::into),
    })
}

/// Reads the record of a message from the start of `text` if it is spelled as [`write_line`] spells it, ids
/// being UUIDs; with its length. None says nothing of what else it is.
///
/// A session is nearly all such records: none of their fields is looked for, and few bytes are looked at twice.
fn read_written_message(text: &str) -> Option<(NewRow, usize)> {
    let rest = text.strip_prefix("{\"kind\":\"entry\",\"id\":\"")?;
    let (id, rest) = IndexedId::at_start_of(rest)?;
    let rest = rest.strip_prefix("\",\"parentId\":")?;
    let (parent_id, rest) = match rest.strip_prefix('"') {
        Some(rest) => {
            let (id, rest) = IndexedId::at_start_of(rest)?;
            (Some(id), rest.strip_prefix('"')?)
        }
        None => (None, rest.strip_prefix("null")?),
    };
    let message = rest.strip_prefix(",\"type\":\"message\",\"message\":")?;
    if !message.starts_with('{') {
        return None;
    }
    let rest = &message[scan_value(message, 0, MAX_DEPTH).ok()?..];
    let rest = rest.strip_prefix(",\"terminate\":true").unwrap_or(rest);
    let (seq, rest) = written_count(rest.strip_prefix(",\"seq\":")?)?;
    let (timestamp, rest) = written_count(rest.strip_prefix(",\"timestamp\":")?)?;
    let rest = rest.strip_prefix('}')?;
    let row = NewRow {
        id: id.into_owned(),
        parent_id: parent_id.map(IndexedId::into_owned),
        seq,
        timestamp: i64::try_from(timestamp).ok()?,
        entry_type: EntryType::Message,
        custom_type: None,
    };
    Some((row, text.len() - rest.len()))
}

/// The same for a record that sets a value or appends to a list, with where the JSON of that stands; the
/// record ends one byte behind it.
fn read_written_value(text: &str) -> Option<(Record, Range<usize>)> {
    let (rest, is_value) = match text.strip_prefix("{\"kind\":\"value\",\"op\":\"set\",\"seq\":") {
        Some(rest) => (rest, true),
        None => (text.strip_prefix("{\"kind\":\"list\",\"op\":\"append\",\"seq\":")?, false),
    };
    let (seq, rest) = written_count(rest)?;
    let (namespace, rest) = written_text(rest.strip_prefix(",\"namespace\":\"")?)?;
    let (key, rest) = written_text(rest.strip_prefix(",\"key\":\"")?)?;
    let json = rest.strip_prefix(",\"value\":")?;
    let length = scan_value(json, 0, MAX_DEPTH).ok()?;
    // White space around it would be the value's.
    if json.starts_with([' ', '\t', '\n', '\r']) || !json[length..].starts_with('}') {
        return None;
    }
    let address = Address::new(namespace, key).ok()?;
    let record = if is_value {
        Record::SetValue { address, seq, odd: None }
    } else {
        Record::AppendList { address, seq, odd: None }
    };
    let start = text.len() - json.len();
    Some((record, start..start + length))
}

/// The text up to a quote if there is no escape in it, and what stands behind the quote.
fn written_text(text: &str) -> Option<(&str, &str)> {
    let end = plain_end_in_words(text.as_bytes(), 0);
    Some((&text[..end], text[end..].strip_prefix('"')?))
}

/// The number from 1 to 2^53-1 that `text` begins with, and what stands behind it.
fn written_count(text: &str) -> Option<(u64, &str)> {
    let mut count = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' if count <= MAX_SEQ => count = 10 * count + u64::from(byte - b'0'),
            _ if (1..=MAX_SEQ).contains(&count) && !text.starts_with('0') => {
                return Some((count, &text[at..]));
            }
            _ => break,
        }
    }
    None
}

/// The payload of an entry from its record's text.
pub(crate) fn payload_of_entry(record: &str, entry_type: EntryType) -> Option<Json> {
    let members = Members::of(record)?;
    let structure: &[&str] = match entry_type {
        EntryType::Custom => &["kind", "id", "parentId", "type", "customType", "seq", "timestamp"],
        _ => &["kind", "id", "parentId", "type", "seq", "timestamp"],
    };
    Some(Json::trusted(rest_object(&members.0, structure)))
}

/// The payload of a usage row from its record's text.
pub(crate) fn payload_of_usage(record: &str) -> Option<Json> {
    Some(Json::trusted(rest_object(&Members::of(record)?.0, &["kind", "id", "seq"])))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a line says, without the byte that was added at `added`; or that it is refused.
    fn read(line: &str, added: usize) -> Result<String, String> {
        let records = read_line(line, 0).map_err(|damage| damage.reason)?;
        let without = |offset: u64| offset - u64::from(offset as usize > added);
        let place = |span: Span| without(span.offset)..without(span.end());
        let texts = records.into_iter().map(|(mut record, span)| {
            let odd = match &mut record {
                Record::SetValue { odd, .. } | Record::AppendList { odd, .. } => odd.take().map(place),
                _ => None,
            };
            format!("{record:?} {:?} {odd:?}", place(span))
        });
        Ok(texts.collect::<Vec<_>>().join("\n"))
    }

    /// Asserts that a record spelled as the library does means what it means to the reader of any spelling,
    /// which a space behind its first bracket makes of it.
    fn assert_spelling_does_not_matter(record: &str) {
        let spaced = record.replacen('{', "{ ", 1);
        let added = record.find('{').map_or(usize::MAX, |at| at + 1);
        match (read(record, usize::MAX), read(&spaced, added)) {
            (Ok(quick), Ok(thorough)) => assert_eq!(quick, thorough, "{record}"),
            (Err(_), Err(_)) => {}
            (quick, thorough) => panic!("{record}: {quick:?}, {thorough:?}"),
        }
    }

    const ID: &str = "01a23299-cc3e-7d42-b855-3780e64a35f2";

    fn written() -> Vec<String> {
        let parent = ID.replace('2', "3");
        let message = r#"{"role":"user","content":[{"type":"text","text":"a\n\u00e9 é"}],"n":-1.5e3}"#;
        vec![
            format!(
                r#"{{"kind":"entry","id":"{ID}","parentId":null,"type":"message","message":{message},"seq":2,"timestamp":1796145269823}}"#
            ),
            format!(
                r#"{{"kind":"entry","id":"{ID}","parentId":"{parent}","type":"message","message":{message},"terminate":true,"seq":9007199254740991,"timestamp":1}}"#
            ),
            format!(
                r#"{{"kind":"value","op":"set","seq":3,"namespace":"pi.branch.tip","key":"main","value":"{ID}"}}"#
            ),
            r#"{"kind":"list","op":"append","seq":10,"namespace":"a b","key":"é","value":[1, {"a":2}]}"#
                .to_owned(),
        ]
    }

    #[test]
    fn records_as_the_library_spells_them_are_known_at_once() {
        for record in written() {
            let length = read_written_message(&record)
                .map(|(_, length)| length)
                .or_else(|| read_written_value(&record).map(|(_, value)| value.end + 1));
            assert_eq!(length, Some(record.len()), "{record}");
            assert_spelling_does_not_matter(&record);
        }
    }

    #[test]
    fn whatever_is_changed_in_a_record_it_means_the_same_however_it_is_read() {
        let pieces = prop::sample::select(vec![
            "",
            " ",
            "\"",
            "\\",
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "0",
            "1",
            "9",
            "-",
            ".",
            "e",
            "a",
            "A",
            "null",
            "true",
            "é",
            "\u{1}",
            "\\u0061",
            "\\ud800",
            "\t",
            "01",
            "9007199254740992",
            "\"seq\":7,",
            "\"id\":\"x\",",
            "\"kind\":\"list\",",
            "\"message\":{},",
        ]);
        let change = (any::<prop::sample::Index>(), 0..3usize, pieces);
        let changes = prop::collection::vec(change, 1..3);
        let records = prop::sample::select(written());
        proptest!(ProptestConfig::with_cases(4096), |(record in records, changes in changes)| {
            let mut record: Vec<char> = record.chars().collect();
            for (at, removed, piece) in changes {
                let at = at.index(record.len());
                record.splice(at..(at + removed).min(record.len()), piece.chars());
            }
            assert_spelling_does_not_matter(&String::from_iter(record));
        });
    }

    #[test]
    fn what_a_commit_writes_is_read_as_it_was_written() {
        let payload = |text: &str| Json::parse(text).unwrap();
        let address = |key: &str| Address::new("a", key).unwrap();
        let writes = [
            Write::Entry(NewEntry::message(ID, None, &payload(r#"{"role":"user"}"#))),
            Write::Entry(NewEntry::message("short", Some(ID), &payload(r#"{"a":"}"}"#)).terminate()),
            Write::Entry(NewEntry::custom("own", Some("short"), "x", None)),
            Write::SetValue(address("b\""), payload(" 1 ")),
            Write::AppendList(address("c"), payload("{}")),
            Write::DeleteValue(address("b")),
            Write::DeleteList(address("c")),
        ];
        let mut line = String::new();
        let written = write_line(&mut line, &writes, 5, 1_700_000_000_000, 100).unwrap();
        let read = read_line(line.trim_end(), 100).unwrap();
        assert_eq!(format!("{read:?}"), format!("{written:?}"));
    }
}
