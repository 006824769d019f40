//! The durable session engine for AI agents.
//!
//! A [`Session`] keeps an immutable tree of conversation entries with named branches, replaceable values,
//! append-only lists and a cost ledger, changed only by atomic commits along one mutation line.

mod context;
mod error;
mod legacy;
mod model;
mod process;
mod repository;
mod session;
mod sql;
mod storage;

pub use context::Context;
pub use error::{Error, ErrorKind, Result};
pub use legacy::import::{Import, ImportOptions, ImportProgress, import_file};
pub use legacy::report::{Legacy, Origin, Warning, WarningDetails, WarningKind};
pub use legacy::{LegacyPolicy, OpenFileOptions, open_file};
pub use model::entry::{Entry, EntryStructure, EntryType, NewEntry};
pub use model::id::{Clock, IdGenerator, SystemClock, UuidV7};
pub use model::json::{Json, MAX_DEPTH, MAX_PAYLOAD};
pub use model::usage::{Cost, NewUsage, Stats, Usage, UsageRow};
pub use model::value::{Address, ListElement, StoredValue, Value, ValueList};
pub use model::view::JsonView;
pub use model::write::{CommitResult, Write};
pub use repository::{
    CreateOptions, Durability, Format, ListOptions, OpenMode, OpenOptions, Repository, RepositoryOptions,
    SessionListing, SessionRef, open_repository,
};
pub use session::backend::SessionMetadata;
pub use session::branch::{Branch, NewNode};
pub use session::check::{Finding, FindingKind};
pub use session::entries::Entries;
pub use session::mutation::{Mutation, Mutator};
pub use session::reader::SessionReader;
pub use session::{BranchInfo, EntryQuery, Session};
pub use sql::{Rows, SqlValue};
pub use storage::query::{BranchScan, LIST_LIMIT, LIST_LIMIT_MAX, ListRead, Order, PathOrder, UsageScan};
