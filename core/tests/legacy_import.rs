//! Sessions made from files of versions 1 to 3 under the id the file has.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests, which clippy does not take for tests

mod legacy_support;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use legacy_support::{
    DeadlyClock, HEADER, Old, TIME, content, ctx, memory, message, repositories, salvage, sha256,
};
use pisession::{
    Address, Context, CreateOptions, ErrorKind, ImportOptions, LegacyPolicy, ListRead, OpenOptions,
    Repository, RepositoryOptions, SessionReader, WarningKind, import_file, open_file, open_repository,
};

#[test]
fn usage_is_summed_leniently_and_stays_a_number() {
    let usage = |usage: &str| {
        format!(
            r#"{{"type":"usage","id":"u","parentId":null,"timestamp":"2026-03-01T10:00:01Z","usage":{usage}}}"#
        )
    };
    let cases = [
        (r#"{"input":1,"cost":{"total":0.5}}"#, 1.0, 0.5),
        (r#"{"input":"1","cost":7}"#, 0.0, 0.0),
        (r#"{"input":1,"input":2,"cost":{"total":1},"cost":{}}"#, 2.0, 0.0),
        (r#"{"input":1e999}"#, f64::MAX, 0.0),
        ("null", 0.0, 0.0),
    ];
    for (text, input, total) in cases {
        let old = Old::of(&[&usage(text)]);
        let stats = old.open().stats(&ctx()).unwrap();
        assert_eq!((stats.usage.input, stats.usage.cost.total), (input, total), "{text}");
        let repository = memory();
        import_file(&old.path, &repository, &ImportOptions::default(), &ctx()).unwrap();
        assert_eq!(repository.open("old", &ctx()).unwrap().stats(&ctx()).unwrap(), stats, "{text}");
    }
}

#[test]
fn importing_twice_adds_nothing() {
    for (_folder, repository) in repositories() {
        imports_once(&repository);
    }
}

#[test]
fn a_file_is_not_imported_into_the_folder_it_lies_in_under_its_own_id() {
    let old = Old::of(&[&message("b1", None, 1)]);
    let folder = old.path.parent().unwrap();
    let before = std::fs::read(&old.path).unwrap();
    let repository =
        open_repository(&format!("jsonl:{}", folder.display()), RepositoryOptions::default()).unwrap();
    let error = import_file(&old.path, &repository, &ImportOptions::default(), &ctx()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExists, "{error}");
    assert_eq!(std::fs::read(&old.path).unwrap(), before);
    let options = ImportOptions { id: Some("other".to_owned()), ..ImportOptions::default() };
    assert!(import_file(&old.path, &repository, &options, &ctx()).unwrap().added);
    // Both are listed, the old one with the version it has.
    let listed = repository.list(&Default::default(), &ctx()).unwrap();
    let formats: Vec<String> = listed.iter().map(|listing| listing.format.to_string()).collect();
    assert!(
        formats.contains(&"jsonl-3".to_owned()) && formats.contains(&"jsonl-4".to_owned()),
        "{formats:?}"
    );
}

fn imports_once(repository: &Repository) {
    let usage = r#"{"type":"usage","id":"u1","parentId":"b1","timestamp":"2026-03-01T10:00:02.000Z","usage":{"input":5,"cost":{"total":0.25}}}"#;
    let old = Old::of(&[&message("b1", None, 1), usage]);
    let first = import_file(&old.path, repository, &ImportOptions::default(), &ctx()).unwrap();
    assert_eq!((first.session_id(), first.added, first.entries), ("old", true, 1));
    assert_eq!(first.session.created_at, TIME);
    let session = repository.open("old", &ctx()).unwrap();
    assert_eq!(content(&session), content(&old.open()));
    session.set_name(Some("renamed"), &ctx()).unwrap();
    let stats = session.stats(&ctx()).unwrap();
    assert_eq!((stats.usage.input, stats.usage.cost.total), (5.0, 0.25));
    session.close(&ctx()).unwrap();
    let again = import_file(&old.path, repository, &ImportOptions::default(), &ctx()).unwrap();
    assert_eq!((again.session_id(), again.added, again.entries), ("old", false, 1));
    let session = repository.open("old", &ctx()).unwrap();
    assert_eq!(session.stats(&ctx()).unwrap(), stats);
    assert_eq!(session.name(&ctx()).unwrap().as_deref(), Some("renamed"));
    assert_eq!(repository.list(&Default::default(), &ctx()).unwrap().len(), 1);
}

#[test]
fn an_older_state_of_an_imported_file_adds_nothing_and_a_newer_or_other_one_is_refused() {
    let model = r#"{"type":"model_change","id":"a1","parentId":"b1","timestamp":"2026-03-01T10:00:02.000Z","provider":"p","modelId":"m"}"#;
    let (b1, b2, b3) = (message("b1", None, 1), message("b2", Some("a1"), 3), message("b3", Some("b2"), 4));
    let lines = [b1.as_str(), model, &b2, &b3];
    let repository = memory();
    let import = |old: &Old, id: Option<&str>| {
        let options = ImportOptions { id: id.map(str::to_owned), ..ImportOptions::default() };
        import_file(&old.path, &repository, &options, &ctx())
    };
    assert!(import(&Old::of(&lines[..3]), None).unwrap().added);
    for older in 0..=3 {
        assert!(!import(&Old::of(&lines[..older]), None).unwrap().added, "{older} lines");
    }
    let other_text = b1.replace("text", "TEXT");
    let other_model = model.replace("\"m\"", "\"n\"");
    for (name, other) in [
        ("newer", Old::of(&lines)),
        ("other entry", Old::of(&[&other_text])),
        ("other dropped line", Old::of(&[&b1, &other_model])),
    ] {
        let error = import(&other, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionExists, "{name}");
        assert!(error.hint().unwrap().contains("another id"), "{name}: {error}");
    }
    let newer = import(&Old::of(&lines), Some("newer")).unwrap();
    assert_eq!((newer.session_id(), newer.added, newer.entries), ("newer", true, 3));
    assert_eq!(newer.session.parent_session_id, None);
}

#[test]
fn a_state_of_an_imported_file_that_breaks_off_anywhere_adds_nothing() {
    let model = r#"{"type":"model_change","id":"a1","parentId":"b1","timestamp":"2026-03-01T10:00:02.000Z","provider":"p","modelId":"m"}"#;
    let (b1, b2, b3) = (message("b1", None, 1), message("b2", Some("a1"), 3), message("b3", Some("b2"), 4));
    let later = message("b2", Some("b3"), 2);
    let cases = [
        ("line feeds", [HEADER, &b1, model, &b2, ""].join("\n")),
        ("carriage returns and a byte-order mark", format!("\u{feff}{HEADER}\r\n\r\n{b1}\r\n{model}\r\n")),
        ("glued", format!("{HEADER}\n{b1}{model}{b2}\n{b3}\n")),
        ("a broken line", format!("{HEADER}\n{b1}\n{{broken\n{b3}\n")),
        ("parents that come later", format!("{HEADER}\n{later}\n{b3}\n")),
    ];
    for (name, text) in cases {
        let repository = memory();
        assert!(import_file(&Old::new(&text).path, &repository, &salvage(), &ctx()).unwrap().added);
        let first = text.find('\n').unwrap();
        for cut in (first..=text.len()).rev().step_by(4) {
            // No salvage: nothing is written from it.
            let older = Old::new(&text[..cut]);
            let again = import_file(&older.path, &repository, &ImportOptions::default(), &ctx());
            let again = again.unwrap_or_else(|error| panic!("{name}, {cut} bytes: {error}"));
            assert_eq!((again.session_id(), again.added), ("old", false), "{name}, {cut} bytes");
        }
        // The same up to a place, and then something else.
        for cut in (first + 1..text.len()).step_by(29) {
            let other = Old::new([&text.as_bytes()[..cut], b"\x01"].concat());
            let error = import_file(&other.path, &repository, &salvage(), &ctx()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SessionExists, "{name}, {cut} bytes and another one");
            let error = import_file(&other.path, &repository, &ImportOptions::default(), &ctx()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}, {cut} bytes and another one");
        }
    }
}

#[test]
fn a_session_that_no_import_made_is_left_alone() {
    let old = Old::of(&[&message("b1", None, 1)]);
    let create = |cwd: &str| CreateOptions {
        id: Some("old".into()),
        cwd: Some(cwd.into()),
        created_at: Some(TIME),
        ..CreateOptions::default()
    };
    for (cwd, name) in [("/elsewhere", None), ("/w", Some("mine"))] {
        let repository = memory();
        let session = repository.create(&create(cwd), &ctx()).unwrap();
        if name.is_some() {
            session.set_name(name, &ctx()).unwrap();
        }
        session.close(&ctx()).unwrap();
        let error = import_file(&old.path, &repository, &ImportOptions::default(), &ctx()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionExists, "{cwd}");
    }
    // What an import leaves that died right after it made the session.
    let repository = memory();
    repository.create(&create("/w"), &ctx()).unwrap().close(&ctx()).unwrap();
    assert!(import_file(&old.path, &repository, &ImportOptions::default(), &ctx()).unwrap().added);
}

#[test]
fn an_import_that_was_cut_off_is_completed_by_the_next_one() {
    // More than one commit takes.
    let large = |id: &str, parent: Option<&str>, number| {
        message(id, parent, number).replace("text of", &"x".repeat(12 << 20))
    };
    let lines = [large("b1", None, 1), large("b2", Some("b1"), 2), large("b3", Some("b2"), 3)];
    let small = message("b4", Some("b3"), 4);
    let old = Old::of(&[&lines[0], &lines[1], &lines[2], &small]);
    let clock = Arc::new(DeadlyClock { left: AtomicU64::new(1) });
    let options = RepositoryOptions { clock: Arc::clone(&clock) as _, ..RepositoryOptions::default() };
    let repository = open_repository("memory:", options).unwrap();
    let import = || import_file(&old.path, &repository, &ImportOptions::default(), &ctx());
    assert!(catch_unwind(AssertUnwindSafe(import)).is_err());
    let left = repository.open_read_only("old", &ctx()).unwrap();
    assert_eq!(left.next_seq(&ctx()).unwrap(), 4, "the first commit stayed");
    assert!(left.branches(&ctx()).unwrap().is_empty(), "no branch shows half a session");
    clock.left.store(100, Ordering::SeqCst);
    let done = import().unwrap();
    assert!(done.added);
    assert_eq!(content(&repository.open("old", &ctx()).unwrap()), content(&old.open()));
    assert!(!import().unwrap().added);
}

#[test]
fn an_import_that_fails_leaves_nothing() {
    let old = Old::of(&[&message("b1", None, 1)]);
    let options = RepositoryOptions { max_payload: 10, ..RepositoryOptions::default() };
    let repository = open_repository("memory:", options).unwrap();
    let error = import_file(&old.path, &repository, &ImportOptions::default(), &ctx()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(repository.list(&Default::default(), &ctx()).unwrap().is_empty());
    let options = OpenOptions { legacy: LegacyPolicy::CopyTo(repository.clone()), ..Default::default() };
    assert_eq!(open_file(&old.path, &options, &ctx()).unwrap_err().kind(), ErrorKind::TooLarge);
    assert!(repository.list(&Default::default(), &ctx()).unwrap().is_empty());
}

#[test]
fn pending_assistant_messages_are_taken_as_they_are() {
    let line = message("b1", None, 1)
        .replace("\"role\":\"user\"", "\"role\":\"assistant\",\"stopReason\":\"pending\"");
    let old = Old::of(&[&line]);
    let session = old.open();
    assert_eq!(session.legacy().unwrap().warnings[0].kind, WarningKind::PendingAssistant);
    for (_folder, repository) in repositories() {
        import_file(&old.path, &repository, &ImportOptions::default(), &ctx()).unwrap();
        assert_eq!(content(&repository.open("old", &ctx()).unwrap()), content(&session));
    }
}

#[test]
fn the_list_keeps_what_entries_cannot_print_again() {
    let model = r#"{"type":"model_change","id":"a1","parentId":null,"timestamp":"2026-03-01T10:00:00.000Z","provider":"p","modelId":"m"}"#;
    let custom = r#"{"type":"custom","customType":"t","data":{"x":1.0},"id":"b2","parentId":"b1","timestamp":"2026-03-01T10:00:02.000Z"}"#;
    let spaced = message("b3", Some("b2"), 3).replacen("{\"type\"", "{ \"type\"", 1);
    let note = r#"{"type":"custom_message","customType":"n","content":"c","display":true,"details":{"k":1},"id":"b4","parentId":"b3","timestamp":"2026-03-01T10:00:04.000Z"}"#;
    let compaction = r#"{"type":"compaction","id":"b5","parentId":"b4","timestamp":"2026-03-01T10:00:05.000Z","summary":"s","firstKeptEntryId":"b3","tokensBefore":10,"fromHook":false}"#;
    let edit = r#"{"type":"context_edit","id":"b6","parentId":"b5","timestamp":"2026-03-01T10:00:06.000Z","targetId":"b1","replacement":null}"#;
    let unknown =
        r#"{"type":"other","id":"b7","parentId":"b6","timestamp":"2026-03-01T10:00:07.000Z","z":[]}"#;
    let (b1, b8) = (message("b1", Some("a1"), 1), message("b8", Some("b7"), 8));
    let mut text = [HEADER, model, &b1, custom, &spaced, note, compaction, edit, unknown, &b8, ""]
        .join("\n")
        .into_bytes();
    text.extend(b"\n\xff\n");
    let old = Old::new(&text);
    let repository = memory();
    import_file(&old.path, &repository, &salvage(), &ctx()).unwrap();
    let session = repository.open("old", &ctx()).unwrap();
    let list = Address::new("pisession.legacy", "").unwrap();
    let elements: Vec<serde_json::Value> = session
        .read_list(&list, &ListRead::default(), &ctx())
        .unwrap()
        .iter()
        .map(|element| element.value.read().unwrap())
        .collect();
    let ids: BTreeMap<String, String> =
        old.open().legacy().unwrap().ids().map(|(old, new)| (old.to_owned(), new)).collect();
    let pairs: Vec<_> = ids.iter().collect();
    let expected = [
        serde_json::json!({"line": 1, "text": HEADER}),
        serde_json::json!({"line": 2, "text": model}),
        // Its parent gave no entry.
        serde_json::json!({"line": 3, "text": b1}),
        serde_json::json!({"line": 5, "text": spaced}),
        serde_json::json!({"line": 11, "text": ""}),
        serde_json::json!({"line": 12, "bytes": "/w=="}),
        serde_json::json!({"ids": pairs, "kept": {ids["b5"].as_str(): "b3"}}),
        serde_json::json!({"source": {"bytes": text.len(), "sha256": sha256(&text)}}),
    ];
    assert_eq!(elements, expected);
}

#[test]
fn the_source_record_names_the_file_and_what_an_export_gives_of_it() {
    let lines = [HEADER, &message("b1", None, 1), &message("b2", Some("b1"), 2)];
    let plain = lines.join("\n") + "\n";
    for text in [
        plain.clone(),
        lines.join("\n"),
        lines.join("\r\n") + "\r\n",
        format!("\u{feff}{plain}"),
        format!("{}\n{}\r\n{}", lines[0], lines[1], lines[2]),
    ] {
        let repository = memory();
        import_file(&Old::new(&text).path, &repository, &ImportOptions::default(), &ctx()).unwrap();
        let session = repository.open("old", &ctx()).unwrap();
        let list = Address::new("pisession.legacy", "").unwrap();
        let elements = session.read_list(&list, &ListRead::default(), &ctx()).unwrap();
        let mut source = serde_json::json!({"bytes": text.len(), "sha256": sha256(&text)});
        if text != plain {
            source["linesSha256"] = sha256(&plain).into();
        }
        let last: serde_json::Value = elements.last().unwrap().value.read().unwrap();
        assert_eq!(last["source"], source, "{text:?}");
        let mut exported = Vec::new();
        session.export(&mut exported, &Default::default(), &ctx()).unwrap();
        assert_eq!(String::from_utf8(exported).unwrap(), plain, "{text:?}");
    }
}

#[test]
fn progress_rises_to_all_bytes() {
    let old = Old::of(&[&message("b1", None, 1)]);
    let calls = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let options = ImportOptions {
        progress: Some(Arc::new(move |done, all| seen.lock().unwrap().push((done, all)))),
        ..ImportOptions::default()
    };
    import_file(&old.path, &memory(), &options, &ctx()).unwrap();
    let calls = calls.lock().unwrap();
    assert!(calls.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{calls:?}");
    let size = std::fs::metadata(&old.path).unwrap().len();
    assert_eq!(calls.last(), Some(&(3 * size, 3 * size)));
}

#[test]
fn a_cancelled_import_stops_and_leaves_nothing() {
    let old = Old::of(&[&message("b1", None, 1)]);
    let cancelled = Context::new();
    cancelled.cancel();
    let repository = memory();
    let error = import_file(&old.path, &repository, &ImportOptions::default(), &cancelled).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(repository.list(&Default::default(), &ctx()).unwrap().is_empty());
}
