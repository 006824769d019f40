//! Conversion: a session as it is, in another repository, whatever keeps it there. Nothing is added or left out.

use sha2::{Digest as _, Sha256};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::legacy::import::{ImportOptions, import_file};
use crate::model::json::quote;
use crate::model::write::Write;
use crate::repository::jsonl::name::absolute;
use crate::repository::{CreateOptions, ListOptions, Repository, SessionListing};
use crate::session::Session;
use crate::session::backend::SessionMetadata;
use crate::storage::copy::{Plan, Record, Sink};

/// What the conversion of a session did.
#[derive(Debug, Clone)]
pub struct Conversion {
    /// The session in its new place.
    pub session: SessionMetadata,
    /// Whether it was made; if not, it was there already, and holds the same.
    pub made: bool,
}

/// A session of a repository that was converted, or why it was not.
#[derive(Debug, Clone)]
pub struct Converted {
    /// Where it is listed.
    pub source: SessionListing,
    /// What became of it.
    pub outcome: Result<Conversion>,
}

/// Copies a session into another repository as it is: entries, values, lists, ledger, results and what
/// operations keep, ids, `seq`s, timestamps, the next `seq`, and what the session says of itself. A session that
/// is written meanwhile is copied as it was at one moment. The copy appears whole or not at all.
///
/// A session of that id that is there already and holds the same is left as it is: converting again goes on with
/// what is missing. A session that was opened from a file of version 1 to 3 is
/// [imported](crate::import_file). A repository of JSON lines makes the working folder absolute, and gives
/// a session without one the current one.
///
/// `progress` is told how many records were copied.
///
/// ```
/// use pisession::{Context, convert_session, open_repository};
///
/// let ctx = Context::background();
/// let session = open_repository("memory:", Default::default())?.create(&Default::default(), &ctx)?;
/// let elsewhere = open_repository("memory:", Default::default())?;
/// assert!(convert_session(&session, &elsewhere, &mut |_| (), &ctx)?.made);
/// assert!(!convert_session(&session, &elsewhere, &mut |_| (), &ctx)?.made);
/// # Ok::<(), pisession::Error>(())
/// ```
///
/// # Errors
/// [`SessionExists`](ErrorKind::SessionExists) if a session of that id is there that is something else;
/// [`Corrupt`](ErrorKind::Corrupt) for a source that is damaged: [`repair_file`](crate::repair_file) reads past
/// that; what reading the source and creating a session fail with.
pub fn convert_session(
    source: &Session,
    into: &Repository,
    progress: &mut dyn FnMut(u64),
    ctx: &Context,
) -> Result<Conversion> {
    let metadata = source.metadata();
    if let (Some(_), Some(path)) = (source.legacy(), &metadata.path)
        && crate::legacy::is_legacy(path)
    {
        let import = import_file(path, into, &ImportOptions::default(), ctx)?;
        return Ok(Conversion { session: import.session, made: import.added });
    }
    if let Some(there) = there_already(source, into, ctx)? {
        return Ok(Conversion { session: there, made: false });
    }
    let create = CreateOptions {
        id: Some(metadata.id.clone()),
        parent_session_id: metadata.parent_session_id.clone(),
        cwd: metadata.cwd.clone(),
        created_at: Some(metadata.created_at),
        legacy_parent_session_path: metadata.legacy_parent_session_path.clone(),
    };
    let fill = |sink: &mut dyn Sink| {
        let mut counted = Counted { sink, progress, count: 0 };
        source.copy_into(&mut |view| Plan::whole(view), &mut counted, ctx)
    };
    let made = into.make(&create, fill, ctx)?;
    let session = made.metadata().clone();
    made.close(ctx)?;
    Ok(Conversion { session, made: true })
}

