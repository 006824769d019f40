//! Files of versions 1 to 3 read as sessions, and never written: every row of the tables.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests, which clippy does not take for tests

mod legacy_support;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use legacy_support::{HEADER, Old, TIME, content, ctx, entries, memory, message, salvage, shape, warnings};
use pisession::{
    BranchScan, EntryType, ErrorKind, ImportOptions, LegacyPolicy, OpenOptions, RepositoryOptions, Session,
    SessionReader, import_file, open_file, open_repository,
};
use proptest::prelude::*;

#[test]
fn each_odd_shape_is_read_warned_of_and_refused_in_strict_reading() {
    let b = |id: &str, parent: Option<&str>| message(id, parent, 1);
    let glued = b("b1", None) + &b("b2", Some("b1"));
    let no_id = b("b2", Some("b1")).replace("\"id\":\"b2\",", "");
    let no_parent = b("b2", None).replace("\"parentId\":null,", "");
    type Case = (&'static str, Vec<String>, Vec<&'static str>, Vec<&'static str>);
    let cases: Vec<Case> = vec![
        ("glued", vec![glued], vec!["2:glued"], vec!["b1", "b2<b1"]),
        ("bad", vec!["{bad".into(), b("b1", None)], vec!["2:bad_line"], vec!["b1"]),
        (
            "second header",
            vec![b("b1", None), HEADER.into(), b("b2", Some("b1"))],
            vec!["3:second_header"],
            vec!["b1"],
        ),
        ("no id", vec![b("b1", None), no_id], vec!["3:missing_id"], vec!["b1", "line 3<b1"]),
        ("no parent", vec![b("b1", None), no_parent], vec!["3:missing_parent_id"], vec!["b1", "b2<b1"]),
        ("forward", vec![b("b2", Some("b1")), b("b1", None)], vec!["2:forward_parent"], vec!["b1", "b2<b1"]),
        ("nowhere", vec![b("b1", Some("no"))], vec!["2:missing_parent"], vec!["b1"]),
        ("cycle", vec![b("b1", Some("b2")), b("b2", Some("b1"))], vec!["2:cycle"], vec!["b1", "b2<b1"]),
        ("duplicate", vec![b("b1", None), b("b1", None)], vec!["3:duplicate"], vec!["b1"]),
        (
            "duplicate id",
            vec![b("b1", None), message("b1", Some("b1"), 2)],
            vec!["3:duplicate_id"],
            vec!["b1", "b1<b1"],
        ),
    ];
    for (name, lines, expected_warnings, expected_shape) in cases {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let old = Old::of(&lines);
        let session = old.open();
        assert_eq!(warnings(&session), expected_warnings, "{name}");
        assert_eq!(shape(&session), expected_shape, "{name}");
        let strict = OpenOptions { strict: true, ..OpenOptions::default() };
        let error = open_file(&old.path, &strict, &ctx()).unwrap_err();
        let warning = &session.legacy().unwrap().warnings[0];
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}");
        assert_eq!((error.line(), error.offset()), (Some(warning.line), Some(warning.offset)), "{name}");
        assert_eq!(error.path(), Some(old.path.as_path()), "{name}");
        assert!(error.message().starts_with(warning.kind.name()), "{name}: {error}");
        assert!(!warning.to_string().is_empty());
    }
}

#[test]
fn torn_last_line_is_dropped_and_a_whole_one_is_kept() {
    let whole = message("b1", None, 1);
    let old = Old::new(format!("{HEADER}\n{whole}"));
    assert_eq!((shape(&old.open()), warnings(&old.open())), (vec!["b1".to_owned()], vec![]));
    let torn = Old::new(format!("{HEADER}\n{}", &whole[..whole.len() - 1]));
    assert_eq!((shape(&torn.open()), warnings(&torn.open())), (vec![], vec!["2:torn_tail".to_owned()]));
}

