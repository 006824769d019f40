//! The cases: what is measured, beside what, at which sizes, and what it should come to.

use std::time::Instant;

use pisession::{
    Address, BranchScan, Context, CreateOptions, Durability, EntryQuery, Json, ListOptions, Order, Session,
    SessionReader, Value, Write,
};

use crate::data::{
    Kind, SESSION, cool, fresh, jsonl_file, legacy_file, made_session, many_sessions, message, repository,
    session_of,
};
use crate::{Failure, Took, raw};

/// One side of a case: takes the size, gives what it took.
type Side = fn(u64) -> Result<Took, Failure>;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Ours first, then what it is compared with.
    pub(crate) sides: &'static [(&'static str, Side)],
    pub(crate) sizes: &'static [u64],
    /// Whether it takes as long at every size, so that the sizes compare.
    pub(crate) per_operation: bool,
    /// Its sizes are its own and not limited by `BENCH_SIZES` one by one.
    pub(crate) fixed: bool,
    pub(crate) aim: &'static str,
}

const SIZES: &[u64] = &[1_000, 100_000, 1_000_000];

pub(crate) const ALL: &[Case] = &[
    Case {
        name: "SQLite: append 1 KiB, process",
        sides: &[
            ("ours", |size| append(Kind::Sqlite, size, Durability::Process)),
            ("raw SQLite", |size| raw::append(size, Durability::Process)),
            ("write", |size| raw::append_to_file(size, Durability::Process)),
        ],
        sizes: SIZES,
        per_operation: true,
        fixed: false,
        aim: "<= 1.3x raw SQLite; <= 1.10x smallest",
    },
    Case {
        name: "SQLite: append 1 KiB, power",
        sides: &[
            ("ours", |size| append(Kind::Sqlite, size, Durability::Power)),
            ("raw SQLite", |size| raw::append(size, Durability::Power)),
            ("write+fdatasync", |size| raw::append_to_file(size, Durability::Power)),
        ],
        sizes: SIZES,
        per_operation: true,
        fixed: false,
        aim: "<= 1.3x raw SQLite; <= 1.10x smallest",
    },
    Case {
        name: "JSONL: append 1 KiB, process",
        sides: &[
            ("ours", |size| append(Kind::Jsonl, size, Durability::Process)),
            ("write", |size| raw::append_to_file(size, Durability::Process)),
        ],
        sizes: SIZES,
        per_operation: true,
        fixed: false,
        aim: "<= 3.5x write",
    },
    Case {
        name: "JSONL: append 1 KiB, power",
        sides: &[
            ("ours", |size| append(Kind::Jsonl, size, Durability::Power)),
            ("write+fdatasync", |size| raw::append_to_file(size, Durability::Power)),
        ],
        sizes: SIZES,
        per_operation: true,
        fixed: false,
        aim: "<= 1.15x write+fdatasync",
    },
    Case {
        name: "SQLite: read-modify-write, process",
        sides: &[
            ("ours", |size| count(Kind::Sqlite, size, Durability::Process)),
            ("raw SQLite", |size| raw::count(size, Durability::Process)),
        ],
        sizes: SIZES,
        per_operation: true,
        fixed: false,
        aim: "",
    },
    Case {
        name: "JSONL: read-modify-write, process",
        sides: &[("ours", |size| count(Kind::Jsonl, size, Durability::Process))],
        sizes: SIZES,
        per_operation: true,
        fixed: false,
        aim: "",
    },
    Case {
        name: "SQLite: open",
        sides: &[("ours", |size| open(Kind::Sqlite, size)), ("raw SQLite", raw::open)],
        sizes: SIZES,
        per_operation: true,
        fixed: false,
        aim: "",
    },
    Case {
        name: "JSONL: open",
        sides: &[
            ("ours", |size| open(Kind::Jsonl, size)),
            ("read + serde_json", raw::read_and_validate_jsonl),
        ],
        sizes: SIZES,
        per_operation: false,
        fixed: false,
        aim: "<= 1.3x read + serde_json; 100,000: < 64 MiB; 1,000,000 (1.1 GiB): < 256 MiB",
    },
    Case {
        name: "JSONL: open, not in the page cache",
        sides: &[("ours", open_cold), ("read", raw::read_cold)],
        sizes: SIZES,
        per_operation: false,
        fixed: false,
        aim: "<= 1.2x read",
    },
    Case {
        name: "JSONL: compact, nine of ten dead",
        sides: &[("ours", compact), ("write+fsync", raw::write_and_sync)],
        sizes: &[10_000],
        per_operation: false,
        fixed: true,
        aim: "no more than the live bytes",
    },
    Case {
        name: "SQLite: newest 50",
        sides: &[("ours", |size| newest(Kind::Sqlite, size)), ("raw SQLite", raw::newest)],
        sizes: SIZES,
        per_operation: true,
        fixed: false,
        aim: "< 150 us",
    },
    Case {
        name: "JSONL: newest 50",
        sides: &[("ours", |size| newest(Kind::Jsonl, size))],
        sizes: SIZES,
        per_operation: true,
        fixed: false,
        aim: "",
    },
    Case {
        name: "SQLite: full scan, session",
        sides: &[("ours", |size| scan_session(Kind::Sqlite, size)), ("raw SQLite", raw::scan)],
        sizes: SIZES,
        per_operation: false,
        fixed: false,
        aim: "100,000: < 32 MiB",
    },
    Case {
        name: "SQLite: full scan, branch from the root",
        sides: &[("ours", |size| scan_branch(Kind::Sqlite, size)), ("raw SQLite", raw::scan)],
        sizes: SIZES,
        per_operation: false,
        fixed: false,
        aim: "100,000: < 32 MiB",
    },
    Case {
        name: "JSONL: full scan, session",
        sides: &[
            ("ours", |size| scan_session(Kind::Jsonl, size)),
            ("read + serde_json", raw::read_and_validate_jsonl),
        ],
        sizes: SIZES,
        per_operation: false,
        fixed: false,
        aim: "",
    },
    Case {
        name: "SQLite: list session files",
        sides: &[("ours", |size| list(Kind::Sqlite, size, false))],
        sizes: &[10_000],
        per_operation: false,
        fixed: true,
        aim: "10,000: < 2 s",
    },
    Case {
        name: "SQLite: list a container",
        sides: &[("ours", |size| list(Kind::Sqlite, size, true))],
        sizes: &[10_000],
        per_operation: false,
        fixed: true,
        aim: "10,000: < 50 ms",
    },
    Case {
        name: "JSONL: list session files",
        sides: &[("ours", |size| list(Kind::Jsonl, size, false))],
        sizes: &[10_000],
        per_operation: false,
        fixed: true,
        aim: "10,000: < 2 s",
    },
    Case {
        name: "open a version 3 file",
        sides: &[("ours", open_legacy), ("read + serde_json", raw::read_and_validate)],
        sizes: &[1_000, 100_000],
        per_operation: false,
        fixed: true,
        aim: "<= 1.3x read + serde_json; < 64 MiB",
    },
];