/// [`convert_session`] for every session of a repository, newest first. One that fails does not stop the others;
/// `told` hears of each as it is done, with how many there are.
///
/// # Errors
/// What listing fails with, [`Cancelled`](ErrorKind::Cancelled) and
/// [`DeadlineExceeded`](ErrorKind::DeadlineExceeded); what a session fails with is its
/// [outcome](Converted::outcome).
pub fn convert_repository(
    from: &Repository,
    into: &Repository,
    progress: &mut dyn FnMut(u64),
    told: &mut dyn FnMut(&Converted, usize),
    ctx: &Context,
) -> Result<Vec<Converted>> {
    let listed = from.list(&ListOptions::default(), ctx)?;
    let all = listed.len();
    let mut done = Vec::with_capacity(all);
    for source in listed {
        ctx.check()?;
        let outcome = match (&source.metadata, &source.problem) {
            (_, Some(problem)) => Err(problem.clone()),
            (None, None) => continue,
            (Some(metadata), None) => from
                .open_read_only(metadata, ctx)
                .and_then(|session| convert_session(&session, into, progress, ctx)),
        };
        if let Err(error) = &outcome
            && matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::DeadlineExceeded)
        {
            return Err(error.clone());
        }
        let converted = Converted { source, outcome };
        told(&converted, all);
        done.push(converted);
    }
    Ok(done)
}

/// The session of that id in the other repository, if it is there and holds the same.
fn there_already(source: &Session, into: &Repository, ctx: &Context) -> Result<Option<SessionMetadata>> {
    let there = match into.open_read_only(source.id(), ctx) {
        Ok(there) => there,
        Err(error) if error.kind() == ErrorKind::UnknownSession => return Ok(None),
        Err(error) => return Err(error),
    };
    if says_the_same(source.metadata(), there.metadata()) && digest(source, ctx)? == digest(&there, ctx)? {
        return Ok(Some(there.metadata().clone()));
    }
    let mut error = Error::new(
        ErrorKind::SessionExists,
        format!("a session '{}' is there already, and is not the same", source.id()),
    )
    .with_id(source.id())
    .with_hint("nothing was changed; move or delete one of the two, or convert into another repository");
    if let Some(path) = &there.metadata().path {
        error = error.with_path(path);
    }
    Err(error)
}

fn says_the_same(one: &SessionMetadata, other: &SessionMetadata) -> bool {
    // Where files are sorted by their working folder it is made absolute, or the current one.
    let same_cwd = one.cwd.is_none()
        || one.cwd == other.cwd
        || absolute(one.cwd.as_deref()).is_ok_and(|cwd| other.cwd.as_ref() == Some(&cwd));
    same_cwd
        && one.created_at == other.created_at
        && one.parent_session_id == other.parent_session_id
        && one.legacy_parent_session_path == other.legacy_parent_session_path
}

/// SHA-256 of everything that a session holds.
fn digest(session: &Session, ctx: &Context) -> Result<[u8; 32]> {
    let mut sum = Sum(Sha256::new());
    session.copy_into(&mut |view| Plan::whole(view), &mut sum, ctx)?;
    Ok(sum.0.finalize().into())
}

struct Sum(Sha256);

impl Sink for Sum {
    fn start(&mut self, next_seq: u64, _ctx: &Context) -> Result<()> {
        self.0 = Sha256::new();
        self.0.update(next_seq.to_be_bytes());
        Ok(())
    }

    fn put(&mut self, record: Record, _ctx: &Context) -> Result<()> {
        let address =
            |address: &crate::Address| format!("{} {}", quote(address.namespace()), quote(address.key()));
        let (what, payload) = match &record.write {
            Write::Entry(entry) => {
                let place =
                    (&entry.id, &entry.parent_id, entry.entry_type, &entry.custom_type, entry.made_at);
                (format!("entry {place:?}"), &entry.payload)
            }
            Write::Usage(row) => (format!("usage {:?}", row.id), &row.payload),
            Write::SetValue(at, json) => (format!("value {}", address(at)), json),
            Write::AppendList(at, json) => (format!("list {}", address(at)), json),
            // No record is a deletion.
            Write::DeleteValue(_) | Write::DeleteList(_) => return Ok(()),
        };
        self.0.update(format!("\n{} {what} ", record.seq));
        self.0.update(payload.as_str());
        Ok(())
    }
}

/// Tells how many records went through.
struct Counted<'a, 'b> {
    sink: &'a mut dyn Sink,
    progress: &'b mut dyn FnMut(u64),
    count: u64,
}

impl Sink for Counted<'_, '_> {
    fn start(&mut self, next_seq: u64, ctx: &Context) -> Result<()> {
        self.count = 0;
        self.sink.start(next_seq, ctx)
    }

    fn put(&mut self, record: Record, ctx: &Context) -> Result<()> {
        self.count += 1;
        if self.count.is_multiple_of(256) {
            (self.progress)(self.count);
        }
        self.sink.put(record, ctx)
    }
}
