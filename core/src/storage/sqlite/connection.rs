//! One connection to a database file: how it is opened, how it waits for locks, and its transactions.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, OpenFlags};

use super::fault::{fault, listen};
use crate::context::Context;
use crate::error::{ErrorKind, Result};
use crate::repository::Durability;
use crate::sync::lock;

/// How many prepared statements a connection keeps: more than there are.
const STATEMENTS: usize = 64;
/// How large a WAL may stay once it was checkpointed, in bytes.
const WAL_LIMIT: u64 = 16 << 20;
/// How much of the file a connection keeps in memory, in KiB.
const CACHE_KIB: u32 = 4096;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Commits of that durability.
    Write(Durability),
    /// Reads beside writers.
    Read,
    /// Reads of a file that nobody writes: without locks, and without a file beside it.
    ReadImmutable,
}

/// One connection. Everything it does waits for locks as long as its context and timeout allow.
pub(super) struct Connection {
    sql: rusqlite::Connection,
    path: PathBuf,
    immutable: bool,
    waiting: Arc<Mutex<Waiting>>,
}

/// How long the connection may wait for a lock of another one.
struct Waiting {
    ctx: Context,
    timeout: Duration,
    since: Option<Instant>,
}

impl Waiting {
    /// Waits a little, unless the time is up.
    fn go_on(waiting: &Mutex<Self>, attempt: i32) -> bool {
        let step = Duration::from_millis(1 << attempt.clamp(0, 4));
        let (ctx, left) = {
            let mut waiting = lock(waiting);
            if attempt == 0 {
                waiting.since = Some(Instant::now());
            }
            let waited = waiting.since.map_or(Duration::ZERO, |since| since.elapsed());
            let mut left = waiting.timeout.saturating_sub(waited);
            if let Some(deadline) = waiting.ctx.deadline() {
                left = left.min(deadline.saturating_duration_since(Instant::now()));
            }
            (waiting.ctx.clone(), left)
        };
        if left.is_zero() || ctx.check().is_err() {
            return false;
        }
        std::thread::sleep(step.min(left));
        true
    }
}

