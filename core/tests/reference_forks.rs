//! SQLite containers of the reference implementation as sources of forks and conversions into every backend.

// Helpers outside of test functions fail by panicking, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/reference.rs"]
#[allow(dead_code)] // other tests use the rest
mod reference;
mod support;

use std::path::Path;
use std::sync::Arc;

use pisession::{
    ErrorKind, ForkOptions, ForkPoint, ForkPosition, ForkScope, Repository, RepositoryOptions, Session,
    SessionReader as _, convert_repository, open_repository,
};
use serde_json::Value;

use reference::Container;
use support::{Place, ToldClock, URIS, background, shared};

const CONFIG: &str =
    r#"{"model":{"provider":"p","modelId":"m"},"thinkingLevel":"off","activeToolNames":["read"]}"#;
const BUSY: &str = r#"{"currentOperationId":"op","lastOperationId":"before","inbox":[]}"#;
const IDLE: &str = r#"{"currentOperationId":null,"lastOperationId":null,"inbox":[]}"#;

fn repository(path: &Path) -> Repository {
    open_repository(&format!("sqlite:{}", path.display()), Default::default()).unwrap()
}

fn dump(session: &Session) -> Value {
    let mut out = Vec::new();
    session.dump(&mut out, &background()).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn tree() -> ForkOptions {
    ForkOptions { scope: ForkScope::Tree, id: Some("fork".to_owned()), ..ForkOptions::default() }
}

fn branch(name: &str, entry: Option<&str>, position: ForkPosition) -> ForkOptions {
    let point = ForkPoint { branch: Some(name.to_owned()), entry: entry.map(str::to_owned), position };
    ForkOptions { scope: ForkScope::Branch(point), ..tree() }
}

/// A busy lane `main` (a, b, d), a data branch `side` (a, x), an entry that no branch reaches, labels, values,
/// lists, and what no fork has.
fn filled(path: &Path) {
    let mut container = Container::create(path);
    container.session("s", 5);
    container.message("s", "a", None, "one");
    container.entry("s", "b", Some("a"), ("custom", Some("note")), r#"{"data":9007199254740993}"#);
    container.element("s", "app", "log", "1");
    container.message("s", "d", Some("b"), "three");
    container.message("s", "x", Some("a"), "aside");
    container.message("s", "alone", None, "alone");
    container.value("s", "pi.branch.tip", "main", "\"d\"");
    container.value("s", "pi.branch.tip", "side", "\"x\"");
    container.value("s", "pi.lane.config", "main", CONFIG);
    container.value("s", "pi.lane.state", "main", BUSY);
    container.value("s", "pi.session.name", "", "\"its name\"");
    container.value("s", "pi.entry.label", "x", "\"here\"");
    container.value("s", "pi.entry.label", "a", "\"start\"");
    container.value("s", "app", "theme", "\"dark\"");
    container.element("s", "app", "log", "2");
    container.value("s", "pi.result", "op", "{}");
    container.value("s", "pi.op.state", "op", "{}");
    container.element("s", "pi.pending.assistant_frame", "op:e", "{}");
    container.usage("s", "u1", 3, Some("a"), None);
    container.close();
}

/// The parts of a dump that are asked for, as `namespace/key` of values and lists and as ids of entries.
fn parts(dump: &Value) -> (Vec<&str>, Vec<String>, Vec<String>) {
    let of = |field: &str| dump[field].as_array().unwrap().iter();
    let address =
        |item: &Value| format!("{}/{}", item["namespace"].as_str().unwrap(), item["key"].as_str().unwrap());
    let ids = of("entries").map(|entry| entry["id"].as_str().unwrap()).collect();
    (ids, of("values").map(address).collect(), of("lists").map(address).collect())
}

#[test]
fn a_fork_of_the_tree_has_what_the_source_has_but_its_work_and_usage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sqlite");
    filled(&path);
    let before = std::fs::read(&path).unwrap();
    let from = repository(&path);
    let source = dump(&from.open("s", &background()).unwrap());
    for uri in URIS {
        let place = Place::new(uri, RepositoryOptions::default());
        let fork = place.repository.fork((&from, "s"), &tree(), &background()).unwrap();
        assert!(fork.left_out.is_empty());
        let found = dump(&fork.session);
        assert_eq!(found["entries"], source["entries"], "{uri}");
        assert_eq!(found["branches"], source["branches"], "{uri}");
        assert_eq!(found["nextSeq"], source["nextSeq"], "{uri}");
        assert_eq!(found["metadata"]["parentSessionId"], "s");
        let (_, values, lists) = parts(&found);
        assert_eq!(
            values,
            [
                "app/theme",
                "pi.branch.tip/main",
                "pi.branch.tip/side",
                "pi.entry.label/a",
                "pi.entry.label/x",
                "pi.lane.config/main",
                "pi.lane.state/main",
                "pi.session.name/"
            ]
        );
        assert_eq!(found["values"][6]["value"], serde_json::from_str::<Value>(IDLE).unwrap());
        assert_eq!(lists, ["app/log"]);
        assert_eq!(found["lists"][0], source["lists"][0], "{uri}");
        assert_eq!(found["usage"].as_array().unwrap().len(), 0);
        assert_eq!(fork.session.stats(&background()).unwrap().message_count, 4);
        // It is one of ours: it goes on.
        fork.session.set_name(Some("its own"), &background()).unwrap();
        fork.session.close(&background()).unwrap();
        let again = place.repository.open("fork", &background());
        assert_eq!(again.unwrap().name(&background()).unwrap().as_deref(), Some("its own"), "{uri}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_fork_of_a_branch_has_its_path_its_labels_and_its_lane() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sqlite");
    filled(&path);
    let from = repository(&path);
    let lane = ["pi.lane.config/main", "pi.lane.state/main"];
    let cases: [(ForkOptions, &[&str], &[&str], bool); 4] = [
        (branch("main", None, ForkPosition::At), &["a", "b", "d"], &["a"], true),
        (branch("side", None, ForkPosition::At), &["a", "x"], &["a", "x"], false),
        (branch("main", Some("b"), ForkPosition::Before), &["a"], &["a"], true),
        (branch("main", Some("a"), ForkPosition::Before), &[], &[], true),
    ];
    for uri in URIS {
        for (options, path, labels, is_lane) in &cases {
            let place = Place::new(uri, RepositoryOptions::default());
            let fork = place.repository.fork((&from, "s"), options, &background()).unwrap();
            let found = dump(&fork.session);
            let (ids, values, lists) = parts(&found);
            assert_eq!(ids, *path, "{uri} {options:?}");
            assert!(lists.is_empty());
            let ForkScope::Branch(ForkPoint { branch: Some(name), .. }) = &options.scope else { panic!() };
            let mut expected = vec![format!("pi.branch.tip/{name}")];
            expected.extend(labels.iter().map(|id| format!("pi.entry.label/{id}")));
            expected.extend(lane.iter().filter(|_| *is_lane).map(|address| (*address).to_owned()));
            expected.push("pi.session.name/".to_owned());
            assert_eq!(values, expected, "{uri} {options:?}");
        }
        let place = Place::new(uri, RepositoryOptions::default());
        for (options, kind) in [
            (branch("none", None, ForkPosition::At), ErrorKind::UnknownBranch),
            (branch("main", Some("x"), ForkPosition::At), ErrorKind::EntryNotOnBranch),
            (branch("main", Some("none"), ForkPosition::At), ErrorKind::UnknownEntry),
        ] {
            let error = place.repository.fork((&from, "s"), &options, &background()).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
        assert!(place.repository.list(&Default::default(), &background()).unwrap().is_empty());
    }
}

#[test]
fn a_long_path_is_forked_beside_its_writer_without_what_is_not_committed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sqlite");
    let mut writer = Container::create(&path);
    writer.session("s", 5);
    writer.chain("s", 10_000);
    writer.sql.execute_batch("BEGIN").unwrap();
    writer.message("s", "later", Some("e10000"), "later");
    let from = repository(&path);
    for uri in URIS {
        for options in [tree(), branch("main", None, ForkPosition::At)] {
            let place = Place::new(uri, RepositoryOptions::default());
            let fork = place.repository.fork((&from, "s"), &options, &background()).unwrap().session;
            assert_eq!(fork.stats(&background()).unwrap().message_count, 10_000, "{uri}");
            assert_eq!(fork.next_seq(&background()).unwrap(), 10_002);
            let main = fork.branch("main", &background()).unwrap().unwrap();
            let path = main.find_entries(&Default::default(), &background()).unwrap();
            assert_eq!((path.len(), path[9_999].id.as_str()), (10_000, "e1"));
        }
    }
    writer.sql.execute_batch("COMMIT").unwrap();
}

#[test]
fn what_could_not_have_been_committed_here_is_not_copied_and_nothing_is_left() {
    let damages = [
        ("lost entry", "DELETE FROM entries WHERE id = 'b'"),
        ("older than its parent", "UPDATE entries SET seq = 900 WHERE id = 'b'"),
        ("no message", "UPDATE entries SET payload = '{}' WHERE id = 'd'"),
        ("no JSON", "UPDATE entries SET payload = '{' WHERE id = 'd'"),
        ("no type", "UPDATE entries SET type = 'x' WHERE id = 'd'"),
        (
            "a field of the structure",
            r#"UPDATE entries SET payload = '{"message":{},"seq":1}' WHERE id = 'd'"#,
        ),
        ("a seq twice", "UPDATE entries SET seq = 1 WHERE id = 'd'"),
    ];
    for (name, sql) in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.sqlite");
        filled(&path);
        let damaged = Container::open(&path);
        damaged.sql.execute_batch(sql).unwrap();
        damaged.close();
        let from = repository(&path);
        for uri in URIS {
            for options in [tree(), branch("main", None, ForkPosition::At)] {
                let place = Place::new(uri, RepositoryOptions::default());
                let error = place.repository.fork((&from, "s"), &options, &background()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{name} {uri}: {error}");
                assert!(place.repository.list(&Default::default(), &background()).unwrap().is_empty());
                // The id is free.
                let again = pisession::CreateOptions { id: Some("fork".to_owned()), ..Default::default() };
                place.repository.create(&again, &background()).unwrap();
            }
        }
    }
}

#[test]
fn a_container_of_the_reference_takes_no_fork() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sqlite");
    filled(&path);
    let before = std::fs::read(&path).unwrap();
    let into = repository(&path);
    let error = into.fork((&into, "s"), &tree(), &background()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// The options of a golden fork.
fn golden_options(fork: &Value) -> ForkOptions {
    let text = |name: &str| fork[name].as_str().map(str::to_owned);
    let scope = match fork["scope"].as_str().unwrap() {
        "tree" => ForkScope::Tree,
        _ => ForkScope::Branch(ForkPoint {
            branch: text("branch"),
            entry: text("entryId"),
            position: if fork["position"] == "before" { ForkPosition::Before } else { ForkPosition::At },
        }),
    };
    ForkOptions { scope, id: text("id"), cwd: Some("/workspace/golden".to_owned()) }
}

fn copied(golden: &Path, name: &str, into: &Path) -> Repository {
    for ending in ["", "-wal", "-shm"] {
        let source = golden.join(format!("{name}.sqlite{ending}"));
        if source.exists() {
            std::fs::copy(source, into.join(format!("{name}.sqlite{ending}"))).unwrap();
        }
    }
    repository(&into.join(format!("{name}.sqlite")))
}

/// The lines of a file without the times of entries: the golden container was made a second earlier.
fn without_times(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let cut = |line: &str| match line.rsplit_once(",\"timestamp\":") {
        Some((line, _)) if line.contains("\"kind\":\"entry\"") => line.to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(cut).collect()
}

/// The golden session is the same in both forms, so its forks are those of its JSON lines.
#[test]
fn forks_of_the_golden_container_are_the_golden_forks() {
    let (Some(lines), Some(golden)) = (shared("golden/v4"), shared("golden/sqlite")) else { return };
    let sources = tempfile::tempdir().unwrap();
    let from = copied(&golden, "11-tree", sources.path());
    for uri in URIS {
        let clock = Arc::new(ToldClock::default());
        let place = Place::new(uri, RepositoryOptions { clock: clock.clone(), ..Default::default() });
        for name in [
            "20-fork-branch",
            "21-fork-branch-before",
            "22-fork-branch-at",
            "23-fork-branch-empty",
            "24-fork-tree",
        ] {
            let text = std::fs::read_to_string(lines.join(format!("{name}.expected.json"))).unwrap();
            let expected: Value = serde_json::from_str(&text).unwrap();
            clock.tell(expected["dump"]["metadata"]["createdAt"].as_i64().unwrap());
            let options = golden_options(&expected["fork"]);
            let fork = place.repository.fork((&from, "session-11-tree"), &options, &background()).unwrap();
            let mut expected = expected["dump"].clone();
            expected.as_object_mut().unwrap().remove("branchPaths");
            for entry in expected["entries"].as_array_mut().unwrap() {
                entry["timestamp"] = (entry["timestamp"].as_i64().unwrap() - 1000).into();
            }
            assert_eq!(dump(&fork.session), expected, "{name} [{uri}]");
            fork.session.close(&background()).unwrap();
            if uri.starts_with("jsonl:") {
                let ours = without_times(fork.session.metadata().path.as_ref().unwrap());
                assert_eq!(ours, without_times(&lines.join(format!("{name}.jsonl"))));
            }
        }
    }
}

#[test]
fn every_golden_container_forks_into_every_backend() {
    let mut forked = 0;
    for folder in ["golden/sqlite", "golden/harness"] {
        let Some(golden) = shared(folder) else { return };
        let mut names: Vec<String> = std::fs::read_dir(&golden)
            .unwrap()
            .filter_map(|entry| {
                Some(entry.unwrap().file_name().to_str()?.strip_suffix(".sqlite")?.to_owned())
            })
            .filter(|name| folder.ends_with("harness") || !("40".."50").contains(&&name[..2]))
            .collect();
        names.sort();
        for name in names {
            let sources = tempfile::tempdir().unwrap();
            let from = copied(&golden, &name, sources.path());
            for listed in from.list(&Default::default(), &background()).unwrap() {
                let metadata = listed.metadata.unwrap();
                let source = from.open_read_only(&metadata, &background()).unwrap();
                let mut dumps: Vec<Value> = Vec::new();
                for uri in URIS {
                    let place = Place::new(uri, RepositoryOptions::default());
                    let options = ForkOptions { cwd: Some("/w".to_owned()), ..tree() };
                    let fork = place.repository.fork(&source, &options, &background()).unwrap().session;
                    assert!(
                        fork.check(&mut |_| (), &background())
                            .unwrap()
                            .iter()
                            .all(|finding| { finding.kind == pisession::FindingKind::LabelOfNothing })
                    );
                    assert_eq!(
                        fork.stats(&background()).unwrap().message_count,
                        source.stats(&background()).unwrap().message_count
                    );
                    if name.starts_with("14-") {
                        // Strict readers refuse lone surrogates.
                        continue;
                    }
                    let mut found = dump(&fork);
                    found["metadata"] = Value::Null;
                    dumps.push(found);
                }
                assert!(dumps.windows(2).all(|pair| pair[0] == pair[1]), "{name}");
                forked += 1;
            }
        }
    }
    assert_eq!(forked, 14 + 5 + 5 + 1 + 2);
}

/// What a session holds, without what it says of itself: JSON lines give it a working folder.
fn held(session: &Session) -> Value {
    let mut dump = dump(session);
    dump.as_object_mut().unwrap().remove("metadata").unwrap();
    dump
}

/// Converts every session of the container into every backend, twice: the second time all are there.
fn assert_converts(path: &Path) -> usize {
    let from = repository(path);
    let ctx = background();
    let mut converted = 0;
    for uri in URIS {
        let place = Place::new(uri, Default::default());
        let into = &place.repository;
        for made in [true, false] {
            let done = convert_repository(&from, into, &mut |_| (), &mut |_, _| (), &ctx).unwrap();
            for one in &done {
                let metadata = one.source.metadata.as_ref().unwrap();
                assert_eq!(one.outcome.as_ref().unwrap().made, made, "{} to {uri}", path.display());
                let source = from.open_read_only(metadata, &ctx).unwrap();
                let copy = into.open_read_only(metadata.id.as_str(), &ctx).unwrap();
                assert_eq!(held(&copy), held(&source), "{} to {uri}", path.display());
                assert_eq!(copy.metadata().created_at, metadata.created_at);
                assert_eq!(copy.metadata().parent_session_id, metadata.parent_session_id);
            }
            assert!(!done.is_empty());
            converted += done.len();
        }
    }
    converted
}

#[test]
fn a_container_converts_into_every_backend_whole_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs.sqlite");
    filled(&path);
    assert_eq!(assert_converts(&path), 2 * URIS.len());
}

#[test]
fn golden_containers_convert_into_every_backend() {
    let Some(folder) = shared("golden") else { return };
    let copies = tempfile::tempdir().unwrap();
    for name in [
        "sqlite/03-messages-all-roles",
        "sqlite/12-lane-busy",
        "sqlite/24-fork-tree",
        "sqlite/30-shared",
        "harness/01-run",
    ] {
        let path = copies.path().join(name.replace('/', "-")).with_extension("sqlite");
        std::fs::copy(folder.join(name).with_extension("sqlite"), &path).unwrap();
        assert!(assert_converts(&path) >= 2 * URIS.len());
    }
}
