//! Writes commits, saying which were acknowledged, until it is killed; then checks what is left.
//! `tests/crash/soak.py` drives it.
//!
//! ```text
//! crash_writer write URI ID power|process    prints "NUMBER FIRST_SEQ FIRST_ID" after each commit
//! crash_writer check URI ID                  reads such lines; prints "ok COMMITS" or fails
//! crash_writer fork URI ID INTO power|process
//!                                            forks the session into INTO as "ID-fork", deletes the fork, and so
//!                                            on; prints a line after each
//! crash_writer check-fork URI ID INTO        the fork is whole or not there, and its id can be used
//! ```
//!
//! Every commit is whole in itself: it says how many entries it has, and leaves a trace in each kind of data
//! (entries, branch tip, values, a list, the ledger). A commit of which one trace is there and another is
//! missing is torn.

use std::error::Error as StdError;
use std::io::{self, BufRead, Write as _};

use pisession::{
    Address, BranchScan, Context, CreateOptions, Durability, Error, ErrorKind, ForkOptions, ForkScope, Json,
    ListRead, Mutator, NewEntry, NewUsage, Order, PathOrder, RepositoryOptions, Session, SessionReader,
    Usage, UsageScan, Value, ValueList, Write, open_repository,
};
use serde::{Deserialize, Serialize};

type Outcome<T> = Result<T, Box<dyn StdError>>;

/// Where a commit leaves its traces.
struct Traces {
    count: Value<u64>,
    elements: ValueList<u64>,
    tip: Value<Option<String>>,
}

impl Traces {
    fn new() -> Result<Self, Error> {
        Ok(Self {
            count: Value::new("crash", "commits")?,
            elements: ValueList::new("crash", "elements")?,
            tip: Value::new("pi.branch.tip", "main")?,
        })
    }

    fn of_commit(number: u64) -> Result<Value<CommitTrace>, Error> {
        Value::new("crash.commit", number.to_string())
    }
}

/// What a commit says of itself in a value.
#[derive(Serialize, Deserialize)]
struct CommitTrace {
    entry_ids: Vec<String>,
    usage_id: String,
}

/// What an entry says of its commit.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct EntryTrace {
    commit: u64,
    index: u64,
    filler: String,
}

/// A line that the writer printed: this commit was acknowledged.
struct Acknowledged {
    number: u64,
    first_seq: u64,
    first_id: String,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["write", uri, id, "power"] => write(uri, id, Durability::Power),
        ["write", uri, id, "process"] => write(uri, id, Durability::Process),
        ["check", uri, id] => check(uri, id),
        ["fork", uri, id, into, "power"] => fork(uri, id, into, Durability::Power),
        ["fork", uri, id, into, "process"] => fork(uri, id, into, Durability::Process),
        ["check-fork", uri, id, into] => check_fork(uri, id, into),
        _ => Err("usage: crash_writer write|check|fork|check-fork, see its first lines".into()),
    }
}

fn write(uri: &str, id: &str, durability: Durability) -> Outcome<()> {
    let ctx = Context::background();
    let repository = open_repository(uri, RepositoryOptions { durability, ..Default::default() })?;
    let session = match repository.open(id, &ctx) {
        Err(error) if error == ErrorKind::UnknownSession => {
            repository.create(&CreateOptions { id: Some(id.to_owned()), ..Default::default() }, &ctx)?
        }
        other => other?,
    };
    if session.branch("main", &ctx)?.is_none() {
        session.create_branch("main", None, &ctx)?;
    }
    let traces = Traces::new()?;
    let mut out = io::stdout();
    loop {
        let made = session.mutate(|mutator, ctx| one_commit(mutator, &traces, ctx), &ctx)?;
        writeln!(out, "{} {} {}", made.number, made.first_seq, made.first_id)?;
        out.flush()?;
    }
}

