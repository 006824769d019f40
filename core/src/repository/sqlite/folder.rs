//! A folder of one database file per session, named after the session's id.
//!
//! A file counts for the id that it holds. One that was renamed or copied is found, too, and two of one id
//! are never taken for each other.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::repository::file_name::{SESSION, SIDE_FILES, encode, lock_path, locks_folder, with_ending};
use crate::repository::files::{file_at, is_same_file, outside};
use crate::repository::lock::FileLock;
use crate::repository::sqlite::databases::FileId;
use crate::repository::sqlite::steadily::steadily;
use crate::repository::sqlite::sweep::Sweep;
use crate::repository::sqlite::{Shared, listing};
use crate::repository::{Format, ListOptions, OpenMode, SessionListing, session_exists, unknown_session};
use crate::session::Session;
use crate::session::backend::SessionMetadata;
use crate::storage::copy::{Draft, Record, Sink};
use crate::storage::sqlite::{Database, SessionDraft, StoredSession, peek, reference};

pub(crate) struct Folder {
    root: PathBuf,
    sweep: Sweep,
    /// What files were found to hold, by name.
    known: Mutex<HashMap<OsString, Known>>,
}

struct Known {
    id: String,
    as_of: Version,
}

/// What changes whenever a file is written or replaced.
#[derive(PartialEq, Eq)]
struct Version {
    inode: u64,
    changed: (i64, i64),
}

