//! What one page says of the session in a file, without SQLite: a folder of thousands can be asked.
//!
//! Only a file that nobody writes says it: one without a log beside it, that is the same before and after.
//! Of any other, and whenever something is not as expected, nothing is told, and SQLite is asked. Whoever
//! opens a file asks the database itself.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::guard::{Seen, beside, identity, is_guarded};
use super::header;
use super::schema::WHOLE;
use super::{Schema, StoredSession};
use crate::session::backend::SessionMetadata;

const PAGE: usize = 4096;
/// Where the sizes of a page stand in the header: big-endian, then what of a page is not used.
const PAGE_SIZE_AT: usize = 16;
const RESERVED_AT: usize = 20;
/// What a page begins with that holds rows of a table.
const TABLE_LEAF: u8 = 13;
/// The longest row that is whole on its page.
const LONGEST_ROW: u64 = PAGE as u64 - 35;
/// How many columns the table of sessions has, and no other table.
const COLUMNS: usize = 23;

/// The id of the one session in a file; none if that cannot be told without opening the database. Only to be
/// believed where it says that a session is elsewhere.
pub(crate) fn session_id(path: &Path) -> Option<String> {
    let file = open(path, &std::fs::symlink_metadata(path).ok()?)?;
    let page = page_of_sessions(&file, path)?;
    row_in(&page)?.text(1).map(str::to_owned)
}

/// The one session in a file that nobody writes, without its name.
pub(crate) fn session(path: &Path) -> Option<StoredSession> {
    let before = std::fs::symlink_metadata(path).ok()?;
    let file = open(path, &before)?;
    if has_log(path) {
        return None;
    }
    let page = page_of_sessions(&file, path)?;
    let is_unchanged = Seen::of(&before) == Seen::of(&file.metadata().ok()?) && !has_log(path);
    if !is_unchanged {
        return None;
    }
    stored(&row_in(&page)?)
}

fn open(path: &Path, there: &Metadata) -> Option<File> {
    // Closing a descriptor drops the process's POSIX locks: a file that is open here is not touched.
    if is_guarded(identity(there)) {
        return None;
    }
    let no_links = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    OpenOptions::new().read(true).custom_flags(no_links.bits()).open(path).ok()
}

/// Whether something lies beside the file that changes what it says; also if that cannot be told.
fn has_log(path: &Path) -> bool {
    ["-wal", "-journal"].iter().any(|suffix| beside(path, suffix).try_exists().unwrap_or(true))
}

/// The table of sessions is made first, so that its root is the second page, and one row has room there
/// (what is long of it follows on other pages, behind the id).
fn page_of_sessions(file: &File, path: &Path) -> Option<Vec<u8>> {
    let mut pages = vec![0; 2 * PAGE];
    file.read_exact_at(&mut pages, 0).ok()?;
    let first = &pages[..PAGE];
    header::check(&first[..100], path).ok()?;
    let size = u16::from_be_bytes([first[PAGE_SIZE_AT], first[PAGE_SIZE_AT + 1]]);
    if usize::from(size) != PAGE || first[RESERVED_AT] != 0 {
        return None;
    }
    Some(pages.split_off(PAGE))
}

/// The one row on a page of the table of sessions.
fn row_in(page: &[u8]) -> Option<Row<'_>> {
    let cells = u16::from_be_bytes([page[3], page[4]]);
    if page[0] != TABLE_LEAF || cells != 1 {
        return None;
    }
    let cell = page.get(usize::from(u16::from_be_bytes([page[8], page[9]]))..)?;
    let (length, cell) = variable(cell)?;
    let (_sid, row) = variable(cell)?;
    Row::of(row, length)
}

/// One row, as far as it stands on its page: the kinds of its columns and what they hold.
struct Row<'a> {
    kinds: [u64; COLUMNS],
    values: &'a [u8],
    is_whole: bool,
}

impl<'a> Row<'a> {
    fn of(bytes: &'a [u8], length: u64) -> Option<Self> {
        let (length_of_kinds, rest) = variable(bytes)?;
        let begin = usize::try_from(length_of_kinds).ok()?;
        let mut rest = bytes.get(bytes.len() - rest.len()..begin)?;
        let mut kinds = [0; COLUMNS];
        for kind in &mut kinds {
            (*kind, rest) = variable(rest)?;
        }
        let is_whole = length <= LONGEST_ROW;
        rest.is_empty().then_some(Self { kinds, values: &bytes[begin..], is_whole })
    }

    /// The kind and the bytes of a column.
    fn value(&self, column: usize) -> Option<(u64, &'a [u8])> {
        let mut begin: usize = 0;
        for kind in &self.kinds[..column] {
            begin = begin.checked_add(length_of(*kind)?)?;
        }
        let kind = self.kinds[column];
        Some((kind, self.values.get(begin..begin.checked_add(length_of(kind)?)?)?))
    }

