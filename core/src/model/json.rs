//! JSON as text: validated once, kept byte for byte, never re-encoded.
//!
//! One scanner serves payload checks, JSONL lines and the legacy reader alike. It takes RFC 8259 grammar
//! over UTF-8 text, knows no numbers and no strings beyond their spelling, and never recurses.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};

/// How deep a payload may nest.
pub const MAX_DEPTH: usize = 512;
/// How many bytes a payload may have.
pub const MAX_PAYLOAD: usize = 256 << 20;

/// One JSON text, valid and kept as it was written.
///
/// Numbers beyond 2^53, `1e-7`, key order, equal keys, escapes and lone-surrogate escapes survive. The one
/// exception: if the text holds a line feed or carriage return (legal only between tokens), all white
/// space between tokens is removed. Equality compares the text. Cheap to clone.
///
/// ```
/// use pisession::Json;
///
/// let json = Json::parse(r#"{"cost":0.10, "id":9007199254740993}"#)?;
/// assert_eq!(json.as_str(), r#"{"cost":0.10, "id":9007199254740993}"#);
/// assert_eq!(json.get("cost"), Some("0.10"));
/// # Ok::<(), pisession::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Checks `text` and keeps it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidJson`] with the byte offset, [`ErrorKind::TooLarge`] over 256 MiB.
    pub fn parse(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        check_size(text.len(), MAX_PAYLOAD)?;
        let end = scan_value(text, 0, MAX_DEPTH)
            .and_then(|end| end_of_text(text, end))
            .map_err(|fault| fault.into_error(text))?;
        debug_assert_eq!(end, text.len());
        Ok(Self(compact_lines(text).as_ref().into()))
    }

    /// Checks `bytes` (which must be UTF-8) and keeps them.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            Error::new(ErrorKind::InvalidJson, "the payload is not UTF-8")
                .with_offset(error.valid_up_to() as u64)
        })?;
        Self::parse(text)
    }

    /// The JSON that serde makes of `value`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidJson`] if `value` cannot be written as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let text = serde_json::to_string(value).map_err(|error| {
            Error::new(ErrorKind::InvalidJson, format!("the value cannot be written as JSON: {error}"))
        })?;
        Self::parse(text)
    }

    /// The value that serde reads from this text.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidJson`] if the text is not of the shape of `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(self.as_str()).map_err(|error| {
            Error::new(
                ErrorKind::InvalidJson,
                format!("the stored JSON is not of the shape asked for: {error}"),
            )
        })
    }

    /// The JSON string that spells `text`.
    pub fn string(text: &str) -> Self {
        Self(quote(text).into())
    }

    /// `null`.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// Text that is known to be valid: it came out of the scanner or was written by this crate.
    pub(crate) fn trusted(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text, exactly as stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.0.trim_matches(WHITE) == "null"
    }

    /// The text of field `name` of an object; the last one of equal names. None for anything else.
    pub fn get(&self, name: &str) -> Option<&str> {
        get(self.as_str(), name)
    }

    /// The string this text spells; none if it is no string or holds a lone surrogate.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        text_of(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Json {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

pub(crate) fn check_size(length: usize, limit: usize) -> Result<()> {
    if length > limit {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("a payload of {length} bytes is over the limit of {limit}"),
        )
        .with_hint("keep large data in a file of its own and store its name"));
    }
    Ok(())
}

/// Where and why a text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) offset: usize,
    pub(crate) reason: &'static str,
}

impl Fault {
    pub(crate) fn into_error(self, text: &str) -> Error {
        let kind = ErrorKind::InvalidJson;
        let message = if text.is_empty() {
            "the payload is empty; it must be JSON".to_owned()
        } else {
            format!("the payload is not JSON: {}", self.reason)
        };
        Error::new(kind, message).with_offset(self.offset as u64)
    }
}

/// One field of an object: the key's spelling between its quotes, and the value's text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
}

