//! Files of versions 1 to 3: read as sessions, copied, imported, never written.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests, which clippy does not take for tests

mod legacy_support;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use legacy_support::sha256;
use pisession::{
    Address, BranchScan, Clock, Context, CreateOptions, Entry, EntryQuery, EntryType, ErrorKind,
    ImportOptions, Json, LegacyPolicy, ListRead, OpenFileOptions, Order, Repository, RepositoryOptions,
    Session, SessionReader, UsageScan, WarningKind, import_file, open_file, open_repository,
};
use proptest::prelude::*;

const HEADER: &str =
    r#"{"type":"session","version":3,"id":"old","timestamp":"2026-03-01T10:00:00.000Z","cwd":"/w"}"#;
const TIME: i64 = 1_772_359_200_000;

/// A file of these lines, in a folder that lives as long as it.
struct Old {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Old {
    fn new(text: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.jsonl");
        std::fs::write(&path, text).unwrap();
        Self { _folder: folder, path }
    }

    fn of(lines: &[&str]) -> Self {
        let lines: Vec<&str> = [HEADER].into_iter().chain(lines.iter().copied()).collect();
        Self::new(lines.join("\n") + "\n")
    }

    fn open(&self) -> Session {
        open_file(&self.path, &OpenFileOptions::default(), &ctx()).unwrap()
    }

    fn append(&self, text: &str) {
        let bytes = [std::fs::read(&self.path).unwrap(), text.as_bytes().to_vec()].concat();
        std::fs::write(&self.path, bytes).unwrap();
    }
}

fn ctx() -> Context {
    Context::background()
}

fn memory() -> Repository {
    open_repository("memory:", RepositoryOptions::default()).unwrap()
}

/// One of each kind of repository there is, each in a folder that lives as long as it.
fn repositories() -> Vec<(tempfile::TempDir, Repository)> {
    let kinds = ["memory:", "jsonl:{}/lines", "sqlite:{}/folder", "sqlite:{}/one.sqlite"];
    let open = |uri: &str| {
        let folder = tempfile::tempdir().unwrap();
        let uri = uri.replace("{}", folder.path().to_str().unwrap());
        let repository = open_repository(&uri, RepositoryOptions::default()).unwrap();
        (folder, repository)
    };
    kinds.into_iter().map(open).collect()
}

fn salvage() -> ImportOptions {
    ImportOptions { salvage: true, ..ImportOptions::default() }
}

/// A message of `id` under `parent`, one second later for each of its `number`.
fn message(id: &str, parent: Option<&str>, number: i64) -> String {
    let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
    format!(
        r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"2026-03-01T10:{:02}:{:02}.000Z","message":{{"role":"user","content":"text of {id}"}}}}"#,
        number / 60,
        number % 60
    )
}

fn entries(session: &Session) -> Vec<Entry> {
    let query = EntryQuery { order: Order::Ascending, ..EntryQuery::default() };
    session.entries(&query, &ctx()).collect::<Result<_, _>>().unwrap()
}

/// Old ids of the entries in stored order, each with its parent's: `b2<b1`.
fn shape(session: &Session) -> Vec<String> {
    let names: BTreeMap<String, String> = session
        .legacy()
        .unwrap()
        .entries()
        .map(|(new, origin)| (new, origin.id.unwrap_or(format!("line {}", origin.line))))
        .collect();
    entries(session)
        .iter()
        .map(|entry| match &entry.parent_id {
            Some(parent) => format!("{}<{}", names[&entry.id], names[parent]),
            None => names[&entry.id].clone(),
        })
        .collect()
}

fn warnings(session: &Session) -> Vec<String> {
    let warnings = &session.legacy().unwrap().warnings;
    warnings.iter().map(|warning| format!("{}:{}", warning.line, warning.kind)).collect()
}

