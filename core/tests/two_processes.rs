//! What several processes may do with one repository at a time. The other processes are this test program
//! itself, told by an environment variable what to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use pisession::{
    Address, Context, CreateOptions, Durability, EntryQuery, Error, ErrorKind, Json, ListOptions, ListRead,
    NewEntry, Repository, RepositoryOptions, Session, SessionReader as _, Write, addresses, open_repository,
};

const TASK: &str = "PISESSION_TEST_CHILD";

fn ctx() -> Context {
    Context::background()
}

fn repository(path: &Path) -> Repository {
    let options = RepositoryOptions {
        durability: Durability::Process,
        busy_timeout: Duration::from_secs(30),
        ..RepositoryOptions::default()
    };
    let scheme = if path.ends_with("lines") { "jsonl" } else { "sqlite" };
    open_repository(&format!("{scheme}:{}", path.display()), options).unwrap()
}

fn with_id(id: &str) -> CreateOptions {
    CreateOptions { id: Some(id.to_owned()), ..CreateOptions::default() }
}

/// A folder and a container of SQLite and a folder of JSON lines, not made yet.
fn places() -> (tempfile::TempDir, [PathBuf; 3]) {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["sessions", "sessions.sqlite", "lines"].map(|name| folder.path().join(name));
    (folder, paths)
}

/// Another process of this program.
struct Other {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Other {
    /// Starts `task` on the repository at `path`.
    fn start(task: &str, path: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["the_other_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(TASK, format!("{task} {}", path.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(process.stdout.take().unwrap());
        Self { process, says }
    }

    /// Waits for a line that begins with `word`; the rest of it.
    fn hears(&mut self, word: &str) -> String {
        let mut line = String::new();
        while self.says.read_line(&mut line).unwrap() > 0 {
            if let Some(at) = line.find(&format!("@{word}")) {
                return line[at + 1 + word.len()..].trim().to_owned();
            }
            line.clear();
        }
        panic!("the other process ended without saying '{word}'");
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Lets it end by itself.
    fn end(mut self) {
        drop(self.process.stdin.take());
        let mut rest = String::new();
        self.says.read_to_string(&mut rest).unwrap();
        assert!(self.process.wait().unwrap().success(), "{rest}");
    }
}

/// What the other process does; nothing in the test run itself.
#[test]
fn the_other_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (task, path) = task.split_once(' ').unwrap();
    let path = Path::new(path);
    let wait_for_the_end = || std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    match task {
        "hold" => {
            let session = repository(path).open("a", &ctx()).unwrap();
            session.set_name(Some("from the other"), &ctx()).unwrap();
            println!("@holds");
            wait_for_the_end();
            session.close(&ctx()).unwrap();
        }
        "create" => {
            println!("@ready");
            wait_for_the_end();
            for n in 0..20 {
                let repository = repository(path);
                let id = format!("{}-{n}", std::process::id());
                repository.create(&with_id(&id), &ctx()).unwrap().close(&ctx()).unwrap();
                println!("@made");
            }
            println!("@done");
        }
        "churn" => {
            println!("@ready");
            let repository = repository(path);
            for n in 0.. {
                // A few ids again and again, so that a kill meets each step.
                let id = format!("s{}", n % 5);
                match repository.create(&with_id(&id), &ctx()) {
                    Ok(session) => session.close(&ctx()).unwrap(),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::SessionExists, "{error}"),
                }
                repository.delete(&id, &ctx()).unwrap();
            }
        }
        "read" => {
            let here = repository(path);
            let mut seen = BTreeSet::new();
            let end = path.with_file_name("read-enough");
            while !end.exists() {
                println!("@reads {}", if seen.len() >= 50 { "enough" } else { "on" });
                // Opened again and again: the first look at a file is a way of its own.
                let session = here.open_read_only("a", &ctx()).unwrap();
                for _ in 0..20 {
                    let values = session.scan_values(&Address::new("app", "").unwrap(), &ctx()).unwrap();
                    let first = values.first().map(|stored| stored.value.clone()).unwrap();
                    assert_eq!(values.len(), WRITES);
                    assert!(
                        values.iter().all(|stored| stored.value == first),
                        "a part of a commit: {values:?}"
                    );
                    let elements = session.read_list(&list(), &ListRead::default(), &ctx()).unwrap();
                    assert_eq!(elements.len() % WRITES, 0, "a part of a commit");
                    let newest = session.find_entry(&EntryQuery::default(), &ctx()).unwrap().unwrap();
                    assert!(newest.id.ends_with("-last"), "a part of a commit: {}", newest.id);
                    let tip =
                        session.branch("main", &ctx()).unwrap().unwrap().tip_id(&ctx()).unwrap().unwrap();
                    assert!(tip.ends_with("-last"), "a part of a commit: {tip}");
                    seen.insert(first.read::<u64>().unwrap());
                }
                session.close(&ctx()).unwrap();
            }
        }
        "descriptors" => {
            let here = repository(path);
            let rounds = |count: usize| {
                for _ in 0..count {
                    let session = here.open("a", &ctx()).unwrap();
                    let reader = here.open_read_only("a", &ctx()).unwrap();
                    session.set_name(Some("x"), &ctx()).unwrap();
                    reader.name(&ctx()).unwrap();
                    assert!(is_busy(&here.open("a", &ctx())));
                    here.list(&ListOptions { details: true }, &ctx()).unwrap();
                    session.close(&ctx()).unwrap();
                    reader.close(&ctx()).unwrap();
                }
                std::fs::read_dir("/proc/self/fd").unwrap().count()
            };
            let before = rounds(3);
            println!("@counted {before} {}", rounds(100));
        }
        "race" => {
            println!("@ready");
            wait_for_the_end();
            match repository(path).open("a", &ctx()) {
                Ok(session) => {
                    println!("@won");
                    // Held until everybody has tried.
                    while !path.with_file_name("all-tried").exists() {
                        std::thread::yield_now();
                    }
                    session.close(&ctx()).unwrap();
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::SessionBusy, "{error}");
                    println!("@lost {}", error.message());
                }
            }
        }
        other => panic!("no such task: {other}"),
    }
}

fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come about");
        std::thread::yield_now();
    }
}

fn is_busy(result: &Result<Session, Error>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::SessionBusy)
}

#[test]
fn a_session_written_elsewhere_is_busy_and_can_be_read() {
    let (_folder, paths) = places();
    for path in paths {
        let here = repository(&path);
        here.create(&with_id("a"), &ctx()).unwrap().close(&ctx()).unwrap();
        let mut other = Other::start("hold", &path);
        other.hears("holds");
        for error in [here.open("a", &ctx()).unwrap_err(), here.delete("a", &ctx()).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::SessionBusy);
            assert!(error.message().contains(&format!("process {}", other.process.id())), "{error}");
        }
        assert_eq!(
            here.create(&with_id("a"), &ctx()).unwrap_err().kind(),
            ErrorKind::SessionExists,
            "{}",
            path.display()
        );
        let reader = here.open_read_only("a", &ctx()).unwrap();
        assert_eq!(reader.name(&ctx()).unwrap().as_deref(), Some("from the other"));
        let listed = here.list(&ListOptions { details: true }, &ctx()).unwrap();
        assert_eq!(listed[0].name.as_deref(), Some("from the other"));
        // Another session is nobody's business.
        here.create(&with_id("b"), &ctx()).unwrap().set_name(Some("b"), &ctx()).unwrap();
        other.end();
        let session = here.open("a", &ctx()).unwrap();
        session.set_name(Some("here"), &ctx()).unwrap();
        assert_eq!(reader.name(&ctx()).unwrap().as_deref(), Some("here"));
    }
}

/// How many values a commit sets, and how many elements it appends.
const WRITES: usize = 20;

fn list() -> Address {
    Address::new("app", "list").unwrap()
}

/// A commit of many writes, all of which say `number`.
fn commit_of(number: u64, parent: Option<&str>) -> Vec<Write> {
    let value = Json::of(&number).unwrap();
    let ids = [format!("{number}-first"), format!("{number}-last")];
    // The list starts again now and then, in one commit with what it then holds.
    let mut writes = if number.is_multiple_of(10) { vec![Write::DeleteList(list())] } else { Vec::new() };
    writes.push(Write::Entry(NewEntry::custom(&ids[0], parent, "half", None)));
    for at in 0..WRITES {
        writes.push(Write::SetValue(Address::new("app", format!("{at:02}")).unwrap(), value.clone()));
        writes.push(Write::AppendList(list(), value.clone()));
    }
    writes.push(addresses::branch_tip("main").unwrap().set(&Some(ids[1].clone())).unwrap());
    writes.push(Write::Entry(NewEntry::custom(&ids[1], Some(&ids[0]), "half", None)));
    writes
}

#[test]
fn readers_in_another_process_never_see_a_part_of_a_commit() {
    let (folder, paths) = places();
    for path in paths {
        let session = repository(&path).create(&with_id("a"), &ctx()).unwrap();
        let commit = |number: u64| {
            let parent = number.checked_sub(1).map(|before| format!("{before}-last"));
            let writes = commit_of(number, parent.as_deref());
            session.mutate(|mutator, ctx| mutator.commit(&writes, ctx), &ctx()).unwrap();
        };
        commit(0);
        let mut other = Other::start("read", &path);
        let mut numbers = 1..;
        // Until it has seen many of the commits, between which it has read. It reads while we commit; how many
        // times it has begun to paces us, so that the session does not outgrow it.
        while other.hears("reads") != "enough" {
            (0..100).filter_map(|_| numbers.next()).for_each(commit);
        }
        std::fs::write(folder.path().join("read-enough"), "").unwrap();
        other.end();
        std::fs::remove_file(folder.path().join("read-enough")).unwrap();
        session.close(&ctx()).unwrap();
    }
}

#[test]
fn a_killed_writer_frees_its_session() {
    let (_folder, paths) = places();
    for path in paths {
        let here = repository(&path);
        here.create(&with_id("a"), &ctx()).unwrap().close(&ctx()).unwrap();
        let mut other = Other::start("hold", &path);
        other.hears("holds");
        assert!(is_busy(&here.open("a", &ctx())));
        other.kill();
        let session = here.open("a", &ctx()).unwrap();
        assert_eq!(session.name(&ctx()).unwrap().as_deref(), Some("from the other"), "{}", path.display());
        session.close(&ctx()).unwrap();
    }
}

