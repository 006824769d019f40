//! Opening a session file of whatever version: in its repository, or by its path.

use std::path::Path;
use std::sync::Arc;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::legacy::upgrade::upgrade;
use crate::legacy::{self, Destination, LegacyPolicy, OldFile};
use crate::repository::file_name::{LOCK, with_ending};
use crate::repository::files::{file_at, lock_session};
use crate::repository::jsonl::{JsonlRepository, Layout};
use crate::repository::sqlite::open_reference_file;
use crate::repository::{Backend, CreateOptions, OpenMode, OpenOptions, RepositoryOptions, unknown_session};
use crate::session::Session;
use crate::session::backend::LocalSession;

/// Opens the session file at `path`: what it is, is told by its first JSON objects, never by its name.
///
/// One of format 4 opens as in its repository: for writing, with its lock, unless `options` say otherwise.
///
/// Files of versions 1, 2 and 3 are read as they are; [`Session::legacy`] tells what was found in them, and
/// [`OpenOptions::legacy`] says where commits go. Ids of their entries are the same at every open. Memory
/// follows the number of entries, not their size: payloads are read when asked for. If such a file changes
/// after it was opened, reads fail with `FileChanged`.
///
/// A SQLite container of the reference implementation that holds one session opens too, for reading.
///
/// Durability is `power`; a repository opens its files with its own options.
///
/// ```no_run
/// use pisession::{Context, SessionReader, open_file};
///
/// let ctx = Context::background();
/// let session = open_file("session.jsonl", &Default::default(), &ctx)?;
/// for warning in session.legacy().map(|legacy| legacy.warnings.as_slice()).unwrap_or_default() {
///     eprintln!("{warning}");
/// }
/// println!("{} messages", session.stats(&ctx)?.message_count);
/// # Ok::<(), pisession::Error>(())
/// ```
///
/// # Errors
/// [`NotASession`](ErrorKind::NotASession) for anything else, naming the dialect of other programs' files;
/// [`Unsupported`](ErrorKind::Unsupported) for SQLite databases of this library, which are repositories;
/// [`AmbiguousSession`](ErrorKind::AmbiguousSession), [`UnknownSession`](ErrorKind::UnknownSession) for a
/// container that does not hold exactly one session;
/// [`SessionBusy`](ErrorKind::SessionBusy) if it is to be written and is open for writing elsewhere;
/// [`Corrupt`](ErrorKind::Corrupt) with line and offset for a damaged file of format 4 without `salvage`, and
/// for an older one in strict reading, and when it shall be copied or upgraded without `salvage`;
/// [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) when a file of a version above 3 shall be;
/// [`FileChanged`](ErrorKind::FileChanged) if another program writes it meanwhile;
/// [`Io`](ErrorKind::Io); what creating a session and a commit fail with. On each of them the file is as it was.
pub fn open_file(path: impl AsRef<Path>, options: &OpenOptions, ctx: &Context) -> Result<Session> {
    let id = tracing::field::Empty;
    let span = tracing::debug_span!("pisession.open", session.id = id, traceparent = ctx.traceparent());
    let _entered = span.enter();
    let path = path.as_ref();
    let failed = |error| Error::io("cannot find the session file", error).with_path(path);
    let mut path = std::path::absolute(path).map_err(failed)?;
    // Locks and backups are beside the file itself, not beside a link to it.
    if options.mode == OpenMode::ReadWrite && path.is_symlink() {
        path = std::fs::canonicalize(&path).map_err(failed)?;
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let repository = JsonlRepository::new(folder, Layout::Flat, Arc::new(RepositoryOptions::default()));
    if legacy::is_sqlite(&path)
        && let Some(session) = open_reference_file(&path, ctx)?
    {
        return match options.legacy {
            LegacyPolicy::ReadOnly => Ok(session),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                "a container of the reference implementation is only read: opening neither copies nor upgrades it",
            )
            .with_path(&path)
            .with_hint("fork or convert the session into a repository, and go on in it")),
        };
    }
    let session = match legacy::tell(&path) {
        Ok(told) if told.is_format4 => repository.open_format4(&path, &told.id, options)?,
        // What is no session at all is refused there.
        _ => repository.open_old(&path, None, options, ctx)?,
    };
    span.record("session.id", session.id());
    Ok(session)
}

impl Destination for JsonlRepository {
    fn create(&self, options: &CreateOptions, ctx: &Context) -> Result<Session> {
        Backend::create(self, options, ctx)
    }

    fn delete(&self, id: &str, ctx: &Context) -> Result<()> {
        Backend::delete(self, id, None, ctx)
    }
}

impl JsonlRepository {
    /// Opens the session `id` in the file of format 4 at `path`.
    pub(super) fn open_format4(&self, path: &Path, id: &str, options: &OpenOptions) -> Result<Session> {
        let lock = match options.mode {
            OpenMode::ReadWrite if !options.salvage => Some(lock_session(id, &with_ending(path, LOCK))?),
            _ => None,
        };
        // Under the lock it is looked at again: gone, it is not made anew.
        self.session(path, id, options, lock)
    }

    /// Opens the file of version 1 to 3 at `path`; with `id`, it must be of that session.
    pub(super) fn open_old(
        &self,
        path: &Path,
        id: Option<&str>,
        options: &OpenOptions,
        ctx: &Context,
    ) -> Result<Session> {
        let policy = match options.mode {
            OpenMode::ReadOnly => &LegacyPolicy::ReadOnly,
            OpenMode::ReadWrite => &options.legacy,
        };
        match policy {
            LegacyPolicy::ReadOnly => {
                let OldFile { metadata, storage, legacy, .. } = legacy::read(path, options.strict, ctx)?;
                let ids = self.files.options.session_ids();
                let local = LocalSession::new(metadata, ids, Box::new(storage), None, Some(legacy));
                Ok(self.files.admit(local))
            }
            LegacyPolicy::Copy => legacy::copy(path, self, options, ctx),
            LegacyPolicy::CopyTo(repository) => legacy::copy(path, repository, options, ctx),
            LegacyPolicy::Upgrade => self.upgrade(path, id, options, ctx),
        }
    }

    fn upgrade(
        &self,
        path: &Path,
        id: Option<&str>,
        options: &OpenOptions,
        ctx: &Context,
    ) -> Result<Session> {
        let id = match id {
            Some(id) => id.to_owned(),
            None => legacy::tell(path)?.id,
        };
        let lock = lock_session(&id, &with_ending(path, LOCK))?;
        // Under the lock it is looked at again: gone, replaced, or upgraded by another.
        match legacy::tell(path) {
            Ok(told) if told.id == id && told.is_format4 => {
                drop(lock);
                return self.open_format4(path, &id, options);
            }
            Ok(told) if told.id == id => {}
            Err(error) if error.kind() == ErrorKind::Io && file_at(path)?.is_some() => return Err(error),
            _ => return Err(unknown_session(&id).with_path(path)),
        }
        let storage = self.storage_options(OpenMode::ReadWrite, false);
        let (storage, legacy) = upgrade(path, options, storage, ctx)?;
        Ok(self.admit(path, storage, Some(lock), Some(legacy)))
    }
}
