//! The JSONL repository.

pub(crate) mod name;
