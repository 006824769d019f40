//! A copy of one session in a new file of its own, while it stays in use.

use std::path::Path;

use rusqlite::OptionalExtension as _;

use super::connection::uri;
use super::create::Draft;
use super::database::Database;
use super::schema::{MAX_SEQ, key};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::repository::Durability;

/// How many steps of SQLite's machine lie between two looks at the context.
const STEPS: i32 = 4000;

/// The session's number in the copy.
const COPY: i64 = 1;

// One transaction over both files: what is read is one snapshot. `?1` is the session, `?2` and `?3` its first
// and last key, `?4` the first key in the copy, `?5` the bits of a key that are the `seq`.
const STATEMENTS: [&str; 6] = [
    "INSERT INTO main.session_row SELECT 1, id, 0, created_at, storage_version, cwd, parent_session_id,
  legacy_parent_session_path, modified_at, next_seq, message_count, input, output, cache_read, cache_write,
  cache_write_1h, reasoning, total_tokens, cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total
FROM source.session_row WHERE sid = :sid AND state = 0",
    "INSERT INTO main.entry_row SELECT key & :seq | :copy, 1, type, depth, parent, jump, timestamp, id,
  custom_type, payload FROM source.entry_row WHERE key BETWEEN :first AND :last ORDER BY key",
    "INSERT INTO main.usage_row SELECT key & :seq | :copy, 1, id, payload
FROM source.usage_row WHERE key BETWEEN :first AND :last ORDER BY key",
    "INSERT INTO main.value_row (sid, namespace, key, seq, payload) SELECT 1, namespace, key, seq, payload
FROM source.value_row WHERE sid = :sid ORDER BY namespace, key",
    "INSERT INTO main.list_row SELECT lid, 1, namespace, key FROM source.list_row WHERE sid = :sid ORDER BY lid",
    "INSERT INTO main.list_element_row SELECT e.key, e.payload FROM source.list_row l
  JOIN source.list_element_row e ON e.key BETWEEN l.lid << 40 AND l.lid << 40 | :seq
WHERE l.sid = :sid ORDER BY l.lid, e.key",
];

pub(super) fn run(database: &Database, sid: i64, path: &Path, ctx: &Context) -> Result<()> {
    let draft = Draft::beside(path, Durability::Power)?;
    let mut sql = draft.database()?;
    let watched = ctx.clone();
    let failed = |error: rusqlite::Error| {
        ctx.check().err().unwrap_or_else(|| super::fault::fault("copy the session", path, error))
    };
    sql.busy_timeout(database.busy_timeout()).map_err(failed)?;
    sql.progress_handler(STEPS, Some(move || watched.check().is_err())).map_err(failed)?;
    database.read_apart(ctx, |reader| {
        // How the reader sees the file is how the copy must: with locks, or as a file that nobody writes.
        let source = uri(database.path(), if reader.is_immutable() { "immutable=1" } else { "mode=ro" });
        sql.execute("ATTACH ?1 AS source", [source]).map_err(failed)?;
        let copied = copy(&sql, sid).map_err(failed);
        sql.execute("DETACH source", []).map_err(failed)?;
        if copied? {
            return Ok(());
        }
        Err(Error::new(ErrorKind::UnknownSession, "the session was deleted").with_path(database.path()))
    })?;
    sql.progress_handler(0, None::<fn() -> bool>).map_err(failed)?;
    draft.publish(sql)
}

/// Copies the session's rows; false if it is not there.
fn copy(sql: &rusqlite::Connection, sid: i64) -> rusqlite::Result<bool> {
    // Without a journal there is no rollback: what an earlier try left goes first.
    for table in ["session_row", "entry_row", "usage_row", "value_row", "list_row", "list_element_row"] {
        sql.execute(&format!("DELETE FROM main.{table}"), [])?;
    }
    let transaction = sql.unchecked_transaction()?;
    for statement in STATEMENTS {
        let mut statement = sql.prepare(statement)?;
        for (name, value) in [
            (":sid", sid),
            (":first", key(sid, 0)),
            (":last", key(sid, MAX_SEQ)),
            (":copy", key(COPY, 0)),
            (":seq", MAX_SEQ.cast_signed()),
        ] {
            if let Some(at) = statement.parameter_index(name)? {
                statement.raw_bind_parameter(at, value)?;
            }
        }
        statement.raw_execute()?;
    }
    transaction.commit()?;
    let copied = sql.query_row("SELECT 1 FROM main.session_row", [], |_| Ok(())).optional()?;
    Ok(copied.is_some())
}
