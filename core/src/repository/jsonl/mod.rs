//! The JSONL repository: a folder with a folder per working folder, and in it a file per session.
//!
//! Files of versions 1 to 3 that lie there are sessions too: what a commit does to one is said when it is opened.

pub(crate) mod name;
pub(crate) mod open;

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::file_lines::FileLines;
use crate::legacy::{self, OldFile, upgrade};
use crate::model::address::session_name;
use crate::repository::file_name::{DRAFT, LOCK, with_ending};
use crate::repository::files::{Files, file_at, is_same_file, lock_session, outside, refuse_dangling};
use crate::repository::lock::FileLock;
use crate::repository::turns::Turns;
use crate::repository::{
    Backend, CreateOptions, Format, ListOptions, OpenMode, OpenOptions, RepositoryOptions, SessionListing,
    session_exists, unknown_session,
};
use crate::session::Session;
use crate::session::backend::{LocalSession, SessionMetadata};
use crate::session::reader::stored_text;
use crate::storage::Reads as _;
use crate::storage::copy::{Draft, Record, Sink};
use crate::storage::jsonl::draft::JsonlDraft;
use crate::storage::jsonl::header::{FORMAT, Header};
use crate::storage::jsonl::{JsonlOptions, JsonlStorage};
use crate::sync::lock;

/// How far the header of a file is looked for in a listing.
const HEADER: u64 = 1 << 20;
/// How much of a file is read to find its header: nearly always it is there.
const LOOK: u64 = 512;

/// Where the files of new sessions go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Into a folder for their working folder.
    ByWorkingFolder,
    /// Into the repository's folder itself.
    Flat,
}

pub(crate) struct JsonlRepository {
    root: PathBuf,
    layout: Layout,
    files: Files,
    /// When the folders that sessions were made in are swept again.
    swept: Mutex<HashMap<PathBuf, Arc<Turns>>>,
}

/// What a file says of itself at its beginning, and when it was last written.
struct Found {
    path: PathBuf,
    metadata: SessionMetadata,
    version: u32,
    modified: Option<SystemTime>,
}

impl JsonlRepository {
    fn new(root: &Path, layout: Layout, options: Arc<RepositoryOptions>) -> Self {
        Self { root: root.to_owned(), layout, files: Files::new(options), swept: Mutex::default() }
    }

    /// The repository at `path`, which stands as it was given.
    pub(crate) fn at(path: &str, options: Arc<RepositoryOptions>) -> Result<Self> {
        let wrong = |what: &str| {
            Error::new(ErrorKind::InvalidArgument, what)
                .with_path(path)
                .with_hint("give a folder: jsonl:PATH")
        };
        if path.is_empty() || path.contains('\0') {
            return Err(wrong("jsonl: names no path"));
        }
        let root = std::path::absolute(path)
            .map_err(|error| Error::io("cannot tell the current folder", error).with_path(path))?;
        if fs::metadata(&root).is_ok_and(|there| !there.is_dir()) {
            return Err(wrong("the path of a jsonl: repository leads to something that is no folder"));
        }
        refuse_dangling(&root)?;
        Ok(Self::new(&root, Layout::ByWorkingFolder, options))
    }

    /// The session files here.
    fn paths(&self) -> Result<Vec<PathBuf>> {
        let listed = |folder: &Path| {
            names(folder).map_err(|error| Error::io("cannot read the folder", error).with_path(folder))
        };
        let mut found = Vec::new();
        for folder in listed(&self.root)? {
            if is_session_name(&folder) {
                found.push(folder);
            } else if folder.is_dir() {
                found.extend(listed(&folder)?.into_iter().filter(|path| is_session_name(path)));
            }
        }
        Ok(found)
    }

