//! Whose session is in a file? Read from one page, without SQLite: a folder of thousands can be asked.
//!
//! What is found here is only believed where it says that a session is elsewhere. Whoever opens the file
//! asks the database itself.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::guard::{identity, is_guarded};
use super::header;

const PAGE: usize = 4096;
/// Where the sizes of a page stand in the header; big-endian.
const PAGE_SIZE_AT: usize = 16;
/// What a page begins with that holds rows of a table.
const TABLE_LEAF: u8 = 13;

/// The id of the one session in a file; none if that cannot be told without opening the database.
pub(crate) fn session_id(path: &Path) -> Option<String> {
    // Closing a descriptor drops the process's POSIX locks: a file that is open here is not touched.
    if is_guarded(identity(&std::fs::symlink_metadata(path).ok()?)) {
        return None;
    }
    let no_links = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(no_links.bits()).open(path).ok()?;
    id_in(&file, path)
}

/// The table of sessions is made first, so that its root is the second page, and one row has room there
/// (what is long of it follows on other pages, behind the id).
fn id_in(file: &File, path: &Path) -> Option<String> {
    let mut pages = vec![0; 2 * PAGE];
    file.read_exact_at(&mut pages, 0).ok()?;
    let (first, second) = pages.split_at(PAGE);
    header::check(&first[..100], path).ok()?;
    let size = u16::from_be_bytes([first[PAGE_SIZE_AT], first[PAGE_SIZE_AT + 1]]);
    let cells = u16::from_be_bytes([second[3], second[4]]);
    if usize::from(size) != PAGE || second[0] != TABLE_LEAF || cells != 1 {
        return None;
    }
    let cell = second.get(usize::from(u16::from_be_bytes([second[8], second[9]]))..)?;
    let (_size_of_row, cell) = variable(cell)?;
    let (_sid, row) = variable(cell)?;
    let (size_of_header, columns) = variable(row)?;
    // The first column is the row's number and takes no room.
    let (0, columns) = variable(columns)? else { return None };
    let (kind, _) = variable(columns)?;
    let length = kind.checked_sub(13).filter(|twice| twice % 2 == 0)? / 2;
    let begin = usize::try_from(size_of_header).ok()?;
    let id = row.get(begin..begin.checked_add(usize::try_from(length).ok()?)?)?;
    String::from_utf8(id.to_vec()).ok()
}

/// The number that `bytes` begins with, in SQLite's variable length, and the bytes behind it.
fn variable(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(8) {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::session::backend::SessionMetadata;
    use crate::storage::sqlite::Database;

    fn metadata(id: &str, cwd: usize) -> SessionMetadata {
        SessionMetadata {
            id: id.to_owned(),
            created_at: 1_700_000_000_000,
            storage_version: 1,
            cwd: Some("c".repeat(cwd)),
            parent_session_id: Some("parent".to_owned()),
            legacy_parent_session_path: None,
            path: None,
        }
    }

    #[test]
    fn the_id_of_a_session_is_read_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        for (n, id) in ["a", "é\u{10000}", &"x".repeat(50), &"long".repeat(60)].into_iter().enumerate() {
            for cwd in [0, 100, 5_000, 100_000] {
                let path = folder.path().join(format!("{n}-{cwd}"));
                Database::create(&path, Some(&metadata(id, cwd)), &Context::background()).unwrap();
                assert_eq!(session_id(&path).as_deref(), Some(id), "{cwd}");
            }
        }
    }

    #[test]
    fn nothing_is_told_of_what_is_no_file_of_one_session() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("container");
        Database::create(&path, None, &Context::background()).unwrap();
        assert_eq!(session_id(&path), None);
        let whole = std::fs::read(&path).unwrap();
        for length in [0, 1, 99, 100, 4_096, 8_191] {
            let path = folder.path().join(format!("{length}"));
            std::fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(session_id(&path), None, "{length}");
        }
        assert_eq!(session_id(&folder.path().join("missing")), None);
        assert_eq!(session_id(folder.path()), None);
    }

    #[test]
    fn whatever_the_page_holds_it_is_read_without_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        Database::create(&path, Some(&metadata("a", 10)), &Context::background()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let damaged = folder.path().join("damaged");
        for at in (PAGE..PAGE + 12).chain(2 * PAGE - 100..2 * PAGE) {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                std::fs::write(&damaged, bytes).unwrap();
                assert!(session_id(&damaged).is_none_or(|id| id.len() < PAGE), "{at} {byte}");
            }
        }
    }
}
