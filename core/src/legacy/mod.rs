//! Session files of versions 1, 2 and 3: read as sessions, copied, imported, upgraded.
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
pub(crate) mod upgrade;
mod values;
mod writer;
pub(crate) mod writes;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::legacy::lines::Digests;
use crate::legacy::scan::{Opened, Progress, Scanned};
use crate::legacy::storage::{LegacyStorage, Stamp};
use crate::legacy::writes::Source;
use crate::model::id::check_id;
use crate::repository::{CreateOptions, OpenOptions, Repository};
use crate::session::Session;
use crate::session::backend::SessionMetadata;

pub(crate) use detect::{is_sqlite, tell};
pub(crate) use report::Legacy;

/// What a commit does to a session whose file is of version 1 to 3.
#[derive(Debug, Clone, Default)]
pub enum LegacyPolicy {
    /// It is refused with [`LegacyReadOnly`](ErrorKind::LegacyReadOnly): the file is only read.
    #[default]
    ReadOnly,
    /// Opening makes a new session beside the file, whole: in the same repository, or in the file's folder where
    /// it is opened by its path. It has a new id and the old one as its parent; commits go there. The file stays
    /// as it is. Each open makes another copy.
    Copy,
    /// The same, in this repository.
    CopyTo(Repository),
    /// Opening rewrites the file as format 4, under its path and with its id; commits go on there. The file as
    /// it was stays beside it as `NAME.vN.bak`, N being its version; where that name is taken by something else,
    /// as `NAME.vN.2.bak` and so on. The programs that own the file cannot read it any more.
    Upgrade,
}

/// Where a copy is made.
pub(crate) trait Destination {
    fn create(&self, options: &CreateOptions, ctx: &Context) -> Result<Session>;
    fn delete(&self, id: &str, ctx: &Context) -> Result<()>;
}

impl Destination for Repository {
    fn create(&self, options: &CreateOptions, ctx: &Context) -> Result<Session> {
        Repository::create(self, options, ctx)
    }

    fn delete(&self, id: &str, ctx: &Context) -> Result<()> {
        Repository::delete(self, id, ctx)
    }
}

/// Makes a new session from the old file at `path`.
pub(crate) fn copy(
    path: &Path,
    to: &dyn Destination,
    options: &OpenOptions,
    ctx: &Context,
) -> Result<Session> {
    let file = read_whole(path, options.strict, &|_| (), ctx)?;
    file.check_may_be_written(options.salvage)?;
    check_id(&file.metadata.id)?;
    let new = CreateOptions {
        parent_session_id: Some(file.metadata.id.clone()),
        cwd: file.metadata.cwd.clone(),
        ..CreateOptions::default()
    };
    let session = to.create(&new, ctx)?;
    match import::write(&Source::new(&file), &session, 0, &|_| (), ctx) {
        Ok(()) => {
            session.set_legacy(file.legacy);
            Ok(session)
        }
        Err(error) => Err(import::give_up(error, &session, &|ctx| to.delete(session.id(), ctx))),
    }
}

/// Whether the file at `path` is one of version 1 to 3, as far as its header tells.
pub(crate) fn is_legacy(path: &Path) -> bool {
    detect::header_of(path).is_ok()
}

/// What the file at `path` says of itself, and its version, from its header alone.
pub(crate) fn metadata_of(path: &Path) -> Result<(SessionMetadata, u32)> {
    let header = detect::header_of(path)?;
    let version = u32::try_from(header.version).unwrap_or(u32::MAX);
    let Some(created_at) = header.created_at else {
        // Its time is that of an entry then, so the file is read.
        return Ok((read(path, false, &Context::background())?.metadata, version));
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

/// A file that was read.
pub(crate) struct OldFile {
    pub(crate) metadata: SessionMetadata,
    pub(crate) storage: LegacyStorage,
    pub(crate) legacy: Legacy,
    in_file_order: bool,
    digests: Option<Digests>,
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

/// Reads the file at `path`.
pub(crate) fn read(path: &Path, strict: bool, ctx: &Context) -> Result<OldFile> {
    read_file(path, strict, false, &|_| (), ctx)
}

/// Reads the file at `path` in order to write from it, and takes its digests.
fn read_whole(path: &Path, strict: bool, progress: Progress<'_>, ctx: &Context) -> Result<OldFile> {
    read_file(path, strict, true, progress, ctx)
}

fn read_file(
    path: &Path,
    strict: bool,
    hash: bool,
    progress: Progress<'_>,
    ctx: &Context,
) -> Result<OldFile> {
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
    let digests = scanned.digests;
    let (storage, legacy) = LegacyStorage::new(path, file, stamp, scanned, &tree)?;
    Ok(OldFile { metadata, storage, legacy, in_file_order: tree.in_file_order, digests })
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