impl<'a> Member<'a> {
    /// What the key spells; the spelling itself if that holds a lone surrogate.
    pub(crate) fn name(&self) -> Cow<'a, str> {
        unescape(self.key).unwrap_or(Cow::Borrowed(self.key))
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        spells(self.key, name)
    }
}

/// The fields of one object.
#[derive(Debug, Default)]
pub(crate) struct Members<'a>(pub(crate) Vec<Member<'a>>);

impl<'a> Members<'a> {
    /// The fields of `text` if it is one valid object and nothing else.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        let mut members = Self::default();
        let end = scan_object(text, 0, MAX_DEPTH, &mut members.0).ok()?;
        end_of_text(text, end).ok()?;
        Some(members)
    }

    /// The text of field `name`; the last one counts.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|member| member.is(name)).map(|member| member.value)
    }

    /// The string in field `name`.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(text_of)
    }
}

/// The text of field `name` of the object `text`.
pub(crate) fn get<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    Members::of(text)?.get(name)
}

const WHITE: [char; 4] = [' ', '\t', '\n', '\r'];

fn spells(key: &str, name: &str) -> bool {
    // A spelling with escapes is longer than what it spells.
    key == name
        || (key.len() > name.len() && key.contains('\\') && unescape(key).is_some_and(|key| key == name))
}

/// The string a JSON string `text` (with its quotes) spells; none for other JSON and lone surrogates.
pub(crate) fn text_of(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.trim_matches(WHITE).strip_prefix('"')?.strip_suffix('"')?;
    unescape(inner)
}

/// The double nearest to a JSON number; none for other JSON. Too large ones are infinite, as in ECMAScript.
pub(crate) fn number_of(text: &str) -> Option<f64> {
    let text = text.trim_matches(WHITE);
    matches!(text.as_bytes().first(), Some(b'-' | b'0'..=b'9')).then(|| text.parse().ok()).flatten()
}

/// The whole number not below zero and below 2^53 that a JSON number spells.
pub(crate) fn count_of(text: &str) -> Option<u64> {
    let number = number_of(text)?;
    (number >= 0.0 && number.fract() == 0.0 && number <= 9_007_199_254_740_991.0).then_some(number as u64)
}

/// The JSON string that spells `text`, with its quotes.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(&mut out, text);
    out
}

/// Appends the JSON string that spells `text`, escaped as ECMAScript's `JSON.stringify` does.
pub(crate) fn push_quoted(out: &mut String, text: &str) {
    use std::fmt::Write as _;
    out.push('"');
    let mut clean = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0x00..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[clean..at]);
        clean = at + 1;
        if escape.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[clean..]);
    out.push('"');
}

/// Appends `number` as ECMAScript's `JSON.stringify` writes it.
pub(crate) fn push_number(out: &mut String, number: f64) {
    if number.is_finite() {
        out.push_str(ryu_js::Buffer::new().format_finite(number));
    } else {
        out.push_str("null");
    }
}

/// Resolves the escapes of a string's inside; none if it holds a lone surrogate.
fn unescape(inner: &str) -> Option<Cow<'_, str>> {
    let Some(first) = memchr_backslash(inner) else { return Some(Cow::Borrowed(inner)) };
    let mut out = String::with_capacity(inner.len());
    out.push_str(&inner[..first]);
    let mut rest = &inner[first..];
    while let Some(escaped) = rest.strip_prefix('\\') {
        let code = *escaped.as_bytes().first()?;
        rest = escaped.get(1..)?;
        match code {
            b'"' | b'\\' | b'/' => out.push(char::from(code)),
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let high = u32::from_str_radix(rest.get(..4)?, 16).ok()?;
                rest = &rest[4..];
                let scalar = if (0xd800..0xdc00).contains(&high) {
                    let low = u32::from_str_radix(rest.strip_prefix("\\u")?.get(..4)?, 16).ok()?;
                    rest = &rest[6..];
                    if !(0xdc00..0xe000).contains(&low) {
                        return None;
                    }
                    0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
                } else {
                    high
                };
                out.push(char::from_u32(scalar)?);
            }
            _ => return None,
        }
        let next = memchr_backslash(rest).unwrap_or(rest.len());
        out.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    Some(Cow::Owned(out))
}

