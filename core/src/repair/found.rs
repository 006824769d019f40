//! What a reader of a damaged session found: pieces in the order in which they were written, wherever their
//! payloads are.

use crate::error::Result;
use crate::model::entry::EntryStructure;
use crate::model::json::Json;
use crate::model::value::Address;
use crate::session::backend::SessionMetadata;
use crate::session::check::Finding;

/// A write that was found. `P` is how the reader finds its payload again.
#[derive(Debug, Clone)]
pub(crate) struct Piece<P> {
    pub(crate) seq: u64,
    pub(crate) what: What,
    /// None for deletions.
    pub(crate) payload: Option<P>,
    /// Line and offset, where it is of a file of lines.
    pub(crate) place: Option<(u64, u64)>,
    /// Of all it holds: two that are the same have one.
    pub(crate) hash: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Entry(EntryStructure),
    Usage(String),
    SetValue(Address),
    DeleteValue(Address),
    AppendList(Address),
    DeleteList(Address),
}

impl What {
    /// How it is called in a report.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Entry(entry) => format!("entry '{}'", entry.id),
            Self::Usage(id) => format!("usage row '{id}'"),
            Self::SetValue(address) => format!("the value at {address}"),
            Self::DeleteValue(address) => format!("the deletion of the value at {address}"),
            Self::AppendList(address) => format!("an element of the list at {address}"),
            Self::DeleteList(address) => format!("the deletion of the list at {address}"),
        }
    }

    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::Entry(entry) => Some(&entry.id),
            Self::Usage(id) => Some(id),
            _ => None,
        }
    }
}

/// All that a reader found.
#[derive(Debug)]
pub(crate) struct Found<P> {
    pub(crate) metadata: SessionMetadata,
    /// Where the source says that the next commit starts.
    pub(crate) next_seq: Option<u64>,
    /// In the order in which they were written.
    pub(crate) pieces: Vec<Piece<P>>,
    /// What could not be read.
    pub(crate) findings: Vec<Finding>,
}

/// Reads payloads of what was found.
pub(crate) trait Payloads<P> {
    /// The payload of a piece: of an entry or a usage row its fields, of a value or element its JSON.
    fn read(&self, what: &What, payload: &P) -> Result<Json>;
}
