//! Checking a session: a sound one has no finding, each damage has its own, and looking changes nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use std::io::Write as _;
use std::path::Path;

use pisession::{
    Address, CheckDepth, CheckOptions, Context, EntryQuery, EntryType, ErrorKind, FileCheck, FindingKind,
    Json, MAX_DEPTH, NewEntry, NewNode, NewUsage, OpenMode, OpenOptions, Repository, Session, Write,
    open_repository,
};
use support::on_every_session;

fn background() -> Context {
    Context::background()
}

fn message(text: &str) -> Json {
    Json::parse(format!("{{\"role\":\"user\",\"content\":{}}}", Json::string(text))).unwrap()
}

fn kinds(session: &Session) -> Vec<FindingKind> {
    session.check(&mut |_| (), &background()).unwrap().iter().map(|finding| finding.kind).collect()
}

fn set(session: &Session, namespace: &str, key: &str, value: &str) {
    let address = Address::new(namespace, key).unwrap();
    session.set_value(&address, &Json::parse(value).unwrap(), &background()).unwrap();
}

/// A branch with messages, a custom entry, a label, a name, an application value and a list.
fn fill(session: &Session) -> Vec<String> {
    let ctx = background();
    let main = session.create_branch("main", None, &ctx).unwrap();
    let nodes: Vec<NewNode> = (0..600).map(|number| NewNode::Message(message(&number.to_string()))).collect();
    let mut ids = main.append_many(&nodes, &ctx).unwrap();
    ids.push(main.append_custom_entry("mark", None, &ctx).unwrap());
    session.set_label(&ids[0], Some("first"), &ctx).unwrap();
    session.set_name(Some("name"), &ctx).unwrap();
    set(session, "app", "value", "1");
    let list = Address::new("app", "list").unwrap();
    for number in 0..3 {
        session.append_list(&list, &Json::of(&number).unwrap(), &ctx).unwrap();
    }
    session.create_branch("empty", None, &ctx).unwrap();
    ids
}

#[test]
fn a_sound_session_has_no_finding_and_its_entries_are_counted() {
    on_every_session(|session| {
        fill(session);
        let mut counts = Vec::new();
        let findings = session.check(&mut |count| counts.push(count), &background()).unwrap();
        assert!(findings.is_empty(), "{findings:?}");
        assert_eq!(counts, [256, 512]);
    });
}

#[test]
fn labels_of_nothing_are_named() {
    on_every_session(|session| {
        fill(session);
        session.set_label("nowhere", Some("lost"), &background()).unwrap();
        let findings = session.check(&mut |_| (), &background()).unwrap();
        let named: Vec<_> =
            findings.iter().map(|f| (f.kind.name(), f.id.as_deref(), f.message.as_str())).collect();
        assert_eq!(
            named,
            [("label_of_nothing", Some("nowhere"), "the label 'lost' is on no entry: 'nowhere'")]
        );
    });
}

#[test]
fn lanes_are_whole_or_named() {
    on_every_session(|session| {
        fill(session);
        for part in ["pi.lane.config", "pi.lane.state"] {
            set(session, part, "main", "{}");
            set(session, part, "gone", "{}");
        }
        set(session, "pi.lane.config", "empty", "{}");
        let findings = session.check(&mut |_| (), &background()).unwrap();
        let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(messages, ["lane 'empty' has no state", "lane 'gone' has no branch"]);
        assert!(findings.iter().all(|finding| finding.kind == FindingKind::IncompleteLane));
    });
}

#[test]
fn a_check_ends_with_its_context_and_with_the_session() {
    on_every_session(|session| {
        let ctx = Context::new();
        ctx.cancel();
        assert_eq!(session.check(&mut |_| (), &ctx).unwrap_err().kind(), ErrorKind::Cancelled);
        session.close(&background()).unwrap();
        assert_eq!(session.check(&mut |_| (), &background()).unwrap_err().kind(), ErrorKind::Closed);
    });
}

fn kinds_of_full(session: &Session) -> Vec<FindingKind> {
    let options = CheckOptions { depth: CheckDepth::Full, ..Default::default() };
    let findings = session.check_with(&options, &mut |_| (), &background()).unwrap();
    findings.iter().map(|finding| finding.kind).collect()
}

/// A container with a session of three messages, changed by `sql` behind its back.
fn damaged(sql: &str) -> (tempfile::TempDir, Repository, Session) {
    damaged_by(|path| rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap())
}

