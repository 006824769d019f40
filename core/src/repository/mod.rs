//! Repositories: where sessions are made, found, opened and deleted.

pub(crate) mod descriptors;
pub(crate) mod file_name;
pub(crate) mod files;
pub(crate) mod fork;
pub(crate) mod jsonl;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod sqlite;
pub(crate) mod turns;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::gate::{Gate, Inside};
use crate::legacy::LegacyPolicy;
use crate::model::id::{Clock, IdGenerator, SystemClock, UuidV7, check_id, is_time, time_of};
use crate::model::json::MAX_PAYLOAD;
use crate::process::Process;
use crate::session::Session;
use crate::session::backend::SessionMetadata;
use crate::storage::copy::{Draft, Planner, Sink};

/// What a commit that was acknowledged survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Process crash, kernel crash and power loss.
    #[default]
    Power,
    /// Process crash.
    Process,
}

/// How a repository works. The default is right for most.
#[derive(Debug, Clone)]
pub struct RepositoryOptions {
    /// What a commit that was acknowledged survives.
    pub durability: Durability,
    /// How long a commit waits for another process's lock on a shared database. 5 seconds.
    pub busy_timeout: Duration,
    /// Where timestamps come from.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from; none for a generator of each session's own.
    pub ids: Option<Arc<dyn IdGenerator>>,
    /// How many bytes a payload may have. 256 MiB.
    pub max_payload: usize,
}

impl Default for RepositoryOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Power,
            busy_timeout: Duration::from_secs(5),
            clock: Arc::new(SystemClock),
            ids: None,
            max_payload: MAX_PAYLOAD,
        }
    }
}

impl RepositoryOptions {
    /// The id generator for a session.
    pub(crate) fn session_ids(&self) -> Arc<dyn IdGenerator> {
        self.ids.clone().unwrap_or_else(|| Arc::new(UuidV7::default()))
    }
}

/// What a new session is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreateOptions {
    /// Its id; none for a new one.
    pub id: Option<String>,
    /// The session it goes on from.
    pub parent_session_id: Option<String>,
    /// The working folder it is for.
    pub cwd: Option<String>,
    /// When it was made, Unix ms, for a session that comes from elsewhere; none for now.
    pub created_at: Option<i64>,
    /// The file of an old session it came from, where that has no id here.
    pub legacy_parent_session_path: Option<String>,
}

impl CreateOptions {
    fn check(&self) -> Result<()> {
        [&self.id, &self.parent_session_id].into_iter().flatten().try_for_each(|id| check_id(id))
    }

    /// What the new session will say of itself, in a repository that works so.
    pub(crate) fn metadata(&self, repository: &RepositoryOptions) -> Result<SessionMetadata> {
        let created_at = match self.created_at {
            Some(time) if is_time(time) => time,
            Some(time) => {
                let what = format!("a session cannot be made at {time}, before 1970 or after the year 9999");
                return Err(Error::new(ErrorKind::InvalidArgument, what)
                    .with_hint("times are milliseconds since 1970"));
            }
            None => time_of(repository.clock.as_ref())?,
        };
        let id = self.id.clone().unwrap_or_else(|| repository.session_ids().next(None));
        // What an id generator gives is looked at like what a caller gives.
        check_id(&id)?;
        Ok(SessionMetadata {
            id,
            created_at,
            storage_version: 1,
            cwd: self.cwd.clone(),
            parent_session_id: self.parent_session_id.clone(),
            legacy_parent_session_path: self.legacy_parent_session_path.clone(),
            path: None,
        })
    }
}

/// May the session be written?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpenMode {
    /// Reading and writing; only one place at a time can.
    #[default]
    ReadWrite,
    /// Reading; any number of places can, beside a writer.
    ReadOnly,
}

/// How a session is opened, from a repository or by [`open_file`](crate::open_file).
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// May it be written? For reading only, no file is written at all, whatever `legacy` says.
    pub mode: OpenMode,
    /// What a commit does if the session is a file of version 1 to 3. Others are not concerned.
    pub legacy: LegacyPolicy,
    /// Go on although a file of JSON lines is damaged. One of format 4 is then open for reading only, and
    /// [`Session::gaps`] names what was passed; of an old one what can be read is copied or upgraded.
    pub salvage: bool,
    /// Refuse an old file whose structure is damaged, at its first damage, in place of warning of it.
    pub strict: bool,
}

