//! The durable session engine for AI agents.
//!
//! A [`Session`] keeps an immutable tree of conversation [entries](Entry) with named [branches](Branch),
//! replaceable [values](StoredValue), append-only [lists](ListElement) and a cost [ledger](UsageRow). It is
//! changed only by atomic commits along one mutation line, and what a commit acknowledged survives a crash.
//! Sessions live in a [`Repository`]; session files of coding agents (versions 1 to 3) open as sessions too.
//!
//! # A tour
//!
//! ```
//! use pisession::{Context, Error, Json, SessionReader, Value, open_repository};
//!
//! let ctx = Context::background();
//! let repository = open_repository("memory:", Default::default())?; // or sqlite:./sessions
//! let session = repository.create(&Default::default(), &ctx)?;
//!
//! // A conversation is a tree; a branch is a name for one path through it.
//! let main = session.create_branch("main", None, &ctx)?;
//! let question = main.append_message(&Json::parse(r#"{"role":"user","content":"hello"}"#)?, &ctx)?;
//! main.append_message(&Json::parse(r#"{"role":"assistant","content":"hi","stopReason":"stop"}"#)?, &ctx)?;
//! let other = session.create_branch("other try", Some(&question), &ctx)?;
//! other.append_message(&Json::parse(r#"{"role":"assistant","content":"hey","stopReason":"stop"}"#)?, &ctx)?;
//! assert_eq!(main.find_entries(&Default::default(), &ctx)?.len(), 2);
//!
//! // Read, decide and commit in one turn of the mutation line: no update is lost.
//! let counter: Value<u64> = Value::new("app", "answers")?;
//! session.mutate(|mutator, ctx| {
//!     let count = counter.get(mutator, ctx)?.unwrap_or(0);
//!     mutator.commit(&[counter.set(&(count + 2))?], ctx)?;
//!     Ok::<_, Error>(())
//! }, &ctx)?;
//!
//! assert_eq!(session.stats(&ctx)?.message_count, 3);
//! session.close(&ctx)?;
//! # Ok::<(), Error>(())
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | making, opening, listing, deleting sessions | [`open_repository`], [`Repository`] |
//! | going on from a point of another session | [`Repository::fork`], [`ForkOptions`] |
//! | session files by their path, old ones too | [`open_file`], [`LegacyPolicy`], [`import_file`] |
//! | entries, values, lists, ledger, name, labels | [`Session`], [`SessionReader`] |
//! | a path through the tree | [`Branch`], [`BranchScan`] |
//! | read-decide-commit | [`Session::mutate`], [`Mutator`], [`Write`] |
//! | looking for damage, repairing, moving sessions | [`Session::check_with`], [`repair_file`], [`convert_repository`] |
//! | what stands at the library's own addresses | [`addresses`] |
//! | payloads, byte for byte | [`Json`] |
//! | what failed and what to do | [`Error`], [`ErrorKind`] |
//! | cancellation, deadlines, trace parents | [`Context`] |
//! | the same bytes every time, in tests | [`Clock`], [`IdGenerator`], [`RepositoryOptions`] |

#![forbid(unsafe_code)]

mod context;
mod convert;
mod error;
mod file_lines;
mod folder;
mod gate;
mod legacy;
mod model;
mod process;
mod repair;
mod repository;
mod session;
mod sql;
mod storage;
mod sync;
mod wait;

pub use context::Context;
pub use convert::{Conversion, Converted, convert_repository, convert_session};
pub use error::{Error, ErrorKind, Result};
pub use legacy::LegacyPolicy;
pub use legacy::export::{Export, ExportOptions, ExportScope};
pub use legacy::import::{Import, ImportOptions, ImportProgress, import_file};
pub use legacy::loss::{Loss, LossKind};
pub use legacy::report::{Legacy, Origin, Warning, WarningDetails, WarningKind};
pub use model::address as addresses;
pub use model::entry::{Entry, EntryStructure, EntryType, NewEntry};
pub use model::id::{Clock, IdGenerator, SystemClock, UuidV7};
pub use model::json::{Json, MAX_PAYLOAD};
pub use model::scan::MAX_DEPTH;
pub use model::usage::{Cost, NewUsage, Stats, Usage, UsageRow};
pub use model::value::{Address, ListElement, StoredValue, Value, ValueList};
pub use model::view::JsonView;
pub use model::write::{CommitResult, Write};
pub use repair::mend::RepairCounts;
pub use repair::{Repair, RepairOptions, repair_file, repair_session};
#[doc(hidden)]
pub use repository::descriptors::take_lock_descriptors;
pub use repository::fork::{Fork, ForkOptions, ForkPoint, ForkPosition, ForkScope, ForkSource};
pub use repository::jsonl::open::open_file;
pub use repository::{
    CreateOptions, Durability, Format, ListOptions, OpenMode, OpenOptions, Repository, RepositoryOptions,
    SessionListing, SessionRef, open_repository,
};
pub use session::backend::SessionMetadata;
pub use session::branch::{Branch, NewNode};
pub use session::check::{CheckDepth, CheckOptions, FileCheck, Finding, FindingKind};
pub use session::entries::Entries;
pub use session::mutation::{Mutation, Mutator};
pub use session::reader::SessionReader;
pub use session::{BranchInfo, EntryQuery, Session};
pub use sql::{Rows, SqlValue, sqlite_version};
pub use storage::jsonl::compact::Compaction;
pub use storage::jsonl::state::Gap;
pub use storage::query::{BranchScan, LIST_LIMIT, LIST_LIMIT_MAX, ListRead, Order, PathOrder, UsageScan};

/// The Rust code of the README and the book runs as doc tests.
#[cfg(doctest)]
mod book {
    macro_rules! pages {
        ($($name:ident = $path:literal,)*) => { $( #[doc = include_str!($path)] struct $name; )* };
    }

    pages! {
        Readme = "../../README.md",
        Start = "../../docs/index.md",
        Concepts = "../../docs/concepts.md",
        MutationLine = "../../docs/mutation-line.md",
        Values = "../../docs/values.md",
        Storage = "../../docs/storage.md",
        Forks = "../../docs/forks.md",
        Sql = "../../docs/sql.md",
        Legacy = "../../docs/legacy.md",
        Care = "../../docs/care.md",
        Telemetry = "../../docs/telemetry.md",
        Errors = "../../docs/errors.md",
    }
}
