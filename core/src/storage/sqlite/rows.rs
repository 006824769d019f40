//! Whether the rows of a session fit together in what no reading checks: places in the tree, keys, lists.

use rusqlite::params;

use super::connection::Connection;
use super::read::{View, node_of};
use super::schema::{MAX_SEQ, key};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::EntryType;
use crate::session::check::{Finding, FindingKind};
use crate::storage::path::{Node, Tree, Visit, jump_of_child};

const NODES: &str =
    "SELECT key, type, depth, parent, jump, id FROM entry_row WHERE key BETWEEN ?1 AND ?2 ORDER BY key";
const ENTRIES_ELSEWHERE: &str = "SELECT count(*) FROM entry_row WHERE sid = ?1 AND key NOT BETWEEN ?2 AND ?3";
const USAGE_ELSEWHERE: &str = "SELECT count(*) FROM usage_row WHERE sid = ?1 AND key NOT BETWEEN ?2 AND ?3";
const OF_OTHERS: &str = "SELECT count(*) FROM entry_row WHERE key BETWEEN ?2 AND ?3 AND sid <> ?1";
const EMPTY_LISTS: &str = "SELECT namespace, key FROM list_row l WHERE sid = ?1 AND NOT EXISTS
  (SELECT 1 FROM list_element_row e WHERE e.key BETWEEN lid << 40 AND lid << 40 | 1099511627775)";

/// Rows whose owner is not there, and how many.
const STRAYS: [(&str, &str); 5] = [
    (
        "entries belong to no session",
        "SELECT count(*) FROM entry_row WHERE sid NOT IN (SELECT sid FROM session_row)",
    ),
    (
        "ledger rows belong to no session",
        "SELECT count(*) FROM usage_row WHERE sid NOT IN (SELECT sid FROM session_row)",
    ),
    (
        "values belong to no session",
        "SELECT count(*) FROM value_row WHERE sid NOT IN (SELECT sid FROM session_row)",
    ),
    (
        "lists belong to no session",
        "SELECT count(*) FROM list_row WHERE sid NOT IN (SELECT sid FROM session_row)",
    ),
    (
        "elements belong to no list",
        "SELECT count(*) FROM list_element_row WHERE key >> 40 NOT IN (SELECT lid FROM list_row)",
    ),
];

/// Looks for rows of the file whose owner is not there.
pub(super) fn strays(connection: &Connection, ctx: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (what, sql) in STRAYS {
        ctx.check()?;
        let count = connection.first(sql, [], |row| row.get::<_, i64>(0))?.unwrap_or(0);
        if count > 0 {
            let message = format!("the database file: {count} {what}");
            findings.push(Finding::of_file(FindingKind::RowOfNothing, message));
        }
    }
    Ok(findings)
}

/// Looks the rows of the session over, in one snapshot.
pub(super) fn check(view: &View<'_>, ctx: &Context) -> Result<Vec<Finding>> {
    let mut findings = nodes(view, ctx)?;
    let range = params![view.sid, key(view.sid, 0), key(view.sid, MAX_SEQ)];
    for (what, sql) in [
        ("entries have keys of another session", ENTRIES_ELSEWHERE),
        ("ledger rows have keys of another session", USAGE_ELSEWHERE),
        ("entries of another session have keys of this one", OF_OTHERS),
    ] {
        let count = view.connection.first(sql, range, |row| row.get::<_, i64>(0))?.unwrap_or(0);
        if count > 0 {
            findings.push(Finding::of_file(FindingKind::RowOfNothing, format!("{count} {what}")));
        }
    }
    let empty = view
        .connection
        .all(EMPTY_LISTS, [view.sid], ctx, |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    findings.extend(empty.into_iter().map(|(namespace, key)| {
        let message = format!("the list at {namespace}/{key} is there and has no element");
        Finding::of_file(FindingKind::RowOfNothing, message)
    }));
    Ok(findings)
}

/// Holds depth, parent and jump of each entry against those of its parent.
fn nodes(view: &View<'_>, ctx: &Context) -> Result<Vec<Finding>> {
    let mut tree = Nodes(Vec::new());
    let mut findings = Vec::new();
    let failed = |error| view.connection.fault("read the database", error);
    let mut statement = view.connection.prepared(NODES)?;
    let mut rows = statement.query([key(view.sid, 0), key(view.sid, MAX_SEQ)]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        if tree.0.len().is_multiple_of(1024) {
            ctx.check()?;
        }
        let id: String = row.get(5).map_err(failed)?;
        let wrong = match node_of(row) {
            Err(_) => Some("cannot stand where its row says"),
            Ok(node) => {
                let wrong = tree.wrong(&node);
                tree.0.push(node);
                wrong
            }
        };
        if let Some(wrong) = wrong {
            let message = format!("entry '{id}' {wrong}");
            findings.push(Finding::about(FindingKind::WrongPointer, &id, message));
        }
    }
    Ok(findings)
}

/// The nodes that were read, in order of their `seq`.
struct Nodes(Vec<Node>);

impl Nodes {
    /// What is wrong with a node that stands behind all others.
    fn wrong(&self, node: &Node) -> Option<&'static str> {
        let parent = node.parent?;
        let Ok(parent) = self.node(parent) else { return Some("hangs on an entry that is not there") };
        if node.depth != parent.depth.saturating_add(1) {
            return Some("is not one deeper than its parent");
        }
        match jump_of_child(self, &parent) {
            Ok(jump) if jump == node.jump => None,
            _ => Some("jumps to another ancestor than it must"),
        }
    }
}

impl Tree for Nodes {
    type Row = EntryType;

    fn find(&self, _id: &str) -> Result<Option<Node>> {
        Ok(None)
    }

    fn node(&self, at: u64) -> Result<Node> {
        let found = self.0.binary_search_by_key(&at, |node| node.seq).map(|place| self.0[place]);
        found.map_err(|_| Error::new(ErrorKind::Corrupt, format!("there is no entry of seq {at}")))
    }

    fn climb(&self, _from: u64, _visit: &mut Visit<'_, EntryType>) -> Result<()> {
        Ok(())
    }
}
