//! The C library: a translation of the core, without behaviour of its own.
//!
//! A file here, a section of `pisession.h` and the prefix of its functions share one name. Every export is
//! one closure in one [`guard`]; what crosses the boundary is described once, in `docs/c-contract.md`.
//! The rules named in comments are those of that page.

// The names are those of the header, and its contract stands in place of a safety section per function.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

mod argument;
mod child;
mod guard;
mod handle;

pub mod address;
pub mod branch;
pub mod buf;
pub mod care;
pub mod check;
pub mod context;
pub mod debug;
pub mod entries;
pub mod error;
pub mod export;
pub mod file;
pub mod forks;
pub mod legacy;
pub mod log;
pub mod mutation;
pub mod nodes;
pub mod query;
pub mod repository;
pub mod session;
pub mod usage;
pub mod value;
pub mod version;
pub mod writes;
