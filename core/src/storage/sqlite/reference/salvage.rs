//! Reads past damage of a session of the reference implementation: row by row, so that one that is not as it
//! must be hides no other.

use rusqlite::params;

use super::super::connection::Connection;
use super::super::read::count;
use super::check;
use super::read::{ELEMENT, View, json};
use super::sessions::sessions;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::NewEntry;
use crate::model::json::Json;
use crate::model::value::Address;
use crate::repair::found::{Found, Payloads, Piece, What};
use crate::session::check::{Finding, FindingKind};
use crate::storage::query::UsageScan;

const ENTRIES: &str = "SELECT id FROM entries WHERE session_id = ?1 ORDER BY seq";
const USAGE: &str = "SELECT seq FROM usage_ledger WHERE session_id = ?1 ORDER BY seq";
const ELEMENTS: &str =
    "SELECT seq FROM list_values WHERE session_id = ?1 AND namespace = ?2 AND key = ?3 ORDER BY seq";
/// How many addresses are asked for at once: all.
const ALL: usize = usize::MAX;

/// What was found: its `seq` tells rows of one address apart.
pub(in super::super) type SeqPlace = u64;

/// One session, read again where its payloads are needed.
pub(in super::super) struct Rows<'a> {
    view: View<'a>,
}

/// The session `id` through a connection.
pub(in super::super) fn rows<'a>(connection: &'a Connection, id: &'a str) -> Rows<'a> {
    Rows { view: View { connection, id } }
}

/// The id of the session `id`, or of the only one.
pub(in super::super) fn the_session(
    connection: &Connection,
    id: Option<&str>,
    ctx: &Context,
) -> Result<crate::session::backend::SessionMetadata> {
    let mut all = sessions(connection, false, ctx)?;
    all.retain(|stored| id.is_none_or(|id| stored.metadata.id == id));
    let path = connection.path();
    match (all.pop(), all.len()) {
        (Some(stored), 0) => {
            let metadata = stored.metadata;
            match super::unsupported(&metadata.id, metadata.storage_version, path) {
                Some(error) => Err(error),
                None => Ok(metadata),
            }
        }
        (None, _) => Err(crate::repository::unknown_session(id.unwrap_or_default()).with_path(path)),
        (Some(_), others) => Err(super::super::salvage::several(others + 1, path)),
    }
}