impl Folder {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, sweep: Sweep::of(".sqlite.lock"), known: Mutex::default() }
    }

    fn file_of(&self, id: &str) -> Result<PathBuf> {
        Ok(self.root.join(encode(id)? + SESSION))
    }

    pub(crate) fn create(
        &self,
        shared: &Shared,
        metadata: SessionMetadata,
        id_was_given: bool,
        ctx: &Context,
    ) -> Result<Session> {
        let (path, lock) = self.reserve(shared, &metadata.id, id_was_given, ctx)?;
        Database::create(&path, Some(&metadata), shared.files.options.durability, ctx)?;
        self.open_new(shared, metadata, path, lock)
    }

    /// Begins a session whose id is reserved.
    pub(crate) fn draft<'a>(
        &'a self,
        shared: &'a Shared,
        metadata: SessionMetadata,
        id_was_given: bool,
        ctx: &Context,
    ) -> Result<Making<'a>> {
        let (path, lock) = self.reserve(shared, &metadata.id, id_was_given, ctx)?;
        let draft = SessionDraft::in_file(&path, metadata.clone(), shared.files.options.durability)?;
        Ok(Making { folder: self, shared, metadata, path, draft, lock })
    }

    /// Takes the lock that reserves the id of a new session; with it, its path.
    fn reserve(
        &self,
        shared: &Shared,
        id: &str,
        id_was_given: bool,
        ctx: &Context,
    ) -> Result<(PathBuf, FileLock)> {
        let path = self.file_of(id)?;
        shared.files.make_folder(&self.root)?;
        self.sweep.run(&self.root);
        // A new id of our own is in no file that was renamed.
        if id_was_given && !self.files_of(shared, id, ctx)?.is_empty() {
            return Err(session_exists(id));
        }
        let exists = || Ok(file_at(&path)?.is_some());
        let lock = shared.files.reserve(id, &lock_path(&path, id)?, exists, ctx)?;
        remove_side_files(&path)?;
        Ok((path, lock))
    }

    /// Opens a session that was made just now: whoever gave up from here on would leave it behind.
    fn open_new(
        &self,
        shared: &Shared,
        metadata: SessionMetadata,
        path: PathBuf,
        lock: FileLock,
    ) -> Result<Session> {
        let ctx = &Context::background();
        let opened = session_file(&path).and_then(|file| {
            let file = file.ok_or_else(|| unknown_session(&metadata.id).with_path(&path))?;
            let in_use = shared.database(&path, file, OpenMode::ReadWrite, ctx)?;
            let storage = shared.storage(&in_use, &metadata.id, OpenMode::ReadWrite, ctx)?;
            Ok((in_use, storage))
        });
        match opened {
            Ok((in_use, storage)) => {
                let metadata = SessionMetadata { path: Some(path), ..metadata };
                Ok(shared.admit(in_use, metadata, storage, Some(lock)))
            }
            Err(error) => {
                // Nobody was told of it: an attempt that failed leaves nothing, where it can be removed.
                if fs::remove_file(&path).is_ok() {
                    let _ = remove_side_files(&path);
                }
                Err(error)
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
        let path = self.locate(shared, id, path, ctx)?;
        let lock = match mode {
            OpenMode::ReadOnly => return steadily(&path, || self.open_at(shared, id, &path, None, ctx)),
            OpenMode::ReadWrite => {
                let file = session_file(&path)?.ok_or_else(|| unknown_session(id).with_path(&path))?;
                if shared.is_of_the_reference(&path, file, ctx)? {
                    // Its commits are refused one by one.
                    return steadily(&path, || self.open_at(shared, id, &path, None, ctx));
                }
                shared.lock(&path, id)?
            }
        };
        // Under the lock it is looked at again: it may be gone or replaced.
        self.open_at(shared, id, &path, Some(lock), ctx)
    }

    /// Opens the session in that file: for writing with its lock, else for reading.
    fn open_at(
        &self,
        shared: &Shared,
        id: &str,
        path: &Path,
        lock: Option<FileLock>,
        ctx: &Context,
    ) -> Result<Session> {
        let mode = if lock.is_some() { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        let unknown = || unknown_session(id).with_path(path);
        let file = session_file(path)?.ok_or_else(unknown)?;
        let in_use = shared.database(path, file, mode, ctx)?;
        match in_use.database().session(id, ctx)? {
            Some(stored) => {
                let metadata = SessionMetadata { path: Some(path.to_owned()), ..stored.metadata };
                shared.session(in_use, metadata, mode, lock, ctx)
            }
            None => in_use.close().and(Err(unknown())),
        }
    }

    pub(crate) fn delete(&self, shared: &Shared, id: &str, path: Option<&Path>, ctx: &Context) -> Result<()> {
        let path = self.locate(shared, id, path, ctx)?;
        let unknown = || unknown_session(id).with_path(&path);
        let file = session_file(&path)?.ok_or_else(unknown)?;
        if shared.is_of_the_reference(&path, file, ctx)? {
            return Err(reference::read_only(&path));
        }
        let lock = shared.lock(&path, id)?;
        // Looked at again under the lock, as in `open`.
        let file = session_file(&path)?.ok_or_else(unknown)?;
        // Only what is that session, and nothing else, is deleted.
        if stored_in(shared, &path, file, &ListOptions::default(), ctx)?.metadata.id != id {
            return Err(unknown());
        }
        // The database first: its side files without it are nothing, it without them could be damaged.
        fs::remove_file(&path).map_err(|error| Error::io("cannot delete", error).with_path(&path))?;
        remove_side_files(&path)?;
        drop(lock);
        remove_locks_folder(&path)?;
        shared.files.sync_folder(&self.root)
    }

    /// The one file that holds the session; with `given`, that one.
    fn locate(&self, shared: &Shared, id: &str, given: Option<&Path>, ctx: &Context) -> Result<PathBuf> {
        let own = self.file_of(id)?;
        if let Some(given) = given {
            let is_here = given.parent().is_some_and(|folder| is_same_file(folder, &self.root));
            return match given.file_name() {
                Some(name) if is_here && is_session_name(name) => Ok(self.root.join(name)),
                _ => Err(outside(given, &self.root)),
            };
        }
        let mut found = self.files_of(shared, id, ctx)?;
        match found.len() {
            0 => match file_at(&own)? {
                // It is not that session, or damaged: opening it says so.
                Some(_) => Ok(own),
                None => Err(unknown_session(id).with_path(&self.root)),
            },
            1 => Ok(found.swap_remove(0)),
            _ => {
                found.sort();
                let names: Vec<String> = found
                    .iter()
                    .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
                    .collect();
                Err(Error::new(
                    ErrorKind::AmbiguousSession,
                    format!("several files hold the session '{id}': {}", names.join(", ")),
                )
                .with_id(id)
                .with_path(&self.root)
                .with_hint("open one by its metadata from a listing, or move the others away"))
            }
        }
    }

    /// The files that hold the session `id`, whatever their names.
    fn files_of(&self, shared: &Shared, id: &str, ctx: &Context) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let names = self.session_names()?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for name in &names {
            ctx.check()?;
            let path = self.root.join(name);
            let Some(there) = file_at(&path)? else { continue };
            let as_of = Version { inode: there.ino(), changed: (there.ctime(), there.ctime_nsec()) };
            let held = match known.get(name).filter(|known| known.as_of == as_of) {
                Some(known) => &known.id,
                None => {
                    let Some(id) = id_in(shared, &path, ctx) else { continue };
                    &known.entry(name.clone()).insert_entry(Known { id, as_of }).into_mut().id
                }
            };
            if held == id {
                found.push(path);
            }
        }
        // Forgets what is gone, when there is much of it.
        if known.len() > 2 * names.len() + 16 {
            let names: HashSet<OsString> = names.into_iter().collect();
            known.retain(|name, _| names.contains(name));
        }
        Ok(found)
    }

    /// Names that end as those of sessions do.
    fn session_names(&self) -> Result<Vec<OsString>> {
        let failed = |error| Error::io("cannot read the folder", error).with_path(&self.root);
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_session_name(&entry.file_name()) && !is_folder {
                names.push(entry.file_name());
            }
        }
        Ok(names)
    }

    pub(crate) fn list(
        &self,
        shared: &Shared,
        options: &ListOptions,
        ctx: &Context,
    ) -> Result<Vec<SessionListing>> {
        let mut listed = Vec::new();
        for name in self.session_names()? {
            ctx.check()?;
            let path = self.root.join(name);
            let looked = session_file(&path)
                .and_then(|file| file.map(|file| stored_in(shared, &path, file, options, ctx)).transpose());
            match looked {
                Ok(Some(stored)) => listed.push(listing(stored, path, Format::SqliteFile, options)),
                // Deleted meanwhile.
                Ok(None) => {}
                Err(error) if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::DeadlineExceeded) => {
                    return Err(error);
                }
                Err(_) if matches!(file_at(&path), Ok(None)) => {}
                Err(problem) => listed.push(SessionListing {
                    metadata: None,
                    path: Some(path),
                    modified_at: None,
                    format: Format::SqliteFile,
                    name: None,
                    message_count: None,
                    problem: Some(problem),
                }),
            }
        }
        Ok(listed)
    }
}

