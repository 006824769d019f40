//! Reads past damage of a database: rows that SQLite cannot reach are jumped over, and named where an index
//! still knows them.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{OptionalExtension as _, Row, params};

use super::connection::{Connection, Purpose};
use super::database::has_wal;
use super::guard::{identity, is_guarded};
use super::read::type_of;
use super::schema::{MAX_OWNER, MAX_SEQ, key, seq_of};
use super::{Schema, header, reference};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::{EntryStructure, NewEntry};
use crate::model::id::check_id;
use crate::model::json::Json;
use crate::model::value::Address;
use crate::repair::found::{Found, Payloads, Piece, What};
use crate::session::backend::SessionMetadata;
use crate::session::check::{Finding, FindingKind};

/// How long another process's lock is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many bytes of the file stand for one `seq` where nothing says how many there were.
const BYTES_OF_SEQ: u64 = 64;

/// One table of payloads: how it is walked from a key on, its payload, and how an index names its rows.
struct Table {
    what: &'static str,
    walk: &'static str,
    payload: &'static str,
    index: Option<&'static str>,
}

const ENTRIES: Table = Table {
    what: "entry",
    walk: "SELECT key, type, parent, timestamp, id, custom_type, payload FROM entry_row NOT INDEXED
WHERE key BETWEEN ?1 AND ?2 ORDER BY key",
    payload: "SELECT payload FROM entry_row NOT INDEXED WHERE key = ?1",
    index: Some("SELECT key, id FROM entry_row INDEXED BY entry_by_id WHERE sid = ?1"),
};
const USAGE: Table = Table {
    what: "usage row",
    walk: "SELECT key, id, payload FROM usage_row NOT INDEXED WHERE key BETWEEN ?1 AND ?2 ORDER BY key",
    payload: "SELECT payload FROM usage_row NOT INDEXED WHERE key = ?1",
    index: Some("SELECT key, id FROM usage_row INDEXED BY usage_by_id WHERE sid = ?1"),
};
const VALUES: Table = Table {
    what: "value",
    walk: "SELECT vid, sid, namespace, key, seq, payload FROM value_row NOT INDEXED
WHERE vid BETWEEN ?1 AND ?2 ORDER BY vid",
    payload: "SELECT payload FROM value_row NOT INDEXED WHERE vid = ?1",
    index: Some(
        "SELECT vid, namespace || '/' || key FROM value_row INDEXED BY value_by_address WHERE sid = ?1",
    ),
};
const LISTS: Table = Table {
    what: "list",
    walk: "SELECT lid, sid, namespace, key FROM list_row NOT INDEXED WHERE lid BETWEEN ?1 AND ?2 ORDER BY lid",
    payload: "",
    index: Some(
        "SELECT lid, namespace || '/' || key FROM list_row INDEXED BY list_by_address WHERE sid = ?1",
    ),
};
const ELEMENTS: Table = Table {
    what: "list element",
    walk: "SELECT key, payload FROM list_element_row WHERE key BETWEEN ?1 AND ?2 ORDER BY key",
    payload: "SELECT payload FROM list_element_row WHERE key = ?1",
    index: None,
};
const SESSIONS: &str = "SELECT sid, id, created_at, storage_version, cwd, parent_session_id,
  legacy_parent_session_path, next_seq FROM session_row NOT INDEXED WHERE state = 0";
const OWNERS: &str = "SELECT DISTINCT sid FROM entry_row INDEXED BY entry_by_id LIMIT 2";

/// Where the payload of a row is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowPlace {
    payload: &'static str,
    key: i64,
}

/// Whether the file at `path` is a SQLite database, ours or not.
///
/// # Errors
/// `Io`; `NotASession` for what is no file.
pub(crate) fn is_database(path: &Path) -> Result<bool> {
    let io = |error| Error::io("cannot open the session's file", error).with_path(path);
    // Looked at before it is opened: opening a pipe would wait for its writer.
    let there = std::fs::metadata(path).map_err(io)?;
    if !there.is_file() {
        return Err(Error::new(ErrorKind::NotASession, "a session is kept in a regular file").with_path(path));
    }
    // Closing a descriptor drops the process's POSIX locks: a database that is open here is not touched.
    if is_guarded(identity(&there)) {
        return Ok(true);
    }
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(16).read_to_end(&mut head)).map_err(io)?;
    Ok(head == header::MAGIC)
}

