//! What ours is measured against: SQLite with the least tables and statements that keep the same facts, and
//! plain files with the same bytes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use pisession::{Durability, IdGenerator as _, UuidV7};
use rusqlite::{Connection, params};

use crate::cases::commits;
use crate::data::{cool, copy_file, folder, fresh, jsonl_file, legacy_file, message};
use crate::{Failure, Took};

/// Reads a file once, so that every side finds it in the page cache.
pub(crate) fn warm(path: &Path) -> Result<(), Failure> {
    io::copy(&mut File::open(path)?, &mut io::sink())?;
    Ok(())
}

fn connect(path: &Path, durability: Durability) -> Result<Connection, Failure> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    let level = match durability {
        Durability::Power => "full",
        Durability::Process => "normal",
    };
    connection.pragma_update(None, "synchronous", level)?;
    Ok(connection)
}

const INSERT: &str =
    "INSERT INTO entry (seq, id, parent, timestamp, type, payload) VALUES (?1, ?2, ?3, ?4, 'message', ?5)";
const MOVE_TIP: &str =
    "UPDATE value SET seq = ?1, value = ?2 WHERE namespace = 'pi.branch.tip' AND key = 'main'";
const COUNT_ON: &str = "UPDATE session SET next_seq = ?1, message_count = message_count + 1";

/// A database with `size` messages, made once and then copied.
fn database_of(size: u64, copy: &str) -> Result<PathBuf, Failure> {
    let made = folder()?.join(format!("raw-{size}.sqlite"));
    if !made.exists() {
        let part = made.with_extension("part");
        if part.exists() {
            fs::remove_file(&part)?;
        }
        let mut connection = connect(&part, Durability::Process)?;
        connection.execute_batch(
            "CREATE TABLE session (id TEXT, created_at INTEGER, next_seq INTEGER, message_count INTEGER);
             CREATE TABLE entry (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, parent INTEGER, timestamp INTEGER,
                                 type TEXT, payload TEXT);
             CREATE TABLE value (namespace TEXT, key TEXT, seq INTEGER, value TEXT, UNIQUE (namespace, key));
             INSERT INTO session VALUES ('bench', 0, 1, 0);
             INSERT INTO value VALUES ('pi.branch.tip', 'main', 0, 'null'), ('bench', 'counter', 0, '0');",
        )?;
        let ids = UuidV7::default();
        let transaction = connection.transaction()?;
        for number in 0..size {
            let seq = i64::try_from(number + 1)?;
            let parent = (number > 0).then_some(seq - 1);
            transaction.prepare_cached(INSERT)?.execute(params![
                seq,
                ids.next(None),
                parent,
                0,
                message(number)?.as_str()
            ])?;
        }
        transaction.execute(
            "UPDATE session SET next_seq = ?1, message_count = ?2",
            [i64::try_from(size + 1)?, i64::try_from(size)?],
        )?;
        transaction.commit()?;
        connection.pragma_update(None, "wal_checkpoint", "truncate")?;
        connection.close().map_err(|(_, error)| error)?;
        fs::rename(part, &made)?;
    }
    let target = fresh(copy)?.join("raw.sqlite");
    copy_file(&made, &target)?;
    Ok(target)
}

pub(crate) fn append(size: u64, durability: Durability) -> Result<Took, Failure> {
    let connection = connect(&database_of(size, "raw-append")?, durability)?;
    let messages = (0..commits(durability)).map(message).collect::<Result<Vec<_>, _>>()?;
    let ids = UuidV7::default();
    let start = Instant::now();
    for (number, message) in (size + 1..).zip(&messages) {
        let seq = i64::try_from(number)?;
        let id = ids.next(None);
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        connection.prepare_cached(INSERT)?.execute(params![seq, id, seq - 1, seq, message.as_str()])?;
        connection.prepare_cached(MOVE_TIP)?.execute(params![seq, id])?;
        connection.prepare_cached(COUNT_ON)?.execute([seq + 1])?;
        connection.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(Took::new(start.elapsed(), messages.len() as u64))
}

pub(crate) fn count(size: u64, durability: Durability) -> Result<Took, Failure> {
    let connection = connect(&database_of(size, "raw-count")?, durability)?;
    let rounds = commits(durability);
    let start = Instant::now();
    for round in 0..rounds {
        let seq = i64::try_from(size + round)?;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let count: String = connection
            .prepare_cached("SELECT value FROM value WHERE namespace = 'bench' AND key = 'counter'")?
            .query_row([], |row| row.get(0))?;
        let count: u64 = count.parse()?;
        connection
            .prepare_cached(
                "UPDATE value SET seq = ?1, value = ?2 WHERE namespace = 'bench' AND key = 'counter'",
            )?
            .execute(params![seq, (count + 1).to_string()])?;
        connection.prepare_cached("UPDATE session SET next_seq = ?1")?.execute([seq + 1])?;
        connection.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(Took::new(start.elapsed(), rounds))
}

pub(crate) fn open(size: u64) -> Result<Took, Failure> {
    let path = database_of(size, "raw-open")?;
    let rounds = 200;
    let start = Instant::now();
    for _ in 0..rounds {
        let connection = connect(&path, Durability::Process)?;
        connection.query_row("SELECT next_seq FROM session", [], |row| row.get::<_, i64>(0))?;
        connection.close().map_err(|(_, error)| error)?;
    }
    Ok(Took::new(start.elapsed(), rounds))
}

pub(crate) fn newest(size: u64) -> Result<Took, Failure> {
    let connection = connect(&database_of(size, "raw-newest")?, Durability::Process)?;
    let rounds = 2_000;
    let start = Instant::now();
    for _ in 0..rounds {
        let mut statement = connection
            .prepare_cached("SELECT id, parent, timestamp, payload FROM entry ORDER BY seq DESC LIMIT 50")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(3)?)))?;
        if rows.collect::<Result<Vec<_>, _>>()?.len() != 50 {
            return Err("not 50 entries".into());
        }
    }
    Ok(Took::new(start.elapsed(), rounds))
}

