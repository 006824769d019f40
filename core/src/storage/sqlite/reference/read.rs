//! What is read of one session through one connection.

use rusqlite::{Row, params};

use super::super::connection::Connection;
use super::super::fault::corrupt;
use super::super::read::{after_prefix, count, direction, entry_of, limit_of};
use super::super::write::Totals;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::entry::{Entry, EntryStructure, EntryType};
use crate::model::json::{Json, Members, push_quoted};
use crate::model::usage::{Stats, Usage, UsageRow};
use crate::model::value::{Address, ListElement, StoredValue};
use crate::repository::unknown_session;
use crate::storage::query::{EntryScan, ListRead, Order, UsageScan};

/// The session `id`, through one connection.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) connection: &'a Connection,
    pub(super) id: &'a str,
}

macro_rules! structure {
    () => {
        "id, parent_id, seq, timestamp, type, custom_type"
    };
}
macro_rules! whole {
    () => {
        concat!(structure!(), ", payload")
    };
}
macro_rules! scan {
    ($columns:expr, $from:literal, $order:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM ",
            $from,
            " WHERE session_id = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq ",
            $order,
            " LIMIT ?4"
        )
    };
    ($columns:expr, $from:literal, $order:literal, $filter:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM ",
            $from,
            " WHERE session_id = ?1 AND seq BETWEEN ?2 AND ?3 AND ",
            $filter,
            " ORDER BY seq ",
            $order,
            " LIMIT ?4"
        )
    };
}

const ENTRY: &str = concat!("SELECT ", whole!(), " FROM entries WHERE session_id = ?1 AND id = ?2");
const STRUCTURE: &str = concat!("SELECT ", structure!(), " FROM entries WHERE session_id = ?1 AND id = ?2");
const ALL: [&str; 2] = [scan!(whole!(), "entries", "ASC"), scan!(whole!(), "entries", "DESC")];
// No index has a type first: what is of another type costs a step.
const OF_TYPE: [&str; 2] =
    [scan!(whole!(), "entries", "ASC", "type = ?5"), scan!(whole!(), "entries", "DESC", "type = ?5")];
const OF_CUSTOM_TYPE: [&str; 2] = [
    scan!(whole!(), "entries", "ASC", "type = 'custom' AND custom_type = ?5"),
    scan!(whole!(), "entries", "DESC", "type = 'custom' AND custom_type = ?5"),
];
const USAGE: [&str; 2] = [
    scan!("id, seq, entry_id, adjustment, usage, details", "usage_ledger", "ASC"),
    scan!("id, seq, entry_id, adjustment, usage, details", "usage_ledger", "DESC"),
];
const ELEMENTS: [&str; 2] = [
    scan!("seq, value", "list_values", "ASC", "namespace = ?5 AND key = ?6"),
    scan!("seq, value", "list_values", "DESC", "namespace = ?5 AND key = ?6"),
];
pub(super) const ELEMENT: &str = "SELECT value FROM list_values
WHERE session_id = ?1 AND namespace = ?2 AND key = ?3 AND seq = ?4";
const VALUE: &str =
    "SELECT seq, value FROM scalar_values WHERE session_id = ?1 AND namespace = ?2 AND key = ?3";
const VALUES: &str = "SELECT key, seq, value FROM scalar_values
WHERE session_id = ?1 AND namespace = ?2 AND key >= ?3 ORDER BY key";
const VALUES_BELOW: &str = "SELECT key, seq, value FROM scalar_values
WHERE session_id = ?1 AND namespace = ?2 AND key >= ?3 AND key < ?4 ORDER BY key";
const VALUE_ADDRESSES: &str = "SELECT namespace, key FROM scalar_values
WHERE session_id = ?1 AND (namespace, key) > (?2, ?3) ORDER BY namespace, key LIMIT ?4";
/// A list has a row for each element: its address is found by one step over all of them.
const NEXT_LIST: &str = "SELECT namespace, key FROM list_values
WHERE session_id = ?1 AND (namespace, key) > (?2, ?3) ORDER BY namespace, key LIMIT 1";
const SESSION: &str = "SELECT next_seq, message_count, usage_payload FROM sessions WHERE id = ?1";
/// Behind the newest entry and ledger row.
const BEHIND: &str = "SELECT max(
  coalesce((SELECT max(seq) FROM entries WHERE session_id = ?1), 0),
  coalesce((SELECT max(seq) FROM usage_ledger WHERE session_id = ?1), 0)) + 1";
