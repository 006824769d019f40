//! Forks: what they have of their source, between all backends, and that nothing is left of one that failed.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use pisession::{
    Address, CreateOptions, Error, ErrorKind, ForkOptions, ForkPoint, ForkPosition, ForkScope, Json,
    ListRead, NewEntry, NewUsage, OpenMode, OpenOptions, Repository, Session, SessionReader as _, Usage,
    Write,
};
use serde_json::Value;

use support::{Place, URIS, background, json, on_every_backend, user};

const CONFIG: &str =
    r#"{"model":{"provider":"p","modelId":"m"},"thinkingLevel":"off","activeToolNames":["read"]}"#;
const BUSY: &str =
    r#"{"currentOperationId":"op","lastOperationId":"before","inbox":[{"entryId":"waiting","kind":"user"}]}"#;
const IDLE: &str = r#"{"currentOperationId":null,"lastOperationId":null,"inbox":[]}"#;

fn at(namespace: &str, key: &str) -> Address {
    Address::new(namespace, key).unwrap()
}

fn set(namespace: &str, key: &str, value: &str) -> Write {
    Write::SetValue(at(namespace, key), json(value))
}

fn append(namespace: &str, key: &str, value: &str) -> Write {
    Write::AppendList(at(namespace, key), json(value))
}

fn message(id: &str, parent: Option<&str>) -> Write {
    Write::Entry(NewEntry::message(id, parent, &user(id)))
}

fn tip(branch: &str, id: Option<&str>) -> Write {
    Write::SetValue(at("pi.branch.tip", branch), id.map_or_else(Json::null, Json::string))
}

fn commit(session: &Session, writes: &[Write]) {
    session.mutate(|mutator, ctx| mutator.commit(writes, ctx), &background()).unwrap();
}

/// A session with two lanes, one of them busy, a branch of data, an empty one, and some of everything else.
///
/// root <- child <- leaf (review), root <- sibling (main), root <- note (notes), alone (reached by no branch)
fn source(repository: &Repository) -> Session {
    let options = CreateOptions { id: Some("source".to_owned()), ..CreateOptions::default() };
    let session = repository.create(&options, &background()).unwrap();
    fill(&session);
    session
}

fn fill(session: &Session) {
    let usage = Usage { input: 3.0, total_tokens: 3.0, ..Usage::default() };
    let commits: Vec<Vec<Write>> = vec![
        vec![tip("main", None)],
        vec![set("pi.lane.config", "main", CONFIG), set("pi.lane.state", "main", IDLE)],
        vec![message("root", None), tip("main", Some("root"))],
        vec![message("child", Some("root")), tip("review", Some("child"))],
        vec![set("pi.lane.config", "review", CONFIG), set("pi.lane.state", "review", BUSY)],
        vec![message("leaf", Some("child")), tip("review", Some("leaf"))],
        vec![message("sibling", Some("root")), tip("main", Some("sibling"))],
        vec![Write::Entry(NewEntry::custom("note", Some("root"), "n", None)), tip("notes", Some("note"))],
        vec![message("alone", None)],
        vec![tip("empty", None), set("pi.lane.config", "empty", CONFIG), set("pi.lane.state", "empty", IDLE)],
        vec![set("pi.session.name", "", "\"the source\"")],
        vec![set("pi.entry.label", "root", "\"start\""), set("pi.entry.label", "sibling", "\"other\"")],
        vec![set("pi.entry.label", "leaf", "\"end\""), set("pi.entry.label", "nowhere", "\"dangling\"")],
        vec![set("app", "theme", "\"dark\""), set("app", "theme", "{\"n\":1e400}")],
        vec![
            append("app", "theme", "0"),
            append("pi2.events", "", "[1]"),
            Write::DeleteList(at("app", "theme")),
        ],
        vec![append("app", "theme", "1"), set("app", "gone", "1"), append("app", "theme", "2")],
        vec![Write::DeleteValue(at("app", "gone"))],
        vec![Write::Usage(NewUsage::new("row", &usage, Some("root")))],
        vec![set("pi.result", "op", "{}"), set("pi.op.meta", "op", "{}"), set("pi.op.state", "op", "{}")],
        vec![set("pi.op.tool_args", "op:s:0", "{}"), set("pi.op.preparation", "op:t", "{}")],
        vec![set("pi.pending.entry", "waiting", "{}"), append("pi.pending.assistant_frame", "op:e", "{}")],
    ];
    commits.iter().for_each(|writes| commit(session, writes));
}

