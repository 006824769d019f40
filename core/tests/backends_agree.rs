//! Whatever is committed and asked, every backend answers the same, `seq` included.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pisession::{
    Address, BranchScan, Clock, Context, CreateOptions, Durability, EntryQuery, EntryType, Error, Json,
    ListRead, NewEntry, NewUsage, Order, PathOrder, RepositoryOptions, Session, SessionReader as _, Usage,
    UsageScan, Write, open_repository,
};
use proptest::prelude::*;

#[derive(Debug, Default)]
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// What happens to a session. Small numbers name ids, so that they meet.
#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<Change>),
    Read(Question),
}

#[derive(Debug, Clone)]
enum Change {
    Entry { id: u8, parent: Option<u8>, kind: u8 },
    Usage { id: u8, input: f64, reasoning: Option<f64> },
    Set { address: u8, text: u8 },
    Tip { branch: u8, entry: Option<u8> },
    Delete { address: u8 },
    Append { address: u8, text: u8 },
    DeleteList { address: u8 },
}

#[derive(Debug, Clone)]
enum Question {
    Entries(Vec<u8>),
    Path(u8, BranchScan),
    Session(EntryQuery),
    Usage(UsageScan),
    List(u8, ListRead),
    Values { address: u8, prefix: usize },
    Addresses { after: Option<u8>, limit: usize },
}

fn id(n: u8) -> String {
    format!("e{n}")
}

/// Addresses that sort in more than one way, and share prefixes.
fn address(n: u8) -> Address {
    let keys = ["", "a", "ab", "a\u{e9}", "a\u{ffff}", "a\u{10000}", "a\u{10ffff}", "b", "~"];
    let namespaces = ["app", "app.x", "z\u{10000}", "z\u{ffff}"];
    let (n, m) = (usize::from(n) % keys.len(), usize::from(n) / keys.len());
    Address::new(namespaces[m % namespaces.len()], keys[n]).unwrap()
}

fn write(change: &Change) -> Write {
    let text = |n: u8| {
        Json::parse(format!("{{\"n\" : {n}, \"text\":\"\\ud800 {}\"}}", "é".repeat(n.into()))).unwrap()
    };
    match change {
        Change::Entry { id: n, parent, kind } => {
            let parent = parent.map(id);
            let parent = parent.as_deref();
            let entry = match kind % 6 {
                0..=2 => NewEntry::message(id(*n), parent, &text(*n)),
                3 => NewEntry::custom(id(*n), parent, "x", None),
                4 => NewEntry::custom(id(*n), parent, "y", Some(&text(*n))),
                _ => NewEntry::with_payload(
                    id(*n),
                    parent,
                    EntryType::BranchSummary,
                    None,
                    Json::parse(r#"{"fromId":null,"summary":"s","fromHook":false}"#).unwrap(),
                )
                .unwrap(),
            };
            Write::Entry(entry)
        }
        Change::Usage { id: n, input, reasoning } => {
            let usage = Usage { input: *input, reasoning: *reasoning, ..Usage::default() };
            Write::Usage(NewUsage::new(id(*n), &usage, None))
        }
        Change::Set { address: n, text: t } => Write::SetValue(address(*n), text(*t)),
        Change::Tip { branch, entry } => Write::SetValue(
            Address::new("pi.branch.tip", format!("b{branch}")).unwrap(),
            entry.map_or_else(Json::null, |entry| Json::string(&id(entry))),
        ),
        Change::Delete { address: n } => Write::DeleteValue(address(*n)),
        Change::Append { address: n, text: t } => Write::AppendList(address(*n), text(*t)),
        Change::DeleteList { address: n } => Write::DeleteList(address(*n)),
    }
}

/// The changes with most ids new and most parents and tips known, so that most commits are made.
fn steered(changes: &[Change], known: &[u8]) -> Vec<Change> {
    let mut known = known.to_vec();
    let existing = |known: &[u8], n: u8| {
        if n.is_multiple_of(8) || known.is_empty() { n } else { known[usize::from(n) % known.len()] }
    };
    let mut steered = Vec::new();
    for change in changes {
        let mut change = change.clone();
        match &mut change {
            Change::Entry { id, parent, .. } => {
                *parent = if known.is_empty() { None } else { parent.map(|n| existing(&known, n)) };
                if !id.is_multiple_of(8) {
                    *id = known.iter().max().map_or(0, |last| last + 1);
                }
                known.push(*id);
            }
            Change::Tip { entry, .. } => *entry = entry.map(|n| existing(&known, n)),
            _ => {}
        }
        steered.push(change);
    }
    steered
}

fn ctx() -> Context {
    Context::background()
}

/// What the session says, as text; an error by its kind.
fn answer(session: &Session, question: &Question) -> String {
    fn said<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
        match result {
            Ok(value) => format!("{value:?}"),
            Err(error) => error.kind().name().to_owned(),
        }
    }
    match question {
        Question::Entries(ids) => {
            let ids: Vec<String> = ids.iter().map(|n| id(*n)).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            said(session.get_entries(&ids, &ctx()))
        }
        Question::Path(start, scan) => {
            let whole = said(session.scan_branch(&id(*start), scan, &ctx()));
            whole + &said(session.scan_branch_structure(&id(*start), scan, &ctx()))
        }
        Question::Session(query) => said(session.find_entries(query, &ctx())),
        Question::Usage(scan) => said(session.scan_usage(scan, &ctx())),
        Question::List(n, read) => said(session.read_list(&address(*n), read, &ctx())),
        Question::Values { address: n, prefix } => {
            let address = address(*n);
            let prefix: String = address.key().chars().take(*prefix).collect();
            let prefix = Address::new(address.namespace(), prefix).unwrap();
            said(session.get_value(&address, &ctx())) + &said(session.scan_values(&prefix, &ctx()))
        }
        Question::Addresses { after, limit } => {
            let after = after.map(address);
            let values = said(session.value_addresses(after.as_ref(), *limit, &ctx()));
            values + &said(session.list_addresses(after.as_ref(), *limit, &ctx()))
        }
    }
}

