//! One commit as one line: how it is written, and how it is read back.

use std::fmt::Write as _;

use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::{EntryStructure, EntryType, NewEntry, Place, check_payload};
use crate::model::json::{
    Json, MAX_DEPTH, Member, Members, count_of, end_of_text, number_of, push_quoted, scan_object, skip_white,
    text_of,
};
use crate::model::usage::{NewUsage, Usage, push_inner, rest_object};
use crate::model::value::Address;
use crate::model::write::Write;
use crate::storage::commit::{MAX_SEQ, payload_length};

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
    Entry(EntryStructure),
    Usage { id: String, seq: u64, usage: Usage },
    SetValue { address: Address, seq: u64 },
    DeleteValue { address: Address, seq: u64 },
    AppendList { address: Address, seq: u64 },
    DeleteList { address: Address, seq: u64 },
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
            let timestamp = entry.made_at.unwrap_or(timestamp);
            push_entry(out, entry);
            let _ = write!(out, ",\"seq\":{seq},\"timestamp\":{timestamp}}}");
            Record::Entry(EntryStructure {
                id: entry.id.clone(),
                parent_id: entry.parent_id.clone(),
                seq,
                timestamp,
                entry_type: entry.entry_type,
                custom_type: entry.custom_type.clone(),
            })
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
            Record::SetValue { address: address.clone(), seq }
        }
        Write::DeleteValue(address) => {
            push_address(out, "value", "delete", seq, address, None);
            Record::DeleteValue { address: address.clone(), seq }
        }
        Write::AppendList(address, json) => {
            push_address(out, "list", "append", seq, address, Some(json));
            Record::AppendList { address: address.clone(), seq }
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
    let fault = |fault: crate::model::json::Fault| {
        damage(format!("it is not JSON: {} (byte {} of the line)", fault.reason, fault.offset))
    };
    let mut records = Vec::new();
    let mut members: Vec<Member<'_>> = Vec::new();
    let end = match bytes.get(start) {
        Some(b'{') => {
            let end = scan_object(line, start, MAX_DEPTH, &mut members).map_err(fault)?;
            records.push(read_record(line, start, end, &members, offset)?);
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
                    members.clear();
                    let end = scan_object(line, pos, MAX_DEPTH, &mut members).map_err(fault)?;
                    records.push(read_record(line, pos, end, &members, offset)?);
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
    end_of_text(line, end).map_err(fault)?;
    Ok(records)
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
    let span = |from: usize, to: usize| {
        let length = u32::try_from(to - from).map_err(|_| damage("a record is over 4 GiB"))?;
        Ok(Span { offset: offset + from as u64, length })
    };
    let whole = span(start, end)?;
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
                    let place = span(from, to)?;
                    let record = if kind == "value" {
                        Record::SetValue { address, seq }
                    } else {
                        Record::AppendList { address, seq }
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

fn read_entry(members: &[Member<'_>], seq: u64) -> Result<EntryStructure, Damage> {
    let get = |name: &str| members.iter().rev().find(|member| member.is(name)).map(|member| member.value);
    let timestamp = get("timestamp")
        .and_then(number_of)
        .filter(|number| number.fract() == 0.0 && number.abs() <= MAX_SEQ as f64)
        .ok_or_else(|| damage("an entry has no timestamp"))?;
    let (place, _) = Place::of(members).map_err(|error| damage(error.message()))?;
    check_payload(place.entry_type, members)
        .map_err(|what| damage(format!("a {} entry {what}", place.entry_type)))?;
    Ok(EntryStructure {
        id: place.id,
        parent_id: place.parent_id,
        seq,
        timestamp: timestamp as i64,
        entry_type: place.entry_type,
        custom_type: place.custom_type,
    })
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
