//! The JSON scanner: payload checks, lines of session files and the reader of old files alike use it.
//!
//! It takes RFC 8259 grammar over UTF-8 text, knows no numbers and no strings beyond their spelling, and
//! never recurses.

use crate::error::{Error, ErrorKind};
use crate::model::json::Member;

/// How deep a payload may nest.
pub const MAX_DEPTH: usize = 512;

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
    let pos = skip_white(bytes, pos);
    match bytes.get(pos) {
        Some(b'{' | b'[') => scan_container(bytes, pos, max_depth),
        _ => scan_scalar(bytes, pos),
    }
}

fn scan_container(bytes: &[u8], mut pos: usize, max_depth: usize) -> Result<usize, Fault> {
    let mut open = Open::new(max_depth);
    loop {
        pos = match bytes.get(pos) {
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
            _ => scan_scalar(bytes, pos)?,
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

/// Scans a string, number or word that starts at `pos`.
fn scan_scalar(bytes: &[u8], pos: usize) -> Result<usize, Fault> {
    match bytes.get(pos) {
        Some(b'"') => scan_string(bytes, pos + 1),
        Some(b'-' | b'0'..=b'9') => scan_number(bytes, pos),
        Some(b't') => scan_word(bytes, pos, b"true"),
        Some(b'f') => scan_word(bytes, pos, b"false"),
        Some(b'n') => scan_word(bytes, pos, b"null"),
        Some(_) => Err(Fault { offset: pos, reason: "a value was expected" }),
        None => Err(Fault { offset: pos, reason: "it ends where a value was expected" }),
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
    walk(text, pos, |key, _, pos| {
        let end = scan_value(text, pos, max_depth)?;
        members.push(Member { key, value: &text[pos..end] });
        Ok(end)
    })
}

/// Walks the fields of the object at or after `pos`; the offset behind it. At each field `field` is called
/// with the key as it stands there, what that spells, and the start of the value; it gives the value's end.
pub(crate) fn walk<'a>(
    text: &'a str,
    pos: usize,
    mut field: impl FnMut(&'a str, &str, usize) -> Result<usize, Fault>,
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
        let plain = plain_end(bytes, pos + 1);
        let end = if bytes.get(plain) == Some(&b'"') { plain + 1 } else { scan_string(bytes, plain)? };
        let key = &text[pos + 1..end - 1];
        let value = scan_colon(bytes, end)?;
        // A key without escapes is what it spells.
        pos = if end == plain + 1 {
            field(key, key, value)?
        } else {
            field(key, &Member { key, value: "" }.name(), value)?
        };
        pos = skip_white(bytes, pos);
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

/// The first offset from `start` on that holds a quote, a backslash or a control character. What is short is
/// looked at in words of eight bytes, what is longer in vectors.
pub(crate) fn plain_end(bytes: &[u8], start: usize) -> usize {
    let short = bytes.len().min(start + SHORT);
    let pos = plain_end_in_words(&bytes[..short], start);
    if pos == short && short < bytes.len() { long_plain_end(bytes, pos) } else { pos }
}

/// The same in words throughout: for texts that may hold many control characters.
pub(crate) fn plain_end_in_words(bytes: &[u8], start: usize) -> usize {
    let (words, tail) = bytes[start..].as_chunks();
    let mut pos = start;
    for word in words {
        if let Some(at) = special_in(*word) {
            return pos + at;
        }
        pos += word.len();
    }
    pos + tail.iter().take_while(|byte| !is_special(**byte)).count()
}

/// How long a text is at most for which vectors do not pay.
const SHORT: usize = 64;

fn long_plain_end(bytes: &[u8], pos: usize) -> usize {
    let rest = &bytes[pos..];
    let plain = &rest[..memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len())];
    // The smallest byte is found in vectors; where it stands matters only in texts that are no JSON.
    let has_control = plain.iter().fold(u8::MAX, |lowest, byte| lowest.min(*byte)) < 0x20;
    let first_control = || plain.iter().position(|byte| is_special(*byte));
    pos + has_control.then(first_control).flatten().unwrap_or(plain.len())
}

fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

/// Where the first special byte stands in eight bytes.
fn special_in(word: [u8; 8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(word);
    // Subtracting borrows from the high bit of a byte that is below what is subtracted.
    let control = word.wrapping_sub(ONES * 0x20);
    let quote = (word ^ (ONES * u64::from(b'"'))).wrapping_sub(ONES);
    let backslash = (word ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
    // Bytes of 0x80 and above are not special. Borrows make wrong bits only above the first special byte.
    let special = (control | quote | backslash) & !word & HIGHS;
    (special != 0).then(|| (special.trailing_zeros() / 8) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_bytes_are_found_at_every_offset() {
        for special in ['"', '\\', '\u{1}', '\u{1f}'] {
            for before in 0..50 {
                let text = format!("{}{special}", "\u{e9}x ".repeat(before));
                assert_eq!(plain_end(text.as_bytes(), 0), text.len() - 1);
                assert_eq!(plain_end_in_words(text.as_bytes(), 0), text.len() - 1);
                let longer = format!("{text}{}\"\\", "x".repeat(before));
                assert_eq!(plain_end(longer.as_bytes(), 0), text.len() - 1);
            }
        }
        assert_eq!(plain_end("\u{80}\u{ff}\u{7f} !#[]^".as_bytes(), 0), "\u{80}\u{ff}\u{7f} !#[]^".len());
    }
}
