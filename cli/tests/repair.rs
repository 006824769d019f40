//! Repair tells what is missing, makes a sound session of the rest, and never touches the source.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use pisession::{CreateOptions, open_repository};
use support::{Place, header, pisession, user};

/// A file of JSON lines with three messages, of which the line of the second is damaged; its repository.
fn damaged(place: &Place) -> (String, String) {
    let uri = format!("jsonl:{}", place.folder.path().join("lines").display());
    let repository = open_repository(&uri, Default::default()).unwrap();
    let options = CreateOptions { id: Some("s".to_owned()), ..Default::default() };
    let session = repository.create(&options, &place.ctx).unwrap();
    session.create_branch("main", None, &place.ctx).unwrap();
    place.append(&session, &[&user("first"), &user("second"), &user("third")]);
    session.close(&place.ctx).unwrap();
    let path = session.metadata().path.clone().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"role\":\"user\",\"content\":\"second\"", "\"role:\"user\""))
        .unwrap();
    (uri, path.to_str().unwrap().to_owned())
}

fn kinds(report: &serde_json::Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["kind"].as_str().unwrap()).collect()
}

#[test]
fn a_dry_run_tells_what_a_repair_tells_and_makes_nothing() {
    let place = Place::new();
    let (uri, path) = damaged(&place);
    let before = std::fs::read(&path).unwrap();
    for source in [path.clone(), format!("{uri}#s")] {
        let run = pisession(&["repair", &source, "--dry-run", "--json"]);
        let report = run.json();
        assert_eq!((run.code, kinds(&report)), (1, vec!["damaged_line", "parent_of_nothing"]), "{}", run.err);
        assert_eq!(report["kept"]["entries"], 2);
        assert_eq!(report["source"]["id"], "s");
        assert!(report.get("session").is_none());
        let line = &report["findings"][0];
        assert_eq!(line["line"], 4);
        assert!(line["offset"].is_u64() && line["length"].is_u64());
    }
    let text = pisession(&["repair", &path, "--dry-run"]);
    assert!(
        text.out.contains("it is a root now") && text.out.contains("would keep 2 entries, "),
        "{}",
        text.out
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(place.repository.list(&Default::default(), &place.ctx).unwrap().len(), 0);
}

#[test]
fn a_repaired_session_is_sound_and_the_source_stays() {
    let place = Place::new();
    let (_, path) = damaged(&place);
    let before = std::fs::read(&path).unwrap();
    let run = pisession(&["repair", &path, "--into", &place.uri, "--id", "new"]);
    assert_eq!((run.code, run.err.as_str()), (1, ""), "{}", run.out);
    assert!(run.out.contains("new  made, with 2 entries"), "{}", run.out);
    pisession(&["doctor", &format!("{}#new", place.uri), "--full"]).fine();
    assert!(pisession(&["log", &format!("{}#new", place.uri)]).fine().contains("third"));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let again = pisession(&["repair", &path, "--into", &place.uri, "--id", "new", "--json"]);
    assert_eq!((again.code, again.json_error()["kind"].as_str()), (3, Some("SessionExists")));
    assert!(again.json_error()["hint"].as_str().unwrap().contains("--id"));
}

#[test]
fn a_sound_session_and_an_old_file_are_repaired_too() {
    let place = Place::new();
    let (session, name) = place.session("s");
    place.append(&session, &[&user("a")]);
    let run = pisession(&["repair", &name, "--dry-run", "--json"]);
    assert_eq!((run.code, kinds(&run.json())), (0, vec![]), "{}", run.err);
    let file = place.file("old.jsonl", format!("{}broken\n", header("old")));
    let run = pisession(&["repair", &file, "--into", &place.uri, "--json"]);
    assert_eq!((run.code, kinds(&run.json())), (1, vec!["bad_line"]), "{}", run.err);
    assert_eq!(run.json()["session"]["id"], "old");
    pisession(&["info", &format!("{}#old", place.uri)]).fine();
}

#[test]
fn arguments_that_make_no_sense_and_files_that_hold_nothing_are_told_apart() {
    let place = Place::new();
    let (uri, path) = damaged(&place);
    let empty = place.file("empty.jsonl", "");
    for (arguments, code) in [
        (&["repair", &path][..], 2),
        (&["repair", &path, "--dry-run", "--into", &place.uri], 2),
        (&["repair", &uri, "--dry-run"], 2),
        (&["repair", &path, "--into", "memory:"], 2),
        (&["repair", &path, "--into", "elsewhere"], 2),
        (&["repair", &empty, "--dry-run"], 3),
        (&["repair", "no/such.jsonl", "--dry-run"], 3),
        (&["repair", &format!("{uri}#nobody"), "--dry-run"], 3),
    ] {
        let run = pisession(arguments);
        assert_eq!((run.code, run.out.as_str()), (code, ""), "{arguments:?}: {}", run.err);
        assert!(!run.err.is_empty());
    }
}
