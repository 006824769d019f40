//! Parts of a JSON text, read where they stand: for faces that show payloads and keep nothing of them.

use std::borrow::Cow;

use crate::model::json::{Json, MAX_DEPTH, Members, end_of_text, number_of, scan_value, skip_white, text_of};

/// A part of a valid JSON text. Reading copies nothing but the strings that hold escapes.
///
/// ```
/// use pisession::Json;
///
/// let json = Json::parse(r#"{"content":[{"type":"text","text":"a\nb"},1]}"#)?;
/// let content = json.view().get("content").unwrap();
/// let parts = content.elements().unwrap();
/// assert_eq!(parts[0].get("text").unwrap().to_text().unwrap(), "a\nb");
/// assert_eq!(parts[1].to_number(), Some(1.0));
/// # Ok::<(), pisession::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonView<'a>(&'a str);

impl Json {
    /// This text, to be read where it stands.
    pub fn view(&self) -> JsonView<'_> {
        JsonView(self.as_str())
    }
}

impl<'a> JsonView<'a> {
    /// The text of this part, exactly as stored.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// The field `name` of an object, the last one of equal names; none for anything else.
    pub fn get(self, name: &str) -> Option<JsonView<'a>> {
        Members::of(self.0)?.get(name).map(JsonView)
    }

    /// The elements of an array; none for anything else.
    pub fn elements(self) -> Option<Vec<JsonView<'a>>> {
        let bytes = self.0.as_bytes();
        let mut pos = skip_white(bytes, 0);
        if bytes.get(pos) != Some(&b'[') {
            return None;
        }
        let mut elements = Vec::new();
        pos = skip_white(bytes, pos + 1);
        if bytes.get(pos) == Some(&b']') {
            return end_of_text(self.0, pos + 1).ok().map(|_| elements);
        }
        loop {
            let end = scan_value(self.0, pos, MAX_DEPTH).ok()?;
            elements.push(JsonView(&self.0[pos..end]));
            pos = skip_white(bytes, end);
            match bytes.get(pos) {
                Some(b',') => pos = skip_white(bytes, pos + 1),
                Some(b']') => return end_of_text(self.0, pos + 1).ok().map(|_| elements),
                _ => return None,
            }
        }
    }

    /// The string it spells, with U+FFFD for each lone surrogate; none if it is no string.
    pub fn to_text(self) -> Option<Cow<'a, str>> {
        if !self.0.trim_start().starts_with('"') {
            return None;
        }
        text_of(self.0)
            .or_else(|| text_of(&without_lone_surrogates(self.0)).map(|text| text.into_owned().into()))
    }

    /// The double nearest to the number it spells; none if it is no number.
    pub fn to_number(self) -> Option<f64> {
        number_of(self.0)
    }

    /// Whether it is `true`.
    pub fn is_true(self) -> bool {
        self.0.trim() == "true"
    }
}

/// The JSON string `text` with `\ufffd` in place of each escape that is half of no pair.
fn without_lone_surrogates(text: &str) -> String {
    let unit = |rest: &str| {
        let hex = rest.strip_prefix("\\u")?.get(..4)?;
        u32::from_str_radix(hex, 16).ok()
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match unit(rest) {
            Some(0xd800..=0xdbff) if matches!(rest.get(6..).and_then(unit), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                out.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            Some(_) => 6,
            None => 2.min(rest.len()),
        };
        let Some(escape) = rest.get(..length) else { break };
        out.push_str(escape);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_become_replacement_characters_and_pairs_stay() {
        for (json, text) in [
            (r#""a\ud83d\ude00b""#, "a😀b"),
            (r#""\ud83dx""#, "\u{fffd}x"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
        ] {
            assert_eq!(Json::parse(json).unwrap().view().to_text().unwrap(), text, "{json}");
        }
        assert_eq!(Json::parse("1").unwrap().view().to_text(), None);
    }

    #[test]
    fn elements_are_those_of_arrays_only() {
        let texts = |json: &str| {
            let json = Json::parse(json).unwrap();
            json.view()
                .elements()
                .map(|all| all.iter().map(|one| one.as_str().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            texts(r#" [ 1 , "a,]" ,[2],{"b":[3]} ] "#).unwrap(),
            ["1", r#""a,]""#, "[2]", r#"{"b":[3]}"#]
        );
        assert_eq!(texts("[]").unwrap(), [""; 0]);
        assert_eq!(texts("{}"), None);
        assert_eq!(texts("1"), None);
    }
}
