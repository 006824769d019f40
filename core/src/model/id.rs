//! Ids and times, and where they come from. Both are injected, so that tests get the same bytes every time.

use std::fmt;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::{NoContext, Timestamp, Uuid};

use crate::error::{Error, ErrorKind, Result};
use crate::process::Process;
use crate::sync::lock;

/// Where timestamps come from: Unix time in milliseconds.
///
/// Timestamps are what the clock says, never clamped; order is `seq`. A time before 1970 or after the year 9999
/// is refused: no file could hold it.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Now, in milliseconds since 1970.
    fn now(&self) -> i64;
}

/// The operating system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        }
    }
}

/// What the clock says, where that can be stored.
pub(crate) fn time_of(clock: &dyn Clock) -> Result<i64> {
    let now = clock.now();
    if is_time(now) {
        return Ok(now);
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format!("the clock says {now}, which is no time from 1970 to the year 9999"),
    )
    .with_hint("a clock gives milliseconds since 1970; set the clock of this machine"))
}

/// Whether files can hold that time: the names of files have four digits for the year.
pub(crate) fn is_time(millis: i64) -> bool {
    const END_OF_9999: i64 = 253_402_300_799_999;
    (0..=END_OF_9999).contains(&millis)
}

/// Where new ids come from.
pub trait IdGenerator: Send + Sync + fmt::Debug {
    /// A new id; with a `timestamp` (Unix ms) one that carries it as its time prefix.
    fn next(&self, timestamp: Option<i64>) -> String;
}

/// UUIDv7 ids from the system's clock and random source. Those made without a given time are strictly
/// increasing, also when the clock steps back; those of one millisecond count on from a random one.
#[derive(Debug, Default)]
pub struct UuidV7 {
    last: Mutex<Option<(u128, Process)>>,
}

impl IdGenerator for UuidV7 {
    fn next(&self, timestamp: Option<i64>) -> String {
        if let Some(timestamp) = timestamp {
            return random(millis(timestamp)).hyphenated().to_string();
        }
        let mut last = lock(&self.last);
        let (now, process) = (millis(SystemClock.now()), Process::current());
        let id = match *last {
            // Counts on in the random tail below the variant bits; 2^62 ids fit there. In a fork the last id
            // is the parent's to count on from.
            Some((id, made_in)) if made_in == process && (id >> 80) as u64 >= now => id + 1,
            _ => random(now).as_u128(),
        };
        *last = Some((id, process));
        Uuid::from_u128(id).hyphenated().to_string()
    }
}

/// The time as an id has it, in 48 bits.
fn millis(timestamp: i64) -> u64 {
    timestamp.clamp(0, (1 << 48) - 1).unsigned_abs()
}

fn random(millis: u64) -> Uuid {
    let nanos = (millis % 1000) as u32 * 1_000_000;
    Uuid::new_v7(Timestamp::from_unix(NoContext, millis / 1000, nanos))
}

/// Checks an entry, usage or session id: Unicode text, not empty, without U+0000.
pub(crate) fn check_id(id: &str) -> Result<()> {
    if id.is_empty() {
        return Err(Error::new(ErrorKind::InvalidId, "an id must not be empty"));
    }
    if id.contains('\0') {
        return Err(Error::new(ErrorKind::InvalidId, "an id must not contain U+0000").with_id(id));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_increase_and_are_version_seven() {
        let ids = UuidV7::default();
        let made: Vec<String> = (0..1000).map(|_| ids.next(None)).collect();
        assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(made.iter().all(|id| Uuid::parse_str(id).unwrap().get_version_num() == 7));
    }

    #[test]
    fn a_given_time_is_the_prefix() {
        assert!(UuidV7::default().next(Some(0x0123_4567_89ab)).starts_with("01234567-89ab-7"));
    }
}