/// A container with a session of three messages, changed by `damage` behind its back.
fn damaged_by(damage: impl Fn(&Path)) -> (tempfile::TempDir, Repository, Session) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let uri = format!("sqlite:{}", path.display());
    let ctx = background();
    let repository = open_repository(&uri, Default::default()).unwrap();
    let session = repository
        .create(&pisession::CreateOptions { id: Some("s".to_owned()), ..Default::default() }, &ctx)
        .unwrap();
    session.create_branch("main", None, &ctx).unwrap();
    let entry = |id: &str, parent: Option<&str>| Write::Entry(NewEntry::message(id, parent, &message(id)));
    let mut writes = vec![entry("a", None), entry("b", Some("a")), entry("c", Some("b"))];
    writes.push(Write::SetValue(Address::new("pi.branch.tip", "main").unwrap(), Json::string("c")));
    session.mutate(|mutator, ctx| mutator.commit(&writes, ctx), &ctx).unwrap();
    session.close(&ctx).unwrap();
    repository.close(&ctx).unwrap();
    damage(&path);
    let repository = open_repository(&uri, Default::default()).unwrap();
    let session = repository
        .open_with("s", &OpenOptions { mode: OpenMode::ReadOnly, ..Default::default() }, &ctx)
        .unwrap();
    (folder, repository, session)
}

#[test]
fn each_damage_of_a_database_has_its_finding() {
    use FindingKind::{BadPayload, BadValue, TipOfNothing, Unreadable, WrongStats};
    for (sql, expected) in [
        ("", &[][..]),
        ("DELETE FROM entry_row WHERE id = 'c'", &[WrongStats, TipOfNothing]),
        ("UPDATE value_row SET payload = '5' WHERE namespace = 'app'", &[]),
        ("DELETE FROM entry_row WHERE id = 'a'", &[Unreadable]),
        ("UPDATE session_row SET message_count = 7", &[WrongStats]),
        ("UPDATE entry_row SET payload = '{\"no\":1}' WHERE id = 'b'", &[BadPayload]),
        ("UPDATE entry_row SET payload = '{\"message\":{' WHERE id = 'b'", &[BadPayload]),
        ("UPDATE value_row SET payload = '5' WHERE namespace = 'pi.branch.tip'", &[BadValue]),
        ("DROP TABLE usage_row", &[Unreadable]),
    ] {
        let (_folder, _repository, session) = damaged(sql);
        assert_eq!(kinds(&session), expected, "{sql}");
    }
}

/// The work follows the number of lanes: with each compared with all, this would not end in a minute.
#[test]
fn a_session_may_have_many_lanes() {
    const PARTS: [&str; 3] = ["pi.branch.tip", "pi.lane.config", "pi.lane.state"];
    let session = open_repository("memory:", Default::default())
        .unwrap()
        .create(&Default::default(), &background())
        .unwrap();
    let lane =
        |number: usize| format!("{}{number:06}", "a lane with a name that begins as all the others do ");
    let commit: Vec<Write> = (0..60_000)
        .flat_map(|number| PARTS.map(|part| (part, number)))
        .filter(|(part, number)| (*part, *number) != (PARTS[1], 7) && (*part, *number) != (PARTS[2], 5))
        .map(|(part, number)| Write::SetValue(Address::new(part, lane(number)).unwrap(), Json::null()))
        .collect();
    session.mutate(|mutator, ctx| mutator.commit(&commit, ctx), &background()).unwrap();
    let found = session.check(&mut |_| (), &background()).unwrap();
    let found: Vec<_> = found.into_iter().map(|finding| (finding.kind, finding.id.unwrap())).collect();
    assert_eq!(found, [5, 7].map(|number| (FindingKind::IncompleteLane, lane(number))));
}

/// Changes entries in their table while the index of ids stays as it is.
fn behind_the_index(change: &str) -> String {
    format!(
        "CREATE TEMP TABLE kept AS SELECT * FROM entry_row WHERE id = 'c';
         DELETE FROM entry_row WHERE id = 'c' AND {is_taken_out};
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = sql || ' WHERE sid < 0' WHERE name = 'entry_by_id';
         PRAGMA writable_schema = RESET;
         {change};
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, ' WHERE sid < 0', '') WHERE name = 'entry_by_id';
         PRAGMA writable_schema = RESET;",
        is_taken_out = u8::from(change.starts_with("INSERT")),
    )
}

