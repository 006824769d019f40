//! What the tests of old session files share.
#![allow(dead_code)] // each test takes what it needs

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use pisession::{
    Clock, Context, Entry, EntryQuery, ImportOptions, OpenMode, OpenOptions, Order, Repository,
    RepositoryOptions, Session, SessionReader, open_file, open_repository,
};
use sha2::{Digest as _, Sha256};

/// The folder of shared material; none where it is absent, which is said.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("PISESSION_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")), PathBuf::from);
    let folder = root.join(name);
    // By its one name: what is read there is named so.
    let found = std::fs::canonicalize(&folder).ok().filter(|folder| folder.is_dir());
    if found.is_none() {
        let said = format!("\nSKIPPED: {} is not there; set PISESSION_SHARED\n", folder.display());
        // Past the capture of the test harness: `tests/run` shows and counts it.
        std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes()).unwrap();
    }
    found
}

/// SHA-256 in hex.
pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) const HEADER: &str =
    r#"{"type":"session","version":3,"id":"old","timestamp":"2026-03-01T10:00:00.000Z","cwd":"/w"}"#;
pub(crate) const TIME: i64 = 1_772_359_200_000;

/// A file of these lines, in a folder that lives as long as it.
pub(crate) struct Old {
    _folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Old {
    pub(crate) fn new(text: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.jsonl");
        std::fs::write(&path, text).unwrap();
        Self { _folder: folder, path }
    }

    pub(crate) fn of(lines: &[&str]) -> Self {
        let lines: Vec<&str> = [HEADER].into_iter().chain(lines.iter().copied()).collect();
        Self::new(lines.join("\n") + "\n")
    }

    pub(crate) fn open(&self) -> Session {
        open_file(&self.path, &OpenOptions::default(), &ctx()).unwrap()
    }

    pub(crate) fn append(&self, text: &str) {
        let bytes = [std::fs::read(&self.path).unwrap(), text.as_bytes().to_vec()].concat();
        std::fs::write(&self.path, bytes).unwrap();
    }
}

pub(crate) fn ctx() -> Context {
    Context::background()
}

/// For reading, whatever it is: nothing is made beside it.
pub(crate) fn read_only() -> OpenOptions {
    OpenOptions { mode: OpenMode::ReadOnly, ..OpenOptions::default() }
}

pub(crate) fn memory() -> Repository {
    open_repository("memory:", RepositoryOptions::default()).unwrap()
}

/// One of each kind of repository there is, each in a folder that lives as long as it.
pub(crate) fn repositories() -> Vec<(tempfile::TempDir, Repository)> {
    let kinds = ["memory:", "jsonl:{}/lines", "sqlite:{}/folder", "sqlite:{}/one.sqlite"];
    let open = |uri: &str| {
        let folder = tempfile::tempdir().unwrap();
        let uri = uri.replace("{}", folder.path().to_str().unwrap());
        let repository = open_repository(&uri, RepositoryOptions::default()).unwrap();
        (folder, repository)
    };
    kinds.into_iter().map(open).collect()
}

pub(crate) fn salvage() -> ImportOptions {
    ImportOptions { salvage: true, ..ImportOptions::default() }
}

/// A message of `id` under `parent`, one second later for each of its `number`.
pub(crate) fn message(id: &str, parent: Option<&str>, number: i64) -> String {
    let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
    format!(
        r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"2026-03-01T10:{:02}:{:02}.000Z","message":{{"role":"user","content":"text of {id}"}}}}"#,
        number / 60,
        number % 60
    )
}

pub(crate) fn entries(session: &Session) -> Vec<Entry> {
    let query = EntryQuery { order: Order::Ascending, ..EntryQuery::default() };
    session.entries(&query, &ctx()).collect::<Result<_, _>>().unwrap()
}

/// Old ids of the entries in stored order, each with its parent's: `b2<b1`.
pub(crate) fn shape(session: &Session) -> Vec<String> {
    let names: BTreeMap<String, String> = session
        .legacy()
        .unwrap()
        .entries()
        .map(|(new, origin)| (new, origin.id.unwrap_or(format!("line {}", origin.line))))
        .collect();
    entries(session)
        .iter()
        .map(|entry| match &entry.parent_id {
            Some(parent) => format!("{}<{}", names[&entry.id], names[parent]),
            None => names[&entry.id].clone(),
        })
        .collect()
}

pub(crate) fn warnings(session: &Session) -> Vec<String> {
    let warnings = &session.legacy().unwrap().warnings;
    warnings.iter().map(|warning| format!("{}:{}", warning.line, warning.kind)).collect()
}

/// All that a session holds but lists, usage rows and its own metadata.
pub(crate) fn content(session: &Session) -> Vec<String> {
    let mut out: Vec<String> = entries(session).iter().map(|entry| entry.to_json().to_string()).collect();
    for address in session.value_addresses(None, 10_000, &ctx()).unwrap() {
        let stored = session.get_value(&address, &ctx()).unwrap().unwrap();
        out.push(format!("{address} {} {}", stored.seq, stored.value));
    }
    out.push(session.stats(&ctx()).unwrap().to_json().to_string());
    out
}

/// Dies in a chosen commit: the clock is asked once in each.
#[derive(Debug)]
pub(crate) struct DeadlyClock {
    pub(crate) left: AtomicU64,
}

impl Clock for DeadlyClock {
    fn now(&self) -> i64 {
        assert_ne!(self.left.fetch_sub(1, Ordering::SeqCst), 0, "dies here");
        1
    }
}