/// How a session is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// In memory.
    Memory,
    /// A SQLite file of its own.
    SqliteFile,
    /// One of many in a SQLite container.
    SqliteContainer,
    /// In a SQLite file of the reference implementation, which is only read.
    ReferenceSqlite,
    /// A JSONL file of the given version.
    Jsonl(u32),
    /// A file that does not tell.
    Unknown,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::SqliteFile => f.write_str("sqlite"),
            Self::SqliteContainer => f.write_str("sqlite-container"),
            Self::ReferenceSqlite => f.write_str("reference-sqlite"),
            Self::Jsonl(version) => write!(f, "jsonl-{version}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// What a listing looks up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListOptions {
    /// Also name and number of messages, which cost an open each.
    pub details: bool,
}

/// One line of a listing.
#[derive(Debug, Clone)]
pub struct SessionListing {
    /// What the session says of itself; none if it cannot be read, see `problem`.
    pub metadata: Option<SessionMetadata>,
    /// The file it is in.
    pub path: Option<PathBuf>,
    /// When it was last written, Unix ms, where that is known.
    pub modified_at: Option<i64>,
    /// How it is kept.
    pub format: Format,
    /// Its name, when details were asked for.
    pub name: Option<String>,
    /// How many messages it has, when details were asked for.
    pub message_count: Option<u64>,
    /// Why it cannot be read.
    pub problem: Option<Error>,
}

/// What a repository's kind must do. Arguments have been checked.
pub(crate) trait Backend: Send + Sync {
    fn create(&self, options: &CreateOptions, ctx: &Context) -> Result<Session>;
    /// Reserves the id of a new session, which is then filled and published.
    fn draft(&self, options: &CreateOptions, ctx: &Context) -> Result<Box<dyn Draft + '_>>;
    /// Opens by id; with `path`, the one in that file.
    fn open(
        &self,
        id: &str,
        path: Option<&std::path::Path>,
        options: &OpenOptions,
        ctx: &Context,
    ) -> Result<Session>;
    /// In any order; [`Repository::list`] sorts.
    fn list(&self, options: &ListOptions, ctx: &Context) -> Result<Vec<SessionListing>>;
    /// Deletes by id; with `path`, the one in that file.
    fn delete(&self, id: &str, path: Option<&std::path::Path>, ctx: &Context) -> Result<()>;
    /// Closes every open session, waits for all; every error.
    fn close(&self, ctx: &Context) -> Vec<Error>;
}

/// Names a session: by its id, or by its metadata, which also says which file is meant.
#[derive(Debug, Clone, Copy)]
pub struct SessionRef<'a> {
    id: &'a str,
    path: Option<&'a std::path::Path>,
}

impl<'a> From<&'a str> for SessionRef<'a> {
    fn from(id: &'a str) -> Self {
        Self { id, path: None }
    }
}

impl<'a> From<&'a String> for SessionRef<'a> {
    fn from(id: &'a String) -> Self {
        Self { id, path: None }
    }
}

impl<'a> From<&'a SessionMetadata> for SessionRef<'a> {
    fn from(metadata: &'a SessionMetadata) -> Self {
        Self { id: &metadata.id, path: metadata.path.as_deref() }
    }
}

/// A place where sessions are kept. Cheap to clone; clones share it, and are closed together.
#[derive(Clone)]
pub struct Repository {
    backend: Arc<dyn Backend>,
    uri: Arc<str>,
    options: Arc<RepositoryOptions>,
    /// Closing waits for what was admitted: nothing is made or opened behind it.
    gate: Arc<Gate>,
    process: Process,
}

