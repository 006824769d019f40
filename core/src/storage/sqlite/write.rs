//! How the writes of one commit reach the tables, inside its transaction.

use std::cell::RefCell;
use std::collections::HashMap;

use rusqlite::params;

use super::connection::Connection;
use super::fault::corrupt;
use super::read::{View, type_number};
use super::schema::{MAX_OWNER, MAX_SEQ, key};
use super::tree::SessionTree;
use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::{EntryStructure, NewEntry};
use crate::model::usage::{Stats, Usage};
use crate::model::value::Address;
use crate::model::write::Write;
use crate::storage::commit::Known;
use crate::storage::path::{Node, Tree, Visit, jump_of_child};

/// How many nodes are remembered between commits.
const REMEMBERED: usize = 1024;

const HAS_USAGE: &str = "SELECT 1 FROM usage_row WHERE sid = ?1 AND id = ?2";
const IS_TAKEN: &str = "SELECT 1 FROM entry_row WHERE sid = ?1 AND id = ?2
UNION ALL SELECT 1 FROM usage_row WHERE sid = ?1 AND id = ?2";
const INSERT_ENTRY: &str = "INSERT INTO entry_row
  (key, sid, type, depth, parent, jump, timestamp, id, custom_type, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const INSERT_USAGE: &str = "INSERT INTO usage_row (key, sid, id, payload) VALUES (?1, ?2, ?3, ?4)";
const UPDATE_VALUE: &str =
    "UPDATE value_row SET seq = ?4, payload = ?5 WHERE sid = ?1 AND namespace = ?2 AND key = ?3";
const INSERT_VALUE: &str =
    "INSERT INTO value_row (sid, namespace, key, seq, payload) VALUES (?1, ?2, ?3, ?4, ?5)";
const DELETE_VALUE: &str = "DELETE FROM value_row WHERE sid = ?1 AND namespace = ?2 AND key = ?3";
const LIST: &str = "SELECT lid FROM list_row WHERE sid = ?1 AND namespace = ?2 AND key = ?3";
const INSERT_LIST: &str = "INSERT INTO list_row (sid, namespace, key) VALUES (?1, ?2, ?3)";
const DELETE_LIST: &str = "DELETE FROM list_row WHERE lid = ?1";
const INSERT_ELEMENT: &str = "INSERT INTO list_element_row (key, payload) VALUES (?1, ?2)";
const DELETE_ELEMENTS: &str = "DELETE FROM list_element_row WHERE key BETWEEN ?1 AND ?2";
// Nothing if the session is not as it was when the commit was checked.
const UPDATE_SESSION: &str = "UPDATE session_row SET modified_at = ?2, next_seq = ?3, message_count = ?4
WHERE sid = ?1 AND next_seq = ?5 AND state = 0";
const UPDATE_TOTALS: &str =
    "UPDATE session_row SET input = ?2, output = ?3, cache_read = ?4, cache_write = ?5,
  cache_write_1h = ?6, reasoning = ?7, total_tokens = ?8, cost_input = ?9, cost_output = ?10,
  cost_cache_read = ?11, cost_cache_write = ?12, cost_total = ?13 WHERE sid = ?1";

/// Every statement of this file.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 15] = [
    HAS_USAGE,
    IS_TAKEN,
    INSERT_ENTRY,
    INSERT_USAGE,
    UPDATE_VALUE,
    INSERT_VALUE,
    DELETE_VALUE,
    LIST,
    INSERT_LIST,
    DELETE_LIST,
    INSERT_ELEMENT,
    DELETE_ELEMENTS,
    UPDATE_SESSION,
    UPDATE_TOTALS,
    super::read::NODE,
];

/// Nodes of entries that were committed, by id and by place. Entries are written once, so none goes stale.
#[derive(Default)]
pub(super) struct Nodes {
    by_id: HashMap<Box<str>, u64>,
    by_seq: HashMap<u64, Node>,
}

impl Nodes {
    fn remember(&mut self, id: Option<&str>, node: Node) {
        if self.by_seq.len() >= REMEMBERED {
            self.by_id.clear();
            self.by_seq.clear();
        }
        if let Some(id) = id {
            self.by_id.insert(id.into(), node.seq);
        }
        self.by_seq.insert(node.seq, node);
    }

    fn find(&self, id: &str) -> Option<Node> {
        self.by_id.get(id).and_then(|seq| self.by_seq.get(seq)).copied()
    }
}

