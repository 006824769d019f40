//! Values, lists and ledger of a session as tables in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use hashbrown::HashSet;

use crate::error::Result;
use crate::model::json::Json;
use crate::model::usage::UsageRow;
use crate::model::value::{Address, ListElement, StoredValue};
use crate::storage::indexed_id::IndexedId;
use crate::storage::query::{ListRead, Order, UsageScan};

/// Everything of a session but its entries. `V` is how the backend keeps a payload.
#[derive(Debug)]
pub(crate) struct Tables<V = Json> {
    values: BTreeMap<Address, (V, u64)>,
    lists: BTreeMap<Address, Vec<(u64, V)>>,
    usage: Vec<UsagePlace<V>>,
    usage_ids: HashSet<IndexedId>,
}

/// A row of the ledger: its id and `seq`, and its payload as the backend keeps it.
#[derive(Debug, Clone)]
pub(crate) struct UsagePlace<V> {
    pub(crate) id: Box<str>,
    pub(crate) seq: u64,
    pub(crate) payload: V,
}

impl<V> Default for Tables<V> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), lists: BTreeMap::new(), usage: Vec::new(), usage_ids: HashSet::new() }
    }
}

impl<V: Clone> Tables<V> {
    pub(crate) fn set_value(&mut self, address: &Address, value: V, seq: u64) {
        match self.values.get_mut(address) {
            Some(before) => *before = (value, seq),
            None => drop(self.values.insert(address.clone(), (value, seq))),
        }
    }

    pub(crate) fn delete_value(&mut self, address: &Address) {
        self.values.remove(address);
    }

    pub(crate) fn append_list(&mut self, address: &Address, value: V, seq: u64) {
        self.lists.entry(address.clone()).or_default().push((seq, value));
    }

    pub(crate) fn delete_list(&mut self, address: &Address) {
        self.lists.remove(address);
    }

    pub(crate) fn add_usage(&mut self, row: UsagePlace<V>) {
        self.usage_ids.insert(IndexedId::of(&row.id).into_owned());
        self.usage.push(row);
    }

    pub(crate) fn has_usage(&self, id: IndexedId<&str>) -> bool {
        self.usage_ids.contains(&id)
    }

    /// The value at `address` and its `seq`.
    pub(crate) fn value(&self, address: &Address) -> Option<(V, u64)> {
        self.values.get(address).cloned()
    }

    /// Values of `namespace` whose key starts with `prefix`, keys ascending.
    pub(crate) fn values_from(&self, namespace: &str, prefix: &str) -> Vec<(Address, V, u64)> {
        self.values
            .range(Address::known(namespace, prefix)..)
            .take_while(|(address, _)| address.namespace() == namespace && address.key().starts_with(prefix))
            .map(|(address, (value, seq))| (address.clone(), value.clone(), *seq))
            .collect()
    }

    /// Elements of a list with their `seq`.
    pub(crate) fn elements(&self, address: &Address, read: &ListRead) -> Vec<(u64, V)> {
        let Some(elements) = self.lists.get(address) else { return Vec::new() };
        let limit = usize::try_from(read.limit).unwrap_or(usize::MAX);
        match read.order {
            Order::Ascending => {
                let first =
                    read.cursor.map_or(0, |cursor| elements.partition_point(|(seq, _)| *seq <= cursor));
                elements[first..].iter().take(limit).cloned().collect()
            }
            Order::Descending => {
                let end = read
                    .cursor
                    .map_or(elements.len(), |cursor| elements.partition_point(|(seq, _)| *seq < cursor));
                elements[..end].iter().rev().take(limit).cloned().collect()
            }
        }
    }

    /// Rows of the ledger.
    pub(crate) fn usage_places(&self, scan: &UsageScan) -> Vec<UsagePlace<V>> {
        let first = scan.from_seq.map_or(0, |seq| self.usage.partition_point(|row| row.seq < seq));
        let end =
            scan.to_seq.map_or(self.usage.len(), |seq| self.usage.partition_point(|row| row.seq <= seq));
        let rows = self.usage.get(first..end).unwrap_or_default().iter();
        let limit = scan.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        match scan.order {
            Order::Ascending => rows.take(limit).cloned().collect(),
            Order::Descending => rows.rev().take(limit).cloned().collect(),
        }
    }

