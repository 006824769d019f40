//! The sessions of a database: their rows, making them and deleting them.

use std::path::Path;

use rusqlite::{Row, params};

use super::connection::Connection;
use super::database::Database;
use super::fault::corrupt;
use super::schema::{MAX_OWNER, MAX_SEQ, WHOLE, key};
use super::{Schema, StoredSession, create, reference};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::json::text_of;
use crate::repository::{Durability, session_exists, unknown_session};
use crate::session::backend::SessionMetadata;

/// How many rows one transaction deletes.
const BATCH: usize = 2000;

const INSERT: &str =
    "INSERT INTO session_row (id, state, created_at, storage_version, cwd, parent_session_id,
  legacy_parent_session_path, modified_at, next_seq, message_count,
  input, output, cache_read, cache_write, total_tokens,
  cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)";

const LIST: &str =
    "SELECT id, created_at, storage_version, cwd, parent_session_id, legacy_parent_session_path,
  modified_at, message_count, NULL FROM session_row WHERE state = 0";

const LIST_WITH_NAMES: &str = "SELECT s.id, s.created_at, s.storage_version, s.cwd, s.parent_session_id,
  s.legacy_parent_session_path, s.modified_at, s.message_count, v.payload
FROM session_row s LEFT JOIN value_row v
  ON v.sid = s.sid AND v.namespace = 'pi.session.name' AND v.key = ''
WHERE s.state = 0";

const ONE: &str =
    "SELECT id, created_at, storage_version, cwd, parent_session_id, legacy_parent_session_path,
  modified_at, message_count, NULL FROM session_row WHERE id = ?1 AND state = 0";

pub(super) const SID: &str = "SELECT sid, storage_version FROM session_row WHERE id = ?1 AND state = 0";
const HIDE: &str = "UPDATE session_row SET state = 2 WHERE id = ?1 AND state = 0";
// The first condition is the one by which SQLite sees that the partial index will do.
const HIDDEN: &str = "SELECT sid FROM session_row WHERE state <> 0 AND state = 2 LIMIT 1";
const GIVE_UP: &str = "UPDATE session_row SET state = 2 WHERE sid = ?1 AND state <> 0 AND state = 1";
const MADE: &str = "SELECT sid, id FROM session_row WHERE state <> 0 AND state = 1";
const DELETE_SESSION: &str = "DELETE FROM session_row WHERE sid = ?1 AND state = 2";
const LISTS_OF: &str = "SELECT lid FROM list_row WHERE sid = ?1 LIMIT 1";
const DELETE_LIST: &str = "DELETE FROM list_row WHERE lid = ?1";
const DELETE_ELEMENTS: &str = "DELETE FROM list_element_row WHERE key IN
  (SELECT key FROM list_element_row WHERE key BETWEEN ?1 AND ?2 LIMIT ?3)";
const DELETE_ENTRIES: &str = "DELETE FROM entry_row WHERE key IN
  (SELECT key FROM entry_row WHERE key BETWEEN ?1 AND ?2 LIMIT ?3)";
const DELETE_USAGE: &str = "DELETE FROM usage_row WHERE key IN
  (SELECT key FROM usage_row WHERE key BETWEEN ?1 AND ?2 LIMIT ?3)";
const DELETE_VALUES: &str = "DELETE FROM value_row WHERE vid IN
  (SELECT vid FROM value_row WHERE sid = ?1 LIMIT ?2)";

/// Every statement of this file that reads or writes a table whose size follows that of sessions.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 13] = [
    ONE,
    HIDDEN,
    SID,
    HIDE,
    GIVE_UP,
    MADE,
    LISTS_OF,
    DELETE_LIST,
    DELETE_SESSION,
    DELETE_ELEMENTS,
    DELETE_ENTRIES,
    DELETE_USAGE,
    DELETE_VALUES,
];