#[test]
fn lines_end_at_line_feeds_only() {
    let odd = "a\u{2028}b\u{2029}c\u{85}d";
    let line = message("b1", None, 1).replace("text of b1", odd);
    let old = Old::new(format!("\u{feff}{HEADER}\r\n \t\r\n{line}\r\n"));
    let session = old.open();
    assert!(warnings(&session).is_empty());
    assert!(entries(&session)[0].message().unwrap().contains(odd));
}

#[test]
fn kept_texts_stay_byte_for_byte() {
    let message = r#"{"role":"assistant" ,  "cost":0.10000000000000001,"n":[-0,1E+2,1e400,9007199254740993],"é":"\u00e9\ud83d","content":[]}"#;
    let line = format!(
        r#"{{"message":{message},"type":"message","timestamp":"2026-03-01T10:00:01Z","parentId":null,"id":"b1"}}"#
    );
    let data = r#"{"x":{"b":1,"a":2,"b":3}, "y":1.50}"#;
    let custom = format!(r#"{{"type":"custom","id":"b2","parentId":"b1","customType":"t","data":{data}}}"#);
    let old = Old::of(&[&line, &custom]);
    let found = entries(&old.open());
    assert_eq!(found[0].message(), Some(message));
    assert_eq!(found[1].data(), Some(data));
    assert_eq!(found[1].timestamp, TIME + 1000);
}

#[test]
fn entries_become_what_the_table_says() {
    let place = |id: &str, parent: &str| {
        format!(r#""id":"{id}","parentId":{parent},"timestamp":"2026-03-01T10:00:01.000Z""#)
    };
    let lines = [
        message("b1", None, 1),
        format!(r#"{{"type":"model_change",{},"provider":"p","modelId":"m"}}"#, place("a1", "\"b1\"")),
        format!(
            r#"{{"type":"custom_message","customType":"note","content":[1.0],"display":false,"details":{{"k":1}},{}}}"#,
            place("b2", "\"a1\"")
        ),
        format!(
            r#"{{"type":"branch_summary",{},"fromId":"a1","summary":"left","fromHook":true}}"#,
            place("b3", "\"b2\"")
        ),
        format!(
            r#"{{"type":"compaction",{},"summary":"so far","firstKeptEntryId":"b2","tokensBefore":7,"details":{{}}}}"#,
            place("b4", "\"b3\"")
        ),
        format!(r#"{{"type":"context_edit",{},"targetId":"b1","replacement":null}}"#, place("b5", "\"b4\"")),
        format!(r#"{{"type":"new thing",{},"x":1,"y":{{}}}}"#, place("b6", "\"b5\"")),
        format!(r#"{{"type":"message",{},"message":"no object"}}"#, place("b7", "\"b6\"")),
    ];
    let old = Old::of(&lines.each_ref().map(String::as_str));
    let session = old.open();
    assert_eq!(shape(&session), ["b1", "b2<b1", "b3<b2", "b4<b3", "b5<b4", "b6<b5", "b7<b6"]);
    let found = entries(&session);
    let ids: BTreeMap<String, String> =
        session.legacy().unwrap().ids().map(|(old, new)| (old.to_owned(), new)).collect();
    let time = TIME + 1000;
    let b1 = &ids["b1"];
    let note = format!(
        r#"{{"role":"custom","customType":"note","content":[1.0],"details":{{"k":1}},"display":false,"timestamp":{time}}}"#
    );
    let summary =
        format!(r#"{{"role":"branchSummary","summary":"left","fromId":"{b1}","timestamp":{time}}}"#);
    let expected = [
        (EntryType::Message, None, r#"{"message":{"role":"user","content":"text of b1"}}"#.to_owned()),
        (EntryType::Message, None, format!(r#"{{"message":{note}}}"#)),
        (EntryType::BranchSummary, None, format!(r#"{{"fromId":"{b1}","summary":"left","fromHook":true}}"#)),
        (
            EntryType::Compaction,
            None,
            format!(
                r#"{{"summary":"so far","retainedTail":[{note},{summary}],"tokensBefore":7,"details":{{}},"fromHook":false}}"#
            ),
        ),
        (
            EntryType::Custom,
            Some("pi.context_edit"),
            format!(r#"{{"data":{{"targetId":"{b1}","replacement":null}}}}"#),
        ),
        (EntryType::Custom, Some("pi.legacy.new thing"), r#"{"data":{"x":1,"y":{}}}"#.to_owned()),
        (EntryType::Custom, Some("pi.legacy.message"), r#"{"data":{"message":"no object"}}"#.to_owned()),
    ];
    assert_eq!(found.len(), expected.len());
    for (entry, (entry_type, custom_type, payload)) in found.iter().zip(expected) {
        assert_eq!(entry.entry_type, entry_type);
        assert_eq!(entry.custom_type.as_deref(), custom_type);
        assert_eq!(entry.payload.as_str(), payload);
    }
}

#[test]
fn leaf_records_move_the_tip_to_their_target_and_nowhere_else() {
    let leaf = |target: &str| {
        format!(
            r#"{{"type":"leaf","id":"l1","parentId":"b2","timestamp":"2026-03-01T10:00:03Z","targetId":{target}}}"#
        )
    };
    let (b1, b2) = (message("b1", None, 1), message("b2", Some("b1"), 2));
    for (target, tip) in [("\"b1\"", Some("b1")), ("null", None), ("\"nowhere\"", Some("b2"))] {
        let session = Old::of(&[&b1, &b2, &leaf(target)]).open();
        let found = session.branches(&ctx()).unwrap()[0].tip_id.clone();
        let ids: BTreeMap<String, String> =
            session.legacy().unwrap().ids().map(|(old, new)| (new, old.to_owned())).collect();
        assert_eq!(found.map(|id| ids[&id].as_str()), tip, "{target}");
    }
}

#[test]
fn ids_are_the_same_at_every_open_and_carry_the_time() {
    let old = Old::of(&[&message("b1", None, 1), &message("b2", Some("b1"), 2)]);
    let first: Vec<String> = entries(&old.open()).into_iter().map(|entry| entry.id).collect();
    let again: Vec<String> = entries(&old.open()).into_iter().map(|entry| entry.id).collect();
    assert_eq!(first, again);
    for (id, time) in first.iter().zip([TIME + 1000, TIME + 2000]) {
        assert_eq!(i64::from_str_radix(&id.replace('-', "")[..12], 16).unwrap(), time);
    }
    let other = HEADER.replace("\"old\"", "\"other\"");
    let other = Old::new(format!("{other}\n{}\n", message("b1", None, 1)));
    assert_ne!(entries(&other.open())[0].id, first[0]);
}

#[test]
fn a_file_that_changes_behind_an_open_session_is_noticed() {
    type Change = fn(&Old);
    let changes: [(&str, Change); 3] = [
        ("longer", |old| old.append("\n")),
        ("replaced", |old| {
            let copy = old.path.with_extension("copy");
            std::fs::copy(&old.path, &copy).unwrap();
            std::fs::rename(copy, &old.path).unwrap();
        }),
        ("gone", |old| std::fs::remove_file(&old.path).unwrap()),
    ];
    for (name, change) in changes {
        let old = Old::of(&[&message("b1", None, 1)]);
        let session = old.open();
        let id = entries(&session)[0].id.clone();
        change(&old);
        assert_eq!(session.get_entry(&id, &ctx()).unwrap_err().kind(), ErrorKind::FileChanged, "{name}");
    }
}

#[test]
fn other_files_are_refused_by_name() {
    let cases = [
        (r#"{"type":"session_start"}"#, ErrorKind::NotASession, "session-start"),
        (r#"{"type":"session","id":"a","createdAt":1}"#, ErrorKind::NotASession, "session-created-at"),
        (r#"{"a":1}{"uuid":"u","sessionId":"s"}"#, ErrorKind::NotASession, "uuid-session-id"),
        (r#"{"type":"session_meta"}"#, ErrorKind::NotASession, "session-meta"),
        (r#"{"kind":"header","version":4}"#, ErrorKind::NotASession, "header-version-4"),
        (r#"{"kind":"header","v":4,"id":"a"}"#, ErrorKind::Corrupt, "storageVersion"),
        (r#"{"kind":"header","v":5,"id":"a"}"#, ErrorKind::UnsupportedVersion, "newer"),
        ("SQLite format 3\0", ErrorKind::Unsupported, "SQLite"),
        ("text", ErrorKind::NotASession, "JSON object"),
        ("", ErrorKind::NotASession, "empty"),
        ("{\"a\":1}\n", ErrorKind::NotASession, "no session header"),
    ];
    for (text, kind, word) in cases {
        let old = Old::new(text);
        let error = open_file(&old.path, &OpenOptions::default(), &ctx()).unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert!(error.message().contains(word), "{text}: {error}");
        assert_eq!(error.path(), Some(old.path.as_path()));
    }
    let folder = tempfile::tempdir().unwrap();
    let error = open_file(folder.path(), &OpenOptions::default(), &ctx()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotASession);
    let error = open_file(folder.path().join("no"), &OpenOptions::default(), &ctx()).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Io, Some(2)));
}

#[test]
fn eight_unknown_objects_may_stand_before_the_header_and_nine_may_not() {
    let file = |count: usize| Old::new("{\"a\":1}\n".repeat(count) + HEADER + "\n");
    assert_eq!(warnings(&file(8).open()), ["1:preamble"]);
    let error = open_file(&file(9).path, &OpenOptions::default(), &ctx()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotASession);
}

#[test]
fn parents_are_found_by_path_or_their_path_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, fields: &str| {
        let text = HEADER.replace("\"old\"", &format!("\"{name}\"")).replace('}', &format!("{fields}}}\n"));
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    write("parent", "");
    let cases = [
        (r#","parentSession":"parent""#, Some("parent"), None),
        (r#","branchedFrom":"parent""#, Some("parent"), None),
        (r#","parentSession":"none","branchedFrom":"parent""#, None, Some("none")),
        (r#","parentSession":".""#, None, Some(".")),
        ("", None, None),
    ];
    for (fields, id, path) in cases {
        let child = write("child", fields);
        let session = open_file(child, &OpenOptions::default(), &ctx()).unwrap();
        let metadata = session.metadata();
        assert_eq!(metadata.parent_session_id.as_deref(), id, "{fields}");
        assert_eq!(metadata.legacy_parent_session_path.as_deref(), path, "{fields}");
    }
}

#[test]
fn unreadable_header_time_is_the_first_entrys_or_the_files() {
    let header = HEADER.replace("2026-03-01T10:00:00.000Z", "soon");
    let old = Old::new(format!("{header}\n{}\n", message("b1", None, 5)));
    assert_eq!(old.open().metadata().created_at, TIME + 5000);
    let old = Old::new(format!("{header}\n"));
    let modified = std::fs::metadata(&old.path).unwrap();
    let modified = modified.mtime() * 1000 + modified.mtime_nsec() / 1_000_000;
    assert_eq!(old.open().metadata().created_at, modified);
}

#[test]
fn a_listing_and_an_open_agree_on_when_a_session_was_made() {
    let header = r#"{"type":"session","version":3,"id":"old","timestamp":"some day","cwd":"/w"}"#;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.jsonl");
    std::fs::write(&path, format!("{header}\n{}\n", message("b1", None, 1))).unwrap();
    let opened = open_file(&path, &OpenOptions::default(), &ctx()).unwrap();
    let uri = format!("jsonl:{}", folder.path().display());
    let repository = open_repository(&uri, RepositoryOptions::default()).unwrap();
    let listed = repository.list(&Default::default(), &ctx()).unwrap();
    assert_eq!(listed[0].metadata.as_ref().unwrap(), opened.metadata());
    assert!(opened.metadata().created_at > 0);
}

/// A chain of `count` messages, the last compaction keeping all of them.
fn chain(path: &Path, count: usize) {
    use std::io::Write as _;
    let mut out = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    writeln!(out, "{HEADER}").unwrap();
    for at in 0..count {
        let parent = at.checked_sub(1).map(|parent| format!("n{parent}"));
        writeln!(out, "{}", message(&format!("n{at}"), parent.as_deref(), at as i64 % 3000)).unwrap();
    }
    let last = count - 1;
    writeln!(out, r#"{{"type":"compaction","id":"c","parentId":"n{last}","timestamp":"2026-03-01T11:00:00.000Z","summary":"s","firstKeptEntryId":"n{}","tokensBefore":1}}"#, count - 3).unwrap();
}

#[test]
fn a_chain_of_200_000_entries_needs_no_deep_stack() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain.jsonl");
    chain(&path, 200_000);
    let walk = move || {
        let session = open_file(&path, &OpenOptions::default(), &ctx()).unwrap();
        let tip = session.branches(&ctx()).unwrap()[0].tip_id.clone().unwrap();
        let compaction = session.get_entry(&tip, &ctx()).unwrap().unwrap();
        let tail: Vec<serde_json::Value> =
            serde_json::from_str(compaction.payload.get("retainedTail").unwrap()).unwrap();
        assert_eq!(tail.len(), 3);
        let path = session.scan_branch_structure(&tip, &BranchScan::default(), &ctx()).unwrap();
        assert_eq!(path.len(), 200_001);
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(walk).unwrap().join().unwrap();
}

#[test]
fn a_line_of_100_megabytes_is_an_entry_like_others() {
    let text = "y".repeat(100 << 20);
    let line = message("b1", None, 1).replace("text of b1", &text);
    let old = Old::of(&[&line, &message("b2", Some("b1"), 2)]);
    let session = old.open();
    assert_eq!(path_length(&session), 2);
    let id = session.legacy().unwrap().ids().next().unwrap().1;
    let entry = session.get_entry(&id, &ctx()).unwrap().unwrap();
    assert_eq!(entry.message().unwrap().len(), text.len() + r#"{"role":"user","content":""}"#.len());
}

fn path_length(session: &Session) -> usize {
    let tip = session.branches(&ctx()).unwrap()[0].tip_id.clone().unwrap();
    session.scan_branch_structure(&tip, &BranchScan::default(), &ctx()).unwrap().len()
}

fn exported(session: &Session) -> Vec<u8> {
    let mut bytes = Vec::new();
    session.export(&mut bytes, &Default::default(), &ctx()).unwrap();
    bytes
}

/// A small file with one of everything.
fn one_of_everything() -> Vec<u8> {
    let lines = [
        HEADER.to_owned(),
        message("b1", None, 1),
        message("b2", Some("b1"), 2),
        r#"{"type":"label","id":"c1","parentId":"b2","targetId":"b1","label":"l"}"#.to_owned(),
        r#"{"type":"compaction","id":"f1","parentId":"c1","summary":"s","firstKeptEntryId":"b2","tokensBefore":1}"#.to_owned(),
        r#"{"type":"branch_summary","id":"f2","parentId":"f1","fromId":"b1","summary":"s","usage":{"input":1}}"#.to_owned(),
        r#"{"type":"custom","id":"e1","parentId":"f2","customType":"t","data":{}}"#.to_owned(),
        r#"{"type":"custom_message","id":"e2","parentId":"e1","customType":"t","content":"c"}"#.to_owned(),
        r#"{"type":"context_edit","id":"e3","parentId":"e2","targetId":"b1"}"#.to_owned(),
        r#"{"type":"model_change","id":"a1","parentId":"e3","provider":"p","modelId":"m"}"#.to_owned(),
        r#"{"type":"thinking_level_change","id":"a2","parentId":"a1","thinkingLevel":"low"}"#.to_owned(),
        r#"{"type":"active_tools_change","id":"a3","parentId":"a2","activeToolNames":["x"]}"#.to_owned(),
        r#"{"type":"session_info","id":"d1","parentId":"a3","name":"n"}"#.to_owned(),
        r#"{"type":"leaf","targetId":"e3"}"#.to_owned(),
    ];
    (lines.join("\n") + "\n").into_bytes()
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused_or_stay_the_same_session_in_every_form(
        version in prop::sample::select(vec!["1", "2", "3", "9"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), change()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = one_of_everything();
        let at = bytes.windows(11).position(|window| window == b"\"version\":3").unwrap() + 10;
        bytes[at] = version.as_bytes()[0];
        for (at, change) in &changes {
            let at = at.index(bytes.len());
            match change {
                Change::Set(byte) => bytes[at] = *byte,
                Change::Insert(text) => drop(bytes.splice(at..at, text.bytes())),
                Change::Cut(length) => drop(bytes.drain(at..bytes.len().min(at + length))),
                Change::Repeat(length) => {
                    let part = bytes[at..bytes.len().min(at + length)].to_vec();
                    bytes.extend(part);
                }
            }
            if bytes.is_empty() {
                bytes.push(b'{');
            }
        }
        let old = Old::new(&bytes);
        if let Ok(session) = open_file(&old.path, &OpenOptions::default(), &ctx()) {
            let found = content(&session);
            let strict = OpenOptions { strict: true, ..OpenOptions::default() };
            let damaged = session.legacy().unwrap().is_damaged();
            prop_assert_eq!(open_file(&old.path, &strict, &ctx()).is_err(), damaged);
            if session.legacy().unwrap().version <= 3 {
                let repository = memory();
                let options = ImportOptions { id: Some("new".into()), ..salvage() };
                import_file(&old.path, &repository, &options, &ctx()).unwrap();
                let imported = repository.open("new", &ctx()).unwrap();
                prop_assert_eq!(content(&imported), &*found);
                prop_assert!(!import_file(&old.path, &repository, &options, &ctx()).unwrap().added);
                // One of version 1 or 2 is written anew, under the id that the session has.
                if session.legacy().unwrap().version == 3 {
                    prop_assert_eq!(exported(&imported), exported(&session));
                }
                // What a program was still writing when it was copied adds nothing.
                let older = Old::new(&bytes[..cut.index(bytes.len())]);
                if open_file(&older.path, &OpenOptions::default(), &ctx()).is_ok() {
                    prop_assert!(!import_file(&older.path, &repository, &options, &ctx()).unwrap().added);
                }
                prop_assert_eq!(&std::fs::read(&old.path).unwrap(), &bytes);
                let exported_before = exported(&session);
                let upgrade =
                    OpenOptions { legacy: LegacyPolicy::Upgrade, salvage: true, ..OpenOptions::default() };
                match open_file(&old.path, &upgrade, &ctx()) {
                    Ok(upgraded) => {
                        prop_assert_eq!(content(&upgraded), found);
                        prop_assert_eq!(exported(&upgraded), exported_before);
                        let backup = upgraded.legacy().unwrap().backup.clone().unwrap();
                        prop_assert_eq!(std::fs::read(backup).unwrap(), bytes);
                        return Ok(());
                    }
                    Err(error) => prop_assert_eq!(error.kind(), ErrorKind::InvalidId),
                }
            }
        }
        prop_assert_eq!(std::fs::read(&old.path).unwrap(), bytes);
    }
}

#[derive(Debug, Clone)]
enum Change {
    Set(u8),
    Insert(&'static str),
    Cut(usize),
    Repeat(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let texts = vec![
        "\n",
        "\r",
        "{}",
        "}{",
        "\"",
        "\\",
        "\\ud800",
        "null",
        "\u{feff}",
        "[",
        "1e999",
        "\0",
        "\"id\":\"b1\",",
        "\"parentId\":\"a3\",",
        "{\"type\":\"message\"}",
        "{\"type\":\"session\"}\n",
    ];
    prop_oneof![
        any::<u8>().prop_map(Change::Set),
        prop::sample::select(texts).prop_map(Change::Insert),
        (1_usize..400).prop_map(Change::Cut),
        (1_usize..400).prop_map(Change::Repeat),
    ]
}