    /// The files that hold the session `id`. A file whose name says another id is not looked into. With the
    /// error of one that may hold it and could not be read.
    fn files_of(&self, id: &str, ctx: &Context) -> Result<(Vec<Found>, Option<Error>)> {
        let (mut found, mut unread) = (Vec::new(), None);
        for path in self.paths()? {
            ctx.check()?;
            let may_be =
                path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name::may_be(name, id));
            match if may_be { Some(look(&path)) } else { None } {
                Some(Ok(looked)) if looked.metadata.id == id => found.push(looked),
                Some(Err(error)) if error.kind() == ErrorKind::Io => unread = Some(error),
                // One that is damaged is no session of that id; a listing names it.
                _ => {}
            }
        }
        Ok((found, unread))
    }

    /// The one file that holds the session; with `given`, that one.
    fn locate(&self, id: &str, given: Option<&Path>, ctx: &Context) -> Result<Found> {
        if let Some(given) = given {
            let is_here = given.ancestors().skip(1).take(2).any(|folder| is_same_file(folder, &self.root));
            if !is_here || !is_session_name(given) {
                return Err(outside(given, &self.root));
            }
            let found = look(given)?;
            return if found.metadata.id == id {
                Ok(found)
            } else {
                Err(unknown_session(id).with_path(given))
            };
        }
        let (mut found, unread) = self.files_of(id, ctx)?;
        match found.len() {
            0 if let Some(error) = unread => Err(error),
            0 => Err(unknown_session(id).with_path(&self.root)),
            1 => Ok(found.swap_remove(0)),
            count => {
                Err(Error::new(ErrorKind::AmbiguousSession, format!("{count} files hold the session '{id}'"))
                    .with_id(id)
                    .with_path(&self.root)
                    .with_hint("open one by its metadata from a listing, or move the others away"))
            }
        }
    }

    fn storage_options(&self, mode: OpenMode, salvage: bool) -> JsonlOptions {
        JsonlOptions {
            mode,
            durability: self.files.options.durability,
            clock: Arc::clone(&self.files.options.clock),
            max_payload: self.files.options.max_payload,
            salvage,
            compact_on_close: true,
        }
    }

    /// The session in the file of format 4 at `path`, which must be `id`.
    fn session(
        &self,
        path: &Path,
        id: &str,
        options: &OpenOptions,
        lock: Option<FileLock>,
    ) -> Result<Session> {
        let storage = JsonlStorage::open(path, self.storage_options(options.mode, options.salvage))?;
        if storage.metadata().id != id {
            return Err(unknown_session(id).with_path(path));
        }
        Ok(self.admit(path, storage, lock, None))
    }

    fn admit(
        &self,
        path: &Path,
        storage: JsonlStorage,
        lock: Option<FileLock>,
        legacy: Option<legacy::Legacy>,
    ) -> Session {
        self.files.admit(LocalSession::new(
            SessionMetadata { path: Some(path.to_owned()), ..storage.metadata() },
            self.files.options.session_ids(),
            Box::new(storage),
            lock.map(|lock| Box::new(lock) as _),
            legacy,
        ))
    }

    /// Reserves the id of a new session and begins its file.
    fn making(&self, options: &CreateOptions, ctx: &Context) -> Result<Making<'_>> {
        self.files.check()?;
        let cwd = name::absolute(options.cwd.as_deref())?;
        let metadata = SessionMetadata { cwd: Some(cwd.clone()), ..options.metadata(&self.files.options)? };
        let id = metadata.id.clone();
        let folder = match self.layout {
            Layout::ByWorkingFolder => self.root.join(name::folder(&cwd)),
            Layout::Flat => self.root.clone(),
        };
        let path = folder.join(name::file(&id, metadata.created_at)?);
        self.files.make_folder(&folder)?;
        // Beside a file that was opened by its path lies what is nobody's to sweep.
        if self.layout == Layout::ByWorkingFolder {
            self.sweep(&folder);
        }
        // The file's name says when it was made, so a lock of its own reserves the id.
        let reserved = self.root.join(name::reservation(&id));
        // A new id of our own is in no file; one of another generator may be.
        let may_exist = options.id.is_some() || self.files.options.ids.is_some();
        let exists = || Ok(may_exist && !self.files_of(&id, ctx)?.0.is_empty());
        let reserved = self.files.reserve(&id, &reserved, exists, ctx)?;
        let lock = lock_session(&id, &with_ending(&path, LOCK))?;
        let temporary = Temporary(with_ending(&path, DRAFT));
        let draft = JsonlDraft::create(&temporary.0, metadata)?;
        Ok(Making { repository: self, id, path, temporary, draft, lock, _reserved: reserved })
    }

    /// Removes what creates and compactions that were killed left in a folder, and reserved ids, now and then.
    fn sweep(&self, folder: &Path) {
        let turns = Arc::clone(lock(&self.swept).entry(folder.to_owned()).or_default());
        turns.take(folder, || Ok(sweep_reservations(&self.root)? + sweep_folder(folder)?));
    }
}

