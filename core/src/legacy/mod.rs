//! Session files of versions 1, 2 and 3: read as sessions, copied, imported, never written in place.
//!
//! Nearly all session files of coding agents are of these versions, and the programs that own them read
//! nothing newer. So opening never writes to the file, and what a write does is the caller's choice at open.

mod detect;
mod ending;
pub(crate) mod export;
pub(crate) mod import;
mod lines;
pub(crate) mod loss;
mod names;
mod nodes;
mod payload;
mod print;
pub(crate) mod report;
mod restore;
pub(crate) mod same;
mod scan;
mod storage;
mod tail;
mod times;
mod tree;
mod unheld;
mod values;
mod writes;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::legacy::scan::{Opened, Progress, Scanned};
use crate::legacy::storage::{LegacyStorage, Stamp};
use crate::legacy::writes::Source;
use crate::model::id::{SystemClock, UuidV7};
use crate::model::json::MAX_PAYLOAD;
use crate::repository::sqlite::open_reference_file;
use crate::repository::{CreateOptions, Durability, OpenMode, Repository};
use crate::session::Session;
use crate::session::backend::{LocalSession, SessionMetadata};
use crate::storage::jsonl::{JsonlOptions, JsonlStorage};

pub(crate) use report::Legacy;

/// What a commit does to a session whose file is of version 1 to 3.
#[derive(Debug, Clone, Default)]
pub enum LegacyPolicy {
    /// It is refused: the file is only read.
    #[default]
    ReadOnly,
    /// Opening makes a new session in this repository, whole, with a new id and the old one as its parent;
    /// commits go there. The file stays as it is.
    Copy(Repository),
}

/// How a session file is opened. Default: leniently, for reading.
#[derive(Debug, Clone, Default)]
pub struct OpenFileOptions {
    /// Refuse a file whose structure is damaged, at its first damage, in place of warning of it.
    pub strict: bool,
    /// Go on although the file is damaged: needed to copy from one that is, and to read one of format 4.
    pub salvage: bool,
    /// What a commit does.
    pub legacy: LegacyPolicy,
}

/// Opens the session file at `path`, whatever it is called: what it is, is told by its first JSON objects.
///
/// Files of versions 1, 2 and 3 are read as they are and never written; [`Session::legacy`] tells what was
/// found in them, and [`OpenFileOptions::legacy`] says where commits go. Ids of their entries are the same at
/// every open. Memory follows the number of entries, not their size: payloads are read when asked for. If
/// the file changes after it was opened, reads fail with `FileChanged`. A file of format 4 is opened for
/// reading, and follows whoever writes it; so is a SQLite container of the reference implementation that holds
/// one session.
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
/// [`Corrupt`](ErrorKind::Corrupt) with line and offset for a damaged file in strict reading, and when it
/// shall be copied without `salvage`; [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) when a file of a
/// version above 3 shall be copied; [`Io`](ErrorKind::Io); what creating a session and a commit fail with.
pub fn open_file(path: impl AsRef<Path>, options: &OpenFileOptions, ctx: &Context) -> Result<Session> {
    let id = tracing::field::Empty;
    let span = tracing::debug_span!("pisession.open", session.id = id, traceparent = ctx.traceparent());
    let _entered = span.enter();
    let session = open_any(path.as_ref(), options, ctx)?;
    span.record("session.id", session.id());
    Ok(session)
}

fn open_any(path: &Path, options: &OpenFileOptions, ctx: &Context) -> Result<Session> {
    if detect::is_format4(path) {
        return open_format4(path, options);
    }
    if detect::is_sqlite(path)
        && let Some(session) = open_reference_file(path, ctx)?
    {
        return match options.legacy {
            LegacyPolicy::ReadOnly => Ok(session),
            LegacyPolicy::Copy(_) => Err(Error::new(
                ErrorKind::Unsupported,
                "a container of the reference implementation is not copied by opening it",
            )
            .with_path(path)
            .with_hint("fork or convert the session into a repository, and go on in it")),
        };
    }
    let copies = matches!(options.legacy, LegacyPolicy::Copy(_));
    let file = read(path, options.strict, copies, &|_| (), ctx)?;
    match &options.legacy {
        LegacyPolicy::ReadOnly => {
            let ids = Arc::new(UuidV7::default());
            let storage = Box::new(file.storage);
            let local = LocalSession::new(file.metadata, ids, storage, None, Some(file.legacy));
            Ok(Session::new(Arc::new(local)))
        }
        LegacyPolicy::Copy(repository) => {
            file.check_may_be_written(options.salvage)?;
            copy(file, repository, ctx)
        }
    }
}

/// Opens a file of format 4 for reading; to write it, it is opened through its repository.
fn open_format4(path: &Path, options: &OpenFileOptions) -> Result<Session> {
    if matches!(options.legacy, LegacyPolicy::Copy(_)) {
        return Err(Error::new(ErrorKind::Unsupported, "a file of format 4 is not copied by opening it")
            .with_path(path)
            .with_hint("open it through its repository, jsonl: and the folder it is in, and go on in it"));
    }
    let storage = JsonlStorage::open(
        path,
        JsonlOptions {
            mode: OpenMode::ReadOnly,
            durability: Durability::Power,
            clock: Arc::new(SystemClock),
            max_payload: MAX_PAYLOAD,
            salvage: options.salvage,
            compact_on_close: false,
        },
    )?;
    let metadata = SessionMetadata { path: Some(path.to_owned()), ..storage.metadata() };
    let local = LocalSession::new(metadata, Arc::new(UuidV7::default()), Box::new(storage), None, None);
    Ok(Session::new(Arc::new(local)))
}