/// The next commit: one to five entries, and the other traces.
fn one_commit(mutator: &Mutator, traces: &Traces, ctx: &Context) -> Result<Acknowledged, Error> {
    let number = traces.count.get(mutator, ctx)?.unwrap_or(0);
    let mut parent = traces.tip.get(mutator, ctx)?.flatten();
    let mut entry_ids = Vec::new();
    let mut writes = Vec::new();
    for index in 0..=number % 5 {
        let id = mutator.id_generator().next(None);
        let filler = "x".repeat(usize::try_from(number * 37 % 1500).unwrap_or(0));
        let data = Json::of(&EntryTrace { commit: number, index, filler })?;
        writes.push(Write::Entry(NewEntry::custom(&id, parent.as_deref(), "crash", Some(&data))));
        writes.push(traces.elements.append(&number)?);
        entry_ids.push(id.clone());
        parent = Some(id);
    }
    let usage_id = mutator.id_generator().next(None);
    let first_id = entry_ids[0].clone();
    let usage = Usage { input: 1.0, total_tokens: 1.0, ..Usage::default() };
    writes.push(Write::Usage(NewUsage::new(&usage_id, &usage, Some(&first_id))));
    writes.push(Traces::of_commit(number)?.set(&CommitTrace { entry_ids, usage_id })?);
    writes.push(traces.count.set(&(number + 1))?);
    writes.push(traces.tip.set(&parent)?);
    let result = mutator.commit(&writes, ctx)?;
    Ok(Acknowledged { number, first_seq: result.first_seq, first_id })
}

fn check(uri: &str, id: &str) -> Outcome<()> {
    let ctx = Context::background();
    let acknowledged = read_acknowledged(io::stdin().lock())?;
    let session = match open_repository(uri, Default::default())?.open(id, &ctx) {
        // Killed before `create` had returned: nothing was promised.
        Err(error) if error == ErrorKind::UnknownSession && acknowledged.is_empty() => {
            println!("ok 0");
            return Ok(());
        }
        other => other?,
    };
    let traces = Traces::new()?;
    let commits = traces.count.get(&session, &ctx)?.unwrap_or(0);
    if let Some(lost) = acknowledged.iter().find(|one| one.number >= commits) {
        return Err(format!("commit {} was acknowledged and is gone: {commits} are left", lost.number).into());
    }
    let path = check_commits(&session, commits, &ctx)?;
    check_whole(&session, &path, commits, &ctx)?;
    check_ledger(&session, commits, &ctx)?;
    for one in &acknowledged {
        let entry = session.get_entry(&one.first_id, &ctx)?;
        if entry.map(|entry| entry.seq) != Some(one.first_seq) {
            return Err(format!("commit {} has not the entry it was acknowledged with", one.number).into());
        }
    }
    session.close(&ctx)?;
    println!("ok {commits}");
    Ok(())
}

fn read_acknowledged(lines: impl BufRead) -> Outcome<Vec<Acknowledged>> {
    let mut read = Vec::new();
    for line in lines.lines() {
        let line = line?;
        let mut words = line.split(' ');
        let (Some(number), Some(first_seq), Some(first_id)) = (words.next(), words.next(), words.next())
        else {
            return Err(format!("'{line}' is no acknowledgement").into());
        };
        let first_id = first_id.to_owned();
        read.push(Acknowledged { number: number.parse()?, first_seq: first_seq.parse()?, first_id });
    }
    Ok(read)
}

/// Each commit has every trace it speaks of; gives the ids of all entries, in order.
fn check_commits(session: &Session, commits: u64, ctx: &Context) -> Outcome<Vec<String>> {
    let mut path: Vec<String> = Vec::new();
    for number in 0..commits {
        let torn = |what: &str| format!("commit {number} is torn: {what}");
        let trace =
            Traces::of_commit(number)?.get(session, ctx)?.ok_or_else(|| torn("its value is missing"))?;
        if trace.entry_ids.len() as u64 != number % 5 + 1 {
            return Err(torn("its value names another number of entries").into());
        }
        for (index, id) in (0..).zip(&trace.entry_ids) {
            let entry = session.get_entry(id, ctx)?.ok_or_else(|| torn("an entry is missing"))?;
            if entry.parent_id.as_ref() != path.last() {
                return Err(torn("an entry hangs elsewhere").into());
            }
            let data = Json::parse(entry.data().ok_or_else(|| torn("an entry has no data"))?)?;
            let data: EntryTrace = data.read()?;
            let whole = data.filler.len() as u64 == number * 37 % 1500;
            if (data.commit, data.index, whole) != (number, index, true) {
                return Err(torn("an entry has other data").into());
            }
            path.push(id.clone());
        }
    }
    Ok(path)
}

