//! Repairing: a sound new session of all that can be read of a damaged one, which stays as it is.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

#[path = "support/reference.rs"]
#[allow(dead_code)] // each test program uses its part
mod reference;
mod support;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pisession::{
    Address, CheckDepth, CheckOptions, CreateOptions, Entry, EntryQuery, ErrorKind, FindingKind, NewEntry,
    NewNode, NewUsage, Order, Repair, RepairOptions, Repository, Session, SessionReader, Usage, Write,
    open_repository, repair_file, repair_session,
};
use proptest::prelude::*;
use support::{Place, URIS, background, json, shared, user};

fn repository(uri: &str) -> Repository {
    open_repository(uri, Default::default()).unwrap()
}

fn read_only() -> pisession::OpenOptions {
    pisession::OpenOptions { mode: pisession::OpenMode::ReadOnly, ..Default::default() }
}

fn look(path: &Path) -> Repair {
    repair_file(path, &RepairOptions::default(), &mut |_| (), &background()).unwrap()
}

/// Repairs into a repository in memory; the new session, which a full check finds sound.
fn repaired(path: &Path) -> (Repair, Session) {
    let before = std::fs::read(path).unwrap();
    let into = repository("memory:");
    let options = RepairOptions { into: Some(into.clone()), ..Default::default() };
    let repair = repair_file(path, &options, &mut |_| (), &background())
        .unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
    let looked = look(path);
    let told = |repair: &Repair| -> Vec<_> {
        repair.findings.iter().map(|finding| (finding.kind, finding.message.clone())).collect()
    };
    assert_eq!(told(&looked), told(&repair), "a look says something else");
    assert_eq!((looked.kept, looked.session), (repair.kept, None));
    assert_eq!(std::fs::read(path).unwrap(), before, "the source was changed");
    let session = into.open(repair.session.as_ref().unwrap(), &background()).unwrap();
    assert_sound(&session, &path.display().to_string());
    assert_eq!(entries(&session).len() as u64, repair.kept.entries);
    (repair, session)
}

#[track_caller]
fn assert_sound(session: &Session, what: &str) {
    let options = CheckOptions { depth: CheckDepth::Full, ..Default::default() };
    let findings = session.check_with(&options, &mut |_| (), &background()).unwrap();
    assert!(findings.is_empty(), "{what}: {findings:?}");
}

fn entries(session: &Session) -> Vec<Entry> {
    let all = EntryQuery { order: Order::Ascending, ..Default::default() };
    session.find_entries(&all, &background()).unwrap()
}

fn kinds(repair: &Repair) -> Vec<FindingKind> {
    repair.findings.iter().map(|finding| finding.kind).collect()
}

/// A file of JSON lines with a commit of every kind, its ids in the order of its entries.
fn sample() -> (tempfile::TempDir, PathBuf, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let repository = repository(&format!("jsonl:{}", folder.path().display()));
    let options =
        CreateOptions { id: Some("s".to_owned()), cwd: Some("/home/ada".to_owned()), ..Default::default() };
    let session = repository.create(&options, &background()).unwrap();
    let ids = fill(&session, 12);
    session.close(&background()).unwrap();
    (folder, session.metadata().path.clone().unwrap(), ids)
}

/// Entries on two branches, a label, a name, values, lists and ledger rows.
fn fill(session: &Session, count: usize) -> Vec<String> {
    let ctx = background();
    let main = session.create_branch("main", None, &ctx).unwrap();
    let mut ids = Vec::new();
    let list = Address::new("app", "list").unwrap();
    for number in 0..count {
        let text = format!("{number} \"quoted\" \u{2028} ü");
        ids.extend(main.append_many(&[NewNode::Message(user(&text))], &ctx).unwrap());
        session.append_list(&list, &json(&number.to_string()), &ctx).unwrap();
        let usage = Usage { input: 1.5, ..Default::default() };
        let row = Write::Usage(NewUsage::new(format!("usage-{number}"), &usage, None));
        session.mutate(|mutator, ctx| mutator.commit(&[row], ctx), &ctx).unwrap();
        session.set_value(&Address::new("app", "value").unwrap(), &json(&number.to_string()), &ctx).unwrap();
    }
    session.create_branch("side", ids.first().map(String::as_str), &ctx).unwrap();
    session.set_label(ids.last().unwrap(), Some("label"), &ctx).unwrap();
    session.set_name(Some("name"), &ctx).unwrap();
    ids
}

