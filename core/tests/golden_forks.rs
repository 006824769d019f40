//! Forks of the reference implementation's golden session: ours are the same, as JSON lines byte for byte.

// Helpers outside of test functions fail by panicking, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;
use std::sync::Arc;

use pisession::{
    ErrorKind, ForkOptions, ForkPoint, ForkPosition, ForkScope, Repository, RepositoryOptions, Session,
    open_repository,
};
use serde_json::Value;

use support::{Place, ToldClock, URIS, background, shared};

const CWD: &str = "/workspace/golden";

/// The options of a golden fork.
fn options(fork: &Value) -> ForkOptions {
    let text = |name: &str| fork[name].as_str().map(str::to_owned);
    let scope = match fork["scope"].as_str().unwrap() {
        "tree" => ForkScope::Tree,
        _ => ForkScope::Branch(ForkPoint {
            branch: text("branch"),
            entry: text("entryId"),
            position: match fork["position"].as_str() {
                Some("before") => ForkPosition::Before,
                _ => ForkPosition::At,
            },
        }),
    };
    ForkOptions { scope, id: text("id"), cwd: None }
}

fn golden(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

/// The golden file of a session in a repository of JSON lines.
fn placed(folder: &Path, place: &Path, name: &str, file_name: &str) -> Repository {
    let inside = place.join("--workspace-golden--");
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::copy(folder.join(name), inside.join(file_name)).unwrap();
    open_repository(&format!("jsonl:{}", place.display()), Default::default()).unwrap()
}

fn dump(session: &Session) -> Value {
    let mut out = Vec::new();
    session.dump(&mut out, &background()).unwrap();
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn forks_of_the_golden_session_are_the_golden_forks() {
    let Some(folder) = shared("golden/v4") else { return };
    let files = [
        "20-fork-branch",
        "21-fork-branch-before",
        "22-fork-branch-at",
        "23-fork-branch-empty",
        "24-fork-tree",
        "25-fork-of-fork",
    ];
    for uri in URIS {
        let ctx = background();
        let sources = tempfile::tempdir().unwrap();
        let clock = Arc::new(ToldClock::default());
        let place = Place::new(uri, RepositoryOptions { clock: clock.clone(), ..Default::default() });
        for name in files {
            let here = format!("{name} [{uri}]");
            let golden = golden(&folder, &format!("{name}.expected.json"));
            let source = golden["source"].as_str().unwrap();
            let from = placed(&folder, sources.path(), source, source);
            let id = format!("session-{}", source.strip_suffix(".jsonl").unwrap());
            clock.tell(golden["dump"]["metadata"]["createdAt"].as_i64().unwrap());
            let fork = place.repository.fork((&from, &id), &options(&golden["fork"]), &ctx).unwrap();
            assert!(fork.left_out.is_empty(), "{here}");
            let fork = fork.session;
            if let Some(commit) = golden["commits"].get(0) {
                clock.tell(commit["result"]["timestamp"].as_i64().unwrap());
                let entry = &commit["writes"][0]["entry"];
                // In the order of its bytes, which a map does not keep.
                let text = r#"{"role":"user","content":"after the fork","timestamp":1750000000000}"#;
                assert_eq!(entry["message"], serde_json::from_str::<Value>(text).unwrap());
                let message = pisession::Json::parse(text).unwrap();
                let entry = pisession::NewEntry::message(
                    entry["id"].as_str().unwrap(),
                    entry["parentId"].as_str(),
                    &message,
                );
                let tip = pisession::addresses::branch_tip("main").unwrap();
                let tip = tip.set(&Some(entry.id().to_owned())).unwrap();
                let writes = [pisession::Write::Entry(entry), tip];
                fork.mutate(|mutator, ctx| mutator.commit(&writes, ctx), &ctx).unwrap();
            }
            let mut expected = golden["dump"].clone();
            expected.as_object_mut().unwrap().remove("branchPaths");
            let numbers =
                |dump: Value| dump.to_string().replace("1e-5", "0.00001").replace("2e-5", "0.00002");
            assert_eq!(numbers(dump(&fork)), numbers(expected), "{here}");
            fork.close(&ctx).unwrap();
            if uri.starts_with("jsonl:") {
                let path = fork.metadata().path.clone().unwrap();
                let bytes = std::fs::read(folder.join(format!("{name}.jsonl"))).unwrap();
                assert_eq!(
                    String::from_utf8(std::fs::read(&path).unwrap()),
                    String::from_utf8(bytes),
                    "{here}"
                );
                if let Some(file_name) = golden["fileName"].as_str() {
                    assert!(path.ends_with(file_name), "{}", path.display());
                }
            }
        }
    }
}

/// The reference's SQLite forks give values new `seq`s and drop lists and dangling labels. All else is the same.
#[test]
fn forks_of_the_golden_session_have_what_the_golden_forks_of_sqlite_have() {
    let (Some(lines), Some(folder)) = (shared("golden/v4"), shared("golden/sqlite")) else { return };
    let sources = tempfile::tempdir().unwrap();
    let from = placed(&lines, sources.path(), "11-tree.jsonl", "11-tree.jsonl");
    for uri in &URIS[2..] {
        let place = Place::new(uri, RepositoryOptions::default());
        for name in [
            "20-fork-branch",
            "21-fork-branch-before",
            "22-fork-branch-at",
            "23-fork-branch-empty",
            "24-fork-tree",
        ] {
            let here = format!("{name} [{uri}]");
            let golden = golden(&folder, &format!("{name}.expected.json"));
            let options = ForkOptions { cwd: Some(CWD.to_owned()), ..options(&golden["fork"]) };
            let fork = place.repository.fork((&from, "session-11-tree"), &options, &background()).unwrap();
            let (ours, expected) = (dump(&fork.session), &golden["dump"]);
            for same in ["name", "branches", "usage", "stats"] {
                assert_eq!(ours[same], expected[same], "{here}");
            }
            let entries = |dump: &Value| -> Vec<Value> {
                let mut entries = dump["entries"].as_array().unwrap().clone();
                entries.iter_mut().for_each(|entry| entry["timestamp"] = Value::Null);
                entries
            };
            assert_eq!(entries(&ours), entries(expected), "{here}");
            let values = |dump: &Value| -> Vec<String> {
                let values = dump["values"].as_array().unwrap().iter();
                values
                    .filter(|value| value["key"] != "no-such-entry")
                    .map(|value| format!("{} {} {}", value["namespace"], value["key"], value["value"]))
                    .collect()
            };
            assert_eq!(values(&ours), values(expected), "{here}");
        }
    }
}

#[test]
fn what_the_reference_refuses_to_fork_is_refused() {
    let Some(folder) = shared("golden/v4") else { return };
    let golden = golden(&folder, "29-refused-forks.expected.json");
    let sources = tempfile::tempdir().unwrap();
    let from = placed(&folder, sources.path(), "11-tree.jsonl", "11-tree.jsonl");
    let place = Place::new("memory:", RepositoryOptions::default());
    for (why, case) in golden["refused"].as_object().unwrap() {
        let options = ForkOptions { id: Some("fork".to_owned()), ..options(&case["fork"]) };
        let forked = place.repository.fork((&from, "session-11-tree"), &options, &background());
        let expected = match why.as_str() {
            // By the seed a branch of data forks to one of data.
            "data-only branch" => None,
            "unknown branch" => Some(ErrorKind::UnknownBranch),
            "entry off the branch" | "any entry of an empty branch" => Some(ErrorKind::EntryNotOnBranch),
            "unknown entry" => Some(ErrorKind::UnknownEntry),
            // Such a value is not in this file; `forks.rs` has the case.
            surviving if surviving.starts_with("surviving unknown") => None,
            other => panic!("{other}"),
        };
        match expected {
            Some(kind) => assert_eq!(forked.unwrap_err().kind(), kind, "{why}"),
            None => {
                forked.unwrap().session.close(&background()).unwrap();
                place.repository.delete("fork", &background()).unwrap();
            }
        }
        assert_eq!(place.repository.list(&Default::default(), &background()).unwrap().len(), 0, "{why}");
    }
}