/// What is done with what was found, wherever its payloads are.
pub(crate) trait Taker {
    type Made;
    fn take<P: Clone>(self, found: Found<P>, payloads: &dyn Payloads<P>) -> Result<Self::Made>;
}

/// A database that is read as far as it can be.
pub(crate) struct Salvage {
    connection: Connection,
    size: u64,
    schema: Schema,
}

impl Payloads<RowPlace> for Salvage {
    fn read(&self, _what: &What, payload: &RowPlace) -> Result<Json> {
        let text = self.connection.first(payload.payload, [payload.key], |row| row.get::<_, String>(0))?;
        text.map(Json::trusted).ok_or_else(|| {
            Error::new(ErrorKind::FileChanged, "the database was changed while it was read")
                .with_path(self.connection.path())
                .with_hint("repair it again")
        })
    }
}

impl Salvage {
    /// Opens the database at `path` for reading.
    ///
    /// # Errors
    /// `NotASession`, `UnsupportedVersion`; `Corrupt` if nothing of it can be read.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let path = path
            .canonicalize()
            .map_err(|error| Error::io("cannot open the session's file", error).with_path(path))?;
        let size = std::fs::metadata(&path)
            .map_err(|error| Error::io("cannot look at the session's file", error).with_path(&path))?
            .len();
        let purpose = if has_wal(&path)? { Purpose::Read } else { Purpose::ReadImmutable };
        let connection = Connection::open(&path, purpose, PATIENCE)?;
        let schema = header::schema_through(&connection)?;
        Ok(Self { connection, size, schema })
    }

    /// Gives what can be read of the session `id`, or of the only one, to `taker`.
    pub(crate) fn take<T: Taker>(&self, id: Option<&str>, taker: T, ctx: &Context) -> Result<T::Made> {
        // Payloads are read again when the session is made: of the same moment.
        let _snapshot = self.connection.snapshot()?;
        if self.schema == Schema::Ours {
            return taker.take(self.read(id, ctx)?, self);
        }
        let connection = &self.connection;
        let metadata = reference::salvage::the_session(connection, id, ctx)?;
        let id = metadata.id.clone();
        let rows = reference::salvage::rows(connection, &id);
        taker.take(rows.read(metadata, ctx)?, &rows)
    }

    /// Everything that can be read of the session `id`, or of the only one.
    fn read(&self, id: Option<&str>, ctx: &Context) -> Result<Found<RowPlace>> {
        let mut reading = Reading { salvage: self, ctx, pieces: Vec::new(), findings: Vec::new() };
        let (sid, metadata, next_seq) = reading.session(id)?;
        let last = next_seq.unwrap_or_else(|| (self.size / BYTES_OF_SEQ).max(1)).min(MAX_SEQ);
        reading.entries(sid, last)?;
        reading.usage(sid, last)?;
        reading.values(sid)?;
        reading.lists(sid, last)?;
        let Reading { mut pieces, mut findings, .. } = reading;
        pieces.sort_by_key(|piece| piece.seq);
        if let (Some(next), Some(last)) = (next_seq, pieces.last())
            && next <= last.seq
        {
            let message = format!("the session says its next seq is {next}, and one is {} already", last.seq);
            findings.push(Finding::of_file(FindingKind::WrongSeq, message));
        }
        Ok(Found { metadata, next_seq, pieces, findings })
    }
}

struct Reading<'a> {
    salvage: &'a Salvage,
    ctx: &'a Context,
    pieces: Vec<Piece<RowPlace>>,
    findings: Vec<Finding>,
}