/// How many commits a measurement of commits makes.
pub(crate) fn commits(durability: Durability) -> u64 {
    match durability {
        Durability::Power => 300,
        Durability::Process => 4_000,
    }
}

fn session(kind: Kind, size: u64, durability: Durability, name: &str) -> Result<Session, Failure> {
    Ok(repository(kind, &session_of(kind, size, name)?, durability)?.open(SESSION, &Context::background())?)
}

fn append(kind: Kind, size: u64, durability: Durability) -> Result<Took, Failure> {
    let ctx = Context::background();
    let session = session(kind, size, durability, "append")?;
    let branch = session.branch("main", &ctx)?.ok_or("no branch")?;
    let messages = (0..commits(durability)).map(message).collect::<Result<Vec<Json>, _>>()?;
    let start = Instant::now();
    for message in &messages {
        branch.append_message(message, &ctx)?;
    }
    let took = start.elapsed();
    session.close(&ctx)?;
    Ok(Took::new(took, messages.len() as u64))
}

fn count(kind: Kind, size: u64, durability: Durability) -> Result<Took, Failure> {
    let ctx = Context::background();
    let session = session(kind, size, durability, "count")?;
    let counter: Value<u64> = Value::new("bench", "counter")?;
    let rounds = commits(durability);
    let start = Instant::now();
    for _ in 0..rounds {
        session.mutate(
            |mutator, ctx| {
                let stored = mutator.get_value(counter.address(), ctx)?;
                let count: u64 = stored.map_or(Ok(0), |stored| stored.value.read())?;
                mutator.commit(&[counter.set(&(count + 1))?], ctx)
            },
            &ctx,
        )?;
    }
    let took = start.elapsed();
    if counter.get(&session, &ctx)? != Some(rounds) {
        return Err("an update was lost".into());
    }
    Ok(Took::new(took, rounds))
}

fn open(kind: Kind, size: u64) -> Result<Took, Failure> {
    let ctx = Context::background();
    let repository = repository(kind, &made_session(kind, size)?, Durability::Process)?;
    if kind == Kind::Jsonl {
        raw::warm(&jsonl_file(size)?)?;
    }
    let rounds = if kind == Kind::Sqlite { 200 } else { 3 };
    let start = Instant::now();
    for _ in 0..rounds {
        let session = repository.open(SESSION, &ctx)?;
        session.close(&ctx)?;
    }
    Ok(Took::new(start.elapsed(), rounds))
}

