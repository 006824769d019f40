//! What the tests of every backend share: where sessions are kept, a clock and ids that count, and waiting.

#![allow(dead_code)] // each test program uses its part

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pisession::{
    Address, Clock, Context, Error, IdGenerator, Json, Mutation, Repository, RepositoryOptions, Session,
    SessionReader, Write, open_repository,
};

/// The backends; `{folder}` stands for an empty folder of the test's own.
pub(crate) const URIS: &[&str] =
    &["memory:", "jsonl:{folder}/lines", "sqlite:{folder}/sessions", "sqlite:{folder}/all.sqlite"];

/// A repository in a place of its own, which goes with it.
pub(crate) struct Place {
    pub(crate) repository: Repository,
    _folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new(uri: &str, options: RepositoryOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let uri = uri.replace("{folder}", folder.path().to_str().unwrap());
        let repository = open_repository(&uri, options).unwrap_or_else(|error| panic!("{uri}: {error:?}"));
        Self { repository, _folder: folder }
    }
}

/// Runs `test` on a repository of each backend with default options.
pub(crate) fn on_every_backend(test: impl Fn(&Repository)) {
    for uri in URIS {
        eprintln!("backend {uri}");
        test(&Place::new(uri, RepositoryOptions::default()).repository);
    }
}

/// Runs `test` on a fresh session of each backend.
pub(crate) fn on_every_session(test: impl Fn(&Session)) {
    on_every_backend(|repository| {
        test(&repository.create(&Default::default(), &background()).unwrap());
    });
}

/// A clock that counts: the first call gives 1750000001000, each later one a second more.
#[derive(Debug)]
pub(crate) struct CountingClock(AtomicI64);

impl Default for CountingClock {
    fn default() -> Self {
        Self(AtomicI64::new(1_750_000_000_000))
    }
}

impl Clock for CountingClock {
    fn now(&self) -> i64 {
        self.0.fetch_add(1000, Ordering::Relaxed) + 1000
    }
}

/// A clock that says what it was told.
#[derive(Debug, Default)]
pub(crate) struct ToldClock(AtomicI64);

impl ToldClock {
    pub(crate) fn tell(&self, millis: i64) {
        self.0.store(millis, Ordering::Relaxed);
    }
}

impl Clock for ToldClock {
    fn now(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ids that count from 1.
#[derive(Debug, Default)]
pub(crate) struct CountingIds(AtomicU64);

impl IdGenerator for CountingIds {
    fn next(&self, _timestamp: Option<i64>) -> String {
        format!("01977420-0000-7000-8000-{:012}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Options with a clock and ids that count.
pub(crate) fn counting_options() -> RepositoryOptions {
    RepositoryOptions {
        clock: Arc::new(CountingClock::default()),
        ids: Some(Arc::new(CountingIds::default())),
        ..RepositoryOptions::default()
    }
}

pub(crate) fn background() -> Context {
    Context::background()
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn address(key: &str) -> Address {
    Address::new("app", key).unwrap()
}

pub(crate) fn user(text: &str) -> Json {
    json(&format!("{{\"role\":\"user\",\"content\":{}}}", Json::string(text)))
}

/// Waits until `what` holds, at most half a minute.
pub(crate) fn wait_until(mut what: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !what() {
        assert!(Instant::now() < end, "the condition did not come about");
        std::thread::yield_now();
    }
}

/// A file of the shared test material; none, with a note, where that is not there.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("PISESSION_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")), PathBuf::from);
    let found = root.join(path);
    if found.exists() {
        return Some(found);
    }
    let said = format!(
        "\nSKIPPED: {} is not there; set PISESSION_SHARED to the shared test material\n",
        found.display()
    );
    // Past the capture of the test harness: `tests/run` shows and counts it.
    std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes()).unwrap();
    None
}

pub(crate) fn set(key: &str, number: u64) -> Write {
    Write::SetValue(address(key), Json::of(&number).unwrap())
}

pub(crate) fn number(reader: &impl SessionReader, key: &str) -> Option<u64> {
    reader.get_value(&address(key), &background()).unwrap().map(|stored| stored.value.read().unwrap())
}

/// Reads, decides and writes: one more than what is there.
pub(crate) fn increment(session: &Session) -> Result<(), Error> {
    session.mutate(
        |mutator, ctx| {
            let next = number(mutator, "count").unwrap_or(0) + 1;
            mutator.commit(&[set("count", next)], ctx).map(drop)
        },
        &background(),
    )
}

/// A mutation that neither this thread nor any task began or used: others wait for it like strangers.
pub(crate) fn begun_elsewhere(session: &Session) -> Mutation {
    std::thread::scope(|threads| threads.spawn(|| session.begin_mutation(&background())).join())
        .unwrap()
        .unwrap()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}
