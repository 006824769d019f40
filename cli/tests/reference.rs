//! The command line on SQLite containers of the reference implementation: it looks, and writes nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

#[path = "../../core/tests/support/reference.rs"]
#[allow(dead_code)] // other tests use the rest
mod reference;
mod support;

use std::path::Path;

use reference::Container;
use support::pisession;

/// A container of one session, "one", or of two.
fn container(path: &Path, sessions: &[&str]) {
    let mut container = Container::create(path);
    for (created_at, session) in (1..).zip(sessions) {
        container.session(session, created_at);
        container.chain(session, 3);
    }
    container.close();
}

#[test]
fn every_command_that_looks_works_on_a_file_and_on_a_session_of_a_container() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sqlite");
    container(&path, &["one"]);
    let before = std::fs::read(&path).unwrap();
    let file = path.to_str().unwrap();
    let uri = format!("sqlite:{file}");
    let named = format!("{uri}#one");
    let in_folder = format!("sqlite:{}#one", folder.path().display());
    for session in [file, &named, &in_folder] {
        let info = pisession(&["info", session, "--json"]).json();
        assert_eq!((&info["id"], &info["format"]), (&"one".into(), &"reference-sqlite".into()), "{session}");
        assert_eq!((&info["messageCount"], &info["nextSeq"]), (&3.into(), &5.into()));
        assert!(pisession(&["tree", session]).fine().contains("text 3"));
        assert!(pisession(&["log", session]).fine().contains("text 2"));
        assert!(pisession(&["show", session, "e1"]).fine().contains("text 1"));
        let dump = pisession(&["dump", session]).json();
        assert_eq!((dump["entries"].as_array().unwrap().len(), &dump["branches"]["main"]), (3, &"e3".into()));
        let doctor = pisession(&["doctor", session, "--json"]);
        assert_eq!((doctor.code, doctor.json()), (0, serde_json::json!({"sessions": 1, "findings": []})));
    }
    let listed = pisession(&["ls", &uri, "--json"]).json_lines();
    assert_eq!((listed.len(), &listed[0]["format"]), (1, &"reference-sqlite".into()));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_container_of_several_sessions_is_looked_over_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sqlite");
    container(&path, &["one", "two"]);
    let uri = format!("sqlite:{}", path.display());
    let damaged = Container::open(&path);
    damaged.sql.execute_batch("DELETE FROM entries WHERE session_id = 'two' AND id = 'e2'").unwrap();
    damaged.sql.execute_batch("UPDATE sessions SET storage_version = 2 WHERE id = 'one'").unwrap();
    damaged.close();
    let run = pisession(&["doctor", &uri, "--json"]);
    assert_eq!((run.code, &run.json()["sessions"]), (1, &2.into()));
    let findings = run.json()["findings"].as_array().unwrap().clone();
    let of = |kind: &str, error: Option<&str>| {
        findings.iter().any(|finding| finding["kind"] == kind && finding["error"].as_str() == error)
    };
    assert!(of("unreadable", Some("UnsupportedVersion")), "{findings:?}");
    assert!(of("unreadable", Some("Corrupt")), "{findings:?}");
    assert!(of("parent_of_nothing", None), "{findings:?}");
    let log = pisession(&["log", &format!("{uri}#two"), "--json"]);
    assert_eq!((log.code, log.json_error()["kind"].as_str()), (3, Some("Corrupt")));
    let info = pisession(&["info", path.to_str().unwrap(), "--json"]);
    assert_eq!(info.json_error()["kind"], "AmbiguousSession");
}
