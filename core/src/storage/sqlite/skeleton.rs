use super::*;
use crate::model::entry::{Entry, EntryStructure};
use crate::model::usage::{Stats, UsageRow};
use crate::model::value::{Address, ListElement, StoredValue};
use crate::model::write::{CommitResult, Write};
use crate::storage::query::{BranchScan, EntryScan, ListRead, UsageScan};
use crate::storage::{Reads, Storage};

#[rustfmt::skip]
impl Reads for SqliteStorage {
    fn get_entries(&self, _: &[&str], _: &Context) -> Result<Vec<Entry>> { missing() }
    fn get_value(&self, _: &Address, _: &Context) -> Result<Option<StoredValue>> { missing() }
    fn scan_values(&self, _: &str, _: &str, _: &Context) -> Result<Vec<StoredValue>> { missing() }
    fn read_list(&self, _: &Address, _: &ListRead, _: &Context) -> Result<Vec<ListElement>> { missing() }
    fn scan_branch(&self, _: &str, _: &BranchScan, _: &Context) -> Result<Vec<Entry>> { missing() }
    fn scan_branch_structure(&self, _: &str, _: &BranchScan, _: &Context) -> Result<Vec<EntryStructure>> { missing() }
    fn scan_entries(&self, _: &EntryScan, _: &Context) -> Result<Vec<Entry>> { missing() }
    fn scan_usage(&self, _: &UsageScan, _: &Context) -> Result<Vec<UsageRow>> { missing() }
    fn value_addresses(&self, _: Option<&Address>, _: usize, _: &Context) -> Result<Vec<Address>> { missing() }
    fn list_addresses(&self, _: Option<&Address>, _: usize, _: &Context) -> Result<Vec<Address>> { missing() }
    fn stats(&self, _: &Context) -> Result<Stats> { missing() }
    fn next_seq(&self, _: &Context) -> Result<u64> { missing() }
}

#[rustfmt::skip]
impl Storage for SqliteStorage {
    fn commit(&self, _: &[Write], _: &Context) -> Result<CommitResult> { missing() }
    fn close(&self, _: &Context) -> Result<()> { missing() }
}