/// Removes reserved ids of those who died; the number of names found.
fn sweep_reservations(root: &Path) -> io::Result<usize> {
    let paths = names(root)?;
    for path in &paths {
        // Dropped, an abandoned lock takes its file with it.
        if path.as_os_str().as_encoded_bytes().ends_with(name::RESERVATION.as_bytes())
            && let Err(error) = FileLock::take_abandoned(path, false)
        {
            not_swept(path, &error);
        }
    }
    Ok(paths.len())
}

/// Removes unfinished files and locks of those who died; the number of names found.
fn sweep_folder(folder: &Path) -> io::Result<usize> {
    let paths = names(folder)?;
    for path in &paths {
        let Some(name) = path.to_str() else { continue };
        let endings = [upgrade::DRAFT, DRAFT, LOCK];
        let Some(target) = endings.iter().find_map(|ending| name.strip_suffix(ending)) else { continue };
        if !target.ends_with(name::ENDING) {
            continue;
        }
        // Only with its lock: then nobody is making it.
        let lock = with_ending(Path::new(target), LOCK);
        let swept = FileLock::take_abandoned(&lock, true).and_then(|lock| match lock {
            Some(_held) => [upgrade::DRAFT, DRAFT].iter().try_for_each(|ending| {
                match fs::remove_file(with_ending(Path::new(target), ending)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }),
            None => Ok(()),
        });
        if let Err(error) = swept {
            not_swept(path, &error);
        }
    }
    Ok(paths.len())
}

impl Backend for JsonlRepository {
    fn create(&self, options: &CreateOptions, ctx: &Context) -> Result<Session> {
        let mut making = self.making(options, ctx)?;
        making.start(1, ctx)?;
        making.publish(ctx)
    }

    fn draft(&self, options: &CreateOptions, ctx: &Context) -> Result<Box<dyn Draft + '_>> {
        Ok(Box::new(self.making(options, ctx)?))
    }

    fn open(&self, id: &str, path: Option<&Path>, options: &OpenOptions, ctx: &Context) -> Result<Session> {
        self.files.check()?;
        let found = self.locate(id, path, ctx)?;
        if u64::from(found.version) == FORMAT {
            self.open_format4(&found.path, id, options)
        } else {
            self.open_old(&found.path, Some(id), options, ctx)
        }
    }

    fn list(&self, options: &ListOptions, ctx: &Context) -> Result<Vec<SessionListing>> {
        self.files.check()?;
        let mut listed = Vec::new();
        for path in self.paths()? {
            ctx.check()?;
            match self.listing(&path, options, ctx) {
                Ok(listing) => listed.push(listing),
                Err(error) if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::DeadlineExceeded) => {
                    return Err(error);
                }
                // Deleted meanwhile.
                Err(_) if matches!(file_at(&path), Ok(None)) => {}
                Err(problem) => listed.push(SessionListing {
                    metadata: None,
                    path: Some(path),
                    modified_at: None,
                    format: Format::Unknown,
                    name: None,
                    message_count: None,
                    problem: Some(problem),
                }),
            }
        }
        Ok(listed)
    }

    fn delete(&self, id: &str, path: Option<&Path>, ctx: &Context) -> Result<()> {
        self.files.check()?;
        let found = self.locate(id, path, ctx)?;
        let _lock = lock_session(id, &with_ending(&found.path, LOCK))?;
        // Under the lock it is looked at again: another file may have its name now.
        if file_at(&found.path)?.is_none() || look(&found.path)?.metadata.id != id {
            return Err(unknown_session(id).with_path(&found.path));
        }
        fs::remove_file(&found.path)
            .map_err(|error| Error::io("cannot delete", error).with_path(&found.path))?;
        found.path.parent().map_or(Ok(()), |folder| self.files.sync_folder(folder))
    }

    fn close(&self, ctx: &Context) -> Vec<Error> {
        self.files.close(ctx)
    }
}

