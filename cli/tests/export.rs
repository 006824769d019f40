//! Exporting: to a file, to stdout, with what is not in it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use support::{Place, pisession, sample};

const SAMPLE_ID: &str = "7d0e2f54-3c1a-4b6e-9f28-5a1c8e40b937";

/// The sample, imported.
fn imported(place: &Place) -> String {
    pisession(&["import", &sample(), "--into", &place.uri]).fine();
    format!("{}#{SAMPLE_ID}", place.uri)
}

#[test]
fn an_imported_file_comes_out_as_it_was() {
    let place = Place::new();
    let session = imported(&place);
    let out = place.file("out.jsonl", "");
    std::fs::remove_file(&out).unwrap();
    let run = pisession(&["export", &session, &out]);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    assert!(run.err.contains(&format!(" entries in {out}\n")), "{}", run.err);
    assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(sample()).unwrap());

    let run = pisession(&["export", &session, "-"]);
    assert_eq!(run.out.as_bytes(), std::fs::read(sample()).unwrap());
    let run = pisession(&["export", &sample(), "-", "--tree"]);
    assert_eq!(run.out.as_bytes(), std::fs::read(sample()).unwrap());
}

#[test]
fn a_file_that_is_there_stays_until_it_may_be_replaced() {
    let place = Place::new();
    let session = imported(&place);
    let out = place.file("out.jsonl", "mine");
    let run = pisession(&["export", &session, &out, "--json"]);
    assert_eq!((run.code, &run.json_error()["kind"]), (3, &"SessionExists".into()), "{}", run.err);
    assert!(run.json_error()["hint"].as_str().unwrap().contains("--overwrite"));
    assert_eq!(std::fs::read(&out).unwrap(), b"mine");
    let report = pisession(&["export", &session, &out, "--overwrite", "--json"]).json();
    assert_eq!(report["bytes"], std::fs::metadata(&out).unwrap().len());
    assert_eq!(report["losses"], serde_json::json!([]));
}

#[test]
fn a_branch_and_what_is_not_in_it_are_told() {
    let place = Place::new();
    let session = imported(&place);
    let run = pisession(&["export", &session, "-", "--branch", "main", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    let lines = run.out.lines().count();
    assert_eq!(report["lines"], lines);
    assert!(lines > 10 && lines < std::fs::read_to_string(sample()).unwrap().lines().count());
    let again = place.file("again.jsonl", &run.out);
    pisession(&["doctor", &again]).fine();
    let run = pisession(&["export", &session, "-", "--branch", "none"]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("no branch 'none'") && run.err.contains("main"), "{}", run.err);
    assert_eq!(pisession(&["export", &session, "-", "--branch", "main", "--tree"]).code, 2);
}
