//! Compacting: what is dead leaves the file, what is alive stays, and what cannot be compacted says why.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use pisession::{Address, CreateOptions, Json, Repository, open_repository};
use support::{Place, header, pisession};

/// A repository of JSON lines with sessions that hold more dead bytes than live ones.
fn lines(place: &Place, ids: &[&str]) -> (String, Repository) {
    let uri = format!("jsonl:{}", place.folder.path().join("lines").display());
    let repository = open_repository(&uri, Default::default()).unwrap();
    for id in ids {
        let options = CreateOptions { id: Some((*id).to_owned()), ..Default::default() };
        let session = repository.create(&options, &place.ctx).unwrap();
        session.create_branch("main", None, &place.ctx).unwrap();
        for number in 0..20 {
            let address = Address::new("app", "value").unwrap();
            session.set_value(&address, &Json::of(&number).unwrap(), &place.ctx).unwrap();
        }
        session.close(&place.ctx).unwrap();
    }
    (uri, repository)
}

#[test]
fn what_is_dead_leaves_the_file_and_the_dump_stays() {
    for kind in ["repository", "session", "file"] {
        let place = Place::new();
        let (uri, repository) = lines(&place, &["s"]);
        let session = repository.open_read_only("s", &place.ctx).unwrap();
        let path = session.metadata().path.clone().unwrap();
        let before = std::fs::metadata(&path).unwrap().len();
        let dump = pisession(&["dump", path.to_str().unwrap()]).fine();
        let target = match kind {
            "repository" => uri,
            "session" => format!("{uri}#s"),
            _ => path.to_str().unwrap().to_owned(),
        };
        let report = pisession(&["compact", &target, "--json"]).json();
        let after = std::fs::metadata(&path).unwrap().len();
        assert!(after < before, "{kind}");
        let line = &report["compacted"][0];
        assert_eq!(
            (&line["id"], &line["before"], &line["after"]),
            (&"s".into(), &before.into(), &after.into())
        );
        assert_eq!(report["failed"], serde_json::json!([]));
        assert_eq!(pisession(&["dump", path.to_str().unwrap()]).fine(), dump, "{kind}");
        pisession(&["doctor", path.to_str().unwrap(), "--full"]).fine();
    }
}

#[test]
fn a_session_that_is_open_is_left_and_the_others_are_compacted() {
    let place = Place::new();
    let (uri, repository) = lines(&place, &["open", "s", "t"]);
    let open = repository.open("open", &place.ctx).unwrap();
    let length = || std::fs::metadata(open.metadata().path.as_deref().unwrap()).unwrap().len();
    let before = length();
    let run = pisession(&["compact", &uri]);
    assert_eq!(run.code, 3, "{}", run.out);
    assert!(run.err.contains("open: error: ") && run.err.contains("1 of 3 sessions were not"), "{}", run.err);
    assert!(run.out.contains("2 sessions compacted, "), "{}", run.out);
    assert_eq!(length(), before);
    let json = pisession(&["compact", &uri, "--json"]);
    assert_eq!(json.code, 3);
    assert_eq!(json.json()["failed"][0]["error"]["kind"], "SessionBusy");
}

#[test]
fn sqlite_and_old_files_say_why_they_are_not_compacted() {
    let place = Place::new();
    place.session("s");
    for target in [place.uri.clone(), format!("{}#s", place.uri)] {
        let run = pisession(&["compact", &target, "--json"]);
        assert_eq!((run.code, run.json_error()["kind"].as_str()), (3, Some("Unsupported")), "{target}");
        assert!(run.json_error()["hint"].as_str().unwrap().contains("uses the room of deleted rows again"));
    }
    let file = place.file("old.jsonl", header("old"));
    let run = pisession(&["compact", &file, "--json"]);
    assert_eq!((run.code, run.json_error()["kind"].as_str()), (3, Some("LegacyReadOnly")));
    let folder = format!("jsonl:{}", place.folder.path().display());
    assert!(pisession(&["compact", &folder]).fine().starts_with("0 sessions compacted"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), header("old"));
    let nowhere = pisession(&["compact", "jsonl:no/such"]);
    assert_eq!(nowhere.code, 3);
}