impl Database {
    /// Makes a new file, with `session` in it if one is given. It appears under its name complete (temporary
    /// file, sync, link); its folder must exist. Nothing stays open.
    ///
    /// # Errors
    /// `SessionExists` if there is a file at `path`.
    pub(crate) fn create(
        path: &Path,
        session: Option<&SessionMetadata>,
        durability: Durability,
        ctx: &Context,
    ) -> Result<()> {
        create::create(path, session, durability, ctx)
    }

    /// Adds a session that holds nothing but its metadata; `modified_at` is its `created_at`.
    ///
    /// # Errors
    /// `SessionExists`.
    pub(crate) fn insert_session(&self, metadata: &SessionMetadata, ctx: &Context) -> Result<()> {
        let writer = self.writer(ctx)?;
        let transaction = writer.writing()?;
        insert(&writer, metadata, WHOLE)?;
        self.finish(transaction, &writer, "add a session to the database")
    }

    /// Its sessions, in any order; names only with `details`.
    pub(crate) fn sessions(&self, details: bool, ctx: &Context) -> Result<Vec<StoredSession>> {
        let sql = if details { LIST_WITH_NAMES } else { LIST };
        self.read(ctx, |connection| match self.schema() {
            Schema::Ours => connection.all(sql, [], ctx, stored),
            Schema::Reference => reference::sessions(connection, details, ctx),
        })
    }

    /// The session of that id, without its name.
    pub(crate) fn session(&self, id: &str, ctx: &Context) -> Result<Option<StoredSession>> {
        self.look(ctx, |connection| match self.schema() {
            Schema::Ours => connection.first(ONE, [id], stored),
            Schema::Reference => reference::session(connection, id),
        })
    }

    /// Deletes what is left of sessions that were being made by somebody who died: where `take_abandoned` takes
    /// the lock of an id, which is held until nobody can go on with them. What cannot be deleted for now, since
    /// others write or the disk is full, stays and harms nothing.
    pub(crate) fn sweep_unfinished<T>(
        &self,
        mut take_abandoned: impl FnMut(&str) -> Result<Option<T>>,
        ctx: &Context,
    ) -> Result<()> {
        let found = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
        let unfinished = self.look(ctx, |connection| connection.all(MADE, [], ctx, found))?;
        let sweep_them = || {
            let mut condemned = false;
            for (sid, id) in unfinished {
                let Some(_lock) = take_abandoned(&id)? else { continue };
                let writer = self.writer(ctx)?;
                let transaction = writer.writing()?;
                condemn(&writer, sid)?;
                self.finish(transaction, &writer, "give up a session in the database")?;
                condemned = true;
            }
            if condemned { sweep(self, ctx) } else { Ok(()) }
        };
        match sweep_them() {
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Full) => {
                tracing::warn!(%error, "rows of unfinished sessions are still there");
                Ok(())
            }
            swept => swept,
        }
    }

    /// Deletes a session: gone for everyone at once, its rows in batches after that.
    ///
    /// # Errors
    /// `UnknownSession`.
    pub(crate) fn delete_session(&self, id: &str, ctx: &Context) -> Result<()> {
        let writer = self.writer(ctx)?;
        let transaction = writer.writing()?;
        if writer.execute("delete the session", HIDE, [id])? == 0 {
            return Err(unknown_session(id).with_path(self.path()));
        }
        self.finish(transaction, &writer, "delete the session")?;
        drop(writer);
        if let Err(error) = sweep(self, ctx) {
            // The session is gone; the next open or delete goes on with its rows.
            tracing::warn!(%error, session.id = id, "rows of a deleted session are still there");
        }
        Ok(())
    }
}

pub(super) fn insert(connection: &Connection, metadata: &SessionMetadata, state: i64) -> Result<()> {
    let parameters = params![
        metadata.id,
        state,
        metadata.created_at,
        metadata.storage_version,
        metadata.cwd,
        metadata.parent_session_id,
        metadata.legacy_parent_session_path,
    ];
    connection.execute("add a session to the database", INSERT, parameters).map_err(|error| {
        if error.kind() == ErrorKind::SessionExists {
            return session_exists(&metadata.id).with_path(connection.path());
        }
        error
    })?;
    if connection.sql().last_insert_rowid() > MAX_OWNER {
        return Err(Error::new(ErrorKind::TooLarge, "the container has used up its session numbers")
            .with_path(connection.path())
            .with_hint("put further sessions in another container"));
    }
    Ok(())
}