fn memchr_backslash(text: &str) -> Option<usize> {
    text.bytes().position(|byte| byte == b'\\')
}

/// The text without white space between tokens if it holds a line end, else as it is.
pub(crate) fn compact_lines(text: &str) -> Cow<'_, str> {
    let is_break = |byte: &u8| (*byte == b'\n') | (*byte == b'\r');
    let (chunks, rest) = text.as_bytes().as_chunks();
    if !chunks.iter().any(|chunk| holds_any(chunk, is_break)) && !rest.iter().any(is_break) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut pos = 0;
    while pos < bytes.len() {
        let start = pos;
        match bytes[pos] {
            b' ' | b'\t' | b'\n' | b'\r' => {
                pos += 1;
                continue;
            }
            b'"' => pos = scan_string(bytes, pos + 1).unwrap_or(bytes.len()),
            _ => {
                while pos < bytes.len() && !matches!(bytes[pos], b' ' | b'\t' | b'\n' | b'\r' | b'"') {
                    pos += 1;
                }
            }
        }
        out.push_str(&text[start..pos]);
    }
    Cow::Owned(out)
}

/// Skips white space to the end of the text; a fault if anything else stands there.
pub(crate) fn end_of_text(text: &str, pos: usize) -> Result<usize, Fault> {
    let pos = skip_white(text.as_bytes(), pos);
    if pos == text.len() { Ok(pos) } else { Err(Fault { offset: pos, reason: "text after the value" }) }
}

pub(crate) fn skip_white(bytes: &[u8], mut pos: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(pos) {
        pos += 1;
    }
    pos
}

/// Containers open at a point of a scan: one bit each, so that depth costs no allocation and no recursion.
struct Open {
    objects: [u64; MAX_DEPTH / 64 + 1],
    depth: usize,
    limit: usize,
}

impl Open {
    fn new(limit: usize) -> Self {
        Self { objects: [0; MAX_DEPTH / 64 + 1], depth: 0, limit: limit.min(MAX_DEPTH) }
    }

    fn push(&mut self, object: bool, offset: usize) -> Result<(), Fault> {
        if self.depth == self.limit {
            return Err(Fault { offset, reason: "it nests too deep (512 levels at most)" });
        }
        let (word, bit) = (self.depth / 64, 1 << (self.depth % 64));
        if object {
            self.objects[word] |= bit
        } else {
            self.objects[word] &= !bit
        }
        self.depth += 1;
        Ok(())
    }

    fn in_object(&self) -> bool {
        let top = self.depth - 1;
        self.objects[top / 64] & (1 << (top % 64)) != 0
    }
}

