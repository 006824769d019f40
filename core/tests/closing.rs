//! Closing: what it waits for, for how long, and what is left when it may not wait any longer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pisession::{
    Context, CreateOptions, Durability, Error, ErrorKind, ListOptions, Repository, RepositoryOptions,
    open_repository,
};

const ENDLESS: &str =
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";

fn ctx() -> Context {
    Context::background()
}

fn no_time() -> Context {
    ctx().with_timeout(Duration::from_millis(1))
}

fn cancelled() -> Context {
    let ctx = Context::new();
    ctx.cancel();
    ctx
}

fn repository(uri: &str) -> Repository {
    let options = RepositoryOptions { durability: Durability::Process, ..RepositoryOptions::default() };
    open_repository(uri, options).unwrap()
}

fn with_id(id: &str) -> CreateOptions {
    CreateOptions { id: Some(id.to_owned()), ..CreateOptions::default() }
}

/// A folder and a container of SQLite, not made yet.
fn sqlite() -> (tempfile::TempDir, [String; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let uris =
        ["sessions", "sessions.db"].map(|name| format!("sqlite:{}", folder.path().join(name).display()));
    (folder, uris)
}

/// A repository of every kind, not made yet.
fn everywhere() -> (tempfile::TempDir, Vec<String>) {
    let (folder, uris) = sqlite();
    let lines = format!("jsonl:{}", folder.path().join("lines").display());
    (folder, [vec!["memory:".to_owned(), lines], uris.to_vec()].concat())
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not come about");
        std::thread::yield_now();
    }
}

/// How many descriptors of the file this process has.
fn descriptors(file: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.filter(|entry| {
        std::fs::read_link(entry.as_ref().unwrap().path()).is_ok_and(|leads_to| leads_to == file)
    })
    .count()
}

fn locks_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(locks_in(&path));
        } else if path.extension().is_some_and(|ending| ending == "lock") {
            found.push(path);
        }
    }
    found
}

fn assert_is_closing(error: &Error, kind: ErrorKind, case: &str) {
    assert_eq!(error.kind(), kind, "{case}: {error}");
    assert!(error.hint().unwrap().contains("close it again"), "{case}: {error}");
    assert_eq!(error.id(), Some("a"), "{case}");
}

#[test]
fn closing_waits_for_a_query_no_longer_than_it_may_and_can_be_done_again() {
    let (_folder, uris) = sqlite();
    for uri in uris {
        let repository = repository(&uri);
        let session = repository.create(&with_id("a"), &ctx()).unwrap();
        let file = session.metadata().path.clone().unwrap().canonicalize().unwrap();
        let before = descriptors(&file);
        let of_query = Context::new();
        std::thread::scope(|threads| {
            let query = threads.spawn(|| session.query(ENDLESS, &[], &of_query).map(drop));
            wait_until("the query", || descriptors(&file) > before);
            assert_is_closing(&session.close(&no_time()).unwrap_err(), ErrorKind::DeadlineExceeded, &uri);
            assert_is_closing(&session.close(&cancelled()).unwrap_err(), ErrorKind::Cancelled, &uri);
            assert_is_closing(&repository.close(&no_time()).unwrap_err(), ErrorKind::DeadlineExceeded, &uri);
            // It takes no new work, and is still locked.
            assert_eq!(session.name(&ctx()).unwrap_err().kind(), ErrorKind::Closed, "{uri}");
            assert_eq!(session.set_name(None, &ctx()).unwrap_err().kind(), ErrorKind::Closed, "{uri}");
            let other = self::repository(&uri);
            assert_eq!(other.open("a", &ctx()).unwrap_err().kind(), ErrorKind::SessionBusy, "{uri}");
            // One that waits keeps no other from giving up.
            let patient = threads.spawn(|| session.close(&ctx()));
            assert_is_closing(&session.close(&cancelled()).unwrap_err(), ErrorKind::Cancelled, &uri);
            let of_host = of_query.clone();
            let asking = ctx().with_interrupt(move || {
                of_host.cancel();
                false
            });
            session.close(&asking).unwrap();
            patient.join().unwrap().unwrap();
            assert_eq!(query.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled, "{uri}");
            session.close(&cancelled()).unwrap();
            other.open("a", &ctx()).unwrap().close(&ctx()).unwrap();
        });
    }
}

