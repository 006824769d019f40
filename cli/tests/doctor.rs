//! What doctor finds, and that it only looks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use pisession::{Context, CreateOptions, Write, open_repository};
use support::{Place, header, pisession, sample, user};

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

/// A container with two sessions, in which the last page of an index is none any more.
fn damaged_container(place: &Place) -> String {
    let path = place.folder.path().join("all.db");
    let uri = format!("sqlite:{}", path.display());
    let repository = open_repository(&uri, Default::default()).unwrap();
    for id in ["s", "t"] {
        let options = CreateOptions { id: Some(id.to_owned()), ..Default::default() };
        repository.create(&options, &place.ctx).unwrap();
    }
    repository.close(&place.ctx).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let page = 4096;
    let index = bytes.chunks(page).rposition(|page| page[0] == 10).unwrap();
    bytes[index * page..(index + 1) * page].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    uri
}

#[test]
fn a_damaged_database_file_is_one_finding_for_all_its_sessions() {
    let place = Place::new();
    let uri = damaged_container(&place);
    let run = pisession(&["doctor", &uri, "--json"]);
    let report = run.json();
    assert_eq!((run.code, &report["sessions"]), (1, &2.into()), "{}", run.out);
    let about_the_file: Vec<_> =
        report["findings"].as_array().unwrap().iter().filter(|f| f["kind"] == "damaged_file").collect();
    assert!(!about_the_file.is_empty(), "{}", run.out);
    for finding in &about_the_file {
        assert!(finding["path"].as_str().unwrap().ends_with("all.db"), "{finding}");
        assert!(finding["hint"].is_string() && finding.get("session").is_none(), "{finding}");
    }
    let text = pisession(&["doctor", &uri]).out;
    assert_eq!(text.matches("hint: copy the file first").count(), 1, "{text}");
    let alone = pisession(&["doctor", &format!("{uri}#s"), "--json"]).json();
    let count = alone["findings"].as_array().unwrap().iter().filter(|f| f["kind"] == "damaged_file").count();
    assert_eq!(count, about_the_file.len(), "the file was looked at twice");
}

#[test]
fn every_kind_of_target_takes_full() {
    let place = Place::new();
    let (session, name) = place.session("s");
    place.append(&session, &[&user("a")]);
    for target in [&sample(), &name, &place.uri] {
        let out = pisession(&["doctor", target, "--full"]).fine();
        assert_eq!(out, "1 session looked at, nothing found\n", "{target}");
    }
}

/// A repository of JSON lines with a session `s`; the path of its file.
fn lines(place: &Place) -> (String, String) {
    let uri = format!("jsonl:{}", place.folder.path().join("lines").display());
    let repository = open_repository(&uri, Default::default()).unwrap();
    let options = CreateOptions { id: Some("s".to_owned()), ..Default::default() };
    let session = repository.create(&options, &place.ctx).unwrap();
    session.create_branch("main", None, &place.ctx).unwrap();
    let path = session.metadata().path.clone().unwrap();
    session.close(&Context::background()).unwrap();
    (uri, path.to_str().unwrap().to_owned())
}

#[test]
fn a_torn_tail_is_a_finding_with_its_place() {
    let place = Place::new();
    let (uri, path) = lines(&place);
    let mut bytes = std::fs::read(&path).unwrap();
    let length = bytes.len();
    bytes.extend(b"{\"kind");
    std::fs::write(&path, &bytes).unwrap();
    for target in [uri.clone(), format!("{uri}#s"), path.clone()] {
        let run = pisession(&["doctor", &target, "--json"]);
        assert_eq!((run.code, kinds(&run.json())), (1, vec!["torn_tail"]), "{target}");
        let finding = &run.json()["findings"][0];
        assert_eq!((&finding["line"], &finding["offset"]), (&3.into(), &length.into()));
    }
    let text = pisession(&["doctor", &path]);
    assert!(text.out.contains(&format!("line 3, byte {length}\n  hint: ")), "{}", text.out);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn every_damaged_line_is_a_finding_with_its_place() {
    let place = Place::new();
    let (uri, path) = lines(&place);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{whole}broken\n\n{{\"kind\":\"blob\",\"seq\":9}}\n")).unwrap();
    for target in [uri.clone(), format!("{uri}#s"), path.clone()] {
        let run = pisession(&["doctor", &target, "--full", "--json"]);
        assert_eq!((run.code, kinds(&run.json())), (1, vec!["damaged_line"; 3]), "{target}");
        assert_eq!(run.json()["findings"][1]["line"], 4);
        assert_eq!(run.json()["findings"][1]["offset"], whole.len() + "broken\n".len());
    }
    let text = pisession(&["doctor", &path]).out;
    assert_eq!(text.matches("pisession repair").count(), 1, "{text}");
}

#[test]
fn info_tells_what_a_brief_look_finds() {
    let place = Place::new();
    let (session, name) = place.session("s");
    session.set_label("nowhere", Some("lost"), &place.ctx).unwrap();
    let info = pisession(&["info", &name]).fine();
    let line = "health     label_of_nothing: the label 'lost' is on no entry: 'nowhere'";
    assert!(info.contains(line), "{info}");
    let (_, path) = lines(&place);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend(b"{\"kind");
    std::fs::write(&path, &bytes).unwrap();
    let found = pisession(&["info", &path, "--json"]).json()["findings"][0].to_string();
    assert!(found.starts_with("\"torn_tail: "), "{found}");
}

#[test]
fn two_files_of_one_session_are_named() {
    let place = Place::new();
    let (uri, path) = lines(&place);
    let copy = std::path::Path::new(&path).with_file_name("copy.jsonl");
    std::fs::copy(&path, &copy).unwrap();
    let run = pisession(&["doctor", &uri, "--json"]);
    assert_eq!((run.code, kinds(&run.json())), (1, vec!["same_id"]), "{}", run.out);
    let message = run.json()["findings"][0]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&path) && message.contains(copy.to_str().unwrap()), "{message}");
    let info = pisession(&["info", &format!("{uri}#s"), "--json"]);
    assert_eq!(info.json_error()["kind"], "AmbiguousSession");
    let hint = info.json_error()["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("the path of its file") && hint.contains("pisession doctor jsonl:"), "{hint}");
    pisession(&["info", &path]).fine();
}

#[test]
fn an_import_that_was_cut_off_is_found_with_the_way_on() {
    let place = Place::new();
    pisession(&["import", &sample(), "--into", &place.uri, "--id", "s"]).fine();
    let session = place.repository.open("s", &place.ctx).unwrap();
    let list = pisession::Address::new("pisession.legacy", "").unwrap();
    session.append_list(&list, &pisession::Json::null(), &place.ctx).unwrap();
    let run = pisession(&["doctor", &format!("{}#s", place.uri)]);
    assert_eq!(run.code, 1);
    assert!(
        run.out.contains("unfinished_import  ") && run.out.contains("import the same file again"),
        "{}",
        run.out
    );
}
