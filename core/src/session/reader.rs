//! The reads that a session and a mutation share.

use crate::context::Context;
use crate::error::Result;
use crate::model::entry::{Entry, EntryStructure};
use crate::model::json::text_of;
use crate::model::usage::Stats;
use crate::model::value::{Address, ListElement, StoredValue, Value};
use crate::session::branch::BranchName;
use crate::storage::Reads;
use crate::storage::query::{BranchScan, ListRead};

pub(crate) mod sealed {
    use super::{Reads, Result};

    /// Where the reads of a [`SessionReader`](super::SessionReader) come from.
    pub trait Source {
        /// The reads, if they may be used now.
        fn reads(&self) -> Result<&dyn Reads>;
    }
}

/// Reads of a session, by the [`Session`](crate::Session) itself or inside a
/// [`Mutation`](crate::Mutation).
///
/// A read sees the newest applied commit, never a part of one, and never waits for a mutation. Several
/// reads are not a snapshot; read-decide-write belongs in [`Session::mutate`](crate::Session::mutate).
///
/// Every call fails with [`Closed`](crate::ErrorKind::Closed) once the session is closed (inside a mutation:
/// [`MutationEnded`](crate::ErrorKind::MutationEnded) once that has ended), and with
/// [`Cancelled`](crate::ErrorKind::Cancelled) or [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded)
/// as its context says.
pub trait SessionReader: sealed::Source {
    /// Those of `ids` that exist, in the order asked; an id asked for twice comes twice.
    ///
    /// # Errors
    /// See [`SessionReader`].
    fn get_entries(&self, ids: &[&str], ctx: &Context) -> Result<Vec<Entry>> {
        self.reads()?.get_entries(ids, ctx)
    }

    /// Totals of the session.
    ///
    /// # Errors
    /// See [`SessionReader`].
    fn stats(&self, ctx: &Context) -> Result<Stats> {
        self.reads()?.stats(ctx)
    }

    /// The value at `address`; none when it is absent.
    ///
    /// # Errors
    /// See [`SessionReader`].
    fn get_value(&self, address: &Address, ctx: &Context) -> Result<Option<StoredValue>> {
        self.reads()?.get_value(address, ctx)
    }

    /// Values in the namespace of `prefix` whose key starts with its key, keys ascending by code point.
    ///
    /// # Errors
    /// See [`SessionReader`].
    fn scan_values(&self, prefix: &Address, ctx: &Context) -> Result<Vec<StoredValue>> {
        self.reads()?.scan_values(prefix.namespace(), prefix.key(), ctx)
    }

    /// Elements of the list at `address`; empty when it is absent.
    ///
    /// # Errors
    /// See [`SessionReader`]; `InvalidArgument` for a limit of 0.
    fn read_list(&self, address: &Address, read: &ListRead, ctx: &Context) -> Result<Vec<ListElement>> {
        self.reads()?.read_list(address, &read.checked()?, ctx)
    }

    /// Entries on the path from the entry `start` to its root.
    ///
    /// # Errors
    /// See [`SessionReader`]; `UnknownEntry` if there is no entry `start`.
    fn scan_branch(&self, start: &str, scan: &BranchScan, ctx: &Context) -> Result<Vec<Entry>> {
        self.reads()?.scan_branch(start, scan, ctx)
    }

    /// Where the entries on that path stand, without their payloads.
    ///
    /// # Errors
    /// As [`scan_branch`](Self::scan_branch).
    fn scan_branch_structure(
        &self,
        start: &str,
        scan: &BranchScan,
        ctx: &Context,
    ) -> Result<Vec<EntryStructure>> {
        self.reads()?.scan_branch_structure(start, scan, ctx)
    }
}

/// The tip of a branch: none if there is no such branch, some of none for a null tip.
pub(crate) fn branch_tip(
    reads: &dyn Reads,
    name: &BranchName,
    ctx: &Context,
) -> Result<Option<Option<String>>> {
    let stored = reads.get_value(name.tip(), ctx)?;
    Ok(stored.map(|stored| text_of(stored.value.as_str()).map(|id| id.into_owned())))
}

/// The string at one of the library's own addresses.
pub(crate) fn stored_text(reads: &dyn Reads, place: &Value<String>, ctx: &Context) -> Result<Option<String>> {
    let stored = reads.get_value(place.address(), ctx)?;
    Ok(stored.and_then(|stored| stored.value.as_text().map(|text| text.into_owned())))
}
