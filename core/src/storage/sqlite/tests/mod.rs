//! What the SQLite backend promises beyond what every backend does.

mod cost;
mod damage;
mod files;
#[cfg(target_os = "linux")]
mod foreign;
mod isolation;
mod plans;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::{Access, Database, SqliteStorage};
use crate::context::Context;
use crate::model::address::reserved;
use crate::model::entry::NewEntry;
use crate::model::id::Clock;
use crate::model::json::Json;
use crate::model::value::Address;
use crate::model::write::{CommitResult, Write};
use crate::repository::{Durability, OpenMode};
use crate::session::backend::SessionMetadata;
use crate::storage::{Reads as _, Storage as _};

pub(super) fn ctx() -> Context {
    Context::background()
}

#[derive(Debug, Default)]
pub(super) struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

pub(super) fn metadata(id: &str) -> SessionMetadata {
    SessionMetadata {
        id: id.to_owned(),
        created_at: 7,
        storage_version: 1,
        cwd: Some("/home".to_owned()),
        parent_session_id: None,
        legacy_parent_session_path: None,
        path: None,
    }
}

/// A database of one session "s" in a folder of its own.
pub(super) struct Kept {
    pub(super) database: Database,
    pub(super) storage: SqliteStorage,
    pub(super) path: PathBuf,
    folder: Option<tempfile::TempDir>,
}

pub(super) fn open(path: &Path, access: Access) -> crate::Result<Database> {
    Database::open(path, access, Durability::Process, Duration::from_millis(200), &ctx())
}

pub(super) fn storage_of(database: &Database, id: &str, mode: OpenMode) -> crate::Result<SqliteStorage> {
    SqliteStorage::open(database.clone(), id, Arc::new(Ticking::default()), usize::MAX, mode, &ctx())
}

impl Kept {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sqlite");
        Database::create(&path, Some(&metadata("s")), Durability::Power, &ctx()).unwrap();
        Self { folder: Some(folder), ..Self::at(&path) }
    }

    pub(super) fn at(path: &Path) -> Self {
        let database = open(path, Access::Write).unwrap();
        let storage = storage_of(&database, "s", OpenMode::ReadWrite).unwrap();
        Self { database, storage, path: path.to_owned(), folder: None }
    }

    /// Closes and opens it again.
    pub(super) fn reopened(mut self) -> Self {
        self.close();
        let (path, folder) = (self.path.clone(), self.folder.take());
        Self { folder, ..Self::at(&path) }
    }

    pub(super) fn close(&self) {
        self.storage.close(&ctx()).unwrap();
        self.database.close().unwrap();
    }

    pub(super) fn commit(&self, writes: &[Write]) -> CommitResult {
        self.storage.commit(writes, &ctx()).unwrap()
    }

    /// Appends a message of `bytes` bytes under `parent` and moves the tip of `main`.
    pub(super) fn append(&self, id: &str, parent: Option<&str>, bytes: usize) {
        self.commit(&append(id, parent, bytes));
    }

    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        super::guard::beside(&self.path.canonicalize().unwrap(), suffix)
    }
}

pub(super) fn message(bytes: usize) -> Json {
    let text = "x".repeat(bytes.saturating_sub(28));
    Json::parse(format!(r#"{{"role":"user","content":"{text}"}}"#)).unwrap()
}

pub(super) fn append(id: &str, parent: Option<&str>, bytes: usize) -> Vec<Write> {
    vec![
        Write::Entry(NewEntry::message(id, parent, &message(bytes))),
        Write::SetValue(Address::known(reserved::BRANCH_TIP, "main"), Json::string(id)),
    ]
}

/// Appends `count` messages of `bytes` bytes, ids as the generator makes them; all ids.
pub(super) fn fill(kept: &Kept, count: usize, bytes: usize) -> Vec<String> {
    fill_under(kept, None, count, bytes)
}

/// The same below the entry `parent`.
pub(super) fn fill_from(kept: &Kept, parent: &str, count: usize, bytes: usize) -> Vec<String> {
    fill_under(kept, Some(parent), count, bytes)
}

fn fill_under(kept: &Kept, parent: Option<&str>, count: usize, bytes: usize) -> Vec<String> {
    use crate::model::id::{IdGenerator as _, UuidV7};
    let ids = UuidV7::default();
    let mut made: Vec<String> = Vec::with_capacity(count);
    for _ in 0..count {
        let id = ids.next(None);
        kept.append(&id, made.last().map(String::as_str).or(parent), bytes);
        made.push(id);
    }
    made
}

#[test]
fn what_was_committed_is_there_after_reopening() {
    let kept = Kept::new();
    let ids = fill(&kept, 10, 100);
    let stats = kept.storage.stats(&ctx()).unwrap();
    let kept = kept.reopened();
    assert_eq!(kept.storage.stats(&ctx()).unwrap(), stats);
    assert_eq!(kept.storage.next_seq(&ctx()).unwrap(), 21);
    let path = kept.storage.scan_branch(&ids[9], &Default::default(), &ctx()).unwrap();
    let found: Vec<&str> = path.iter().rev().map(|entry| entry.id.as_str()).collect();
    assert_eq!(found, ids);
    assert!(path.windows(2).all(|pair| pair[0].parent_id.as_deref() == Some(&pair[1].id)));
}
