//! Where a session's JSONL file lies: a folder per working folder, a file per session. Both are made from
//! text that never becomes a path.

use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::error::{Error, ErrorKind, Result};

/// How long a file name may be, in bytes.
const LONGEST: usize = 255;
/// How the name of a session's file ends.
pub(crate) const ENDING: &str = ".jsonl";

/// `cwd` made absolute, without `.` and `..`; none stands for the current folder. A folder of Windows is kept
/// as it stands: its session comes from there, and has nothing to do with a folder here.
pub(crate) fn absolute(cwd: Option<&str>) -> Result<String> {
    if let Some(cwd) = cwd.filter(|cwd| is_of_windows(cwd)) {
        return Ok(cwd.to_owned());
    }
    let current = || {
        std::env::current_dir().map_err(|error| {
            Error::io("cannot tell the current folder", error).with_hint("give the session a cwd of its own")
        })
    };
    let given = Path::new(cwd.unwrap_or_default());
    let path = if given.is_absolute() { given.to_owned() } else { current()?.join(given) };
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out.into_os_string().into_string().map_err(|path| {
        Error::new(ErrorKind::InvalidArgument, format!("the working folder {} is not UTF-8", path.display()))
            .with_hint("give the session a cwd of its own")
    })
}

/// Whether it is an absolute folder as Windows spells it: `C:\...`, `C:/...` or `\\server\...`.
fn is_of_windows(cwd: &str) -> bool {
    match cwd.as_bytes() {
        [b'\\', b'\\', ..] => true,
        [drive, b':', b'\\' | b'/', ..] => drive.is_ascii_alphabetic(),
        _ => false,
    }
}

/// The name of the folder for sessions of the working folder `cwd`, which is absolute.
pub(crate) fn folder(cwd: &str) -> String {
    let inner: String = cwd
        .strip_prefix(['/', '\\'])
        .unwrap_or(cwd)
        .chars()
        .map(|char| if matches!(char, '/' | '\\' | ':') { '-' } else { char })
        .collect();
    let name = format!("--{inner}--");
    if name.len() <= LONGEST {
        return name;
    }
    // Longer than a file name can be: the beginning, and what tells it from others that begin so.
    let mark =
        Sha256::digest(cwd.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>();
    let kept = (0..=LONGEST - mark.len() - 5).rev().find(|end| inner.is_char_boundary(*end)).unwrap_or(0);
    format!("--{}-{mark}--", &inner[..kept])
}

/// The name of the file of the session `id` that was made at `created_at`.
pub(crate) fn file(id: &str, created_at: i64) -> Result<String> {
    let name = format!("{}_{}{ENDING}", time_in_name(created_at)?, encode(id));
    // The lock file's name is longer than the file's.
    if name.len() + ".lock".len() > LONGEST {
        return Err(Error::new(
            ErrorKind::InvalidId,
            format!(
                "the session id is too long: its file name would have {} bytes, and {LONGEST} are the most",
                name.len() + 5
            ),
        )
        .with_id(id)
        .with_hint("choose a shorter id"));
    }
    Ok(name)
}

/// How the name of a lock ends that reserves an id. No other file's does.
pub(crate) const RESERVATION: &str = ".new.lock";

/// The name of the lock that reserves the id of a session that is being made.
pub(crate) fn reservation(id: &str) -> String {
    encode(id) + RESERVATION
}

/// Whether a file of that name may be the session `id`: it says so, or says no id at all.
pub(crate) fn may_be(name: &str, id: &str) -> bool {
    const TIME: &str = "0000-00-00T00-00-00-000Z";
    let shape = |text: &str| text.replace(|digit: char| digit.is_ascii_digit(), "0");
    match name.strip_suffix(ENDING).and_then(|stem| stem.split_once('_')) {
        Some((time, encoded)) if shape(time) == TIME => encoded == encode(id),
        _ => true,
    }
}

/// What the name of a session's file says: when the session was made, and its id.
pub(crate) fn read(name: &str) -> Option<(i64, String)> {
    let (time, id) = name.strip_suffix(ENDING)?.split_once('_')?;
    let format = format_description!("[year]-[month]-[day]T[hour]-[minute]-[second]-[subsecond digits:3]Z");
    let time = PrimitiveDateTime::parse(time, format).ok()?.assume_utc();
    let id = decode(id).filter(|id| !id.is_empty())?;
    i64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok().map(|time| (time, id))
}

fn decode(encoded: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

fn time_in_name(created_at: i64) -> Result<String> {
    let format = format_description!("[year]-[month]-[day]T[hour]-[minute]-[second]-[subsecond digits:3]Z");
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(created_at) * 1_000_000)
        .ok()
        .and_then(|time| time.format(&format).ok())
        .ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("the clock says {created_at} ms, which is no time of a calendar"),
            )
            .with_hint("a clock gives milliseconds since 1970")
        })
}