impl JsonlRepository {
    fn listing(&self, path: &Path, options: &ListOptions, ctx: &Context) -> Result<SessionListing> {
        let found = look(path)?;
        let modified = found.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let mut listing = SessionListing {
            metadata: Some(SessionMetadata { path: Some(path.to_owned()), ..found.metadata }),
            path: Some(path.to_owned()),
            modified_at: modified.and_then(|since| i64::try_from(since.as_millis()).ok()),
            format: Format::Jsonl(found.version),
            name: None,
            message_count: None,
            problem: None,
        };
        if options.details && u64::from(found.version) == FORMAT {
            let storage = JsonlStorage::open(path, self.storage_options(OpenMode::ReadOnly, false))?;
            listing.name = stored_text(&storage, &session_name(), ctx)?;
            listing.message_count = Some(storage.stats(ctx)?.message_count);
        } else if options.details {
            let OldFile { storage, .. } = legacy::read(path, false, ctx)?;
            listing.name = stored_text(&storage, &session_name(), ctx)?;
            listing.message_count = Some(storage.stats(ctx)?.message_count);
        }
        Ok(listing)
    }
}

/// A session file that is being made under another name. The lock on its id and its own lock are held.
struct Making<'a> {
    repository: &'a JsonlRepository,
    id: String,
    path: PathBuf,
    draft: JsonlDraft,
    // Removed before the locks are released: whoever sweeps takes them first.
    temporary: Temporary,
    lock: FileLock,
    _reserved: FileLock,
}

/// The name of a file that is being made; removed in any case.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::debug!(%error, path = %self.0.display(), "a temporary name was left behind");
            }
            _ => {}
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

    fn as_jsonl(&mut self) -> Option<&mut JsonlDraft> {
        Some(&mut self.draft)
    }
}

impl Draft for Making<'_> {
    /// Gives the file its name, never over another one.
    fn publish(self: Box<Self>, ctx: &Context) -> Result<Session> {
        (*self).publish(ctx)
    }
}

impl Making<'_> {
    fn publish(self, ctx: &Context) -> Result<Session> {
        // The last of them is dropped first: the temporary name is gone before the locks are released.
        let Self { _reserved, lock, temporary, draft, path, id, repository } = self;
        let (file, state) = draft.finish()?;
        ctx.check()?;
        fs::hard_link(&temporary.0, &path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => session_exists(&id),
            _ => Error::io("cannot make the session's file", error).with_path(&path),
        })?;
        drop(temporary);
        let options = repository.storage_options(OpenMode::ReadWrite, false);
        let synced = path.parent().map_or(Ok(()), |folder| repository.files.sync_folder(folder));
        match synced.and_then(|()| JsonlStorage::made(&path, file, state, options)) {
            Ok(storage) => Ok(repository.admit(&path, storage, Some(lock), None)),
            Err(error) => {
                // Nobody was told of it: an attempt that failed leaves nothing.
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }
}

/// Reads the header of a session file and no more.
fn look(path: &Path) -> Result<Found> {
    let io = |error| Error::io("cannot read the session's file", error).with_path(path);
    let other = || {
        Error::new(ErrorKind::NotASession, "what bears a session's name is no regular file, and no session")
            .with_path(path)
    };
    // Opening waits for nobody and follows no link: looking at what is open tells what it is.
    let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    let mut file = match fs::OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::new(ErrorKind::UnknownSession, "the session's file is gone").with_path(path));
        }
        Err(error) => {
            return Err(match file_at(path)? {
                Some(there) if !there.is_file() => other(),
                _ => io(error),
            });
        }
    };
    let there = file.metadata().map_err(io)?;
    if !there.is_file() {
        return Err(other());
    }
    let mut lines = FileLines::of((&mut file).take(HEADER), LOOK.min(there.len()));
    let line = lines.next().map_err(io)?;
    let first = std::str::from_utf8(line).unwrap_or_default().trim_end_matches('\n');
    let (metadata, version) = match Header::parse(first) {
        Ok(header) => (header.metadata, FORMAT as u32),
        Err(error) if error.kind() == ErrorKind::NotASession => legacy::metadata_of(path)?,
        Err(error) => return Err(error.with_path(path)),
    };
    Ok(Found { path: path.to_owned(), metadata, version, modified: there.modified().ok() })
}

fn not_swept(path: &Path, error: &io::Error) {
    tracing::debug!(%error, path = %path.display(), "what a crash left was not swept");
}

fn is_session_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(name::ENDING.as_bytes()))
}

/// What lies in a folder; nothing if it is not there.
fn names(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| entry.map(|entry| entry.path())).collect(),
    }
}