fn branch(point: ForkPoint) -> ForkOptions {
    ForkOptions { scope: ForkScope::Branch(point), ..ForkOptions::default() }
}

fn of_branch(name: &str) -> ForkPoint {
    ForkPoint { branch: Some(name.to_owned()), ..ForkPoint::default() }
}

fn at_entry(branch: Option<&str>, entry: &str, position: ForkPosition) -> ForkPoint {
    ForkPoint { branch: branch.map(str::to_owned), entry: Some(entry.to_owned()), position }
}

fn tree() -> ForkOptions {
    ForkOptions { scope: ForkScope::Tree, ..ForkOptions::default() }
}

fn dump(session: &Session) -> Value {
    let mut out = Vec::new();
    session.dump(&mut out, &background()).unwrap();
    let mut dump: Value =
        serde_json::from_str(&String::from_utf8(out).unwrap().replace("1e400", "\"1e400\"")).unwrap();
    dump.as_object_mut().unwrap().remove("metadata");
    // Sources are made at different times.
    for entry in dump["entries"].as_array_mut().unwrap() {
        entry.as_object_mut().unwrap().remove("timestamp");
    }
    dump
}

fn ids(dump: &Value) -> Vec<&str> {
    dump["entries"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect()
}

fn values(dump: &Value) -> BTreeMap<String, Value> {
    let place = |value: &Value| {
        format!("{}/{}", value["namespace"].as_str().unwrap(), value["key"].as_str().unwrap())
    };
    dump["values"].as_array().unwrap().iter().map(|value| (place(value), value["value"].clone())).collect()
}

/// The values of a dump by their places alone.
fn places(dump: &Value) -> Vec<String> {
    values(dump).into_keys().collect()
}

#[test]
fn forks_are_equal_between_all_backends_and_from_open_closed_and_read_only_sources() {
    let ctx = background();
    let memory = Place::new("memory:", Default::default());
    let reference = source(&memory.repository);
    let scopes = [
        tree(),
        branch(ForkPoint::default()),
        branch(of_branch("review")),
        branch(of_branch("notes")),
        branch(of_branch("empty")),
        branch(at_entry(Some("review"), "child", ForkPosition::At)),
        branch(at_entry(Some("review"), "child", ForkPosition::Before)),
        branch(at_entry(Some("review"), "root", ForkPosition::Before)),
        branch(at_entry(None, "leaf", ForkPosition::At)),
        branch(at_entry(None, "alone", ForkPosition::At)),
    ];
    let expected: Vec<Value> = scopes
        .iter()
        .map(|options| dump(&memory.repository.fork(&reference, options, &ctx).unwrap().session))
        .collect();
    for from in URIS {
        let from_place = Place::new(from, Default::default());
        let opened = source(&from_place.repository);
        let places: Vec<Place> = URIS.iter().map(|uri| Place::new(uri, Default::default())).collect();
        for (place, to) in places.iter().zip(URIS) {
            for (options, expected) in scopes.iter().zip(&expected) {
                let fork = place.repository.fork(&opened, options, &ctx).unwrap();
                assert_eq!(&dump(&fork.session), expected, "{from} to {to}: {options:?}");
                assert_eq!(fork.session.metadata().parent_session_id.as_deref(), Some("source"));
                assert_eq!(fork.left_out, Vec::<String>::new());
                let id = fork.session.id().to_owned();
                fork.session.close(&ctx).unwrap();
                let again = place.repository.open_read_only(&id, &ctx).unwrap();
                assert_eq!(&dump(&again), expected, "{from} to {to}, reopened: {options:?}");
            }
        }
        // While it is open for writing elsewhere, and when it is closed.
        let id = "source";
        let read_only = from_place.repository.open_read_only(id, &ctx).unwrap();
        for (options, expected) in scopes.iter().zip(&expected) {
            let busy = from_place.repository.fork((&from_place.repository, id), options, &ctx).unwrap();
            assert_eq!(&dump(&busy.session), expected, "{from}, by its id: {options:?}");
            let fork = places[0].repository.fork(&read_only, options, &ctx).unwrap();
            assert_eq!(&dump(&fork.session), expected, "{from}, read only: {options:?}");
        }
        opened.close(&ctx).unwrap();
        for (options, expected) in scopes.iter().zip(&expected) {
            let fork = places[1].repository.fork((&from_place.repository, id), options, &ctx).unwrap();
            assert_eq!(&dump(&fork.session), expected, "{from}, closed: {options:?}");
        }
    }
}

#[test]
fn a_fork_of_the_tree_has_everything_but_usage_and_operations() {
    on_every_backend(|repository| {
        let source = source(repository);
        let fork = repository.fork(&source, &tree(), &background()).unwrap().session;
        let (fork, source) = (dump(&fork), dump(&source));
        for same in ["name", "branches", "entries", "lists", "nextSeq"] {
            let mut expected = source[same].clone();
            if same == "lists" {
                expected
                    .as_array_mut()
                    .unwrap()
                    .retain(|list| list["namespace"] != "pi.pending.assistant_frame");
            }
            assert_eq!(fork[same], expected, "{same}");
        }
        let mut expected = values(&source);
        expected.retain(|place, _| {
            !["pi.result", "pi.op.", "pi.pending."].iter().any(|gone| place.starts_with(gone))
        });
        expected.insert("pi.lane.state/review".to_owned(), serde_json::from_str(IDLE).unwrap());
        assert_eq!(values(&fork), expected);
        assert_eq!(fork["usage"], Value::Array(Vec::new()));
        assert_eq!(fork["stats"]["usage"]["input"], 0);
        assert_eq!(fork["stats"]["messageCount"], source["stats"]["messageCount"]);
        // Each keeps its seq, that of the state of a lane included.
        let seqs = |dump: &Value| -> BTreeMap<String, u64> {
            let of =
                |value: &Value| (value["key"].as_str().unwrap().to_owned(), value["seq"].as_u64().unwrap());
            let lanes = |value: &&Value| value["namespace"] == "pi.lane.state";
            dump["values"].as_array().unwrap().iter().filter(lanes).map(of).collect()
        };
        assert_eq!(seqs(&fork), seqs(&source));
    });
}

#[test]
fn a_fork_of_a_path_has_the_path_its_labels_the_name_and_one_idle_lane() {
    on_every_backend(|repository| {
        let source = source(repository);
        let fork = |point: ForkPoint| {
            let fork = repository.fork(&source, &branch(point), &background()).unwrap();
            assert!(fork.left_out.is_empty());
            dump(&fork.session)
        };
        let lane = |name: &str| [format!("pi.lane.config/{name}"), format!("pi.lane.state/{name}")];
        let expected = |labels: &[&str], branch: &str, is_lane: bool| {
            let mut places = vec![format!("pi.branch.tip/{branch}"), "pi.session.name/".to_owned()];
            places.extend(labels.iter().map(|id| format!("pi.entry.label/{id}")));
            places.extend(lane(branch).into_iter().filter(|_| is_lane));
            places.sort();
            places
        };

        let review = fork(of_branch("review"));
        assert_eq!(ids(&review), ["root", "child", "leaf"]);
        assert_eq!(places(&review), expected(&["root", "leaf"], "review", true));
        assert_eq!(values(&review)["pi.lane.state/review"], serde_json::from_str::<Value>(IDLE).unwrap());
        assert_eq!(values(&review)["pi.lane.config/review"], serde_json::from_str::<Value>(CONFIG).unwrap());
        assert_eq!(review["branches"], serde_json::json!({"review": "leaf"}));
        assert_eq!(review["stats"]["messageCount"], 3);

        let child = fork(at_entry(Some("review"), "child", ForkPosition::At));
        assert_eq!((ids(&child), &child["branches"]["review"]), (vec!["root", "child"], &"child".into()));
        assert_eq!(places(&child), expected(&["root"], "review", true));
        let before = fork(at_entry(Some("review"), "child", ForkPosition::Before));
        assert_eq!((ids(&before), &before["branches"]["review"]), (vec!["root"], &"root".into()));
        let nothing = fork(at_entry(Some("review"), "root", ForkPosition::Before));
        assert_eq!((ids(&nothing), &nothing["branches"]["review"]), (vec![], &Value::Null));
        assert_eq!(places(&nothing), expected(&[], "review", true));
        let tip = ForkPoint { position: ForkPosition::Before, ..of_branch("review") };
        assert_eq!(ids(&fork(tip)), ["root", "child"]);

        // A branch of data stays one.
        let notes = fork(of_branch("notes"));
        assert_eq!(ids(&notes), ["root", "note"]);
        assert_eq!(places(&notes), expected(&["root"], "notes", false));
        let empty = fork(of_branch("empty"));
        assert_eq!((ids(&empty), &empty["branches"]), (vec![], &serde_json::json!({"empty": null})));
        assert_eq!(places(&empty), expected(&[], "empty", true));

        // Without a branch it is `main`, and any entry will do.
        let main = fork(ForkPoint::default());
        assert_eq!(
            (ids(&main), &main["branches"]),
            (vec!["root", "sibling"], &serde_json::json!({"main": "sibling"}))
        );
        let anywhere = fork(at_entry(None, "leaf", ForkPosition::At));
        assert_eq!(anywhere["branches"], serde_json::json!({"main": "leaf"}));
        assert_eq!(ids(&anywhere), ["root", "child", "leaf"]);
        assert_eq!(places(&anywhere), expected(&["root", "leaf"], "main", true));
    });
}

#[test]
fn without_a_main_a_path_becomes_one_of_data() {
    on_every_backend(|repository| {
        let ctx = background();
        let session = repository.create(&Default::default(), &ctx).unwrap();
        commit(&session, &[message("a", None), message("b", Some("a"))]);
        let unknown = repository.fork(&session, &ForkOptions::default(), &ctx).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::UnknownBranch);
        let options = branch(at_entry(None, "b", ForkPosition::At));
        let fork = repository.fork(&session, &options, &ctx).unwrap().session;
        assert_eq!(fork.branch("main", &ctx).unwrap().unwrap().tip_id(&ctx).unwrap().as_deref(), Some("b"));
        // The tip is new and takes a seq of its own.
        assert_eq!(fork.next_seq(&ctx).unwrap(), session.next_seq(&ctx).unwrap() + 1);
        // Half a lane named `main` is not that of this path.
        commit(&session, &[set("pi.lane.config", "main", CONFIG)]);
        let fork = repository.fork(&session, &options, &ctx).unwrap().session;
        assert_eq!(places(&dump(&fork)), ["pi.branch.tip/main"]);
    });
}