impl Reading<'_> {
    fn session(&mut self, id: Option<&str>) -> Result<(i64, SessionMetadata, Option<u64>)> {
        let connection = &self.salvage.connection;
        let row_of = |row: &Row<'_>| {
            let metadata = SessionMetadata {
                id: row.get(1)?,
                created_at: row.get(2)?,
                storage_version: row.get(3)?,
                cwd: row.get(4)?,
                parent_session_id: row.get(5)?,
                legacy_parent_session_path: row.get(6)?,
                path: None,
            };
            Ok((row.get::<_, i64>(0)?, metadata, row.get::<_, i64>(7)?))
        };
        let listed = connection.all(SESSIONS, [], self.ctx, row_of);
        let (sid, metadata, next_seq) = match listed {
            Ok(mut all) => {
                all.retain(|(_, metadata, _)| id.is_none_or(|id| metadata.id == id));
                match (all.pop(), all.len()) {
                    (Some(one), 0) => one,
                    (None, _) => return Err(self.none(id)),
                    (Some(_), others) => {
                        return Err(several(others + 1, connection.path()));
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => return self.session_without_row(id, &error),
            Err(error) => return Err(error),
        };
        if metadata.storage_version > 1 {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!(
                    "the session is of storage version {}; this library reads up to 1",
                    metadata.storage_version
                ),
            )
            .with_path(connection.path())
            .with_hint("use a newer version of the library; the file was left as it is"));
        }
        let next_seq = u64::try_from(next_seq).ok().filter(|seq| (1..=MAX_SEQ + 1).contains(seq));
        Ok((sid, metadata, next_seq))
    }

    fn none(&self, id: Option<&str>) -> Error {
        match id {
            Some(id) => crate::repository::unknown_session(id),
            None => Error::new(ErrorKind::UnknownSession, "the database holds no session"),
        }
        .with_path(self.salvage.connection.path())
    }

    /// The session of a file whose table of sessions cannot be read: the entries say which number it has.
    fn session_without_row(
        &mut self,
        id: Option<&str>,
        error: &Error,
    ) -> Result<(i64, SessionMetadata, Option<u64>)> {
        let connection = &self.salvage.connection;
        let owners = connection.all(OWNERS, [], self.ctx, |row| row.get::<_, i64>(0))?;
        let [sid] = owners[..] else { return Err(error.clone()) };
        let stem = connection.path().file_stem().and_then(|stem| stem.to_str());
        let metadata = SessionMetadata {
            id: id.or(stem).unwrap_or_default().to_owned(),
            created_at: 0,
            storage_version: 1,
            cwd: None,
            parent_session_id: None,
            legacy_parent_session_path: None,
            path: None,
        };
        let message = format!("what the session says of itself cannot be read: {}", error.message());
        self.findings.push(Finding::of_file(FindingKind::DamagedHeader, message));
        Ok((sid, metadata, None))
    }

    /// Walks a table from one key to another, past what cannot be reached, which without an index is looked for
    /// up to a bound; the rows that an index knows and the walk
    /// did not find are named.
    fn walk(
        &mut self,
        table: &Table,
        owner: i64,
        [from, bound, to]: [i64; 3],
        mut take: impl FnMut(&mut Self, i64, &Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<BTreeMap<i64, String>> {
        let connection = &self.salvage.connection;
        let mut known = table.index.and_then(|sql| index(connection, sql, owner));
        let mut next = Some(from);
        let mut lost: Option<(i64, i64, String)> = None;
        while let Some(start) = next {
            self.ctx.check()?;
            let mut last = None;
            let walked = (|| {
                let mut statement = connection.sql().prepare_cached(table.walk)?;
                let mut rows = statement.query(params![start, to])?;
                while let Some(row) = rows.next()? {
                    let key: i64 = row.get(0)?;
                    last = Some(key);
                    if let Some(known) = &mut known {
                        known.remove(&key);
                    }
                    if let Err(error) = take(self, key, row) {
                        self.findings.push(unreadable(table, key, None, &error.to_string()));
                    }
                }
                Ok::<_, rusqlite::Error>(())
            })();
            let Err(error) = walked else { break };
            let error = connection.fault("read the database", error);
            // What is busy or gone is not damaged.
            if !matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotASession | ErrorKind::Io) {
                return Err(error);
            }
            let stuck = last.map_or(start, |last| last.saturating_add(1));
            // Without an index each key is tried.
            next = match &known {
                Some(known) => {
                    known.range(stuck.saturating_add(i64::from(last.is_none()))..).next().map(|(key, _)| *key)
                }
                None if last.is_some() => Some(stuck),
                None => stuck.checked_add(1),
            }
            .filter(|next| *next <= if known.is_some() { to } else { bound });
            if known.is_none() {
                match &mut lost {
                    Some((_, end, _)) if *end + 1 >= stuck => *end = stuck,
                    lost => {
                        if let Some(lost) = lost.replace((stuck, stuck, error.message().to_owned())) {
                            self.findings.push(gap(table, &lost));
                        }
                    }
                }
            }
        }
        self.findings.extend(lost.as_ref().map(|lost| gap(table, lost)));
        let known = known.unwrap_or_default();
        for (key, name) in known.range(from..=to) {
            self.findings.push(unreadable(table, *key, Some(name), "its row cannot be reached"));
        }
        Ok(known)
    }

    fn entries(&mut self, sid: i64, last: u64) -> Result<()> {
        let mut parents: HashMap<u64, String> = HashMap::new();
        let mut children = Vec::new();
        let lost = self.walk(&ENTRIES, sid, range(sid, last), |reading, row_key, row| {
            let seq = seq_of(row_key);
            let id: String = row.get(4)?;
            let place = EntryStructure {
                parent_id: None,
                seq,
                timestamp: row.get(3)?,
                entry_type: type_of(row.get(1)?)?,
                custom_type: row.get(5)?,
                id: id.clone(),
            };
            let payload: String = row.get(6)?;
            parents.insert(seq, id.clone());
            let checked = Json::parse_fields(&payload).and_then(|payload| {
                let custom_type = place.custom_type.clone();
                NewEntry {
                    id: id.clone(),
                    parent_id: None,
                    entry_type: place.entry_type,
                    custom_type,
                    payload,
                    made_at: Some(place.timestamp),
                }
                .check()
            });
            if let Err(error) = checked {
                let message = format!("entry '{id}' (seq {seq}) is left out: {}", error.message());
                reading.findings.push(Finding::about(FindingKind::BadPayload, &id, message));
                return Ok(());
            }
            if let Some(parent) = row.get::<_, Option<i64>>(2)? {
                children.push((reading.pieces.len(), parent.cast_unsigned()));
            }
            reading.push(seq, What::Entry(place), &ENTRIES, row_key);
            Ok(())
        })?;
        parents.extend(lost.into_iter().map(|(key, id)| (seq_of(key), id)));
        for (piece, parent) in children {
            if let What::Entry(entry) = &mut self.pieces[piece].what {
                entry.parent_id = Some(
                    parents.get(&parent).cloned().unwrap_or_else(|| format!("the entry of seq {parent}")),
                );
            }
        }
        Ok(())
    }

    fn usage(&mut self, sid: i64, last: u64) -> Result<()> {
        self.walk(&USAGE, sid, range(sid, last), |reading, row_key, row| {
            let id: String = row.get(1)?;
            let seq = seq_of(row_key);
            let payload: String = row.get(2)?;
            let checked = check_id(&id).and_then(|()| Json::parse_fields(&payload));
            match checked {
                Ok(_) => reading.push(seq, What::Usage(id), &USAGE, row_key),
                Err(error) => {
                    let message = format!("usage row '{id}' (seq {seq}) is left out: {}", error.message());
                    reading.findings.push(Finding::about(FindingKind::BadPayload, &id, message));
                }
            }
            Ok(())
        })
        .map(drop)
    }

    fn values(&mut self, sid: i64) -> Result<()> {
        let last = self.last_key("SELECT max(vid) FROM value_row NOT INDEXED");
        self.walk(&VALUES, sid, [0, last, last], |reading, vid, row| {
            if row.get::<_, i64>(1)? != sid {
                return Ok(());
            }
            let (namespace, name): (String, String) = (row.get(2)?, row.get(3)?);
            let seq = super::read::count(row, 4)?;
            let payload: String = row.get(5)?;
            let checked =
                Address::new(&*namespace, &*name).and_then(|address| Json::parse(&payload).map(|_| address));
            match checked {
                Ok(address) => reading.push(seq, What::SetValue(address), &VALUES, vid),
                Err(error) => {
                    let message = format!("the value at {namespace}/{name} is left out: {}", error.message());
                    reading.findings.push(Finding::about(FindingKind::BadValue, &name, message));
                }
            }
            Ok(())
        })
        .map(drop)
    }

    fn lists(&mut self, sid: i64, last: u64) -> Result<()> {
        let last_list = self.last_key("SELECT max(lid) FROM list_row NOT INDEXED").min(MAX_OWNER);
        let mut lists = Vec::new();
        self.walk(&LISTS, sid, [0, last_list, last_list], |_, lid, row| {
            if row.get::<_, i64>(1)? == sid {
                lists.push((lid, row.get::<_, String>(2)?, row.get::<_, String>(3)?));
            }
            Ok(())
        })?;
        for (lid, namespace, name) in lists {
            let Ok(address) = Address::new(&*namespace, &*name) else {
                let message = format!("the list at {namespace}/{name} is left out: this is no address");
                self.findings.push(Finding::about(FindingKind::BadValue, &name, message));
                continue;
            };
            self.walk(&ELEMENTS, lid, range(lid, last), |reading, row_key, row| {
                let payload: String = row.get(1)?;
                match Json::parse(&payload) {
                    Ok(_) => {
                        reading.push(seq_of(row_key), What::AppendList(address.clone()), &ELEMENTS, row_key)
                    }
                    Err(error) => {
                        let message =
                            format!("an element of the list at {address} is left out: {}", error.message());
                        reading.findings.push(Finding::about(FindingKind::BadValue, address.key(), message));
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The largest key of a table; if it cannot be read, one that the file cannot exceed by much.
    fn last_key(&self, sql: &str) -> i64 {
        let connection = self.salvage.connection.sql();
        let found = connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).optional();
        match found {
            Ok(found) => found.flatten().unwrap_or(0),
            Err(_) => (self.salvage.size / BYTES_OF_SEQ).max(1).cast_signed(),
        }
    }

    fn push(&mut self, seq: u64, what: What, table: &Table, key: i64) {
        let payload = Some(RowPlace { payload: table.payload, key });
        // No row stands twice.
        let hash = self.pieces.len() as u64;
        self.pieces.push(Piece { seq, what, payload, place: None, hash });
    }
}

/// The refusal to choose among sessions.
pub(super) fn several(count: usize, path: &Path) -> Error {
    Error::new(ErrorKind::AmbiguousSession, format!("the database holds {count} sessions"))
        .with_path(path)
        .with_hint("name the one that is meant")
}

/// The keys of an owner: the first, that of `last`, the last there can be.
fn range(owner: i64, last: u64) -> [i64; 3] {
    [key(owner, 0), key(owner, last), key(owner, MAX_SEQ)]
}

/// The keys of the rows of an owner and their names, as the index has them; none if it cannot be read, too.
fn index(connection: &Connection, sql: &str, owner: i64) -> Option<BTreeMap<i64, String>> {
    let mut statement = connection.sql().prepare_cached(sql).ok()?;
    let rows = statement.query_map([owner], |row| Ok((row.get(0)?, row.get(1)?))).ok()?;
    rows.collect::<rusqlite::Result<_>>().ok()
}

fn unreadable(table: &Table, key: i64, name: Option<&str>, why: &str) -> Finding {
    let seq = if key > MAX_SEQ.cast_signed() { format!(" (seq {})", seq_of(key)) } else { String::new() };
    let name = name.unwrap_or_default();
    let quoted = if name.is_empty() { String::new() } else { format!(" '{name}'") };
    let message = format!("{}{quoted}{seq} is lost: {why}", table.what);
    Finding::about(FindingKind::Unreadable, name, message)
}

fn gap(table: &Table, (from, to, why): &(i64, i64, String)) -> Finding {
    let message = match (seq_of(*from), seq_of(*to)) {
        (from, to) if from == to => {
            format!("what stands at seq {from} of each {} is lost: {why}", table.what)
        }
        (from, to) => format!("each {} of seq {from} to {to} is lost: {why}", table.what),
    };
    Finding::of_file(FindingKind::Unreadable, message)
}