/// Behind the newest value and list element, too: no index has these in `seq` order.
pub(super) const BEHIND_ALL: &str = "SELECT max(
  coalesce((SELECT max(seq) FROM entries WHERE session_id = ?1), 0),
  coalesce((SELECT max(seq) FROM usage_ledger WHERE session_id = ?1), 0),
  coalesce((SELECT max(seq) FROM scalar_values WHERE session_id = ?1), 0),
  coalesce((SELECT max(seq) FROM list_values WHERE session_id = ?1), 0)) + 1";

/// Every statement of this file that must not read more than it gives.
#[cfg(test)]
pub(super) fn statements() -> Vec<&'static str> {
    let mut all = vec![
        ENTRY,
        STRUCTURE,
        VALUE,
        VALUES,
        VALUES_BELOW,
        VALUE_ADDRESSES,
        NEXT_LIST,
        ELEMENT,
        SESSION,
        BEHIND,
    ];
    for pair in [ALL, OF_TYPE, OF_CUSTOM_TYPE, USAGE, ELEMENTS] {
        all.extend(pair);
    }
    all
}

fn type_of(row: &Row<'_>) -> rusqlite::Result<EntryType> {
    let name = row.get_ref(4)?.as_str()?;
    EntryType::from_name(name).ok_or_else(|| unlike(4, format!("there is no type of entries '{name}'")))
}

/// What stands in a column is not what stands there.
fn unlike(column: usize, what: impl Into<String>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, what.into().into())
}

fn structure_of(row: &Row<'_>) -> rusqlite::Result<EntryStructure> {
    Ok(EntryStructure {
        id: row.get(0)?,
        parent_id: row.get(1)?,
        seq: count(row, 2)?,
        timestamp: row.get(3)?,
        entry_type: type_of(row)?,
        custom_type: row.get(5)?,
    })
}

/// The JSON in a column, which the program that wrote it was trusted with and we are not.
pub(super) fn json(row: &Row<'_>, column: usize) -> rusqlite::Result<Json> {
    checked(column, Json::parse(row.get_ref(column)?.as_str()?))
}

fn checked(column: usize, json: Result<Json>) -> rusqlite::Result<Json> {
    json.map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    })
}