    fn text(&self, column: usize) -> Option<&'a str> {
        match self.value(column)? {
            (kind, bytes) if kind >= 13 && kind % 2 == 1 => str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    fn text_or_null(&self, column: usize) -> Option<Option<String>> {
        match self.kinds[column] {
            0 => Some(None),
            _ => self.text(column).map(|text| Some(text.to_owned())),
        }
    }

    fn integer(&self, column: usize) -> Option<i64> {
        match self.value(column)? {
            (8, _) => Some(0),
            (9, _) => Some(1),
            (1..=6, bytes) => {
                let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
                Some(bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
            }
            _ => None,
        }
    }
}

/// How many bytes a value of that kind takes.
fn length_of(kind: u64) -> Option<usize> {
    match kind {
        0 | 8 | 9 => Some(0),
        1..=4 => usize::try_from(kind).ok(),
        5 => Some(6),
        6 | 7 => Some(8),
        10 | 11 => None,
        _ => usize::try_from((kind - 12) / 2).ok(),
    }
}

/// The columns as `schema` orders them; the first is the row's number and takes no room.
fn stored(row: &Row<'_>) -> Option<StoredSession> {
    if !row.is_whole || row.kinds[0] != 0 || row.integer(2)? != WHOLE {
        return None;
    }
    Some(StoredSession {
        metadata: SessionMetadata {
            id: row.text(1)?.to_owned(),
            created_at: row.integer(3)?,
            storage_version: u32::try_from(row.integer(4)?).ok()?,
            cwd: row.text_or_null(5)?,
            parent_session_id: row.text_or_null(6)?,
            legacy_parent_session_path: row.text_or_null(7)?,
            path: None,
        },
        modified_at: row.integer(8)?,
        name: None,
        message_count: u64::try_from(row.integer(10)?).ok()?,
        schema: Schema::Ours,
    })
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
    use crate::repository::Durability;
    use crate::storage::sqlite::tests::{Kept, append, ctx};
    use crate::storage::sqlite::{Access, Database};

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
                Database::create(&path, Some(&metadata(id, cwd)), Durability::Power, &ctx()).unwrap();
                assert_eq!(session_id(&path).as_deref(), Some(id), "{cwd}");
            }
        }
    }

    /// What SQLite says of the sessions in a file.
    fn asked(path: &Path) -> Vec<StoredSession> {
        let wait = std::time::Duration::ZERO;
        let database = Database::open(path, Access::Read, Durability::Process, wait, &ctx()).unwrap();
        let sessions = database.sessions(false, &ctx()).unwrap();
        database.close().unwrap();
        sessions
    }

    #[test]
    fn a_session_is_told_of_as_sqlite_tells_of_it() {
        let folder = tempfile::tempdir().unwrap();
        for (n, id) in ["a", "é\u{10000}", &"long".repeat(60)].into_iter().enumerate() {
            for created_at in [0, 1, -1, 127, -129, 70_000, 1 << 40, i64::MIN, i64::MAX] {
                for cwd in [None, Some(0), Some(3_000)] {
                    let path = folder.path().join(format!("{n}-{created_at}-{cwd:?}"));
                    let cwd = cwd.map(|length| "c".repeat(length));
                    let metadata = SessionMetadata { created_at, cwd, ..metadata(id, 0) };
                    Database::create(&path, Some(&metadata), Durability::Power, &ctx()).unwrap();
                    assert_eq!(session(&path).map(|told| vec![told]), Some(asked(&path)));
                }
            }
        }
        let kept = Kept::new();
        for count in 1..300 {
            kept.append(&count.to_string(), None, 10);
        }
        kept.close();
        let told = session(&kept.path).unwrap();
        assert_eq!(told.message_count, 299);
        assert_eq!(vec![told], asked(&kept.path));
    }

    #[test]
    fn a_row_that_is_not_whole_on_its_page_is_left_to_sqlite() {
        let folder = tempfile::tempdir().unwrap();
        let mut told = 0;
        for cwd in 3_900..4_100 {
            let path = folder.path().join(cwd.to_string());
            Database::create(&path, Some(&metadata("a", cwd)), Durability::Power, &ctx()).unwrap();
            if let Some(session) = session(&path) {
                assert_eq!(session.metadata, metadata("a", cwd));
                told += 1;
            }
        }
        assert!((1..200).contains(&told), "{told}");
    }

    #[test]
    fn a_file_that_may_be_written_is_left_to_sqlite() {
        let kept = Kept::new();
        kept.commit(&append("1", None, 10));
        assert_eq!(session(&kept.path), None, "it is open here");
        kept.close();
        assert!(session(&kept.path).is_some());
        for suffix in ["-wal", "-journal"] {
            let log = kept.beside(suffix);
            std::fs::write(&log, "").unwrap();
            assert_eq!(session(&kept.path), None, "{suffix}");
            std::fs::remove_file(log).unwrap();
        }
        let link = kept.beside("-link");
        std::os::unix::fs::symlink(&kept.path, &link).unwrap();
        assert_eq!(session(&link), None);
    }

    #[test]
    fn nothing_is_told_of_what_is_no_file_of_one_session() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("container");
        Database::create(&path, None, Durability::Power, &ctx()).unwrap();
        assert_eq!((session_id(&path), session(&path)), (None, None));
        let whole = std::fs::read(&path).unwrap();
        for length in [0, 1, 99, 100, 4_096, 8_191] {
            let path = folder.path().join(format!("{length}"));
            std::fs::write(&path, &whole[..length]).unwrap();
            assert_eq!((session_id(&path), session(&path)), (None, None), "{length}");
        }
        assert_eq!(session_id(&folder.path().join("missing")), None);
        assert_eq!(session_id(folder.path()), None);
    }

    #[test]
    fn whatever_the_page_holds_it_is_read_without_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        Database::create(&path, Some(&metadata("a", 10)), Durability::Power, &ctx()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let damaged = folder.path().join("damaged");
        for at in (PAGE..PAGE + 12).chain(2 * PAGE - 100..2 * PAGE) {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                std::fs::write(&damaged, bytes).unwrap();
                assert!(session_id(&damaged).is_none_or(|id| id.len() < PAGE), "{at} {byte}");
                assert!(session(&damaged).is_none_or(|told| told.metadata.id.len() < PAGE), "{at} {byte}");
            }
        }
    }
}