/// Everything a session holds.
fn dump(session: &Session) -> Vec<String> {
    let all = [
        Question::Session(EntryQuery::default()),
        Question::Usage(UsageScan::default()),
        Question::Addresses { after: None, limit: 1000 },
    ];
    let mut said: Vec<String> = all.iter().map(|question| answer(session, question)).collect();
    for n in 0..36 {
        said.push(answer(session, &Question::List(n, ListRead::default())));
        said.push(answer(session, &Question::Values { address: n, prefix: 0 }));
    }
    for n in 0..60 {
        said.push(answer(session, &Question::Path(n, BranchScan::default())));
    }
    said.push(format!("{:?} {:?}", session.stats(&ctx()), session.next_seq(&ctx())));
    said.push(format!("{:?}", session.branches(&ctx())));
    said
}

fn change() -> impl Strategy<Value = Change> {
    let id = 0..24u8;
    prop_oneof![
        6 => (id.clone(), prop::option::weighted(0.9, id.clone()), any::<u8>())
            .prop_map(|(id, parent, kind)| Change::Entry { id, parent, kind }),
        2 => (200..255u8, prop_oneof![0.0..10.0, Just(1e308), Just(0.1)], prop::option::of(0.0..1.0))
            .prop_map(|(id, input, reasoning)| Change::Usage { id, input, reasoning }),
        2 => (0..36u8, any::<u8>()).prop_map(|(address, text)| Change::Set { address, text }),
        1 => (0..2u8, prop::option::of(id)).prop_map(|(branch, entry)| Change::Tip { branch, entry }),
        1 => (0..36u8).prop_map(|address| Change::Delete { address }),
        2 => (0..6u8, any::<u8>()).prop_map(|(address, text)| Change::Append { address, text }),
        1 => (0..6u8).prop_map(|address| Change::DeleteList { address }),
    ]
}

fn kind() -> impl Strategy<Value = Option<EntryType>> {
    prop::option::of(prop::sample::select(EntryType::ALL.to_vec()))
}

fn custom_type() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.3, prop::sample::select(vec!["x".to_owned(), "y".to_owned(), "z".to_owned()]))
}

fn order() -> impl Strategy<Value = Order> {
    prop::sample::select(vec![Order::Ascending, Order::Descending])
}

fn seq() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![0..60u64, Just(1 << 40), Just(u64::MAX)])
}

fn limit() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![0..5u64, Just(u64::MAX)])
}

