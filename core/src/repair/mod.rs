//! Repair: a sound session made anew of what can be read of a damaged one, which is only read.
//!
//! A reader gives the pieces that it finds in the order in which they were written; `order` gives each its
//! place, `mend` makes a session of them, and says what that cost.

pub(crate) mod found;
mod lines;
pub(crate) mod mend;
mod order;

use std::path::Path;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::legacy;
use crate::legacy::import::{ImportOptions, import_file};
use crate::legacy::report::Warning;
use crate::model::entry::{EntryType, NewEntry};
use crate::model::usage::{NewUsage, UsageRow};
use crate::model::write::Write;
use crate::repair::found::{Found, Payloads, What};
use crate::repair::lines::Lines;
use crate::repair::mend::{Kept, Mended, Payload, RepairCounts, mend};
use crate::repository::jsonl::open::open_file;
use crate::repository::{
    CreateOptions, Format, ListOptions, OpenMode, OpenOptions, Repository, unknown_session,
};
use crate::session::backend::SessionMetadata;
use crate::session::check::Finding;
use crate::session::reader::SessionReader as _;
use crate::session::{EntryQuery, Session};
use crate::storage::copy::{Record, Sink};
use crate::storage::query::{ListRead, UsageScan};
use crate::storage::sqlite::salvage::{Salvage, Taker, is_database};

/// How a session is repaired.
#[derive(Debug, Clone, Default)]
pub struct RepairOptions {
    /// Where the new session is made; none to look only.
    pub into: Option<Repository>,
    /// The id of the new session; none for the old one's.
    pub id: Option<String>,
    /// Which session is meant, in a database that holds several.
    pub session: Option<String>,
}

/// What a repair did, or would do.
#[derive(Debug, Clone)]
pub struct Repair {
    /// What the damaged session says of itself.
    pub source: SessionMetadata,
    /// The new session; none if there was only a look.
    pub session: Option<SessionMetadata>,
    /// How much was kept.
    pub kept: RepairCounts,
    /// What was damaged, and what was changed or left out therefore.
    pub findings: Vec<Finding>,
    /// What the reader of a file of version 1 to 3 warned of.
    pub warnings: Vec<Warning>,
}

impl Repair {
    /// Whether there was nothing to repair.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.warnings.is_empty()
    }
}

/// Makes a new session of what can be read of the damaged one in the file at `path`, which is only read: a file
/// of JSON lines of any version, or a SQLite file, a container of the reference implementation included. Without [`into`](RepairOptions::into) nothing is made, and
/// what would be is told.
///
/// Reads past every damage: lines that broke or ran together, records between damaged ones, rows that SQLite
/// cannot reach, a header that is lost. Ids, `seq`s and timestamps stay. An entry whose parent is lost becomes a
/// root. A branch whose tip is lost points at the newest entry it pointed at before that is there. Labels and
/// lanes that lead nowhere are left out. The new session passes a full [check](crate::Session::check_with), and
/// appears whole or not at all. A file of version 1 to 3 is imported with `salvage`
/// ([`import_file`](crate::import_file)).
///
/// `progress` is told how many bytes of a file of JSON lines were read.
///
/// ```no_run
/// use pisession::{Context, RepairOptions, open_repository, repair_file};
///
/// let ctx = Context::background();
/// let into = open_repository("sqlite:repaired", Default::default())?;
/// let options = RepairOptions { into: Some(into), ..Default::default() };
/// let repair = repair_file("damaged.jsonl", &options, &mut |_| (), &ctx)?;
/// for finding in &repair.findings {
///     eprintln!("{}", finding.message);
/// }
/// println!("{} entries kept", repair.kept.entries);
/// # Ok::<(), pisession::Error>(())
/// ```
///
/// # Errors
/// [`NotASession`](ErrorKind::NotASession) if nothing in the file is of a session;
/// [`UnsupportedVersion`](ErrorKind::UnsupportedVersion); [`InvalidArgument`](ErrorKind::InvalidArgument) where
/// the new session would be made in the database that is read;
/// [`AmbiguousSession`](ErrorKind::AmbiguousSession) and [`UnknownSession`](ErrorKind::UnknownSession) where a
/// database holds several sessions, or not the one that is meant; [`FileChanged`](ErrorKind::FileChanged) if
/// another program writes the file meanwhile; [`SessionExists`](ErrorKind::SessionExists) and what creating a
/// session fails with.
pub fn repair_file(
    path: impl AsRef<Path>,
    options: &RepairOptions,
    progress: &mut dyn FnMut(u64),
    ctx: &Context,
) -> Result<Repair> {
    let path = path.as_ref();
    ctx.check()?;
    if is_database(path)? {
        refuse_itself(path, options)?;
        let finish = Finish { path, options, ctx };
        return Salvage::open(path)?.take(options.session.as_deref(), finish, ctx);
    }
    if legacy::is_legacy(path) {
        return repair_legacy(path, options, ctx);
    }
    let lines = Lines::open(path)?;
    let found = lines.read(path, progress, ctx).map_err(|error| error.with_path(path))?;
    Finish { path, options, ctx }.take(found, &lines)
}

