//! What is read of one session through one connection.

use rusqlite::{Row, params};

use super::connection::Connection;
use super::fault::corrupt;
use super::schema::{MAX_SEQ, key, seq_of};
use super::write::Totals;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::entry::{Entry, EntryStructure, EntryType};
use crate::model::json::Json;
use crate::model::usage::{Cost, Stats, Usage, UsageRow};
use crate::model::value::{Address, ListElement, StoredValue};
use crate::repository::unknown_session;
use crate::storage::path::Node;
use crate::storage::query::{EntryScan, ListRead, Order, UsageScan};

/// The session of number `sid`, through one connection.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) connection: &'a Connection,
    pub(super) sid: i64,
}

/// The columns of an entry: its place in the tree, without payload, and with it.
macro_rules! node {
    () => {
        "key, type, depth, parent, jump"
    };
}
macro_rules! structure {
    () => {
        concat!(node!(), ", timestamp, id, custom_type")
    };
}
macro_rules! whole {
    () => {
        concat!(structure!(), ", payload")
    };
}

pub(super) const ENTRY_BY_ID: &str =
    concat!("SELECT ", whole!(), " FROM entry_row WHERE sid = ?1 AND id = ?2");
pub(super) const NODE_BY_ID: &str = concat!("SELECT ", node!(), " FROM entry_row WHERE sid = ?1 AND id = ?2");
pub(super) const NODE: &str = concat!("SELECT ", node!(), " FROM entry_row WHERE key = ?1");
pub(super) const ID: &str = "SELECT id FROM entry_row WHERE key = ?1";
pub(super) const PAYLOAD: &str = "SELECT payload FROM entry_row WHERE key = ?1";
pub(super) const CLIMB: &str =
    concat!("SELECT ", structure!(), " FROM entry_row WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC");
pub(super) const CLIMB_WHOLE: &str =
    concat!("SELECT ", whole!(), " FROM entry_row WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC");

/// Session-wide scans: which rows, in which order.
macro_rules! scan {
    ($table:literal, $columns:expr, $where:literal, $order:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM ",
            $table,
            " WHERE ",
            $where,
            " ORDER BY key ",
            $order,
            " LIMIT ?3"
        )
    };
}
pub(super) const ALL: [&str; 2] = [
    scan!("entry_row", whole!(), "key BETWEEN ?1 AND ?2", "ASC"),
    scan!("entry_row", whole!(), "key BETWEEN ?1 AND ?2", "DESC"),
];
// Most entries are messages: they are found in passing.
const OF_MESSAGES: [&str; 2] = [
    scan!("entry_row", whole!(), "key BETWEEN ?1 AND ?2 AND type = 0", "ASC"),
    scan!("entry_row", whole!(), "key BETWEEN ?1 AND ?2 AND type = 0", "DESC"),
];
const OF_RARE_TYPE: [&str; 2] = [
    scan!(
        "entry_row INDEXED BY entry_by_type",
        whole!(),
        "sid = ?5 AND type = ?4 AND type <> 0 AND key BETWEEN ?1 AND ?2",
        "ASC"
    ),
    scan!(
        "entry_row INDEXED BY entry_by_type",
        whole!(),
        "sid = ?5 AND type = ?4 AND type <> 0 AND key BETWEEN ?1 AND ?2",
        "DESC"
    ),
];
const OF_CUSTOM_TYPE: [&str; 2] = [
    scan!(
        "entry_row INDEXED BY entry_by_custom_type",
        whole!(),
        "sid = ?5 AND custom_type = ?4 AND key BETWEEN ?1 AND ?2",
        "ASC"
    ),
    scan!(
        "entry_row INDEXED BY entry_by_custom_type",
        whole!(),
        "sid = ?5 AND custom_type = ?4 AND key BETWEEN ?1 AND ?2",
        "DESC"
    ),
];
pub(super) const USAGE: [&str; 2] = [
    scan!("usage_row", "key, id, payload", "key BETWEEN ?1 AND ?2", "ASC"),
    scan!("usage_row", "key, id, payload", "key BETWEEN ?1 AND ?2", "DESC"),
];

