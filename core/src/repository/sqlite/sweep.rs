//! What crashes left, cleared away at a later `create`: only what is provably abandoned, its lock being free.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, TryLockError};

use crate::repository::file_name::{LOCK, SESSION, SIDE_FILES, target_of_draft};
use crate::repository::lock::FileLock;

/// A sweep looks at every name of a folder. It is done again after a sixteenth as many creates as it found
/// names: making n sessions costs n, not n².
const SHARE: usize = 16;

/// When the next sweep is due, in creates.
#[derive(Debug, Default)]
pub(crate) struct Sweep(Mutex<usize>);

impl Sweep {
    /// Sweeps the folder if that is due. What cannot be swept stays and harms nothing.
    pub(crate) fn run(&self, folder: &Path) {
        self.run_with(folder, || Ok(()));
    }

    /// The same; `more` is done first.
    pub(crate) fn run_with(&self, folder: &Path, more: impl FnOnce() -> io::Result<()>) {
        let mut left = match self.0.try_lock() {
            Ok(left) => left,
            Err(TryLockError::Poisoned(left)) => left.into_inner(),
            // Somebody else is at it.
            Err(TryLockError::WouldBlock) => return,
        };
        if *left > 0 {
            *left -= 1;
            return;
        }
        match more().and_then(|()| sweep(folder)) {
            Ok(names) => *left = names / SHARE,
            Err(error) => {
                tracing::debug!(%error, path = %folder.display(), "a folder could not be swept");
            }
        }
    }
}

/// The number of names found.
fn sweep(folder: &Path) -> io::Result<usize> {
    let mut names = HashSet::new();
    for entry in fs::read_dir(folder)? {
        if let Ok(name) = entry?.file_name().into_string() {
            names.insert(name);
        }
    }
    for name in &names {
        // A database's own side files are swept only where the database is gone.
        if side_file_of(name).is_some_and(|database| names.contains(database)) {
            continue;
        }
        if let Some(guard) = guard_of(name)
            && let Err(error) = sweep_file(folder, name, &guard)
        {
            tracing::debug!(%error, name, "a file that looks abandoned could not be removed");
        }
    }
    Ok(names.len())
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

/// The database whose side file has this name.
fn side_file_of(name: &str) -> Option<&str> {
    SIDE_FILES.iter().find_map(|ending| name.strip_suffix(ending)).filter(|name| name.ends_with(SESSION))
}

/// The lock whose holder may be using the file of this name; none if it is not one to be swept.
fn guard_of(name: &str) -> Option<String> {
    if name.ends_with(LOCK) {
        return Some(name.to_owned());
    }
    let database = side_file_of(name).or_else(|| target_of_draft(name))?;
    Some(format!("{database}{LOCK}"))
}

fn sweep_file(folder: &Path, name: &str, guard: &str) -> io::Result<()> {
    let is_lock = name == guard;
    let Some(lock) = FileLock::take_abandoned(&folder.join(guard), !is_lock)? else { return Ok(()) };
    // Looked at again under the lock: a database may have come for the side file.
    let has_database = side_file_of(name).is_some_and(|database| folder.join(database).exists());
    if !is_lock && !has_database && !is_being_made(folder, name)? {
        remove(&folder.join(name))?;
    }
    // Its file goes with it.
    drop(lock);
    Ok(())
}