/// All that a session holds but lists, usage rows and its own metadata.
fn content(session: &Session) -> Vec<String> {
    let mut out: Vec<String> = entries(session).iter().map(|entry| entry.to_json().to_string()).collect();
    for address in session.value_addresses(None, 10_000, &ctx()).unwrap() {
        let stored = session.get_value(&address, &ctx()).unwrap().unwrap();
        out.push(format!("{address} {} {}", stored.seq, stored.value));
    }
    out.push(session.stats(&ctx()).unwrap().to_json().to_string());
    out
}

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
        let strict = OpenFileOptions { strict: true, ..OpenFileOptions::default() };
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
fn commits_are_refused_and_the_file_stays_as_it_is() {
    let old = Old::of(&[&message("b1", None, 1)]);
    let before = (sha256(std::fs::read(&old.path).unwrap()), std::fs::metadata(&old.path).unwrap().mtime());
    let session = old.open();
    let error = session.set_name(Some("name"), &ctx()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LegacyReadOnly);
    assert!(error.hint().unwrap().contains("copy") && error.hint().unwrap().contains("import"), "{error}");
    session.close(&ctx()).unwrap();
    assert_eq!(session.stats(&ctx()).unwrap_err().kind(), ErrorKind::Closed);
    let after = (sha256(std::fs::read(&old.path).unwrap()), std::fs::metadata(&old.path).unwrap().mtime());
    assert_eq!(before, after);
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
        let error = open_file(&old.path, &OpenFileOptions::default(), &ctx()).unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert!(error.message().contains(word), "{text}: {error}");
        assert_eq!(error.path(), Some(old.path.as_path()));
    }
    let folder = tempfile::tempdir().unwrap();
    let error = open_file(folder.path(), &OpenFileOptions::default(), &ctx()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotASession);
    let error = open_file(folder.path().join("no"), &OpenFileOptions::default(), &ctx()).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Io, Some(2)));
}