fn open_cold(size: u64) -> Result<Took, Failure> {
    let ctx = Context::background();
    let path = jsonl_file(size)?;
    let repository = repository(Kind::Jsonl, &made_session(Kind::Jsonl, size)?, Durability::Process)?;
    cool(&path)?;
    let start = Instant::now();
    let session = repository.open(SESSION, &ctx)?;
    let took = start.elapsed();
    session.close(&ctx)?;
    Ok(Took::new(took, 1))
}

/// Compacts a session of `size` values of 1 KiB that were each set ten times.
fn compact(size: u64) -> Result<Took, Failure> {
    let ctx = Context::background();
    let place = fresh("compact")?;
    let repository = repository(Kind::Jsonl, &place, Durability::Process)?;
    let session = repository
        .create(&CreateOptions { cwd: Some("/bench".to_owned()), ..CreateOptions::default() }, &ctx)?;
    let mut live = 0;
    for time in 0..10 {
        live = 0;
        let numbers: Vec<u64> = (0..size).collect();
        for numbers in numbers.chunks(1_000) {
            let mut writes = Vec::with_capacity(numbers.len());
            for number in numbers {
                let value = message(number + time)?;
                live += value.as_str().len() as u64;
                writes.push(Write::SetValue(Address::new("bench", number.to_string())?, value));
            }
            session.mutate(|mutator, ctx| mutator.commit(&writes, ctx), &ctx)?;
        }
    }
    let start = Instant::now();
    let compaction = session.compact(&ctx)?;
    let took = start.elapsed();
    // Beside a value its line holds its address, its `seq` and the names of the fields.
    if compaction.after > live + 100 * size + 1_000 {
        return Err(format!("{compaction:?}, and {live} bytes are alive").into());
    }
    Ok(Took::new(took, 1))
}

fn newest(kind: Kind, size: u64) -> Result<Took, Failure> {
    let ctx = Context::background();
    let session = repository(kind, &made_session(kind, size)?, Durability::Process)?.open(SESSION, &ctx)?;
    let branch = session.branch("main", &ctx)?.ok_or("no branch")?;
    let scan = BranchScan { limit: Some(50), ..BranchScan::default() };
    let rounds = 2_000;
    let start = Instant::now();
    for _ in 0..rounds {
        if branch.find_entries(&scan, &ctx)?.len() != 50 {
            return Err("not 50 entries".into());
        }
    }
    Ok(Took::new(start.elapsed(), rounds))
}

fn scan_session(kind: Kind, size: u64) -> Result<Took, Failure> {
    let ctx = Context::background();
    let session = repository(kind, &made_session(kind, size)?, Durability::Process)?.open(SESSION, &ctx)?;
    let query = EntryQuery { order: Order::Ascending, ..EntryQuery::default() };
    consume(size, session.entries(&query, &ctx))
}

fn scan_branch(kind: Kind, size: u64) -> Result<Took, Failure> {
    let ctx = Context::background();
    let session = repository(kind, &made_session(kind, size)?, Durability::Process)?.open(SESSION, &ctx)?;
    let branch = session.branch("main", &ctx)?.ok_or("no branch")?;
    let scan = BranchScan { order: pisession::PathOrder::OldestFirst, ..BranchScan::default() };
    consume(size, branch.entries(&scan, &ctx)?)
}

fn consume(size: u64, entries: pisession::Entries) -> Result<Took, Failure> {
    let start = Instant::now();
    let mut seen = 0;
    for entry in entries {
        seen += u64::from(!entry?.payload.as_str().is_empty());
    }
    if seen != size {
        return Err(format!("{seen} of {size} entries").into());
    }
    Ok(Took::new(start.elapsed(), 1))
}

fn list(kind: Kind, size: u64, container: bool) -> Result<Took, Failure> {
    let repository = repository(kind, &many_sessions(kind, size, container)?, Durability::Process)?;
    let start = Instant::now();
    let listed = repository.list(&ListOptions::default(), &Context::background())?;
    if listed.iter().filter(|listing| listing.problem.is_none()).count() as u64 != size {
        return Err("not every session was listed".into());
    }
    Ok(Took::new(start.elapsed(), 1))
}

fn open_legacy(size: u64) -> Result<Took, Failure> {
    let path = legacy_file(size)?;
    raw::warm(&path)?;
    let start = Instant::now();
    let session = pisession::open_file(&path, &pisession::OpenOptions::default(), &Context::background())?;
    let took = start.elapsed();
    if session.stats(&Context::background())?.message_count != size {
        return Err("not every message was read".into());
    }
    Ok(Took::new(took, 1))
}