/// Scans one value that starts at or after `pos` (white space is skipped); the offset behind it.
pub(crate) fn scan_value(text: &str, pos: usize, max_depth: usize) -> Result<usize, Fault> {
    let bytes = text.as_bytes();
    let mut open = Open::new(max_depth);
    let mut pos = skip_white(bytes, pos);
    loop {
        pos = match bytes.get(pos) {
            Some(b'"') => scan_string(bytes, pos + 1)?,
            Some(b'{') => {
                open.push(true, pos)?;
                pos = skip_white(bytes, pos + 1);
                if bytes.get(pos) == Some(&b'}') {
                    open.depth -= 1;
                    pos + 1
                } else {
                    pos = scan_key(bytes, pos)?;
                    continue;
                }
            }
            Some(b'[') => {
                open.push(false, pos)?;
                pos = skip_white(bytes, pos + 1);
                if bytes.get(pos) == Some(&b']') {
                    open.depth -= 1;
                    pos + 1
                } else {
                    continue;
                }
            }
            Some(b'-' | b'0'..=b'9') => scan_number(bytes, pos)?,
            Some(b't') => scan_word(bytes, pos, b"true")?,
            Some(b'f') => scan_word(bytes, pos, b"false")?,
            Some(b'n') => scan_word(bytes, pos, b"null")?,
            Some(_) => return Err(Fault { offset: pos, reason: "a value was expected" }),
            None => return Err(Fault { offset: pos, reason: "it ends where a value was expected" }),
        };
        loop {
            if open.depth == 0 {
                return Ok(pos);
            }
            pos = skip_white(bytes, pos);
            match (bytes.get(pos), open.in_object()) {
                (Some(b','), true) => {
                    pos = scan_key(bytes, skip_white(bytes, pos + 1))?;
                    break;
                }
                (Some(b','), false) => {
                    pos = skip_white(bytes, pos + 1);
                    break;
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    open.depth -= 1;
                    pos += 1;
                }
                (Some(_), _) => {
                    return Err(Fault { offset: pos, reason: "',' or a closing bracket was expected" });
                }
                (None, _) => return Err(Fault { offset: pos, reason: "it ends inside an object or array" }),
            }
        }
    }
}

/// Scans one object that starts at or after `pos` and collects its fields; the offset behind it. Each
/// field's value may nest `max_depth` levels.
pub(crate) fn scan_object<'a>(
    text: &'a str,
    pos: usize,
    max_depth: usize,
    members: &mut Vec<Member<'a>>,
) -> Result<usize, Fault> {
    let bytes = text.as_bytes();
    let mut pos = skip_white(bytes, pos);
    if bytes.get(pos) != Some(&b'{') {
        return Err(Fault { offset: pos, reason: "an object was expected" });
    }
    pos = skip_white(bytes, pos + 1);
    if bytes.get(pos) == Some(&b'}') {
        return Ok(pos + 1);
    }
    loop {
        if bytes.get(pos) != Some(&b'"') {
            return Err(Fault { offset: pos, reason: "a key was expected" });
        }
        let key_end = scan_string(bytes, pos + 1)?;
        let key = &text[pos + 1..key_end - 1];
        pos = scan_colon(bytes, key_end)?;
        let end = scan_value(text, pos, max_depth)?;
        members.push(Member { key, value: &text[pos..end] });
        pos = skip_white(bytes, end);
        match bytes.get(pos) {
            Some(b',') => pos = skip_white(bytes, pos + 1),
            Some(b'}') => return Ok(pos + 1),
            Some(_) => return Err(Fault { offset: pos, reason: "',' or a closing bracket was expected" }),
            None => return Err(Fault { offset: pos, reason: "it ends inside an object or array" }),
        }
    }
}

fn scan_key(bytes: &[u8], pos: usize) -> Result<usize, Fault> {
    if bytes.get(pos) != Some(&b'"') {
        return Err(Fault { offset: pos, reason: "a key was expected" });
    }
    scan_colon(bytes, scan_string(bytes, pos + 1)?)
}

fn scan_colon(bytes: &[u8], pos: usize) -> Result<usize, Fault> {
    let pos = skip_white(bytes, pos);
    if bytes.get(pos) != Some(&b':') {
        return Err(Fault { offset: pos, reason: "':' was expected" });
    }
    Ok(skip_white(bytes, pos + 1))
}

fn scan_word(bytes: &[u8], pos: usize, word: &[u8]) -> Result<usize, Fault> {
    if bytes[pos..].starts_with(word) {
        Ok(pos + word.len())
    } else {
        Err(Fault { offset: pos, reason: "a value was expected" })
    }
}

