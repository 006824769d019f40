//! Convert copies sessions as they are, once, and goes on past what fails.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use pisession::open_repository;
use support::{Place, header, pisession, run, sample, user};

/// A place whose repository holds two sessions.
fn two() -> Place {
    let place = Place::new();
    for id in ["s", "t"] {
        let (session, _) = place.session(id);
        place.append(&session, &[&user("a"), &user("b")]);
        session.close(&place.ctx).unwrap();
    }
    place
}

/// The dump without the working folder, which a session of JSON lines always has.
fn dump(target: &str) -> String {
    let text = pisession(&["dump", target]).fine();
    let cwd = format!(",\"cwd\":{}", serde_json::json!(std::env::current_dir().unwrap().to_str().unwrap()));
    text.replace(&cwd, "")
}

#[test]
fn a_repository_goes_to_every_kind_and_back_and_a_second_time_adds_nothing() {
    let place = two();
    let to = |name: &str| format!("{name}{}", place.folder.path().join(name.trim_end_matches(':')).display());
    let lines = to("jsonl:");
    let container = format!("sqlite:{}", place.folder.path().join("all.db").display());
    for (from, to) in [(&place.uri, &lines), (&lines, &container)] {
        let out = pisession(&["convert", from, to]).fine();
        assert!(out.ends_with("2 of 2 sessions converted, 0 were there already\n"), "{out}");
        let again = pisession(&["convert", from, to, "--json"]);
        let made: Vec<bool> = again.json()["converted"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["made"].as_bool().unwrap())
            .collect();
        assert_eq!((again.code, made), (0, vec![false, false]));
        for id in ["s", "t"] {
            assert_eq!(dump(&format!("{from}#{id}")), dump(&format!("{to}#{id}")));
        }
        pisession(&["doctor", to, "--full"]).fine();
    }
}

#[test]
fn one_session_is_named_by_its_id_or_its_file_and_an_old_file_is_imported() {
    let place = two();
    let into = format!("sqlite:{}", place.folder.path().join("into").display());
    let session = place.repository.open_read_only("t", &place.ctx).unwrap();
    let file = session.metadata().path.clone().unwrap();
    for source in [format!("{}#s", place.uri), file.to_str().unwrap().to_owned(), sample()] {
        let report = pisession(&["convert", &source, &into, "--json"]).json();
        assert_eq!(
            (&report["converted"][0]["made"], &report["failed"]),
            (&true.into(), &serde_json::json!([]))
        );
        let out = pisession(&["convert", &source, &into]).fine();
        assert!(out.contains("  was there already  "), "{out}");
    }
    let listed =
        open_repository(&into, Default::default()).unwrap().list(&Default::default(), &place.ctx).unwrap();
    assert_eq!(listed.len(), 3);
}

#[test]
fn what_fails_is_told_and_the_others_go_on() {
    let place = two();
    let into = format!("sqlite:{}", place.folder.path().join("into").display());
    let there = open_repository(&into, Default::default()).unwrap();
    let options = pisession::CreateOptions { id: Some("t".to_owned()), ..Default::default() };
    there.create(&options, &place.ctx).unwrap();
    std::fs::write(place.folder.path().join("sessions/bad.sqlite"), "no database").unwrap();
    let run = pisession(&["convert", &place.uri, &into]);
    assert_eq!(run.code, 3, "{}", run.out);
    assert!(run.out.contains("s  converted  "), "{}", run.out);
    assert!(run.err.contains("t: error: a session 't' is there already, and is not the same"), "{}", run.err);
    assert!(run.err.contains("2 of 3 sessions were not converted"), "{}", run.err);
    let json = pisession(&["convert", &place.uri, &into, "--json"]);
    let mut kinds: Vec<String> = json.json()["failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|failed| failed["error"]["kind"].as_str().unwrap().to_owned())
        .collect();
    kinds.sort();
    assert_eq!((json.code, kinds), (3, vec!["NotASession".to_owned(), "SessionExists".to_owned()]));
}

#[test]
fn a_damaged_source_is_refused_with_the_way_out() {
    let place = Place::new();
    let file = place.file("old.jsonl", format!("{}broken\n", header("old")));
    let folder = format!("jsonl:{}", place.folder.path().display());
    for source in [&file, &folder] {
        let run = pisession(&["convert", source, &place.uri]);
        assert_eq!(run.code, 3, "{}", run.out);
        assert!(run.err.contains("pisession repair"), "{source}: {}", run.err);
    }
}

#[test]
fn a_session_that_is_open_elsewhere_is_converted() {
    let place = two();
    let _open = place.repository.open("s", &place.ctx).unwrap();
    let into = format!("sqlite:{}", place.folder.path().join("into").display());
    pisession(&["convert", &place.uri, &into]).fine();
}

#[test]
fn arguments_that_make_no_sense_are_told() {
    let place = two();
    for (arguments, code) in [
        (&["convert", &place.uri][..], 2),
        (&["convert", &place.uri, "memory:"], 2),
        (&["convert", &place.uri, "elsewhere"], 2),
        (&["convert", "sqlite:no/such", &place.uri], 3),
        (&["convert", &format!("{}#nobody", place.uri), &place.uri], 3),
    ] {
        let run = run(&mut support::command(arguments));
        assert_eq!((run.code, run.out.as_str()), (code, ""), "{arguments:?}: {}", run.err);
    }
}