pub(crate) fn scan(size: u64) -> Result<Took, Failure> {
    let connection = connect(&database_of(size, "raw-scan")?, Durability::Process)?;
    let start = Instant::now();
    let mut statement =
        connection.prepare("SELECT id, parent, timestamp, payload FROM entry ORDER BY seq")?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(3)?)))?;
    let mut seen = 0;
    for row in rows {
        seen += u64::from(!row?.1.is_empty());
    }
    if seen != size {
        return Err(format!("{seen} of {size} entries").into());
    }
    Ok(Took::new(start.elapsed(), 1))
}

/// The bytes of an append, as a line at the end of a file.
pub(crate) fn append_to_file(_size: u64, durability: Durability) -> Result<Took, Failure> {
    let path = fresh("raw-file")?.join("lines.jsonl");
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let lines = (0..commits(durability))
        .map(|n| Ok(format!("{}\n", message(n)?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let start = Instant::now();
    for line in &lines {
        file.write_all(line.as_bytes())?;
        if durability == Durability::Power {
            file.sync_data()?;
        }
    }
    Ok(Took::new(start.elapsed(), lines.len() as u64))
}

/// Reads a version 3 file whole and validates each line with serde_json, keeping nothing.
pub(crate) fn read_and_validate(size: u64) -> Result<Took, Failure> {
    validate(&legacy_file(size)?)
}

/// The same for a file of JSON lines.
pub(crate) fn read_and_validate_jsonl(size: u64) -> Result<Took, Failure> {
    validate(&jsonl_file(size)?)
}

/// Reads a file that is not in the page cache, and does nothing with it.
pub(crate) fn read_cold(size: u64) -> Result<Took, Failure> {
    let path = jsonl_file(size)?;
    cool(&path)?;
    let start = Instant::now();
    let mut file = File::open(&path)?;
    let mut buffer = vec![0; 64 << 10];
    while file.read(&mut buffer)? > 0 {}
    Ok(Took::new(start.elapsed(), 1))
}

/// Writes so many bytes as compaction leaves of a session, and syncs them.
pub(crate) fn write_and_sync(size: u64) -> Result<Took, Failure> {
    let line = format!("{}\n", message(0)?);
    let path = fresh("raw-compact")?.join("lines.jsonl");
    let start = Instant::now();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for _ in 0..size {
        file.write_all(line.as_bytes())?;
    }
    file.into_inner()?.sync_all()?;
    Ok(Took::new(start.elapsed(), 1))
}

fn validate(path: &Path) -> Result<Took, Failure> {
    warm(path)?;
    let start = Instant::now();
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    for line in text.lines() {
        serde_json::from_str::<serde::de::IgnoredAny>(line)?;
    }
    Ok(Took::new(start.elapsed(), 1))
}

/// Copies the rows of a database into a new one with `INSERT … SELECT`, as a fork makes its file: without a
/// journal while nobody sees it, then closed and synced.
pub(crate) fn insert_select(size: u64) -> Result<Took, Failure> {
    let source = database_of(size, "select")?;
    warm(&source)?;
    let target = fresh("selected")?.join("copy.sqlite");
    let start = Instant::now();
    let connection = Connection::open(&target)?;
    connection.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA page_size = 4096;
         CREATE TABLE session (id TEXT, created_at INTEGER, next_seq INTEGER, message_count INTEGER);
         CREATE TABLE entry (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, parent INTEGER, timestamp INTEGER,
                             type TEXT, payload TEXT);
         CREATE TABLE value (namespace TEXT, key TEXT, seq INTEGER, value TEXT, UNIQUE (namespace, key));",
    )?;
    connection.execute("ATTACH ?1 AS source", [source.to_str()])?;
    connection.execute_batch(
        "BEGIN; INSERT INTO main.session SELECT * FROM source.session;
         INSERT INTO main.entry SELECT * FROM source.entry ORDER BY seq;
         INSERT INTO main.value SELECT * FROM source.value; COMMIT; DETACH source;
         PRAGMA main.journal_mode = WAL;",
    )?;
    connection.close().map_err(|(_, error)| error)?;
    fs::File::open(&target)?.sync_all()?;
    Ok(Took::new(start.elapsed(), 1))
}
