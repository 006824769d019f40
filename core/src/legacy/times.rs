//! Times and ids of old entries.

use std::ops::Range;

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::model::json::text_of;

/// The time a JSON value spells, Unix ms: RFC 3339 with a zone, not before 1970, cut to milliseconds.
pub(super) fn read(value: &str) -> Option<i64> {
    let text = text_of(value)?;
    // Nearly all times are as ECMAScript writes them.
    if let Some(time) = read_ecmascript(text.as_bytes()) {
        return Some(time);
    }
    let time = OffsetDateTime::parse(&text, &Rfc3339).ok()?;
    i64::try_from(time.unix_timestamp_nanos().div_euclid(1_000_000)).ok().filter(|time| *time >= 0)
}

/// The time that `YYYY-MM-DDTHH:MM:SS.mmmZ` spells, from 1970 on; none for all other texts.
fn read_ecmascript(text: &[u8]) -> Option<i64> {
    let text: &[u8; 24] = text.try_into().ok()?;
    for (at, mark) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')] {
        if text[at] != mark {
            return None;
        }
    }
    let number = |range: Range<usize>| {
        text[range].iter().try_fold(0, |number: i64, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second, millis) = (number(11..13)?, number(14..16)?, number(17..19)?, number(20..23)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let before = match month {
        // Days before the month in a year that starts in March, whose leap day is its last.
        1..=12 => (153 * ((month + 9) % 12) + 2) / 5,
        _ => return None,
    };
    let days = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if year < 1970 || !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let year = year - i64::from(month < 3);
    // Days from 1 March of year 0 to 1970.
    let date = year * 365 + year / 4 - year / 100 + year / 400 + before + day - 1 - 719_468;
    Some((((date * 24 + hour) * 60 + minute) * 60 + second) * 1000 + millis)
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

/// Makes the ids of old entries here: UUIDv7s with the entry's time, their tails derived from the session
/// id, the old id (or the line number, for entries without one) and how often that had occurred before, so
/// that the same file gives the same ids at every open.
pub(super) struct NewIds(Sha256);

impl NewIds {
    /// For the entries of the session of that id.
    pub(super) fn of(session_id: &str) -> Self {
        Self(Sha256::new_with_prefix(session_id).chain_update([0]))
    }

    /// The id of one entry.
    pub(super) fn id(&self, key: &str, occurrence: u32, time: i64) -> Uuid {
        let mut hash = self.0.clone();
        hash.update(key);
        match occurrence {
            0 => hash.update(b"\x000"),
            _ => hash.update(format!("\0{occurrence}")),
        }
        let digest = hash.finalize();
        let mut head = [0; 16];
        head.copy_from_slice(&digest[..16]);
        let tail = u128::from_be_bytes(head) >> (128 - 74);
        let time = u128::from(time.clamp(0, (1 << 48) - 1).unsigned_abs());
        let (high, low) = (tail >> 62, tail & ((1 << 62) - 1));
        Uuid::from_u128(time << 80 | 7 << 76 | high << 64 | 2 << 62 | low)
    }
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
    fn the_usual_form_of_times_is_read_as_by_the_general_parser() {
        let general = |text: &str| {
            let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
            i64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok().filter(|time| *time >= 0)
        };
        for year in [1969, 1970, 1972, 1999, 2000, 2023, 2024, 2099, 2100, 2400, 9999] {
            for month in 0..=13 {
                for day in 0..=32 {
                    let text = format!("{year:04}-{month:02}-{day:02}T23:59:58.987Z");
                    assert_eq!(read_ecmascript(text.as_bytes()), general(&text), "{text}");
                }
            }
        }
        for text in ["2026-03-01T24:00:00.000Z", "2026-03-01T00:60:00.000Z", "2026-03-01T00:00:60.000Z"] {
            assert_eq!(read_ecmascript(text.as_bytes()), None, "{text}");
        }
        for at in 0..24 {
            let mut text = *b"2026-03-01T10:00:02.123Z";
            assert_eq!(read_ecmascript(&text), Some(1_772_359_202_123));
            text[at] = b'x';
            assert_eq!(read_ecmascript(&text), None);
        }
    }

    #[test]
    fn ids_carry_the_time_and_differ_by_session_id_key_and_occurrence() {
        let new_id = |session: &str, key: &str, occurrence: u32| {
            NewIds::of(session).id(key, occurrence, 0x0123_4567_89ab)
        };
        let id = new_id("session", "a", 0);
        assert!(id.to_string().starts_with("01234567-89ab-7"));
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        assert_eq!(id, new_id("session", "a", 0));
        for other in [("other", "a", 0), ("session", "b", 0), ("session", "a", 1)] {
            assert_ne!(id, new_id(other.0, other.1, other.2));
        }
    }
}
