//! Import: a session in a repository made from an old file, whole, under the id the file has.
//!
//! Up to 32 MiB everything goes in one commit. A larger file takes several: entries first, then one commit
//! with name, labels, tip, configuration, state and usage, and then the rest of the list
//! `pisession.legacy`, whose last element is the source record. Until the commit with the tip a reader finds
//! no branch in the session; a session without a source record is an import that was cut off, and importing
//! the same file again compares what is there and goes on behind it.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::legacy::report::Warning;
use crate::legacy::restore::{OldIds, Restored};
use crate::legacy::same::{Comparison, SourceRecord};
use crate::legacy::scan::Progress;
use crate::legacy::storage::LegacyStorage;
use crate::legacy::writes::{Place, Source};
use crate::legacy::{Legacy, OldFile, read_whole};
use crate::model::write::Write;
use crate::repository::{CreateOptions, Repository};
use crate::session::Session;
use crate::session::backend::SessionMetadata;
use crate::storage::commit::payload_length;

/// How many bytes and writes a commit of an import collects before it is made.
const COMMIT_BYTES: usize = 32 << 20;
const COMMIT_WRITES: usize = 100_000;

/// Called with work done and all work, in bytes.
pub type ImportProgress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// How a file is imported.
#[derive(Clone, Default)]
pub struct ImportOptions {
    /// Refuse a file whose structure is damaged, at its first damage.
    pub strict: bool,
    /// Import what can be read of a damaged file.
    pub salvage: bool,
    /// The id of the session; none for the file's.
    pub id: Option<String>,
    /// Told about the progress now and then: bytes done and bytes in all. The file is gone through three
    /// times (read, stored, compared), and each counts.
    pub progress: Option<ImportProgress>,
}

impl fmt::Debug for ImportOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportOptions")
            .field("strict", &self.strict)
            .field("salvage", &self.salvage)
            .field("id", &self.id)
            .field("progress", &self.progress.is_some())
            .finish()
    }
}

/// What an import did.
#[derive(Debug, Clone)]
pub struct Import {
    /// The session: the new one, or the one that held the file already.
    pub session: SessionMetadata,
    /// Whether anything was added.
    pub added: bool,
    /// How many entries the file gives.
    pub entries: u64,
    /// What reading the file found: its warnings, the map of its ids.
    pub legacy: Legacy,
}

impl Import {
    /// The session's id.
    pub fn session_id(&self) -> &str {
        &self.session.id
    }

    /// What is wrong with the file, by line, then value.
    pub fn warnings(&self) -> &[Warning] {
        &self.legacy.warnings
    }
}

/// Makes a session in `repository` from the session file of version 1 to 3 at `path`.
///
/// Its id is the file's. Several files may share an id (checkpoints, backups): if the session is there and
/// came from this file, or from one that starts with it, nothing is added and that session is returned.
/// Nothing is ever merged. All usage of the file becomes one row
/// `{adjustment:true, details:{"source":"v3-import"}}`. The list at (`pisession.legacy`, the empty key) keeps
/// what entries cannot: lines in full, the old ids, and which bytes the session was made from.
///
/// A process that dies meanwhile leaves the session absent, whole, or without its source record; importing
/// the same file again completes that. Until then it has no branch, or at most misses a part of that list.
///
/// # Errors
/// [`SessionExists`](ErrorKind::SessionExists) if a session of that id is something else: give another id;
/// [`SessionBusy`](ErrorKind::SessionBusy) if that session is being imported elsewhere;
/// [`Corrupt`](ErrorKind::Corrupt) for a damaged file without `salvage`, unless nothing is to be added;
/// [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) for a version above 3;
/// [`FileChanged`](ErrorKind::FileChanged) if another program writes the file meanwhile; what
/// [`open_file`](crate::open_file), creating a session and a commit fail with.
pub fn import_file(
    path: impl AsRef<Path>,
    repository: &Repository,
    options: &ImportOptions,
    ctx: &Context,
) -> Result<Import> {
    // A file that cannot be looked at cannot be read either, which says why.
    let size = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
    let report = |done: u64| {
        if let Some(progress) = &options.progress {
            progress(done, 3 * size);
        }
    };
    let file = read_whole(path.as_ref(), options.strict, &report, ctx)?;
    let report = |done: u64| report(file.storage.size() + done);
    let source = Source::new(&file);
    let id = options.id.clone().unwrap_or_else(|| file.metadata.id.clone());
    if let Err(refused) = file.check_may_be_written(options.salvage) {
        // A state of the file that a program was still writing: nothing is to be written from it.
        return match repository.open_read_only(&*id, ctx) {
            Ok(session)
                if refused.kind() == ErrorKind::Corrupt
                    && holds(&session, &source, &report, ctx)? == Some(true) =>
            {
                done(session, false, file)
            }
            _ => Err(refused),
        };
    }
    let create = CreateOptions {
        id: Some(id.clone()),
        parent_session_id: file.metadata.parent_session_id.clone(),
        cwd: file.metadata.cwd.clone(),
        created_at: Some(file.metadata.created_at),
        legacy_parent_session_path: file.metadata.legacy_parent_session_path.clone(),
    };
    let (session, added) = match repository.create(&create, ctx) {
        Ok(session) => match write(&source, &session, 0, &report, ctx) {
            Ok(()) => (session, true),
            Err(error) => return Err(give_up(error, &session, &|ctx| repository.delete(session.id(), ctx))),
        },
        Err(error) if error.kind() == ErrorKind::SessionExists => {
            add_to(&id, &create, &source, repository, &report, ctx)?
        }
        Err(error) => return Err(error),
    };
    done(session, added, file)
}

