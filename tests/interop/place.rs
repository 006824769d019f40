//! A folder of sessions that both programs work on, and what to compare in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use pisession::{
    BranchScan, Clock, Context, CreateOptions, Durability, IdGenerator, PathOrder, Repository,
    RepositoryOptions, Session, open_repository,
};
use serde_json::{Value, json};

use crate::peer::Peer;

pub(crate) const CWD: &str = "/workspace/interop";
pub(crate) const EPOCH: i64 = 1_750_000_000_000;

/// A folder of sessions of our own and the reference's.
pub(crate) struct Place {
    pub(crate) repository: Repository,
    clock: Arc<ToldClock>,
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(None)
    }

    /// With ids that count from 1.
    pub(crate) fn with_counting_ids() -> Self {
        Self::with(Some(Arc::new(CountingIds::default())))
    }

    fn with(ids: Option<Arc<dyn IdGenerator>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ToldClock(AtomicI64::new(EPOCH)));
        let options = RepositoryOptions {
            durability: Durability::Process,
            clock: clock.clone(),
            ids,
            ..RepositoryOptions::default()
        };
        let repository = open_repository(&format!("jsonl:{}", folder.path().display()), options).unwrap();
        Self { repository, clock, folder }
    }

    /// The time at which we act next.
    pub(crate) fn tell(&self, now: i64) {
        self.clock.0.store(now, Ordering::Relaxed);
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// A command to the reference on the session `id` here.
    pub(crate) fn on(&self, id: &str, more: Value) -> Value {
        let mut command = json!({"root": self.root(), "id": id});
        command.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        command
    }

    pub(crate) fn create(&self, id: &str) -> Session {
        let options =
            CreateOptions { id: Some(id.to_owned()), cwd: Some(CWD.to_owned()), ..CreateOptions::default() };
        self.repository.create(&options, &ctx()).unwrap()
    }

    pub(crate) fn open(&self, id: &str) -> Session {
        self.repository.open(id, &ctx()).unwrap_or_else(|error| panic!("{error:?}"))
    }

    pub(crate) fn file(&self, id: &str) -> PathBuf {
        self.repository.open_read_only(id, &ctx()).unwrap().metadata().path.clone().unwrap()
    }

    /// Both open the session, one after the other, and have the same of it.
    #[track_caller]
    pub(crate) fn agree(&self, peer: &mut Peer, id: &str) {
        let session = self.repository.open_read_only(id, &ctx()).unwrap_or_else(|error| panic!("{error:?}"));
        let text = dump(&session);
        session.close(&ctx()).unwrap();
        peer.does("open", self.on(id, json!({})));
        let compared = peer.ask("compare", self.on(id, json!({"text": text})));
        peer.does("close", self.on(id, json!({})));
        if let Err(difference) = compared {
            let file = std::fs::read(self.file(id)).unwrap();
            let file = String::from_utf8_lossy(&file);
            let end: String = file.chars().rev().take(2000).collect::<Vec<_>>().into_iter().rev().collect();
            panic!("expected is ours, actual the reference's\n{difference}\nthe file ends with\n{end}");
        }
    }
}

/// Our dump, and with it the path of each branch.
pub(crate) fn dump(session: &Session) -> String {
    let mut out = Vec::new();
    session.dump(&mut out, &ctx()).unwrap();
    let text = String::from_utf8(out).unwrap();
    let mut paths = serde_json::Map::new();
    for branch in session.branches(&ctx()).unwrap() {
        let scan = BranchScan { order: PathOrder::OldestFirst, ..BranchScan::default() };
        let entries = session.branch(&branch.name, &ctx()).unwrap().unwrap().find_entries(&scan, &ctx());
        let ids: Vec<Value> = entries.unwrap().iter().map(|entry| json!(entry.id)).collect();
        paths.insert(branch.name, ids.into());
    }
    format!("{},\n\"paths\":{}\n}}\n", text.strip_suffix("\n}\n").unwrap(), Value::from(paths))
}

pub(crate) fn ctx() -> Context {
    Context::background()
}

/// A clock that says what it was told.
#[derive(Debug)]
struct ToldClock(AtomicI64);

impl Clock for ToldClock {
    fn now(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ids that count from 1.
#[derive(Debug, Default)]
struct CountingIds(AtomicU64);

impl IdGenerator for CountingIds {
    fn next(&self, _timestamp: Option<i64>) -> String {
        format!("01977420-0000-7000-8000-{:012}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
