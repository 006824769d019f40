//! Containers with the tables of the reference implementation, made here with SQL.

use std::path::Path;

use rusqlite::{Connection, params};

const TABLES: &str = "
CREATE TABLE sessions (id TEXT PRIMARY KEY, created_at INTEGER NOT NULL, parent_session_id TEXT,
  storage_version INTEGER NOT NULL, metadata TEXT, message_count INTEGER NOT NULL,
  usage_payload TEXT NOT NULL, next_seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (session_id TEXT NOT NULL, id TEXT NOT NULL, parent_id TEXT, seq INTEGER NOT NULL,
  type TEXT NOT NULL, custom_type TEXT, timestamp INTEGER NOT NULL, payload TEXT NOT NULL,
  PRIMARY KEY (session_id, id)) WITHOUT ROWID;
CREATE INDEX ix_entry_parent ON entries(session_id, parent_id);
CREATE INDEX ix_entry_seq ON entries(session_id, seq, type);
CREATE TABLE scalar_values (session_id TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL,
  seq INTEGER NOT NULL, value TEXT NOT NULL, PRIMARY KEY (session_id, namespace, key)) WITHOUT ROWID;
CREATE TABLE list_values (session_id TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL,
  seq INTEGER NOT NULL, value TEXT NOT NULL, PRIMARY KEY (session_id, namespace, key, seq)) WITHOUT ROWID;
CREATE TABLE usage_ledger (session_id TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL, entry_id TEXT,
  adjustment INTEGER NOT NULL, usage TEXT NOT NULL, details TEXT, PRIMARY KEY (session_id, id)) WITHOUT ROWID;
CREATE INDEX ix_usage_seq ON usage_ledger(session_id, seq);
CREATE TABLE branch_entries (session_id TEXT NOT NULL, branch_id TEXT NOT NULL, entry_id TEXT NOT NULL,
  entry_seq INTEGER NOT NULL, entry_type TEXT NOT NULL, PRIMARY KEY (session_id, branch_id, entry_id))
  WITHOUT ROWID;
CREATE INDEX ix_be_seq ON branch_entries(session_id, branch_id, entry_seq, entry_id, entry_type);
CREATE INDEX ix_be_entry ON branch_entries(session_id, entry_id);
CREATE TABLE branch_meta (session_id TEXT NOT NULL, branch_id TEXT NOT NULL, tip_entry_id TEXT NOT NULL,
  tip_seq INTEGER NOT NULL, base_branch_id TEXT, base_seq INTEGER, PRIMARY KEY (session_id, branch_id))
  WITHOUT ROWID;
CREATE UNIQUE INDEX ix_bm_tip ON branch_meta(session_id, tip_entry_id);
";

/// A container that is being filled, or changed.
pub(crate) struct Container {
    pub(crate) sql: Connection,
    seq: i64,
}

impl Container {
    /// A new one, with a WAL as the reference makes it.
    pub(crate) fn create(path: &Path) -> Self {
        let container = Self::open(path);
        container.sql.execute_batch("PRAGMA journal_mode = wal").unwrap();
        container.sql.execute_batch(TABLES).unwrap();
        container
    }

    pub(crate) fn open(path: &Path) -> Self {
        Self { sql: Connection::open(path).unwrap(), seq: 0 }
    }

    /// Adds a session; what is added from here on counts from 1.
    pub(crate) fn session(&mut self, id: &str, created_at: i64) {
        self.seq = 0;
        let totals = r#"{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}"#;
        let sql = "INSERT INTO sessions VALUES (?1, ?2, NULL, 1, NULL, 0, ?3, 1)";
        self.sql.execute(sql, params![id, created_at, totals]).unwrap();
    }

    /// Goes on behind what the session has.
    pub(crate) fn go_on_in(&mut self, session: &str) {
        let sql = "SELECT next_seq - 1 FROM sessions WHERE id = ?1";
        self.seq = self.sql.query_row(sql, [session], |row| row.get(0)).unwrap();
    }

    fn next(&mut self, session: &str) -> i64 {
        self.seq += 1;
        let sql = "UPDATE sessions SET next_seq = ?2 WHERE id = ?1";
        self.sql.execute(sql, params![session, self.seq + 1]).unwrap();
        self.seq
    }

    /// Adds an entry of any type; the index of branches knows it as its own branch.
    pub(crate) fn entry(
        &mut self,
        session: &str,
        id: &str,
        parent: Option<&str>,
        of: (&str, Option<&str>),
        payload: &str,
    ) {
        let seq = self.next(session);
        let (entry_type, custom_type) = of;
        let sql = "INSERT INTO entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let timestamp = 1_000 + seq;
        let row = params![session, id, parent, seq, entry_type, custom_type, timestamp, payload];
        self.sql.execute(sql, row).unwrap();
        let sql = "INSERT INTO branch_entries VALUES (?1, 'b', ?2, ?3, ?4)";
        self.sql.execute(sql, params![session, id, seq, entry_type]).unwrap();
        if entry_type == "message" {
            let sql = "UPDATE sessions SET message_count = message_count + 1 WHERE id = ?1";
            self.sql.execute(sql, [session]).unwrap();
        }
    }

    pub(crate) fn message(&mut self, session: &str, id: &str, parent: Option<&str>, text: &str) {
        let payload = format!(r#"{{"message":{{"role":"user","content":"{text}"}}}}"#);
        self.entry(session, id, parent, ("message", None), &payload);
    }

    /// A chain of messages `e1`, `e2`, …, and the branch `main` at its end, in one transaction.
    pub(crate) fn chain(&mut self, session: &str, count: usize) {
        self.sql.execute_batch("BEGIN").unwrap();
        for at in 1..=count {
            let parent = (at > 1).then(|| format!("e{}", at - 1));
            self.message(session, &format!("e{at}"), parent.as_deref(), &format!("text {at}"));
        }
        self.value(session, "pi.branch.tip", "main", &format!("\"e{count}\""));
        self.sql.execute_batch("COMMIT").unwrap();
    }

    pub(crate) fn value(&mut self, session: &str, namespace: &str, key: &str, value: &str) {
        let seq = self.next(session);
        let sql = "INSERT OR REPLACE INTO scalar_values VALUES (?1, ?2, ?3, ?4, ?5)";
        self.sql.execute(sql, params![session, namespace, key, seq, value]).unwrap();
    }

    pub(crate) fn element(&mut self, session: &str, namespace: &str, key: &str, value: &str) {
        let seq = self.next(session);
        let sql = "INSERT INTO list_values VALUES (?1, ?2, ?3, ?4, ?5)";
        self.sql.execute(sql, params![session, namespace, key, seq, value]).unwrap();
    }

    /// Adds a ledger row of so many input tokens.
    pub(crate) fn usage(
        &mut self,
        session: &str,
        id: &str,
        input: i64,
        entry: Option<&str>,
        details: Option<&str>,
    ) {
        let seq = self.next(session);
        let usage = |input: i64| {
            format!(
                r#"{{"input":{input},"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":{input},"cost":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}}"#
            )
        };
        let sql = "INSERT INTO usage_ledger VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let adjustment = entry.is_none();
        self.sql.execute(sql, params![session, id, seq, entry, adjustment, usage(input), details]).unwrap();
        let sum = "SELECT sum(usage ->> '$.input') FROM usage_ledger WHERE session_id = ?1";
        let sum: i64 = self.sql.query_row(sum, [session], |row| row.get(0)).unwrap();
        let sql = "UPDATE sessions SET usage_payload = ?2 WHERE id = ?1";
        self.sql.execute(sql, params![session, usage(sum)]).unwrap();
    }

    /// Closes it: its log goes into the file.
    pub(crate) fn close(self) {
        self.sql.close().unwrap();
    }
}
