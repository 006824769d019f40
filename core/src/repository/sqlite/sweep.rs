//! What crashes left, cleared away at a later `create`: only what is provably abandoned, its lock being free.

use std::fs;
use std::io;
use std::path::Path;

use crate::repository::file_name::{LOCK, SESSION, SIDE_FILES, target_of_draft};
use crate::repository::lock::FileLock;
use crate::repository::turns::Turns;

/// Sweeps a folder now and then.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// How the lock files that are ours end there. Others are nobody's business: `Cargo.lock` is one.
    locks: &'static str,
    turns: Turns,
}

impl Sweep {
    pub(crate) fn of(locks: &'static str) -> Self {
        Self { locks, turns: Turns::default() }
    }

    /// Sweeps the folder if that is due.
    pub(crate) fn run(&self, folder: &Path) {
        self.run_with(folder, || Ok(()));
    }

    /// The same; `more` is done first.
    pub(crate) fn run_with(&self, folder: &Path, more: impl FnOnce() -> io::Result<()>) {
        self.turns.take(folder, || more().and_then(|()| sweep(folder, self.locks)));
    }
}

/// The number of names found.
fn sweep(folder: &Path, locks: &str) -> io::Result<usize> {
    let mut found = 0;
    for entry in fs::read_dir(folder)? {
        found += 1;
        let Ok(name) = entry?.file_name().into_string() else { continue };
        let swept = match target_of_draft(&name) {
            Some(target) if target.ends_with(SESSION) => sweep_draft(folder, &name, target),
            None if name.ends_with(locks) => sweep_lock(folder, &name),
            _ => Ok(()),
        };
        if let Err(error) = swept {
            tracing::debug!(%error, name, "a file that looks abandoned could not be removed");
        }
    }
    Ok(found)
}

fn sweep_draft(folder: &Path, name: &str, target: &str) -> io::Result<()> {
    match FileLock::take_abandoned(&folder.join(format!("{target}{LOCK}")), true)? {
        Some(_lock) if !is_being_made(folder, name)? => remove(&folder.join(name)),
        _ => Ok(()),
    }
}

/// Removes a lock file whose holder died, and the side files of a database that it was deleting.
fn sweep_lock(folder: &Path, name: &str) -> io::Result<()> {
    let path = folder.join(name);
    let Some(lock) = FileLock::take_abandoned(&path, false)? else { return Ok(()) };
    let database = name.strip_suffix(LOCK).filter(|database| database.ends_with(SESSION));
    if let Some(database) = database
        && !folder.join(database).try_exists()?
    {
        for ending in SIDE_FILES {
            remove(&folder.join(format!("{database}{ending}")))?;
        }
    }
    // Its file goes with it.
    drop(lock);
    Ok(())
}

/// Removes what making the file at `target` left. Its lock is held by the caller.
pub(crate) fn remove_drafts(target: &Path) -> io::Result<()> {
    let (Some(folder), Some(target)) = (target.parent(), target.file_name()) else { return Ok(()) };
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(name) = name.to_str()
            && target_of_draft(name).is_some_and(|of| *of == *target)
            && !is_being_made(folder, name)?
        {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Whether this is a draft that somebody works on without the lock of its target, or a side file of one: a
/// backup into this folder.
fn is_being_made(folder: &Path, name: &str) -> io::Result<bool> {
    let draft = SIDE_FILES.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    if target_of_draft(draft).is_none() {
        return Ok(false);
    }
    let file = match fs::File::open(folder.join(draft)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    match file.try_lock() {
        Ok(()) => Ok(false),
        Err(fs::TryLockError::WouldBlock) => Ok(true),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
