//! The database files that this process has open through one repository: one `Database` per file and way of
//! opening, however many sessions use it.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::context::Context;
use crate::error::Result;
use crate::process::Process;
use crate::repository::OpenMode;
use crate::storage::sqlite::Database;

/// A file, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

#[derive(Debug)]
pub(crate) struct Databases {
    open: Mutex<HashMap<(FileId, Way), Entry>>,
    process: Process,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    Write,
    Read,
}

impl From<OpenMode> for Way {
    fn from(mode: OpenMode) -> Self {
        match mode {
            OpenMode::ReadWrite => Self::Write,
            OpenMode::ReadOnly => Self::Read,
        }
    }
}

struct Entry {
    database: Database,
    users: usize,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("users", &self.users).finish_non_exhaustive()
    }
}

impl Default for Databases {
    fn default() -> Self {
        Self { open: Mutex::default(), process: Process::current() }
    }
}

impl Databases {
    fn entries(&self) -> MutexGuard<'_, HashMap<(FileId, Way), Entry>> {
        // Nothing that can panic leaves an entry half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database of that file, opened with `open` unless it is open already.
    ///
    /// # Errors
    /// `StorageFault`, `ForeignSqlite` for one that takes no more commits, as long as others use it.
    pub(crate) fn obtain(
        self: &Arc<Self>,
        file: FileId,
        mode: OpenMode,
        open: impl FnOnce() -> Result<Database>,
    ) -> Result<InUse> {
        let key = (file, Way::from(mode));
        let in_use = |database: &Database| InUse {
            databases: Arc::clone(self),
            key,
            database: database.clone(),
            share: Mutex::new(Share::Counted),
        };
        if let Some(entry) = self.entries().get_mut(&key) {
            entry.database.check_latch()?;
            entry.users += 1;
            return Ok(in_use(&entry.database));
        }
        // Opened outside of the lock, since it can take long; whoever was faster gives theirs.
        let opened = open()?;
        let mut entries = self.entries();
        let entry = entries.entry(key).or_insert(Entry { database: opened, users: 0 });
        entry.users += 1;
        Ok(in_use(&entry.database))
    }

    /// The database of that file, if it is open: a file that is open is never opened a second time only to
    /// be looked at.
    pub(crate) fn open_already(&self, file: FileId) -> Option<Database> {
        let entries = self.entries();
        [Way::Write, Way::Read].into_iter().find_map(|way| Some(entries.get(&(file, way))?.database.clone()))
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        if self.process.check().is_err() {
            // In a forked child nothing may be closed that belongs to the parent.
            std::mem::forget(std::mem::take(&mut *self.entries()));
        }
    }
}

/// One use of an open database. The last one closes it: with a checkpoint in `close`, without one if it is
/// only dropped, as in a crash.
pub(crate) struct InUse {
    databases: Arc<Databases>,
    key: (FileId, Way),
    database: Database,
    share: Mutex<Share>,
}

/// What a use has to do at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// It counts as one of the users.
    Counted,
    /// It was the last one: it closes the database.
    Last,
    /// Nothing.
    Given,
}

impl InUse {
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn close(self) -> Result<()> {
        self.close_within(&Context::background())
    }

    /// The same, as long as `ctx` lets it wait; after `DeadlineExceeded` or `Cancelled` it goes on when it
    /// is called again.
    pub(crate) fn close_within(&self, ctx: &Context) -> Result<()> {
        match self.release() {
            Share::Last => self.database.close_within(ctx),
            _ => Ok(()),
        }
    }

    /// Is no user any more.
    fn release(&self) -> Share {
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        if *share == Share::Counted {
            *share = Share::Given;
            let mut entries = self.databases.entries();
            if let Some(entry) = entries.get_mut(&self.key) {
                entry.users -= 1;
                if entry.users == 0 {
                    entries.remove(&self.key);
                    *share = Share::Last;
                }
            }
        }
        *share
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.release();
    }
}
