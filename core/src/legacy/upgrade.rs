//! Upgrade: the old file rewritten as format 4, in its place.
//!
//! In this order, so that a crash at any point leaves the old file or the new one whole, and the old bytes
//! always under some name: the new file under a name of its own, whole and synced; the old file under a second
//! name, synced; the new file over the first name. The second name is a hard link: what a program that still
//! has the old file open writes to it lands there and is not lost.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::folder::sync_name;
use crate::legacy::writes::Source;
use crate::legacy::{Legacy, OldFile, import, read_whole};
use crate::model::id::{UuidV7, check_id};
use crate::repository::file_name::with_ending;
use crate::repository::{Durability, OpenOptions};
use crate::session::Session;
use crate::session::backend::LocalSession;
use crate::storage::jsonl::header::Header;
use crate::storage::jsonl::lines::keep_owner;
use crate::storage::jsonl::{JsonlOptions, JsonlStorage};

/// How the name of a file that is to take the place of an old one ends.
pub(crate) const DRAFT: &str = ".upgrade.new";

/// Rewrites the old file at `path`, whose lock is held, and opens it. Whatever fails, the old file stays.
pub(crate) fn upgrade(
    path: &Path,
    options: &OpenOptions,
    storage: JsonlOptions,
    ctx: &Context,
) -> Result<(JsonlStorage, Legacy)> {
    let mut file = read_whole(path, options.strict, &|_| (), ctx)?;
    file.check_may_be_written(options.salvage)?;
    check_id(&file.metadata.id)?;
    check_writable(path)?;
    let draft = Draft::write(path, &file, &storage, ctx)?;
    // Read whole before it takes the place of anything.
    let storage = JsonlStorage::open(&draft.0, storage)?;
    file.storage.check_unchanged()?;
    let backup = Backup::make(path, &file, ctx)?;
    let replaced = ctx.check().and_then(|()| file.storage.check_unchanged()).and_then(|()| {
        fs::rename(&draft.0, path).map_err(|error| {
            Error::io("cannot put the upgraded file in the place of the old one", error).with_path(path)
        })
    });
    if let Err(error) = replaced {
        backup.take_back();
        return Err(error);
    }
    if let Err(error) = sync_name(path) {
        return Err(backup.put_back(path, error));
    }
    file.legacy.backup = Some(backup.path);
    Ok((storage.renamed_to(path), file.legacy))
}

/// Refuses a file that could be replaced and then not be written.
fn check_writable(path: &Path) -> Result<()> {
    fs::OpenOptions::new().append(true).open(path).map(drop).map_err(|error| {
        Error::io("the session file may not be written", error)
            .with_path(path)
            .with_hint("open it with the legacy policy `copy`; the file was not touched")
    })
}

/// The new file under the name it is made with. Dropped, it is removed, unless it has its final name by then.
struct Draft(PathBuf);

impl Draft {
    /// Writes the new file whole, and syncs it.
    fn write(path: &Path, old: &OldFile, options: &JsonlOptions, ctx: &Context) -> Result<Self> {
        let draft = with_ending(path, DRAFT);
        let failed = |error| Error::io("cannot write the upgraded file", error).with_path(&draft);
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
        let draft = Self(draft.clone());
        file.write_all(Header::new(old.metadata.clone()).to_line().as_bytes()).map_err(failed)?;
        // Nobody is told of these commits: all are synced together.
        let storage =
            JsonlOptions { durability: Durability::Process, compact_on_close: false, ..options.clone() };
        let storage = JsonlStorage::open(&draft.0, storage)?;
        let session = Session::new(Arc::new(LocalSession::new(
            storage.metadata(),
            Arc::new(UuidV7::default()),
            Box::new(storage),
            None,
            None,
        )));
        import::write(&Source::new(old), &session, 0, &|_| (), ctx)?;
        session.close(ctx)?;
        keep_owner(&old.storage.file, &file).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::debug!(%error, path = %self.0.display(), "an unfinished file was left behind");
            }
            _ => {}
        }
    }
}

/// The old file under a name that stays.
struct Backup {
    path: PathBuf,
    /// Whether it was made here, and was not there before.
    made: bool,
}

impl Backup {
    /// Never over another file: one that holds the same bytes will do, otherwise the next free name.
    fn make(path: &Path, old: &OldFile, ctx: &Context) -> Result<Self> {
        let version = old.legacy.version;
        let mut backup = Self { path: with_ending(path, &format!(".v{version}.bak")), made: true };
        let mut number = 1;
        loop {
            ctx.check()?;
            match fs::hard_link(path, &backup.path) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if backup.holds(old)? {
                        backup.made = false;
                        break;
                    }
                    number += 1;
                    backup.path = with_ending(path, &format!(".v{version}.{number}.bak"));
                }
                Err(error) => {
                    return Err(Error::io("cannot keep the old file under a second name", error)
                        .with_path(&backup.path)
                        .with_hint("open it with the legacy policy `copy`; the file was not touched"));
                }
            }
        }
        let synced = File::open(&backup.path).and_then(|file| file.sync_all());
        let synced = synced
            .map_err(|error| Error::io("cannot sync the kept old file", error).with_path(&backup.path))
            .and_then(|()| sync_name(&backup.path));
        if let Err(error) = synced {
            backup.take_back();
            return Err(error);
        }
        Ok(backup)
    }

    /// Whether what has the name is a file of the same bytes.
    fn holds(&self, old: &OldFile) -> Result<bool> {
        let failed = |error| Error::io("cannot look at", error).with_path(&self.path);
        let there = fs::symlink_metadata(&self.path).map_err(failed)?;
        // A link may lead to the very file that is to be replaced.
        if !there.is_file() || there.len() != old.storage.size() {
            return Ok(false);
        }
        let mut hash = Sha256::new();
        io::copy(&mut File::open(&self.path).map_err(failed)?, &mut hash).map_err(failed)?;
        Ok(old.digests.is_some_and(|digests| hash.finalize()[..] == digests.bytes[..]))
    }

    /// Gives the old file its name again, as the new one cannot be made to stay; the error that says why.
    fn put_back(self, path: &Path, error: Error) -> Error {
        // Another file of the same bytes is not ours to move.
        if self.made && fs::rename(&self.path, path).is_ok() {
            return error;
        }
        error.with_hint(format!(
            "the file is of format 4, but may be the old one again after a power loss; the old one is {}",
            self.path.display()
        ))
    }

    /// Removes the name again, as nothing came of it.
    fn take_back(&self) {
        if self.made
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!(%error, path = %self.path.display(), "a second name was left behind");
        }
    }
}
