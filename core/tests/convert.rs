//! Converting: a session is the same in its new place, whatever keeps it there, and once is enough.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use pisession::{
    Address, CheckDepth, CheckOptions, Context, Converted, CreateOptions, ErrorKind, Json, NewEntry,
    NewUsage, Repository, RepositoryOptions, Session, Usage, Write, convert_repository, convert_session,
    open_repository,
};
use proptest::prelude::*;
use support::{Place, URIS, address, background, json, user};

fn options(id: &str) -> CreateOptions {
    CreateOptions {
        id: Some(id.to_owned()),
        cwd: Some("/home/ada".to_owned()),
        parent_session_id: Some("parent".to_owned()),
        legacy_parent_session_path: Some("/old/parent.jsonl".to_owned()),
        created_at: Some(1_700_000_000_123),
    }
}

fn dump(session: &Session) -> String {
    let mut out = Vec::new();
    session.dump(&mut out, &background()).unwrap();
    String::from_utf8(out).unwrap()
}

fn convert(session: &Session, into: &Repository) -> pisession::Result<bool> {
    Ok(convert_session(session, into, &mut |_| (), &background())?.made)
}

fn assert_sound(session: &Session, what: &str) {
    let options = CheckOptions { depth: CheckDepth::Full, ..Default::default() };
    let findings = session.check_with(&options, &mut |_| (), &background()).unwrap();
    assert!(findings.is_empty(), "{what}: {findings:?}");
}

/// One write of a random session; entries and rows get ids by their number.
#[derive(Debug, Clone)]
enum Step {
    Message(prop::sample::Index),
    Custom(prop::sample::Index, String),
    Tip(prop::sample::Index),
    Usage(f64),
    Set(u8, String),
    Operation(u8),
    Delete(u8),
    Append(u8),
    DeleteList(u8),
    Label(prop::sample::Index),
    Name(String),
}

fn step() -> impl Strategy<Value = Step> {
    let at = || any::<prop::sample::Index>();
    prop_oneof![
        4 => at().prop_map(Step::Message),
        1 => (at(), "\\PC{0,8}").prop_map(|(at, text)| Step::Custom(at, text)),
        2 => at().prop_map(Step::Tip),
        1 => any::<f64>().prop_filter("a number", |number| number.is_finite()).prop_map(Step::Usage),
        2 => (0..4u8, "\\PC{0,12}").prop_map(|(key, text)| Step::Set(key, text)),
        1 => (0..3u8).prop_map(Step::Operation),
        1 => (0..4u8).prop_map(Step::Delete),
        2 => (0..3u8).prop_map(Step::Append),
        1 => (0..3u8).prop_map(Step::DeleteList),
        1 => at().prop_map(Step::Label),
        1 => "\\PC{0,8}".prop_map(Step::Name),
    ]
}

fn run(session: &Session, commits: &[Vec<Step>]) {
    let ctx = background();
    session.create_branch("main", None, &ctx).unwrap();
    let mut ids: Vec<String> = Vec::new();
    for commit in commits {
        let mut writes = Vec::new();
        for step in commit {
            let parent = |at: &prop::sample::Index| {
                if ids.is_empty() { None } else { Some(ids[at.index(ids.len())].clone()) }
            };
            match step {
                Step::Message(at) => {
                    let (id, parent) = (format!("entry {}", ids.len()), parent(at));
                    writes.push(Write::Entry(NewEntry::message(&id, parent.as_deref(), &user("text"))));
                    ids.push(id);
                }
                Step::Custom(at, kind) => {
                    let (id, parent) = (format!("entry {}", ids.len()), parent(at));
                    writes.push(Write::Entry(NewEntry::custom(&id, parent.as_deref(), kind, None)));
                    ids.push(id);
                }
                Step::Tip(at) => {
                    let tip = parent(at).map_or_else(Json::null, |id| Json::string(&id));
                    writes.push(Write::SetValue(Address::new("pi.branch.tip", "main").unwrap(), tip));
                }
                Step::Usage(input) => {
                    let usage = Usage { input: *input, reasoning: Some(1.0), ..Default::default() };
                    let id =
                        format!("usage {}", session.next_seq(&ctx).unwrap() * 1000 + writes.len() as u64);
                    writes.push(Write::Usage(NewUsage::new(id, &usage, None)));
                }
                Step::Set(key, text) => {
                    writes.push(Write::SetValue(address(&key.to_string()), Json::string(text)))
                }
                Step::Operation(key) => {
                    let at = Address::new("pi.op.state", format!("op{key}")).unwrap();
                    writes.push(Write::SetValue(at, json("{\"state\":1e400}")));
                }
                Step::Delete(key) => writes.push(Write::DeleteValue(address(&key.to_string()))),
                Step::Append(key) => writes.push(Write::AppendList(address(&key.to_string()), json("[ 1 ]"))),
                Step::DeleteList(key) => writes.push(Write::DeleteList(address(&key.to_string()))),
                Step::Label(at) => {
                    if let Some(id) = parent(at) {
                        let at = Address::new("pi.entry.label", id).unwrap();
                        writes.push(Write::SetValue(at, Json::string("label")));
                    }
                }
                Step::Name(name) => {
                    writes.push(Write::SetValue(
                        Address::new("pi.session.name", "").unwrap(),
                        Json::string(name),
                    ));
                }
            }
        }
        session.mutate(|mutator, ctx| mutator.commit(&writes, ctx), &ctx).unwrap();
    }
}

