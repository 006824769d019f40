//! Upgrade: an old file becomes one of format 4 in its place, or nothing happens to it.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests, which clippy does not take for tests

mod legacy_support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use legacy_support::{DeadlyClock, HEADER, Old, content, ctx, entries, message, read_only, warnings};
use pisession::{
    Address, Clock, Context, ErrorKind, ImportOptions, Json, LegacyPolicy, ListRead, OpenOptions, Repository,
    RepositoryOptions, Session, SessionReader as _, UsageScan, import_file, open_file, open_repository,
};

/// Does something to the file at a path.
type Action = fn(&Path);

fn upgrade() -> OpenOptions {
    OpenOptions { legacy: LegacyPolicy::Upgrade, ..OpenOptions::default() }
}

fn upgraded(path: &Path) -> Session {
    open_file(path, &upgrade(), &ctx()).unwrap()
}

fn repository(folder: &Path, options: RepositoryOptions) -> Repository {
    open_repository(&format!("jsonl:{}", folder.display()), options).unwrap()
}

/// Name and bytes of every file in the folder of `path`.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = fs::read_dir(path.parent().unwrap()).unwrap();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read(path).unwrap_or_default())
    };
    names.map(|entry| read(entry.unwrap().path())).collect()
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

/// Two messages, the second with usage.
fn small() -> Old {
    let usage = r#"{"type":"usage","id":"u1","parentId":"b2","timestamp":"2026-03-01T10:00:03.000Z","usage":{"input":5,"cost":{"total":0.25}}}"#;
    Old::of(&[&message("b1", None, 1), &message("b2", Some("b1"), 2), usage])
}

