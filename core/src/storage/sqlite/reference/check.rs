//! What the tables of a session contradict, beyond what shows in its entries, values and ledger.

use super::super::read::count;
use super::read::{BEHIND_ALL, View};
use crate::context::Context;
use crate::error::{ErrorKind, Result};
use crate::session::check::{Finding, FindingKind};

/// How many findings of one kind are told.
const TOLD: usize = 20;

const BRANCH_TABLES: &str = "SELECT count(*) FROM sqlite_schema
WHERE type = 'table' AND name IN ('branch_meta', 'branch_entries')";
/// Entries that the index of branches does not know.
const NOT_INDEXED: &str = "SELECT count(*) FROM entries e WHERE e.session_id = ?1 AND NOT EXISTS
  (SELECT 1 FROM branch_entries b WHERE b.session_id = ?1 AND b.entry_id = e.id)";
/// Entries that only the index of branches knows.
const LOST: &str = "SELECT DISTINCT b.entry_id FROM branch_entries b WHERE b.session_id = ?1 AND NOT EXISTS
  (SELECT 1 FROM entries e WHERE e.session_id = ?1 AND e.id = b.entry_id) LIMIT ?2";

pub(super) fn contradictions(view: &View<'_>, ctx: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let behind = view.connection.first(BEHIND_ALL, [view.id], |row| count(row, 0))?.unwrap_or_default();
    let next_seq = view.totals()?.next_seq;
    if next_seq < behind {
        let message = format!(
            "the session '{}' says that its next commit starts at {next_seq}, and what it holds goes up to {}",
            view.id,
            behind - 1
        );
        findings.push(of_session(view, message));
    }
    ctx.check()?;
    findings.extend(branch_index(view, ctx)?);
    Ok(findings)
}

/// What its index of branches says that is not so. Nothing is read by it here, but the program that wrote it
/// does.
fn branch_index(view: &View<'_>, ctx: &Context) -> Result<Vec<Finding>> {
    let tables = view.connection.first(BRANCH_TABLES, [], |row| row.get::<_, i64>(0))?;
    if tables != Some(2) {
        return Ok(vec![of_session(view, "the tables of the index of branches are missing".to_owned())]);
    }
    let mut findings = Vec::new();
    let missing = view.connection.first(NOT_INDEXED, [view.id], |row| count(row, 0))?.unwrap_or_default();
    if missing > 0 {
        let message = format!(
            "the index of branches lacks {missing} entries of the session '{}': the program that wrote it cannot read \
             their branches",
            view.id
        );
        findings.push(of_session(view, message));
    }
    let lost = view
        .connection
        .all(LOST, rusqlite::params![view.id, TOLD as i64], ctx, |row| row.get::<_, String>(0))?;
    for id in lost {
        let error = view.lost(&id);
        debug_assert_eq!(error.kind(), ErrorKind::Corrupt);
        findings.push(Finding {
            message: format!("the index of branches has the entry '{id}', which is missing"),
            ..Finding::unreadable(error)
        });
    }
    Ok(findings)
}

fn of_session(view: &View<'_>, message: String) -> Finding {
    let finding = Finding::of_file(FindingKind::DamagedFile, message);
    Finding { id: Some(view.id.to_owned()), ..finding }
        .with_hint("the session reads whole here; fork or convert it into a new one")
}