#[test]
fn a_point_that_is_not_there_is_refused_and_leaves_nothing() {
    on_every_backend(|repository| {
        let ctx = background();
        let source = source(repository);
        commit(&source, &[set("pi.lane.state", "half", IDLE), tip("half", Some("root"))]);
        commit(&source, &[set("pi.lane.config", "lone", CONFIG)]);
        let on = |branch, entry| at_entry(branch, entry, ForkPosition::At);
        let refused: Vec<(ForkPoint, ErrorKind)> = vec![
            (of_branch("nope"), ErrorKind::UnknownBranch),
            (of_branch(""), ErrorKind::InvalidBranch),
            (of_branch("a\0b"), ErrorKind::InvalidBranch),
            (on(Some("main"), "leaf"), ErrorKind::EntryNotOnBranch),
            (on(Some("main"), "nope"), ErrorKind::UnknownEntry),
            (on(Some("empty"), "root"), ErrorKind::EntryNotOnBranch),
            (on(None, "nope"), ErrorKind::UnknownEntry),
            (on(None, "row"), ErrorKind::UnknownEntry),
            (of_branch("half"), ErrorKind::Corrupt),
            (of_branch("lone"), ErrorKind::Corrupt),
        ];
        for (point, kind) in refused {
            let options = ForkOptions { id: Some("fork".to_owned()), ..branch(point) };
            let error = repository.fork(&source, &options, &ctx).unwrap_err();
            assert_eq!(error.kind(), kind, "{options:?}: {error}");
        }
        let listed = repository.list(&Default::default(), &ctx).unwrap();
        assert_eq!(listed.len(), 1);
        // The tree leaves half lanes out and says so; branches stay.
        let fork = repository.fork(&source, &ForkOptions { id: Some("fork".to_owned()), ..tree() }, &ctx);
        let fork = fork.unwrap();
        assert_eq!(fork.left_out, ["half", "lone"]);
        let dump = dump(&fork.session);
        assert_eq!(dump["branches"]["half"], "root");
        assert!(!places(&dump).iter().any(|place| place.starts_with("pi.lane.")
            && !place.ends_with("/main")
            && !place.ends_with("/review")
            && !place.ends_with("/empty")));
        // Half lanes elsewhere do not matter to a path.
        repository.fork(&source, &branch(of_branch("main")), &ctx).unwrap();
        let taken = repository.fork(&source, &ForkOptions { id: Some("fork".to_owned()), ..tree() }, &ctx);
        assert_eq!(taken.unwrap_err().kind(), ErrorKind::SessionExists);
        let same = repository.fork(&source, &ForkOptions { id: Some("source".to_owned()), ..tree() }, &ctx);
        assert_eq!(same.unwrap_err().kind(), ErrorKind::SessionExists);
    });
}