impl Rows<'_> {
    /// Everything that can be read of the session.
    pub(in super::super) fn read(
        &self,
        metadata: crate::session::backend::SessionMetadata,
        ctx: &Context,
    ) -> Result<Found<SeqPlace>> {
        let mut found = Found { metadata, next_seq: None, pieces: Vec::new(), findings: Vec::new() };
        let view = &self.view;
        match view.totals() {
            Ok(totals) => found.next_seq = Some(totals.next_seq),
            Err(error) => found.findings.push(damaged(FindingKind::WrongStats, "the session's row", &error)),
        }
        let mut push = |seq, what| {
            let hash = found.pieces.len() as u64;
            found.pieces.push(Piece { seq, what, payload: Some(seq), place: None, hash });
        };
        let ids = view.connection.all(ENTRIES, [view.id], ctx, |row| row.get::<_, String>(0))?;
        for id in &ids {
            ctx.check()?;
            match view.known_entry(id).and_then(checked) {
                Ok(place) => push(place.seq, What::Entry(place)),
                Err(error) => {
                    let finding = damaged(FindingKind::BadPayload, &format!("entry '{id}'"), &error);
                    found.findings.push(Finding { id: Some(id.clone()), ..finding });
                }
            }
        }
        for seq in view.connection.all(USAGE, [view.id], ctx, |row| count(row, 0))? {
            match self.usage(seq, ctx) {
                Ok(row) => push(seq, What::Usage(row.id)),
                Err(error) => {
                    let what = format!("the usage row of seq {seq}");
                    found.findings.push(damaged(FindingKind::BadPayload, &what, &error));
                }
            }
        }
        for address in view.value_addresses(None, ALL, ctx)? {
            ctx.check()?;
            let stored = check_address(&address).and_then(|()| view.get_value(&address));
            match stored {
                Ok(Some(stored)) => push(stored.seq, What::SetValue(address)),
                Ok(None) => {}
                Err(error) => {
                    let what = format!("the value at {address}");
                    found.findings.push(damaged(FindingKind::BadValue, &what, &error));
                }
            }
        }
        for address in view.list_addresses(None, ALL, ctx)? {
            let place = [view.id, address.namespace(), address.key()];
            for seq in view.connection.all(ELEMENTS, place, ctx, |row| count(row, 0))? {
                match check_address(&address).and_then(|()| self.element(&address, seq)) {
                    Ok(_) => push(seq, What::AppendList(address.clone())),
                    Err(error) => {
                        let what = format!("an element of the list at {address}");
                        found.findings.push(damaged(FindingKind::BadValue, &what, &error));
                    }
                }
            }
        }
        // Entries that only the index of branches knows, and a next seq that is too low. That the index lacks
        // something costs nothing: the new session has none.
        let contradictions = check::contradictions(view, ctx).unwrap_or_default();
        found.findings.extend(contradictions.into_iter().filter(|finding| finding.error.is_some()));
        found.pieces.sort_by_key(|piece| piece.seq);
        if let (Some(next), Some(last)) = (found.next_seq, found.pieces.last())
            && next <= last.seq
        {
            let message = format!("the session says its next seq is {next}, and one is {} already", last.seq);
            found.findings.push(Finding::of_file(FindingKind::WrongSeq, message));
        }
        Ok(found)
    }

    fn usage(&self, seq: u64, ctx: &Context) -> Result<crate::model::usage::UsageRow> {
        let scan = UsageScan { from_seq: Some(seq), to_seq: Some(seq), ..UsageScan::default() };
        let row = self.view.scan_usage(&scan, ctx)?.pop().ok_or_else(changed)?;
        crate::model::id::check_id(&row.id)?;
        Ok(row)
    }

    fn element(&self, address: &Address, seq: u64) -> Result<Json> {
        let place = params![self.view.id, address.namespace(), address.key(), seq.cast_signed()];
        self.view.connection.first(ELEMENT, place, |row| json(row, 0))?.ok_or_else(changed)
    }
}

impl Payloads<SeqPlace> for Rows<'_> {
    fn read(&self, what: &What, seq: &SeqPlace) -> Result<Json> {
        match what {
            What::Entry(entry) => Ok(self.view.known_entry(&entry.id)?.payload),
            What::Usage(_) => Ok(self.usage(*seq, &Context::background())?.payload),
            What::SetValue(address) | What::DeleteValue(address) => {
                Ok(self.view.get_value(address)?.ok_or_else(changed)?.value)
            }
            What::AppendList(address) | What::DeleteList(address) => self.element(address, *seq),
        }
    }
}

/// The place of an entry whose payload is what it must be.
fn checked(entry: crate::model::entry::Entry) -> Result<crate::model::entry::EntryStructure> {
    let place = entry.structure();
    NewEntry {
        id: entry.id,
        parent_id: None,
        entry_type: entry.entry_type,
        custom_type: entry.custom_type,
        payload: entry.payload,
        made_at: Some(entry.timestamp),
    }
    .check()?;
    Ok(place)
}

/// Addresses of that program may be none here.
fn check_address(address: &Address) -> Result<()> {
    Address::new(address.namespace(), address.key()).map(drop)
}

fn damaged(kind: FindingKind, what: &str, error: &Error) -> Finding {
    Finding::of_file(kind, format!("{what} is left out: {}", error.message()))
}

fn changed() -> Error {
    Error::new(ErrorKind::FileChanged, "the database was changed while it was read")
        .with_hint("repair it again")
}