fn scan_number(bytes: &[u8], start: usize) -> Result<usize, Fault> {
    let digits = |mut pos: usize| {
        while let Some(b'0'..=b'9') = bytes.get(pos) {
            pos += 1;
        }
        pos
    };
    let fault = |offset| Fault { offset, reason: "a number is malformed" };
    let mut pos = start + usize::from(bytes[start] == b'-');
    let whole = pos;
    pos = digits(pos);
    if pos == whole || (bytes[whole] == b'0' && pos > whole + 1) {
        return Err(fault(whole));
    }
    if bytes.get(pos) == Some(&b'.') {
        let end = digits(pos + 1);
        if end == pos + 1 {
            return Err(fault(end));
        }
        pos = end;
    }
    if let Some(b'e' | b'E') = bytes.get(pos) {
        pos += 1 + usize::from(matches!(bytes.get(pos + 1), Some(b'+' | b'-')));
        let end = digits(pos);
        if end == pos {
            return Err(fault(end));
        }
        pos = end;
    }
    Ok(pos)
}

/// Scans a string from behind its opening quote; the offset behind its closing quote.
pub(crate) fn scan_string(bytes: &[u8], mut pos: usize) -> Result<usize, Fault> {
    loop {
        pos = plain_end(bytes, pos);
        match bytes.get(pos) {
            Some(b'"') => return Ok(pos + 1),
            Some(b'\\') => match bytes.get(pos + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => pos += 2,
                Some(b'u')
                    if bytes.len() >= pos + 6
                        && bytes[pos + 2..pos + 6].iter().all(u8::is_ascii_hexdigit) =>
                {
                    pos += 6;
                }
                _ => return Err(Fault { offset: pos, reason: "an escape in a string is malformed" }),
            },
            Some(0x00..=0x1f) => {
                return Err(Fault {
                    offset: pos,
                    reason: "a string holds a control character that is not escaped",
                });
            }
            Some(_) => pos += 1,
            None => return Err(Fault { offset: pos, reason: "it ends inside a string" }),
        }
    }
}

/// How many bytes are looked at in one step where mostly nothing is found.
const AT_ONCE: usize = 32;

/// Whether one of a few bytes is `wanted`. It looks at all of them, which the compiler does many at a time.
fn holds_any(bytes: &[u8; AT_ONCE], wanted: impl Fn(&u8) -> bool) -> bool {
    bytes.iter().fold(false, |found, byte| found | wanted(byte))
}

