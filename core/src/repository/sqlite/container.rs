//! One database file that holds any number of sessions. Each has a lock of its own, so that several
//! processes may write sessions of one container at a time.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::repository::file_name::{LOCK, encode, lock_path, locks_folder, with_ending};
use crate::repository::files::{PAUSE, file_at, is_same_file, outside};
use crate::repository::lock::{Attempt, FileLock};
use crate::repository::sqlite::databases::{FileId, InUse};
use crate::repository::sqlite::steadily::steadily;
use crate::repository::sqlite::sweep::{Sweep, remove_drafts};
use crate::repository::sqlite::{Shared, listing};
use crate::repository::{Format, ListOptions, OpenMode, SessionListing, unknown_session};
use crate::session::Session;
use crate::session::backend::SessionMetadata;
use crate::storage::copy::{Draft, Record, Sink};
use crate::storage::sqlite::{Database, Schema, SessionDraft, reference};

pub(crate) struct Container {
    path: PathBuf,
    locks: PathBuf,
    sweep: Sweep,
}

impl Container {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { locks: locks_folder(&path), path, sweep: Sweep::of(LOCK) }
    }

    fn file(&self) -> Result<Option<FileId>> {
        // Links were followed once, when the repository was opened: the locks lie beside what they led to.
        if file_at(&self.path)?.is_some_and(|there| there.is_symlink()) {
            return Err(Error::new(
                ErrorKind::FileChanged,
                "became a symbolic link after the repository was opened",
            )
            .with_path(&self.path)
            .with_hint("open the repository again"));
        }
        let there = match std::fs::metadata(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            looked => looked.map_err(|error| Error::io("cannot look at", error).with_path(&self.path))?,
        };
        if !there.is_file() {
            return Err(Error::new(
                ErrorKind::NotASession,
                "what stands at the path of the container is no file",
            )
            .with_path(&self.path));
        }
        Ok(Some(FileId::from(&there)))
    }

    fn here(&self, metadata: SessionMetadata) -> SessionMetadata {
        SessionMetadata { path: Some(self.path.clone()), ..metadata }
    }

    pub(crate) fn create(
        &self,
        shared: &Shared,
        metadata: SessionMetadata,
        ctx: &Context,
    ) -> Result<Session> {
        let (in_use, lock) = self.reserve(shared, &metadata.id, ctx)?;
        match in_use.database().insert_session(&metadata, ctx) {
            Ok(()) => self.open_new(shared, in_use, metadata, lock),
            Err(error) => in_use.close().and(Err(error)),
        }
    }

    /// Begins a session whose id is reserved.
    pub(crate) fn draft<'a>(
        &'a self,
        shared: &'a Shared,
        metadata: SessionMetadata,
        ctx: &Context,
    ) -> Result<Making<'a>> {
        let (in_use, lock) = self.reserve(shared, &metadata.id, ctx)?;
        let draft = SessionDraft::in_container(in_use.database().clone(), metadata.clone());
        Ok(Making { container: self, shared, metadata, draft, in_use: Closing(Some(in_use)), lock })
    }

    /// Takes the lock that reserves the id of a new session; with it, the container.
    fn reserve(&self, shared: &Shared, id: &str, ctx: &Context) -> Result<(InUse, FileLock)> {
        let lock_path = lock_path(&self.path, id)?;
        let file = self.make(shared, ctx)?;
        // Before anything is made beside it: what is not ours is refused.
        let in_use = self.database(shared, file, OpenMode::ReadWrite, ctx)?;
        shared.files.make_folder(&self.locks)?;
        self.sweep.run_with(&self.locks, || {
            match FileLock::take_abandoned(&with_ending(&self.path, LOCK), true)? {
                Some(_lock) => remove_drafts(&self.path),
                None => Ok(()),
            }
        });
        let exists = || Ok(in_use.database().session(id, ctx)?.is_some());
        match shared.files.reserve(id, &lock_path, exists, ctx) {
            Ok(lock) => Ok((in_use, lock)),
            Err(error) => in_use.close().and(Err(error)),
        }
    }

    /// Opens a session that was made just now: whoever gave up from here on would leave it behind.
    fn open_new(
        &self,
        shared: &Shared,
        in_use: InUse,
        metadata: SessionMetadata,
        lock: FileLock,
    ) -> Result<Session> {
        let ctx = &Context::background();
        shared.session(in_use, self.here(metadata), OpenMode::ReadWrite, Some(lock), ctx)
    }

    /// The database that is in `file`. Opened for writing anew, what died while it was being made is swept.
    fn database(&self, shared: &Shared, file: FileId, mode: OpenMode, ctx: &Context) -> Result<InUse> {
        let sweep = |database: &Database| match mode {
            OpenMode::ReadOnly => Ok(()),
            OpenMode::ReadWrite => database.sweep_unfinished(
                |id| {
                    shared.files.make_folder(&self.locks)?;
                    let path = lock_path(&self.path, id)?;
                    FileLock::take_abandoned(&path, true)
                        .map_err(|error| Error::io("cannot lock", error).with_path(path))
                },
                ctx,
            ),
        };
        shared.database_after(&self.path, file, mode, sweep, ctx)
    }

    /// Makes the container if it is not there. Of several that want to, one does, and the others wait.
    fn make(&self, shared: &Shared, ctx: &Context) -> Result<FileId> {
        let end = Instant::now() + shared.files.options.busy_timeout;
        loop {
            ctx.check()?;
            if let Some(file) = self.file()? {
                return Ok(file);
            }
            if let Some(folder) = self.path.parent() {
                shared.files.make_folder(folder)?;
            }
            match FileLock::take(&with_ending(&self.path, LOCK))? {
                Attempt::Taken(_lock) => {
                    if file_at(&self.path)?.is_none() {
                        match Database::create(&self.path, None, shared.files.options.durability, ctx) {
                            Err(error) if error.kind() == ErrorKind::SessionExists => {}
                            made => made?,
                        }
                    }
                }
                Attempt::Held(_) if Instant::now() >= end => {
                    return Err(Error::new(ErrorKind::Busy, "the container is being made elsewhere")
                        .with_path(&self.path)
                        .with_hint("try again"));
                }
                Attempt::Held(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    pub(crate) fn open(
        &self,
        shared: &Shared,
        id: &str,
        path: Option<&Path>,
        mode: OpenMode,
        ctx: &Context,
    ) -> Result<Session> {
        encode(id)?;
        self.check_path(path)?;
        match mode {
            OpenMode::ReadOnly => steadily(&self.path, || self.open_here(shared, id, None, ctx)),
            OpenMode::ReadWrite => match self.check_known(shared, id, ctx)? {
                Schema::Ours => {
                    let lock = shared.lock(&self.path, id)?;
                    self.open_here(shared, id, Some(lock), ctx)
                }
                // Its commits are refused one by one.
                Schema::Reference => steadily(&self.path, || self.open_here(shared, id, None, ctx)),
            },
        }
    }

    /// Whether a file that was named is this one.
    fn check_path(&self, path: Option<&Path>) -> Result<()> {
        match path {
            Some(path) if path != self.path && !is_same_file(path, &self.path) => {
                Err(outside(path, &self.path))
            }
            _ => Ok(()),
        }
    }

    /// Opens a session: for writing with its lock, else for reading.
    fn open_here(&self, shared: &Shared, id: &str, lock: Option<FileLock>, ctx: &Context) -> Result<Session> {
        let mode = if lock.is_some() { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        let in_use = self.in_use(shared, id, mode, ctx)?;
        match in_use.database().session(id, ctx)? {
            Some(stored) => shared.session(in_use, self.here(stored.metadata), mode, lock, ctx),
            None => in_use.close().and(Err(self.unknown(id))),
        }
    }

    fn unknown(&self, id: &str) -> Error {
        unknown_session(id).with_path(&self.path)
    }

    /// Before its lock is taken: an id that is not here leaves nothing behind. Whose tables it is in.
    fn check_known(&self, shared: &Shared, id: &str, ctx: &Context) -> Result<Schema> {
        let file = self.file()?.ok_or_else(|| self.unknown(id))?;
        let stored = shared.look_at(&self.path, file, |database| database.session(id, ctx), ctx)?;
        stored.map(|stored| stored.schema).ok_or_else(|| self.unknown(id))
    }

    /// The database that is at our path now.
    fn in_use(&self, shared: &Shared, id: &str, mode: OpenMode, ctx: &Context) -> Result<InUse> {
        let file = self.file()?.ok_or_else(|| self.unknown(id))?;
        self.database(shared, file, mode, ctx)
    }

    pub(crate) fn list(
        &self,
        shared: &Shared,
        options: &ListOptions,
        ctx: &Context,
    ) -> Result<Vec<SessionListing>> {
        let Some(file) = self.file()? else { return Ok(Vec::new()) };
        let stored =
            shared.look_at(&self.path, file, |database| database.sessions(options.details, ctx), ctx)?;
        Ok(stored
            .into_iter()
            .map(|session| listing(session, self.path.clone(), Format::SqliteContainer, options))
            .collect())
    }

    pub(crate) fn delete(&self, shared: &Shared, id: &str, path: Option<&Path>, ctx: &Context) -> Result<()> {
        encode(id)?;
        self.check_path(path)?;
        if self.check_known(shared, id, ctx)? == Schema::Reference {
            return Err(reference::read_only(&self.path));
        }
        let _lock = shared.lock(&self.path, id)?;
        let in_use = self.in_use(shared, id, OpenMode::ReadWrite, ctx)?;
        let deleted = in_use.database().delete_session(id, ctx);
        let closed = in_use.close();
        deleted.and(closed)
    }
}

/// A session that is being made in the container; its lock is held.
pub(crate) struct Making<'a> {
    container: &'a Container,
    shared: &'a Shared,
    metadata: SessionMetadata,
    // In the order in which they go: what is unfinished is deleted with the lock held.
    draft: SessionDraft,
    in_use: Closing,
    lock: FileLock,
}

/// The container, closed when nobody goes on with it.
struct Closing(Option<InUse>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.take().map(InUse::close) {
            tracing::warn!(%error, "a container was not closed in order");
        }
    }
}

impl Sink for Making<'_> {
    fn start(&mut self, next_seq: u64, ctx: &Context) -> Result<()> {
        self.draft.start(next_seq, ctx)
    }

    fn put(&mut self, record: Record, ctx: &Context) -> Result<()> {
        self.draft.put(record, ctx)
    }
}

impl Draft for Making<'_> {
    fn publish(self: Box<Self>, ctx: &Context) -> Result<Session> {
        let Self { container, shared, metadata, draft, mut in_use, lock } = *self;
        draft.publish(ctx)?;
        match in_use.0.take() {
            Some(in_use) => container.open_new(shared, in_use, metadata, lock),
            None => Err(container.unknown(&metadata.id)),
        }
    }
}