impl Connection {
    /// Opens the file at `path`, which must exist and be absolute.
    pub(super) fn open(path: &Path, purpose: Purpose, busy_timeout: Duration) -> Result<Self> {
        listen();
        let failed = |error| fault("open the database", path, error);
        let access = match purpose {
            Purpose::Write(_) => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Purpose::Read | Purpose::ReadImmutable => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut sql = match purpose {
            Purpose::ReadImmutable => rusqlite::Connection::open_with_flags(
                uri(path, "immutable=1"),
                flags | OpenFlags::SQLITE_OPEN_URI,
            ),
            Purpose::Write(_) | Purpose::Read => rusqlite::Connection::open_with_flags(path, flags),
        }
        .map_err(failed)?;
        let waiting =
            Arc::new(Mutex::new(Waiting { ctx: Context::background(), timeout: busy_timeout, since: None }));
        let handler = Arc::clone(&waiting);
        let waits = move |attempt| Waiting::go_on(&handler, attempt);
        sql.busy_handler(Some(waits)).map_err(failed)?;
        sql.set_prepared_statement_cache_capacity(STATEMENTS);
        sql.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false).map_err(failed)?;
        sql.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false).map_err(failed)?;
        sql.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false).map_err(failed)?;
        let mut settings = format!("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{CACHE_KIB};");
        if let Purpose::Write(durability) = purpose {
            let synchronous = match durability {
                Durability::Power => "FULL",
                Durability::Process => "NORMAL",
            };
            settings.push_str(&format!(
                "PRAGMA synchronous = {synchronous}; PRAGMA journal_size_limit = {WAL_LIMIT};"
            ));
        }
        sql.execute_batch(&settings).map_err(failed)?;
        let immutable = purpose == Purpose::ReadImmutable;
        Ok(Self { sql, path: path.to_owned(), immutable, waiting })
    }

    /// A connection that was opened elsewhere to the file that will be `path`.
    pub(super) fn of(sql: rusqlite::Connection, path: &Path) -> Self {
        let waiting = Waiting { ctx: Context::background(), timeout: Duration::ZERO, since: None };
        Self { sql, path: path.to_owned(), immutable: false, waiting: Arc::new(Mutex::new(waiting)) }
    }

    pub(super) fn into_sql(self) -> rusqlite::Connection {
        self.sql
    }

    /// From now on waits for locks as `ctx` allows.
    pub(super) fn use_context(&self, ctx: &Context) {
        lock(&self.waiting).ctx = ctx.clone();
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it reads a file that nobody writes.
    pub(super) fn is_immutable(&self) -> bool {
        self.immutable
    }

    pub(super) fn sql(&self) -> &rusqlite::Connection {
        &self.sql
    }

    pub(super) fn sql_mut(&mut self) -> &mut rusqlite::Connection {
        &mut self.sql
    }

    /// The statement `sql`, prepared once.
    pub(super) fn prepared(&self, sql: &str) -> Result<CachedStatement<'_>> {
        listen();
        self.sql.prepare_cached(sql).map_err(|error| self.fault("read the database", error))
    }

    /// Runs `sql`, which gives no rows; how many rows it changed.
    pub(super) fn execute(&self, what: &str, sql: &str, parameters: impl rusqlite::Params) -> Result<usize> {
        listen();
        let mut statement = self.sql.prepare_cached(sql).map_err(|error| self.fault(what, error))?;
        statement.execute(parameters).map_err(|error| self.fault(what, error))
    }

    /// The first row of `sql`.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
        of: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let failed = |error| self.fault("read the database", error);
        let mut statement = self.prepared(sql)?;
        let mut rows = statement.query(parameters).map_err(failed)?;
        rows.next().map_err(failed)?.map(of).transpose().map_err(failed)
    }

    /// Every row of `sql`.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
        ctx: &Context,
        mut of: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let failed = |error| self.fault("read the database", error);
        let mut statement = self.prepared(sql)?;
        let mut rows = statement.query(parameters).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            found.push(of(row).map_err(failed)?);
            if found.len().is_multiple_of(256) {
                ctx.check()?;
            }
        }
        Ok(found)
    }

    /// The error of doing `what`; if the wait for a lock was ended by the context, the context's.
    pub(super) fn fault(&self, what: &str, error: rusqlite::Error) -> crate::error::Error {
        let error = fault(what, &self.path, error);
        if error.kind() == ErrorKind::Busy
            && let Err(ended) = lock(&self.waiting).ctx.check()
        {
            return ended;
        }
        error
    }

    /// A transaction that reads one snapshot.
    pub(super) fn snapshot(&self) -> Result<Transaction<'_>> {
        self.begin("BEGIN")
    }

    /// A transaction that writes; waits for other writers.
    pub(super) fn writing(&self) -> Result<Transaction<'_>> {
        self.begin("BEGIN IMMEDIATE")
    }

    fn begin(&self, sql: &str) -> Result<Transaction<'_>> {
        self.execute("begin a transaction in the database", sql, [])?;
        Ok(Transaction { connection: self })
    }

    /// Closes without a checkpoint: what was committed stays in the WAL.
    pub(super) fn without_checkpoint(&self) {
        // If that fails, SQLite checkpoints, which is as good.
        let _ = self.sql.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }

    pub(super) fn close(self) -> Result<()> {
        listen();
        self.sql.close().map_err(|(_, error)| fault("close the database", &self.path, error))
    }
}

/// A transaction that is rolled back unless it is committed.
pub(super) struct Transaction<'a> {
    connection: &'a Connection,
}

impl Transaction<'_> {
    pub(super) fn commit(self) -> rusqlite::Result<()> {
        listen();
        self.connection.sql.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // Some errors have rolled back already. Whether a rollback worked shows in the autocommit state,
        // which is looked at before the next transaction.
        if !self.connection.sql.is_autocommit()
            && let Ok(mut rollback) = self.connection.sql.prepare_cached("ROLLBACK")
        {
            let _ = rollback.execute([]);
        }
    }
}

/// The URI of the file at `path` with `options`.
pub(super) fn uri(path: &Path, options: &str) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push('?');
    uri.push_str(options);
    uri
}