#[test]
fn opening_and_closing_a_hundred_times_keeps_no_descriptor() {
    let (_folder, paths) = places();
    for path in paths {
        repository(&path).create(&with_id("a"), &ctx()).unwrap().close(&ctx()).unwrap();
        let mut other = Other::start("descriptors", &path);
        let counted = other.hears("counted");
        let (before, after) = counted.split_once(' ').unwrap();
        assert_eq!(before, after, "{}", path.display());
        other.end();
    }
}

#[test]
fn a_race_for_a_session_has_one_winner() {
    let (folder, paths) = places();
    for path in paths {
        let signal = folder.path().join("all-tried");
        repository(&path).create(&with_id("a"), &ctx()).unwrap().close(&ctx()).unwrap();
        let mut others: Vec<Other> = (0..4).map(|_| Other::start("race", &path)).collect();
        for other in &mut others {
            other.hears("ready");
        }
        for other in &mut others {
            drop(other.process.stdin.take());
        }
        let said: Vec<String> = others
            .iter_mut()
            .map(|other| {
                let mut line = String::new();
                while !line.contains("@won") && !line.contains("@lost") {
                    line.clear();
                    assert!(other.says.read_line(&mut line).unwrap() > 0, "a process said nothing");
                }
                line
            })
            .collect();
        std::fs::write(&signal, "").unwrap();
        let won: Vec<usize> = (0..said.len()).filter(|n| said[*n].contains("@won")).collect();
        assert_eq!(won.len(), 1, "{said:?}");
        let winner = format!("process {}", others[won[0]].process.id());
        let named = said.iter().filter(|line| line.contains("@lost") && line.contains(&winner)).count();
        assert_eq!(named, said.len() - 1, "{said:?}");
        for other in others {
            other.end();
        }
        std::fs::remove_file(&signal).unwrap();
    }
}

#[test]
fn eight_processes_open_a_fresh_place_twenty_times_each() {
    let (_folder, paths) = places();
    for path in paths {
        let mut others: Vec<Other> = (0..8).map(|_| Other::start("create", &path)).collect();
        for other in &mut others {
            other.hears("ready");
        }
        for other in &mut others {
            drop(other.process.stdin.take());
        }
        for other in &mut others {
            other.hears("done");
        }
        for other in others {
            other.end();
        }
        let listed = repository(&path).list(&ListOptions::default(), &ctx()).unwrap();
        assert_eq!(listed.iter().filter(|listing| listing.problem.is_none()).count(), 160);
        assert_eq!(listed.len(), 160, "{}", path.display());
    }
}

#[test]
fn a_kill_while_sessions_are_made_and_deleted_blocks_no_id() {
    let (_folder, paths) = places();
    for path in paths {
        let here = repository(&path);
        here.create(&with_id("stays"), &ctx()).unwrap().close(&ctx()).unwrap();
        for round in 0..20 {
            let mut other = Other::start("churn", &path);
            other.hears("ready");
            // Somewhere in the middle of it: after it has been seen to work, and a little more each round.
            wait_until("work in the other process", || {
                let listed = here.list(&ListOptions::default(), &ctx()).unwrap();
                (listed.len() > 1).then_some(())
            });
            for _ in 0..round {
                here.list(&ListOptions::default(), &ctx()).unwrap();
            }
            other.kill();
            for n in 0..5 {
                let id = format!("s{n}");
                let session = match here.create(&with_id(&id), &ctx()) {
                    Err(error) if error.kind() == ErrorKind::SessionExists => here.open(&id, &ctx()).unwrap(),
                    made => made.unwrap(),
                };
                session.set_name(Some("mine"), &ctx()).unwrap();
                session.close(&ctx()).unwrap();
                here.delete(&id, &ctx()).unwrap();
            }
        }
        // A fresh handle sweeps all of it.
        let fresh = repository(&path);
        let last = fresh.create(&with_id("last"), &ctx()).unwrap();
        let file = last.metadata().path.clone().unwrap();
        last.close(&ctx()).unwrap();
        let names = |folder: &Path| -> Vec<String> {
            let mut names: Vec<String> = std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        if path.ends_with("lines") {
            let left = names(file.parent().unwrap());
            assert_eq!(left.len(), 2, "{left:?}");
            assert!(left.iter().all(|name| name.ends_with(".jsonl")), "{left:?}");
            // The lock of an id that nobody asked for again may lie there: it reserves nothing.
            let folder = file.parent().and_then(Path::file_name).unwrap();
            let others: Vec<String> = names(&path).into_iter().filter(|name| **name != *folder).collect();
            assert!(others.iter().all(|name| name.ends_with(".lock")), "{others:?}");
        } else if path.is_dir() {
            assert_eq!(names(&path), ["last.sqlite", "stays.sqlite"]);
        } else {
            assert!(names(&path.with_file_name("sessions.sqlite.locks")).is_empty());
        }
    }
}