/// Marks a session that was being made as one to be deleted.
pub(super) fn condemn(connection: &Connection, sid: i64) -> Result<()> {
    connection.execute("give up a session in the database", GIVE_UP, [sid]).map(drop)
}

/// Deletes all rows of a session in the transaction that is open.
pub(super) fn delete_rows(connection: &Connection, sid: i64) -> Result<()> {
    condemn(connection, sid)?;
    while !delete_batch(connection, sid)? {}
    Ok(())
}

/// Deletes what is left of deleted sessions, in batches.
pub(super) fn sweep(database: &Database, ctx: &Context) -> Result<()> {
    while let Some(sid) =
        database.look(ctx, |connection| connection.first(HIDDEN, [], |row| row.get::<_, i64>(0)))?
    {
        let mut whole = false;
        while !whole {
            let writer = database.writer(ctx)?;
            let transaction = writer.writing()?;
            whole = delete_batch(&writer, sid)?;
            database.finish(transaction, &writer, "delete the rows of a deleted session")?;
        }
    }
    Ok(())
}

/// Deletes some rows of a session; whether it was the last of them.
fn delete_batch(writer: &Connection, sid: i64) -> Result<bool> {
    let what = "delete the rows of a deleted session";
    let range = |owner| (key(owner, 0), key(owner, MAX_SEQ));
    let (from, to) = range(sid);
    let mut left = BATCH;
    for sql in [DELETE_ENTRIES, DELETE_USAGE] {
        left -= writer.execute(what, sql, params![from, to, left as i64])?.min(left);
    }
    left -= writer.execute(what, DELETE_VALUES, params![sid, left as i64])?.min(left);
    while left > 0 {
        let Some(lid) = writer.first(LISTS_OF, [sid], |row| row.get::<_, i64>(0))? else {
            writer.execute(what, DELETE_SESSION, [sid])?;
            return Ok(true);
        };
        let (from, to) = range(lid);
        left -= writer.execute(what, DELETE_ELEMENTS, params![from, to, left as i64])?.min(left);
        if left > 0 {
            left -= writer.execute(what, DELETE_LIST, [lid])?.min(left);
        }
    }
    Ok(false)
}

/// The session's number.
pub(super) fn find(connection: &Connection, id: &str) -> Result<i64> {
    let Some((sid, version)) =
        connection.first(SID, [id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?)))?
    else {
        return Err(unknown_session(id).with_path(connection.path()));
    };
    if version > 1 {
        return Err(Error::new(
            ErrorKind::UnsupportedVersion,
            format!("the session is of storage version {version}; this library reads up to 1"),
        )
        .with_path(connection.path())
        .with_id(id)
        .with_hint("use a newer version of the library; the file was left as it is"));
    }
    if !(1..=MAX_OWNER).contains(&sid) {
        return Err(corrupt(connection.path(), format!("the session has the number {sid}")).with_id(id));
    }
    Ok(sid)
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredSession> {
    let name: Option<String> = row.get(8)?;
    Ok(StoredSession {
        metadata: SessionMetadata {
            id: row.get(0)?,
            created_at: row.get(1)?,
            storage_version: row.get(2)?,
            cwd: row.get(3)?,
            parent_session_id: row.get(4)?,
            legacy_parent_session_path: row.get(5)?,
            path: None,
        },
        modified_at: row.get(6)?,
        name: name.and_then(|name| text_of(&name).map(|name| name.into_owned())),
        message_count: row.get::<_, i64>(7)?.max(0).cast_unsigned(),
        schema: Schema::Ours,
    })
}
