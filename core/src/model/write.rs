//! What a commit is made of, and what it gives back.

use crate::model::entry::NewEntry;
use crate::model::json::Json;
use crate::model::usage::{NewUsage, Stats};
use crate::model::value::Address;

/// One write of a commit. By itself it does nothing.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a write takes effect when it is committed"]
pub enum Write {
    /// Insert an entry.
    Entry(NewEntry),
    /// Append a row to the ledger.
    Usage(NewUsage),
    /// Set or replace a value.
    SetValue(Address, Json),
    /// Delete a value. Deleting what is absent changes nothing, but takes its `seq`.
    DeleteValue(Address),
    /// Append an element to a list.
    AppendList(Address, Json),
    /// Delete a whole list. Deleting what is absent changes nothing, but takes its `seq`.
    DeleteList(Address),
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq)]
pub struct CommitResult {
    /// The first `seq`; of an empty commit the next one.
    pub first_seq: u64,
    /// The `seq` of each write, in their order.
    pub seqs: Vec<u64>,
    /// The one timestamp of all its entries, Unix ms.
    pub timestamp: i64,
    /// The session's totals right after it.
    pub stats: Stats,
}