#[test]
fn eight_unknown_objects_may_stand_before_the_header_and_nine_may_not() {
    let file = |count: usize| Old::new("{\"a\":1}\n".repeat(count) + HEADER + "\n");
    assert_eq!(warnings(&file(8).open()), ["1:preamble"]);
    let error = open_file(&file(9).path, &OpenFileOptions::default(), &ctx()).unwrap_err();
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
        let session = open_file(child, &OpenFileOptions::default(), &ctx()).unwrap();
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
fn a_copy_is_a_new_session_that_can_be_written() {
    for (_folder, repository) in repositories() {
        copies(&repository);
    }
}

fn copies(repository: &Repository) {
    let label = r#"{"type":"label","id":"c1","parentId":"b2","timestamp":"2026-03-01T10:00:03.000Z","targetId":"b1","label":"start"}"#;
    let old = Old::of(&[&message("b1", None, 1), &message("b2", Some("b1"), 2), label]);
    let bytes = std::fs::read(&old.path).unwrap();
    let options = OpenFileOptions { legacy: LegacyPolicy::Copy(repository.clone()), ..Default::default() };
    let copy = open_file(&old.path, &options, &ctx()).unwrap();
    assert_ne!(copy.id(), "old");
    assert_eq!(copy.metadata().parent_session_id.as_deref(), Some("old"));
    assert_eq!(copy.metadata().cwd.as_deref(), Some("/w"));
    assert_eq!(content(&copy), content(&old.open()));
    assert_eq!(copy.legacy().unwrap().ids().count(), 2);
    let rows = copy.scan_usage(&UsageScan::default(), &ctx()).unwrap();
    assert_eq!((rows.len(), rows[0].adjustment()), (1, true));
    assert_eq!(rows[0].details(), Some(r#"{"source":"v3-import"}"#));
    let main = copy.branch("main", &ctx()).unwrap().unwrap();
    main.append_message(&Json::parse(r#"{"role":"user","content":"on"}"#).unwrap(), &ctx()).unwrap();
    assert_eq!(main.find_entries(&BranchScan::default(), &ctx()).unwrap().len(), 3);
    assert_eq!(std::fs::read(&old.path).unwrap(), bytes);
    let again = open_file(&old.path, &options, &ctx()).unwrap();
    assert_ne!(again.id(), copy.id());
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

#[test]
fn a_listing_and_an_open_agree_on_when_a_session_was_made() {
    let header = r#"{"type":"session","version":3,"id":"old","timestamp":"some day","cwd":"/w"}"#;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.jsonl");
    std::fs::write(&path, format!("{header}\n{}\n", message("b1", None, 1))).unwrap();
    let opened = open_file(&path, &OpenFileOptions::default(), &ctx()).unwrap();
    let uri = format!("jsonl:{}", folder.path().display());
    let repository = open_repository(&uri, RepositoryOptions::default()).unwrap();
    let listed = repository.list(&Default::default(), &ctx()).unwrap();
    assert_eq!(listed[0].metadata.as_ref().unwrap(), opened.metadata());
    assert!(opened.metadata().created_at > 0);
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

/// Dies in a chosen commit: the clock is asked once in each.
#[derive(Debug)]
struct DeadlyClock {
    left: AtomicU64,
}

impl Clock for DeadlyClock {
    fn now(&self) -> i64 {
        assert_ne!(self.left.fetch_sub(1, Ordering::SeqCst), 0, "dies here");
        1
    }
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
    let options = OpenFileOptions { legacy: LegacyPolicy::Copy(repository.clone()), ..Default::default() };
    assert_eq!(open_file(&old.path, &options, &ctx()).unwrap_err().kind(), ErrorKind::TooLarge);
    assert!(repository.list(&Default::default(), &ctx()).unwrap().is_empty());
}

#[test]
fn writing_from_a_damaged_file_must_be_asked_for() {
    let old = Old::of(&["{bad", &message("b1", None, 1)]);
    let repository = memory();
    let refused = import_file(&old.path, &repository, &ImportOptions::default(), &ctx()).unwrap_err();
    assert_eq!((refused.kind(), refused.line()), (ErrorKind::Corrupt, Some(2)));
    assert!(refused.hint().unwrap().contains("salvage"));
    let copy = OpenFileOptions { legacy: LegacyPolicy::Copy(repository.clone()), ..Default::default() };
    assert_eq!(open_file(&old.path, &copy, &ctx()).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(repository.list(&Default::default(), &ctx()).unwrap().is_empty());
    let imported = import_file(&old.path, &repository, &salvage(), &ctx()).unwrap();
    assert_eq!((imported.added, imported.warnings().len()), (true, 1));
    let copy = OpenFileOptions { salvage: true, ..copy };
    assert_eq!(entries(&open_file(&old.path, &copy, &ctx()).unwrap()).len(), 1);
}

#[test]
fn newer_versions_are_read_and_never_written() {
    let header = HEADER.replace("\"version\":3", "\"version\":4");
    let old = Old::new(format!("{header}\n{}\n", message("b1", None, 1)));
    assert_eq!(warnings(&old.open()), ["1:newer_version"]);
    let repository = memory();
    let error = import_file(&old.path, &repository, &salvage(), &ctx()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    let copy =
        OpenFileOptions { salvage: true, strict: false, legacy: LegacyPolicy::Copy(repository.clone()) };
    assert_eq!(open_file(&old.path, &copy, &ctx()).unwrap_err().kind(), ErrorKind::UnsupportedVersion);
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
        let session = open_file(&path, &OpenFileOptions::default(), &ctx()).unwrap();
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
    fn arbitrary_bytes_never_panic(
        version in prop::sample::select(vec!["1", "2", "3", "9"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), change()), 0..8),
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
        if let Ok(session) = open_file(&old.path, &OpenFileOptions::default(), &ctx()) {
            let found = content(&session);
            let strict = OpenFileOptions { strict: true, ..OpenFileOptions::default() };
            let damaged = session.legacy().unwrap().is_damaged();
            prop_assert_eq!(open_file(&old.path, &strict, &ctx()).is_err(), damaged);
            if session.legacy().unwrap().version <= 3 {
                let repository = memory();
                let options = ImportOptions { id: Some("new".into()), ..salvage() };
                import_file(&old.path, &repository, &options, &ctx()).unwrap();
                prop_assert_eq!(content(&repository.open("new", &ctx()).unwrap()), found);
                prop_assert!(!import_file(&old.path, &repository, &options, &ctx()).unwrap().added);
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