#[test]
fn an_entry_that_its_index_lacks_is_found_by_file_and_tip() {
    let (_folder, _repository, session) =
        damaged(&behind_the_index("INSERT INTO entry_row SELECT * FROM kept"));
    assert!(session.get_entry("c", &background()).unwrap().is_none(), "the index has it");
    assert_eq!(kinds(&session), [FindingKind::DamagedFile, FindingKind::TipOfNothing]);
    let skip = CheckOptions { file: FileCheck::Skip, ..Default::default() };
    let findings = session.check_with(&skip, &mut |_| (), &background()).unwrap();
    assert_eq!(findings[0].message, "the tip of branch 'main' is there, but its id does not find it: 'c'");
}

#[test]
fn an_index_that_says_something_else_than_its_table_is_found_by_a_full_check() {
    let (_folder, _repository, session) =
        damaged(&behind_the_index("UPDATE entry_row SET id = 'x' WHERE id = 'a'"));
    assert!(!kinds(&session).contains(&FindingKind::DamagedFile));
    assert!(kinds_of_full(&session).contains(&FindingKind::DamagedFile));
}

#[test]
fn a_page_of_an_index_that_is_no_page_is_found_and_not_looked_for_when_skipped() {
    let (_folder, _repository, session) = damaged_by(|path| {
        let database = rusqlite::Connection::open(path).unwrap();
        let number = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as usize;
        // An index that no read of this session uses.
        let page = number("SELECT rootpage FROM sqlite_schema WHERE name = 'entry_by_custom_type'");
        let size = number("PRAGMA page_size");
        drop(database);
        let mut bytes = std::fs::read(path).unwrap();
        bytes[(page - 1) * size..page * size].fill(0x5a);
        std::fs::write(path, bytes).unwrap();
    });
    let findings = session.check(&mut |_| (), &background()).unwrap();
    assert!(!findings.is_empty());
    for finding in &findings {
        assert_eq!(finding.kind.name(), "damaged_file", "{finding:?}");
        assert!(finding.hint.is_some() && finding.message.starts_with("the database file: "), "{finding:?}");
    }
    let skip = CheckOptions { file: FileCheck::Skip, ..Default::default() };
    assert!(session.check_with(&skip, &mut |_| (), &background()).unwrap().is_empty());
}

#[test]
fn a_full_check_of_a_sound_session_finds_nothing() {
    on_every_session(|session| {
        fill(session);
        assert_eq!(kinds_of_full(session), []);
    });
}

