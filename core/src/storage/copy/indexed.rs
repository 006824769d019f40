//! Copying from a session whose places are in memory: planned and noted at once, while nobody commits, read
//! and given afterwards.

use std::sync::Arc;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::address::reserved;
use crate::model::json::Json;
use crate::model::usage::UsageRow;
use crate::model::value::{Address, StoredValue};
use crate::model::write::Write;
use crate::storage::copy::{Entries, Plan, Record, Values, View};
use crate::storage::index::EntryIndex;
use crate::storage::tables::Tables;

/// Index and tables of a session, while nobody changes them.
pub(crate) struct Indexed<'a, P, V> {
    pub(crate) entries: &'a EntryIndex<P>,
    pub(crate) tables: &'a Tables<V>,
    pub(crate) next_seq: u64,
    /// Finds the JSON of a value.
    pub(crate) json: &'a dyn Fn(&V) -> Result<Json>,
}

/// Something that is to be copied: where it stands, and how the backend keeps it.
#[derive(Debug)]
pub(crate) struct Item<P, V> {
    pub(crate) seq: u64,
    pub(crate) what: What<P, V>,
}

#[derive(Debug)]
pub(crate) enum What<P, V> {
    /// An entry at its position of the index, where it stays.
    Entry(u32, P),
    Usage(Box<str>, V),
    Value(Arc<Address>, V),
    Element(Arc<Address>, V),
}

impl<P: Clone, V: Clone> Indexed<'_, P, V> {
    /// What `plan` names, in `seq` order.
    pub(crate) fn select(&self, plan: &Plan, ctx: &Context) -> Result<Vec<Item<P, V>>> {
        ctx.check()?;
        let mut items = Vec::new();
        match &plan.entries {
            Entries::All => {
                items.reserve(self.entries.len());
                items.extend((0..self.entries.len()).map(|position| self.entry(position)));
            }
            Entries::Path(None) => {}
            Entries::Path(Some(tip)) => {
                let mut at = Some(self.position(tip)?);
                while let Some(position) = at {
                    items.push(self.entry(position));
                    at = self.entries.parent(position);
                }
                items.reverse();
            }
        }
        match &plan.values {
            Values::Where(passes) => {
                items.extend(self.tables.all_values().filter(|(address, ..)| passes(address)).map(
                    |(address, value, seq)| {
                        let what = What::Value(Arc::new(address.clone()), value.clone());
                        Item { seq, what }
                    },
                ));
                for (address, elements) in self.tables.all_lists().filter(|(address, _)| passes(address)) {
                    let address = Arc::new(address.clone());
                    items.extend(elements.iter().map(|(seq, value)| Item {
                        seq: *seq,
                        what: What::Element(Arc::clone(&address), value.clone()),
                    }));
                }
            }
            Values::LabelsOfEntries => {
                let label = |item: &Item<P, V>| {
                    let What::Entry(position, _) = &item.what else { return None };
                    let id = self.entries.entry(*position as usize).id.to_string();
                    let address = Address::known(reserved::ENTRY_LABEL, &id);
                    let (value, seq) = self.tables.value(&address)?;
                    Some(Item { seq, what: What::Value(Arc::new(address), value) })
                };
                if self.tables.has_values_of(reserved::ENTRY_LABEL) {
                    let labels: Vec<Item<P, V>> = items.iter().filter_map(label).collect();
                    items.extend(labels);
                }
            }
        }
        if plan.usage {
            let rows = self.tables.all_usage();
            items.extend(
                rows.map(|row| Item { seq: row.seq, what: What::Usage(row.id.clone(), row.payload.clone()) }),
            );
        }
        items.sort_by_key(|item| item.seq);
        Ok(items)
    }

    fn entry(&self, position: usize) -> Item<P, V> {
        let entry = self.entries.entry(position);
        Item { seq: entry.seq, what: What::Entry(position as u32, entry.payload.clone()) }
    }

    fn position(&self, id: &str) -> Result<usize> {
        self.entries.position(id).ok_or_else(|| {
            Error::new(ErrorKind::UnknownEntry, format!("there is no entry '{id}'")).with_id(id)
        })
    }
}

impl<P: Clone, V: Clone> View for Indexed<'_, P, V> {
    fn next_seq(&self) -> Result<u64> {
        Ok(self.next_seq)
    }

    fn get_value(&self, address: &Address) -> Result<Option<StoredValue>> {
        let Some((value, seq)) = self.tables.value(address) else { return Ok(None) };
        Ok(Some(StoredValue { address: address.clone(), value: (self.json)(&value)?, seq }))
    }

    fn values_of(&self, namespace: &str) -> Result<Vec<StoredValue>> {
        let found = self.tables.values_from(namespace, "").into_iter();
        found
            .map(|(address, value, seq)| Ok(StoredValue { address, value: (self.json)(&value)?, seq }))
            .collect()
    }

    fn value_addresses(&self, after: &Address, limit: usize) -> Result<Vec<Address>> {
        Ok(self.tables.value_addresses(Some(after), limit))
    }

    fn list_addresses(&self, after: &Address, limit: usize) -> Result<Vec<Address>> {
        Ok(self.tables.list_addresses(Some(after), limit))
    }

    fn parent_of(&self, id: &str) -> Result<Option<Option<String>>> {
        let Some(position) = self.entries.position(id) else { return Ok(None) };
        Ok(Some(self.entries.parent(position).map(|parent| self.entries.entry(parent).id.to_string())))
    }

    fn is_on_path(&self, tip: &str, id: &str) -> Result<bool> {
        let Some(position) = self.entries.position(id) else { return Ok(false) };
        self.entries.is_on_path(self.position(tip)?, position)
    }
}

impl<P, V> What<P, V> {
    /// The record of what is no entry: its JSON was found.
    pub(crate) fn record(&self, seq: u64, json: Json) -> Option<Record> {
        match self {
            Self::Entry(..) => None,
            Self::Usage(id, _) => Some(UsageRow::stored(id.to_string(), seq, json).into()),
            Self::Value(address, _) => {
                Some(Record { seq, write: Write::SetValue((**address).clone(), json) })
            }
            Self::Element(address, _) => {
                Some(Record { seq, write: Write::AppendList((**address).clone(), json) })
            }
        }
    }
}