/// Where the session stands between two commits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Totals {
    pub(super) next_seq: u64,
    pub(super) stats: Stats,
}

/// What a storage remembers between its commits: only it writes the session.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) nodes: RefCell<Nodes>,
    /// None before the first commit, and after one that failed.
    pub(super) totals: Option<Totals>,
}

/// One commit in progress.
pub(super) struct Writing<'a> {
    view: View<'a>,
    tree: SessionTree<'a, EntryStructure>,
    /// Committed nodes, those of earlier commits included.
    committed: &'a RefCell<Nodes>,
    /// Nodes of this commit, forgotten if it fails.
    fresh: RefCell<HashMap<Box<str>, Node>>,
    fresh_by_seq: RefCell<HashMap<u64, Node>>,
}

impl<'a> Writing<'a> {
    pub(super) fn new(view: View<'a>, committed: &'a RefCell<Nodes>) -> Self {
        Self {
            view,
            tree: SessionTree::new(view),
            committed,
            fresh: RefCell::default(),
            fresh_by_seq: RefCell::default(),
        }
    }

    fn connection(&self) -> &'a Connection {
        self.view.connection
    }

    fn execute(&self, sql: &str, parameters: impl rusqlite::Params) -> Result<usize> {
        self.connection().execute("commit to the database", sql, parameters)
    }

    /// Applies `writes` in order, the first with `first_seq`.
    pub(super) fn apply(&self, writes: &[Write], first_seq: u64, timestamp: i64) -> Result<()> {
        let end = first_seq.saturating_add(writes.len() as u64);
        if end > MAX_SEQ + 1 {
            return Err(Error::new(ErrorKind::TooLarge, "the session's sequence is used up")
                .with_path(self.connection().path())
                .with_hint("copy the session; a copy of what is alive starts again"));
        }
        for (seq, write) in (first_seq..).zip(writes) {
            match write {
                Write::Entry(entry) => self.insert_entry(entry, seq, timestamp)?,
                Write::Usage(row) => {
                    let parameters =
                        params![key(self.view.sid, seq), self.view.sid, row.id, row.payload.as_str()];
                    self.execute(INSERT_USAGE, parameters)?;
                }
                Write::SetValue(address, value) => {
                    let parameters = params![
                        self.view.sid,
                        address.namespace(),
                        address.key(),
                        seq.cast_signed(),
                        value.as_str()
                    ];
                    if self.execute(UPDATE_VALUE, parameters)? == 0 {
                        self.execute(INSERT_VALUE, parameters)?;
                    }
                }
                Write::DeleteValue(address) => {
                    self.execute(DELETE_VALUE, params![self.view.sid, address.namespace(), address.key()])?;
                }
                Write::AppendList(address, element) => {
                    let list = match self.list(address)? {
                        Some(list) => list,
                        None => self.insert_list(address)?,
                    };
                    self.execute(INSERT_ELEMENT, params![key(list, seq), element.as_str()])?;
                }
                Write::DeleteList(address) => {
                    if let Some(list) = self.list(address)? {
                        self.execute(DELETE_ELEMENTS, params![key(list, 0), key(list, MAX_SEQ)])?;
                        self.execute(DELETE_LIST, [list])?;
                    }
                }
            }
        }
        Ok(())
    }

    fn list(&self, address: &Address) -> Result<Option<i64>> {
        let parameters = params![self.view.sid, address.namespace(), address.key()];
        self.connection().first(LIST, parameters, |row| row.get(0))
    }

    fn insert_list(&self, address: &Address) -> Result<i64> {
        self.execute(INSERT_LIST, params![self.view.sid, address.namespace(), address.key()])?;
        let list = self.connection().sql().last_insert_rowid();
        if list > MAX_OWNER {
            return Err(Error::new(ErrorKind::TooLarge, "the container has used up its list numbers")
                .with_path(self.connection().path())
                .with_hint("put further sessions in another container"));
        }
        Ok(list)
    }

    fn insert_entry(&self, entry: &NewEntry, seq: u64, timestamp: i64) -> Result<()> {
        let (parent, jump, depth) = match &entry.parent_id {
            None => (None, seq, 0),
            Some(id) => {
                let parent = self.find(id)?.ok_or_else(|| {
                    Error::new(ErrorKind::MissingParent, format!("the parent '{id}' does not exist"))
                        .with_id(id)
                })?;
                if parent.seq >= seq {
                    let what = format!("the next seq is {seq}, and the parent '{id}' stands behind it");
                    return Err(corrupt(self.connection().path(), what));
                }
                let depth = parent.depth.checked_add(1).ok_or_else(|| {
                    Error::new(ErrorKind::TooLarge, "the path is too long for one more entry")
                })?;
                (Some(parent.at), jump_of_child(self, &parent)?, depth)
            }
        };
        let parameters = params![
            key(self.view.sid, seq),
            self.view.sid,
            type_number(entry.entry_type),
            depth,
            parent.map(u64::cast_signed),
            jump.cast_signed(),
            entry.made_at.unwrap_or(timestamp),
            entry.id,
            entry.custom_type,
            entry.payload.as_str(),
        ];
        self.execute(INSERT_ENTRY, parameters)?;
        let node = Node { at: seq, seq, parent, jump, depth, entry_type: entry.entry_type };
        self.fresh.borrow_mut().insert(entry.id.as_str().into(), node);
        self.fresh_by_seq.borrow_mut().insert(seq, node);
        Ok(())
    }

    /// Notes what the commit did in the session's row; false if that is not as it was `before`.
    pub(super) fn finish(&self, before: &Totals, after: &Totals, timestamp: i64) -> Result<bool> {
        let sid = self.view.sid;
        let parameters = params![
            sid,
            timestamp,
            after.next_seq.cast_signed(),
            after.stats.message_count.cast_signed(),
            before.next_seq.cast_signed(),
        ];
        if self.execute(UPDATE_SESSION, parameters)? == 0 {
            return Ok(false);
        }
        if after.stats.usage != before.stats.usage {
            write_totals(self.connection(), sid, &after.stats.usage)?;
        }
        Ok(true)
    }

    /// The commit was made: its nodes are known from now on.
    pub(super) fn committed(self) {
        let mut committed = self.committed.borrow_mut();
        for (id, node) in self.fresh.into_inner() {
            committed.remember(Some(&id), node);
        }
    }
}