#[test]
fn cursors_of_the_source_go_on_in_the_fork() {
    on_every_backend(|repository| {
        let ctx = background();
        let source = source(repository);
        let fork = repository.fork(&source, &tree(), &ctx).unwrap().session;
        let list = at("app", "theme");
        let all = source.read_list(&list, &ListRead::default(), &ctx).unwrap();
        assert_eq!(all.len(), 2);
        assert!(all[0].seq + 1 < all[1].seq);
        assert_eq!(fork.read_list(&list, &ListRead::default(), &ctx).unwrap(), all);
        let rest = ListRead { cursor: Some(all[0].seq), ..ListRead::default() };
        assert_eq!(fork.read_list(&list, &rest, &ctx).unwrap(), all[1..]);
    });
}

#[test]
fn a_fork_inside_an_open_mutation_has_its_commit_and_waits_for_nobody() {
    on_every_backend(|repository| {
        let ctx = background();
        let source = source(repository);
        let mutation = source.begin_mutation(&ctx).unwrap();
        mutation.commit(&[set("app", "n", "1")], &ctx).unwrap();
        let fork = repository.fork(&source, &tree(), &ctx).unwrap().session;
        mutation.end();
        commit(&source, &[set("app", "n", "2")]);
        assert_eq!(fork.get_value(&at("app", "n"), &ctx).unwrap().unwrap().value.as_str(), "1");
    });
}

