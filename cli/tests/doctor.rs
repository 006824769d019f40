//! What doctor finds, and that it only looks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use pisession::Write;
use support::{Place, header, pisession, user};

fn kinds(findings: &serde_json::Value) -> Vec<&str> {
    findings["findings"].as_array().unwrap().iter().map(|finding| finding["kind"].as_str().unwrap()).collect()
}

#[test]
fn a_sound_session_has_no_finding() {
    let place = Place::new();
    let (session, name) = place.session("s");
    place.append(&session, &[&user("a"), &user("b")]);
    let run = pisession(&["doctor", &name, "--json"]);
    assert_eq!((run.code, run.json()), (0, serde_json::json!({"sessions": 1, "findings": []})));
}

#[test]
fn labels_of_nothing_are_found() {
    let place = Place::new();
    let (session, name) = place.session("s");
    let ids = place.append(&session, &[&user("a")]);
    session.set_label(&ids[0], Some("good"), &place.ctx).unwrap();
    session.set_label("nowhere", Some("lost\u{1b}[2J"), &place.ctx).unwrap();
    let run = pisession(&["doctor", &name, "--json"]);
    assert_eq!((run.code, kinds(&run.json())), (1, vec!["label_of_nothing"]));
    assert_eq!(run.json()["findings"][0]["id"], "nowhere");
    let text = pisession(&["doctor", &name]);
    assert_eq!(text.code, 1);
    assert!(text.out.contains("the label 'lost␛[2J' is on no entry: 'nowhere'"), "{}", text.out);
    assert!(text.out.ends_with("1 session looked at, 1 finding\n"), "{}", text.out);
}

#[test]
fn lanes_without_all_their_parts_are_found() {
    let place = Place::new();
    let (session, name) = place.session("s");
    let config = pisession::Address::new("pi.lane.config", "main").unwrap();
    let write = Write::SetValue(config, pisession::Json::parse("{}").unwrap());
    session.mutate(|mutator, ctx| mutator.commit(&[write], ctx), &place.ctx).unwrap();
    let run = pisession(&["doctor", &name]);
    assert_eq!(run.code, 1);
    assert!(run.out.contains("incomplete_lane    lane 'main' has no state"), "{}", run.out);
}

#[test]
fn warnings_of_an_old_file_are_findings_with_their_place() {
    let place = Place::new();
    let head = header("s");
    let file = place.file("s.jsonl", format!("{head}{{broken\n"));
    let run = pisession(&["doctor", &file, "--json"]);
    assert_eq!((run.code, kinds(&run.json())), (1, vec!["bad_line"]));
    let finding = &run.json()["findings"][0];
    assert_eq!((&finding["line"], &finding["offset"]), (&2.into(), &head.len().into()));
    let info = pisession(&["info", &file]);
    assert!(info.fine().contains("health     bad_line: 1"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{head}{{broken\n"));
}

#[test]
fn a_file_that_is_no_session_is_a_finding() {
    let place = Place::new();
    for (name, content) in
        [("empty.jsonl", ""), ("text.jsonl", "hello\n"), ("bad.sqlite", "SQLite format 3\0 and no more")]
    {
        let run = pisession(&["doctor", &place.file(name, content), "--json"]);
        assert_eq!((run.code, kinds(&run.json())), (1, vec!["unreadable"]), "{name}: {}", run.err);
    }
}

#[test]
fn a_repository_is_looked_at_whole() {
    let place = Place::new();
    let (_good, _) = place.session("good");
    let (labelled, _) = place.session("labelled");
    labelled.set_label("nowhere", Some("lost"), &place.ctx).unwrap();
    std::fs::write(place.folder.path().join("sessions/bad.sqlite"), "no database").unwrap();
    let run = pisession(&["doctor", &place.uri, "--json"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.json()["sessions"], 3);
    let mut found = kinds(&run.json()).into_iter().map(str::to_owned).collect::<Vec<_>>();
    found.sort();
    assert_eq!(found, ["label_of_nothing", "unreadable"]);
}
