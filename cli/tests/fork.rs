//! Forking: a path, a tree, into another repository, and what makes no sense.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use pisession::{Address, Json};
use support::{Place, pisession, sample, user};

#[test]
fn a_fork_has_the_path_to_its_entry_and_stays_in_the_repository() {
    let place = Place::new();
    let (session, name) = place.session("one");
    let ids = place.append(&session, &[&user("a"), &user("b"), &user("c")]);
    // While the session is open for writing here.
    let run = pisession(&["fork", &name, "--branch", "main", "--entry", &ids[1], "--id", "at", "--json"]);
    let report = run.json();
    assert_eq!(
        (run.code, &report["parentSessionId"], &report["messageCount"]),
        (0, &"one".into(), &2.into())
    );
    assert_eq!(report["leftOut"], serde_json::json!([]));
    let run = pisession(&["fork", &name, "--entry", &ids[1], "--before", "--id", "before"]);
    assert_eq!(run.fine(), "before  forked from one  1 message\n");
    let run = pisession(&["fork", &name, "--tree", "--id", "all"]);
    assert_eq!(run.fine(), "all  forked from one  3 messages\n");
    assert_eq!(pisession(&["ls", &place.uri]).fine().lines().count(), 4);
    let run = pisession(&["fork", &name, "--id", "all", "--json"]);
    assert_eq!((run.code, &run.json_error()["kind"]), (3, &"SessionExists".into()));
}

#[test]
fn an_old_file_forks_into_a_repository() {
    let place = Place::new();
    let into = format!("jsonl:{}", place.folder.path().join("lines").display());
    let run = pisession(&["fork", &sample(), "--tree", "--into", &into, "--id", "new", "--json"]);
    assert_eq!(run.json()["messageCount"], 33);
    assert_eq!(pisession(&["info", &format!("{into}#new"), "--json"]).json()["messageCount"], 33);
    let run = pisession(&["fork", &sample(), "--json"]);
    assert_eq!((run.code, &run.json_error()["kind"]), (2, &"InvalidArgument".into()));
}

#[test]
fn half_a_lane_is_named_and_told_by_the_exit_code() {
    let place = Place::new();
    let (session, name) = place.session("one");
    let config = Address::new("pi.lane.config", "main").unwrap();
    session.set_value(&config, &Json::parse("{}").unwrap(), &place.ctx).unwrap();
    let run = pisession(&["fork", &name, "--tree", "--json"]);
    assert_eq!((run.code, &run.json()["leftOut"]), (1, &serde_json::json!(["main"])));
    let run = pisession(&["fork", &name, "--json"]);
    assert_eq!((run.code, &run.json_error()["kind"]), (3, &"Corrupt".into()));
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let place = Place::new();
    let (_session, name) = place.session("one");
    let none = format!("{}#none", place.uri);
    for (arguments, code, kind) in [
        (&["fork", &name, "--branch", "no"][..], 3, "UnknownBranch"),
        (&["fork", &name, "--entry", "no"], 3, "UnknownEntry"),
        (&["fork", &name, "--tree", "--branch", "main"], 2, "InvalidArgument"),
        (&["fork", &name, "--into", "memory:"], 2, "InvalidArgument"),
        (&["fork", &name, "--into", "a.jsonl"], 2, "InvalidArgument"),
        (&["fork", &place.uri], 2, "InvalidArgument"),
        (&["fork", &none], 3, "UnknownSession"),
    ] {
        let run = pisession(&[arguments, &["--json"]].concat());
        assert_eq!((run.code, &run.json_error()["kind"]), (code, &kind.into()), "{arguments:?}: {}", run.err);
    }
    assert_eq!(pisession(&["ls", &place.uri]).fine().lines().count(), 1);
}