fn quick() -> RepositoryOptions {
    RepositoryOptions { durability: pisession::Durability::Process, ..Default::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Along a chain through every pair of backends the dump stays.
    #[test]
    fn a_session_is_the_same_in_every_place(commits in prop::collection::vec(prop::collection::vec(step(), 1..5), 0..12)) {
        let places: Vec<Place> = URIS.iter().map(|uri| Place::new(uri, quick())).collect();
        for (from_uri, from) in URIS.iter().zip(&places) {
            let source = from.repository.create(&options(&format!("from {from_uri}").replace(['/', '{', '}', ':'], "-")), &background()).unwrap();
            run(&source, &commits);
            let expected = dump(&source);
            for (uri, to) in URIS.iter().zip(&places).filter(|(uri, _)| *uri != from_uri) {
                prop_assert!(convert(&source, &to.repository).unwrap(), "{from_uri} {uri}");
                let made = to.repository.open(source.id(), &background()).unwrap();
                prop_assert_eq!(dump(&made), expected.clone(), "{} {}", from_uri, uri);
                assert_sound(&made, uri);
                // Where it came from, and there, it is the same, and a second time does nothing.
                prop_assert!(!convert(&made, &from.repository).unwrap());
                prop_assert!(!convert(&source, &to.repository).unwrap());
                prop_assert_eq!(dump(&made), expected.clone());
            }
        }
    }
}

#[test]
fn the_next_commit_goes_on_in_the_new_place_as_it_would_in_the_old_one() {
    for uri in URIS {
        let (from, to) = (Place::new("memory:", quick()), Place::new(uri, quick()));
        let source = from.repository.create(&options("s"), &background()).unwrap();
        source.set_name(Some("a"), &background()).unwrap();
        // The highest seq is of a deletion, of which nothing is left.
        source.set_name(None, &background()).unwrap();
        convert(&source, &to.repository).unwrap();
        let made = to.repository.open("s", &background()).unwrap();
        for session in [&source, &made] {
            let commit = [support::set("a", 1)];
            let result = session.mutate(|mutator, ctx| mutator.commit(&commit, ctx), &background()).unwrap();
            assert_eq!(result.first_seq, 3, "{uri}");
        }
    }
}

#[test]
fn what_is_there_and_is_something_else_is_left_and_said() {
    for uri in URIS {
        let (from, to) = (Place::new("memory:", quick()), Place::new(uri, quick()));
        let source = from.repository.create(&options("s"), &background()).unwrap();
        let there = to.repository.create(&options("s"), &background()).unwrap();
        assert!(!convert(&source, &to.repository).unwrap(), "{uri}: both are empty");
        type Change = fn(&Session);
        let changes: [Change; 3] = [
            |session| session.set_name(Some("n"), &background()).unwrap(),
            |session| session.append_list(&address("l"), &json("1"), &background()).unwrap(),
            |session| drop(session.create_branch("b", None, &background()).unwrap()),
        ];
        for change in changes {
            change(&there);
            let before = dump(&there);
            let error = convert(&source, &to.repository).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SessionExists, "{uri}");
            assert!(error.id() == Some("s") && error.hint().is_some(), "{uri}: {error:?}");
            assert_eq!(dump(&there), before, "{uri}");
            change(&source);
            assert!(!convert(&source, &to.repository).unwrap(), "{uri}: both have it");
        }
        let other = CreateOptions { parent_session_id: None, id: Some("t".to_owned()), ..options("t") };
        from.repository.create(&other, &background()).unwrap();
        to.repository.create(&options("t"), &background()).unwrap();
        let source = from.repository.open_read_only("t", &background()).unwrap();
        assert_eq!(convert(&source, &to.repository).unwrap_err().kind(), ErrorKind::SessionExists, "{uri}");
    }
}

#[test]
fn a_session_that_is_written_meanwhile_is_copied_as_it_was_at_one_moment() {
    /// Cancels when it is dropped.
    struct End<'a>(&'a Context);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }

    for from_uri in URIS {
        let (from, to) = (Place::new(from_uri, quick()), Place::new("memory:", quick()));
        let source = from.repository.create(&options("s"), &background()).unwrap();
        let pair = |number: u64| [support::set("one", number), support::set("two", number)];
        let commit = |number| {
            source.mutate(|mutator, ctx| mutator.commit(&pair(number), ctx), &background()).unwrap();
        };
        commit(0);
        let stop = Context::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Not for ever: a reader that is slower than the writer must come to its end.
                for number in 1..2_000 {
                    if stop.is_cancelled() {
                        return;
                    }
                    commit(number);
                }
            });
            // Also when this fails: else the writer would go on for ever.
            let _end = End(&stop);
            for round in 0..10 {
                let into = open_repository("memory:", quick()).unwrap();
                let reader = from.repository.open_read_only("s", &background()).unwrap();
                convert(&reader, &into).unwrap();
                let made = into.open("s", &background()).unwrap();
                assert_eq!(
                    support::number(&made, "one"),
                    support::number(&made, "two"),
                    "{from_uri} {round}"
                );
            }
        });
        assert!(convert(&source, &to.repository).unwrap());
    }
}