/// [`repair_file`] for a session of a repository that can still be listed; one that cannot is named by its file.
///
/// # Errors
/// As [`repair_file`]; [`UnknownSession`](ErrorKind::UnknownSession),
/// [`AmbiguousSession`](ErrorKind::AmbiguousSession); [`Unsupported`](ErrorKind::Unsupported) for a session that
/// is in no file.
pub fn repair_session(
    repository: &Repository,
    id: &str,
    options: &RepairOptions,
    progress: &mut dyn FnMut(u64),
    ctx: &Context,
) -> Result<Repair> {
    let mut listed = repository.list(&ListOptions::default(), ctx)?;
    listed.retain(|listing| listing.metadata.as_ref().is_some_and(|metadata| metadata.id == id));
    let (Some(listing), others) = (listed.pop(), listed.len()) else {
        return Err(unknown_session(id)
            .with_hint("a session whose file does not say its id is named by the path of that file"));
    };
    if others > 0 {
        return Err(Error::new(
            ErrorKind::AmbiguousSession,
            format!("{} files hold the session '{id}'", others + 1),
        )
        .with_id(id)
        .with_hint("name the file that is meant"));
    }
    let path = listing.path.filter(|_| listing.format != Format::Memory).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "a session in memory has no file that could be damaged")
            .with_id(id)
    })?;
    let options = RepairOptions { session: Some(id.to_owned()), ..options.clone() };
    repair_file(path, &options, progress, ctx)
}

/// Mends what was found, and makes the new session.
struct Finish<'a> {
    path: &'a Path,
    options: &'a RepairOptions,
    ctx: &'a Context,
}

/// Refuses to make the new session in the database that is read: a damaged file is not to be written.
fn refuse_itself(path: &Path, options: &RepairOptions) -> Result<()> {
    let into = options.into.as_ref().and_then(|into| into.uri().strip_prefix("sqlite:"));
    let (Some(into), Ok(path)) = (into, path.canonicalize()) else { return Ok(()) };
    if Path::new(into).canonicalize().is_ok_and(|into| into == path) {
        let what = "the new session would be made in the damaged database itself";
        return Err(Error::new(ErrorKind::InvalidArgument, what)
            .with_path(path)
            .with_hint("repair it into another repository"));
    }
    Ok(())
}

impl Taker for Finish<'_> {
    type Made = Repair;

    fn take<P: Clone>(self, found: Found<P>, payloads: &dyn Payloads<P>) -> Result<Repair> {
        let Self { path, options, ctx } = self;
        let source = SessionMetadata { path: Some(path.to_owned()), ..found.metadata.clone() };
        let (mended, findings) = mend(found, payloads).map_err(|error| error.with_path(path))?;
        let session = match &options.into {
            Some(into) => Some(make(&mended, payloads, &source, into, options, ctx)?),
            None => None,
        };
        Ok(Repair { source, session, kept: mended.counts, findings, warnings: Vec::new() })
    }
}

