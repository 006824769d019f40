//! Sessions come out as files of version 3: the bytes they came from, and what came to them since.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests, which clippy does not take for tests

mod legacy_support;
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use legacy_support::shared;
use pisession::{
    Address, BranchScan, Context, Entry, EntryQuery, EntryType, ErrorKind, Export, ExportOptions,
    ExportScope, ForkOptions, ForkScope, ImportOptions, Json, LegacyPolicy, Loss, LossKind, NewEntry,
    OpenOptions, Order, Repository, Session, SessionReader, Write, addresses, import_file, open_file,
    open_repository,
};
use proptest::prelude::*;
use support::{URIS, background, json, on_every_session, user};

fn salvage() -> ImportOptions {
    ImportOptions { salvage: true, ..ImportOptions::default() }
}

fn memory() -> Repository {
    open_repository("memory:", Default::default()).unwrap()
}

fn exported(session: &Session, scope: ExportScope) -> (String, Export) {
    let mut bytes = Vec::new();
    let export =
        session.export(&mut bytes, &ExportOptions { scope, overwrite: false }, &background()).unwrap();
    assert_eq!(export.bytes, bytes.len() as u64);
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.ends_with('\n'));
    assert_eq!(export.lines, text.matches('\n').count() as u64);
    (text, export)
}

fn tree(session: &Session) -> String {
    exported(session, ExportScope::Tree).0
}

/// The lines of a file with line feeds.
fn with_line_feeds(bytes: &[u8]) -> Vec<u8> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut out = Vec::new();
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let last = lines.pop().unwrap();
    for line in lines {
        out.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        out.push(b'\n');
    }
    if !last.is_empty() {
        out.extend_from_slice(last);
        out.push(b'\n');
    }
    out
}

struct Files {
    folder: tempfile::TempDir,
    count: std::cell::Cell<u32>,
}

impl Files {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), count: std::cell::Cell::new(0) }
    }

    fn file(&self, bytes: impl AsRef<[u8]>) -> PathBuf {
        self.count.set(self.count.get() + 1);
        let path = self.folder.path().join(format!("{}.jsonl", self.count.get()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn open(&self, bytes: impl AsRef<[u8]>) -> Session {
        open_file(self.file(bytes), &OpenOptions::default(), &background()).unwrap()
    }

    /// The session that importing the file into `repository` makes.
    fn import(&self, bytes: impl AsRef<[u8]>, repository: &Repository) -> Session {
        let import = import_file(self.file(bytes), repository, &salvage(), &background()).unwrap();
        repository.open(&import.session, &background()).unwrap()
    }
}

fn entries(session: &Session) -> Vec<Entry> {
    let query = EntryQuery { order: Order::Ascending, ..EntryQuery::default() };
    session.entries(&query, &background()).collect::<Result<_, _>>().unwrap()
}

/// What a session says, its ids as positions: what an export and an import must leave alone.
fn content(session: &Session) -> Vec<String> {
    let ctx = background();
    let all = entries(session);
    let position: BTreeMap<&str, String> =
        all.iter().enumerate().map(|(at, entry)| (entry.id.as_str(), format!("#{at}"))).collect();
    let named = |text: &str| {
        let mut text = text.to_owned();
        for (id, name) in &position {
            text = text.replace(*id, name);
        }
        text
    };
    let mut lines: Vec<String> = all
        .iter()
        .map(|entry| {
            let of = |id: &str| position[id].clone();
            let place = (of(&entry.id), entry.parent_id.as_deref().map(of));
            // Of payloads only those that hold an id, which are small.
            let payload = match (entry.entry_type, entry.custom_type.as_deref()) {
                (EntryType::BranchSummary, _) | (_, Some("pi.context_edit")) => named(entry.payload.as_str()),
                _ => entry.payload.to_string(),
            };
            let (kind, name) = (entry.entry_type, &entry.custom_type);
            format!("{place:?} {kind} {name:?} {} {payload}", entry.timestamp)
        })
        .collect();
    lines.push(format!("name {:?}", session.name(&ctx).unwrap()));
    let labels = session.scan_values(&Address::new("pi.entry.label", "").unwrap(), &ctx).unwrap();
    let mut labels: Vec<String> =
        labels.iter().map(|label| named(&format!("label {} {}", label.address.key(), label.value))).collect();
    labels.sort();
    lines.extend(labels);
    let tip = session.branch("main", &ctx).unwrap().and_then(|main| main.tip_id(&ctx).unwrap());
    lines.push(named(&format!("tip {tip:?}")));
    let config = session.get_value(&addresses::lane_config("main").unwrap(), &ctx).unwrap();
    lines.push(format!("config {:?}", config.map(|stored| stored.value)));
    lines
}

fn losses(export: &Export, kind: LossKind) -> Vec<&Loss> {
    export.losses.iter().filter(|loss| loss.kind == kind).collect()
}

/// Exports the session, reads the file and compares.
fn comes_back(session: &Session, files: &Files) -> String {
    let (text, export) = exported(session, ExportScope::Tree);
    let again = files.open(&text);
    let warnings: Vec<String> = again.legacy().unwrap().warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.is_empty(), "{warnings:?}\n{text}");
    // A branch without a configuration whose lines say one: that is told.
    let is_told = !losses(&export, LossKind::Configuration).is_empty();
    let said = |session: &Session| {
        let mut lines = content(session);
        lines.truncate(lines.len() - usize::from(is_told));
        lines
    };
    assert_eq!(said(&again), said(session), "{text}");
    let imported = files.import(&text, &memory());
    assert_eq!(said(&imported), said(session));
    assert_eq!(tree(&imported), text);
    text
}

/// The session files of a folder.
fn session_files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    found.sort();
    found
}