impl View<'_> {
    /// Something in the session is not as it must be.
    pub(super) fn corrupt(&self, what: impl Into<String>) -> Error {
        corrupt(self.connection.path(), what)
    }

    /// An entry that another row names is not there.
    pub(super) fn lost(&self, id: &str) -> Error {
        self.corrupt(format!("the entry '{id}' is missing")).with_id(id)
    }

    /// The entry in a row that holds a whole one. An error names the entry.
    fn entry(&self, row: &Row<'_>) -> Result<Entry> {
        let failed = |error| self.connection.fault("read an entry", error);
        let place = structure_of(row).map_err(failed)?;
        let text = row.get_ref(6).map_err(failed)?;
        let payload = text.as_str().map_err(|error| failed(error.into())).and_then(Json::parse_fields);
        match payload {
            Ok(payload) if Members::of(payload.as_str()).is_some() => Ok(entry_of(place, payload)),
            Ok(_) => Err(self
                .corrupt(format!("the payload of entry '{}' is no object", place.id))
                .with_id(&place.id)),
            Err(error) => Err(self
                .corrupt(format!("the payload of entry '{}' is damaged: {}", place.id, error.message()))
                .with_id(&place.id)
                .with_source(error)),
        }
    }

    /// The entries that a statement gives.
    fn entries(&self, sql: &str, parameters: impl rusqlite::Params, ctx: &Context) -> Result<Vec<Entry>> {
        let failed = |error| self.connection.fault("read the entries", error);
        let mut statement = self.connection.prepared(sql)?;
        let mut rows = statement.query(parameters).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            found.push(self.entry(row)?);
            if found.len().is_multiple_of(256) {
                ctx.check()?;
            }
        }
        Ok(found)
    }

    pub(super) fn get_entries(&self, ids: &[&str], ctx: &Context) -> Result<Vec<Entry>> {
        let mut found = Vec::with_capacity(ids.len());
        for (count, id) in ids.iter().enumerate() {
            if count % 256 == 255 {
                ctx.check()?;
            }
            found.extend(self.entries(ENTRY, [self.id, id], ctx)?);
        }
        Ok(found)
    }

    /// An entry that must be there.
    pub(super) fn known_entry(&self, id: &str) -> Result<Entry> {
        self.entries(ENTRY, [self.id, id], &Context::background())?.pop().ok_or_else(|| self.lost(id))
    }

    pub(super) fn structure(&self, id: &str) -> Result<Option<EntryStructure>> {
        self.connection.first(STRUCTURE, [self.id, id], structure_of)
    }

    pub(super) fn get_value(&self, address: &Address) -> Result<Option<StoredValue>> {
        let parameters = [self.id, address.namespace(), address.key()];
        self.connection.first(VALUE, parameters, |row| {
            Ok(StoredValue { address: address.clone(), seq: count(row, 0)?, value: json(row, 1)? })
        })
    }

    pub(super) fn scan_values(
        &self,
        namespace: &str,
        prefix: &str,
        ctx: &Context,
    ) -> Result<Vec<StoredValue>> {
        let stored = |row: &Row<'_>| {
            Ok(StoredValue {
                address: Address::known(namespace, row.get_ref(0)?.as_str()?),
                seq: count(row, 1)?,
                value: json(row, 2)?,
            })
        };
        match after_prefix(prefix) {
            Some(end) => self.connection.all(VALUES_BELOW, [self.id, namespace, prefix, &end], ctx, stored),
            None => self.connection.all(VALUES, [self.id, namespace, prefix], ctx, stored),
        }
    }

    pub(super) fn read_list(
        &self,
        address: &Address,
        read: &ListRead,
        ctx: &Context,
    ) -> Result<Vec<ListElement>> {
        let (from, to) = match (read.order, read.cursor) {
            (_, None) => (None, None),
            (Order::Ascending, Some(cursor)) => (Some(cursor.saturating_add(1)), None),
            (Order::Descending, Some(0)) => return Ok(Vec::new()),
            (Order::Descending, Some(cursor)) => (None, Some(cursor - 1)),
        };
        let Some((from, to)) = range(from, to) else { return Ok(Vec::new()) };
        let limit = limit_of(Some(read.limit));
        let parameters = params![self.id, from, to, limit, address.namespace(), address.key()];
        self.connection.all(ELEMENTS[direction(read.order)], parameters, ctx, |row| {
            Ok(ListElement { seq: count(row, 0)?, value: json(row, 1)? })
        })
    }

    pub(super) fn scan_entries(&self, scan: &EntryScan, ctx: &Context) -> Result<Vec<Entry>> {
        let Some((from, to)) = range(scan.from_seq, scan.to_seq) else { return Ok(Vec::new()) };
        let (limit, order) = (limit_of(scan.limit), direction(scan.order));
        match (scan.entry_type, &scan.custom_type) {
            (None | Some(EntryType::Custom), Some(custom_type)) => {
                self.entries(OF_CUSTOM_TYPE[order], params![self.id, from, to, limit, custom_type], ctx)
            }
            (Some(_), Some(_)) => Ok(Vec::new()),
            (Some(wanted), None) => {
                self.entries(OF_TYPE[order], params![self.id, from, to, limit, wanted.name()], ctx)
            }
            (None, None) => self.entries(ALL[order], params![self.id, from, to, limit], ctx),
        }
    }

    pub(super) fn scan_usage(&self, scan: &UsageScan, ctx: &Context) -> Result<Vec<UsageRow>> {
        let Some((from, to)) = range(scan.from_seq, scan.to_seq) else { return Ok(Vec::new()) };
        let parameters = params![self.id, from, to, limit_of(scan.limit)];
        self.connection.all(USAGE[direction(scan.order)], parameters, ctx, usage_of)
    }

    pub(super) fn value_addresses(
        &self,
        after: Option<&Address>,
        limit: usize,
        ctx: &Context,
    ) -> Result<Vec<Address>> {
        // No namespace is empty, so the empty one is before all.
        let (namespace, key) = after.map_or(("", ""), |after| (after.namespace(), after.key()));
        let parameters = params![self.id, namespace, key, i64::try_from(limit).unwrap_or(i64::MAX)];
        self.connection.all(VALUE_ADDRESSES, parameters, ctx, address_of)
    }

    pub(super) fn list_addresses(
        &self,
        after: Option<&Address>,
        limit: usize,
        ctx: &Context,
    ) -> Result<Vec<Address>> {
        let mut found: Vec<Address> = Vec::new();
        while found.len() < limit {
            ctx.check()?;
            let after = found.last().or(after);
            let (namespace, key) = after.map_or(("", ""), |after| (after.namespace(), after.key()));
            match self.connection.first(NEXT_LIST, [self.id, namespace, key], address_of)? {
                Some(address) => found.push(address),
                None => break,
            }
        }
        Ok(found)
    }

    /// The next `seq`, as the session says, and the totals.
    pub(super) fn totals(&self) -> Result<Totals> {
        let found = self.connection.first(SESSION, [self.id], |row| {
            let usage = json(row, 2)?;
            Ok((count(row, 0)?, count(row, 1)?, usage))
        })?;
        let (next_seq, message_count, usage) =
            found.ok_or_else(|| unknown_session(self.id).with_path(self.connection.path()))?;
        let usage = Usage::lenient(usage.as_str())
            .ok_or_else(|| self.corrupt("the totals of the session are no object").with_id(self.id))?;
        Ok(Totals { next_seq, stats: Stats { message_count, usage } })
    }

    /// The `seq` that nothing has yet. Where what the session says is taken, everything is asked.
    pub(super) fn next_seq(&self) -> Result<u64> {
        let said = self.totals()?.next_seq;
        let first = |sql| self.connection.first(sql, [self.id], |row| count(row, 0));
        match first(BEHIND)? {
            Some(behind) if behind > said => Ok(first(BEHIND_ALL)?.unwrap_or(behind)),
            _ => Ok(said),
        }
    }
}