/// A session that is being made in a file of its own; its lock is held.
pub(crate) struct Making<'a> {
    folder: &'a Folder,
    shared: &'a Shared,
    metadata: SessionMetadata,
    path: PathBuf,
    // Gone before the lock is released.
    draft: SessionDraft,
    lock: FileLock,
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
        let Self { folder, shared, metadata, path, draft, lock } = *self;
        draft.publish(ctx)?;
        folder.open_new(shared, metadata, path, lock)
    }
}

/// The id of the session in a file; none if that cannot be told.
fn id_in(shared: &Shared, path: &Path, ctx: &Context) -> Option<String> {
    peek::session_id(path).or_else(|| {
        let file = session_file(path).ok()??;
        Some(stored_in(shared, path, file, &ListOptions::default(), ctx).ok()?.metadata.id)
    })
}

fn is_session_name(name: &std::ffi::OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.len() > SESSION.len() && name.ends_with(SESSION.as_bytes())
}

/// The file of a session; none if there is nothing at its path.
fn session_file(path: &Path) -> Result<Option<FileId>> {
    match file_at(path)? {
        Some(there) if there.is_file() => Ok(Some(FileId::from(&there))),
        Some(there) => {
            let what = if there.is_symlink() { "a symbolic link" } else { "not a file" };
            Err(Error::new(ErrorKind::NotASession, format!("is {what}, and no session"))
                .with_path(path)
                .with_hint("put the session's file itself into the folder"))
        }
        None => Ok(None),
    }
}

/// The session in its own file.
fn stored_in(
    shared: &Shared,
    path: &Path,
    file: FileId,
    options: &ListOptions,
    ctx: &Context,
) -> Result<StoredSession> {
    // Its name stands elsewhere in the file.
    if !options.details
        && let Some(session) = peek::session(path)
    {
        return Ok(session);
    }
    let mut stored = shared.look_at(path, file, |database| database.sessions(options.details, ctx), ctx)?;
    match (stored.pop(), stored.is_empty()) {
        (Some(session), true) => Ok(session),
        (None, _) => Err(Error::new(ErrorKind::NotASession, "the database holds no session").with_path(path)),
        (Some(_), false) => Err(Error::new(
            ErrorKind::NotASession,
            format!("holds {} sessions, and is a container", stored.len() + 1),
        )
        .with_path(path)
        .with_hint("open it as a repository of its own: sqlite:PATH with the path of this file")),
    }
}

/// Removes the folder of a deleted file's locks, if it has one and nobody holds any.
fn remove_locks_folder(path: &Path) -> Result<()> {
    let folder = locks_folder(path);
    match fs::remove_dir(&folder) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
            Err(Error::io("cannot delete", error).with_path(folder))
        }
        _ => Ok(()),
    }
}

/// Removes what SQLite left beside a database that is gone. A log of an older database must never meet a
/// newer one of that name.
fn remove_side_files(path: &Path) -> Result<()> {
    for ending in SIDE_FILES {
        let side_file = with_ending(path, ending);
        match fs::remove_file(&side_file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => {
                removed.map_err(|error| Error::io("cannot delete", error).with_path(side_file))?;
            }
        }
    }
    Ok(())
}