fn done(session: Session, added: bool, file: OldFile) -> Result<Import> {
    session.close(&Context::background())?;
    Ok(Import {
        session: session.metadata().clone(),
        added,
        entries: file.storage.entries.len() as u64,
        legacy: file.legacy,
    })
}

/// The session of that id, if it is this file's: as it is if it holds the file, else completed.
fn add_to(
    id: &str,
    create: &CreateOptions,
    source: &Source<'_>,
    repository: &Repository,
    progress: Progress<'_>,
    ctx: &Context,
) -> Result<(Session, bool)> {
    let other = || {
        Error::new(
            ErrorKind::SessionExists,
            format!(
                "a session '{id}' exists already, and it is not from this file, or not from this state of it"
            ),
        )
        .with_id(id)
        .with_path(&source.storage.path)
        .with_hint("import the file under another id")
    };
    let session = repository.open_read_only(id, ctx)?;
    // An old file in a folder of JSON lines, perhaps this one itself: importing writes nothing to it.
    if session.legacy().is_some() {
        return Err(other().with_hint(
            "that session is an old file in the repository: open it with the legacy policy `upgrade`, or import \
             under another id",
        ));
    }
    match holds(&session, source, progress, ctx)? {
        Some(true) => return Ok((session, false)),
        Some(false) => return Err(other()),
        None => session.close(ctx)?,
    }
    let found = session.metadata();
    if Some(found.created_at) != create.created_at
        || found.cwd != create.cwd
        || found.parent_session_id != create.parent_session_id
    {
        return Err(other());
    }
    let session = repository.open(id, ctx)?;
    let there = session.next_seq(ctx)? - 1;
    if !holds_start(&session, source, there, ctx)? {
        session.close(ctx)?;
        return Err(other());
    }
    write(source, &session, there, progress, ctx)?;
    Ok((session, true))
}

/// Whether the session came from this file, or from one that starts with it; none if it says nothing of a file.
fn holds(
    session: &Session,
    source: &Source<'_>,
    progress: Progress<'_>,
    ctx: &Context,
) -> Result<Option<bool>> {
    let Some(record) = SourceRecord::of(session, ctx)? else { return Ok(None) };
    let own = source.record();
    let size = source.storage.size();
    let is_same = record == own || (record.bytes > own.bytes && begins_with(session, source, ctx)?);
    progress(2 * size);
    Ok(Some(is_same))
}

/// Whether the file that the session came from begins with the lines of this one.
fn begins_with(session: &Session, source: &Source<'_>, ctx: &Context) -> Result<bool> {
    let old = OldIds::of(session, ctx)?;
    let restored = Restored::of(session, &old, &std::env::temp_dir(), ctx)?;
    let begins = match &restored {
        Some(restored) => {
            let LegacyStorage { path, file, .. } = source.storage;
            restored.begins_with(path, file, source.storage.size(), ctx)?
        }
        None => false,
    };
    source.storage.check_unchanged()?;
    Ok(begins)
}

/// Whether all that a session holds are the first `there` writes of this file.
fn holds_start(session: &Session, source: &Source<'_>, there: u64, ctx: &Context) -> Result<bool> {
    let mut comparison = Comparison::new(session, ctx);
    let (mut seq, mut same) = (0, true);
    source.each(&|_| (), ctx, &mut |write, _| {
        if seq == there {
            return Ok(ControlFlow::Break(()));
        }
        seq += 1;
        same = comparison.holds(&write, seq)?;
        Ok(if same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(same && seq == there)
}

/// Writes what the file gives into `session`, but for the first `there` writes.
pub(super) fn write(
    source: &Source<'_>,
    session: &Session,
    there: u64,
    progress: Progress<'_>,
    ctx: &Context,
) -> Result<()> {
    let mut pending = Vec::new();
    let (mut bytes, mut seq) = (0, 0);
    let commit = |writes: &[Write]| session.mutate(|mutator, ctx| mutator.commit(writes, ctx), ctx).map(drop);
    source.each(progress, ctx, &mut |write, place| {
        seq += 1;
        if seq <= there {
            return Ok(ControlFlow::Continue(()));
        }
        let is_full = bytes >= COMMIT_BYTES || pending.len() >= COMMIT_WRITES;
        if place == Place::Anywhere && is_full {
            commit(&pending)?;
            pending.clear();
            bytes = 0;
        }
        bytes += payload_length(&write);
        pending.push(write);
        Ok(ControlFlow::Continue(()))
    })?;
    if pending.is_empty() { Ok(()) } else { commit(&pending) }
}

/// Removes a session that could not be written whole.
pub(super) fn give_up(error: Error, session: &Session, delete: &dyn Fn(&Context) -> Result<()>) -> Error {
    // Not the caller's context: that may be why it failed.
    let ctx = Context::background();
    match session.close(&ctx).and_then(|()| delete(&ctx)) {
        Ok(()) => error,
        Err(left) => error.with_hint(format!(
            "the unfinished session '{}' could not be removed ({left}); delete it, or import the file again",
            session.id()
        )),
    }
}
