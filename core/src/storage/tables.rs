//! Values, lists and ledger of a session as tables in memory.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

use crate::error::Result;
use crate::model::json::Json;
use crate::model::usage::UsageRow;
use crate::model::value::{Address, ListElement, StoredValue};
use crate::storage::query::{ListRead, Order, UsageScan};

/// Everything of a session but its entries.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    values: BTreeMap<Address, (Json, u64)>,
    lists: BTreeMap<Address, Vec<ListElement>>,
    usage: Vec<UsageRow>,
    usage_ids: HashSet<String>,
}

impl Tables {
    pub(crate) fn set_value(&mut self, address: &Address, value: Json, seq: u64) {
        self.values.insert(address.clone(), (value, seq));
    }

    pub(crate) fn delete_value(&mut self, address: &Address) {
        self.values.remove(address);
    }

    pub(crate) fn append_list(&mut self, address: &Address, value: Json, seq: u64) {
        self.lists.entry(address.clone()).or_default().push(ListElement { seq, value });
    }

    pub(crate) fn delete_list(&mut self, address: &Address) {
        self.lists.remove(address);
    }

    pub(crate) fn append_usage(&mut self, row: UsageRow) {
        self.usage_ids.insert(row.id.clone());
        self.usage.push(row);
    }

    pub(crate) fn has_usage(&self, id: &str) -> bool {
        self.usage_ids.contains(id)
    }

    pub(crate) fn get_value(&self, address: &Address) -> Option<StoredValue> {
        let (value, seq) = self.values.get(address)?;
        Some(StoredValue { address: address.clone(), value: value.clone(), seq: *seq })
    }

    pub(crate) fn scan_values(&self, namespace: &str, prefix: &str) -> Vec<StoredValue> {
        self.values
            .range(Address::known(namespace, prefix)..)
            .take_while(|(address, _)| address.namespace() == namespace && address.key().starts_with(prefix))
            .map(|(address, (value, seq))| StoredValue {
                address: address.clone(),
                value: value.clone(),
                seq: *seq,
            })
            .collect()
    }

    pub(crate) fn read_list(&self, address: &Address, read: &ListRead) -> Vec<ListElement> {
        let Some(elements) = self.lists.get(address) else { return Vec::new() };
        let limit = usize::try_from(read.limit).unwrap_or(usize::MAX);
        match read.order {
            Order::Ascending => {
                let first =
                    read.cursor.map_or(0, |seq| elements.partition_point(|element| element.seq <= seq));
                elements[first..].iter().take(limit).cloned().collect()
            }
            Order::Descending => {
                let end = read
                    .cursor
                    .map_or(elements.len(), |seq| elements.partition_point(|element| element.seq < seq));
                elements[..end].iter().rev().take(limit).cloned().collect()
            }
        }
    }

    pub(crate) fn scan_usage(&self, scan: &UsageScan) -> Vec<UsageRow> {
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

    pub(crate) fn value_addresses(&self, after: Option<&Address>, limit: usize) -> Vec<Address> {
        addresses(&self.values, after, limit)
    }

    pub(crate) fn list_addresses(&self, after: Option<&Address>, limit: usize) -> Vec<Address> {
        addresses(&self.lists, after, limit)
    }
}

fn addresses<V>(table: &BTreeMap<Address, V>, after: Option<&Address>, limit: usize) -> Vec<Address> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    table.range((from, Bound::Unbounded)).take(limit).map(|(address, _)| address.clone()).collect()
}

/// What the commit check needs to know, from an index and tables.
pub(crate) struct KnownIn<'a, P> {
    pub(crate) entries: &'a crate::storage::index::EntryIndex<P>,
    pub(crate) tables: &'a Tables,
}

impl<P> crate::storage::commit::Known for KnownIn<'_, P> {
    fn has_entry(&self, id: &str) -> Result<bool> {
        Ok(self.entries.position(id).is_some())
    }

    fn has_usage(&self, id: &str) -> Result<bool> {
        Ok(self.tables.has_usage(id))
    }
}