#[test]
fn a_close_that_gives_up_on_a_mutation_says_what_it_left() {
    let (_folder, uris) = everywhere();
    for uri in uris {
        let session = repository(&uri).create(&with_id("a"), &ctx()).unwrap();
        let mutation = session.begin_mutation(&ctx()).unwrap();
        std::thread::scope(|threads| {
            let given_up = threads.spawn(|| session.close(&no_time()).unwrap_err());
            assert_is_closing(&given_up.join().unwrap(), ErrorKind::DeadlineExceeded, &uri);
        });
        assert_eq!(session.set_name(None, &ctx()).unwrap_err().kind(), ErrorKind::Closed, "{uri}");
        // What had begun goes on.
        mutation.commit(&[], &ctx()).unwrap();
        drop(mutation);
        session.close(&no_time()).unwrap();
    }
}

#[test]
fn of_many_closes_none_returns_before_the_session_is_released() {
    let (folder, uris) = everywhere();
    for uri in uris {
        let repository = repository(&uri);
        for _ in 0..20 {
            let session = repository.create(&CreateOptions::default(), &ctx()).unwrap();
            session.set_name(Some("name"), &ctx()).unwrap();
            std::thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| {
                        session.close(&ctx()).unwrap();
                        assert_eq!(locks_in(folder.path()), Vec::<PathBuf>::new(), "{uri}");
                    });
                }
            });
        }
    }
}

#[test]
fn a_closed_repository_makes_opens_lists_and_deletes_nothing() {
    let (_folder, uris) = everywhere();
    for uri in uris {
        let repository = repository(&uri);
        let clone = repository.clone();
        let session = repository.create(&with_id("a"), &ctx()).unwrap();
        for _ in 0..2 {
            repository.close(&ctx()).unwrap();
            let refused = [
                clone.create(&with_id("b"), &ctx()).map(drop),
                clone.create(&CreateOptions::default(), &ctx()).map(drop),
                clone.open("a", &ctx()).map(drop),
                clone.open_read_only("a", &ctx()).map(drop),
                clone.list(&ListOptions::default(), &ctx()).map(drop),
                clone.delete("a", &ctx()),
                session.name(&ctx()).map(drop),
            ];
            for result in refused {
                assert_eq!(result.unwrap_err().kind(), ErrorKind::Closed, "{uri}");
            }
        }
        if uri != "memory:" {
            let again = self::repository(&uri);
            assert_eq!(again.list(&ListOptions::default(), &ctx()).unwrap().len(), 1, "{uri}");
        }
    }
}

#[test]
fn what_is_made_or_opened_while_the_repository_closes_is_closed_with_it() {
    let (folder, uris) = everywhere();
    for uri in uris {
        for round in 0..10 {
            let repository = repository(&uri);
            let id = format!("kept-{round}");
            repository.create(&with_id(&id), &ctx()).unwrap().close(&ctx()).unwrap();
            std::thread::scope(|threads| {
                let made: Vec<_> = (0..3)
                    .map(|thread| {
                        let (repository, id) = (&repository, &id);
                        threads.spawn(move || {
                            let mut sessions = Vec::new();
                            loop {
                                let next = match thread {
                                    0 => repository.open_read_only(id, &ctx()),
                                    _ => repository.create(&CreateOptions::default(), &ctx()),
                                };
                                match next {
                                    Ok(session) => sessions.push(session),
                                    Err(error) => {
                                        assert_eq!(error.kind(), ErrorKind::Closed);
                                        return sessions;
                                    }
                                }
                            }
                        })
                    })
                    .collect();
                for _ in 0..round {
                    std::thread::yield_now();
                }
                repository.close(&ctx()).unwrap();
                assert_eq!(locks_in(folder.path()), Vec::<PathBuf>::new(), "{uri}");
                for session in made.into_iter().flat_map(|thread| thread.join().unwrap()) {
                    assert_eq!(session.name(&ctx()).unwrap_err().kind(), ErrorKind::Closed, "{uri}");
                }
            });
        }
    }
}

#[test]
fn of_several_errors_the_first_keeps_all_it_says() {
    let (_folder, uris) = everywhere();
    for uri in uris {
        let repository = repository(&uri);
        let sessions = ["a", "b"].map(|id| repository.create(&with_id(id), &ctx()).unwrap());
        let mutations = sessions.each_ref().map(|session| session.begin_mutation(&ctx()).unwrap());
        std::thread::scope(|threads| {
            let error = threads.spawn(|| repository.close(&no_time()).unwrap_err()).join().unwrap();
            assert!(error.hint().is_some_and(|hint| hint.contains("close it again")), "{uri}: {error}");
            assert!(matches!(error.id(), Some("a" | "b")), "{uri}: {error}");
            assert!(error.message().contains("1 more"), "{uri}: {error}");
        });
        drop(mutations);
        repository.close(&ctx()).unwrap();
    }
}