#[test]
fn ledgers_of_forks_start_empty_however_often_one_is_forked() {
    on_every_backend(|repository| {
        let ctx = background();
        let source = source(repository);
        let total: f64 = (0..36)
            .map(|n| {
                let options = if n % 2 == 0 { tree() } else { branch(of_branch("main")) };
                let fork = repository.fork(&source, &options, &ctx).unwrap().session;
                assert_eq!(fork.scan_usage(&Default::default(), &ctx).unwrap(), []);
                fork.stats(&ctx).unwrap().usage.input
            })
            .sum();
        assert_eq!(total + source.stats(&ctx).unwrap().usage.input, 3.0);
    });
}

#[test]
fn a_fork_of_a_fresh_session_is_fresh() {
    on_every_backend(|repository| {
        let ctx = background();
        let source = repository.create(&Default::default(), &ctx).unwrap();
        let fork = repository.fork(&source, &tree(), &ctx).unwrap().session;
        assert_eq!(dump(&fork), dump(&source));
        assert_eq!(fork.next_seq(&ctx).unwrap(), 1);
    });
}

/// Only a file can hold what no library known here writes: a commit refuses it.
#[test]
fn a_source_with_values_of_an_unknown_library_is_refused() {
    let ctx = background();
    for (line, refused) in [
        (r#"{"kind":"value","op":"set","seq":900,"namespace":"pi","key":"","value":1}"#, true),
        (r#"{"kind":"value","op":"set","seq":900,"namespace":"pi.unknown","key":"x","value":1}"#, true),
        (r#"{"kind":"list","op":"append","seq":900,"namespace":"pi.unknown","key":"x","value":1}"#, true),
        (r#"{"kind":"list","op":"append","seq":900,"namespace":"pi.branch.tip","key":"x","value":1}"#, true),
        (r#"{"kind":"value","op":"set","seq":900,"namespace":"pi.op.unknown","key":"x","value":1}"#, false),
        (r#"{"kind":"value","op":"set","seq":900,"namespace":"pi-unknown","key":"x","value":1}"#, false),
        (r#"{"kind":"value","op":"set","seq":900,"namespace":"pi2","key":"x","value":1}"#, false),
        (r#"{"kind":"value","op":"set","seq":900,"namespace":"pi.z","key":"x","value":1}"#, true),
    ] {
        let place = Place::new("jsonl:{folder}", Default::default());
        let source = source(&place.repository);
        source.close(&ctx).unwrap();
        let path = source.metadata().path.clone().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{line}\n")).unwrap();
        for options in [tree(), branch(of_branch("main"))] {
            let forked = place.repository.fork((&place.repository, "source"), &options, &ctx);
            match forked {
                Err(error) if refused => assert_eq!(error.kind(), ErrorKind::ReservedAddress, "{line}"),
                forked => assert!(!refused && forked.is_ok(), "{line}"),
            }
        }
        // Deleted, it is in nobody's way.
        if refused && line.contains("\"value\",\"op\":\"set\"") {
            let gone = line.replace("set", "delete").replace(",\"value\":1", "").replace("900", "901");
            std::fs::write(&path, format!("{text}{line}\n{gone}\n")).unwrap();
            place.repository.fork((&place.repository, "source"), &tree(), &ctx).unwrap();
        }
    }
}

#[test]
fn a_source_that_is_read_past_damage_forks_what_can_be_read() {
    let ctx = background();
    let place = Place::new("jsonl:{folder}", Default::default());
    let source = source(&place.repository);
    source.close(&ctx).unwrap();
    let path = source.metadata().path.clone().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"sibling\"", "\"sib", 1)).unwrap();
    let salvage = OpenOptions { mode: OpenMode::ReadOnly, salvage: true, ..OpenOptions::default() };
    let salvaged = place.repository.open_with("source", &salvage, &ctx).unwrap();
    let fork = place.repository.fork(&salvaged, &tree(), &ctx).unwrap().session;
    assert_eq!(ids(&dump(&fork)), ["root", "child", "leaf", "note", "alone"]);
    let damaged: Error = place.repository.fork((&place.repository, "source"), &tree(), &ctx).unwrap_err();
    assert_eq!(damaged.kind(), ErrorKind::Corrupt);
}

#[test]
fn a_file_of_an_old_version_forks_into_every_backend_and_stays_as_it_is() {
    let ctx = background();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("--w--").join("2025-06-15T15-06-40-000Z_old.jsonl");
    let lines = [
        r#"{"type":"session","version":3,"id":"old","timestamp":"2025-06-15T15:06:40.000Z","cwd":"/w"}"#,
        r#"{"type":"message","id":"a","parentId":null,"timestamp":"2025-06-15T15:06:41.000Z","message":{"role":"user","content":"one"}}"#,
        r#"{"type":"message","id":"b","parentId":"a","timestamp":"2025-06-15T15:06:42.000Z","message":{"role":"user","content":"two"}}"#,
        r#"{"type":"label","id":"c","parentId":"b","timestamp":"2025-06-15T15:06:43.000Z","targetId":"a","label":"start"}"#,
        r#"{"type":"message","id":"d","parentId":"a","timestamp":"2025-06-15T15:06:44.000Z","message":{"role":"user","content":"aside"}}"#,
        r#"{"type":"session_info","id":"e","parentId":"d","timestamp":"2025-06-15T15:06:45.000Z","name":"old one"}"#,
    ];
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let text = lines.join("\n") + "\n";
    std::fs::write(&path, &text).unwrap();
    let from = pisession::open_repository(&format!("jsonl:{}", folder.path().display()), Default::default());
    let from = from.unwrap();
    for uri in URIS {
        let place = Place::new(uri, Default::default());
        for open_for in [Some(OpenMode::ReadWrite), Some(OpenMode::ReadOnly), None] {
            let fork = |options: &ForkOptions| {
                let fork = match open_for {
                    Some(mode) => {
                        let open = OpenOptions { mode, ..OpenOptions::default() };
                        let source = from.open_with("old", &open, &ctx).unwrap();
                        let fork = place.repository.fork(&source, options, &ctx).unwrap();
                        source.close(&ctx).unwrap();
                        fork
                    }
                    None => place.repository.fork((&from, "old"), options, &ctx).unwrap(),
                };
                assert_eq!(fork.session.metadata().parent_session_id.as_deref(), Some("old"));
                // It is a session like every other.
                commit(&fork.session, &[set("app", "n", "1")]);
                fork.session
            };
            let source = dump(&from.open_read_only("old", &ctx).unwrap());
            let (whole, path) = (dump(&fork(&tree())), dump(&fork(&branch(ForkPoint::default()))));
            for same in ["name", "branches", "entries"] {
                assert_eq!(whole[same], source[same], "{uri}, {open_for:?}: {same}");
            }
            assert_eq!(whole["usage"], Value::Array(Vec::new()));
            assert_eq!(path["name"], "old one");
            let texts: Vec<&Value> = path["entries"]
                .as_array()
                .unwrap()
                .iter()
                .map(|entry| &entry["message"]["content"])
                .collect();
            assert_eq!(texts, ["one", "aside"], "{uri}");
            assert_eq!(values(&path)[&format!("pi.entry.label/{}", ids(&path)[0])], "start");
        }
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}
