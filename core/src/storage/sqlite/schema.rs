//! The schema: one for a file of one session and for a container of many.
//!
//! Rows of one session are one range of integer keys, `sid << 40 | seq` (for list elements `lid << 40 | seq`),
//! so that they lie together in `seq` order and no index by `seq` exists. Small columns come first and the
//! payload last: what a walk needs is read without touching overflow pages. The views are what people may
//! query; the tables may change with `user_version`.

use std::fmt::Write as _;

/// Marks our files, in the header at byte 68: `piSe`.
pub(super) const APPLICATION_ID: i32 = 0x7069_5365;
/// Version of the tables, in the header at byte 60.
pub(super) const USER_VERSION: i32 = 1;

/// Bits of a key that hold the `seq`.
pub(super) const SEQ_BITS: u32 = 40;
/// The largest `seq` a key can hold.
pub(super) const MAX_SEQ: u64 = (1 << SEQ_BITS) - 1;
/// The largest session or list number a key can hold.
pub(super) const MAX_OWNER: i64 = (1 << (63 - SEQ_BITS)) - 1;

/// The state of a session row that is seen. In state 1 (being made) and 2 (being deleted) nobody sees the
/// session, though rows of it are there.
pub(super) const WHOLE: i64 = 0;
/// The state of one that is being made.
pub(super) const MAKING: i64 = 1;

