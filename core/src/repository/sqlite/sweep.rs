//! What crashes left, cleared away at a later `create`: only what is provably abandoned, its lock being free.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::repository::file_name::{LOCK, SESSION, SIDE_FILES, TEMPORARY};
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
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *left > 0 {
            *left -= 1;
            return;
        }
        match sweep(folder) {
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
        let guard = match guard_of(name) {
            Some(guard) => guard,
            None => continue,
        };
        // A database's own side files are swept only where the database is gone.
        if side_file_of(name).is_some_and(|database| names.contains(database)) {
            continue;
        }
        if let Err(error) = sweep_file(folder, name, &guard) {
            tracing::debug!(%error, name, "a file that looks abandoned could not be removed");
        }
    }
    Ok(names.len())
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
    if let Some(database) = side_file_of(name) {
        return Some(format!("{database}{LOCK}"));
    }
    let made = SIDE_FILES.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    made.strip_suffix(TEMPORARY).map(|database| format!("{database}{LOCK}"))
}

fn sweep_file(folder: &Path, name: &str, guard: &str) -> io::Result<()> {
    let is_lock = name == guard;
    let Some(lock) = FileLock::take_abandoned(&folder.join(guard), !is_lock)? else { return Ok(()) };
    let path = folder.join(name);
    // Looked at again under the lock: a database may have come for the side file.
    let has_database = side_file_of(name).is_some_and(|database| folder.join(database).exists());
    if !is_lock && !has_database {
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    // Its file goes with it.
    drop(lock);
    Ok(())
}