/// Converts a whole repository; how each session fared, by id or file name.
fn all(from: &Repository, into: &Repository) -> Vec<(String, String)> {
    let mut told = Vec::new();
    let mut tell = |converted: &Converted, all: usize| {
        let name = match &converted.source.metadata {
            Some(metadata) => metadata.id.clone(),
            None => {
                converted.source.path.as_ref().unwrap().file_name().unwrap().to_string_lossy().into_owned()
            }
        };
        let outcome = match &converted.outcome {
            Ok(conversion) if conversion.made => "made".to_owned(),
            Ok(_) => "there".to_owned(),
            Err(error) => error.kind().name().to_owned(),
        };
        told.push((name, outcome, all));
    };
    let done = convert_repository(from, into, &mut |_| (), &mut tell, &background()).unwrap();
    assert_eq!(done.len(), told.len());
    assert!(told.iter().all(|(.., all)| *all == told.len()));
    let mut told: Vec<_> = told.into_iter().map(|(name, outcome, _)| (name, outcome)).collect();
    told.sort();
    told
}

#[test]
fn a_whole_repository_goes_on_past_what_fails_and_on_with_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("jsonl:{}", folder.path().display());
    let from = open_repository(&uri, quick()).unwrap();
    for id in ["a", "b", "c"] {
        from.create(&options(id), &background()).unwrap().close(&background()).unwrap();
    }
    let old = "{\"type\":\"session\",\"version\":3,\"id\":\"old\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/x\"}\n";
    std::fs::write(folder.path().join("old.jsonl"), old).unwrap();
    std::fs::write(folder.path().join("bad.jsonl"), "no session\n").unwrap();
    for uri in URIS {
        let to = Place::new(uri, quick());
        to.repository.create(&CreateOptions { created_at: Some(5), ..options("b") }, &background()).unwrap();
        // Made by a conversion that was cut off.
        let first = from.open_read_only("c", &background()).unwrap();
        assert!(convert(&first, &to.repository).unwrap());
        let outcomes = |first: &str| {
            let pairs = [
                ("a", first),
                ("b", "SessionExists"),
                ("bad.jsonl", "NotASession"),
                ("c", "there"),
                ("old", first),
            ];
            pairs.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).to_vec()
        };
        assert_eq!(all(&from, &to.repository), outcomes("made"), "{uri}");
        assert_eq!(all(&from, &to.repository), outcomes("there"), "{uri}");
        assert_eq!(to.repository.list(&Default::default(), &background()).unwrap().len(), 4, "{uri}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("old.jsonl")).unwrap(), old);
}

#[test]
fn a_conversion_ends_with_its_context_and_leaves_nothing() {
    for uri in URIS {
        let (from, to) = (Place::new("memory:", quick()), Place::new(uri, quick()));
        let source = from.repository.create(&options("s"), &background()).unwrap();
        for number in 0..600 {
            source.set_value(&address(&number.to_string()), &json("1"), &background()).unwrap();
        }
        let ctx = Context::new();
        let mut cancel = |_| ctx.cancel();
        let error = convert_session(&source, &to.repository, &mut cancel, &ctx).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{uri}");
        assert!(to.repository.list(&Default::default(), &background()).unwrap().is_empty(), "{uri}");
        assert!(convert(&source, &to.repository).unwrap(), "{uri}");
    }
}

#[test]
fn a_working_folder_is_made_absolute_where_it_must_be_and_is_the_same_all_the_same() {
    let (from, to) = (Place::new("memory:", quick()), Place::new("jsonl:{folder}/lines", quick()));
    for (id, cwd) in [("none", None), ("relative", Some("a/../b")), ("dots", Some("/home/./ada"))] {
        let created = CreateOptions { cwd: cwd.map(str::to_owned), ..options(id) };
        let source = from.repository.create(&created, &background()).unwrap();
        assert!(convert(&source, &to.repository).unwrap(), "{id}");
        assert!(!convert(&source, &to.repository).unwrap(), "{id}");
    }
}

#[test]
fn a_damaged_source_is_refused_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let from = open_repository(&format!("jsonl:{}", folder.path().display()), quick()).unwrap();
    let session = from.create(&options("s"), &background()).unwrap();
    session.set_name(Some("name"), &background()).unwrap();
    session.close(&background()).unwrap();
    let path = session.metadata().path.clone().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}broken\n")).unwrap();
    for uri in URIS {
        let to = Place::new(uri, quick());
        assert_eq!(all(&from, &to.repository), [("s".to_owned(), "Corrupt".to_owned())], "{uri}");
        assert!(to.repository.list(&Default::default(), &background()).unwrap().is_empty(), "{uri}");
    }
}
