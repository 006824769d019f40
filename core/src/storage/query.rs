//! What reads may ask for.

use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::EntryType;

/// How many elements a list read gives without a limit.
pub const LIST_LIMIT: u64 = 1_000;
/// How many elements a list read gives at most.
pub const LIST_LIMIT_MAX: u64 = 10_000;

/// Order by `seq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Oldest first.
    Ascending,
    /// Newest first.
    Descending,
}

/// Order along a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathOrder {
    /// From the start to the root.
    #[default]
    NewestFirst,
    /// From the root to the start.
    OldestFirst,
}

/// Which elements of a list to read. Default: the first 1,000.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRead {
    /// Only elements after (descending: before) this `seq`.
    pub cursor: Option<u64>,
    /// Ascending by default.
    pub order: Order,
    /// At most so many; must be positive; clamped to 10,000.
    pub limit: u64,
}

impl Default for ListRead {
    fn default() -> Self {
        Self { cursor: None, order: Order::Ascending, limit: LIST_LIMIT }
    }
}

impl ListRead {
    pub(crate) fn checked(&self) -> Result<Self> {
        if self.limit == 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "the limit of a list read must be positive"));
        }
        Ok(Self { limit: self.limit.min(LIST_LIMIT_MAX), ..self.clone() })
    }
}

/// Which entries of a path to give. Applied in this order: stop, filter, cursor, limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BranchScan {
    /// Newest first by default.
    pub order: PathOrder,
    /// Stop at the first entry of this type, inclusively: it is given if it passes the filter.
    pub stop_at_type: Option<EntryType>,
    /// Stop at this entry, inclusively. An id that is not on the path stops nothing.
    pub stop_at_id: Option<String>,
    /// Only entries of this type.
    pub entry_type: Option<EntryType>,
    /// Only custom entries of this type.
    pub custom_type: Option<String>,
    /// Only entries beyond this `seq`: below it newest first, above it oldest first.
    pub cursor: Option<u64>,
    /// At most so many; 0 gives none.
    pub limit: Option<u64>,
}

/// Which entries of a session to give.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(unreachable_pub)] // named by `Reads`
pub struct EntryScan {
    /// Only entries of this type.
    pub entry_type: Option<EntryType>,
    /// Only custom entries of this type.
    pub custom_type: Option<String>,
    /// From this `seq` on, inclusive.
    pub from_seq: Option<u64>,
    /// Up to this `seq`, inclusive.
    pub to_seq: Option<u64>,
    /// Ascending by default.
    pub order: Order,
    /// At most so many; 0 gives none.
    pub limit: Option<u64>,
}

impl Default for EntryScan {
    fn default() -> Self {
        Self {
            entry_type: None,
            custom_type: None,
            from_seq: None,
            to_seq: None,
            order: Order::Ascending,
            limit: None,
        }
    }
}

/// Which rows of the ledger to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageScan {
    /// From this `seq` on, inclusive.
    pub from_seq: Option<u64>,
    /// Up to this `seq`, inclusive.
    pub to_seq: Option<u64>,
    /// Ascending by default.
    pub order: Order,
    /// At most so many; 0 gives none.
    pub limit: Option<u64>,
}

impl Default for UsageScan {
    fn default() -> Self {
        Self { from_seq: None, to_seq: None, order: Order::Ascending, limit: None }
    }
}
