//! Importing: once, again, damaged, several at a time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use support::{Place, header, pisession, sample, user};

fn message(id: &str, parent: &str) -> String {
    let message = user(id);
    format!(
        "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":{parent},\"timestamp\":\"2026-01-01T00:00:01.000Z\",\"message\":{message}}}\n"
    )
}

#[test]
fn importing_again_adds_nothing() {
    let place = Place::new();
    let import = || pisession(&["import", &sample(), "--into", &place.uri, "--json"]);
    let first = import();
    assert_eq!((first.code, &first.json()["imported"][0]["added"]), (0, &true.into()));
    let again = import();
    assert_eq!((again.code, &again.json()["imported"][0]["added"]), (0, &false.into()));
    assert_eq!(pisession(&["ls", &place.uri]).fine().lines().count(), 1);
}

#[test]
fn the_id_can_be_chosen() {
    let place = Place::new();
    let run = pisession(&["import", &sample(), "--into", &place.uri, "--id", "mine", "--json"]);
    assert_eq!(run.json()["imported"][0]["id"], "mine");
    assert_eq!(pisession(&["info", &format!("{}#mine", place.uri), "--json"]).json()["messageCount"], 33);
}

#[test]
fn the_file_is_not_written() {
    let place = Place::new();
    let copy = place.file("copy.jsonl", std::fs::read(sample()).unwrap());
    pisession(&["import", &copy, "--into", &place.uri]).fine();
    assert_eq!(std::fs::read(copy).unwrap(), std::fs::read(sample()).unwrap());
}

#[test]
fn a_damaged_file_is_refused_until_salvage_is_asked_for() {
    let place = Place::new();
    let damaged = place
        .file("damaged.jsonl", header("d") + &message("a", "null") + "{broken\n" + &message("b", "\"a\""));
    for option in [&[][..], &["--strict"]] {
        let run = pisession(&[&["import", &damaged, "--into", &place.uri, "--json"], option].concat());
        assert_eq!((run.code, &run.json_error()["kind"]), (3, &"Corrupt".into()), "{}", run.err);
        assert_eq!(run.json_error()["line"], 3);
    }
    let run = pisession(&["import", &damaged, "--into", &place.uri, "--salvage", "--json"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.json()["imported"][0]["warnings"][0]["kind"], "bad_line");
    assert_eq!(pisession(&["info", &format!("{}#d", place.uri), "--json"]).json()["messageCount"], 2);
}

#[test]
fn a_file_that_fails_does_not_stop_the_others() {
    let place = Place::new();
    let good = place.file("good.jsonl", header("good") + &message("a", "null"));
    let other = place.file("other.jsonl", "nothing of a session\n");
    let run = pisession(&["import", &other, &good, "--into", &place.uri, "--json"]);
    assert_eq!(run.code, 3);
    assert_eq!(run.json()["imported"][0]["id"], "good");
    assert_eq!(run.json()["failed"][0]["error"]["kind"], "NotASession");
    let text = pisession(&["import", &other, &good, "--into", &place.uri]);
    assert_eq!(text.code, 3);
    assert!(text.out.starts_with("good  was there already"), "{}", text.out);
    assert!(text.err.contains("other.jsonl: error: "), "{}", text.err);
}

#[test]
fn another_file_of_the_same_session_is_refused_with_a_way_out() {
    let place = Place::new();
    let one = place.file("one.jsonl", header("same") + &message("a", "null"));
    let two = place.file("two.jsonl", header("same") + &message("b", "null"));
    pisession(&["import", &one, "--into", &place.uri]).fine();
    let run = pisession(&["import", &two, "--into", &place.uri]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("--id"), "{}", run.err);
    pisession(&["import", &two, "--into", &place.uri, "--id", "other"]).fine();
}

#[test]
fn many_warnings_are_counted_for_people_and_named_for_programs() {
    let place = Place::new();
    let text = header("d") + &message("a", "null") + &"{broken\n".repeat(50) + &message("b", "\"nowhere\"");
    let damaged = place.file("damaged.jsonl", text);
    let run = pisession(&["import", &damaged, "--into", &place.uri, "--salvage"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.out.lines().count(), 22, "{}", run.out);
    let last = format!("  and more: bad_line 30, missing_parent 1; pisession doctor {damaged} names all");
    assert_eq!(run.out.lines().last().unwrap(), last);
    let all = pisession(&["import", &damaged, "--into", &place.uri, "--salvage", "--json"]).json();
    assert_eq!(all["imported"][0]["warnings"].as_array().unwrap().len(), 51);
}

#[test]
fn importing_into_memory_makes_no_sense() {
    let run = pisession(&["import", &sample(), "--into", "memory:", "--json"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.json_error()["hint"].as_str().unwrap().contains("jsonl:PATH"), "{}", run.err);
}

#[test]
fn an_id_that_cannot_be_used_has_a_way_out() {
    let place = Place::new();
    let long = place.file("long.jsonl", header(&"x".repeat(300)) + &message("a", "null"));
    let run = pisession(&["import", &long, "--into", &place.uri, "--json"]);
    assert_eq!((run.code, &run.json_error()["kind"]), (3, &"InvalidId".into()), "{}", run.err);
    assert!(run.json_error()["hint"].as_str().unwrap().contains("--id"), "{}", run.err);
    pisession(&["import", &long, "--into", &place.uri, "--id", "short"]).fine();
}

#[test]
fn the_demo_takes_a_damaged_file() {
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/demo.sh");
    let demo = std::fs::read_to_string(demo).unwrap();
    let line = demo.lines().find(|line| line.contains("pisession import")).expect("an import");
    assert!(line.contains(" --salvage") && line.ends_with("|| [ $? -eq 1 ]"), "{line}");
}
