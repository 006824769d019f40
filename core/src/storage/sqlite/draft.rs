//! A session that is being made in a database: in a file of its own that nobody sees yet, or in a container
//! under a hidden row, in batches, so that no transaction holds the container for long.

use std::path::Path;

use rusqlite::params;

use super::connection::Connection;
use super::create::Draft as File;
use super::database::Database;
use super::read::View;
use super::schema::MAKING;
use super::sessions;
use super::write::{Memory, Totals, Writing, write_totals};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::usage::Stats;
use crate::repository::Durability;
use crate::session::backend::SessionMetadata;
use crate::storage::commit::{payload_length, stats_after};
use crate::storage::copy::{Record, Sink};

/// How many bytes of payload one batch has at most, but for its last record.
const BATCH_BYTES: usize = 4 << 20;
/// How many records one batch has.
const BATCH: usize = 4096;

const SHOW: &str = "UPDATE session_row SET state = 0, next_seq = ?2, message_count = ?3
WHERE sid = ?1 AND state <> 0 AND state = 1";

/// Every statement of this file.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 1] = [SHOW];

/// A session under construction. Dropped, it leaves nothing.
pub(crate) struct SessionDraft {
    metadata: SessionMetadata,
    place: Place,
    /// The hidden row; none before the start.
    sid: Option<i64>,
    next_seq: u64,
    stats: Stats,
    memory: Memory,
    batch: Vec<Record>,
    bytes: usize,
}

enum Place {
    /// The connection is ours alone, and one transaction is open on it from the start to the end.
    File(File, Connection),
    Container(Database),
    Published,
}

impl SessionDraft {
    /// A session in a new file that will be at `path`; its folder must exist.
    ///
    /// # Errors
    /// `SessionExists` if there is a file at `path`.
    pub(crate) fn in_file(path: &Path, metadata: SessionMetadata, durability: Durability) -> Result<Self> {
        super::header::check_library(path)?;
        let file = File::beside(path, durability)?;
        let connection = Connection::of(file.database()?, path);
        Ok(Self::new(metadata, Place::File(file, connection)))
    }

    /// A session in a container, whose lock is held.
    pub(crate) fn in_container(database: Database, metadata: SessionMetadata) -> Self {
        Self::new(metadata, Place::Container(database))
    }

    fn new(metadata: SessionMetadata, place: Place) -> Self {
        Self {
            metadata,
            place,
            sid: None,
            next_seq: 1,
            stats: Stats::default(),
            memory: Memory::default(),
            batch: Vec::new(),
            bytes: 0,
        }
    }

    /// Runs `write` in the file's one transaction, or in one of the container's.
    fn write<T>(&self, write: impl FnOnce(&Connection) -> Result<T>, ctx: &Context) -> Result<T> {
        match &self.place {
            Place::File(_, connection) => write(connection),
            Place::Container(database) => {
                let writer = database.writer(ctx)?;
                let transaction = writer.writing()?;
                let written = write(&writer)?;
                database.finish(transaction, &writer, "copy a session into the database")?;
                Ok(written)
            }
            Place::Published => Err(not_started()),
        }
    }

    fn flush(&mut self, ctx: &Context) -> Result<()> {
        ctx.check()?;
        let sid = self.sid.ok_or_else(not_started)?;
        let batch = std::mem::take(&mut self.batch);
        let memory = std::mem::take(&mut self.memory);
        self.bytes = 0;
        self.memory = self.write(
            move |connection| {
                let writing = Writing::new(View { connection, sid }, &memory.nodes);
                for record in &batch {
                    writing.apply(std::slice::from_ref(&record.write), record.seq, 0)?;
                }
                writing.committed();
                Ok(memory)
            },
            ctx,
        )?;
        Ok(())
    }

    /// Makes the session appear.
    pub(crate) fn publish(mut self, ctx: &Context) -> Result<()> {
        self.flush(ctx)?;
        let sid = self.sid.ok_or_else(not_started)?;
        let after = Totals { next_seq: self.next_seq, stats: self.stats };
        self.write(|connection| show(connection, sid, &after), ctx)?;
        match std::mem::replace(&mut self.place, Place::Published) {
            Place::File(file, connection) => {
                connection.execute("make the database", "COMMIT", [])?;
                file.publish(connection.into_sql())
            }
            Place::Container(_) | Place::Published => Ok(()),
        }
    }

    /// Takes back what was written.
    fn take_back(&mut self, ctx: &Context) -> Result<()> {
        self.batch.clear();
        self.bytes = 0;
        self.stats = Stats::default();
        self.memory = Memory::default();
        let Some(sid) = self.sid.take() else { return Ok(()) };
        match &self.place {
            // Without a journal there is no rollback.
            Place::File(_, connection) => sessions::delete_rows(connection, sid),
            Place::Container(database) => {
                let database = database.clone();
                self.write(|connection| sessions::condemn(connection, sid), ctx)?;
                sessions::sweep(&database, ctx)
            }
            Place::Published => Ok(()),
        }
    }
}

impl Sink for SessionDraft {
    fn start(&mut self, next_seq: u64, ctx: &Context) -> Result<()> {
        ctx.check()?;
        let is_first = self.sid.is_none();
        self.take_back(ctx)?;
        self.next_seq = next_seq;
        if is_first && let Place::File(_, connection) = &self.place {
            connection.execute("make the database", "BEGIN", [])?;
        }
        let metadata = self.metadata.clone();
        let sid = self.write(
            |connection| {
                sessions::insert(connection, &metadata, MAKING)?;
                Ok(connection.sql().last_insert_rowid())
            },
            ctx,
        )?;
        self.sid = Some(sid);
        Ok(())
    }

    fn put(&mut self, record: Record, ctx: &Context) -> Result<()> {
        self.stats = stats_after(&self.stats, std::slice::from_ref(&record.write));
        self.bytes += payload_length(&record.write);
        self.batch.push(record);
        if self.batch.len() >= BATCH || self.bytes >= BATCH_BYTES { self.flush(ctx) } else { Ok(()) }
    }
}

impl Drop for SessionDraft {
    fn drop(&mut self) {
        // A file is removed with its draft.
        if let Place::Container(_) = &self.place
            && let Err(error) = self.take_back(&Context::background())
        {
            tracing::warn!(%error, session.id = self.metadata.id, "rows of an unfinished session are still there");
        }
    }
}

fn show(connection: &Connection, sid: i64, after: &Totals) -> Result<()> {
    let parameters = params![sid, after.next_seq.cast_signed(), after.stats.message_count.cast_signed()];
    if connection.execute("copy a session into the database", SHOW, parameters)? == 0 {
        return Err(Error::new(ErrorKind::FileChanged, "the session that was being made is gone")
            .with_path(connection.path())
            .with_hint("nothing was made; try again"));
    }
    write_totals(connection, sid, &after.stats.usage)
}

fn not_started() -> Error {
    Error::new(ErrorKind::Misuse, "a copy was written before it was begun")
}