/// Writes the totals of a session's ledger into its row.
pub(super) fn write_totals(connection: &Connection, sid: i64, usage: &Usage) -> Result<()> {
    let parameters = params![
        sid,
        usage.input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
        usage.cache_write_1h,
        usage.reasoning,
        usage.total_tokens,
        usage.cost.input,
        usage.cost.output,
        usage.cost.cache_read,
        usage.cost.cache_write,
        usage.cost.total,
    ];
    connection.execute("commit to the database", UPDATE_TOTALS, parameters).map(drop)
}

impl Tree for Writing<'_> {
    type Row = <SessionTree<'static, EntryStructure> as Tree>::Row;

    fn find(&self, id: &str) -> Result<Option<Node>> {
        if let Some(node) = self.fresh.borrow().get(id) {
            return Ok(Some(*node));
        }
        if let Some(node) = self.committed.borrow().find(id) {
            return Ok(Some(node));
        }
        let found = self.tree.find(id)?;
        if let Some(node) = found {
            self.committed.borrow_mut().remember(Some(id), node);
        }
        Ok(found)
    }

    fn node(&self, at: u64) -> Result<Node> {
        if let Some(node) = self.fresh_by_seq.borrow().get(&at) {
            return Ok(*node);
        }
        if let Some(node) = self.committed.borrow().by_seq.get(&at) {
            return Ok(*node);
        }
        let node = self.tree.node(at)?;
        self.committed.borrow_mut().remember(None, node);
        Ok(node)
    }

    fn climb(&self, from: u64, visit: &mut Visit<'_, Self::Row>) -> Result<()> {
        self.tree.climb(from, visit)
    }

    fn damaged(&self, node: &Node) -> Error {
        self.tree.damaged(node)
    }
}

impl Known for Writing<'_> {
    fn has_entry(&self, id: &str) -> Result<bool> {
        Ok(self.find(id)?.is_some())
    }

    fn has_usage(&self, id: &str) -> Result<bool> {
        let found = self.connection().first(HAS_USAGE, params![self.view.sid, id], |_| Ok(()))?;
        Ok(found.is_some())
    }

    fn is_taken(&self, id: &str) -> Result<bool> {
        let taken = self.connection().first(IS_TAKEN, params![self.view.sid, id], |_| Ok(()))?;
        Ok(taken.is_some())
    }
}