/// Every file of version 3 in the folder gives its lines again, from the file itself and from copies on every
/// backend; every older one a file of version 3 with the same content.
fn gives_back_every_file_of(folder: &Path) -> (usize, usize) {
    let ctx = background();
    let (mut same, mut upgraded) = (0, 0);
    for path in session_files(folder) {
        let Ok(opened) = open_file(&path, &OpenOptions::default(), &ctx) else { continue };
        let Some(legacy) = opened.legacy().filter(|legacy| legacy.version <= 3) else { continue };
        let bytes = std::fs::read(&path).unwrap();
        let expected = with_line_feeds(&bytes);
        for uri in [&["the file"], URIS].concat() {
            let place = tempfile::tempdir().unwrap();
            let session = if uri == "the file" {
                opened.clone()
            } else {
                let uri = uri.replace("{folder}", place.path().to_str().unwrap());
                let repository = open_repository(&uri, Default::default()).unwrap();
                let options = OpenOptions {
                    salvage: true,
                    legacy: LegacyPolicy::CopyTo(repository),
                    ..OpenOptions::default()
                };
                open_file(&path, &options, &ctx).unwrap()
            };
            let mut out = Vec::new();
            session.export(&mut out, &ExportOptions::default(), &ctx).unwrap();
            if legacy.version == 3 {
                assert!(out == expected, "{} from {uri}", path.display());
                same += 1;
            } else {
                let files = Files::new();
                let again = files.open(&out);
                assert_eq!(again.legacy().unwrap().version, 3);
                assert_eq!(
                    again.legacy().unwrap().warnings.iter().map(|w| w.to_string()).collect::<Vec<_>>(),
                    Vec::<String>::new(),
                    "{} from {uri}",
                    path.display()
                );
                assert_eq!(content(&again), content(&session), "{} from {uri}", path.display());
                upgraded += 1;
            }
            if uri != "the file" {
                session.close(&ctx).unwrap();
            }
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    (same, upgraded)
}

#[test]
fn every_file_of_the_corpus_comes_back() {
    let Some(corpus) = shared("corpus") else { return };
    let (same, upgraded) = gives_back_every_file_of(&corpus);
    assert!(same > 300 && upgraded > 30, "{same} {upgraded}");
}

#[test]
fn every_golden_file_of_version_3_comes_back() {
    let Some(golden) = shared("golden/v3") else { return };
    let (same, _) = gives_back_every_file_of(&golden);
    assert!(same > 100, "{same}");
}

fn write(session: &Session, writes: &[Write]) {
    session.mutate(|mutator, ctx| mutator.commit(writes, ctx), &background()).unwrap();
}

fn configure(session: &Session, model: &str, thinking: &str, tools: &str) {
    let config = format!(
        "{{\"model\":{{\"provider\":\"p\",\"modelId\":\"{model}\"}},\"thinkingLevel\":\"{thinking}\",\"activeToolNames\":{tools}}}"
    );
    let state = "{\"currentOperationId\":null,\"lastOperationId\":null,\"inbox\":[]}";
    write(
        session,
        &[
            Write::SetValue(addresses::lane_config("main").unwrap(), json(&config)),
            Write::SetValue(addresses::lane_state("main").unwrap(), json(state)),
        ],
    );
}

fn insert(session: &Session, entry: NewEntry) {
    write(session, &[Write::Entry(entry)]);
}

fn move_main(session: &Session, id: Option<&str>) {
    let tip = addresses::branch_tip("main").unwrap();
    write(session, &[tip.set(&id.map(str::to_owned)).unwrap()]);
}

fn assistant(text: &str) -> Json {
    json(&format!(
        "{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"usage\":{{\"input\":1,\
         \"output\":2,\"cost\":{{\"total\":0.10000000000000001}}}},\"stopReason\":\"stop\"}}"
    ))
}

fn payload(id: &str, parent: Option<&str>, entry_type: EntryType, payload: &str) -> NewEntry {
    let custom_type = (entry_type == EntryType::Custom).then_some("app");
    NewEntry::with_payload(id, parent, entry_type, custom_type, json(payload)).unwrap()
}

#[test]
fn a_session_that_was_made_here_comes_back_from_its_file() {
    on_every_session(|session| {
        let ctx = background();
        let files = Files::new();
        let main = session.create_branch("main", None, &ctx).unwrap();
        comes_back(session, &files);
        let first = main.append_message(&user("one \u{2028} \" \\ \u{1}"), &ctx).unwrap();
        let answer = main.append_message(&assistant("two"), &ctx).unwrap();
        main.append_custom_entry("note", Some(&json("{\"z\":1e400,\"a\":9007199254740993,\"z\":-0}")), &ctx)
            .unwrap();
        main.append_custom_entry("note", None, &ctx).unwrap();
        comes_back(session, &files);
        let third = main.append_message(&user("three"), &ctx).unwrap();
        let summary =
            format!("{{\"fromId\":\"{answer}\",\"summary\":\"left\",\"details\":[1],\"fromHook\":false}}");
        insert(session, payload("left-one", Some(&first), EntryType::BranchSummary, &summary));
        let from_root = "{\"fromId\":null,\"summary\":\"\",\"fromHook\":true}";
        insert(session, payload("from-root", Some("left-one"), EntryType::BranchSummary, from_root));
        session.set_name(Some("a \"name\"\n"), &ctx).unwrap();
        session.set_label(&third, Some("three"), &ctx).unwrap();
        session.set_label(&first, Some("one"), &ctx).unwrap();
        comes_back(session, &files);
        configure(session, "m", "high", "[\"read\"]");
        let text = comes_back(session, &files);
        let types: Vec<&str> = text.lines().map(|line| line.split('"').nth(3).unwrap()).collect();
        let end = [
            "model_change",
            "thinking_level_change",
            "active_tools_change",
            "session_info",
            "label",
            "label",
        ];
        assert_eq!(types[types.len() - 6..], end);
        // Programs go on at the last line, which hangs on the tip.
        move_main(session, Some(&first));
        comes_back(session, &files);
        move_main(session, None);
        comes_back(session, &files);
    });
}

#[test]
fn the_tip_is_where_the_last_line_hangs_even_if_there_is_nothing_else_to_say() {
    on_every_session(|session| {
        let ctx = background();
        let files = Files::new();
        let main = session.create_branch("main", None, &ctx).unwrap();
        let first = main.append_message(&user("one"), &ctx).unwrap();
        main.append_message(&user("two"), &ctx).unwrap();
        assert_eq!(comes_back(session, &files).lines().count(), 3);
        move_main(session, Some(&first));
        let text = comes_back(session, &files);
        let last = text.lines().last().unwrap();
        let name = text.lines().nth(1).unwrap().split('"').nth(7).unwrap();
        assert!(last.starts_with("{\"type\":\"session_info\","), "{last}");
        assert!(last.contains(&format!("\"parentId\":\"{name}\"")), "{last}");
        assert!(last.ends_with(",\"name\":\"\"}"), "{last}");
    });
}

#[test]
fn lines_are_as_the_coding_agent_writes_them() {
    let ctx = background();
    let repository = open_repository("memory:", support::counting_options()).unwrap();
    let create = pisession::CreateOptions {
        id: Some("s".to_owned()),
        cwd: Some("/w".to_owned()),
        ..Default::default()
    };
    let session = repository.create(&create, &ctx).unwrap();
    let main = session.create_branch("main", None, &ctx).unwrap();
    main.append_message(&user("hi"), &ctx).unwrap();
    main.append_custom_entry("note", Some(&json("[1, 2]")), &ctx).unwrap();
    let text = tree(&session);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"2025-06-15T15:06:41.000Z\",\"cwd\":\"/w\"}"
    );
    let id = |line: &str| line.split("\"id\":\"").nth(1).unwrap()[..8].to_owned();
    let (one, two) = (id(lines[1]), id(lines[2]));
    assert!([&one, &two].iter().all(|id| id.bytes().all(|byte| b"0123456789abcdef".contains(&byte))));
    assert_eq!(
        lines[1],
        format!(
            "{{\"type\":\"message\",\"id\":\"{one}\",\"parentId\":null,\"timestamp\":\"2025-06-15T15:06:43.000Z\",\
             \"message\":{{\"role\":\"user\",\"content\":\"hi\"}}}}"
        )
    );
    assert_eq!(
        lines[2],
        format!(
            "{{\"type\":\"custom\",\"customType\":\"note\",\"data\":[1, 2],\"id\":\"{two}\",\"parentId\":\"{one}\",\
             \"timestamp\":\"2025-06-15T15:06:44.000Z\"}}"
        )
    );
    assert_eq!(text, tree(&session), "ids are the same at every export");
}

const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"old\",\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"cwd\":\"/w\"}\n";

fn line(id: &str, parent: &str, rest: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    let (kind, rest) = rest.split_once(' ').unwrap();
    format!(
        "{{\"type\":\"{kind}\",\"id\":\"{id}\",\"parentId\":{parent},\"timestamp\":\"2026-01-02T03:04:06.000Z\",{rest}}}\n"
    )
}

fn said(text: &str) -> String {
    format!("message \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}")
}

/// A file that has lines no entry prints, and a selected position behind its last message.
fn old_file() -> String {
    [
        HEADER.to_owned(),
        line("m1", "", "model_change \"provider\":\"p\",\"modelId\":\"m\""),
        line("t1", "m1", "thinking_level_change \"thinkingLevel\":\"low\""),
        line("a", "t1", &said("a")),
        line("b", "a", &format!("{},\"extra\":1", said("b"))),
        line("n1", "b", "session_info \"name\":\"old name\""),
        line("l1", "n1", "label \"targetId\":\"a\",\"label\":\"on a\""),
        line("l2", "l1", "label \"targetId\":\"b\",\"label\":\"on b\""),
        line("m2", "l2", "model_change \"provider\":\"p\",\"modelId\":\"m2\""),
    ]
    .concat()
}

#[test]
fn what_comes_after_an_import_stands_behind_the_files_lines() {
    for uri in URIS {
        let place = tempfile::tempdir().unwrap();
        let repository =
            open_repository(&uri.replace("{folder}", place.path().to_str().unwrap()), Default::default())
                .unwrap();
        let ctx = background();
        let files = Files::new();
        let session = files.import(old_file(), &repository);
        assert_eq!(comes_back(&session, &files), old_file());
        let main = session.branch("main", &ctx).unwrap().unwrap();
        let first = main.append_message(&user("new"), &ctx).unwrap();
        let text = comes_back(&session, &files);
        let new = text.strip_prefix(&old_file()).unwrap();
        // It goes on at the selected position: the model that was chosen there stays.
        assert!(new.contains("\"parentId\":\"m2\""), "{new}");
        assert_eq!(new.lines().count(), 1);

        session.set_name(Some("new name"), &ctx).unwrap();
        let a = entries(&session)[0].id.clone();
        let b = entries(&session)[1].id.clone();
        session.set_label(&a, None, &ctx).unwrap();
        session.set_label(&b, Some("again on b"), &ctx).unwrap();
        session.set_label(&first, Some("on the new one"), &ctx).unwrap();
        configure(&session, "m2", "high", "[]");
        let text = comes_back(&session, &files);
        let new = text.strip_prefix(&old_file()).unwrap();
        let kinds: Vec<&str> = new.lines().map(|line| line.split('"').nth(3).unwrap()).collect();
        assert_eq!(kinds, ["message", "thinking_level_change", "session_info", "label", "label", "label"]);

        // Back to an entry of the file: another model holds there.
        move_main(&session, Some(&a));
        comes_back(&session, &files);
        main.append_message(&user("from a"), &ctx).unwrap();
        comes_back(&session, &files);
        session.set_name(None, &ctx).unwrap();
        move_main(&session, None);
        comes_back(&session, &files);
        session.close(&ctx).unwrap();
    }
}

#[test]
fn a_fork_of_the_tree_comes_out_like_what_it_is_a_fork_of() {
    let ctx = background();
    for uri in URIS {
        let place = tempfile::tempdir().unwrap();
        let uri = uri.replace("{folder}", place.path().to_str().unwrap());
        let repository = open_repository(&uri, Default::default()).unwrap();
        let files = Files::new();
        let session = files.import(old_file(), &repository);
        let tree_of = ForkOptions { scope: ForkScope::Tree, ..ForkOptions::default() };
        let fork = repository.fork(&session, &tree_of, &ctx).unwrap().session;
        assert_eq!(tree(&fork), old_file(), "{uri}");
        assert_eq!(exported(&fork, ExportScope::Tree).1.losses, [], "{uri}");
        let main = fork.branch("main", &ctx).unwrap().unwrap();
        main.append_message(&user("new"), &ctx).unwrap();
        assert_eq!(comes_back(&fork, &files).strip_prefix(&old_file()).unwrap().lines().count(), 1, "{uri}");
        // A path has no lines of the old file, and says so in no way that is an error.
        let path = repository.fork(&session, &ForkOptions::default(), &ctx).unwrap().session;
        assert!(comes_back(&path, &files).starts_with(r#"{"type":"session","version":3,"#), "{uri}");
        for session in [session, fork, path] {
            session.close(&ctx).unwrap();
        }
    }
}

#[test]
fn lines_that_are_no_longer_those_of_the_old_file_are_not_given_as_such() {
    type Change = fn(&mut Vec<String>);
    let ctx = background();
    let list = Address::new("pisession.legacy", "").unwrap();
    let changes: [(&str, Change); 6] = [
        ("another text", |list| list[1] = list[1].replace("\\\"m\\\"", "\\\"n\\\"")),
        ("a line left out", |list| drop(list.remove(1))),
        ("a line further down", |list| list[1] = list[1].replace("\"line\":2", "\"line\":2000")),
        ("no base64", |list| list[1] = r#"{"line":2,"bytes":"?"}"#.to_owned()),
        ("no text", |list| list[1] = r#"{"line":2}"#.to_owned()),
        ("no header", |list| list[0] = r#"{"line":1,"text":"no header"}"#.to_owned()),
    ];
    for (what, change) in changes {
        let files = Files::new();
        let session = files.import(old_file(), &memory());
        let elements = session.read_list(&list, &Default::default(), &ctx).unwrap();
        let mut texts: Vec<String> = elements.iter().map(|element| element.value.to_string()).collect();
        let before = texts.clone();
        change(&mut texts);
        assert_ne!(texts, before, "{what}");
        let mut writes = vec![Write::DeleteList(list.clone())];
        writes.extend(texts.iter().map(|text| Write::AppendList(list.clone(), json(text))));
        write(&session, &writes);
        let (text, export) = exported(&session, ExportScope::Tree);
        // Anew, from the entries, under their old ids.
        assert!(text.starts_with(r#"{"type":"session","version":3,"id":"#), "{what}");
        assert!(!text.contains("extra") && text.contains(r#""id":"b","parentId":"a""#), "{what}: {text}");
        assert_eq!(losses(&export, LossKind::OldLine)[0].count, texts.len() as u64 - 2, "{what}");
        assert_eq!(content(&files.import(&text, &memory())), content(&session), "{what}");
    }
}

#[test]
fn a_session_whose_file_was_damaged_is_written_anew_once_it_goes_on() {
    let ctx = background();
    let damages: [(&str, String); 5] = [
        ("an entry without an id", line("x", "a", &said("c")).replace("\"id\":\"x\",", "")),
        ("an id twice", line("a", "b", &said("other a"))),
        ("a second header", format!("{HEADER}{}", line("x", "b", &said("ignored")))),
        ("a line that is no JSON", "{broken\n".to_owned()),
        ("a parent that is nowhere", line("x", "nowhere", &said("c"))),
    ];
    for (what, damage) in damages {
        let files = Files::new();
        let text = [old_file(), damage].concat();
        let session = files.import(&text, &memory());
        assert_eq!(tree(&session), text, "{what}");
        let main = session.branch("main", &ctx).unwrap().unwrap();
        main.append_message(&user("new"), &ctx).unwrap();
        session.set_name(Some("new name"), &ctx).unwrap();
        let (new, export) = exported(&session, ExportScope::Tree);
        let again = files.import(&new, &memory());
        assert_eq!(content(&again), content(&session), "{what}");
        let goes_on = new.starts_with(&text);
        assert_eq!(goes_on, losses(&export, LossKind::OldLine).is_empty(), "{what}");
        assert_eq!(goes_on, what.starts_with("a line") || what.starts_with("a parent"), "{what}");
        // Old ids stay where nothing stands against it.
        assert!(new.contains("\"id\":\"b\",\"parentId\":\""), "{what}");
    }
}

#[test]
fn ids_that_are_made_up_are_free_in_the_file() {
    let ctx = background();
    let files = Files::new();
    let session = files.import(old_file(), &memory());
    let main = session.branch("main", &ctx).unwrap().unwrap();
    main.append_message(&user("new"), &ctx).unwrap();
    let text = tree(&session);
    let made_up = text.lines().last().unwrap().split('"').nth(7).unwrap().to_owned();
    assert_eq!(made_up.len(), 8);
    // The same file with a reference that leads nowhere: to the id that would be made up.
    let other = old_file().replace("\"targetId\":\"b\"", &format!("\"targetId\":\"{made_up}\""));
    let session = files.import(&other, &memory());
    let entry = NewEntry::message(entries_tail(&text, &files), Some(&entries(&session)[1].id), &user("new"));
    insert(&session, entry);
    let text = tree(&session);
    let last = text.lines().last().unwrap();
    assert!(!last.contains(&format!("\"id\":\"{made_up}\"")), "{last}");
}

/// The id of the last entry of the session that the text gives.
fn entries_tail(text: &str, files: &Files) -> String {
    entries(&files.open(text)).last().unwrap().id.clone()
}

#[test]
fn a_carriage_return_between_tokens_comes_back() {
    let files = Files::new();
    let odd = line("a", "", &said("a")).replace("\"role\":", "\r \"role\"\t:");
    let text = [HEADER, &odd, &line("b", "a", &said("b"))].concat();
    let session = files.import(&text, &memory());
    assert_eq!(tree(&session), text);
}

#[test]
fn a_compaction_names_the_first_entry_that_it_keeps() {
    on_every_session(|session| {
        let ctx = background();
        let files = Files::new();
        let main = session.create_branch("main", None, &ctx).unwrap();
        let kept: Vec<String> =
            ["a", "b", "c"].iter().map(|text| main.append_message(&user(text), &ctx).unwrap()).collect();
        main.append_custom_entry("between", None, &ctx).unwrap();
        let compact = |id: &str, tail: &str| {
            let tip = main.tip_id(&ctx).unwrap();
            let body = format!(
                "{{\"summary\":\"s {id}\",\"retainedTail\":{tail},\"tokensBefore\":7,\"fromHook\":false}}"
            );
            let entry = payload(id, tip.as_deref(), EntryType::Compaction, &body);
            let tip = addresses::branch_tip("main").unwrap();
            write(session, &[Write::Entry(entry), tip.set(&Some(id.to_owned())).unwrap()]);
        };
        let (b, c) = (user("b"), user("c"));
        compact("two kept", &format!("[ {b} , {c} ]"));
        let named = |text: &str, message: &str| {
            let line = text.lines().find(|line| line.contains(message)).unwrap().to_owned();
            line.split("\"id\":\"").nth(1).unwrap()[..8].to_owned()
        };
        let text = tree(session);
        let b_name = named(&text, b.as_str());
        assert!(text.contains(&format!("\"firstKeptEntryId\":\"{b_name}\"")), "{text}");
        assert_eq!(kept.len(), 3);

        // With spaces between, the tail reads back without; so compared with one that has none.
        compact("none", "[]");
        let text = tree(session);
        let own = named(&text, "s none");
        assert!(text.contains(&format!("\"firstKeptEntryId\":\"{own}\"")), "{text}");

        let summary =
            "{\"role\":\"compactionSummary\",\"summary\":\"s none\",\"tokensBefore\":7,\"timestamp\":1}";
        compact("over a compaction", &format!("[{summary}]"));
        let (text, export) = exported(session, ExportScope::Tree);
        assert!(text.contains(&format!("\"firstKeptEntryId\":\"{own}\"")), "{text}");
        assert!(losses(&export, LossKind::RetainedTail).is_empty());

        compact("elsewhere", "[{\"role\":\"user\",\"content\":\"nowhere\"}]");
        let (text, export) = exported(session, ExportScope::Tree);
        let lost = losses(&export, LossKind::RetainedTail);
        assert_eq!((lost.len(), lost[0].entry_id.as_deref()), (1, Some("elsewhere")));
        assert!(text.contains(&format!("\"firstKeptEntryId\":\"{}\"", named(&text, "s elsewhere"))));
        let again = files.open(&text);
        assert!(again.legacy().unwrap().warnings.is_empty());
    });
}

#[test]
fn kept_messages_read_back_as_they_were() {
    let ctx = background();
    let files = Files::new();
    let session = memory().create(&Default::default(), &ctx).unwrap();
    let main = session.create_branch("main", None, &ctx).unwrap();
    let (b, c) = (user("b"), assistant("c"));
    for message in [&user("a"), &b, &c] {
        main.append_message(message, &ctx).unwrap();
    }
    let body =
        format!("{{\"summary\":\"s\",\"retainedTail\":[{b},{c}],\"tokensBefore\":7,\"fromHook\":true}}");
    insert(&session, payload("c", main.tip_id(&ctx).unwrap().as_deref(), EntryType::Compaction, &body));
    move_main(&session, Some("c"));
    comes_back(&session, &files);
}

#[test]
fn a_branch_is_its_path_under_its_old_ids() {
    let ctx = background();
    let files = Files::new();
    let session = files.import(old_file(), &memory());
    let all = entries(&session);
    session.create_branch("side", Some(&all[0].id), &ctx).unwrap();
    let side = session.branch("side", &ctx).unwrap().unwrap();
    side.append_message(&user("aside"), &ctx).unwrap();
    session.set_label(&side.tip_id(&ctx).unwrap().unwrap(), Some("here"), &ctx).unwrap();

    let (text, export) = exported(&session, ExportScope::Branch("side".to_owned()));
    assert_eq!(export.entries, 2);
    let again = files.open(&text);
    assert!(again.legacy().unwrap().warnings.is_empty());
    let branch = again.branch("main", &ctx).unwrap().unwrap();
    let messages: Vec<String> = branch
        .find_entries(&BranchScan::default(), &ctx)
        .unwrap()
        .iter()
        .map(|entry| entry.message().unwrap().to_owned())
        .collect();
    assert_eq!(messages, [user("aside").to_string(), user("a").to_string()]);
    assert!(text.contains("\"id\":\"a\",\"parentId\":null"), "{text}");
    assert!(text.contains("\"label\":\"on a\"") && !text.contains("on b"), "{text}");
    // A branch that no lane has no configuration, and its name is told.
    assert!(!text.contains("model_change"), "{text}");
    let names: Vec<&str> =
        losses(&export, LossKind::Branch).iter().map(|loss| loss.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["main", "side"]);

    let (text, _) = exported(&session, ExportScope::Branch("main".to_owned()));
    assert!(text.contains("\"modelId\":\"m2\"") && !text.contains("aside"), "{text}");
    let error = session
        .export(
            &mut Vec::new(),
            &ExportOptions { scope: ExportScope::Branch("none".to_owned()), overwrite: false },
            &ctx,
        )
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownBranch);
}

#[test]
fn what_version_3_cannot_hold_is_reported() {
    on_every_session(|session| {
        let ctx = background();
        let main = session.create_branch("main", None, &ctx).unwrap();
        let tip = main.append_message(&user("a"), &ctx).unwrap();
        let values =
            |kind: &Export| kind.losses.iter().map(|loss| (loss.kind, loss.count)).collect::<Vec<_>>();
        let lost = values(&exported(session, ExportScope::Tree).1);
        let none: Vec<(LossKind, u64)> =
            if session.metadata().cwd.is_none() { vec![(LossKind::WorkingFolder, 1)] } else { vec![] };
        assert_eq!(lost, none);

        session.create_branch("other", Some(&tip), &ctx).unwrap();
        let at = |namespace: &str, key: &str| Address::new(namespace, key).unwrap();
        let usage = "{\"id\":\"u\",\"usage\":{\"input\":1,\"output\":1,\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":2,\
                     \"cost\":{\"input\":0,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0,\"total\":0}}}";
        write(
            session,
            &[
                Write::SetValue(at("app", "a"), json("1")),
                Write::SetValue(at("app", "b"), json("1")),
                Write::SetValue(at("app2", ""), json("1")),
                Write::AppendList(at("app", "list"), json("1")),
                Write::SetValue(addresses::lane_config("other").unwrap(), json("{}")),
                Write::SetValue(
                    addresses::lane_state("main").unwrap(),
                    json("{\"currentOperationId\":\"o\",\"lastOperationId\":null,\"inbox\":[]}"),
                ),
                Write::SetValue(at("pi.op.state", "o"), json("{}")),
                Write::SetValue(at("pi.result", "r"), json("{}")),
                Write::Usage(pisession::NewUsage::from_json(usage).unwrap()),
            ],
        );
        session.set_label("nobody", Some("x"), &ctx).unwrap();
        let message = NewEntry::message("last", Some(&tip), &user("end")).terminate();
        insert(session, message);
        move_main(session, Some("last"));
        let (_, export) = exported(session, ExportScope::Tree);
        let mut found: Vec<String> = export
            .losses
            .iter()
            .filter(|loss| loss.kind != LossKind::WorkingFolder)
            .map(|loss| {
                let name = loss.name.as_deref().unwrap_or_default();
                let at = loss.address.as_ref().map(ToString::to_string).unwrap_or_default();
                let entry = loss.entry_id.as_deref().unwrap_or_default();
                assert!(!loss.message().is_empty());
                format!("{} {} {name} {at} {entry}", loss.kind, loss.count)
            })
            .collect();
        found.sort();
        let expected = [
            "branch 1 other  ",
            "entry_field 1 terminate  last",
            "label 1   nobody",
            "lane 1 pi.lane.config pi.lane.config/other ",
            "list 1 app app/list ",
            "operation 1 pi.lane.state pi.lane.state/main ",
            "operation 1 pi.op.state pi.op.state/o ",
            "result 1 pi.result pi.result/r ",
            "usage_row 1   ",
            "value 1 app2 app2/ ",
            "value 2 app app/a ",
        ];
        assert_eq!(found, expected);
    });
}

#[test]
fn an_import_and_an_export_lose_nothing_that_is_told() {
    let files = Files::new();
    let session = files.import(old_file(), &memory());
    assert_eq!(exported(&session, ExportScope::Tree).1.losses, []);
}

#[test]
fn a_file_is_only_replaced_on_demand_and_never_half() {
    let ctx = background();
    let files = Files::new();
    let session = files.import(old_file(), &memory());
    let path = files.folder.path().join("out.jsonl");
    let export = session.export_to(&path, &ExportOptions::default(), &ctx).unwrap();
    assert_eq!(export.path.as_deref(), Some(path.as_path()));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), old_file());
    let error = session.export_to(&path, &ExportOptions::default(), &ctx).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::SessionExists, Some(path.as_path())));
    std::fs::write(&path, "mine").unwrap();
    let cancelled = Context::new();
    cancelled.cancel();
    let over = ExportOptions { overwrite: true, ..ExportOptions::default() };
    assert_eq!(session.export_to(&path, &over, &cancelled).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    session.export_to(&path, &over, &ctx).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), old_file());
    let left: Vec<_> = std::fs::read_dir(files.folder.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    let own = files.file(old_file());
    let opened = open_file(&own, &OpenOptions::default(), &ctx).unwrap();
    assert_eq!(opened.export_to(&own, &over, &ctx).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(std::fs::read_to_string(&own).unwrap(), old_file());
    let nowhere = files.folder.path().join("no/such/folder.jsonl");
    let error = session.export_to(&nowhere, &over, &ctx).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Io, Some(nowhere.as_path())));
}

#[test]
fn a_file_that_changed_or_is_of_a_newer_version_is_not_exported() {
    let ctx = background();
    let files = Files::new();
    let path = files.file(old_file());
    let session = open_file(&path, &OpenOptions::default(), &ctx).unwrap();
    std::fs::write(&path, HEADER).unwrap();
    let error = session.export(&mut Vec::new(), &ExportOptions::default(), &ctx).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileChanged);
    let newer = files.open(old_file().replace("\"version\":3", "\"version\":4"));
    let error = newer.export(&mut Vec::new(), &ExportOptions::default(), &ctx).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
}

#[test]
fn entries_of_types_that_only_old_files_have_are_read_so_again() {
    let ctx = background();
    let files = Files::new();
    let session = memory().create(&Default::default(), &ctx).unwrap();
    let main = session.create_branch("main", None, &ctx).unwrap();
    for (name, data) in [
        ("pi.legacy.note", Some("{\"text\":1}")),
        ("pi.legacy.note", Some("[1]")),
        ("pi.legacy.note", None),
        ("pi.legacy.note", Some("{\"id\":\"x\"}")),
        ("pi.legacy.session", Some("{}")),
        ("pi.legacy.label", Some("{\"targetId\":\"x\",\"label\":\"y\"}")),
        ("pi.legacy.message", Some("{\"message\":{\"role\":\"user\"}}")),
        ("pi.legacy.message", Some("{\"message\":1}")),
        ("pi.legacy.context_edit", Some("{}")),
        ("pi.context_edit", Some("[]")),
        ("pi.legacy.", Some("{}")),
        ("", Some("{}")),
    ] {
        main.append_custom_entry(name, data.map(json).as_ref(), &ctx).unwrap();
    }
    let message = "{\"role\":\"custom\",\"customType\":1,\"content\":\"x\",\"display\":true,\"timestamp\":0}";
    main.append_message(&json(message), &ctx).unwrap();
    comes_back(&session, &files);
}

/// One line of a made-up file, by numbers that choose.
#[derive(Debug, Clone)]
struct Made {
    kind: u8,
    parent: usize,
    other: usize,
    style: u8,
    text: usize,
}

fn made() -> impl Strategy<Value = Made> {
    (0..14_u8, 0..1000_usize, 0..1000_usize, 0..16_u8, 0..8_usize)
        .prop_map(|(kind, parent, other, style, text)| Made { kind, parent, other, style, text })
}

const TEXTS: [&str; 8] = [
    "\"\"",
    "\"plain\"",
    "\"\\u0041\\/\\ud83d\"",
    "\"\u{2028}\u{85}\u{feff}\\u0000\"",
    "0.12345678901234567",
    "-1E+2",
    "[ 1e400 , {\"k\":\"v\",\"k\":null} ]",
    "{ \"b\" : 9007199254740993, \"a\":[] }",
];

/// A file of version 3 without damage: every type of entry, key orders and spacing of every kind, fields and
/// types that nobody knows, positions that move.
fn made_file(made: &[Made]) -> String {
    let mut text = "{\"cwd\": \"/w\",\"type\":\"session\",\"version\":3,\"id\":\"made\",\"timestamp\":\"2026-01-02T03:04:05.000Z\"}\n".to_owned();
    // Id and parent of every node.
    let mut nodes: Vec<(String, Option<usize>)> = Vec::new();
    for one in made {
        let pick = |number: usize| (!nodes.is_empty()).then(|| number % nodes.len());
        // Mostly a chain.
        let parent = match one.parent % 8 {
            0 => None,
            1 => pick(one.parent),
            _ => nodes.len().checked_sub(1),
        };
        let name =
            |node: Option<usize>| node.map_or("null".to_owned(), |node| format!("\"{}\"", nodes[node].0));
        let other = name(pick(one.other));
        let any = TEXTS[one.text];
        let string = TEXTS[one.text % 4];
        let ancestor = {
            let mut at = parent;
            for _ in 0..one.other % 4 {
                at = at.and_then(|node| nodes[node].1.or(Some(node)));
            }
            at
        };
        let (kind, mut fields) = match one.kind {
            0 | 1 => ("message", vec![("message", format!("{{\"role\":\"user\",\"content\":{any}}}"))]),
            2 => (
                "message",
                vec![(
                    "message",
                    format!("{{\"usage\":{{\"input\":{any}}},\"role\":\"assistant\",\"content\":{string}}}"),
                )],
            ),
            3 => (
                "custom_message",
                vec![
                    ("customType", string.to_owned()),
                    ("content", any.to_owned()),
                    ("display", "true".to_owned()),
                ],
            ),
            4 => (
                "compaction",
                vec![
                    ("summary", string.to_owned()),
                    (
                        "firstKeptEntryId",
                        ancestor.map_or_else(|| format!("\"n{}\"", nodes.len()), |node| name(Some(node))),
                    ),
                    ("tokensBefore", "12".to_owned()),
                ],
            ),
            5 => (
                "branch_summary",
                vec![
                    ("fromId", pick(one.other).map_or("\"root\"".to_owned(), |node| name(Some(node)))),
                    ("summary", string.to_owned()),
                    ("details", any.to_owned()),
                    ("fromHook", "false".to_owned()),
                ],
            ),
            6 => ("custom", vec![("customType", "\"note\"".to_owned()), ("data", any.to_owned())]),
            7 if !nodes.is_empty() => {
                ("label", [vec![("targetId", other)], vec![("label", string.to_owned())]].concat())
            }
            8 => ("session_info", vec![("name", string.to_owned())]),
            9 => ("model_change", vec![("provider", "\"p\"".to_owned()), ("modelId", string.to_owned())]),
            10 => ("thinking_level_change", vec![("thinkingLevel", string.to_owned())]),
            11 if !nodes.is_empty() => ("leaf", vec![("targetId", other)]),
            12 if !nodes.is_empty() => {
                ("context_edit", vec![("targetId", other), ("replacement", any.to_owned())])
            }
            13 => ("active_tools_change", vec![("activeToolNames", "[\"read\"]".to_owned())]),
            _ => ("somebody_elses", vec![("x", any.to_owned())]),
        };
        let id = format!("n{}", nodes.len());
        let mut all = vec![
            ("type", format!("\"{kind}\"")),
            ("id", format!("\"{id}\"")),
            ("parentId", name(parent)),
            ("timestamp", format!("\"2026-01-02T03:05:{:02}.{:03}Z\"", nodes.len() % 60, one.text)),
        ];
        if one.style & 4 > 0 {
            fields.push(("unknown", any.to_owned()));
        }
        // As it is written for the type, or some other way.
        let own_first = matches!(kind, "custom" | "custom_message") != (one.style & 3 == 1);
        let place = if own_first { 1 } else { 4 };
        all.splice(place..place, fields);
        if one.style & 3 == 2 {
            all.reverse();
        }
        let (colon, comma) = if one.style & 3 == 3 { (" : ", "\t, ") } else { (":", ",") };
        let all: Vec<String> = all.iter().map(|(key, value)| format!("\"{key}\"{colon}{value}")).collect();
        text.push_str(&format!("{{{}}}\n", all.join(comma)));
        if one.style == 15 {
            text.push('\n');
        }
        nodes.push((id, parent));
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_undamaged_file_comes_back_and_goes_on(made in proptest::collection::vec(made(), 0..24), changes in proptest::collection::vec((0..6_u8, 0..1000_usize), 0..6)) {
        let ctx = background();
        let text = made_file(&made);
        let files = Files::new();
        let opened = files.open(&text);
        prop_assert_eq!(tree(&opened), &text[..]);
        let damage: Vec<String> = opened.legacy().unwrap().warnings.iter().map(ToString::to_string).collect();
        prop_assert!(damage.is_empty(), "{:?}\n{}", damage, text);
        let session = files.import(&text, &memory());
        prop_assert_eq!(tree(&session), &text[..]);
        prop_assert_eq!(content(&session), content(&opened));
        let main = session.branch("main", &ctx).unwrap().unwrap();
        for (what, number) in changes {
            let all = entries(&session);
            let pick = (!all.is_empty()).then(|| all[number % all.len()].id.clone());
            match (what, pick) {
                (0, _) => drop(main.append_message(&user(&number.to_string()), &ctx).unwrap()),
                (1, pick) => move_main(&session, pick.as_deref()),
                (2, Some(id)) => session.set_label(&id, Some("new"), &ctx).unwrap(),
                (3, Some(id)) => session.set_label(&id, None, &ctx).unwrap(),
                (4, _) => session.set_name(number.is_multiple_of(2).then_some("new"), &ctx).unwrap(),
                (5, _) => configure(&session, "new", "high", if number.is_multiple_of(2) { "[]" } else { "[\"x\"]" }),
                _ => {}
            }
            let out = comes_back(&session, &files);
            prop_assert!(out.starts_with(&text), "{}\n---\n{}", text, out);
        }
    }
}