fn make<P>(
    mended: &Mended<P>,
    payloads: &dyn Payloads<P>,
    source: &SessionMetadata,
    into: &Repository,
    options: &RepairOptions,
    ctx: &Context,
) -> Result<SessionMetadata> {
    let create = CreateOptions {
        // An id that is lost is made anew.
        id: options.id.clone().or_else(|| Some(source.id.clone()).filter(|id| !id.is_empty())),
        parent_session_id: source.parent_session_id.clone(),
        cwd: source.cwd.clone(),
        created_at: Some(source.created_at),
        legacy_parent_session_path: source.legacy_parent_session_path.clone(),
    };
    let fill = |sink: &mut dyn Sink| {
        sink.start(mended.next_seq, ctx)?;
        for kept in &mended.pieces {
            sink.put(record(kept, payloads)?, ctx)?;
        }
        Ok(())
    };
    let session = into.make(&create, fill, ctx).map_err(|error| match error.kind() {
        ErrorKind::SessionExists => error.with_hint("give the new session another id, or make it elsewhere"),
        _ => error,
    })?;
    let metadata = session.metadata().clone();
    session.close(ctx)?;
    Ok(metadata)
}

/// What is kept as it is written.
fn record<P>(kept: &Kept<P>, payloads: &dyn Payloads<P>) -> Result<Record> {
    let payload = match &kept.payload {
        Payload::Found(payload) => payloads.read(&kept.what, payload)?,
        Payload::Made(json) => json.clone(),
    };
    let write = match &kept.what {
        What::Entry(entry) => Write::Entry(NewEntry {
            id: entry.id.clone(),
            parent_id: entry.parent_id.clone(),
            entry_type: entry.entry_type,
            custom_type: entry.custom_type.clone(),
            payload,
            made_at: Some(entry.timestamp),
        }),
        What::Usage(id) => {
            let UsageRow { id, usage, payload, .. } = UsageRow::stored(id.clone(), kept.seq, payload);
            Write::Usage(NewUsage { id, usage, payload })
        }
        What::SetValue(address) | What::DeleteValue(address) => Write::SetValue(address.clone(), payload),
        What::AppendList(address) | What::DeleteList(address) => Write::AppendList(address.clone(), payload),
    };
    Ok(Record { seq: kept.seq, write })
}

/// What an old file holds is read past its damage anyway; the copy is an import.
fn repair_legacy(path: &Path, options: &RepairOptions, ctx: &Context) -> Result<Repair> {
    let old = open_file(path, &OpenOptions { mode: OpenMode::ReadOnly, ..OpenOptions::default() }, ctx)?;
    let source = old.metadata().clone();
    let warnings = old.legacy().map(|legacy| legacy.warnings.clone()).unwrap_or_default();
    let Some(into) = &options.into else {
        return Ok(Repair {
            source,
            session: None,
            kept: counts(&old, ctx)?,
            findings: Vec::new(),
            warnings,
        });
    };
    let import = ImportOptions { salvage: true, id: options.id.clone(), ..ImportOptions::default() };
    let made = import_file(path, into, &import, ctx)?.session;
    let kept = counts(&into.open_read_only(&made, ctx)?, ctx)?;
    Ok(Repair { source, session: Some(made), kept, findings: Vec::new(), warnings })
}

fn counts(session: &Session, ctx: &Context) -> Result<RepairCounts> {
    let mut counts = RepairCounts::default();
    for entry in session.entries(&EntryQuery::default(), ctx) {
        counts.entries += 1;
        counts.messages += u64::from(entry?.entry_type == EntryType::Message);
    }
    counts.values = session.value_addresses(None, usize::MAX, ctx)?.len() as u64;
    for address in session.list_addresses(None, usize::MAX, ctx)? {
        let mut read = ListRead::default();
        loop {
            let page = session.read_list(&address, &read, ctx)?;
            counts.elements += page.len() as u64;
            match page.last() {
                Some(last) => read.cursor = Some(last.seq),
                None => break,
            }
        }
    }
    counts.usage = session.scan_usage(&UsageScan::default(), ctx)?.len() as u64;
    Ok(counts)
}
