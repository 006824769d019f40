//! What repositories of files share: folders, locks that reserve ids, and the sessions that are open.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::folder::sync_folder;
use crate::process::Process;
use crate::repository::lock::{Attempt, FileLock};
use crate::repository::{Durability, RepositoryOptions, session_exists};
use crate::session::Session;
use crate::session::backend::{Backend as _, LocalSession};

/// How long to wait before a lock that is taken or a file that is being made is looked at again.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);

/// The files of a repository and the sessions it has open.
pub(crate) struct Files {
    pub(crate) options: Arc<RepositoryOptions>,
    sessions: Mutex<Vec<Weak<LocalSession>>>,
    process: Process,
}

impl Files {
    pub(crate) fn new(options: Arc<RepositoryOptions>) -> Self {
        Self { options, sessions: Mutex::default(), process: Process::current() }
    }

    /// Whether this is still the process it was opened in.
    pub(crate) fn check(&self) -> Result<()> {
        self.process.check()
    }

    /// Counts a session among the open ones.
    pub(crate) fn admit(&self, local: LocalSession) -> Session {
        let local = Arc::new(local);
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(&local));
        Session::new(local)
    }

    /// Closes every open session; every error.
    pub(crate) fn close(&self, ctx: &Context) -> Vec<Error> {
        if let Err(forked) = self.check() {
            return vec![forked];
        }
        let open: Vec<Arc<LocalSession>> = {
            let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.iter().filter_map(Weak::upgrade).collect()
        };
        open.iter().filter_map(|session| session.close(ctx).err()).collect()
    }

    /// Takes the lock that reserves a new id. `exists` tells whether a session of that id is there.
    pub(crate) fn reserve(
        &self,
        id: &str,
        path: &Path,
        exists: impl Fn() -> Result<bool>,
        ctx: &Context,
    ) -> Result<FileLock> {
        let end = Instant::now() + self.options.busy_timeout;
        loop {
            ctx.check()?;
            if exists()? {
                return Err(session_exists(id));
            }
            match FileLock::take(path)? {
                // Looked at again: it may have been made before the lock was free.
                Attempt::Taken(_) if exists()? => return Err(session_exists(id)),
                Attempt::Taken(lock) => return Ok(lock),
                // Being made or deleted elsewhere: soon it is there, or the lock is free.
                Attempt::Held(holder) if Instant::now() >= end => return Err(holder.busy(id)),
                Attempt::Held(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Makes what was done to the names in a folder last, where the repository promises that.
    pub(crate) fn sync_folder(&self, folder: &Path) -> Result<()> {
        match self.options.durability {
            Durability::Power => sync_folder(folder),
            Durability::Process => Ok(()),
        }
    }

    /// Makes a folder and those above it, where they are missing.
    pub(crate) fn make_folder(&self, folder: &Path) -> Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
        if let Some(above) = above {
            self.make_folder(above)?;
        }
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            made => {
                made.map_err(|error| Error::io("cannot make the folder", error).with_path(folder))?;
            }
        }
        above.map_or(Ok(()), |above| self.sync_folder(above))
    }
}

/// Takes the lock on a session that is there, or says who has it.
pub(crate) fn lock_session(id: &str, path: &Path) -> Result<FileLock> {
    match FileLock::take(path)? {
        Attempt::Taken(lock) => Ok(lock),
        Attempt::Held(holder) => Err(holder.busy(id)),
    }
}

/// What `path` leads to; none if there is nothing.
pub(crate) fn file_at(path: &Path) -> Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(there) => Ok(Some(there)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("cannot look at", error).with_path(path)),
    }
}

/// Refuses a symbolic link that leads nowhere: what is made through it would have its locks beside the link,
/// and another writer beside what it leads to.
pub(crate) fn refuse_dangling(path: &Path) -> Result<()> {
    if fs::metadata(path).is_err() && file_at(path)?.is_some_and(|there| there.is_symlink()) {
        return Err(Error::new(ErrorKind::InvalidArgument, "is a symbolic link that leads nowhere")
            .with_path(path)
            .with_hint("make what it leads to available, or remove it"));
    }
    Ok(())
}

/// Whether both paths lead to one file.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// A file of `path` that is not where sessions of this repository are.
pub(crate) fn outside(path: &Path, place: &Path) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("the session's file is not in this repository, which is {}", place.display()),
    )
    .with_path(path)
    .with_hint("open it through the repository it is in")
}
