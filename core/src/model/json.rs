//! JSON as text: validated once, kept byte for byte, never re-encoded.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};
pub(crate) use crate::model::scan::{
    Fault, MAX_DEPTH, end_of_text, scan_object, scan_string, scan_value, skip_white, walk,
};
use crate::model::scan::{plain_end, plain_end_in_words};

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

    /// Checks the text of an object each of whose fields is a payload, and may nest as deep as one.
    pub(crate) fn parse_fields(text: &str) -> Result<Self> {
        if !trim(text).starts_with('{') {
            return Self::parse(text);
        }
        check_size(text.len(), MAX_PAYLOAD)?;
        scan_object(text, 0, MAX_DEPTH, &mut Vec::new())
            .and_then(|end| end_of_text(text, end))
            .map_err(|fault| fault.into_error(text))?;
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

    /// The text without white space around it.
    pub(crate) fn trimmed(&self) -> &str {
        trim(&self.0)
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.trimmed() == "null"
    }

    /// Whether it is a string, which may hold lone surrogates.
    pub(crate) fn is_string(&self) -> bool {
        self.trimmed().starts_with('"')
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

/// Calls `field` with what each key of the object `text` spells and with the text of its value. None if
/// `text` is not one valid object and nothing else; some fields may have been seen then.
pub(crate) fn each_field<'a>(text: &'a str, mut field: impl FnMut(&str, &'a str)) -> Option<()> {
    let end = walk(text, 0, |_, name, pos| {
        let end = scan_value(text, pos, MAX_DEPTH)?;
        field(name, &text[pos..end]);
        Ok(end)
    });
    end_of_text(text, end.ok()?).ok().map(|_| ())
}

/// The text of field `name` of the object `text`.
pub(crate) fn get<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    Members::of(text)?.get(name)
}

/// The text without JSON's white space around it; nearly always there is none.
fn trim(text: &str) -> &str {
    let is_white = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t' | b'\n' | b'\r'));
    let bytes = text.as_bytes();
    if is_white(bytes.first()) || is_white(bytes.last()) {
        return text.trim_matches([' ', '\t', '\n', '\r']);
    }
    text
}

fn spells(key: &str, name: &str) -> bool {
    // An escape is longer than what it spells, and up to the first one a spelling is what it spells.
    if key.len() <= name.len() {
        return key == name;
    }
    let differs = |(key, name): &(u8, u8)| key != name || *key == b'\\';
    key.bytes().zip(name.bytes()).find(differs).is_some_and(|(key, _)| key == b'\\')
        && unescape(key).is_some_and(|key| key == name)
}

/// The string a JSON string `text` (with its quotes) spells; none for other JSON and lone surrogates.
pub(crate) fn text_of(text: &str) -> Option<Cow<'_, str>> {
    unescape(trim(text).strip_prefix('"')?.strip_suffix('"')?)
}

/// The double nearest to a JSON number; none for other JSON. Too large ones are infinite, as in ECMAScript.
pub(crate) fn number_of(text: &str) -> Option<f64> {
    let text = trim(text);
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
    loop {
        let at = plain_end_in_words(text.as_bytes(), clean);
        out.push_str(&text[clean..at]);
        let Some(byte) = text.as_bytes().get(at) else { break };
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            // Writing to a String cannot fail.
            _ => drop(write!(out, "\\u{byte:04x}")),
        }
        clean = at + 1;
    }
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
    let Some(first) = first_backslash(inner) else { return Some(Cow::Borrowed(inner)) };
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
        let next = first_backslash(rest).unwrap_or(rest.len());
        out.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    Some(Cow::Owned(out))
}

fn first_backslash(inner: &str) -> Option<usize> {
    let bytes = inner.as_bytes();
    let plain = plain_end(bytes, 0);
    // The inside of a JSON string holds nothing else that is special.
    bytes[plain..].iter().position(|byte| *byte == b'\\').map(|at| plain + at)
}

/// The text without white space between tokens if it holds a line end, else as it is.
pub(crate) fn compact_lines(text: &str) -> Cow<'_, str> {
    if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_none() {
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

    /// Whether serde_json takes `bytes`, which it does not check for UTF-8 where it ignores them.
    fn is_json_to_serde(bytes: &[u8]) -> bool {
        std::str::from_utf8(bytes).is_ok() && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
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
            prop_assert_eq!(Json::parse(&text).is_ok(), is_json_to_serde(text.as_bytes()), "{}", text);
        });
    }

    #[test]
    fn agrees_with_serde_json_on_json_in_which_bytes_were_changed() {
        use proptest::prelude::*;
        let long = "é plain ".repeat(40);
        let texts = prop::sample::select(vec![
            r#"{"a":[1,-0.5E+10,0,{"b":null}],"c":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00","d":[true,false,[]]}"#
                .to_owned(),
            format!(r#" {{ "text" : "{long}\n{long}" , "n" : [ 12345678901234567890 , 1e-7 ] }} "#),
            format!("{}1{}", "[{\"a\":".repeat(100), "}]".repeat(100)),
        ]);
        let bytes =
            prop::sample::select(b"\"\\{}[],:0123456789-+.eEutfn \t\n\r\x00\x1f\x7f\x80\xc3\xff".to_vec());
        let change = (any::<prop::sample::Index>(), 0..3usize, prop::collection::vec(bytes, 0..3));
        let changes = prop::collection::vec(change, 0..3);
        proptest!(ProptestConfig::with_cases(4096), |(text in texts, changes in changes)| {
            let mut bytes = text.into_bytes();
            for (at, removed, added) in changes {
                let at = at.index(bytes.len());
                bytes.splice(at..(at + removed).min(bytes.len()), added);
            }
            let text = String::from_utf8_lossy(&bytes);
            prop_assert_eq!(Json::from_bytes(&bytes).is_ok(), is_json_to_serde(&bytes), "{}", text);
        });
    }
}