const VALUE: &str = "SELECT seq, payload FROM value_row WHERE sid = ?1 AND namespace = ?2 AND key = ?3";
const VALUES: &str = "SELECT key, seq, payload FROM value_row
WHERE sid = ?1 AND namespace = ?2 AND key >= ?3 ORDER BY key";
const VALUES_BELOW: &str = "SELECT key, seq, payload FROM value_row
WHERE sid = ?1 AND namespace = ?2 AND key >= ?3 AND key < ?4 ORDER BY key";
const VALUE_ADDRESSES: &str = "SELECT namespace, key FROM value_row
WHERE sid = ?1 AND (namespace, key) > (?2, ?3) ORDER BY namespace, key LIMIT ?4";
const LIST_ADDRESSES: &str = "SELECT namespace, key FROM list_row
WHERE sid = ?1 AND (namespace, key) > (?2, ?3) ORDER BY namespace, key LIMIT ?4";
const ELEMENTS: [&str; 2] = [
    "SELECT key, payload FROM list_element_row WHERE key BETWEEN
  (SELECT lid FROM list_row WHERE sid = ?1 AND namespace = ?2 AND key = ?3) << 40 | ?4 AND
  (SELECT lid FROM list_row WHERE sid = ?1 AND namespace = ?2 AND key = ?3) << 40 | ?5
ORDER BY key ASC LIMIT ?6",
    "SELECT key, payload FROM list_element_row WHERE key BETWEEN
  (SELECT lid FROM list_row WHERE sid = ?1 AND namespace = ?2 AND key = ?3) << 40 | ?4 AND
  (SELECT lid FROM list_row WHERE sid = ?1 AND namespace = ?2 AND key = ?3) << 40 | ?5
ORDER BY key DESC LIMIT ?6",
];
const SESSION: &str =
    "SELECT next_seq, message_count, input, output, cache_read, cache_write, cache_write_1h,
  reasoning, total_tokens, cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total
FROM session_row WHERE sid = ?1 AND state = 0";

/// Every statement of this file.
#[cfg(test)]
pub(super) fn statements() -> Vec<&'static str> {
    let mut all = vec![
        ENTRY_BY_ID,
        NODE_BY_ID,
        NODE,
        ID,
        PAYLOAD,
        CLIMB,
        CLIMB_WHOLE,
        VALUE,
        VALUES,
        VALUES_BELOW,
        VALUE_ADDRESSES,
        LIST_ADDRESSES,
        SESSION,
    ];
    for pair in [ALL, OF_MESSAGES, OF_RARE_TYPE, OF_CUSTOM_TYPE, USAGE, ELEMENTS] {
        all.extend(pair);
    }
    all
}

/// How an entry's type is stored.
pub(super) fn type_number(entry_type: EntryType) -> i64 {
    match entry_type {
        EntryType::Message => 0,
        EntryType::Compaction => 1,
        EntryType::BranchSummary => 2,
        EntryType::Custom => 3,
    }
}

pub(super) fn type_of(number: i64) -> rusqlite::Result<EntryType> {
    EntryType::ALL
        .into_iter()
        .find(|entry_type| type_number(*entry_type) == number)
        .ok_or(rusqlite::Error::IntegralValueOutOfRange(1, number))
}

/// An entry whose parent is known by its `seq` only.
pub(super) struct Found<T> {
    pub(super) entry: T,
    pub(super) parent: Option<u64>,
}

/// What both kinds of found entries have.
pub(super) trait Placed {
    fn seq(&self) -> u64;
    fn id(&self) -> &str;
    fn set_parent(&mut self, id: String);
}

macro_rules! placed {
    ($name:ident) => {
        impl Placed for $name {
            fn seq(&self) -> u64 {
                self.seq
            }

            fn id(&self) -> &str {
                &self.id
            }

            fn set_parent(&mut self, id: String) {
                self.parent_id = Some(id);
            }
        }
    };
}

placed!(Entry);
placed!(EntryStructure);

/// A number that is never below zero.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

/// The place of an entry, as every row of one begins. Walks end because parents and jumps lead to smaller
/// `seq`s: what does not is no node.
pub(super) fn node_of(row: &Row<'_>) -> rusqlite::Result<Node> {
    let seq = seq_of(row.get(0)?);
    let parent = parent_of(row)?;
    let jump = count(row, 4)?;
    let depth: u32 = row.get(2)?;
    let leads_down = match parent {
        None => depth == 0 && jump == seq,
        Some(parent) => (1..=seq).contains(&depth.into()) && parent < seq && jump < seq,
    };
    if !leads_down {
        return Err(rusqlite::Error::IntegralValueOutOfRange(4, jump.cast_signed()));
    }
    Ok(Node { at: seq, seq, parent, jump, depth, entry_type: type_of(row.get(1)?)? })
}

fn parent_of(row: &Row<'_>) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned))
}

/// The row of an entry of which `seq` and type are read already: each look at a column costs.
pub(super) fn structure_of(
    seq: u64,
    entry_type: EntryType,
    row: &Row<'_>,
) -> rusqlite::Result<EntryStructure> {
    Ok(EntryStructure {
        id: row.get(6)?,
        parent_id: None,
        seq,
        timestamp: row.get(5)?,
        entry_type,
        custom_type: row.get(7)?,
    })
}