fn dump(session: &Session) -> String {
    let mut out = Vec::new();
    session.dump(&mut out, &background()).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_sound_session_is_repaired_to_the_same_one_on_every_backend() {
    for from in ["jsonl:{folder}/lines", "sqlite:{folder}/sessions", "sqlite:{folder}/all.sqlite"] {
        for to in URIS {
            let (source, into) = (Place::new(from, Default::default()), Place::new(to, Default::default()));
            let options = CreateOptions {
                id: Some("s".to_owned()),
                cwd: Some("/home/ada".to_owned()),
                parent_session_id: Some("p".to_owned()),
                ..Default::default()
            };
            let session = source.repository.create(&options, &background()).unwrap();
            fill(&session, 5);
            let before = dump(&session);
            session.close(&background()).unwrap();
            let options = RepairOptions { into: Some(into.repository.clone()), ..Default::default() };
            let repair =
                repair_session(&source.repository, "s", &options, &mut |_| (), &background()).unwrap();
            assert!(repair.is_sound(), "{from} {to}: {:?}", repair.findings);
            let made = into.repository.open("s", &background()).unwrap();
            assert_eq!(dump(&made), before, "{from} {to}");
            assert_sound(&made, to);
        }
    }
}

/// Changes the lines of the sample; what repairing it finds, and what it keeps.
fn after(change: impl Fn(&mut Vec<String>)) -> (Repair, Session, Vec<String>) {
    let (_folder, path, ids) = sample();
    let mut lines: Vec<String> =
        std::fs::read_to_string(&path).unwrap().split_inclusive('\n').map(str::to_owned).collect();
    change(&mut lines);
    std::fs::write(&path, lines.concat()).unwrap();
    let (repair, session) = repaired(&path);
    (repair, session, ids)
}

/// The line that holds `text`.
fn line_of(lines: &[String], text: &str) -> usize {
    lines.iter().position(|line| line.contains(text)).unwrap()
}

fn parents(session: &Session) -> BTreeMap<String, Option<String>> {
    entries(session).into_iter().map(|entry| (entry.id, entry.parent_id)).collect()
}

fn tip(session: &Session, name: &str) -> Option<String> {
    session.branch(name, &background()).unwrap().unwrap().tip_id(&background()).unwrap()
}

#[test]
fn what_hangs_on_a_lost_entry_becomes_a_root_and_all_else_stays() {
    let (repair, session, ids) = after(|lines| {
        let at = line_of(lines, "\"4 \\\"quoted");
        lines[at] = lines[at].replace("\"role\"", "\"role");
    });
    // The tip stands in the same line as the entry, and is kept; the next append moves it on.
    assert_eq!(kinds(&repair), [FindingKind::DamagedLine, FindingKind::ParentOfNothing]);
    let damaged = &repair.findings[0];
    assert!(damaged.line.is_some() && damaged.offset.is_some() && damaged.length.is_some());
    assert!(damaged.message.contains("1 of what it holds are kept"), "{}", damaged.message);
    let lost = &repair.findings[1];
    assert_eq!(lost.id.as_ref(), Some(&ids[5]));
    assert!(lost.message.contains(&ids[4]) && lost.message.contains("it is a root now"));
    let parents = parents(&session);
    assert_eq!(parents.len(), 11);
    assert_eq!((&parents[&ids[5]], &parents[&ids[6]]), (&None, &Some(ids[5].clone())));
    assert_eq!(tip(&session, "main"), Some(ids[11].clone()));
}

#[test]
fn a_tip_that_is_lost_is_where_the_branch_was_before() {
    let (repair, session, ids) = after(|lines| {
        let at = line_of(lines, "\"11 \\\"quoted");
        lines[at] = lines[at].replace("\"role\"", "\"role");
    });
    let kinds = kinds(&repair);
    assert!(kinds.contains(&FindingKind::TipOfNothing) && kinds.contains(&FindingKind::LabelOfNothing));
    assert_eq!(tip(&session, "main"), Some(ids[10].clone()));
    let told = repair.findings.iter().find(|finding| finding.kind == FindingKind::TipOfNothing).unwrap();
    assert!(told.message.contains(&ids[11]) && told.message.contains(&ids[10]), "{}", told.message);
    assert_eq!(session.get_label(&ids[11], &background()).unwrap(), None);
}

#[test]
fn the_header_is_made_of_what_is_left_of_it_and_of_the_files_name() {
    type Change = fn(&mut Vec<String>);
    let changes: [(&str, Change, &str); 6] = [
        ("no JSON", |lines| lines[0] = lines[0].replace("{\"v\":4", "\"v\":4"), "/home/ada"),
        ("no cwd", |lines| lines[0] = lines[0].replace("cwd", "cxd"), ""),
        ("a number for an id", |lines| lines[0] = lines[0].replace("\"id\":\"s\"", "\"id\":7"), "/home/ada"),
        ("no header", |lines| drop(lines.remove(0)), ""),
        ("no line end", |lines| lines[0] = lines[0].replace('\n', ""), "/home/ada"),
        ("elsewhere", |lines| lines.swap(0, 5), "/home/ada"),
    ];
    for (name, change, cwd) in changes {
        let (repair, session, ids) = after(change);
        assert!(kinds(&repair).contains(&FindingKind::DamagedHeader), "{name}");
        assert_eq!(session.id(), "s", "{name}");
        assert_eq!(session.metadata().cwd.as_deref().unwrap_or_default(), cwd, "{name}");
        assert!(session.metadata().created_at > 1_700_000_000_000, "{name}");
        let kept: Vec<String> = entries(&session).into_iter().map(|entry| entry.id).collect();
        assert_eq!(kept, ids, "{name}");
    }
}

#[test]
fn what_stands_twice_is_kept_once_and_what_was_moved_is_put_back() {
    let (_folder, path, _) = sample();
    let (_, sound) = repaired(&path);
    for (name, kind) in [("copied", FindingKind::Copy), ("moved", FindingKind::WrongSeq)] {
        let (repair, session, _) = after(|lines| {
            let line = lines[7].clone();
            match name {
                "copied" => lines.insert(20, line),
                _ => {
                    lines.remove(7);
                    lines.insert(20, line);
                }
            }
        });
        assert!(!repair.findings.is_empty() && kinds(&repair).iter().all(|found| *found == kind), "{name}");
        let without_metadata = |session: &Session| {
            let dump = dump(session);
            dump[dump.find("\"name\"").unwrap()..].replace(sound.id(), "s").len()
        };
        assert_eq!(without_metadata(&session), without_metadata(&sound), "{name}");
    }
}

#[test]
fn without_any_branch_there_is_one_at_the_newest_entry() {
    let (repair, session, ids) = after(|lines| {
        for line in lines {
            *line = line.replace("pi.branch.tip", "pi branch tip");
        }
    });
    assert!(kinds(&repair).contains(&FindingKind::NoBranch));
    assert_eq!(tip(&session, "main"), Some(ids[11].clone()));
}

#[test]
fn a_lane_that_misses_a_part_holds_data_only() {
    let (repair, session, _) = after(|lines| {
        let seq = 900;
        for (at, (namespace, key)) in
            [("pi.lane.config", "main"), ("pi.lane.state", "main"), ("pi.lane.config", "side")]
                .iter()
                .enumerate()
        {
            lines.push(format!(
                "{{\"kind\":\"value\",\"op\":\"set\",\"seq\":{},\"namespace\":\"{namespace}\",\"key\":\"{key}\",\"value\":{{}}}}\n",
                seq + at
            ));
        }
    });
    assert_eq!(kinds(&repair), [FindingKind::IncompleteLane]);
    let has = |key: &str| {
        session.get_value(&Address::new("pi.lane.config", key).unwrap(), &background()).unwrap().is_some()
    };
    assert!(has("main") && !has("side"));
}

#[test]
fn the_new_session_may_have_another_id_and_is_refused_where_its_own_is_taken() {
    let (folder, path, _) = sample();
    let into = repository(&format!("jsonl:{}", folder.path().display()));
    let mut options = RepairOptions { into: Some(into.clone()), ..Default::default() };
    let error = repair_file(&path, &options, &mut |_| (), &background()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExists);
    assert!(error.hint().unwrap().contains("another id"));
    options.id = Some("t".to_owned());
    let repair = repair_file(&path, &options, &mut |_| (), &background()).unwrap();
    assert_eq!(repair.session.unwrap().id, "t");
    assert_eq!(repair.source.id, "s");
    assert_sound(&into.open("t", &background()).unwrap(), "t");
}

#[test]
fn what_holds_nothing_of_a_session_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    let options = RepairOptions::default();
    for (text, kind) in [
        ("", ErrorKind::NotASession),
        ("\n\n", ErrorKind::NotASession),
        ("hello\n", ErrorKind::NotASession),
        ("{\"v\":4,\"kind\":\"header\",\"id\":\"s", ErrorKind::NotASession),
        ("{\"v\":5,\"kind\":\"header\"}\n", ErrorKind::UnsupportedVersion),
        ("SQLite format 3\0 and no more", ErrorKind::NotASession),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = repair_file(&path, &options, &mut |_| (), &background()).unwrap_err();
        assert_eq!(error.kind(), kind, "{text:?}: {error:?}");
        assert!(error.path().is_some(), "{text:?}: {error:?}");
    }
    let error = repair_file(folder.path(), &options, &mut |_| (), &background()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotASession);
}