/// The first offset from `pos` on that may hold a quote, a backslash or a control character: long plain text
/// is skipped in large steps, then eight bytes are looked at in one.
fn plain_end(bytes: &[u8], mut pos: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let zero_byte = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let is_special = |byte: &u8| (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\');
    while let Some(chunk) = bytes.get(pos..).and_then(<[u8]>::first_chunk)
        && !holds_any(chunk, is_special)
    {
        pos += AT_ONCE;
    }
    while let Some(chunk) = bytes.get(pos..pos + 8).and_then(|chunk| <[u8; 8]>::try_from(chunk).ok()) {
        let word = u64::from_le_bytes(chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let special = zero_byte(word ^ (ONES * u64::from(b'"')))
            | zero_byte(word ^ (ONES * u64::from(b'\\')))
            | control;
        if special != 0 {
            return pos + (special.trailing_zeros() / 8) as usize;
        }
        pos += 8;
    }
    while let Some(byte) = bytes.get(pos) {
        if matches!(byte, b'"' | b'\\' | 0x00..=0x1f) {
            break;
        }
        pos += 1;
    }
    pos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_texts_are_kept_as_they_are() {
        for text in [
            "null",
            "true",
            " 1 ",
            "-0",
            "1E+2",
            "0.1e-6",
            "1e400",
            "9007199254740993",
            "\"\"",
            "[]",
            "{}",
            r#"{"b":1,"a":2,"b":3}"#,
            r#""\ud83d""#,
            "[ 1 , 2 ]",
            r#"{"a":{"b":[[],{}]}}"#,
            "\"\u{2028}\u{85}\"",
        ] {
            assert_eq!(Json::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn line_ends_between_tokens_take_all_white_space_with_them() {
        let json = Json::parse("{ \"a b\" : [ 1 ,\r\n 2 ], \"c\" : \"x \\n y\" }").unwrap();
        assert_eq!(json.as_str(), r#"{"a b":[1,2],"c":"x \n y"}"#);
    }

    #[test]
    fn everything_else_is_refused_with_its_offset() {
        for (text, offset) in [
            ("", 0),
            ("NaN", 0),
            ("-Infinity", 1),
            ("01", 0),
            ("1.", 2),
            ("1e", 2),
            ("[1,]", 3),
            ("{\"a\" 1}", 5),
            ("{a:1}", 1),
            ("\"\t\"", 1),
            ("\"\\x\"", 1),
            ("\"\\u12g4\"", 1),
            ("\"abc", 4),
            ("[1", 2),
            ("1 2", 2),
            ("tru", 0),
            ("[1}", 2),
            ("{\"a\":1,}", 7),
            ("'a'", 0),
        ] {
            let error = Json::parse(text).unwrap_err();
            assert_eq!((error.kind(), error.offset()), (ErrorKind::InvalidJson, Some(offset)), "{text}");
        }
        assert_eq!(Json::from_bytes(b"\"\xff\"").unwrap_err().kind(), ErrorKind::InvalidJson);
    }

    #[test]
    fn nesting_ends_at_512_levels() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Json::parse(nested(512)).is_ok());
        assert_eq!(Json::parse(nested(513)).unwrap_err().kind(), ErrorKind::InvalidJson);
        let objects = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        assert!(Json::parse(objects(512)).is_ok());
        assert!(Json::parse(objects(100_000)).is_err());
    }

    #[test]
    fn special_bytes_are_found_at_every_offset_of_a_word() {
        for special in ['"', '\\', '\u{1}', '\u{1f}'] {
            for before in 0..20 {
                let text = format!("{}{special}", "\u{e9}x ".repeat(before));
                assert_eq!(plain_end(text.as_bytes(), 0), text.len() - 1);
            }
        }
        assert_eq!(plain_end("\u{80}\u{ff}\u{7f} !#[]^".as_bytes(), 0), "\u{80}\u{ff}\u{7f} !#[]^".len());
    }

    #[test]
    fn fields_are_found_by_what_their_key_spells_and_the_last_one_counts() {
        let json = Json::parse(r#"{"a":1,"\u0061":2,"b":{"a":3}}"#).unwrap();
        assert_eq!((json.get("a"), json.get("b"), json.get("c")), (Some("2"), Some(r#"{"a":3}"#), None));
        assert_eq!(Json::parse("[1]").unwrap().get("a"), None);
    }

    #[test]
    fn strings_are_read_and_written() {
        for text in ["", "a\"\\\n\r\t\u{8}\u{c}\u{0}\u{1f}\u{7f}/", "\u{2028}é😀"] {
            assert_eq!(Json::string(text).as_text().unwrap(), text);
            assert_eq!(quote(text), serde_json::to_string(text).unwrap());
        }
        assert_eq!(text_of(r#""\ud83d\ude00""#).unwrap(), "😀");
        assert_eq!(text_of(r#""\ud83d""#), None);
        assert_eq!(text_of(r#""\ude00\ud83d""#), None);
        assert_eq!(text_of("1"), None);
    }

    #[test]
    fn agrees_with_serde_json_on_what_is_json() {
        use proptest::prelude::*;
        let token = proptest::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"\\n\"", "1", "-1.5e3", "0", "true", "null", " ", "\"",
            "\\", "x", "é",
        ]);
        proptest!(|(tokens in proptest::collection::vec(token, 0..12))| {
            let text = tokens.concat();
            let serde = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(Json::parse(&text).is_ok(), serde, "{}", text);
        });
    }
}
