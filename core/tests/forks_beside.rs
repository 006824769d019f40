//! Forks beside others: writers of the source, here and in another process, and makers of the same id.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use pisession::{
    Address, CreateOptions, Durability, ErrorKind, ForkOptions, ForkScope, Json, ListRead, NewEntry,
    Repository, RepositoryOptions, Session, SessionReader as _, Write, open_repository,
};

use support::{URIS, background, number, set, user, wait_until};

const TASK: &str = "PISESSION_FORKS_CHILD";

fn options() -> RepositoryOptions {
    RepositoryOptions { durability: Durability::Process, ..RepositoryOptions::default() }
}

fn tree(id: &str) -> ForkOptions {
    ForkOptions { scope: ForkScope::Tree, id: Some(id.to_owned()), ..ForkOptions::default() }
}

fn list() -> Address {
    Address::new("app", "list").unwrap()
}

/// A commit that leaves a trace in each kind of data.
fn one_more(session: &Session) {
    session
        .mutate(
            |mutator, ctx| {
                let count = number(mutator, "count").unwrap_or(0);
                let (id, parent) = (format!("e{count}"), count.checked_sub(1).map(|n| format!("e{n}")));
                mutator.commit(
                    &[
                        Write::Entry(NewEntry::message(&id, parent.as_deref(), &user(&"x".repeat(2000)))),
                        Write::SetValue(Address::new("pi.branch.tip", "main").unwrap(), Json::string(&id)),
                        Write::AppendList(list(), Json::of(&count)?),
                        set("count", count + 1),
                    ],
                    ctx,
                )
            },
            &background(),
        )
        .unwrap();
}

/// Every commit is in the fork with all of its traces, or with none; how many there are.
fn whole(fork: &Session) -> u64 {
    let ctx = background();
    let count = number(fork, "count").unwrap_or(0);
    assert_eq!(fork.stats(&ctx).unwrap().message_count, count);
    let (mut elements, mut cursor) = (0, None);
    loop {
        let page = ListRead { cursor, limit: 10_000, ..ListRead::default() };
        let page = fork.read_list(&list(), &page, &ctx).unwrap();
        elements += page.len() as u64;
        cursor = page.last().map(|last| last.seq);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(elements, count);
    let main = fork.branch("main", &ctx).unwrap();
    let path = main.map_or(0, |main| main.find_entries(&Default::default(), &ctx).unwrap().len());
    assert_eq!(path as u64, count);
    assert_eq!(fork.next_seq(&ctx).unwrap(), count * 4 + 1);
    count
}

fn repository(uri: &str, folder: &tempfile::TempDir) -> Repository {
    open_repository(&uri.replace("{folder}", folder.path().to_str().unwrap()), options()).unwrap()
}

fn with_id(id: &str) -> CreateOptions {
    CreateOptions { id: Some(id.to_owned()), ..CreateOptions::default() }
}

#[test]
fn forks_of_a_source_that_is_written_all_the_while_hold_whole_commits() {
    for uri in URIS {
        let folder = tempfile::tempdir().unwrap();
        let sources = repository(uri, &folder);
        let source = sources.create(&with_id("source"), &background()).unwrap();
        let enough = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| {
                while !enough.load(Ordering::Acquire) && number(&source, "count").unwrap_or(0) < 2_000 {
                    one_more(&source);
                }
            });
            for n in 0..12 {
                let before = number(&source, "count").unwrap_or(0);
                let fork = sources.fork(&source, &tree(&format!("fork-{n}")), &background()).unwrap();
                let count = whole(&fork.session);
                assert!(count >= before, "{uri}: {count} of {before} commits that were made before");
                // By its id, from the file or through the open one.
                let stored =
                    sources.fork((&sources, "source"), &tree(&format!("again-{n}")), &background()).unwrap();
                assert!(whole(&stored.session) >= count, "{uri}");
                fork.session.close(&background()).unwrap();
                stored.session.close(&background()).unwrap();
            }
            enough.store(true, Ordering::Release);
            writer.join().unwrap();
        });
        sources.close(&background()).unwrap();
    }
}

/// What the other process does; nothing in the test run itself.
#[test]
fn the_other_process() {
    let Ok(uri) = std::env::var(TASK) else { return };
    let session = open_repository(&uri, options()).unwrap().open("source", &background()).unwrap();
    // So many commits for each line: they go on while a fork is made, and do not outgrow slow forks.
    for line in std::io::stdin().lines() {
        line.unwrap();
        (0..200).for_each(|_| one_more(&session));
    }
    session.close(&background()).unwrap();
}