#[test]
fn golden_damaged_files_of_format_4_are_repaired() {
    let Some(folder) = shared("golden/v4") else { return };
    let mut names: Vec<String> = std::fs::read_dir(folder.clone())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".jsonl") && !name.contains(".after-"))
        .collect();
    names.sort();
    let mut refused = Vec::new();
    for name in &names {
        let path = folder.join(name);
        match repair_file(&path, &RepairOptions::default(), &mut |_| (), &background()) {
            Ok(_) => {
                let (repair, session) = repaired(&path);
                let opened = pisession::open_file(&path, &read_only(), &background());
                let full = CheckOptions { depth: CheckDepth::Full, ..Default::default() };
                let sound = opened.as_ref().is_ok_and(|opened| {
                    opened.check_with(&full, &mut |_| (), &background()).unwrap().is_empty()
                });
                assert_eq!(repair.is_sound(), sound, "{name}: {:?}", repair.findings);
                if sound {
                    assert_eq!(dump(&session), dump(&opened.unwrap()), "{name}");
                }
            }
            Err(error) => refused.push((name.clone(), error.kind())),
        }
    }
    let refused: Vec<(&str, ErrorKind)> = refused.iter().map(|(name, kind)| (&name[..2], *kind)).collect();
    use ErrorKind::{NotASession, UnsupportedVersion};
    let nothing = ["46", "47", "48", "a5"].map(|name| (name, NotASession));
    let newer = ["a0", "a1"].map(|name| (name, UnsupportedVersion));
    let mut expected = [nothing.as_slice(), newer.as_slice()].concat();
    expected.sort_by_key(|(name, _)| *name);
    assert_eq!(refused, expected);
}

