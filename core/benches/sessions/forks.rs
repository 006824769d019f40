//! Forks, beside a copy of the file and beside copying the rows with `INSERT … SELECT`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pisession::{Context, Durability, ForkOptions, ForkPoint, ForkScope, Session, SessionReader as _};

use crate::cases::Case;
use crate::data::{Kind, SESSION, fresh, repository, session_of};
use crate::{Failure, Took, raw};

const SIZES: &[u64] = &[1_000, 100_000, 1_000_000];

pub(crate) const ALL: &[Case] = &[
    Case {
        name: "JSONL: fork, tree",
        sides: &[
            ("ours", |size| fork(Kind::Jsonl, size, &tree(), Durability::Process)),
            ("file copy", |size| copy_file(size, Durability::Process)),
        ],
        sizes: SIZES,
        per_operation: false,
        fixed: false,
        aim: "100,000: <= 2x file copy; < 64 MiB",
    },
    Case {
        name: "JSONL: fork, branch",
        sides: &[
            ("ours", |size| fork(Kind::Jsonl, size, &branch(None), Durability::Process)),
            ("file copy", |size| copy_file(size, Durability::Process)),
        ],
        sizes: SIZES,
        per_operation: false,
        fixed: false,
        aim: "100,000: <= 2x file copy; < 64 MiB",
    },
    Case {
        name: "JSONL: fork, tree, power",
        sides: &[
            ("ours", |size| fork(Kind::Jsonl, size, &tree(), Durability::Power)),
            ("file copy+fsync", |size| copy_file(size, Durability::Power)),
        ],
        sizes: SIZES,
        per_operation: false,
        fixed: false,
        aim: "",
    },
    Case {
        name: "SQLite: fork, tree",
        sides: &[
            ("ours", |size| fork(Kind::Sqlite, size, &tree(), Durability::Process)),
            ("INSERT SELECT", raw::insert_select),
        ],
        sizes: SIZES,
        per_operation: false,
        fixed: false,
        aim: "100,000: <= 2x INSERT SELECT; < 64 MiB",
    },
    Case {
        name: "SQLite: fork, branch",
        sides: &[
            ("ours", |size| fork(Kind::Sqlite, size, &branch(None), Durability::Process)),
            ("INSERT SELECT", raw::insert_select),
        ],
        sizes: SIZES,
        per_operation: false,
        fixed: false,
        aim: "100,000: <= 2x INSERT SELECT; < 64 MiB",
    },
    Case {
        name: "JSONL: fork of 5 entries",
        sides: &[("ours", |size| small_forks(Kind::Jsonl, size))],
        sizes: SIZES,
        per_operation: true,
        fixed: false,
        aim: "<= 1.1x smallest",
    },
    Case {
        name: "SQLite: fork of 5 entries",
        sides: &[("ours", |size| small_forks(Kind::Sqlite, size))],
        sizes: SIZES,
        per_operation: true,
        fixed: false,
        aim: "<= 1.1x smallest",
    },
];

fn tree() -> ForkOptions {
    ForkOptions { scope: ForkScope::Tree, ..ForkOptions::default() }
}

fn branch(entry: Option<String>) -> ForkOptions {
    let point = ForkPoint { branch: Some("main".to_owned()), entry, ..ForkPoint::default() };
    ForkOptions { scope: ForkScope::Branch(point), ..ForkOptions::default() }
}

fn source(kind: Kind, size: u64) -> Result<(PathBuf, Session), Failure> {
    let place = session_of(kind, size, "fork")?;
    let repository = repository(kind, &place, Durability::Process)?;
    let session = repository.open(SESSION, &Context::background())?;
    if let Some(path) = &session.metadata().path {
        raw::warm(path)?;
    }
    Ok((place, session))
}

fn fork(kind: Kind, size: u64, options: &ForkOptions, durability: Durability) -> Result<Took, Failure> {
    let ctx = Context::background();
    let (_, session) = source(kind, size)?;
    let destination = repository(kind, &fresh("forked")?, durability)?;
    let start = Instant::now();
    let fork = destination.fork(&session, options, &ctx)?.session;
    let took = start.elapsed();
    if fork.stats(&ctx)?.message_count != size {
        return Err("not every message was copied".into());
    }
    Ok(Took::new(took, 1))
}

fn small_forks(kind: Kind, size: u64) -> Result<Took, Failure> {
    let ctx = Context::background();
    let (_, session) = source(kind, size)?;
    let main = session.branch("main", &ctx)?.ok_or("no branch")?;
    let scan = pisession::BranchScan {
        order: pisession::PathOrder::OldestFirst,
        limit: Some(5),
        ..pisession::BranchScan::default()
    };
    let fifth = main.find_entries(&scan, &ctx)?.pop().ok_or("no entry")?.id;
    let options = branch(Some(fifth));
    let destination = repository(kind, &fresh("forked")?, Durability::Process)?;
    let rounds = 1_000;
    let start = Instant::now();
    for _ in 0..rounds {
        let fork = destination.fork(&session, &options, &ctx)?.session;
        fork.close(&ctx)?;
    }
    Ok(Took::new(start.elapsed(), rounds))
}

fn copy_file(size: u64, durability: Durability) -> Result<Took, Failure> {
    let from = session_file(&session_of(Kind::Jsonl, size, "fork")?)?;
    raw::warm(&from)?;
    let to = fresh("forked")?.join("copy");
    let start = Instant::now();
    fs::copy(from, &to)?;
    if durability == Durability::Power {
        fs::File::open(&to)?.sync_all()?;
    }
    Ok(Took::new(start.elapsed(), 1))
}

fn session_file(place: &Path) -> Result<PathBuf, Failure> {
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        if path.is_dir() {
            return session_file(&path);
        }
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            return Ok(path);
        }
    }
    Err("no session file".into())
}