/// Opens the repository that `uri` names: `memory:` (a new one each time), `jsonl:PATH` (a folder of JSON
/// lines, one file per session, in the format of the reference implementation), `sqlite:PATH` (a folder of one
/// file per session, or a container: an existing file, or a name ending in `.sqlite`, `.sqlite3` or `.db`).
/// PATH is taken as it stands. What is not there yet is made by the first `create`.
///
/// ```
/// use pisession::{Context, open_repository};
///
/// let ctx = Context::background();
/// let repository = open_repository("memory:", Default::default())?;
/// let session = repository.create(&Default::default(), &ctx)?;
/// session.set_name(Some("first"), &ctx)?;
/// assert_eq!(repository.list(&Default::default(), &ctx)?.len(), 1);
/// # Ok::<(), pisession::Error>(())
/// ```
///
/// # Errors
/// [`InvalidArgument`](ErrorKind::InvalidArgument) for a text that names none.
pub fn open_repository(uri: &str, options: RepositoryOptions) -> Result<Repository> {
    let wrong = |what: String| {
        Error::new(ErrorKind::InvalidArgument, what)
            .with_hint("a repository is memory:, jsonl:PATH or sqlite:PATH")
    };
    let (scheme, path) = uri.split_once(':').ok_or_else(|| wrong(format!("'{uri}' names no repository")))?;
    let options = Arc::new(options);
    let backend: Arc<dyn Backend> = match scheme {
        "memory" if path.is_empty() => Arc::new(memory::MemoryRepository::new(Arc::clone(&options))),
        "memory" => return Err(wrong(format!("'{uri}': memory: takes no path"))),
        "sqlite" => Arc::new(sqlite::SqliteRepository::new(path, Arc::clone(&options))?),
        "jsonl" => Arc::new(jsonl::JsonlRepository::at(path, Arc::clone(&options))?),
        _ => return Err(wrong(format!("'{uri}' names no kind of repository known here"))),
    };
    Ok(Repository { backend, uri: uri.into(), options, gate: Arc::default(), process: Process::current() })
}

impl Repository {
    /// The text it was opened by.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// How it works.
    pub fn options(&self) -> &RepositoryOptions {
        &self.options
    }

