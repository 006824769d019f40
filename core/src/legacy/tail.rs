//! Which entry a compaction keeps first: version 3 names it in place of the messages.

use crate::context::Context;
use crate::error::Result;
use crate::model::entry::{Entry, EntryType};
use crate::model::json::{self, MAX_DEPTH, compact_lines, scan_value, skip_white, text_of};
use crate::session::Session;
use crate::session::reader::SessionReader;
use crate::storage::query::BranchScan;

/// How many entries of a path are read at a time.
const PAGE: u64 = 32;

/// From where on a compaction keeps.
pub(super) enum FirstKept {
    /// It keeps nothing.
    Nothing,
    /// The messages it keeps are those of the entries from this one on.
    Entry(String),
    /// The same, if earlier compactions among them gave no summary.
    AmongSummaries(String),
    /// What it keeps are not the messages of the entries above it.
    Elsewhere,
}

/// From which entry on the compaction `entry` keeps.
pub(super) fn first_kept(session: &Session, entry: &Entry, ctx: &Context) -> Result<FirstKept> {
    let tail = elements(entry.payload.get("retainedTail").unwrap_or("[]"));
    if tail.is_empty() {
        return Ok(FirstKept::Nothing);
    }
    if let Some(id) = find(session, entry, &tail, true, ctx)? {
        return Ok(FirstKept::Entry(id));
    }
    let found = find(session, entry, &tail, false, ctx)?;
    Ok(found.map_or(FirstKept::Elsewhere, FirstKept::AmongSummaries))
}

fn find(
    session: &Session,
    compaction: &Entry,
    tail: &[&str],
    with_compactions: bool,
    ctx: &Context,
) -> Result<Option<String>> {
    let mut left = tail.len();
    let mut at = compaction.parent_id.clone();
    while let Some(start) = at {
        let page =
            session.scan_branch(&start, &BranchScan { limit: Some(PAGE), ..BranchScan::default() }, ctx)?;
        for entry in &page {
            if entry.entry_type == EntryType::Custom
                || (entry.entry_type == EntryType::Compaction && !with_compactions)
                || (entry.entry_type == EntryType::BranchSummary
                    && entry.payload.get("summary") == Some("\"\""))
            {
                continue;
            }
            if !gives(entry, tail[left - 1]) {
                return Ok(None);
            }
            left -= 1;
            if left == 0 {
                return Ok(Some(entry.id.clone()));
            }
        }
        at = page.last().and_then(|last| last.parent_id.clone());
    }
    Ok(None)
}

/// Whether `message` is what the entry gives to a context.
fn gives(entry: &Entry, message: &str) -> bool {
    let role = match entry.entry_type {
        EntryType::Message => {
            let own = entry.message().unwrap_or_default();
            return own == message || compact(own) == compact(message);
        }
        EntryType::Compaction => "compactionSummary",
        _ => "branchSummary",
    };
    let text = |name| json::get(message, name).and_then(text_of);
    text("role").as_deref() == Some(role) && json::get(message, "summary") == entry.payload.get("summary")
}

/// The text without white space between tokens.
fn compact(text: &str) -> String {
    compact_lines(&format!("{text}\n")).into_owned()
}

/// The elements of an array.
fn elements(array: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let bytes = array.as_bytes();
    let mut at = skip_white(bytes, 0) + 1;
    loop {
        at = skip_white(bytes, at);
        let Ok(end) = scan_value(array, at, MAX_DEPTH) else { return found };
        found.push(&array[at..end]);
        at = skip_white(bytes, end) + 1;
    }
}