/// What the file at `path` says of itself, and its version, from its header alone.
pub(crate) fn metadata_of(path: &Path) -> Result<(SessionMetadata, u32)> {
    let header = detect::header_of(path)?;
    let version = u32::try_from(header.version).unwrap_or(u32::MAX);
    let Some(created_at) = header.created_at else {
        // Its time is that of an entry then, so the file is read.
        let session = open_file(path, &OpenFileOptions::default(), &Context::background())?;
        return Ok((session.metadata().clone(), version));
    };
    let parent_id =
        header.parent.as_deref().and_then(|parent| detect::session_id(&detect::resolve(path, parent)));
    let metadata = SessionMetadata {
        id: header.id,
        created_at,
        storage_version: 1,
        cwd: Some(header.cwd),
        legacy_parent_session_path: header.parent.filter(|_| parent_id.is_none()),
        parent_session_id: parent_id,
        path: Some(path.to_owned()),
    };
    Ok((metadata, version))
}

fn copy(file: OldFile, repository: &Repository, ctx: &Context) -> Result<Session> {
    let options = CreateOptions {
        parent_session_id: Some(file.metadata.id.clone()),
        cwd: file.metadata.cwd.clone(),
        ..CreateOptions::default()
    };
    let session = repository.create(&options, ctx)?;
    match import::write(&Source::new(&file), &session, 0, &|_| (), ctx) {
        Ok(()) => {
            session.set_legacy(file.legacy);
            Ok(session)
        }
        Err(error) => Err(import::give_up(error, &session, repository)),
    }
}

/// A file that was read.
struct OldFile {
    metadata: SessionMetadata,
    storage: LegacyStorage,
    legacy: Legacy,
    in_file_order: bool,
    sha256: Option<[u8; 32]>,
}

impl OldFile {
    /// Whether another session may be written from it.
    fn check_may_be_written(&self, salvage: bool) -> Result<()> {
        if self.legacy.version > 3 {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                "the session file is of a version newer than 3; it can be read, but nothing is written from it",
            )
            .with_path(&self.storage.path)
            .with_hint("use a newer release of this library"));
        }
        match self.legacy.first_damage() {
            Some(damage) if !salvage => Err(Error::new(
                ErrorKind::Corrupt,
                format!("the session file is damaged ({}): {}", damage.kind, damage.message()),
            )
            .with_path(&self.storage.path)
            .with_line(damage.line, damage.offset)
            .with_hint("ask for `salvage` to write what can be read of it")),
            _ => Ok(()),
        }
    }
}

/// Reads the file at `path`. With `hash`, also its SHA-256.
fn read(path: &Path, strict: bool, hash: bool, progress: Progress<'_>, ctx: &Context) -> Result<OldFile> {
    ctx.check()?;
    let path = std::path::absolute(path)
        .map_err(|error| Error::io("cannot find the session file", error).with_path(path))?;
    let io = |error| Error::io("cannot open the session file", error).with_path(&path);
    // Looked at before it is opened: opening a pipe would wait for its writer.
    if !std::fs::metadata(&path).map_err(io)?.is_file() {
        return Err(
            Error::new(ErrorKind::NotASession, "a session is kept in a regular file").with_path(&path)
        );
    }
    let file = File::open(&path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    let stamp = Stamp::of(&metadata);
    let mut scanned = match scan::scan(&path, &file, stamp.size(), hash, progress, ctx)? {
        Opened::Legacy(scanned) => *scanned,
        Opened::Format4 => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the file is a session of format 4 as JSON lines, which is not imported",
            )
            .with_path(&path)
            .with_hint("put it into the folder of a jsonl: repository and open it there"));
        }
    };
    let tree = tree::resolve(&mut scanned);
    if strict && let Some(error) = strict_error(&path, &scanned) {
        return Err(error);
    }
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let metadata = session_metadata(&path, &scanned, modified.map_or(0, |since| since.as_millis() as i64));
    let sha256 = scanned.sha256;
    let (storage, legacy) = LegacyStorage::new(path, file, stamp, scanned, &tree)?;
    Ok(OldFile { metadata, storage, legacy, in_file_order: tree.in_file_order, sha256 })
}

fn strict_error(path: &Path, scanned: &Scanned) -> Option<Error> {
    let damage = scanned.warnings.iter().find(|warning| warning.kind.is_damage())?;
    let message = format!("{}: {}", damage.kind, damage.message());
    let error = Error::new(ErrorKind::Corrupt, message).with_path(path).with_line(damage.line, damage.offset);
    Some(error.with_hint("open it without `strict` to read what can be read of it"))
}

fn session_metadata(path: &Path, scanned: &Scanned, modified: i64) -> SessionMetadata {
    let header = &scanned.header;
    let parent = header.parent.as_deref();
    let parent_id = parent.and_then(|parent| detect::session_id(&detect::resolve(path, parent)));
    let first_entry = scanned.nodes.first().map(|node| node.time).filter(|time| *time > 0);
    SessionMetadata {
        id: header.id.clone(),
        created_at: header.created_at.or(first_entry).unwrap_or(modified),
        storage_version: 1,
        cwd: Some(header.cwd.clone()),
        legacy_parent_session_path: parent.filter(|_| parent_id.is_none()).map(str::to_owned),
        parent_session_id: parent_id,
        path: Some(PathBuf::from(path)),
    }
}