/// ECMAScript's `encodeURIComponent`.
fn encode(id: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_and_others_say_nothing() {
        for id in ["s", "a/b", "x_y", "ä%2F", "…"] {
            let name = file(id, 1_750_000_001_234).unwrap();
            assert_eq!(read(&name), Some((1_750_000_001_234, id.to_owned())));
        }
        for name in [
            "s.jsonl",
            "2025_s.jsonl",
            "2025-06-15T15-06-41-234Z_.jsonl",
            "2025-06-15T15-06-41-234Z_%ff.jsonl",
        ] {
            assert_eq!(read(name), None, "{name}");
        }
    }

    fn place(id: &str, cwd: &str, created_at: i64) -> String {
        format!("{}/{}", folder(&absolute(Some(cwd)).unwrap()), file(id, created_at).unwrap())
    }

    #[test]
    fn files_lie_where_the_format_says() {
        for (id, cwd, created_at, path) in [
            ("plain", "/a/b", 1_750_000_001_000, "--a-b--/2025-06-15T15-06-41-000Z_plain.jsonl"),
            (
                "with space/slash:colon",
                "/a/b",
                0,
                "--a-b--/1970-01-01T00-00-00-000Z_with%20space%2Fslash%3Acolon.jsonl",
            ),
            (
                "\u{fc}n\u{ef}-\u{6f22}",
                "/a-b",
                1,
                "--a-b--/1970-01-01T00-00-00-001Z_%C3%BCn%C3%AF-%E6%BC%A2.jsonl",
            ),
            ("..", "/e", 0, "--e--/1970-01-01T00-00-00-000Z_...jsonl"),
            ("it's", "/x/../y/./z", 0, "--y-z--/1970-01-01T00-00-00-000Z_it's.jsonl"),
            ("root", "/", 0, "----/1970-01-01T00-00-00-000Z_root.jsonl"),
            ("drive", "C:\\Users\\x", 0, "--C--Users-x--/1970-01-01T00-00-00-000Z_drive.jsonl"),
            ("drive", "c:/x/../y", 0, "--c--x-..-y--/1970-01-01T00-00-00-000Z_drive.jsonl"),
            ("share", "\\\\server\\x", 0, "---server-x--/1970-01-01T00-00-00-000Z_share.jsonl"),
        ] {
            assert_eq!(place(id, cwd, created_at), path);
        }
        assert_eq!(absolute(Some("C:\\Users\\x")).unwrap(), "C:\\Users\\x");
        assert!(absolute(Some("C:x")).unwrap().ends_with("/C:x"), "that is no absolute folder there, either");
    }

    #[test]
    fn a_name_tells_whose_file_it_is() {
        for (name, id, may) in [
            ("2025-06-15T15-06-41-000Z_a_b.jsonl", "a_b", true),
            ("2025-06-15T15-06-41-000Z_a_b.jsonl", "b", false),
            ("2025-06-15T15-06-41-000Z_a%2Fb.jsonl", "a/b", true),
            ("renamed_b.jsonl", "a", true),
            ("renamed.jsonl", "a", true),
        ] {
            assert_eq!(may_be(name, id), may, "{name} {id}");
        }
    }

    #[test]
    fn long_names_are_shortened_or_refused() {
        let (one, other) =
            (folder(&format!("/{}1", "é".repeat(300))), folder(&format!("/{}2", "é".repeat(300))));
        assert!(one.len() <= LONGEST && other.len() <= LONGEST && one != other);
        assert_eq!(file(&"x".repeat(300), 0).unwrap_err().kind(), ErrorKind::InvalidId);
        assert!(file(&"x".repeat(215), 0).is_ok());
        assert_eq!(file("x", i64::MAX).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