fn append(session: &Session, text: &str) {
    let message = Json::parse(format!(r#"{{"role":"user","content":"{text}"}}"#)).unwrap();
    session.branch("main", &ctx()).unwrap().unwrap().append_message(&message, &ctx()).unwrap();
}

#[test]
fn an_upgraded_file_is_the_same_session_and_can_be_written() {
    let old = small();
    let bytes = fs::read(&old.path).unwrap();
    let (was, found) = (content(&old.open()), old.open().legacy().unwrap().clone());
    let session = upgraded(&old.path);
    assert_eq!((session.id(), session.metadata().path.as_deref()), ("old", Some(old.path.as_path())));
    assert_eq!(session.metadata().created_at, legacy_support::TIME);
    assert_eq!(content(&session), was);
    let rows = session.scan_usage(&UsageScan::default(), &ctx()).unwrap();
    assert_eq!((rows.len(), rows[0].adjustment(), rows[0].usage.input), (1, true, 5.0));
    assert_eq!(rows[0].details(), Some(r#"{"source":"v3-import"}"#));
    let legacy = session.legacy().unwrap();
    assert_eq!(legacy.ids().collect::<Vec<_>>(), found.ids().collect::<Vec<_>>());
    assert_eq!((legacy.version, legacy.usage), (3, found.usage));
    let backup = beside(&old.path, ".v3.bak");
    assert_eq!(legacy.backup.as_ref(), Some(&backup));
    assert_eq!(fs::read(&backup).unwrap(), bytes);
    append(&session, "on");
    session.close(&ctx()).unwrap();
    assert_eq!(files(&old.path).into_keys().collect::<Vec<_>>(), ["old.jsonl", "old.jsonl.v3.bak"]);

    // From then on it is a file of format 4 like any other, whatever the policy says.
    let before = files(&old.path);
    let again = upgraded(&old.path);
    assert!(again.legacy().is_none());
    assert_eq!(entries(&again).len(), 3);
    append(&again, "and on");
    again.close(&ctx()).unwrap();
    let elements = open_file(&old.path, &read_only(), &ctx())
        .unwrap()
        .read_list(&Address::new("pisession.legacy", "").unwrap(), &ListRead::default(), &ctx())
        .unwrap();
    assert!(elements.iter().any(|element| element.value.get("ids").is_some()));
    assert_eq!(files(&old.path)["old.jsonl.v3.bak"], before["old.jsonl.v3.bak"]);
}

#[test]
fn the_same_file_gives_the_same_bytes() {
    let upgraded_bytes = || {
        let old = small();
        upgraded(&old.path).close(&ctx()).unwrap();
        fs::read(&old.path).unwrap()
    };
    assert_eq!(upgraded_bytes(), upgraded_bytes());
}

#[test]
fn a_repository_upgrades_the_file_that_holds_the_session() {
    let old = small();
    let was = content(&old.open());
    let repository = repository(old.path.parent().unwrap(), RepositoryOptions::default());
    let session = repository.open_with("old", &upgrade(), &ctx()).unwrap();
    assert_eq!(content(&session), was);
    append(&session, "on");
    let listed = repository.list(&Default::default(), &ctx()).unwrap();
    assert_eq!((listed.len(), listed[0].format.to_string()), (1, "jsonl-4".to_owned()));
    repository.close(&ctx()).unwrap();
    assert_eq!(session.stats(&ctx()).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn every_odd_file_is_upgraded_to_what_it_reads_as() {
    let huge = message("b1", None, 1).replace("text of", &"x".repeat(12 << 20));
    let surrogates = message("b1", None, 1).replace("text of", r"\ud83d \udc00\ud800 \u0000 \uD83D\uDE00");
    let (b1, b2) = (message("b1", None, 1), message("b2", Some("b1"), 2));
    let whole = |lines: &[&str]| [&[HEADER], lines, &[""]].concat().join("\n");
    let cases: Vec<(&str, String, bool)> = vec![
        ("header only", whole(&[]), false),
        ("no line end", format!("{HEADER}\n{b1}"), false),
        ("carriage returns and a byte-order mark", format!("\u{feff}{HEADER}\r\n\r\n{b1}\r\n"), false),
        ("lone surrogates", whole(&[&surrogates]), false),
        ("huge lines", whole(&[&huge, &b2]), false),
        ("glued", format!("{HEADER}{b1}{b2}\n"), true),
        ("torn", format!("{HEADER}\n{b1}\n{}", &b2[..40]), true),
        ("duplicate ids", whole(&[&b1, &message("b1", Some("b1"), 2)]), true),
        ("made before 1970", whole(&[&b1]).replacen("2026", "1969", 1), false),
        ("version 1", whole(&[&b1]).replace(r#""version":3,"#, ""), false),
        ("version 2", whole(&[&b1, &b2]).replace(r#""version":3"#, r#""version":2"#), false),
    ];
    for (name, text, damaged) in cases {
        let old = Old::new(&text);
        let (was, found, warned) = (content(&old.open()), entries(&old.open()), warnings(&old.open()));
        let before = files(&old.path);
        if damaged {
            let error = open_file(&old.path, &upgrade(), &ctx()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}");
            assert!(error.hint().unwrap().contains("salvage"), "{name}: {error}");
            assert_eq!(files(&old.path), before, "{name}");
        }
        let session = open_file(&old.path, &OpenOptions { salvage: damaged, ..upgrade() }, &ctx()).unwrap();
        assert_eq!(warnings(&session), warned, "{name}");
        assert_eq!(content(&session), was, "{name}");
        append(&session, "on");
        let backup = session.legacy().unwrap().backup.clone().unwrap();
        session.close(&ctx()).unwrap();
        assert_eq!(fs::read(backup).unwrap(), text.as_bytes(), "{name}");
        let again = open_file(&old.path, &read_only(), &ctx()).unwrap();
        assert_eq!(entries(&again)[..found.len()], found, "{name}");
    }
}

#[test]
fn what_is_no_old_session_is_left_alone() {
    let newer = HEADER.replace("\"version\":3", "\"version\":4");
    for (text, kind) in [
        (String::new(), ErrorKind::NotASession),
        ("text\n".to_owned(), ErrorKind::NotASession),
        (r#"{"type":"session_start"}"#.to_owned(), ErrorKind::NotASession),
        ("SQLite format 3\0".to_owned(), ErrorKind::Unsupported),
        (format!("{newer}\n{}\n", message("b1", None, 1)), ErrorKind::UnsupportedVersion),
        (HEADER.replace("\"old\"", r#""a\u0000b""#) + "\n", ErrorKind::InvalidId),
    ] {
        let old = Old::new(&text);
        let before = files(&old.path);
        let options = OpenOptions { salvage: true, ..upgrade() };
        assert_eq!(open_file(&old.path, &options, &ctx()).unwrap_err().kind(), kind, "{text}");
        assert_eq!(files(&old.path), before, "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent.jsonl");
    assert_eq!(open_file(&absent, &upgrade(), &ctx()).unwrap_err().kind(), ErrorKind::Io);
    assert!(files(&absent).is_empty());
}

#[test]
fn for_reading_only_nothing_is_upgraded() {
    let old = small();
    let before = files(&old.path);
    let session =
        open_file(&old.path, &OpenOptions { legacy: LegacyPolicy::Upgrade, ..read_only() }, &ctx()).unwrap();
    assert_eq!(session.set_name(Some("no"), &ctx()).unwrap_err().kind(), ErrorKind::LegacyReadOnly);
    assert_eq!(files(&old.path), before);
}

#[test]
fn a_backup_never_takes_the_name_of_another_file() {
    type Taken = fn(&Path, &Path);
    let cases: [(&str, Taken, &str); 6] = [
        (
            "the same bytes",
            |path, backup| {
                fs::copy(path, backup).unwrap();
            },
            ".v3.bak",
        ),
        ("the file itself", |path, backup| fs::hard_link(path, backup).unwrap(), ".v3.bak"),
        ("other bytes", |_, backup| fs::write(backup, "mine").unwrap(), ".v3.2.bak"),
        (
            "as many other bytes",
            |path, backup| fs::write(backup, vec![b'x'; fs::read(path).unwrap().len()]).unwrap(),
            ".v3.2.bak",
        ),
        ("a link to the file", |path, backup| symlink(path, backup).unwrap(), ".v3.2.bak"),
        ("a folder", |_, backup| fs::create_dir(backup).unwrap(), ".v3.2.bak"),
    ];
    for (name, take, ending) in cases {
        let old = small();
        let bytes = fs::read(&old.path).unwrap();
        let first = beside(&old.path, ".v3.bak");
        take(&old.path, &first);
        let was = fs::symlink_metadata(&first).unwrap().ino();
        let session = upgraded(&old.path);
        let backup = session.legacy().unwrap().backup.clone().unwrap();
        assert_eq!(backup, beside(&old.path, ending), "{name}");
        assert_eq!(fs::read(backup).unwrap(), bytes, "{name}");
        assert_eq!(fs::symlink_metadata(&first).unwrap().ino(), was, "{name}");
    }
}

#[test]
fn permissions_stay_and_a_link_to_the_file_stays_a_link() {
    let old = small();
    fs::set_permissions(&old.path, fs::Permissions::from_mode(0o640)).unwrap();
    let link = old.path.with_file_name("link.jsonl");
    symlink(&old.path, &link).unwrap();
    let session = upgraded(&link);
    assert_eq!(session.metadata().path, Some(old.path.canonicalize().unwrap()));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&old.path).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(open_file(&old.path, &upgrade(), &ctx()).unwrap_err().kind(), ErrorKind::SessionBusy);
}

#[test]
fn a_session_that_reads_the_old_file_notices() {
    let old = small();
    let reader = old.open();
    let id = entries(&reader)[0].id.clone();
    let _session = upgraded(&old.path);
    assert_eq!(reader.get_entry(&id, &ctx()).unwrap_err().kind(), ErrorKind::FileChanged);
}

#[test]
fn whatever_fails_the_old_file_stays_as_it_is_and_nothing_is_left() {
    type Spoil = fn(&Path) -> RepositoryOptions;
    let cases: [(&str, Spoil, ErrorKind); 2] = [
        (
            "the name of the new file is taken by a folder",
            |path| {
                fs::create_dir(beside(path, ".upgrade.new")).unwrap();
                RepositoryOptions::default()
            },
            ErrorKind::Io,
        ),
        (
            "a payload is too large",
            |_| RepositoryOptions { max_payload: 10, ..RepositoryOptions::default() },
            ErrorKind::TooLarge,
        ),
    ];
    for (name, spoil, kind) in cases {
        let old = small();
        let repository = repository(old.path.parent().unwrap(), spoil(&old.path));
        let before = files(&old.path);
        let error = repository.open_with("old", &upgrade(), &ctx()).unwrap_err();
        assert_eq!(error.kind(), kind, "{name}: {error}");
        assert_eq!(files(&old.path), before, "{name}");
    }
    let old = small();
    let before = files(&old.path);
    let cancelled = Context::new();
    cancelled.cancel();
    assert_eq!(open_file(&old.path, &upgrade(), &cancelled).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(files(&old.path), before);
}

/// Does something to the old file in each commit; the last commit comes after all of it was read.
struct Meddler {
    path: PathBuf,
    meddle: Action,
}

impl std::fmt::Debug for Meddler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meddler")
    }
}

impl Clock for Meddler {
    fn now(&self) -> i64 {
        (self.meddle)(&self.path);
        1
    }
}

#[test]
fn a_program_that_writes_the_file_meanwhile_loses_nothing() {
    let meddlings: [(&str, Action); 3] = [
        ("appends", |path| fs::write(path, [fs::read(path).unwrap(), b"\n".to_vec()].concat()).unwrap()),
        ("replaces", |path| {
            fs::write(beside(path, ".other"), "other").unwrap();
            fs::rename(beside(path, ".other"), path).unwrap();
        }),
        ("removes", |path| drop(fs::remove_file(path))),
    ];
    for (name, meddle) in meddlings {
        let old = small();
        let clock = Arc::new(Meddler { path: old.path.clone(), meddle });
        let options = RepositoryOptions { clock, ..RepositoryOptions::default() };
        let repository = repository(old.path.parent().unwrap(), options);
        let mut after = files(&old.path);
        let error = repository.open_with("old", &upgrade(), &ctx()).unwrap_err();
        match name {
            "appends" => after.get_mut("old.jsonl").unwrap().push(b'\n'),
            "replaces" => drop(after.insert("old.jsonl".to_owned(), b"other".to_vec())),
            _ => drop(after.remove("old.jsonl")),
        }
        assert_eq!(files(&old.path), after, "{name}: {error}");
        assert_eq!(error.kind(), ErrorKind::FileChanged, "{name}: {error}");
    }
}

#[test]
fn a_panic_in_the_middle_leaves_the_old_file_and_no_lock() {
    let old = small();
    let before = files(&old.path);
    let clock = Arc::new(DeadlyClock { left: AtomicU64::new(0) });
    let options = RepositoryOptions { clock, ..RepositoryOptions::default() };
    let repository = repository(old.path.parent().unwrap(), options);
    let open = || repository.open_with("old", &upgrade(), &ctx()).map(drop);
    assert!(catch_unwind(AssertUnwindSafe(open)).is_err());
    assert_eq!(files(&old.path), before);
}

#[test]
fn what_a_crash_leaves_at_any_step_is_no_obstacle() {
    // Each step, as a process that died behind it leaves the folder.
    let steps: [(&str, Action); 4] = [
        ("half a new file", |path| fs::write(beside(path, ".upgrade.new"), "{\"v\":4,").unwrap()),
        ("the new file", |path| {
            fs::copy(path, beside(path, ".upgrade.new")).unwrap();
        }),
        ("the second name", |path| {
            fs::write(beside(path, ".upgrade.new"), "").unwrap();
            fs::hard_link(path, beside(path, ".v3.bak")).unwrap();
        }),
        ("the lock", |path| fs::write(beside(path, ".lock"), "4194304 1 nowhere\n").unwrap()),
    ];
    for (name, leave) in steps {
        let old = small();
        let (bytes, was) = (fs::read(&old.path).unwrap(), content(&old.open()));
        leave(&old.path);
        assert_eq!(content(&old.open()), was, "{name}: it is still the old session");
        let session = upgraded(&old.path);
        assert_eq!(content(&session), was, "{name}");
        session.close(&ctx()).unwrap();
        let after = files(&old.path);
        assert_eq!(after.keys().collect::<Vec<_>>(), ["old.jsonl", "old.jsonl.v3.bak"], "{name}");
        assert_eq!(after["old.jsonl.v3.bak"], bytes, "{name}");
    }
}

#[test]
fn what_a_crash_leaves_is_swept_by_the_next_create_there() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("--w--");
    fs::create_dir(&place).unwrap();
    let path = place.join("old.jsonl");
    fs::write(&path, format!("{HEADER}\n")).unwrap();
    fs::write(beside(&path, ".upgrade.new"), "half").unwrap();
    let repository = repository(folder.path(), RepositoryOptions::default());
    let options = pisession::CreateOptions { cwd: Some("/w".to_owned()), ..Default::default() };
    repository.create(&options, &ctx()).unwrap().close(&ctx()).unwrap();
    assert!(!beside(&path, ".upgrade.new").exists() && path.exists());
}

/// Upgrades what the environment names, for tests that run this program again.
#[test]
fn upgrades_for_another_process() {
    let Some(path) = std::env::var_os("UPGRADE") else { return };
    match open_file(&path, &upgrade(), &ctx()) {
        Ok(session) => {
            append(&session, "from a process");
            session.close(&ctx()).unwrap();
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::SessionBusy, "{error}"),
    }
}

/// This program again, which does nothing but to upgrade the file.
fn other_process(path: &Path, before: &str) -> Command {
    let mut command = Command::new("sh");
    let run = format!("{before} exec \"$0\" --exact upgrades_for_another_process");
    command.args(["-c", &run]).arg(std::env::current_exe().unwrap()).env("UPGRADE", path);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command
}

#[test]
fn killed_at_any_block_of_the_new_file_the_old_one_stays() {
    let lines: Vec<String> = (0..40)
        .map(|at| message(&format!("b{at}"), (at > 0).then(|| format!("b{}", at - 1)).as_deref(), at))
        .collect();
    let old = Old::of(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let (bytes, found) = (fs::read(&old.path).unwrap(), entries(&old.open()));
    let mut killed = 0;
    for blocks in 0.. {
        // The system ends a process that writes a file beyond its limit.
        let status = other_process(&old.path, &format!("ulimit -c 0; ulimit -f {blocks};")).status().unwrap();
        if status.success() {
            break;
        }
        killed += 1;
        assert_eq!(fs::read(&old.path).unwrap(), bytes, "{blocks} blocks");
        assert!(!beside(&old.path, ".v3.bak").exists(), "{blocks} blocks");
    }
    assert!(killed > 10, "{killed} times");
    assert_eq!(fs::read(beside(&old.path, ".v3.bak")).unwrap(), bytes);
    let session = open_file(&old.path, &read_only(), &ctx()).unwrap();
    assert_eq!(entries(&session)[..40], found);
}

#[test]
fn of_several_processes_one_upgrades_and_the_others_are_told_or_see_format_4() {
    let old = small();
    let bytes = fs::read(&old.path).unwrap();
    let mut processes: Vec<_> = (0..8).map(|_| other_process(&old.path, "").spawn().unwrap()).collect();
    assert!(processes.iter_mut().all(|process| process.wait().unwrap().success()));
    let after = files(&old.path);
    assert_eq!(after.keys().collect::<Vec<_>>(), ["old.jsonl", "old.jsonl.v3.bak"]);
    assert_eq!(after["old.jsonl.v3.bak"], bytes);
    let session = open_file(&old.path, &read_only(), &ctx()).unwrap();
    let rows = session.scan_usage(&UsageScan::default(), &ctx()).unwrap();
    assert_eq!((rows.len(), session.stats(&ctx()).unwrap().usage.input), (1, 5.0));
    let written = entries(&session).len();
    assert!((3..=10).contains(&written), "{written} entries: every process that had the lock wrote one");
}

#[test]
fn importing_the_backup_of_an_upgraded_file_adds_nothing() {
    let old = small();
    let session = upgraded(&old.path);
    let backup = session.legacy().unwrap().backup.clone().unwrap();
    append(&session, "on");
    session.close(&ctx()).unwrap();
    let repository = repository(old.path.parent().unwrap(), RepositoryOptions::default());
    let import = import_file(&backup, &repository, &ImportOptions::default(), &ctx()).unwrap();
    assert_eq!((import.session_id(), import.added), ("old", false));
    let stats = repository.open("old", &ctx()).unwrap().stats(&ctx()).unwrap();
    assert_eq!((stats.usage.input, stats.usage.cost.total), (5.0, 0.25));
}