fn address_of(row: &Row<'_>) -> rusqlite::Result<Address> {
    Ok(Address::known(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?))
}

/// The row as it stands in a file of JSON lines.
fn usage_of(row: &Row<'_>) -> rusqlite::Result<UsageRow> {
    let adjustment = row.get::<_, i64>(3)? != 0;
    let usage = json(row, 4)?;
    if Usage::lenient(usage.as_str()).is_none() {
        return Err(unlike(4, "a usage is no object"));
    }
    let mut payload = format!("{{\"usage\":{},\"adjustment\":{adjustment}", usage.as_str());
    if let Some(id) = row.get_ref(2)?.as_str_or_null()? {
        payload.push_str(",\"entryId\":");
        push_quoted(&mut payload, id);
    }
    if row.get_ref(5)?.as_str_or_null()?.is_some() {
        payload.push_str(",\"details\":");
        payload.push_str(json(row, 5)?.as_str());
    }
    payload.push('}');
    Ok(UsageRow::stored(row.get(0)?, count(row, 1)?, Json::trusted(payload)))
}

/// The range of `seq`s as SQLite has them; none if there cannot be any. From the first on, impossible ones are
/// met too, and reported.
fn range(from: Option<u64>, to: Option<u64>) -> Option<(i64, i64)> {
    let from = from.filter(|from| *from > 0).map_or(Some(i64::MIN), |from| i64::try_from(from).ok())?;
    let to = to.map_or(i64::MAX, |to| i64::try_from(to).unwrap_or(i64::MAX));
    (from <= to).then_some((from, to))
}
