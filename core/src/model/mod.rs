//! The durable vocabulary: entries, values, lists, usage rows, ids and raw JSON.

// Public under another name: the functions for the library's own addresses.
pub mod address;
pub(crate) mod entry;
pub(crate) mod id;
pub(crate) mod json;
pub(crate) mod scan;
pub(crate) mod usage;
pub(crate) mod value;
pub(crate) mod view;
pub(crate) mod write;