#[test]
fn forks_of_a_source_that_another_process_writes_hold_whole_commits() {
    for uri in &URIS[1..] {
        let folder = tempfile::tempdir().unwrap();
        let sources = repository(uri, &folder);
        sources.create(&with_id("source"), &background()).unwrap().close(&background()).unwrap();
        let mut other = Command::new(std::env::current_exe().unwrap())
            .args(["the_other_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(TASK, sources.uri())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut orders = other.stdin.take().unwrap();
        let mut fork = |n: u32| {
            orders.write_all(b"\n").unwrap();
            let fork = sources.fork((&sources, "source"), &tree(&format!("fork-{n}")), &background());
            let session = fork.unwrap().session;
            let count = whole(&session);
            session.close(&background()).unwrap();
            sources.delete(session.id(), &background()).unwrap();
            count
        };
        wait_until(|| fork(0) > 0);
        let first = fork(1);
        let mut last = first;
        wait_until(|| {
            let now = fork(2);
            assert!(now >= last, "{uri}");
            last = now;
            last > first + 20
        });
        // Its writer never noticed.
        drop(orders);
        assert!(other.wait().unwrap().success());
        sources.close(&background()).unwrap();
    }
}

#[test]
fn of_a_fork_and_a_create_of_one_id_one_is_made() {
    for uri in URIS {
        let folder = tempfile::tempdir().unwrap();
        let here = repository(uri, &folder);
        let source = here.create(&with_id("source"), &background()).unwrap();
        (0..50).for_each(|_| one_more(&source));
        let (mut forks, mut creates) = (0, 0);
        for n in 0..16 {
            let id = format!("d{n}");
            let (fork, create) = std::thread::scope(|threads| {
                let fork = threads.spawn(|| here.fork(&source, &tree(&id), &background()));
                if n % 2 == 0 {
                    std::thread::yield_now();
                }
                let create = threads.spawn(|| here.create(&with_id(&id), &background()));
                (fork.join().unwrap(), create.join().unwrap())
            });
            match (fork, create) {
                (Ok(fork), Err(error)) => {
                    assert_eq!(error.kind(), ErrorKind::SessionExists, "{uri}: {error}");
                    assert_eq!(whole(&fork.session), 50);
                    forks += 1;
                }
                (Err(error), Ok(created)) => {
                    assert_eq!(error.kind(), ErrorKind::SessionExists, "{uri}: {error}");
                    assert_eq!(created.next_seq(&background()).unwrap(), 1);
                    creates += 1;
                }
                (fork, create) => panic!("{uri}: {fork:?}, {create:?}"),
            }
        }
        assert_eq!(forks + creates, 16);
        let listed = here.list(&Default::default(), &background()).unwrap();
        assert_eq!(listed.len(), 17, "{uri}");
        here.close(&background()).unwrap();
    }
}

#[test]
fn a_fork_ends_with_its_repository_and_its_source() {
    for uri in URIS {
        let folder = tempfile::tempdir().unwrap();
        let here = repository(uri, &folder);
        let source = here.create(&with_id("source"), &background()).unwrap();
        one_more(&source);
        source.close(&background()).unwrap();
        let closed = here.fork(&source, &tree("a"), &background()).unwrap_err();
        assert_eq!(closed.kind(), ErrorKind::Closed, "{uri}");
        assert_eq!(here.list(&Default::default(), &background()).unwrap().len(), 1, "{uri}");
        let fork = here.fork((&here, "source"), &tree("a"), &background()).unwrap().session;
        here.close(&background()).unwrap();
        assert_eq!(fork.stats(&background()).unwrap_err().kind(), ErrorKind::Closed, "{uri}");
        let closed = here.fork(&source, &tree("b"), &background()).unwrap_err();
        assert_eq!(closed.kind(), ErrorKind::Closed, "{uri}");
    }
}

/// Peak memory is a process's own: the fork is made in one for it alone.
#[test]
fn the_memory_of_a_fork_follows_the_number_of_entries_and_not_their_size() {
    const CHILD: &str = "PISESSION_FORKS_MEMORY";
    const ENTRIES: u64 = 96;
    if let Ok(uris) = std::env::var(CHILD) {
        let (from, to) = uris.split_once(' ').unwrap();
        let source = open_repository(from, options()).unwrap();
        let destination = open_repository(to, options()).unwrap();
        let fork = destination.fork((&source, "source"), &tree("fork"), &background()).unwrap().session;
        assert_eq!(fork.stats(&background()).unwrap().message_count, ENTRIES);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(peak < 64 << 10, "{peak} KiB for {ENTRIES} MiB");
        return;
    }
    let mebibyte = user(&"x".repeat(1 << 20));
    let folder = tempfile::tempdir().unwrap();
    // Each kind of source and of destination once.
    for (uri, to) in [(URIS[1], URIS[1]), (URIS[2], URIS[3]), (URIS[3], URIS[2])] {
        let sources = repository(uri, &folder);
        let source = sources.create(&with_id("source"), &background()).unwrap();
        let main = source.create_branch("main", None, &background()).unwrap();
        (0..ENTRIES).for_each(|_| drop(main.append_message(&mebibyte, &background()).unwrap()));
        sources.close(&background()).unwrap();
        let apart = tempfile::tempdir().unwrap();
        let to = to.replace("{folder}", apart.path().to_str().unwrap());
        let forked = Command::new(std::env::current_exe().unwrap())
            .args(["the_memory_of_a_fork_follows_the_number_of_entries_and_not_their_size"])
            .args(["--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{} {to}", sources.uri()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&forked.stderr).into_owned();
        assert!(forked.status.success(), "{uri} to {to}: {said}");
    }
}
