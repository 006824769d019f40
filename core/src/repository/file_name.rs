//! Session ids as parts of file names. An id never becomes a path: whatever is not plain is encoded.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::error::{Error, ErrorKind, Result};
use crate::model::id::check_id;
use crate::storage::sqlite::TEMPORARY_SUFFIX;

/// How the name of a session's file ends.
pub(crate) const SESSION: &str = ".sqlite";
/// How the name of a lock file ends, appended to the name of what it locks.
pub(crate) const LOCK: &str = ".lock";
/// How the name of a file of JSON lines ends that is being made, appended to the name it will have.
pub(crate) const DRAFT: &str = ".new";
/// What SQLite appends to a database's name for the files beside it.
pub(crate) const SIDE_FILES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// How long a file name may be, in bytes.
const LONGEST: usize = 255;
/// The longest that is appended to an encoded id: `.sqlite.0123456789ab.new-wal`.
const LONGEST_ENDING: usize = 28;

/// The id as part of a file name: itself if it has only ASCII letters, digits, `_` and `-`, else `~` and the
/// unpadded base64url of its UTF-16LE code units. Two ids never give one name.
pub(crate) fn encode(id: &str) -> Result<String> {
    check_id(id)?;
    let is_plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let encoded = if is_plain {
        id.to_owned()
    } else {
        let units: Vec<u8> = id.encode_utf16().flat_map(u16::to_le_bytes).collect();
        format!("~{}", URL_SAFE_NO_PAD.encode(units))
    };
    if encoded.len() > LONGEST - LONGEST_ENDING {
        return Err(Error::new(
            ErrorKind::InvalidId,
            format!(
                "the session id is too long: as a file name it has {} bytes, and {} are the most",
                encoded.len() + LONGEST_ENDING,
                LONGEST
            ),
        )
        .with_id(id)
        .with_hint("choose a shorter id"));
    }
    Ok(encoded)
}

/// The lock of the session `id` in the database `file`: one for whoever opens the file, as a session of a
/// folder or as a container. Beside the file if that is named after the session, else in a folder of its own.
pub(crate) fn lock_path(file: &Path, id: &str) -> Result<PathBuf> {
    let encoded = encode(id)?;
    let is_own_file = file.file_name().is_some_and(|name| *name == *format!("{encoded}{SESSION}"));
    if is_own_file {
        return Ok(with_ending(file, LOCK));
    }
    Ok(locks_folder(file).join(encoded + LOCK))
}

/// Where the locks of the sessions are that the database `file` is not named after.
pub(crate) fn locks_folder(file: &Path) -> PathBuf {
    with_ending(file, ".locks")
}

/// The final name of the database file that is being made under this name, or of which this is a side file
/// under that name; none if the name is not of that kind.
pub(crate) fn target_of_draft(name: &str) -> Option<&str> {
    let draft = SIDE_FILES.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    let (target, random) = draft.strip_suffix(TEMPORARY_SUFFIX)?.rsplit_once('.')?;
    let is_random = random.len() == 12 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_random && !target.is_empty()).then_some(target)
}

/// `path` with `ending` appended to its last part.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_ids_are_their_own_names_and_others_are_encoded() {
        for (id, name) in [
            ("0192f0c1-7f3e-7abc-8def-0123456789ab", "0192f0c1-7f3e-7abc-8def-0123456789ab"),
            ("A_b-9", "A_b-9"),
            ("..", "~LgAuAA"),
            (".", "~LgA"),
            ("a/b", "~YQAvAGIA"),
            ("~a", "~fgBhAA"),
            ("é", "~6QA"),
            ("\u{10000}", "~ANgA3A"),
        ] {
            assert_eq!(encode(id).unwrap(), name, "{id}");
        }
    }

    #[test]
    fn only_a_draft_has_a_target() {
        for name in ["a.sqlite.0123456789ab.new", "a.sqlite.0123456789ab.new-wal"] {
            assert_eq!(target_of_draft(name), Some("a.sqlite"), "{name}");
        }
        for name in
            ["a.sqlite", "a.sqlite-wal", "a.new", "a.sqlite.new", "a.sqlite.0123.new", ".0123456789ab.new"]
        {
            assert_eq!(target_of_draft(name), None, "{name}");
        }
    }

    #[test]
    fn every_name_made_from_an_id_fits_a_file_name() {
        assert_eq!(encode(&"a".repeat(227)).unwrap().len(), 227);
        for id in ["".to_owned(), "a\0b".to_owned(), "a".repeat(228), "é".repeat(86)] {
            assert_eq!(encode(&id).unwrap_err().kind(), ErrorKind::InvalidId, "{id}");
        }
    }
}
