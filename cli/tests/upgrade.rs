//! Upgrading: a file becomes one of format 4 in its place, once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use support::{Place, header, pisession, sample};

#[test]
fn a_file_is_upgraded_once_and_its_old_bytes_are_kept() {
    let place = Place::new();
    let bytes = std::fs::read(sample()).unwrap();
    let file = place.file("sample.jsonl", &bytes);
    let first = pisession(&["upgrade", &file, "--json"]);
    let backup = format!("{file}.v3.bak");
    assert_eq!((first.code, &first.json()["upgraded"]), (0, &true.into()), "{}", first.err);
    assert_eq!(first.json()["backup"], backup);
    assert_eq!(std::fs::read(&backup).unwrap(), bytes);
    let info = pisession(&["info", &file, "--json"]).json();
    assert_eq!((&info["format"], &info["messageCount"]), (&"jsonl-4".into(), &33.into()));
    assert_eq!(info["id"], first.json()["id"]);
    assert_eq!(pisession(&["doctor", &file, "--full"]).code, 0);
    let upgraded = std::fs::read(&file).unwrap();
    let again = pisession(&["upgrade", &file]);
    assert!(again.fine().contains("was of format 4 already"));
    assert_eq!(std::fs::read(&file).unwrap(), upgraded);
}

#[test]
fn a_damaged_file_is_left_alone_until_salvage_is_asked_for() {
    let place = Place::new();
    let text = header("d") + "{broken\n";
    let file = place.file("damaged.jsonl", &text);
    for (option, hint) in [(&[][..], "--salvage"), (&["--strict"], "without --strict")] {
        let run = pisession(&[&["upgrade", &file, "--json"], option].concat());
        assert_eq!((run.code, &run.json_error()["kind"]), (3, &"Corrupt".into()), "{}", run.err);
        assert!(run.json_error()["hint"].as_str().unwrap().contains(hint), "{}", run.err);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    let run = pisession(&["upgrade", &file, "--salvage"]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.out.starts_with("d  upgraded  ") && run.out.contains("bad_line line 2"), "{}", run.out);
}

#[test]
fn what_is_no_session_file_is_refused() {
    let place = Place::new();
    let other = place.file("other.jsonl", "nothing of a session\n");
    let run = pisession(&["upgrade", &other, "--json"]);
    assert_eq!((run.code, &run.json_error()["kind"]), (3, &"NotASession".into()));
    assert_eq!(pisession(&["upgrade"]).code, 2);
}