fn question() -> impl Strategy<Value = Question> {
    let path = (
        0..60u8,
        any::<bool>(),
        kind(),
        prop::option::weighted(0.3, 0..60u8),
        kind(),
        custom_type(),
        seq(),
        limit(),
    )
        .prop_map(|(start, newest, stop_at_type, stop, entry_type, custom_type, cursor, limit)| {
            let order = if newest { PathOrder::NewestFirst } else { PathOrder::OldestFirst };
            let stop_at_id = stop.map(id);
            Question::Path(
                start,
                BranchScan { order, stop_at_type, stop_at_id, entry_type, custom_type, cursor, limit },
            )
        });
    let session = (kind(), custom_type(), seq(), seq(), seq(), order(), limit()).prop_map(
        |(entry_type, custom_type, from_seq, to_seq, cursor, order, limit)| {
            Question::Session(EntryQuery { entry_type, custom_type, from_seq, to_seq, cursor, order, limit })
        },
    );
    prop_oneof![
        1 => prop::collection::vec(0..60u8, 0..6).prop_map(Question::Entries),
        4 => path,
        2 => session,
        1 => (seq(), seq(), order(), limit()).prop_map(|(from_seq, to_seq, order, limit)| {
            Question::Usage(UsageScan { from_seq, to_seq, order, limit })
        }),
        1 => (0..6u8, seq(), order(), 0..5u64)
            .prop_map(|(n, cursor, order, limit)| Question::List(n, ListRead { cursor, order, limit })),
        1 => (0..36u8, 0..3usize).prop_map(|(address, prefix)| Question::Values { address, prefix }),
        1 => (prop::option::of(0..36u8), 0..5usize)
            .prop_map(|(after, limit)| Question::Addresses { after, limit }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::collection::vec(change(), 0..4).prop_map(Step::Commit),
        2 => question().prop_map(Step::Read),
    ]
}

/// A session on one backend, with a clock of its own.
fn session_at(uri: &str) -> (pisession::Repository, Session) {
    let options = RepositoryOptions {
        durability: Durability::Process,
        clock: Arc::new(Ticking::default()),
        ..RepositoryOptions::default()
    };
    let repository = open_repository(uri, options).unwrap();
    let create = CreateOptions { id: Some("s".to_owned()), ..CreateOptions::default() };
    let session = repository.create(&create, &ctx()).unwrap();
    (repository, session)
}

fn commit(session: &Session, changes: &[Change]) -> String {
    let writes: Vec<Write> = changes.iter().map(write).collect();
    match session.mutate(|mutator, ctx| mutator.commit(&writes, ctx), &ctx()) {
        Ok(done) => format!("{done:?}"),
        Err(error) => Error::kind(&error).name().to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_backend_gives_the_same_answers(steps in prop::collection::vec(step(), 1..80)) {
        let folder = tempfile::tempdir().unwrap();
        let (_kept, memory) = session_at("memory:");
        let others: Vec<(pisession::Repository, Session)> = ["files", "container.db"]
            .into_iter()
            .map(|name| session_at(&format!("sqlite:{}", folder.path().join(name).display())))
            .collect();
        let mut known = Vec::new();
        for step in &steps {
            for (repository, other) in &others {
                let (expected, found) = match step {
                    Step::Read(question) => (answer(&memory, question), answer(other, question)),
                    // Committed to memory once, below.
                    Step::Commit(_) => break,
                };
                prop_assert_eq!(&found, &expected, "{:?} on {}", step, repository.uri());
            }
            if let Step::Commit(changes) = step {
                let changes = &steered(changes, &known);
                let expected = commit(&memory, changes);
                if expected.starts_with("CommitResult") {
                    known.extend(changes.iter().filter_map(|change| match change {
                        Change::Entry { id, .. } => Some(*id),
                        _ => None,
                    }));
                }
                for (repository, other) in &others {
                    prop_assert_eq!(&commit(other, changes), &expected, "{:?} on {}", step, repository.uri());
                }
            }
        }
        let expected = dump(&memory);
        for (repository, other) in others {
            prop_assert_eq!(&dump(&other), &expected, "{}", repository.uri());
            other.close(&ctx()).unwrap();
            let read = repository.open_read_only("s", &ctx()).unwrap();
            prop_assert_eq!(&dump(&read), &expected, "{} read only", repository.uri());
            read.close(&ctx()).unwrap();
            let again = repository.open("s", &ctx()).unwrap();
            prop_assert_eq!(&dump(&again), &expected, "{} after reopening", repository.uri());
        }
    }
}
