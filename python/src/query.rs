//! Arguments of queries, as the core takes them. The package has checked that counts are counts.

use pisession::{BranchScan, EntryQuery, EntryType, Error, ErrorKind, Order, PathOrder};
use pyo3::prelude::*;

use crate::error::to_python;

pub(crate) fn invalid(py: Python<'_>, message: String, hint: &str) -> PyErr {
    to_python(py, &Error::new(ErrorKind::InvalidArgument, message).with_hint(hint))
}

fn entry_type(py: Python<'_>, name: Option<&str>) -> PyResult<Option<EntryType>> {
    let Some(name) = name else { return Ok(None) };
    let known = EntryType::from_name(name);
    known.map(Some).ok_or_else(|| {
        let hint = "a type is 'message', 'compaction', 'branch_summary' or 'custom'";
        invalid(py, format!("'{name}' is no type of entry"), hint)
    })
}

pub(crate) fn order(py: Python<'_>, name: &str) -> PyResult<Order> {
    match name {
        "asc" => Ok(Order::Ascending),
        "desc" => Ok(Order::Descending),
        _ => Err(invalid(py, format!("'{name}' is no order"), "an order is 'asc' or 'desc'")),
    }
}

/// `type, custom_type, from_seq, to_seq, cursor, order, limit`.
#[derive(FromPyObject)]
pub(crate) struct EntryArguments(
    Option<String>,
    Option<String>,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    String,
    Option<u64>,
);

impl EntryArguments {
    pub(crate) fn query(self, py: Python<'_>) -> PyResult<EntryQuery> {
        Ok(EntryQuery {
            entry_type: entry_type(py, self.0.as_deref())?,
            custom_type: self.1,
            from_seq: self.2,
            to_seq: self.3,
            cursor: self.4,
            order: order(py, &self.5)?,
            limit: self.6,
        })
    }
}

/// `type, custom_type, stop_at_type, stop_at_id, cursor, order, limit`.
#[derive(FromPyObject)]
pub(crate) struct PathArguments(
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<u64>,
    String,
    Option<u64>,
);

impl PathArguments {
    pub(crate) fn scan(self, py: Python<'_>) -> PyResult<BranchScan> {
        let order = match self.5.as_str() {
            "newest_first" => PathOrder::NewestFirst,
            "oldest_first" => PathOrder::OldestFirst,
            name => {
                let hint = "an order along a path is 'newest_first' or 'oldest_first'";
                return Err(invalid(py, format!("'{name}' is no order along a path"), hint));
            }
        };
        Ok(BranchScan {
            order,
            stop_at_type: entry_type(py, self.2.as_deref())?,
            stop_at_id: self.3,
            entry_type: entry_type(py, self.0.as_deref())?,
            custom_type: self.1,
            cursor: self.4,
            limit: self.6,
        })
    }
}