/// A byte of a damaged file: where it stood before, and whether it is what it was.
#[derive(Clone, Copy)]
struct Byte {
    was: usize,
    value: u8,
    is_whole: bool,
}

#[derive(Debug, Clone)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index, usize),
    CutEnd(prop::sample::Index),
    Copy(prop::sample::Index, prop::sample::Index),
    Move(prop::sample::Index, prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = || any::<prop::sample::Index>();
    prop_oneof![
        4 => (at(), 1..=255u8).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        2 => (at(), 1..400usize).prop_map(|(at, length)| Damage::Cut(at, length)),
        1 => at().prop_map(Damage::CutEnd),
        2 => (at(), at()).prop_map(|(from, to)| Damage::Copy(from, to)),
        2 => (at(), at()).prop_map(|(from, to)| Damage::Move(from, to)),
    ]
}

/// Where the lines of a file stand, their ends included.
fn lines_of(bytes: &[Byte]) -> Vec<Range<usize>> {
    let mut start = 0;
    let ends = bytes.split_inclusive(|byte| byte.value == b'\n');
    ends.map(|line| {
        start += line.len();
        start - line.len()..start
    })
    .collect()
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<Byte>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Flip(at, bits) => {
                let at = at.index(bytes.len());
                let byte = &mut bytes[at];
                byte.value ^= bits;
                byte.is_whole = false;
            }
            Self::Cut(at, length) => {
                let from = at.index(bytes.len());
                let to = (from + length).min(bytes.len());
                bytes.drain(from..to);
            }
            Self::CutEnd(at) => bytes.truncate(at.index(bytes.len())),
            Self::Copy(from, to) | Self::Move(from, to) => {
                let lines = lines_of(bytes);
                let (from, to) = (lines[from.index(lines.len())].clone(), lines[to.index(lines.len())].start);
                let line = bytes[from.clone()].to_vec();
                if matches!(self, Self::Move(..)) {
                    if from.contains(&to) {
                        return;
                    }
                    bytes.drain(from.clone());
                }
                let to = if matches!(self, Self::Move(..)) && to > from.start { to - from.len() } else { to };
                bytes.splice(to..to, line);
            }
        }
    }
}