// Numbers of sessions are never used twice (AUTOINCREMENT): a reader of a deleted session must not find
// the rows of another one. Totals may be NULL for a sum that is no number.
pub(super) const TABLES: &str = "
CREATE TABLE session_row (
  sid INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL,
  state INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  storage_version INTEGER NOT NULL,
  cwd TEXT,
  parent_session_id TEXT,
  legacy_parent_session_path TEXT,
  modified_at INTEGER NOT NULL,
  next_seq INTEGER NOT NULL,
  message_count INTEGER NOT NULL,
  input REAL, output REAL, cache_read REAL, cache_write REAL, cache_write_1h REAL, reasoning REAL,
  total_tokens REAL,
  cost_input REAL, cost_output REAL, cost_cache_read REAL, cost_cache_write REAL, cost_total REAL
) STRICT;
CREATE UNIQUE INDEX session_by_id ON session_row (id) WHERE state = 0;
CREATE INDEX session_unfinished ON session_row (state) WHERE state <> 0;
CREATE TABLE entry_row (
  key INTEGER PRIMARY KEY,
  sid INTEGER NOT NULL,
  type INTEGER NOT NULL,
  depth INTEGER NOT NULL,
  parent INTEGER,
  jump INTEGER NOT NULL,
  timestamp INTEGER NOT NULL,
  id TEXT NOT NULL,
  custom_type TEXT,
  payload TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX entry_by_id ON entry_row (sid, id);
CREATE INDEX entry_by_type ON entry_row (sid, type) WHERE type <> 0;
CREATE INDEX entry_by_custom_type ON entry_row (sid, custom_type) WHERE custom_type IS NOT NULL;
CREATE TABLE usage_row (
  key INTEGER PRIMARY KEY,
  sid INTEGER NOT NULL,
  id TEXT NOT NULL,
  payload TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX usage_by_id ON usage_row (sid, id);
CREATE TABLE value_row (
  vid INTEGER PRIMARY KEY,
  sid INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  key TEXT NOT NULL,
  seq INTEGER NOT NULL,
  payload TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX value_by_address ON value_row (sid, namespace, key);
CREATE TABLE list_row (
  lid INTEGER PRIMARY KEY,
  sid INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  key TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX list_by_address ON list_row (sid, namespace, key);
CREATE TABLE list_element_row (
  key INTEGER PRIMARY KEY,
  payload TEXT NOT NULL
) STRICT;
";

/// Names of the views, and what each selects; every one ends in a WHERE clause that picks the sessions.
// Every open parses them, so names are qualified only where they would be ambiguous.
// Each table is used by a column that is no key, whatever a query selects: only then does SQLite tell an
// authorizer through which view the table is read.
pub(super) const VIEWS: [(&str, &str); 6] = [
    (
        "session",
        "SELECT id, created_at, modified_at, storage_version, cwd, parent_session_id, legacy_parent_session_path,
  (SELECT payload ->> '$' FROM value_row v
    WHERE v.sid = s.sid AND namespace = 'pi.session.name' AND key = '') AS name,
  message_count, next_seq, input, output, cache_read, cache_write, cache_write_1h, reasoning, total_tokens,
  cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total
FROM session_row s WHERE ",
    ),
    (
        "entry",
        "SELECT s.id AS session_id, key & 1099511627775 AS seq, e.id,
  (SELECT id FROM entry_row p WHERE p.key = s.sid << 40 | e.parent) AS parent_id,
  CASE type WHEN 0 THEN 'message' WHEN 1 THEN 'compaction' WHEN 2 THEN 'branch_summary' ELSE 'custom' END
    AS type,
  custom_type, timestamp, depth, payload
FROM session_row s JOIN entry_row e
  ON e.sid = s.sid AND key BETWEEN s.sid << 40 AND s.sid << 40 | 1099511627775 WHERE ",
    ),
    (
        "branch",
        "SELECT id AS session_id, key AS name, payload ->> '$' AS tip_id, seq
FROM session_row s JOIN value_row v ON v.sid = s.sid AND namespace = 'pi.branch.tip' WHERE ",
    ),
    (
        "value",
        "SELECT id AS session_id, namespace, key, seq, payload AS value
FROM session_row s JOIN value_row v ON v.sid = s.sid WHERE ",
    ),
    (
        "list_element",
        "SELECT id AS session_id, namespace, l.key, e.key & 1099511627775 AS seq, payload AS value
FROM session_row s JOIN list_row l ON l.sid = s.sid
  JOIN list_element_row e
  ON typeof(payload) = 'text' AND e.key BETWEEN lid << 40 AND lid << 40 | 1099511627775 WHERE ",
    ),
    (
        "usage",
        "SELECT s.id AS session_id, key & 1099511627775 AS seq, u.id, payload ->> '$.entryId' AS entry_id,
  coalesce(payload ->> '$.adjustment', 0) AS adjustment,
  payload ->> '$.usage.input' AS input, payload ->> '$.usage.output' AS output,
  payload ->> '$.usage.cacheRead' AS cache_read, payload ->> '$.usage.cacheWrite' AS cache_write,
  payload ->> '$.usage.cacheWrite1h' AS cache_write_1h, payload ->> '$.usage.reasoning' AS reasoning,
  payload ->> '$.usage.totalTokens' AS total_tokens,
  payload ->> '$.usage.cost.input' AS cost_input, payload ->> '$.usage.cost.output' AS cost_output,
  payload ->> '$.usage.cost.cacheRead' AS cost_cache_read,
  payload ->> '$.usage.cost.cacheWrite' AS cost_cache_write,
  payload ->> '$.usage.cost.total' AS cost_total, payload
FROM session_row s JOIN usage_row u
  ON u.sid = s.sid AND key BETWEEN s.sid << 40 AND s.sid << 40 | 1099511627775 WHERE ",
    ),
];

/// The statements that make the views over all sessions.
pub(super) fn views() -> String {
    let mut sql = String::new();
    for (name, select) in VIEWS {
        // Writing to a String cannot fail.
        let _ = writeln!(sql, "CREATE VIEW {name} AS {select}s.state = 0;");
    }
    sql
}

/// The key of `seq` under the session or list `owner`.
pub(super) fn key(owner: i64, seq: u64) -> i64 {
    owner << SEQ_BITS | seq.min(MAX_SEQ).cast_signed()
}

/// The `seq` in a key.
pub(super) fn seq_of(key: i64) -> u64 {
    key.cast_unsigned() & MAX_SEQ
}