fn kinds_at(session: &Session, depth: CheckDepth) -> Vec<FindingKind> {
    let options = CheckOptions { depth, ..Default::default() };
    let findings = session.check_with(&options, &mut |_| (), &background()).unwrap();
    findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn what_does_not_fit_together_is_found_by_a_full_check_only() {
    use FindingKind::{DuplicateId, RowOfNothing, WrongPointer, WrongSeq, WrongStats};
    let usage = |id: &str| {
        format!("INSERT INTO usage_row VALUES (1 << 40 | 6, 1, '{id}', '{{\"usage\":{{\"input\":1}}}}')")
    };
    for (sql, quick, full) in [
        ("UPDATE entry_row SET depth = 7 WHERE id = 'c'".to_owned(), &[][..], &[WrongPointer][..]),
        ("UPDATE entry_row SET jump = 2 WHERE id = 'c'".to_owned(), &[], &[WrongPointer]),
        ("UPDATE session_row SET next_seq = 5".to_owned(), &[], &[WrongSeq]),
        ("UPDATE value_row SET seq = 3".to_owned(), &[], &[WrongSeq]),
        ("INSERT INTO list_row VALUES (9, 1, 'app', 'list')".to_owned(), &[], &[RowOfNothing]),
        ("INSERT INTO list_element_row VALUES (9 << 40 | 3, '1')".to_owned(), &[], &[RowOfNothing]),
        ("INSERT INTO value_row VALUES (99, 7, 'app', 'v', 3, '1')".to_owned(), &[], &[RowOfNothing]),
        ("UPDATE session_row SET output = 5".to_owned(), &[WrongStats], &[WrongStats]),
        (usage("u"), &[WrongStats], &[WrongSeq, WrongStats]),
        (usage("b"), &[DuplicateId, WrongStats], &[WrongSeq, DuplicateId, WrongStats]),
    ] {
        let (_folder, _repository, session) = damaged(&sql);
        assert_eq!(kinds_at(&session, CheckDepth::Quick), quick, "{sql}");
        assert_eq!(kinds_at(&session, CheckDepth::Full), full, "{sql}");
    }
}

#[test]
fn a_brief_check_finds_what_costs_little_and_reads_no_entry_for_it() {
    use FindingKind::{LabelOfNothing, NoBranch, TipOfNothing};
    for (sql, brief) in [
        ("", &[][..]),
        ("DELETE FROM entry_row WHERE id = 'c'", &[TipOfNothing]),
        ("UPDATE entry_row SET payload = 'x' WHERE id = 'b'", &[]),
        ("DELETE FROM value_row", &[NoBranch]),
        ("INSERT INTO value_row VALUES (9, 1, 'pi.entry.label', 'x', 3, '\"l\"')", &[LabelOfNothing]),
    ] {
        let (_folder, _repository, session) = damaged(sql);
        assert_eq!(kinds_at(&session, CheckDepth::Brief), brief, "{sql}");
    }
}

/// A file of JSON lines with five commits; its repository, its metadata.
fn lines() -> (tempfile::TempDir, Repository, pisession::SessionMetadata) {
    let folder = tempfile::tempdir().unwrap();
    let repository =
        open_repository(&format!("jsonl:{}", folder.path().display()), Default::default()).unwrap();
    let session = repository.create(&Default::default(), &background()).unwrap();
    let main = session.create_branch("main", None, &background()).unwrap();
    for text in ["a", "b", "c"] {
        main.append_message(&message(text), &background()).unwrap();
    }
    set(&session, "app", "v", "1");
    session.close(&background()).unwrap();
    let metadata = session.metadata().clone();
    (folder, repository, metadata)
}

#[test]
fn every_damaged_line_of_a_file_is_named_with_its_place() {
    let (_folder, repository, metadata) = lines();
    let path = metadata.path.as_deref().unwrap();
    let mut lines: Vec<String> = std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
    lines[5] = "{\"kind\":".to_owned();
    lines.insert(2, String::new());
    std::fs::write(path, lines.join("\n") + "\n").unwrap();
    let past_damage = OpenOptions { mode: OpenMode::ReadOnly, salvage: true, ..Default::default() };
    let session = repository.open_with(&metadata, &past_damage, &background()).unwrap();
    for depth in [CheckDepth::Brief, CheckDepth::Quick, CheckDepth::Full] {
        let options = CheckOptions { depth, ..Default::default() };
        let findings = session.check_with(&options, &mut |_| (), &background()).unwrap();
        let offset = |line: usize| Some(lines[..line].iter().map(|line| line.len() as u64 + 1).sum::<u64>());
        let found: Vec<_> =
            findings.iter().map(|finding| (finding.kind.name(), finding.line, finding.offset)).collect();
        let expected = [("damaged_line", Some(3), offset(2)), ("damaged_line", Some(7), offset(6))];
        assert_eq!(found, expected, "{depth:?}");
        assert!(findings.iter().all(|finding| finding.hint.as_deref().unwrap().contains("repair")));
    }
}

#[test]
fn a_line_that_was_changed_after_it_was_read_is_found_by_a_full_check() {
    let (_folder, repository, metadata) = lines();
    let session = repository.open_read_only(&metadata, &background()).unwrap();
    let path = metadata.path.as_deref().unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let changed = text.replace("\"namespace\":\"app\"", "\"namespace\":5555\"");
    assert_eq!(changed.len() + 1, text.len() + 1);
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, changed.as_bytes(), 0).unwrap();
    assert_eq!(kinds_at(&session, CheckDepth::Quick), []);
    assert_eq!(kinds_at(&session, CheckDepth::Full), [FindingKind::DamagedLine]);
}

#[test]
fn a_torn_tail_is_named_with_its_place_until_a_commit_cuts_it_off() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("jsonl:{}", folder.path().display());
    let ctx = background();
    let repository = open_repository(&uri, Default::default()).unwrap();
    let session = repository.create(&Default::default(), &ctx).unwrap();
    session.create_branch("main", None, &ctx).unwrap();
    let metadata = session.metadata().clone();
    session.close(&ctx).unwrap();
    let path = metadata.path.as_deref().unwrap();
    let length = std::fs::metadata(path).unwrap().len();
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"{\"kind\":").unwrap();
    let reader = repository.open_read_only(&metadata, &ctx).unwrap();
    let findings = reader.check(&mut |_| (), &ctx).unwrap();
    let found: Vec<_> = findings.iter().map(|f| (f.kind.name(), f.line, f.offset)).collect();
    assert_eq!(found, [("torn_tail", Some(3), Some(length))]);
    let writer = repository.open(&metadata, &ctx).unwrap();
    writer.set_name(Some("name"), &ctx).unwrap();
    assert_eq!(kinds(&writer), []);
    assert_eq!(kinds(&reader), []);
}