/// How often the bytes of `line` stand in the damaged file whole, and how often a part of them does.
fn occurrences(bytes: &[Byte], line: &Range<usize>) -> (usize, usize) {
    let starts = |byte: &&(usize, &Byte)| byte.1.was == line.start;
    let parts = bytes.iter().enumerate().filter(|(_, byte)| byte.was == line.start).count();
    let whole = bytes
        .iter()
        .enumerate()
        .filter(|byte| starts(&byte))
        .filter(|(at, _)| {
            line.clone().enumerate().all(|(number, was)| {
                bytes.get(at + number).is_some_and(|byte| byte.was == was && byte.is_whole)
            })
        })
        .count();
    (whole, parts)
}

/// A file of some commits with one or two entries each, among values, lists and ledger rows. Ids differ in
/// more than one byte.
fn base() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let repository = repository(&format!("jsonl:{}", folder.path().display()));
    let ctx = background();
    let options =
        CreateOptions { id: Some("s".to_owned()), cwd: Some("/home/ada".to_owned()), ..Default::default() };
    let session = repository.create(&options, &ctx).unwrap();
    session.create_branch("main", None, &ctx).unwrap();
    let mut parent: Option<String> = None;
    for number in 0..14_u64 {
        let id = |part: u64| format!("{:016x}", (number * 2 + part + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (one, two) = (id(0), id(1));
        let message = |text: &str| user(&format!("{text} {number} {{\"kind\":\"entry\"}} \u{e9}"));
        let mut commit = vec![Write::Entry(NewEntry::message(&one, parent.as_deref(), &message("one")))];
        if number % 3 == 0 {
            commit.push(Write::Entry(NewEntry::custom(
                &two,
                Some(&one),
                "nested",
                Some(&json("[{\"kind\":1}]")),
            )));
        }
        let tip = if number % 3 == 0 { &two } else { &one };
        let main = Address::new("pi.branch.tip", "main").unwrap();
        if number % 2 == 0 {
            commit.push(Write::SetValue(main, pisession::Json::string(tip)));
        }
        session.mutate(|mutator, ctx| mutator.commit(&commit, ctx), &ctx).unwrap();
        match number % 4 {
            0 => session.append_list(&support::address("list"), &json("[1]"), &ctx).unwrap(),
            1 => session.set_label(&one, Some("label"), &ctx).unwrap(),
            2 => session.set_value(&support::address("value"), &json("{}"), &ctx).unwrap(),
            _ => {
                let row = Write::Usage(NewUsage::new(format!("usage {number}"), &Usage::default(), None));
                session.mutate(|mutator, ctx| mutator.commit(&[row], ctx), &ctx).map(drop).unwrap();
            }
        }
        parent = Some(tip.clone());
    }
    session.close(&ctx).unwrap();
    std::fs::read(session.metadata().path.as_deref().unwrap()).unwrap()
}

fn repair_after(original: &[u8], damages: &[Damage]) {
    let mut bytes: Vec<Byte> =
        original.iter().enumerate().map(|(was, value)| Byte { was, value: *value, is_whole: true }).collect();
    let lines = lines_of(&bytes);
    for damage in damages {
        damage.apply(&mut bytes);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.jsonl");
    let text: Vec<u8> = bytes.iter().map(|byte| byte.value).collect();
    std::fs::write(&path, &text).unwrap();
    let last_end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    // The entries of the lines that are still whole, once or several times, and not in what the file breaks off in.
    let mut expected = Vec::new();
    for line in &lines[1..] {
        let content = line.start..line.end - 1;
        let (whole, parts) = occurrences(&bytes[..last_end], &content);
        let (_, all_parts) = occurrences(&bytes, &content);
        if whole > 0 && whole == parts && parts == all_parts {
            let line: serde_json::Value = serde_json::from_slice(&original[content]).unwrap();
            let writes = match line {
                serde_json::Value::Array(writes) => writes,
                one => vec![one],
            };
            expected.extend(writes.into_iter().filter(|write| write["kind"] == "entry"));
        }
    }
    let repair = repair_file(&path, &RepairOptions::default(), &mut |_| (), &background());
    match repair {
        Err(error) if error.kind() == ErrorKind::UnsupportedVersion => return,
        Err(error) if error.kind() == ErrorKind::NotASession && expected.is_empty() => return,
        repaired => drop(repaired.unwrap()),
    }
    let (_, session) = repaired(&path);
    let kept: BTreeMap<String, Entry> =
        entries(&session).into_iter().map(|entry| (entry.id.clone(), entry)).collect();
    for entry in expected {
        let id = entry["id"].as_str().unwrap();
        let found = kept.get(id).unwrap_or_else(|| panic!("entry {id} is lost"));
        assert_eq!(
            (Some(found.seq), Some(found.timestamp)),
            (entry["seq"].as_u64(), entry["timestamp"].as_i64()),
            "{id}"
        );
        let payload: serde_json::Value = serde_json::from_str(found.payload.as_str()).unwrap();
        assert!(payload.get("message") == entry.get("message") && payload.get("data") == entry.get("data"));
        match (&found.parent_id, entry["parentId"].as_str()) {
            (Some(found), Some(parent)) => assert_eq!(found, parent),
            (None, Some(parent)) => {
                assert!(kept.get(parent).is_none_or(|parent| parent.seq > found.seq), "{id} lost its parent")
            }
            (None, None) => {}
            (Some(found), None) => panic!("{id} was a root and hangs on {found}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// Whatever is done to a file of JSON lines: the repaired session is sound and has every entry that is whole.
    #[test]
    fn every_undamaged_entry_survives(damages in prop::collection::vec(damage(), 1..5)) {
        static BASE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(base);
        repair_after(&BASE, &damages);
    }

    /// Bytes of any kind never make it panic.
    #[test]
    fn bytes_of_any_kind_are_refused_or_repaired(bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>()) {
        static BASE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(base);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged.jsonl");
        let mut damaged = BASE.clone();
        let from = at.index(damaged.len());
        let to = (from + bytes.len()).min(damaged.len());
        damaged.splice(from..to, bytes);
        std::fs::write(&path, &damaged).unwrap();
        match repair_file(&path, &RepairOptions::default(), &mut |_| (), &background()) {
            Ok(_) => drop(repaired(&path)),
            Err(error) => assert!(error.path().is_some(), "{error:?}"),
        }
    }
}

/// A container with one session of so many messages, each of some 600 bytes; its path and ids.
fn database(count: usize) -> (tempfile::TempDir, PathBuf, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.db");
    let repository = repository(&format!("sqlite:{}", path.display()));
    let ctx = background();
    let options = CreateOptions { id: Some("s".to_owned()), ..Default::default() };
    let session = repository.create(&options, &ctx).unwrap();
    let main = session.create_branch("main", None, &ctx).unwrap();
    let mut ids = Vec::new();
    for number in 0..count {
        let text = format!("{number} {}", "x".repeat(600));
        ids.push(main.append_message(&user(&text), &ctx).unwrap());
        if number % 5 == 0 {
            session.append_list(&support::address("list"), &json(&number.to_string()), &ctx).unwrap();
            session.set_value(&support::address(&number.to_string()), &json("1"), &ctx).unwrap();
            let row = Write::Usage(NewUsage::new(format!("usage {number}"), &Usage::default(), None));
            session.mutate(|mutator, ctx| mutator.commit(&[row], ctx), &ctx).map(drop).unwrap();
        }
    }
    session.close(&ctx).unwrap();
    repository.close(&ctx).unwrap();
    (folder, path, ids)
}

#[test]
fn whatever_page_of_a_database_is_lost_the_others_are_read() {
    const PAGE: usize = 4096;
    let (_folder, path, ids) = database(120);
    let sound = std::fs::read(&path).unwrap();
    let pages = sound.len() / PAGE;
    assert!(pages > 30);
    let (mut whole, mut with_losses, mut unreadable) = (0, 0, 0);
    for page in 1..pages {
        let mut bytes = sound.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0x5a);
        std::fs::write(&path, &bytes).unwrap();
        // Without the pages that say which tables there are nothing can be read.
        let looked = repair_file(&path, &RepairOptions::default(), &mut |_| (), &background());
        if let Err(error) = looked {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "page {page}: {error:?}");
            unreadable += 1;
            continue;
        }
        let (repair, session) = repaired(&path);
        let kept: Vec<String> = entries(&session).into_iter().map(|entry| entry.id).collect();
        let lost: Vec<&String> = ids.iter().filter(|id| !kept.contains(id)).collect();
        // The root of the table of entries leads to all of them.
        assert!(lost.len() <= 8 || lost.len() == ids.len(), "page {page}: {} entries are lost", lost.len());
        for id in &lost {
            let named = repair
                .findings
                .iter()
                .any(|finding| finding.kind == FindingKind::Unreadable && finding.id.as_ref() == Some(*id));
            assert!(named, "page {page}: {id} is lost and not named: {:?}", repair.findings);
        }
        if lost.is_empty() { whole += 1 } else { with_losses += 1 }
    }
    assert!(whole > 3 && with_losses > 10 && unreadable < 5, "{whole} {with_losses} {unreadable}");
}

#[test]
fn rows_of_a_database_that_are_not_what_they_must_be_are_left_out_and_named() {
    use FindingKind::{BadPayload, BadValue, ParentOfNothing, TipOfNothing, Unreadable, WrongSeq};
    for (sql, found, count) in [
        (
            "UPDATE entry_row SET payload = '{' WHERE id = (SELECT id FROM entry_row LIMIT 1 OFFSET 3)",
            &[BadPayload, ParentOfNothing][..],
            7,
        ),
        (
            "UPDATE entry_row SET type = 9 WHERE id = (SELECT id FROM entry_row LIMIT 1 OFFSET 3)",
            &[Unreadable, ParentOfNothing],
            7,
        ),
        (
            "DELETE FROM entry_row WHERE id = (SELECT id FROM entry_row LIMIT 1 OFFSET 3)",
            &[ParentOfNothing],
            7,
        ),
        ("DELETE FROM entry_row WHERE key = (SELECT max(key) FROM entry_row)", &[TipOfNothing], 7),
        ("UPDATE session_row SET next_seq = 3", &[WrongSeq], 8),
        ("UPDATE value_row SET seq = 0 WHERE namespace = 'app' AND key = '0'", &[WrongSeq], 8),
        (
            "UPDATE value_row SET seq = 9007199254740992 WHERE namespace = 'app' AND key = '5'",
            &[WrongSeq, WrongSeq],
            8,
        ),
        ("UPDATE session_row SET message_count = 1, input = 7", &[], 8),
        ("UPDATE entry_row SET depth = 0, jump = 77", &[], 8),
        ("UPDATE value_row SET payload = 'x' WHERE namespace = 'app' AND key = '0'", &[BadValue], 8),
        ("UPDATE list_element_row SET payload = '}'", &[BadValue, BadValue], 8),
        ("UPDATE usage_row SET payload = '['", &[BadPayload, BadPayload], 8),
        ("DROP INDEX entry_by_id; DROP INDEX value_by_address", &[], 8),
        ("DROP TABLE usage_row", &[Unreadable], 8),
    ] {
        let (_folder, path, ids) = database(8);
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let (repair, session) = repaired(&path);
        assert_eq!(kinds(&repair), found, "{sql}: {:?}", repair.findings);
        assert_eq!((entries(&session).len(), ids.len()), (count, 8), "{sql}");
        // The one end of the one path.
        let last = entries(&session).pop().map(|entry| entry.id);
        assert_eq!(tip(&session, "main"), last, "{sql}");
    }
}

#[test]
fn a_database_whose_row_of_the_session_is_lost_is_known_by_its_entries() {
    let (_folder, path, ids) = database(8);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..8192].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let (repair, session) = repaired(&path);
    assert_eq!(repair.findings[0].kind, FindingKind::DamagedHeader);
    assert_eq!(repair.source.id, "all", "of the file's name");
    let kept: Vec<String> = entries(&session).into_iter().map(|entry| entry.id).collect();
    assert_eq!(kept, ids);
}

#[test]
fn a_container_of_several_sessions_asks_which_one_is_meant() {
    let (_folder, path, _) = database(3);
    let repository = repository(&format!("sqlite:{}", path.display()));
    let other = CreateOptions { id: Some("other".to_owned()), ..Default::default() };
    fill(&repository.create(&other, &background()).unwrap(), 2);
    repository.close(&background()).unwrap();
    let mut options = RepairOptions::default();
    let error = repair_file(&path, &options, &mut |_| (), &background()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AmbiguousSession);
    for (id, count) in [("s", 3), ("other", 2)] {
        options.session = Some(id.to_owned());
        let repair = repair_file(&path, &options, &mut |_| (), &background()).unwrap();
        assert_eq!((repair.source.id.as_str(), repair.kept.entries), (id, count));
        assert!(repair.is_sound(), "{:?}", repair.findings);
    }
    options.session = Some("nobody".to_owned());
    let error = repair_file(&path, &options, &mut |_| (), &background()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownSession);
}

#[test]
fn a_damaged_old_file_is_repaired_by_importing_what_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.jsonl");
    let head = "{\"type\":\"session\",\"version\":3,\"id\":\"old\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/x\"}\n";
    let entry = "{\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}\n";
    std::fs::write(&path, format!("{head}broken\n{entry}")).unwrap();
    let look = look(&path);
    assert_eq!(look.warnings.iter().map(|warning| warning.kind.name()).collect::<Vec<_>>(), ["bad_line"]);
    assert_eq!((look.kept.entries, look.kept.messages, look.session), (1, 1, None));
    let into = repository("memory:");
    let options =
        RepairOptions { into: Some(into.clone()), id: Some("new".to_owned()), ..Default::default() };
    let repair = repair_file(&path, &options, &mut |_| (), &background()).unwrap();
    assert_eq!(repair.warnings.len(), 1);
    let session = into.open("new", &background()).unwrap();
    assert_eq!((session.id(), entries(&session).len()), ("new", 1));
    assert_sound(&session, "an old file");
}

#[test]
fn a_damaged_container_of_the_reference_is_repaired_row_by_row() {
    use FindingKind::{BadPayload, BadValue, ParentOfNothing, TipOfNothing, Unreadable, WrongSeq};
    for (sql, found, count) in [
        ("", &[][..], 5),
        ("UPDATE entries SET payload = '{' WHERE id = 'e3'", &[BadPayload, ParentOfNothing], 4),
        ("UPDATE entries SET payload = '[]' WHERE id = 'e3'", &[BadPayload, ParentOfNothing], 4),
        ("UPDATE entries SET type = 'blob' WHERE id = 'e5'", &[BadPayload, TipOfNothing], 4),
        ("DELETE FROM entries WHERE id = 'e3'", &[Unreadable, ParentOfNothing], 4),
        ("UPDATE sessions SET next_seq = 2", &[WrongSeq], 5),
        ("UPDATE scalar_values SET value = 'x' WHERE namespace = 'app'", &[BadValue], 5),
        ("UPDATE list_values SET value = '}' WHERE value = '1'", &[BadValue], 5),
        ("UPDATE usage_ledger SET usage = '5'", &[BadPayload], 5),
        ("DROP TABLE branch_entries; DROP TABLE branch_meta", &[], 5),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("theirs.sqlite");
        let mut container = reference::Container::create(&path);
        container.session("s", 1_700_000_000_000);
        container.chain("s", 5);
        container.value("s", "app", "v", "1");
        container.element("s", "app", "l", "1");
        container.element("s", "app", "l", "2");
        container.usage("s", "u", 3, Some("e1"), None);
        container.sql.execute_batch(sql).unwrap();
        container.close();
        let (repair, session) = repaired(&path);
        assert_eq!(kinds(&repair), found, "{sql}: {:?}", repair.findings);
        assert_eq!(entries(&session).len(), count, "{sql}");
        if sql.is_empty() {
            let theirs = repository(&format!("sqlite:{}", path.display()));
            assert_eq!(dump(&session), dump(&theirs.open_read_only("s", &background()).unwrap()));
        }
    }
}

#[test]
fn golden_damaged_containers_are_repaired() {
    use ErrorKind::{NotASession, UnsupportedVersion};
    use FindingKind::{BadPayload, Unreadable, WrongSeq};
    let Some(folder) = shared("golden/sqlite") else { return };
    let copies = tempfile::tempdir().unwrap();
    for (name, expected) in [
        ("40-not-a-database", Err(NotASession)),
        ("41-empty-file", Err(NotASession)),
        ("42-no-tables", Err(NotASession)),
        ("43-newer-storage-version", Err(UnsupportedVersion)),
        ("44-older-storage-version", Err(UnsupportedVersion)),
        ("45-no-branch-index", Ok(None)),
        ("46-bad-payload-json", Ok(Some(BadPayload))),
        ("47-lost-entry", Ok(Some(Unreadable))),
        ("48-next-seq-too-low", Ok(Some(WrongSeq))),
        ("49-rollback-journal-mode", Ok(None)),
    ] {
        let path = copies.path().join(format!("{name}.sqlite"));
        std::fs::copy(folder.join(format!("{name}.sqlite")), &path).unwrap();
        match (repair_file(&path, &RepairOptions::default(), &mut |_| (), &background()), expected) {
            (Err(error), Err(kind)) => assert_eq!(error.kind(), kind, "{name}: {error:?}"),
            (Ok(_), Ok(kind)) => {
                let (repair, _) = repaired(&path);
                assert_eq!(kinds(&repair).first().copied(), kind, "{name}: {:?}", repair.findings);
            }
            (outcome, _) => panic!("{name}: {outcome:?}"),
        }
    }
}

#[test]
fn a_session_is_not_repaired_into_the_database_that_is_read() {
    let (_folder, path, _) = database(3);
    let before = std::fs::read(&path).unwrap();
    let into = repository(&format!("sqlite:{}", path.display()));
    let options = RepairOptions { into: Some(into), id: Some("new".to_owned()), ..Default::default() };
    let error = repair_file(&path, &options, &mut |_| (), &background()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.hint().is_some());
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