    /// Every value, addresses ascending.
    pub(crate) fn all_values(&self) -> impl Iterator<Item = (&Address, &V, u64)> {
        self.values.iter().map(|(address, (value, seq))| (address, value, *seq))
    }

    /// Every list, addresses ascending.
    pub(crate) fn all_lists(&self) -> impl Iterator<Item = (&Address, &[(u64, V)])> {
        self.lists.iter().map(|(address, elements)| (address, elements.as_slice()))
    }

    /// Every row of the ledger.
    pub(crate) fn all_usage(&self) -> impl Iterator<Item = &UsagePlace<V>> {
        self.usage.iter()
    }

    /// Whether a namespace holds any value.
    pub(crate) fn has_values_of(&self, namespace: &str) -> bool {
        let first = self.values.range(Address::known(namespace, "")..).next();
        first.is_some_and(|(address, _)| address.namespace() == namespace)
    }

    pub(crate) fn value_addresses(&self, after: Option<&Address>, limit: usize) -> Vec<Address> {
        addresses(&self.values, after, limit)
    }

    pub(crate) fn list_addresses(&self, after: Option<&Address>, limit: usize) -> Vec<Address> {
        addresses(&self.lists, after, limit)
    }

    /// Every payload that is alive, mutable: for a backend that moves them.
    pub(crate) fn places_mut(&mut self) -> impl Iterator<Item = Place<'_, V>> {
        let values = self.values.iter_mut().map(|(address, (value, seq))| Place::Value(address, *seq, value));
        let lists = self.lists.iter_mut().flat_map(|(address, elements)| {
            elements.iter_mut().map(move |(seq, value)| Place::Element(address, *seq, value))
        });
        let usage = self.usage.iter_mut().map(|row| Place::Usage(row.seq, &mut row.payload));
        values.chain(lists).chain(usage)
    }
}

/// A payload in the tables, with what it belongs to.
pub(crate) enum Place<'a, V> {
    Value(&'a Address, u64, &'a mut V),
    Element(&'a Address, u64, &'a mut V),
    Usage(u64, &'a mut V),
}

impl Tables<Json> {
    pub(crate) fn append_usage(&mut self, row: UsageRow) {
        self.add_usage(UsagePlace { id: row.id.into(), seq: row.seq, payload: row.payload });
    }

    pub(crate) fn get_value(&self, address: &Address) -> Option<StoredValue> {
        let (value, seq) = self.value(address)?;
        Some(StoredValue { address: address.clone(), value, seq })
    }

    pub(crate) fn scan_values(&self, namespace: &str, prefix: &str) -> Vec<StoredValue> {
        let found = self.values_from(namespace, prefix);
        found.into_iter().map(|(address, value, seq)| StoredValue { address, value, seq }).collect()
    }

    pub(crate) fn read_list(&self, address: &Address, read: &ListRead) -> Vec<ListElement> {
        self.elements(address, read).into_iter().map(|(seq, value)| ListElement { seq, value }).collect()
    }

    pub(crate) fn scan_usage(&self, scan: &UsageScan) -> Vec<UsageRow> {
        let found = self.usage_places(scan);
        found.into_iter().map(|row| UsageRow::stored(row.id.into(), row.seq, row.payload)).collect()
    }
}

fn addresses<V>(table: &BTreeMap<Address, V>, after: Option<&Address>, limit: usize) -> Vec<Address> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    table.range((from, Bound::Unbounded)).take(limit).map(|(address, _)| address.clone()).collect()
}

/// What the commit check needs to know, from an index and tables.
pub(crate) struct KnownIn<'a, P, V = Json> {
    pub(crate) entries: &'a crate::storage::index::EntryIndex<P>,
    pub(crate) tables: &'a Tables<V>,
}

impl<P, V: Clone> crate::storage::commit::Known for KnownIn<'_, P, V> {
    fn has_entry(&self, id: &str) -> Result<bool> {
        Ok(self.entries.position(id).is_some())
    }

    fn has_usage(&self, id: &str) -> Result<bool> {
        Ok(self.tables.has_usage(IndexedId::of(id)))
    }
}
