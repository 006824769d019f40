//! `show`: one entry, whole.

use clap::Args;
use pisession::{Context, Entry, EntryQuery, Error, ErrorKind, Order, Session};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{old_ids, tips};
use crate::failure::{Failure, Verdict};
use crate::output::text::{clean_line, time};
use crate::output::{Output, Role};
use crate::target;
use crate::transcript::{self, Extent};

/// How short a piece of an id may be.
const SHORTEST: usize = 4;

/// Print one entry, whole
///
/// ENTRY is an id, a beginning or an end of one (as tree prints it) that no other entry has, or the id that
/// the entry has in a file of version 1 to 3.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession show session.jsonl 3f8a91c2
  pisession show sqlite:sessions#ID 9d5e5d0f --json | jq .entry.message

With --json: {\"entry\": the entry as it is stored, \"oldId\"?, \"label\"?, \"branches\": names of the branches whose tip it is}.")]
pub(super) struct Show {
    /// The session: URI#ID, or the path of its file
    session: String,

    /// The entry's id, or a piece of it
    entry: String,
}

#[derive(Serialize)]
struct Object {
    entry: Box<RawValue>,
    #[serde(rename = "oldId", skip_serializing_if = "Option::is_none")]
    old_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    branches: Vec<String>,
}

impl Show {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        let session = target::session(&self.session, ctx)?;
        let entry = find(&session, &self.entry, ctx)?;
        let label = session.get_label(&entry.id, ctx)?;
        let branches = tips(&session, ctx)?.remove(&entry.id).unwrap_or_default();
        let old_id = old_ids(&session).remove(&entry.id);
        if out.is_json() {
            let entry = crate::output::raw(&entry.to_json())?;
            out.object(&Object { entry, old_id, label, branches })?;
            return Ok(Verdict::Fine);
        }
        let none = || out.paint(Role::Faint, "none");
        let parent = entry.parent_id.as_deref().map_or_else(none, |id| clean_line(id, usize::MAX));
        let tips = branches.iter().map(|name| clean_line(name, 60)).collect::<Vec<_>>().join(", ");
        out.field("id", &clean_line(&entry.id, usize::MAX))?;
        if let Some(old_id) = &old_id {
            out.field("in file", &clean_line(old_id, usize::MAX))?;
        }
        out.field("parent", &parent)?;
        out.field("type", &clean_line(&type_of(&entry), usize::MAX))?;
        out.field("seq", &entry.seq.to_string())?;
        out.field("time", &time(entry.timestamp))?;
        if !tips.is_empty() {
            out.field("tip of", &tips)?;
        }
        if let Some(label) = &label {
            out.field("label", &clean_line(label, usize::MAX))?;
        }
        out.line("")?;
        transcript::print(&entry, &entry.id, label.as_deref(), Extent::Full, out)?;
        Ok(Verdict::Fine)
    }
}

fn type_of(entry: &Entry) -> String {
    match &entry.custom_type {
        Some(custom_type) => format!("{} {custom_type}", entry.entry_type),
        None => entry.entry_type.to_string(),
    }
}

/// The entry that `piece` names.
fn find(session: &Session, piece: &str, ctx: &Context) -> Result<Entry, Failure> {
    if let Some(entry) = session.get_entry(piece, ctx)? {
        return Ok(entry);
    }
    let old_ids = session.legacy().into_iter().flat_map(|legacy| legacy.ids());
    let mut same_old_id = old_ids.filter(|(old_id, _)| *old_id == piece).map(|(_, id)| id);
    if let Some(id) = same_old_id.next() {
        if let Some(other) = same_old_id.next() {
            return Err(ambiguous(piece, &id, &other));
        }
        if let Some(entry) = session.get_entry(&id, ctx)? {
            return Ok(entry);
        }
    }
    let mut found: Option<Entry> = None;
    if piece.chars().count() >= SHORTEST {
        let query = EntryQuery { order: Order::Ascending, ..EntryQuery::default() };
        for entry in session.entries(&query, ctx) {
            let entry = entry?;
            if !entry.id.ends_with(piece) && !entry.id.starts_with(piece) {
                continue;
            }
            if let Some(other) = &found {
                return Err(ambiguous(piece, &other.id, &entry.id));
            }
            found = Some(entry);
        }
    }
    found.ok_or_else(|| {
        Error::new(ErrorKind::UnknownEntry, format!("there is no entry '{piece}'"))
            .with_id(piece)
            .with_hint("pisession tree shows the entries with their ids")
            .into()
    })
}

fn ambiguous(piece: &str, one: &str, other: &str) -> Failure {
    Error::new(ErrorKind::UnknownEntry, format!("'{piece}' names more than one entry"))
        .with_id(piece)
        .with_hint(format!("write more of the id: {one} or {other}"))
        .into()
}
