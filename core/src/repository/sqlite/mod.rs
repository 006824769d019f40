//! The SQLite repository: a folder of one file per session, or one container of many.
//!
//! A session is written in one place at a time; a lock file settles which. Files appear under their names
//! complete, and what a crash leaves never stands in the way of an id.

mod container;
mod databases;
mod folder;
mod steadily;
mod sweep;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::repository::file_name::lock_path;
use crate::repository::files::{Files, lock_session, refuse_dangling};
use crate::repository::lock::FileLock;
use crate::repository::{
    Backend, CreateOptions, Format, ListOptions, OpenMode, OpenOptions, RepositoryOptions, SessionListing,
};
use crate::session::Session;
use crate::session::backend::{LocalSession, SessionMetadata};
use crate::storage::Storage;
use crate::storage::copy::Draft;
use crate::storage::sqlite::reference::{self, ReferenceStorage};
use crate::storage::sqlite::{Access, Database, Schema, SqliteStorage, StoredSession, peek};
use container::Container;
use databases::{Databases, FileId, InUse};
use folder::Folder;
use steadily::steadily;

/// How the names of containers end that are not there yet.
const CONTAINER_ENDINGS: [&str; 3] = [".sqlite", ".sqlite3", ".db"];

pub(crate) struct SqliteRepository {
    place: Place,
    shared: Shared,
}

enum Place {
    Folder(Folder),
    Container(Container),
}

impl SqliteRepository {
    /// The repository at `path`, which stands as it was given.
    pub(crate) fn new(path: &str, options: Arc<RepositoryOptions>) -> Result<Self> {
        let wrong = |what: String| {
            Error::new(ErrorKind::InvalidArgument, what).with_hint("give a folder or a file: sqlite:PATH")
        };
        if path.is_empty() {
            return Err(wrong("sqlite: names no path".to_owned()));
        }
        if path.contains('\0') {
            return Err(wrong("a path must not contain U+0000".to_owned()));
        }
        // Made absolute once: the program may change its folder later.
        let absolute = std::path::absolute(path)
            .map_err(|error| Error::io("cannot tell the current folder", error).with_path(path))?;
        let is_container = match fs::metadata(&absolute) {
            Ok(there) if there.is_dir() => false,
            Ok(there) if there.is_file() => true,
            Ok(_) => {
                return Err(wrong(
                    "the path of a sqlite: repository leads to neither a folder nor a file".to_owned(),
                )
                .with_path(absolute));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                refuse_dangling(&absolute)?;
                !path.ends_with('/') && CONTAINER_ENDINGS.iter().any(|ending| path.ends_with(ending))
            }
            Err(error) => return Err(Error::io("cannot look at", error).with_path(absolute)),
        };
        let place = if is_container {
            // By its one name: the locks lie beside it.
            Place::Container(Container::new(fs::canonicalize(&absolute).unwrap_or(absolute)))
        } else {
            Place::Folder(Folder::new(absolute))
        };
        Ok(Self { place, shared: Shared::new(options) })
    }
}

impl Backend for SqliteRepository {
    fn create(&self, options: &CreateOptions, ctx: &Context) -> Result<Session> {
        self.shared.files.check()?;
        let metadata = options.metadata(&self.shared.files.options)?;
        match &self.place {
            Place::Folder(folder) => folder.create(&self.shared, metadata, options.id.is_some(), ctx),
            Place::Container(container) => container.create(&self.shared, metadata, ctx),
        }
    }

