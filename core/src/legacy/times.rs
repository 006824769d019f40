//! Times and ids of old entries.

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::model::json::text_of;

/// The time a JSON value spells, Unix ms: RFC 3339 with a zone, not before 1970, cut to milliseconds.
pub(super) fn read(value: &str) -> Option<i64> {
    let time = OffsetDateTime::parse(&text_of(value)?, &Rfc3339).ok()?;
    i64::try_from(time.unix_timestamp_nanos().div_euclid(1_000_000)).ok().filter(|time| *time >= 0)
}

/// The time as the coding agent writes it; empty for one that no calendar has.
pub(super) fn write(time: i64) -> String {
    let Ok(at) = OffsetDateTime::from_unix_timestamp_nanos(i128::from(time) * 1_000_000) else {
        return String::new();
    };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    )
}

/// The id of an old entry here: a UUIDv7 with the entry's time, its tail derived from the session id, the
/// old id (or the line number, for entries without one) and how often that had occurred before, so that the
/// same file gives the same ids at every open.
pub(super) fn new_id(session_id: &str, key: &str, occurrence: u32, time: i64) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(session_id.as_bytes());
    hash.update([0]);
    hash.update(key.as_bytes());
    hash.update([0]);
    hash.update(occurrence.to_string().as_bytes());
    let digest = hash.finalize();
    let mut head = [0; 16];
    head.copy_from_slice(&digest[..16]);
    let tail = u128::from_be_bytes(head) >> (128 - 74);
    let time = u128::from(time.clamp(0, (1 << 48) - 1).unsigned_abs());
    let (high, low) = (tail >> 62, tail & ((1 << 62) - 1));
    Uuid::from_u128(time << 80 | 7 << 76 | high << 64 | 2 << 62 | low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_with_a_zone_cut_to_milliseconds() {
        for (text, time) in [
            ("\"2026-03-01T10:00:02.123456789Z\"", Some(1_772_359_202_123)),
            ("\"2026-03-01T12:00:05+02:00\"", Some(1_772_359_205_000)),
            ("\"2026-03-01T10:00:06.5\"", None),
            ("\"1969-12-31T23:59:59Z\"", None),
            ("\"yesterday\"", None),
            ("1772359204000", None),
            ("null", None),
        ] {
            assert_eq!(read(text), time, "{text}");
        }
        assert_eq!(write(1_772_359_202_123), "2026-03-01T10:00:02.123Z");
    }

    #[test]
    fn ids_carry_the_time_and_differ_by_session_id_key_and_occurrence() {
        let id = new_id("session", "a", 0, 0x0123_4567_89ab);
        assert!(id.to_string().starts_with("01234567-89ab-7"));
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        assert_eq!(id, new_id("session", "a", 0, 0x0123_4567_89ab));
        for other in [("other", "a", 0), ("session", "b", 0), ("session", "a", 1)] {
            assert_ne!(id, new_id(other.0, other.1, other.2, 0x0123_4567_89ab));
        }
    }
}