#[test]
fn an_import_that_was_cut_off_is_named() {
    on_every_session(|session| {
        fill(session);
        let list = Address::new("pisession.legacy", "").unwrap();
        let append = |element: &str| {
            session.append_list(&list, &Json::parse(element).unwrap(), &background()).unwrap();
        };
        append(r#"{"line":1,"text":"{}"}"#);
        let findings = session.check(&mut |_| (), &background()).unwrap();
        let found: Vec<_> = findings.iter().map(|finding| finding.kind.name()).collect();
        assert_eq!(found, ["unfinished_import"]);
        assert!(findings[0].hint.as_deref().unwrap().contains("import the same file again"));
        append(r#"{"source":{"bytes":3,"sha256":"00"}}"#);
        assert_eq!(kinds(session), []);
    });
}

#[test]
fn entries_that_no_branch_leads_to_are_named() {
    on_every_session(|session| {
        let entry = Write::Entry(NewEntry::message("a", None, &message("a")));
        session.mutate(|mutator, ctx| mutator.commit(&[entry], ctx), &background()).unwrap();
        assert_eq!(kinds(session), [FindingKind::NoBranch]);
        session.create_branch("main", Some("a"), &background()).unwrap();
        assert_eq!(kinds(session), []);
    });
}

#[test]
fn every_type_of_entry_is_checked_by_its_fields() {
    on_every_session(|session| {
        session.create_branch("main", None, &background()).unwrap();
        let payloads = [
            (EntryType::Compaction, r#"{"summary":"s","retainedTail":[],"tokensBefore":1,"fromHook":false}"#),
            (EntryType::BranchSummary, r#"{"fromId":null,"summary":"s","fromHook":false}"#),
        ];
        for (number, (kind, payload)) in payloads.into_iter().enumerate() {
            let payload = Json::parse(payload).unwrap();
            let entry = NewEntry::with_payload(number.to_string(), None, kind, None, payload).unwrap();
            let commit = [Write::Entry(entry)];
            session.mutate(|mutator, ctx| mutator.commit(&commit, ctx), &background()).unwrap();
        }
        assert_eq!(kinds(session), []);
    });
}

/// Each field of a payload may nest as deep as a payload of its own.
#[test]
fn fields_that_nest_as_deep_as_they_may_are_sound_and_survive_their_json() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let entries = |levels: usize| {
        let (list, inside) = (nested(levels), nested(levels - 1));
        let entry = |id: &str, rest: &str| format!("{{\"id\":\"{id}\",\"parentId\":null,{rest}}}");
        let message = format!(r#""type":"message","message":{{"role":"user","content":{inside}}}"#);
        let custom = format!(r#""type":"custom","customType":"c","data":{list}"#);
        let compaction = format!(
            r#""type":"compaction","summary":"s","retainedTail":{list},"tokensBefore":1,"fromHook":false"#
        );
        let summary = format!(
            r#""type":"branch_summary","fromId":null,"summary":"s","details":{list},"fromHook":false"#
        );
        [entry("m", &message), entry("u", &custom), entry("c", &compaction), entry("b", &summary)]
    };
    let row = |levels: usize| {
        let usage = r#"{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":2,
            "cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}"#;
        format!(r#"{{"id":"r","usage":{usage},"details":{}}}"#, nested(levels))
    };
    on_every_session(|session| {
        let mut commit: Vec<Write> =
            entries(MAX_DEPTH).iter().map(|text| Write::Entry(NewEntry::from_json(text).unwrap())).collect();
        commit.push(Write::Usage(NewUsage::from_json(&row(MAX_DEPTH)).unwrap()));
        commit.push(Write::SetValue(Address::new("pi.branch.tip", "main").unwrap(), Json::null()));
        session.mutate(|mutator, ctx| mutator.commit(&commit, ctx), &background()).unwrap();
        assert_eq!(kinds(session), []);
        for entry in session.find_entries(&EntryQuery::default(), &background()).unwrap() {
            // Its place in the session is no part of what is new.
            let json = entry.to_json();
            let (kept, _place) = json.as_str().rsplit_once(",\"seq\":").unwrap();
            let again = NewEntry::from_json(&format!("{kept}}}")).unwrap();
            assert_eq!((again.id(), again.payload()), (entry.id.as_str(), &entry.payload));
        }
    });
    for text in entries(MAX_DEPTH + 1) {
        assert_eq!(NewEntry::from_json(&text).unwrap_err().kind(), ErrorKind::InvalidJson);
    }
    assert_eq!(NewUsage::from_json(&row(MAX_DEPTH + 1)).unwrap_err().kind(), ErrorKind::InvalidJson);
}