    fn admitted(&self, ctx: &Context) -> Result<Inside<'_>> {
        self.process.check()?;
        ctx.check()?;
        self.gate.enter().ok_or_else(|| {
            Error::new(ErrorKind::Closed, "the repository is closed").with_hint("open the repository again")
        })
    }

    /// Makes a session, open for writing. It holds nothing but its metadata: no branch, no value. Once `ctx`
    /// made it fail, there is no such session.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed) after [`close`](Self::close), as everything here; [`SessionExists`](ErrorKind::SessionExists); [`InvalidId`](ErrorKind::InvalidId) for an id that is
    /// empty, holds U+0000, or is too long for a file name.
    pub fn create(&self, options: &CreateOptions, ctx: &Context) -> Result<Session> {
        let _admitted = self.admitted(ctx)?;
        options.check()?;
        self.backend.create(options, ctx)
    }

    /// Makes a session, open for writing, that holds what `plan` names of `source`, over one boundary between
    /// its commits. Until it is whole nobody sees it, and its id is reserved. Never takes the source's
    /// mutation line.
    pub(crate) fn copy(
        &self,
        source: &Session,
        options: &CreateOptions,
        plan: &mut Planner<'_>,
        ctx: &Context,
    ) -> Result<Session> {
        self.make(options, |draft| source.copy_into(plan, draft, ctx), ctx)
    }

    /// Makes a session, open for writing, of what `fill` puts. If that fails there is no such session.
    pub(crate) fn make(
        &self,
        options: &CreateOptions,
        fill: impl FnOnce(&mut dyn Sink) -> Result<()>,
        ctx: &Context,
    ) -> Result<Session> {
        let _admitted = self.admitted(ctx)?;
        options.check()?;
        let mut draft = self.backend.draft(options, ctx)?;
        fill(&mut *draft)?;
        draft.publish(ctx)
    }

    /// Opens a session for writing, by id or metadata. One that is a file of version 1 to 3 opens, and refuses
    /// commits with [`LegacyReadOnly`](ErrorKind::LegacyReadOnly): [`open_with`](Self::open_with) takes a
    /// [policy](LegacyPolicy) for it.
    ///
    /// # Errors
    /// [`UnknownSession`](ErrorKind::UnknownSession), [`SessionBusy`](ErrorKind::SessionBusy),
    /// [`AmbiguousSession`](ErrorKind::AmbiguousSession), [`Corrupt`](ErrorKind::Corrupt),
    /// [`UnsupportedVersion`](ErrorKind::UnsupportedVersion).
    pub fn open<'a>(&self, session: impl Into<SessionRef<'a>>, ctx: &Context) -> Result<Session> {
        self.open_with(session, &OpenOptions::default(), ctx)
    }

    /// Opens a session for reading, beside whoever writes it.
    ///
    /// # Errors
    /// As [`open`](Self::open), but never `SessionBusy`.
    pub fn open_read_only<'a>(&self, session: impl Into<SessionRef<'a>>, ctx: &Context) -> Result<Session> {
        self.open_with(session, &OpenOptions { mode: OpenMode::ReadOnly, ..OpenOptions::default() }, ctx)
    }

    /// Opens a session as `options` say.
    ///
    /// # Errors
    /// As [`open`](Self::open), and for a file of version 1 to 3 as [`open_file`](crate::open_file).
    pub fn open_with<'a>(
        &self,
        session: impl Into<SessionRef<'a>>,
        options: &OpenOptions,
        ctx: &Context,
    ) -> Result<Session> {
        let _admitted = self.admitted(ctx)?;
        let session = session.into();
        crate::model::id::check_id(session.id)?;
        let span =
            tracing::debug_span!("pisession.open", session.id = session.id, traceparent = ctx.traceparent());
        span.in_scope(|| self.backend.open(session.id, session.path, options, ctx))
    }

    /// The sessions: newest `created_at` first, then by id, then by path. Read-only; one bad file does not
    /// hide the others: it is listed with its problem, behind them.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) if the place itself cannot be read.
    pub fn list(&self, options: &ListOptions, ctx: &Context) -> Result<Vec<SessionListing>> {
        let _admitted = self.admitted(ctx)?;
        let mut listed = self.backend.list(options, ctx)?;
        listed.sort_by(|a, b| {
            let key = |listing: &SessionListing| {
                listing.metadata.as_ref().map(|metadata| (metadata.created_at, metadata.id.clone()))
            };
            match (key(a), key(b)) {
                (Some((a_time, a_id)), Some((b_time, b_id))) => {
                    b_time.cmp(&a_time).then_with(|| a_id.cmp(&b_id))
                }
                (a, b) => b.is_some().cmp(&a.is_some()),
            }
            .then_with(|| a.path.cmp(&b.path))
        });
        Ok(listed)
    }

    /// Deletes a session that is open nowhere, by id or metadata; with the file that metadata name, that one
    /// only.
    ///
    /// # Errors
    /// [`SessionBusy`](ErrorKind::SessionBusy), [`UnknownSession`](ErrorKind::UnknownSession),
    /// [`AmbiguousSession`](ErrorKind::AmbiguousSession); what is no session is never deleted.
    pub fn delete<'a>(&self, session: impl Into<SessionRef<'a>>, ctx: &Context) -> Result<()> {
        let _admitted = self.admitted(ctx)?;
        let session = session.into();
        crate::model::id::check_id(session.id)?;
        self.backend.delete(session.id, session.path, ctx)
    }

    /// Closes the repository: refuses to make, open, list and delete sessions from now on, waits for the calls
    /// that do, and closes every session that was opened through it. Idempotent.
    ///
    /// # Errors
    /// The first of the errors of closing; its message counts and names the others. After
    /// [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) or [`Cancelled`](ErrorKind::Cancelled) it is to be
    /// closed again; what could be closed at once is.
    pub fn close(&self, ctx: &Context) -> Result<()> {
        self.process.check()?;
        self.gate.shut();
        let drained = self.gate.drain(ctx).err().map(|error| {
            Error::new(error.kind(), format!("calls of the repository had not ended: {}", error.message()))
                .with_hint("it takes no new work; close it again to finish")
        });
        let mut errors = drained.into_iter().chain(self.backend.close(ctx));
        let Some(first) = errors.next() else { return Ok(()) };
        let others: Vec<String> = errors.map(|error| error.to_string()).collect();
        if others.is_empty() {
            return Err(first);
        }
        let message = format!("{} (and {} more: {})", first.message(), others.len(), others.join("; "));
        Err(first.with_message(message))
    }
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Repository").field(&self.uri).finish()
    }
}

pub(crate) fn unknown_session(id: &str) -> Error {
    Error::new(ErrorKind::UnknownSession, format!("there is no session '{id}' here")).with_id(id)
}

pub(crate) fn session_exists(id: &str) -> Error {
    Error::new(ErrorKind::SessionExists, format!("a session '{id}' exists already"))
        .with_id(id)
        .with_hint("open it, or choose another id")
}

pub(crate) fn session_busy(id: &str) -> Error {
    Error::new(ErrorKind::SessionBusy, format!("the session '{id}' is open for writing in this process"))
        .with_id(id)
        .with_hint("use the handle that is open, close it, or open the session for reading only")
}
