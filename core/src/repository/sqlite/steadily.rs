//! Reading a file that others may be closing or deleting at this very moment: what lies beside it then goes
//! between two steps of opening it.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::unistd::{AccessFlags, access};

use crate::error::{Error, ErrorKind, Result};
use crate::repository::file_name::with_ending;
use crate::repository::files::{PAUSE, file_at};
use crate::repository::sqlite::databases::FileId;

/// How often a file is opened for reading that changes while it is opened.
const ATTEMPTS: usize = 16;
/// How long a change of a folder may be ago that its time does not tell from another: no less than a tick of
/// the clock that file systems use.
const RECENT: Duration = Duration::from_millis(20);

/// Runs `look`, which opens the file at `path`; again if it failed while something was done to the file or
/// beside it, as long as the file is there.
pub(super) fn steadily<T>(path: &Path, look: impl Fn() -> Result<T>) -> Result<T> {
    let mut before = Surroundings::of(path)?;
    for _ in 1..ATTEMPTS {
        match look() {
            Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::FileChanged) => {
                let now = Surroundings::of(path)?;
                if now.file.is_none() {
                    return Err(Error::new(ErrorKind::UnknownSession, "the session was deleted meanwhile")
                        .with_path(path));
                }
                let may_have_changed = now != before || now.changed_just_now();
                if !may_have_changed || access(path, AccessFlags::R_OK).is_err() {
                    return Err(error);
                }
                before = now;
            }
            looked => return looked,
        }
        std::thread::sleep(PAUSE);
    }
    look()
}

/// What changes when somebody opens, closes, replaces or deletes the file.
#[derive(PartialEq, Eq)]
struct Surroundings {
    file: Option<FileId>,
    has_wal: bool,
    has_shm: bool,
    /// When a name in the folder came or went: one may have done both meanwhile.
    folder_changed: Option<SystemTime>,
}

impl Surroundings {
    fn of(path: &Path) -> Result<Self> {
        let is_there = |ending| Ok(file_at(&with_ending(path, ending))?.is_some());
        let folder = path.parent().and_then(|folder| fs::metadata(folder).ok());
        Ok(Self {
            file: file_at(path)?.map(|there| FileId::from(&there)),
            has_wal: is_there("-wal")?,
            has_shm: is_there("-shm")?,
            folder_changed: folder.and_then(|folder| folder.modified().ok()),
        })
    }

    fn changed_just_now(&self) -> bool {
        // A time to come is none that a change between two looks had.
        self.folder_changed.is_some_and(|changed| changed.elapsed().is_ok_and(|ago| ago < RECENT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    /// A file in a folder where nothing was done for an hour.
    fn quiet() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sqlite");
        fs::write(&path, "").unwrap();
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::File::open(folder.path()).unwrap().set_modified(hour_ago).unwrap();
        (folder, path)
    }

    fn failed() -> Error {
        Error::new(ErrorKind::Io, "cannot open")
    }

    #[test]
    fn what_fails_where_nothing_changes_is_tried_once() {
        let (_folder, path) = quiet();
        for kind in [ErrorKind::Io, ErrorKind::FileChanged, ErrorKind::Corrupt, ErrorKind::NotASession] {
            let tries = Cell::new(0);
            let error = steadily(&path, || {
                tries.set(tries.get() + 1);
                Err::<(), _>(Error::new(kind, "no"))
            });
            assert_eq!((error.unwrap_err().kind(), tries.get()), (kind, 1));
        }
    }

    #[test]
    fn an_unreadable_file_is_tried_once_also_where_much_is_done() {
        let (_folder, path) = quiet();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        if access(&path, AccessFlags::R_OK).is_ok() {
            eprintln!("skipped: whoever runs this may read every file");
            return;
        }
        let tries = Cell::new(0);
        let error = steadily(&path, || {
            tries.set(tries.get() + 1);
            fs::write(with_ending(&path, &format!("-{}", tries.get())), "").unwrap();
            Err::<(), _>(failed())
        });
        assert_eq!((error.unwrap_err().kind(), tries.get()), (ErrorKind::Io, 1));
    }

    #[test]
    fn what_fails_while_something_is_done_beside_it_is_tried_again() {
        type Step = fn(&Path);
        let steps: [(&str, Step); 4] = [
            ("the log comes", |path| fs::write(with_ending(path, "-wal"), "").unwrap()),
            ("the log's index comes", |path| fs::write(with_ending(path, "-shm"), "").unwrap()),
            ("the log comes and goes", |path| {
                fs::write(with_ending(path, "-wal"), "").unwrap();
                fs::remove_file(with_ending(path, "-wal")).unwrap();
            }),
            ("the file is replaced", |path| {
                fs::write(with_ending(path, ".new"), "").unwrap();
                fs::rename(with_ending(path, ".new"), path).unwrap();
            }),
        ];
        for (what, step) in steps {
            let (_folder, path) = quiet();
            let tries = Cell::new(0);
            let looked = steadily(&path, || {
                tries.set(tries.get() + 1);
                if tries.get() > 1 {
                    return Ok("there");
                }
                step(&path);
                Err(failed())
            });
            assert_eq!((looked.unwrap(), tries.get()), ("there", 2), "{what}");
        }
    }

    #[test]
    fn a_file_that_is_deleted_meanwhile_is_no_session() {
        let (_folder, path) = quiet();
        let error = steadily(&path, || {
            fs::remove_file(&path).unwrap();
            Err::<(), _>(failed())
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::UnknownSession);
    }

    #[test]
    fn a_file_that_changes_for_ever_is_given_up() {
        let (_folder, path) = quiet();
        let tries = Cell::new(0);
        let error = steadily(&path, || {
            tries.set(tries.get() + 1);
            fs::write(with_ending(&path, &format!("-{}", tries.get())), "").unwrap();
            Err::<(), _>(failed())
        });
        assert_eq!((error.unwrap_err().kind(), tries.get()), (ErrorKind::Io, ATTEMPTS));
    }
}