/// The session holds what its commits speak of, and nothing else.
fn check_whole(session: &Session, path: &[String], commits: u64, ctx: &Context) -> Outcome<()> {
    let main = session.branch("main", ctx)?;
    let oldest_first = BranchScan { order: PathOrder::OldestFirst, ..Default::default() };
    let on_branch: Vec<String> = match &main {
        Some(main) => main.find_entries(&oldest_first, ctx)?.into_iter().map(|entry| entry.id).collect(),
        None => Vec::new(),
    };
    if on_branch != path {
        return Err(format!("main has {} entries, the commits {}", on_branch.len(), path.len()).into());
    }
    let entries = session.find_entries(&Default::default(), ctx)?.len();
    if entries != path.len() {
        return Err(format!("the session has {entries} entries, the commits {}", path.len()).into());
    }
    let elements = elements_of(session, ctx)?;
    let expected: Vec<u64> = (0..commits).flat_map(|n| (0..=n % 5).map(move |_| n)).collect();
    if elements != expected {
        return Err(
            format!("the list has {} elements, the commits {}", elements.len(), expected.len()).into()
        );
    }
    Ok(())
}

fn check_ledger(session: &Session, rows_expected: u64, ctx: &Context) -> Outcome<()> {
    let rows = session.scan_usage(&UsageScan::default(), ctx)?.len() as u64;
    let input = session.stats(ctx)?.usage.input;
    if (rows, input) != (rows_expected, rows_expected as f64) {
        return Err(format!("the ledger has {rows} rows of {input}, expected {rows_expected}").into());
    }
    Ok(())
}

fn fork_options(id: &str) -> ForkOptions {
    ForkOptions { scope: ForkScope::Tree, id: Some(format!("{id}-fork")), ..ForkOptions::default() }
}

fn fork(uri: &str, id: &str, into: &str, durability: Durability) -> Outcome<()> {
    let ctx = Context::background();
    let options = fork_options(id);
    let source = open_repository(uri, Default::default())?;
    let mut out = io::stdout();
    loop {
        // Opened anew: what the last one left is met where it is cleared away.
        let repository = open_repository(into, RepositoryOptions { durability, ..Default::default() })?;
        let made = repository.fork((&source, id), &options, &ctx)?.session;
        made.close(&ctx)?;
        repository.delete(made.id(), &ctx)?;
        repository.close(&ctx)?;
        writeln!(out, "forked")?;
        out.flush()?;
    }
}

/// After a kill: the fork is there whole or not at all, and its id can be used at once.
fn check_fork(uri: &str, id: &str, into: &str) -> Outcome<()> {
    let ctx = Context::background();
    let source = open_repository(uri, Default::default())?;
    let repository = open_repository(into, Default::default())?;
    let options = fork_options(id);
    let fork_id = format!("{id}-fork");
    let left = match repository.open(&fork_id, &ctx) {
        Err(error) if error == ErrorKind::UnknownSession => "nothing",
        other => {
            check_forked(&other?, &ctx)?;
            repository.delete(&fork_id, &ctx)?;
            "whole"
        }
    };
    let again = repository.fork((&source, id), &options, &ctx)?.session;
    check_forked(&again, &ctx)?;
    repository.delete(&fork_id, &ctx)?;
    let problems = repository.list(&Default::default(), &ctx)?;
    if let Some(problem) = problems.iter().find_map(|listing| listing.problem.as_ref()) {
        return Err(format!("the listing names a problem: {problem}").into());
    }
    repository.close(&ctx)?;
    println!("ok {left}");
    Ok(())
}

fn check_forked(fork: &Session, ctx: &Context) -> Outcome<()> {
    let commits = Traces::new()?.count.get(fork, ctx)?.unwrap_or(0);
    let path = check_commits(fork, commits, ctx)?;
    check_whole(fork, &path, commits, ctx)?;
    check_ledger(fork, 0, ctx)?;
    Ok(fork.close(ctx)?)
}

fn elements_of(session: &Session, ctx: &Context) -> Outcome<Vec<u64>> {
    let list: ValueList<u64> = Traces::new()?.elements;
    let address: &Address = list.address();
    let mut elements = Vec::new();
    let mut cursor = None;
    loop {
        let read = ListRead { cursor, order: Order::Ascending, ..Default::default() };
        let page = session.read_list(address, &read, ctx)?;
        let Some(last) = page.last() else { return Ok(elements) };
        cursor = Some(last.seq);
        for element in &page {
            elements.push(element.value.read()?);
        }
    }
}
