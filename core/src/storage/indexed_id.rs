//! The id of an entry as an index keeps it: nearly all are UUIDs as the library writes them, and take 16
//! bytes in place of an allocated text.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

use hashbrown::Equivalent;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// How long a UUID is in the one form that is kept as such, and in no other.
const LENGTH: usize = Hyphenated::LENGTH;

/// The id of an entry. Two are equal exactly if they spell the same text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexedId<T = Box<str>> {
    /// What its lower-case form with hyphens spells, and no other form of it.
    Uuid(Uuid),
    /// Any other text.
    Text(T),
}

impl<'a> IndexedId<&'a str> {
    /// The id that `text` spells.
    pub(crate) fn of(text: &'a str) -> Self {
        // All bytes are looked at, for that is one step in vectors.
        let has_upper = || text.bytes().fold(false, |found, byte| found | byte.is_ascii_uppercase());
        match Uuid::try_parse(text) {
            Ok(uuid) if text.len() == LENGTH && !has_upper() => Self::Uuid(uuid),
            _ => Self::Text(text),
        }
    }

    /// The UUID that `text` begins with, in the form that is kept as such, and what stands behind it.
    pub(crate) fn at_start_of(text: &'a str) -> Option<(Self, &'a str)> {
        let (id, rest) = text.split_at_checked(LENGTH)?;
        match Self::of(id) {
            Self::Uuid(uuid) => Some((Self::Uuid(uuid), rest)),
            Self::Text(_) => None,
        }
    }

    pub(crate) fn into_owned(self) -> IndexedId {
        match self {
            Self::Uuid(uuid) => IndexedId::Uuid(uuid),
            Self::Text(text) => IndexedId::Text(text.into()),
        }
    }
}

impl<T: Borrow<str>> IndexedId<T> {
    pub(crate) fn borrowed(&self) -> IndexedId<&str> {
        match self {
            Self::Uuid(uuid) => IndexedId::Uuid(*uuid),
            Self::Text(text) => IndexedId::Text(text.borrow()),
        }
    }
}

impl<T: Hash> Hash for IndexedId<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Uuid(uuid) => state.write_u128(uuid.as_u128()),
            Self::Text(text) => text.hash(state),
        }
    }
}

impl Equivalent<IndexedId> for IndexedId<&str> {
    fn equivalent(&self, key: &IndexedId) -> bool {
        *self == key.borrowed()
    }
}

impl<T: fmt::Display> fmt::Display for IndexedId<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => uuid.hyphenated().fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_as_it_was() {
        let uuid = "01234567-89ab-7cde-8f01-23456789abcd";
        for (text, is_uuid) in [
            (uuid.to_owned(), true),
            ("00000000-0000-0000-0000-000000000000".to_owned(), true),
            (uuid.to_uppercase(), false),
            (uuid.replace('-', ""), false),
            (format!("{{{uuid}}}"), false),
            (format!("urn:uuid:{uuid}"), false),
            (uuid.replace('9', "g"), false),
            ("a".to_owned(), false),
            ("é".repeat(18), false),
        ] {
            let id = IndexedId::of(&text);
            assert_eq!(matches!(id, IndexedId::Uuid(_)), is_uuid, "{text}");
            assert_eq!(id.to_string(), text);
            assert_eq!(id.into_owned().to_string(), text);
            assert_eq!(id.into_owned().borrowed(), id);
        }
        assert_ne!(IndexedId::of(&uuid.to_uppercase()), IndexedId::of(uuid));
    }
}
