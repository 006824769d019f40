//! SQLite containers of the reference implementation: read where they are, never written.

// Helpers outside of test functions fail by panicking, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/reference.rs"]
mod reference;
mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pisession::{
    Address, BranchScan, CheckDepth, CheckOptions, EntryQuery, Error, ErrorKind, Finding, FindingKind,
    Format, Json, LegacyPolicy, ListOptions, ListRead, OpenOptions, Order, PathOrder, Repository, Session,
    SessionReader, UsageScan, Write, open_file, open_repository,
};
use serde_json::Value;

use reference::Container;
use support::{background, shared};

/// Files in a folder, with what they hold.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// A container of two sessions: "s" with everything there is, "t" with a path of three.
fn filled(path: &Path) {
    let mut container = Container::create(path);
    container.session("s", 5);
    container.message("s", "a", None, "one");
    container.entry("s", "b", Some("a"), ("custom", Some("note")), r#"{"data":{"n":9007199254740993}}"#);
    container.entry(
        "s",
        "c",
        Some("b"),
        ("compaction", None),
        r#"{"summary":"so far","retainedTail":[],"tokensBefore":7,"fromHook":false}"#,
    );
    container.message("s", "d", Some("c"), "four");
    container.message("s", "x", Some("a"), "aside");
    container.value("s", "pi.branch.tip", "main", "\"d\"");
    container.value("s", "pi.branch.tip", "side", "\"x\"");
    container.value("s", "pi.branch.tip", "empty", "null");
    container.value("s", "pi.session.name", "", "\"its name\"");
    for key in ["\u{e9}", "z", "\u{10000}", "", "\u{ffff}", "a"] {
        container.value("s", "app", key, "1");
    }
    container.value("s", "app2", "a", "2");
    for number in 0..25 {
        container.element("s", "app", "log", &number.to_string());
    }
    container.element("s", "app", "other", "\"x\"");
    container.usage("s", "u1", 3, Some("a"), None);
    container.usage("s", "u2", 4, None, Some(r#"{"why":"a correction"}"#));
    container.session("t", 6);
    container.chain("t", 3);
    container.close();
}

fn repository(path: &Path) -> Repository {
    open_repository(&format!("sqlite:{}", path.display()), Default::default()).unwrap()
}

fn ids(entries: &[pisession::Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

fn address(key: &str) -> Address {
    Address::new("app", key).unwrap()
}

fn findings(session: &Session) -> Vec<Finding> {
    session
        .check_with(
            &CheckOptions { depth: CheckDepth::Full, ..Default::default() },
            &mut |_| (),
            &background(),
        )
        .unwrap()
}

fn dump(session: &Session) -> Value {
    let mut out = Vec::new();
    session.dump(&mut out, &background()).unwrap();
    // Strict readers refuse lone surrogates.
    let text = String::from_utf8(out).unwrap();
    serde_json::from_str(&without_lone(&text)).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The text with the escapes of lone surrogates spelt out.
fn without_lone(text: &str) -> String {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok().filter(|unit| (0xd800..0xe000).contains(unit))
    };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let length = match (unit(at), unit(at + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..)) => 12,
            (Some(lone), _) => {
                out.push_str(&format!("<lone {lone:x}>"));
                at += 6;
                continue;
            }
            _ if text[at..].starts_with('\\') => 2,
            _ => text[at..].chars().next().map_or(1, char::len_utf8),
        };
        out.push_str(&text[at..at + length]);
        at += length;
    }
    out
}

#[test]
fn every_read_gives_what_the_tables_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sqlite");
    filled(&path);
    let ctx = background();
    let session = repository(&path).open_read_only("s", &ctx).unwrap();
    assert_eq!(ids(&session.get_entries(&["d", "no", "a", "d"], &ctx).unwrap()), ["d", "a", "d"]);
    let note = &session.get_entries(&["b"], &ctx).unwrap()[0];
    assert_eq!((note.parent_id.as_deref(), note.seq, note.timestamp), (Some("a"), 2, 1_002));
    assert_eq!((note.custom_type.as_deref(), note.data()), (Some("note"), Some(r#"{"n":9007199254740993}"#)));

    let main = session.branch("main", &ctx).unwrap().unwrap();
    assert_eq!(main.tip_id(&ctx).unwrap().as_deref(), Some("d"));
    let names: Vec<String> = session.branches(&ctx).unwrap().into_iter().map(|branch| branch.name).collect();
    assert_eq!(names, ["empty", "main", "side"]);
    assert_eq!(session.name(&ctx).unwrap().as_deref(), Some("its name"));

    let values = session.scan_values(&address(""), &ctx).unwrap();
    let keys: Vec<&str> = values.iter().map(|value| value.address.key()).collect();
    assert_eq!(keys, ["", "a", "z", "\u{e9}", "\u{ffff}", "\u{10000}"], "by code point");
    assert_eq!(session.scan_values(&address("\u{e9}"), &ctx).unwrap().len(), 1);
    assert_eq!(session.get_value(&address("z"), &ctx).unwrap().map(|value| value.seq), Some(11));
    assert_eq!(session.get_value(&address("none"), &ctx).unwrap(), None);

    let read = |read: &ListRead| -> Vec<String> {
        let elements = session.read_list(&address("log"), read, &ctx).unwrap();
        elements.iter().map(|element| element.value.as_str().to_owned()).collect()
    };
    let first = ListRead { limit: 2, ..ListRead::default() };
    assert_eq!(read(&first), ["0", "1"]);
    assert_eq!(read(&ListRead { order: Order::Descending, ..first.clone() }), ["24", "23"]);
    let seq = session.read_list(&address("log"), &first, &ctx).unwrap()[1].seq;
    assert_eq!(read(&ListRead { cursor: Some(seq), ..first.clone() }), ["2", "3"]);
    assert_eq!(read(&ListRead { cursor: Some(seq), order: Order::Descending, ..first }), ["0"]);
    assert!(session.read_list(&address("no"), &ListRead::default(), &ctx).unwrap().is_empty());

    let usage = session.scan_usage(&UsageScan::default(), &ctx).unwrap();
    assert_eq!(usage.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["u1", "u2"]);
    assert_eq!(
        (usage[0].entry_id().as_deref(), usage[0].adjustment(), usage[0].details()),
        (Some("a"), false, None)
    );
    assert_eq!((usage[1].entry_id(), usage[1].adjustment()), (None, true));
    assert_eq!(usage[1].details(), Some(r#"{"why":"a correction"}"#));
    let stats = session.stats(&ctx).unwrap();
    assert_eq!((stats.message_count, stats.usage.input), (3, 7.0));
    assert_eq!(session.next_seq(&ctx).unwrap(), usage[1].seq + 1);
    assert!(findings(&session).is_empty(), "{:?}", findings(&session));
}

#[test]
fn paths_stop_filter_page_and_limit_as_on_every_backend() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sqlite");
    filled(&path);
    let ctx = background();
    let session = repository(&path).open_read_only("s", &ctx).unwrap();
    // The same session in memory.
    let place = open_repository("memory:", Default::default()).unwrap();
    let twin = place.create(&Default::default(), &ctx).unwrap();
    let all =
        session.find_entries(&EntryQuery { order: Order::Ascending, ..EntryQuery::default() }, &ctx).unwrap();
    for entry in &all {
        let entry = pisession::NewEntry::with_payload(
            &entry.id,
            entry.parent_id.as_deref(),
            entry.entry_type,
            entry.custom_type.as_deref(),
            entry.payload.clone(),
        );
        let write = Write::Entry(entry.unwrap());
        twin.mutate(|mutator, ctx| mutator.commit(std::slice::from_ref(&write), ctx), &ctx).unwrap();
    }
    let types = [None, Some(pisession::EntryType::Message), Some(pisession::EntryType::Compaction)];
    let mut compared = 0;
    for order in [PathOrder::NewestFirst, PathOrder::OldestFirst] {
        for (stop_at_type, entry_type) in types.iter().flat_map(|stop| types.map(|of| (*stop, of))) {
            for stop_at_id in [None, Some("b"), Some("x"), Some("none")] {
                for cursor in [None, Some(0), Some(2), Some(3), Some(9)] {
                    for limit in [None, Some(0), Some(1), Some(2)] {
                        let scan = BranchScan {
                            order,
                            stop_at_type,
                            stop_at_id: stop_at_id.map(str::to_owned),
                            entry_type,
                            custom_type: None,
                            cursor,
                            limit,
                        };
                        for start in ["d", "x", "a"] {
                            let found = session.scan_branch(start, &scan, &ctx).unwrap();
                            let expected = twin.scan_branch(start, &scan, &ctx).unwrap();
                            assert_eq!(ids(&found), ids(&expected), "{start} {scan:?}");
                            compared += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(compared, 2 * 9 * 4 * 5 * 4 * 3);
    let unknown = session.scan_branch("none", &BranchScan::default(), &ctx).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::UnknownEntry);
    let notes = BranchScan { custom_type: Some("note".to_owned()), ..BranchScan::default() };
    assert_eq!(ids(&session.scan_branch("d", &notes, &ctx).unwrap()), ["b"]);
}

#[test]
fn a_container_is_listed_and_opened_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sqlite");
    filled(&path);
    let before = contents(folder.path());
    let ctx = background();
    let repository = repository(&path);
    let listed = repository.list(&ListOptions { details: true }, &ctx).unwrap();
    let told: Vec<(&str, Option<&str>, Option<u64>)> = listed
        .iter()
        .map(|listing| {
            assert_eq!(
                (listing.format, listing.format.to_string()),
                (Format::ReferenceSqlite, "reference-sqlite".to_owned())
            );
            (listing.metadata.as_ref().unwrap().id.as_str(), listing.name.as_deref(), listing.message_count)
        })
        .collect();
    assert_eq!(told, [("t", None, Some(3)), ("s", Some("its name"), Some(3))]);
    assert_eq!(listed[0].modified_at, Some(1_003));

    // Also for writing: each commit is refused, and says what to do.
    let session = repository.open("s", &ctx).unwrap();
    let error = session.set_name(Some("other"), &ctx).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    assert!(error.hint().unwrap().contains("fork or convert"), "{error}");
    assert_eq!(session.name(&ctx).unwrap().as_deref(), Some("its name"));
    // It is locked by nobody.
    let second = repository.open("s", &ctx).unwrap();
    second.close(&ctx).unwrap();
    session.close(&ctx).unwrap();

    assert_eq!(repository.create(&Default::default(), &ctx).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(repository.delete("s", &ctx).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(repository.delete("none", &ctx).unwrap_err().kind(), ErrorKind::UnknownSession);
    assert_eq!(repository.open("none", &ctx).unwrap_err().kind(), ErrorKind::UnknownSession);
    repository.close(&ctx).unwrap();
    assert_eq!(contents(folder.path()), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), before.len(), "no folder of locks either");
}

#[test]
fn a_folder_shows_containers_of_the_reference_beside_sessions_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = background();
    let repository = repository(folder.path());
    let options = pisession::CreateOptions { id: Some("ours".to_owned()), ..Default::default() };
    repository.create(&options, &ctx).unwrap().close(&ctx).unwrap();
    let path = folder.path().join("theirs.sqlite");
    let mut container = Container::create(&path);
    container.session("theirs", 7);
    container.chain("theirs", 2);
    container.close();
    let before = std::fs::read(&path).unwrap();
    let listed = repository.list(&ListOptions::default(), &ctx).unwrap();
    let told: BTreeMap<String, Format> =
        listed.into_iter().map(|listing| (listing.metadata.unwrap().id, listing.format)).collect();
    let expected = [("ours", Format::SqliteFile), ("theirs", Format::ReferenceSqlite)];
    assert_eq!(told, expected.map(|(id, format)| (id.to_owned(), format)).into());

    let session = repository.open("theirs", &ctx).unwrap();
    assert_eq!(session.stats(&ctx).unwrap().message_count, 2);
    let error = session.create_branch("x", None, &ctx).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    session.close(&ctx).unwrap();
    assert_eq!(repository.delete("theirs", &ctx).unwrap_err().kind(), ErrorKind::ReadOnly);
    let taken = pisession::CreateOptions { id: Some("theirs".to_owned()), ..Default::default() };
    assert_eq!(repository.create(&taken, &ctx).unwrap_err().kind(), ErrorKind::SessionExists);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(!folder.path().join("theirs.sqlite-wal").exists());
    assert!(!folder.path().join("theirs.sqlite.lock").exists());
}

#[test]
fn a_file_of_one_session_opens_by_its_path_also_where_nothing_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = background();
    let path = folder.path().join("any name");
    let mut container = Container::create(&path);
    container.session("one", 7);
    container.chain("one", 4);
    container.close();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let session = open_file(&path, &OpenOptions::default(), &ctx).unwrap();
    assert_eq!((session.id(), session.stats(&ctx).unwrap().message_count), ("one", 4));
    assert_eq!(session.set_name(None, &ctx).unwrap_err().kind(), ErrorKind::ReadOnly);
    session.close(&ctx).unwrap();
    assert_eq!(session.stats(&ctx).unwrap_err().kind(), ErrorKind::Closed);
    let memory = open_repository("memory:", Default::default()).unwrap();
    let copy = OpenOptions { legacy: LegacyPolicy::CopyTo(memory), ..OpenOptions::default() };
    assert_eq!(open_file(&path, &copy, &ctx).unwrap_err().kind(), ErrorKind::Unsupported);
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let many = folder.path().join("many.sqlite");
    filled(&many);
    let error = open_file(&many, &OpenOptions::default(), &ctx).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AmbiguousSession, "{error}");
    let none = folder.path().join("none.sqlite");
    Container::create(&none).close();
    assert_eq!(
        open_file(&none, &OpenOptions::default(), &ctx).unwrap_err().kind(),
        ErrorKind::UnknownSession
    );
    assert!(repository(&none).list(&ListOptions::default(), &ctx).unwrap().is_empty());
}

#[test]
fn what_a_crash_left_in_the_log_is_read_and_left_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sqlite");
    let mut writer = Container::create(&path);
    writer.session("s", 5);
    writer.chain("s", 20);
    let ctx = background();
    for beside in [&["", "-wal", "-shm"][..], &["", "-wal"]] {
        let crashed = tempfile::tempdir().unwrap();
        let copy = crashed.path().join("c.sqlite");
        for ending in beside {
            let name = format!("c.sqlite{ending}");
            std::fs::copy(folder.path().join(&name), crashed.path().join(name)).unwrap();
        }
        // Only SQLite's index of the log, which it makes from the log, may come or change.
        let but_index = |folder: &Path| {
            let mut files = contents(folder);
            files.retain(|path, _| !path.to_str().unwrap().ends_with("-shm"));
            files
        };
        let before = but_index(crashed.path());
        assert!(before[&copy].len() <= 4096, "even the tables are in the log");
        let repository = repository(&copy);
        let session = repository.open("s", &ctx).unwrap();
        assert_eq!(session.scan_branch("e20", &BranchScan::default(), &ctx).unwrap().len(), 20);
        assert_eq!(session.set_name(None, &ctx).unwrap_err().kind(), ErrorKind::ReadOnly);
        session.close(&ctx).unwrap();
        assert_eq!(repository.create(&Default::default(), &ctx).unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(repository.delete("s", &ctx).unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(but_index(crashed.path()), before);
    }
    writer.close();
}

/// The reference has it open, writes and closes meanwhile.
#[test]
fn a_reader_sees_what_is_committed_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sqlite");
    let mut writer = Container::create(&path);
    writer.session("s", 5);
    writer.chain("s", 2);
    let ctx = background();
    let repository = repository(&path);
    let session = repository.open("s", &ctx).unwrap();
    assert_eq!(session.stats(&ctx).unwrap().message_count, 2);
    writer.message("s", "e3", Some("e2"), "three");
    assert_eq!(session.stats(&ctx).unwrap().message_count, 3);
    // What is not committed is not there.
    writer.sql.execute_batch("BEGIN").unwrap();
    writer.message("s", "e4", Some("e3"), "four");
    assert_eq!(session.stats(&ctx).unwrap().message_count, 3);
    assert!(session.get_entries(&["e4"], &ctx).unwrap().is_empty());
    writer.sql.execute_batch("COMMIT").unwrap();
    assert_eq!(session.scan_branch("e4", &BranchScan::default(), &ctx).unwrap().len(), 4);
    writer.close();
    assert_eq!(session.stats(&ctx).unwrap().message_count, 4);
    session.close(&ctx).unwrap();

    // The other way: it is opened while nobody writes, and then somebody does, and closes.
    Container::open(&path).close();
    let session = repository.open("s", &ctx).unwrap();
    assert_eq!(session.stats(&ctx).unwrap().message_count, 4);
    for at in 5..8 {
        let mut writer = Container::open(&path);
        writer.go_on_in("s");
        writer.message("s", &format!("e{at}"), Some(&format!("e{}", at - 1)), "more");
        assert_eq!(session.stats(&ctx).unwrap().message_count, at);
        writer.close();
        assert_eq!(session.stats(&ctx).unwrap().message_count, at);
        let path = session.scan_branch(&format!("e{at}"), &BranchScan::default(), &ctx).unwrap();
        assert_eq!(path.len() as u64, at);
    }
    session.close(&ctx).unwrap();
}

#[test]
fn a_file_that_is_changed_in_place_is_read_beside_its_writer_and_after_its_death() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sqlite");
    let mut writer = Container::create(&path);
    writer.session("s", 5);
    writer.chain("s", 2);
    writer.sql.execute_batch("PRAGMA journal_mode = delete").unwrap();
    let ctx = background();
    let session = repository(&path).open("s", &ctx).unwrap();
    assert_eq!(session.stats(&ctx).unwrap().message_count, 2);
    writer.sql.execute_batch("BEGIN").unwrap();
    writer.message("s", "e3", Some("e2"), "three");
    assert!(folder.path().join("c.sqlite-journal").exists());
    assert_eq!(session.stats(&ctx).unwrap().message_count, 2);
    // A writer that dies in the middle of a commit leaves this.
    writer.sql.execute_batch("PRAGMA cache_spill = 1; PRAGMA cache_size = 1").unwrap();
    for at in 4..400 {
        let text = "x".repeat(500);
        writer.message("s", &format!("e{at}"), Some(&format!("e{}", at - 1)), &text);
        if at == 200 {
            writer.sql.cache_flush().unwrap();
        }
    }
    let crashed = tempfile::tempdir().unwrap();
    for name in ["c.sqlite", "c.sqlite-journal"] {
        std::fs::copy(folder.path().join(name), crashed.path().join(name)).unwrap();
    }
    let before = contents(crashed.path());
    writer.sql.execute_batch("ROLLBACK").unwrap();
    assert_eq!(session.stats(&ctx).unwrap().message_count, 2);
    session.close(&ctx).unwrap();
    let error = repository(&crashed.path().join("c.sqlite")).open("s", &ctx).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("died in the middle of a commit"), "{error}");
    assert_eq!(contents(crashed.path()), before);
}

/// One kind of damage each, done with SQL.
#[test]
fn what_the_tables_contradict_is_corrupt_to_read_and_found_by_a_check() {
    let ctx = background();
    let damages: [(&str, &str, &[FindingKind]); 9] = [
        (
            "entry",
            "DELETE FROM entries WHERE id = 'b'",
            &[FindingKind::Unreadable, FindingKind::ParentOfNothing],
        ),
        ("payload", "UPDATE entries SET payload = '{x' WHERE id = 'b'", &[FindingKind::Unreadable]),
        ("empty payload", "UPDATE entries SET payload = '' WHERE id = 'b'", &[FindingKind::Unreadable]),
        ("array", "UPDATE entries SET payload = '[1]' WHERE id = 'b'", &[FindingKind::Unreadable]),
        ("type", "UPDATE entries SET type = 'other' WHERE id = 'b'", &[FindingKind::Unreadable]),
        ("seq", "UPDATE entries SET seq = -4 WHERE id = 'b'", &[FindingKind::Unreadable]),
        (
            "order",
            "UPDATE entries SET seq = 900 WHERE id = 'b'",
            &[FindingKind::ParentOfNothing, FindingKind::DamagedFile],
        ),
        ("cycle", "UPDATE entries SET parent_id = 'd' WHERE id = 'a'", &[FindingKind::ParentOfNothing]),
        (
            "text",
            "UPDATE entries SET payload = CAST(x'7b22ff227d' AS TEXT) WHERE id = 'b'",
            &[FindingKind::Unreadable],
        ),
    ];
    for (name, sql, kinds) in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.sqlite");
        filled(&path);
        let damaged = Container::open(&path);
        assert_eq!(damaged.sql.execute(sql, []).unwrap(), 1, "{name}");
        damaged.close();
        let session = repository(&path).open_read_only("s", &ctx).unwrap();
        for order in [PathOrder::NewestFirst, PathOrder::OldestFirst] {
            let scan = BranchScan { order, ..BranchScan::default() };
            let read = session.scan_branch("d", &scan, &ctx);
            assert_eq!(read.map(|found| found.len()).unwrap_err().kind(), ErrorKind::Corrupt, "{name}");
        }
        let found = findings(&session);
        for kind in kinds {
            assert!(found.iter().any(|finding| finding.kind == *kind), "{name}: {kind:?} in {found:?}");
        }
        // The others are still read.
        assert_eq!(session.get_value(&address("a"), &ctx).unwrap().unwrap().value, Json::parse("1").unwrap());
    }
}

#[test]
fn what_only_a_check_can_tell_is_found() {
    let ctx = background();
    let damages: [(&str, &str, FindingKind); 6] = [
        ("next seq", "UPDATE sessions SET next_seq = 1 WHERE id = 's'", FindingKind::DamagedFile),
        ("no branch index", "DELETE FROM branch_entries", FindingKind::DamagedFile),
        ("no branch tables", "DROP TABLE branch_meta", FindingKind::DamagedFile),
        ("count", "UPDATE sessions SET message_count = 9 WHERE id = 's'", FindingKind::WrongStats),
        ("tip", "UPDATE scalar_values SET value = '\"none\"' WHERE key = 'main'", FindingKind::TipOfNothing),
        ("value", "UPDATE scalar_values SET value = '{' WHERE key = 'z'", FindingKind::Unreadable),
    ];
    for (name, sql, kind) in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.sqlite");
        filled(&path);
        let damaged = Container::open(&path);
        damaged.sql.execute_batch(sql).unwrap();
        damaged.close();
        let session = repository(&path).open_read_only("s", &ctx).unwrap();
        let found = findings(&session);
        assert!(found.iter().any(|finding| finding.kind == kind), "{name}: {found:?}");
        if name == "next seq" {
            // Nothing is ever put at a seq that is taken.
            let last = session.scan_usage(&UsageScan::default(), &ctx).unwrap().pop().unwrap();
            assert_eq!(session.next_seq(&ctx).unwrap(), last.seq + 1);
        }
        if name != "tip" {
            assert_eq!(session.scan_branch("d", &BranchScan::default(), &ctx).unwrap().len(), 4, "{name}");
        }
    }
}

#[test]
fn sessions_of_other_versions_and_databases_of_others_are_refused() {
    let ctx = background();
    for version in [0, 2] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.sqlite");
        filled(&path);
        let changed = Container::open(&path);
        changed.sql.execute("UPDATE sessions SET storage_version = ?1 WHERE id = 's'", [version]).unwrap();
        changed.close();
        let repository = repository(&path);
        let listed = repository.list(&ListOptions::default(), &ctx).unwrap();
        let problems: Vec<Option<ErrorKind>> =
            listed.iter().map(|listing| listing.problem.as_ref().map(Error::kind)).collect();
        assert_eq!(problems, [None, Some(ErrorKind::UnsupportedVersion)]);
        let error = repository.open("s", &ctx).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedVersion, "{error}");
        assert!(error.to_string().contains(&format!("version {version}")), "{error}");
        repository.open("t", &ctx).unwrap().close(&ctx).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.sqlite");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE sessions (id); CREATE TABLE entries (id)").unwrap();
    other.close().unwrap();
    let repository = repository(&path);
    assert_eq!(repository.open("s", &ctx).unwrap_err().kind(), ErrorKind::NotASession);
    assert_eq!(repository.create(&Default::default(), &ctx).unwrap_err().kind(), ErrorKind::NotASession);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// The golden dump without what is the reference's own.
fn expected(dump: &Value) -> Value {
    let mut dump = dump.clone();
    let fields = dump.as_object_mut().unwrap();
    fields.remove("branchPaths");
    fields.remove("branchIndex");
    dump
}

fn golden_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&without_lone(&text)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A copy of a golden file with what lies beside it.
fn golden_copy(golden: &Path, into: &Path) -> PathBuf {
    let name = golden.file_name().unwrap().to_str().unwrap();
    for ending in ["", "-wal", "-shm"] {
        let source = golden.with_file_name(format!("{name}{ending}"));
        if source.exists() {
            std::fs::copy(source, into.join(format!("{name}{ending}"))).unwrap();
        }
    }
    into.join(name)
}

#[test]
fn golden_containers_give_their_dumps() {
    let mut seen = Vec::new();
    for folder in ["golden/sqlite", "golden/harness"] {
        let Some(golden) = shared(folder) else { return };
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(&golden).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "sqlite")) {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            if folder.ends_with("sqlite") && ("40".."50").contains(&&name[..2]) {
                continue;
            }
            let json = match folder {
                "golden/harness" => format!("{name}.sqlite.expected.json"),
                _ => format!("{name}.expected.json"),
            };
            let json = golden_json(&golden.join(json));
            let place = tempfile::tempdir().unwrap();
            let path = golden_copy(file, place.path());
            let before: Vec<PathBuf> = contents(place.path()).into_keys().collect();
            // Only SQLite's index of a log may change.
            let but_index = || {
                let mut files = contents(place.path());
                files.retain(|path, _| !path.to_str().unwrap().ends_with("-shm"));
                files
            };
            let files = but_index();
            let repository = repository(&path);
            let dumps: Vec<&Value> = match json.get("dumps") {
                Some(dumps) => dumps.as_object().unwrap().values().collect(),
                None => vec![&json["dump"]],
            };
            assert_eq!(repository.list(&ListOptions::default(), &background()).unwrap().len(), dumps.len());
            for golden in dumps {
                let session =
                    repository.open(golden["metadata"]["id"].as_str().unwrap(), &background()).unwrap();
                assert_eq!(dump(&session), expected(golden), "{name}");
                for (branch, path) in golden["branchPaths"].as_object().unwrap() {
                    let branch = session.branch(branch, &background()).unwrap().unwrap();
                    let oldest = BranchScan { order: PathOrder::OldestFirst, ..Default::default() };
                    let found = branch.find_entries(&oldest, &background()).unwrap();
                    let path: Vec<&str> =
                        path.as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
                    assert_eq!(ids(&found), path, "{name}");
                }
                let odd: Vec<_> = findings(&session)
                    .into_iter()
                    .filter(|found| found.kind != FindingKind::LabelOfNothing)
                    .collect();
                assert!(odd.is_empty(), "{name}: {odd:?}");
                session.close(&background()).unwrap();
            }
            repository.close(&background()).unwrap();
            assert_eq!(contents(place.path()).into_keys().collect::<Vec<_>>(), before, "{name}");
            assert_eq!(but_index(), files, "{name}");
            seen.push(name);
        }
    }
    assert_eq!(seen.len(), 14 + 5 + 2 + 2, "{seen:?}");
}

#[test]
fn golden_containers_that_are_damaged_or_foreign_are_judged() {
    let Some(golden) = shared("golden/sqlite") else { return };
    let ctx = background();
    let json = golden_json(&golden.join("4x-refused.expected.json"));
    for name in json.as_object().unwrap().keys() {
        let place = tempfile::tempdir().unwrap();
        let path = golden_copy(&golden.join(format!("{name}.sqlite")), place.path());
        let before = contents(place.path());
        let repository = repository(&path);
        let opened = repository.open("s", &ctx);
        let refused = |kind| assert_eq!(opened.as_ref().unwrap_err().kind(), kind, "{name}");
        let open = || opened.as_ref().unwrap_or_else(|error| panic!("{name}: {error}"));
        let golden = &json[name]["open"]["ok"]["dump"];
        let kinds = || findings(open()).iter().map(|finding| finding.kind).collect::<Vec<_>>();
        let tip =
            |branch| open().branch(branch, &ctx).unwrap().unwrap().find_entries(&Default::default(), &ctx);
        match &name[..2] {
            "40" | "41" | "42" => refused(ErrorKind::NotASession),
            "43" | "44" => refused(ErrorKind::UnsupportedVersion),
            // Its branches read here, and not there.
            "45" => {
                assert_eq!(dump(open()), expected(golden));
                assert_eq!(ids(&tip("main").unwrap()).len(), 2);
                assert_eq!(kinds(), [FindingKind::DamagedFile]);
            }
            "46" => {
                assert!(kinds().contains(&FindingKind::Unreadable), "{:?}", kinds());
                assert_eq!(open().dump(&mut Vec::new(), &ctx).unwrap_err().kind(), ErrorKind::Corrupt);
            }
            "47" => {
                // The reference gives a shorter path.
                assert_eq!(tip("main").unwrap_err().kind(), ErrorKind::Corrupt);
                assert_eq!(tip(" spaced name ").unwrap_err().kind(), ErrorKind::UnknownEntry);
                let kinds = kinds();
                for kind in [FindingKind::Unreadable, FindingKind::ParentOfNothing, FindingKind::TipOfNothing]
                {
                    assert!(kinds.contains(&kind), "{kind:?} in {kinds:?}");
                }
            }
            "48" => {
                let mut expected = expected(golden);
                expected["nextSeq"] = Value::from(11);
                assert_eq!(dump(open()), expected);
                assert_eq!(kinds(), [FindingKind::DamagedFile]);
            }
            "49" => {
                assert_eq!(dump(open()), expected(golden));
                assert!(kinds().is_empty());
            }
            other => panic!("{other}"),
        }
        drop(opened);
        assert_eq!(contents(place.path()), before, "{name}");
    }
    assert_eq!(json.as_object().unwrap().len(), 10);
}