    fn draft(&self, options: &CreateOptions, ctx: &Context) -> Result<Box<dyn Draft + '_>> {
        self.shared.files.check()?;
        let metadata = options.metadata(&self.shared.files.options)?;
        match &self.place {
            Place::Folder(folder) => {
                Ok(Box::new(folder.draft(&self.shared, metadata, options.id.is_some(), ctx)?))
            }
            Place::Container(container) => Ok(Box::new(container.draft(&self.shared, metadata, ctx)?)),
        }
    }

    fn open(&self, id: &str, path: Option<&Path>, options: &OpenOptions, ctx: &Context) -> Result<Session> {
        self.shared.files.check()?;
        match &self.place {
            Place::Folder(folder) => folder.open(&self.shared, id, path, options.mode, ctx),
            Place::Container(container) => container.open(&self.shared, id, path, options.mode, ctx),
        }
    }

    fn list(&self, options: &ListOptions, ctx: &Context) -> Result<Vec<SessionListing>> {
        self.shared.files.check()?;
        match &self.place {
            Place::Folder(folder) => folder.list(&self.shared, options, ctx),
            Place::Container(container) => container.list(&self.shared, options, ctx),
        }
    }

    fn delete(&self, id: &str, path: Option<&Path>, ctx: &Context) -> Result<()> {
        self.shared.files.check()?;
        match &self.place {
            Place::Folder(folder) => folder.delete(&self.shared, id, path, ctx),
            Place::Container(container) => container.delete(&self.shared, id, path, ctx),
        }
    }

    fn close(&self, ctx: &Context) -> Vec<Error> {
        self.shared.files.close(ctx)
    }
}

/// The one session in the file at `path`, if that is a container of the reference implementation.
///
/// # Errors
/// `AmbiguousSession`, `UnknownSession` where it does not hold exactly one.
pub(crate) fn open_reference_file(path: &Path, ctx: &Context) -> Result<Option<Session>> {
    let failed = |error| Error::io("cannot open the session file", error).with_path(path);
    let container = Container::new(fs::canonicalize(path).map_err(failed)?);
    let shared = Shared::new(Arc::default());
    match shared.is_of_the_reference(path, FileId::from(&fs::metadata(path).map_err(failed)?), ctx) {
        Ok(true) => {}
        other => return other.map(|_| None),
    }
    let mut listed = container.list(&shared, &ListOptions::default(), ctx)?;
    let id = match (listed.pop().and_then(|listing| listing.metadata), listed.len()) {
        (Some(metadata), 0) => metadata.id,
        (Some(_), others) => {
            return Err(Error::new(
                ErrorKind::AmbiguousSession,
                format!("the container holds {} sessions", others + 1),
            )
            .with_path(path)
            .with_hint(
                "open it as a repository, by the name sqlite: and its path, and a session of it by its id",
            ));
        }
        (None, _) => {
            return Err(
                Error::new(ErrorKind::UnknownSession, "the container holds no session").with_path(path)
            );
        }
    };
    container.open(&shared, &id, None, OpenMode::ReadOnly, ctx).map(Some)
}

/// What both kinds of place need.
struct Shared {
    files: Files,
    databases: Arc<Databases>,
}

impl Shared {
    fn new(options: Arc<RepositoryOptions>) -> Self {
        Self { files: Files::new(options), databases: Arc::default() }
    }

    /// The database at `path`, shared with whoever has it open through this repository.
    fn database(&self, path: &Path, file: FileId, mode: OpenMode, ctx: &Context) -> Result<InUse> {
        self.database_after(path, file, mode, |_| Ok(()), ctx)
    }

    /// The same; where it is opened for it, `prepare` is done first.
    fn database_after(
        &self,
        path: &Path,
        file: FileId,
        mode: OpenMode,
        prepare: impl FnOnce(&Database) -> Result<()>,
        ctx: &Context,
    ) -> Result<InUse> {
        self.databases.obtain(file, mode, || {
            let access = match mode {
                OpenMode::ReadWrite => Access::Write,
                OpenMode::ReadOnly => Access::Read,
            };
            let database = self.open_database(path, access, ctx)?;
            let prepared = match fs::metadata(path) {
                Ok(there) if FileId::from(&there) == file => prepare(&database),
                _ => Err(replaced(path)),
            };
            match prepared {
                Ok(()) => Ok(database),
                Err(error) => database.close().and(Err(error)),
            }
        })
    }