pub(super) fn entry_of(place: EntryStructure, payload: Json) -> Entry {
    Entry {
        id: place.id,
        parent_id: place.parent_id,
        seq: place.seq,
        timestamp: place.timestamp,
        entry_type: place.entry_type,
        custom_type: place.custom_type,
        payload,
    }
}

pub(super) fn json(row: &Row<'_>, column: usize) -> rusqlite::Result<Json> {
    Ok(Json::trusted(row.get_ref(column)?.as_str()?))
}

pub(super) fn whole_of(row: &Row<'_>) -> rusqlite::Result<Found<Entry>> {
    let place = structure_of(seq_of(row.get(0)?), type_of(row.get(1)?)?, row)?;
    Ok(Found { entry: entry_of(place, json(row, 8)?), parent: parent_of(row)? })
}

pub(super) fn limit_of(limit: Option<u64>) -> i64 {
    limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX))
}

pub(super) fn direction(order: Order) -> usize {
    match order {
        Order::Ascending => 0,
        Order::Descending => 1,
    }
}

impl View<'_> {
    /// Sets the parents of found entries: mostly a parent is the neighbour.
    pub(super) fn with_parents<T: Placed>(&self, found: Vec<Found<T>>) -> Result<Vec<T>> {
        let parents: Vec<Option<u64>> = found.iter().map(|found| found.parent).collect();
        let mut entries: Vec<T> = found.into_iter().map(|found| found.entry).collect();
        for (at, parent) in parents.into_iter().enumerate() {
            let Some(parent) = parent else { continue };
            let neighbour = [at.checked_sub(1), at.checked_add(1)]
                .into_iter()
                .flatten()
                .filter_map(|at| entries.get(at))
                .find(|neighbour| neighbour.seq() == parent);
            let id = match neighbour {
                Some(neighbour) => neighbour.id().to_owned(),
                None => self.id_at(parent)?,
            };
            entries[at].set_parent(id);
        }
        Ok(entries)
    }

    pub(super) fn id_at(&self, seq: u64) -> Result<String> {
        self.connection.first(ID, [key(self.sid, seq)], |row| row.get(0))?.ok_or_else(|| self.lost(seq))
    }

    /// An entry that another row names is not there.
    pub(super) fn lost(&self, seq: u64) -> Error {
        corrupt(self.connection.path(), format!("the row of seq {seq} is missing"))
    }

    pub(super) fn get_entries(&self, ids: &[&str], ctx: &Context) -> Result<Vec<Entry>> {
        let mut found = Vec::with_capacity(ids.len());
        for (count, id) in ids.iter().enumerate() {
            if count % 256 == 255 {
                ctx.check()?;
            }
            found.extend(self.connection.first(ENTRY_BY_ID, params![self.sid, id], whole_of)?);
        }
        self.with_parents(found)
    }

    pub(super) fn get_value(&self, address: &Address) -> Result<Option<StoredValue>> {
        let parameters = params![self.sid, address.namespace(), address.key()];
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
            Some(end) => {
                self.connection.all(VALUES_BELOW, params![self.sid, namespace, prefix, end], ctx, stored)
            }
            None => self.connection.all(VALUES, params![self.sid, namespace, prefix], ctx, stored),
        }
    }

    pub(super) fn read_list(
        &self,
        address: &Address,
        read: &ListRead,
        ctx: &Context,
    ) -> Result<Vec<ListElement>> {
        let (from, to) = match (read.order, read.cursor) {
            (_, None) => (0, MAX_SEQ),
            (Order::Ascending, Some(cursor)) if cursor >= MAX_SEQ => return Ok(Vec::new()),
            (Order::Ascending, Some(cursor)) => (cursor + 1, MAX_SEQ),
            (Order::Descending, Some(0)) => return Ok(Vec::new()),
            (Order::Descending, Some(cursor)) => (0, (cursor - 1).min(MAX_SEQ)),
        };
        let parameters = params![
            self.sid,
            address.namespace(),
            address.key(),
            from.cast_signed(),
            to.cast_signed(),
            limit_of(Some(read.limit)),
        ];
        self.connection.all(ELEMENTS[direction(read.order)], parameters, ctx, |row| {
            Ok(ListElement { seq: seq_of(row.get(0)?), value: json(row, 1)? })
        })
    }

    pub(super) fn scan_entries(&self, scan: &EntryScan, ctx: &Context) -> Result<Vec<Entry>> {
        let Some((from, to)) = self.range(scan.from_seq, scan.to_seq) else { return Ok(Vec::new()) };
        let limit = limit_of(scan.limit);
        let order = direction(scan.order);
        let connection = self.connection;
        let found = match (scan.entry_type, &scan.custom_type) {
            (None | Some(EntryType::Custom), Some(custom_type)) => {
                let parameters = params![from, to, limit, custom_type, self.sid];
                connection.all(OF_CUSTOM_TYPE[order], parameters, ctx, whole_of)?
            }
            (Some(_), Some(_)) => Vec::new(),
            (Some(EntryType::Message), None) => {
                connection.all(OF_MESSAGES[order], params![from, to, limit], ctx, whole_of)?
            }
            (Some(rare), None) => {
                let parameters = params![from, to, limit, type_number(rare), self.sid];
                connection.all(OF_RARE_TYPE[order], parameters, ctx, whole_of)?
            }
            (None, None) => connection.all(ALL[order], params![from, to, limit], ctx, whole_of)?,
        };
        self.with_parents(found)
    }

    pub(super) fn scan_usage(&self, scan: &UsageScan, ctx: &Context) -> Result<Vec<UsageRow>> {
        let Some((from, to)) = self.range(scan.from_seq, scan.to_seq) else { return Ok(Vec::new()) };
        let parameters = params![from, to, limit_of(scan.limit)];
        self.connection.all(USAGE[direction(scan.order)], parameters, ctx, |row| {
            Ok(UsageRow::stored(row.get(1)?, seq_of(row.get(0)?), json(row, 2)?))
        })
    }

    /// The keys from one `seq` to another; none if there cannot be any.
    fn range(&self, from: Option<u64>, to: Option<u64>) -> Option<(i64, i64)> {
        let (from, to) = (from.unwrap_or(0), to.unwrap_or(MAX_SEQ).min(MAX_SEQ));
        (from <= to).then(|| (key(self.sid, from), key(self.sid, to)))
    }

    pub(super) fn value_addresses(
        &self,
        after: Option<&Address>,
        limit: usize,
        ctx: &Context,
    ) -> Result<Vec<Address>> {
        self.addresses(VALUE_ADDRESSES, after, limit, ctx)
    }

    pub(super) fn list_addresses(
        &self,
        after: Option<&Address>,
        limit: usize,
        ctx: &Context,
    ) -> Result<Vec<Address>> {
        self.addresses(LIST_ADDRESSES, after, limit, ctx)
    }

    fn addresses(
        &self,
        sql: &str,
        after: Option<&Address>,
        limit: usize,
        ctx: &Context,
    ) -> Result<Vec<Address>> {
        // No namespace is empty, so the empty one is before all.
        let (namespace, key) = after.map_or(("", ""), |after| (after.namespace(), after.key()));
        let parameters = params![self.sid, namespace, key, i64::try_from(limit).unwrap_or(i64::MAX)];
        self.connection.all(sql, parameters, ctx, |row| {
            Ok(Address::known(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?))
        })
    }

    /// The next `seq` and the totals.
    pub(super) fn session(&self, id: &str) -> Result<Totals> {
        let found = self.connection.first(SESSION, [self.sid], |row| {
            // A sum that is no number is stored as NULL.
            let sum = |column| row.get::<_, Option<f64>>(column).map(|sum| sum.unwrap_or(f64::NAN));
            let usage = Usage {
                input: sum(2)?,
                output: sum(3)?,
                cache_read: sum(4)?,
                cache_write: sum(5)?,
                cache_write_1h: row.get(6)?,
                reasoning: row.get(7)?,
                total_tokens: sum(8)?,
                cost: Cost {
                    input: sum(9)?,
                    output: sum(10)?,
                    cache_read: sum(11)?,
                    cache_write: sum(12)?,
                    total: sum(13)?,
                },
            };
            Ok(Totals { next_seq: count(row, 0)?, stats: Stats { message_count: count(row, 1)?, usage } })
        })?;
        found.ok_or_else(|| unknown_session(id).with_path(self.connection.path()))
    }
}

/// The least text above every text that starts with `prefix`; none if there is none.
pub(super) fn after_prefix(prefix: &str) -> Option<String> {
    let mut rest = prefix;
    while let Some(last) = rest.chars().next_back() {
        rest = &rest[..rest.len() - last.len_utf8()];
        let next = match u32::from(last) + 1 {
            0xd800 => char::from_u32(0xe000),
            next => char::from_u32(next),
        };
        if let Some(next) = next {
            let mut end = rest.to_owned();
            end.push(next);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::after_prefix;

    #[test]
    fn the_end_of_a_prefix_is_the_next_text_by_code_point() {
        for (prefix, end) in [
            ("", None),
            ("a", Some("b")),
            ("op:", Some("op;")),
            ("\u{d7ff}", Some("\u{e000}")),
            ("x\u{10ffff}", Some("y")),
            ("\u{10ffff}\u{10ffff}", None),
        ] {
            assert_eq!(after_prefix(prefix).as_deref(), end);
        }
    }
}