    /// Takes the lock on a session that is in `file`.
    fn lock(&self, file: &Path, id: &str) -> Result<FileLock> {
        let path = lock_path(file, id)?;
        if let Some(folder) = path.parent() {
            self.files.make_folder(folder)?;
        }
        lock_session(id, &path)
    }

    fn open_database(&self, path: &Path, access: Access, ctx: &Context) -> Result<Database> {
        Database::open(path, access, self.files.options.durability, self.files.options.busy_timeout, ctx)
    }

    /// Runs `look` on the database at `path` without leaving anything: on the open one if there is one.
    fn look_at<T>(
        &self,
        path: &Path,
        file: FileId,
        look: impl Fn(&Database) -> Result<T>,
        ctx: &Context,
    ) -> Result<T> {
        if let Some(database) = self.databases.open_already(file) {
            match look(&database) {
                // It was closed meanwhile.
                Err(error) if error.kind() == ErrorKind::Closed => {}
                looked => return looked,
            }
        }
        steadily(path, || {
            let database = self.open_database(path, Access::Read, ctx)?;
            let looked = look(&database)?;
            database.close()?;
            Ok(looked)
        })
    }

    /// Whether the file at `path` is one of the reference implementation. One page says mostly that it is not.
    fn is_of_the_reference(&self, path: &Path, file: FileId, ctx: &Context) -> Result<bool> {
        if peek::session_id(path).is_some() {
            return Ok(false);
        }
        match self.look_at(path, file, |database| Ok(database.schema()), ctx) {
            Ok(schema) => Ok(schema == Schema::Reference),
            Err(error) if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::DeadlineExceeded) => {
                Err(error)
            }
            // It cannot be told what it is: opening it for writing says why.
            Err(_) => Ok(false),
        }
    }

    /// Opens the session `id` of a database, which `lock` lets us write.
    fn session(
        &self,
        in_use: InUse,
        metadata: SessionMetadata,
        mode: OpenMode,
        lock: Option<FileLock>,
        ctx: &Context,
    ) -> Result<Session> {
        let storage = self.storage(&in_use, &metadata.id, mode, ctx)?;
        Ok(self.admit(in_use, metadata, storage, lock))
    }

    fn storage(&self, in_use: &InUse, id: &str, mode: OpenMode, ctx: &Context) -> Result<Box<dyn Storage>> {
        let database = in_use.database().clone();
        Ok(match database.schema() {
            Schema::Ours => Box::new(SqliteStorage::open(
                database,
                id,
                Arc::clone(&self.files.options.clock),
                self.files.options.max_payload,
                mode,
                ctx,
            )?),
            Schema::Reference => Box::new(ReferenceStorage::open(database, id, ctx)?),
        })
    }

    fn admit(
        &self,
        in_use: InUse,
        metadata: SessionMetadata,
        storage: Box<dyn Storage>,
        lock: Option<FileLock>,
    ) -> Session {
        let local = LocalSession::new(
            metadata,
            self.files.options.session_ids(),
            storage,
            lock.map(|lock| Box::new(lock) as _),
            None,
        );
        self.files.admit(local.finishing_with(Box::new(move |ctx| in_use.close_within(ctx))))
    }
}

fn replaced(path: &Path) -> Error {
    Error::new(ErrorKind::FileChanged, "the file was replaced while it was opened")
        .with_path(path)
        .with_hint("open the session again")
}

fn listing(stored: StoredSession, path: PathBuf, format: Format, options: &ListOptions) -> SessionListing {
    let (format, problem) = match stored.schema {
        Schema::Ours => (format, None),
        Schema::Reference => {
            let SessionMetadata { id, storage_version, .. } = &stored.metadata;
            (Format::ReferenceSqlite, reference::unsupported(id, *storage_version, &path))
        }
    };
    SessionListing {
        metadata: Some(SessionMetadata { path: Some(path.clone()), ..stored.metadata }),
        path: Some(path),
        modified_at: Some(stored.modified_at),
        format,
        name: stored.name,
        message_count: options.details.then_some(stored.message_count),
        problem,
    }
}
