//! The mutation line under concurrency, through the public surface, on every backend.

// Helpers outside of test functions fail by panicking, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use pisession::{
    Address, BranchScan, Context, CreateOptions, Error, ErrorKind, Json, ListRead, NewEntry, Session,
    SessionReader, Write,
};

use support::{
    address, background, begun_elsewhere, increment, json, number, on_every_backend, on_every_session,
    runtime, set, user, wait_until,
};

fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut TaskContext::from_waker(Waker::noop()))
}

#[test]
fn read_modify_write_from_100_threads_gives_100() {
    on_every_session(|session| {
        std::thread::scope(|threads| {
            for _ in 0..100 {
                threads.spawn(|| increment(session).unwrap());
            }
        });
        assert_eq!(number(session, "count"), Some(100));
        assert_eq!(session.next_seq(&background()).unwrap(), 101);
    });
}

#[test]
fn read_modify_write_from_100_tasks_and_threads_gives_200() {
    on_every_session(|session| {
        let tasks = async {
            let handles: Vec<_> = (0..100)
                .map(|_| {
                    let session = session.clone();
                    tokio::spawn(async move {
                        let plan = |mutator: &pisession::Mutator, ctx: &Context| {
                            let next = number(mutator, "count").unwrap_or(0) + 1;
                            mutator.commit(&[set("count", next)], ctx)
                        };
                        session.mutate_async(plan, &background()).await.unwrap()
                    })
                })
                .collect();
            for handle in handles {
                handle.await.unwrap();
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(|| runtime().block_on(tasks));
            for _ in 0..100 {
                threads.spawn(|| increment(session).unwrap());
            }
        });
        assert_eq!(number(session, "count"), Some(200));
    });
}

#[test]
fn appends_from_many_threads_to_one_branch_make_one_chain() {
    on_every_session(|session| {
        let ctx = background();
        let branch = session.create_branch("main", None, &ctx).unwrap();
        std::thread::scope(|threads| {
            for thread in 0..8 {
                let branch = &branch;
                threads.spawn(move || {
                    for _ in 0..25 {
                        branch.append_message(&user(&thread.to_string()), &background()).unwrap();
                    }
                });
            }
        });
        let path = branch.find_entries(&BranchScan::default(), &ctx).unwrap();
        assert_eq!(path.len(), 200);
        assert!(path.windows(2).all(|pair| pair[0].parent_id.as_ref() == Some(&pair[1].id)));
    });
}

#[test]
fn concurrent_creations_of_a_branch_have_one_winner() {
    on_every_session(|session| {
        let (won, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|threads| {
            for _ in 0..64 {
                threads.spawn(|| match session.create_branch("main", None, &background()) {
                    Ok(_) => won.fetch_add(1, Ordering::Relaxed),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::BranchExists);
                        lost.fetch_add(1, Ordering::Relaxed)
                    }
                });
            }
        });
        assert_eq!((won.into_inner(), lost.into_inner()), (1, 63));
        assert_eq!(session.next_seq(&background()).unwrap(), 2);
    });
}

#[test]
fn get_or_create_inside_a_mutation_creates_once() {
    on_every_session(|session| {
        let created = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for _ in 0..64 {
                threads.spawn(|| {
                    let get_or_create = |mutator: &pisession::Mutator, ctx: &Context| {
                        if let Some(there) = number(mutator, "made") {
                            return Ok::<_, Error>(there);
                        }
                        created.fetch_add(1, Ordering::Relaxed);
                        mutator.commit(&[set("made", 7)], ctx)?;
                        Ok(7)
                    };
                    assert_eq!(session.mutate(get_or_create, &background()).unwrap(), 7);
                });
            }
        });
        assert_eq!(created.into_inner(), 1);
    });
}

#[test]
fn concurrent_creations_of_a_session_have_one_winner() {
    on_every_backend(|repository| {
        let options = CreateOptions { id: Some("one".to_owned()), ..CreateOptions::default() };
        let made: Vec<Result<Session, Error>> = std::thread::scope(|threads| {
            let all: Vec<_> =
                (0..16).map(|_| threads.spawn(|| repository.create(&options, &background()))).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        for error in made.iter().filter_map(|made| made.as_ref().err()) {
            assert!(matches!(error.kind(), ErrorKind::SessionExists | ErrorKind::SessionBusy), "{error:?}");
        }
    });
}

#[test]
fn the_second_enters_after_the_first_has_ended_and_not_when_it_has_committed() {
    on_every_session(|session| {
        let first = begun_elsewhere(session);
        let ctx = background();
        let mut second = pin!(session.begin_mutation_async(&ctx));
        assert!(poll_once(second.as_mut()).is_pending());
        std::thread::scope(|threads| {
            threads.spawn(|| first.commit(&[set("a", 1)], &background()).unwrap());
        });
        assert_eq!(number(session, "a"), Some(1));
        assert!(poll_once(second.as_mut()).is_pending());
        first.end();
        assert!(matches!(poll_once(second.as_mut()), Poll::Ready(Ok(_))));
    });
}

#[test]
fn turns_come_in_the_order_asked_and_cancelled_waiters_leave_the_queue() {
    on_every_session(|session| {
        let holder = begun_elsewhere(session);
        let ctx = background();
        let cancelled_ctx = Context::new();
        let mut one = pin!(session.begin_mutation_async(&ctx));
        let mut dropped = Box::pin(session.begin_mutation_async(&ctx));
        let mut cancelled = pin!(session.begin_mutation_async(&cancelled_ctx));
        let mut two = pin!(session.begin_mutation_async(&ctx));
        assert!(poll_once(one.as_mut()).is_pending());
        assert!(poll_once(dropped.as_mut()).is_pending());
        assert!(poll_once(cancelled.as_mut()).is_pending());
        assert!(poll_once(two.as_mut()).is_pending());
        drop(dropped);
        cancelled_ctx.cancel();
        let Poll::Ready(Err(error)) = poll_once(cancelled.as_mut()) else { panic!("not cancelled") };
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        holder.end();
        assert!(poll_once(two.as_mut()).is_pending());
        let Poll::Ready(Ok(first)) = poll_once(one.as_mut()) else { panic!("not granted") };
        assert!(poll_once(two.as_mut()).is_pending());
        drop(first);
        assert!(matches!(poll_once(two.as_mut()), Poll::Ready(Ok(_))));
    });
}

#[test]
fn a_waiter_that_is_dropped_after_its_grant_passes_the_turn_on() {
    on_every_session(|session| {
        let holder = begun_elsewhere(session);
        let ctx = background();
        let mut granted = Box::pin(session.begin_mutation_async(&ctx));
        let mut next = pin!(session.begin_mutation_async(&ctx));
        assert!(poll_once(granted.as_mut()).is_pending());
        assert!(poll_once(next.as_mut()).is_pending());
        holder.end();
        drop(granted);
        assert!(matches!(poll_once(next.as_mut()), Poll::Ready(Ok(_))));
    });
}

#[test]
fn a_blocking_waiter_is_cancelled_by_its_context_and_by_its_deadline() {
    on_every_session(|session| {
        let holder = begun_elsewhere(session);
        let ctx = Context::new();
        let (send, waiting) = mpsc::channel();
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| {
                send.send(()).unwrap();
                session.mutate(|_, _| -> Result<(), Error> { panic!("it must not run") }, &ctx)
            });
            waiting.recv().unwrap();
            ctx.cancel();
            assert_eq!(waiter.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
        });
        let soon = Context::background().with_timeout(Duration::from_millis(5));
        let error = session.set_name(Some("n"), &soon).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
        holder.end();
        assert_eq!(session.next_seq(&background()).unwrap(), 1);
        increment(session).unwrap();
    });
}

#[test]
fn reads_pass_an_open_mutation_and_see_nothing_before_its_commit_and_all_after() {
    on_every_session(|session| {
        let ctx = background();
        let mutation = session.begin_mutation(&ctx).unwrap();
        let read = || {
            std::thread::scope(|threads| {
                let reads = threads.spawn(|| {
                    let list = session.read_list(&address("log"), &ListRead::default(), &background());
                    let entry = session.get_entry("e", &background()).unwrap();
                    (number(session, "a"), list.unwrap().len(), entry.map(|entry| entry.seq))
                });
                reads.join().unwrap()
            })
        };
        assert_eq!(read(), (None, 0, None));
        mutation
            .commit(
                &[
                    set("a", 1),
                    Write::AppendList(address("log"), Json::null()),
                    Write::Entry(NewEntry::custom("e", None, "x", None)),
                ],
                &ctx,
            )
            .unwrap();
        assert_eq!(read(), (Some(1), 1, Some(3)));
        mutation.end();
        assert_eq!(read(), (Some(1), 1, Some(3)));
    });
}

#[test]
fn readers_never_see_part_of_a_commit() {
    on_every_session(|session| {
        let ctx = background();
        let done = AtomicBool::new(false);
        let rounds = 300;
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    let mut seen = 0;
                    while !done.load(Ordering::Acquire) {
                        seen = check_whole(session, seen);
                    }
                    assert_eq!(check_whole(session, seen), rounds);
                });
            }
            let mut parent = None;
            for round in 1..=rounds {
                let (first, second) = (format!("{round}-a"), format!("{round}-b"));
                let writes = [
                    set("pair/a", round),
                    Write::Entry(NewEntry::custom(&first, parent.as_deref(), "x", None)),
                    Write::AppendList(address("log"), json("1")),
                    Write::Entry(NewEntry::custom(&second, Some(&first), "x", None)),
                    Write::AppendList(address("log"), json("2")),
                    Write::SetValue(Address::new("pi.branch.tip", "main").unwrap(), Json::string(&second)),
                    set("pair/b", round),
                ];
                session.mutate(|mutator, ctx| mutator.commit(&writes, ctx), &ctx).unwrap();
                parent = Some(second);
            }
            done.store(true, Ordering::Release);
        });
    });
}

/// Each single read must be whole; the round seen, which never goes back.
fn check_whole(session: &Session, before: u64) -> u64 {
    let ctx = background();
    let pair = session.scan_values(&address("pair/"), &ctx).unwrap();
    let rounds: Vec<u64> = pair.iter().map(|stored| stored.value.read().unwrap()).collect();
    assert!(
        matches!(rounds[..], [] | [_, _]) && rounds.windows(2).all(|pair| pair[0] == pair[1]),
        "{rounds:?}"
    );
    let last = ListRead { order: pisession::Order::Descending, limit: 1, ..ListRead::default() };
    if let Some(newest) = session.read_list(&address("log"), &last, &ctx).unwrap().pop() {
        assert_eq!(newest.value.as_str(), "2");
    }
    if let Some(branch) = session.branch("main", &ctx).unwrap() {
        let path =
            branch.find_entries(&BranchScan { limit: Some(3), ..BranchScan::default() }, &ctx).unwrap();
        assert!(path[0].id.ends_with("-b") && path[1].id.ends_with("-a"), "{path:?}");
    }
    let round = rounds.first().copied().unwrap_or(0);
    assert!(round >= before, "{round} after {before}");
    round
}

#[test]
fn a_panic_in_the_function_frees_the_line_and_reaches_the_caller() {
    on_every_session(|session| {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            session.mutate(
                |mutator, ctx| -> Result<(), Error> {
                    mutator.commit(&[set("a", 1)], ctx)?;
                    panic!("the function's own")
                },
                &background(),
            )
        }));
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"the function's own"));
        assert_eq!(number(session, "a"), Some(1));
        increment(session).unwrap();
    });
}

#[test]
fn a_thread_that_unwinds_frees_the_scope_it_held() {
    on_every_session(|session| {
        let result = std::thread::scope(|threads| {
            let unwinding = threads.spawn(|| {
                let _mutation = session.begin_mutation(&background()).unwrap();
                panic!("unwinds with the scope held");
            });
            unwinding.join()
        });
        assert!(result.is_err());
        increment(session).unwrap();
    });
}

#[test]
fn an_error_of_the_function_reaches_the_caller_and_its_commit_stays() {
    on_every_session(|session| {
        #[derive(Debug)]
        struct Own(&'static str);
        impl From<Error> for Own {
            fn from(_: Error) -> Self {
                Self("the library's")
            }
        }
        let result: Result<(), Own> = session.mutate(
            |mutator, ctx| {
                mutator.commit(&[set("a", 1)], ctx)?;
                Err(Own("its own"))
            },
            &background(),
        );
        assert_eq!(result.unwrap_err().0, "its own");
        assert_eq!(number(session, "a"), Some(1));
        increment(session).unwrap();
    });
}

#[test]
fn a_dropped_scope_frees_the_line_and_the_last_handle_may_be_gone_before() {
    on_every_backend(|repository| {
        let session = repository.create(&CreateOptions::default(), &background()).unwrap();
        let id = session.id().to_owned();
        drop(session.begin_mutation(&background()).unwrap());
        increment(&session).unwrap();
        let mutation = session.begin_mutation(&background()).unwrap();
        drop(session);
        mutation.commit(&[set("late", 1)], &background()).unwrap();
        let busy = repository.open(&id, &background()).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::SessionBusy);
        drop(mutation);
        let session = repository.open(&id, &background()).unwrap();
        assert_eq!((number(&session, "count"), number(&session, "late")), (Some(1), Some(1)));
    });
}

#[test]
fn of_two_concurrent_commits_of_a_mutation_one_is_refused() {
    on_every_session(|session| {
        let mutation = session.begin_mutation(&background()).unwrap();
        let results: Vec<Result<(), Error>> = std::thread::scope(|threads| {
            let all: Vec<_> = (0..2)
                .map(|_| threads.spawn(|| mutation.commit(&[set("a", 1)], &background()).map(drop)))
                .collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let refused: Vec<ErrorKind> =
            results.into_iter().filter_map(Result::err).map(|error| error.kind()).collect();
        assert_eq!(refused, [ErrorKind::CommitAttempted]);
        assert_eq!(session.next_seq(&background()).unwrap(), 2);
    });
}

#[test]
fn close_waits_for_the_end_and_refuses_those_who_wait() {
    on_every_session(|session| {
        let mutation = begun_elsewhere(session);
        let ctx = background();
        let ran = AtomicBool::new(false);
        let plan = |_: &pisession::Mutator, _: &Context| {
            ran.store(true, Ordering::Relaxed);
            Ok::<_, Error>(())
        };
        let mut queued = pin!(session.mutate_async(plan, &ctx));
        assert!(poll_once(queued.as_mut()).is_pending());
        let closed = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                session.close(&background()).unwrap();
                closed.store(true, Ordering::Release);
            });
            wait_until(|| match poll_once(queued.as_mut()) {
                Poll::Ready(Err(error)) => error.kind() == ErrorKind::Closed,
                Poll::Ready(Ok(())) => panic!("the function ran"),
                Poll::Pending => false,
            });
            assert_eq!(session.set_name(None, &ctx).unwrap_err().kind(), ErrorKind::Closed);
            assert!(!closed.load(Ordering::Acquire));
            // The scope that is waited for reads and commits as before.
            assert_eq!(number(&*mutation, "last"), None);
            mutation.commit(&[set("last", 1)], &ctx).unwrap();
            assert_eq!(number(&*mutation, "last"), Some(1));
            assert_eq!(mutation.stats(&ctx).unwrap().message_count, 0);
            assert!(mutation.get_entries(&["nobody"], &ctx).unwrap().is_empty());
            assert!(!closed.load(Ordering::Acquire));
            mutation.end();
        });
        assert!(closed.load(Ordering::Acquire) && !ran.load(Ordering::Relaxed));
        session.close(&ctx).unwrap();
        assert_eq!(session.stats(&ctx).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(mutation.stats(&ctx).unwrap_err().kind(), ErrorKind::MutationEnded);
    });
}

#[test]
fn close_is_bounded_by_its_context_and_can_be_called_again() {
    on_every_session(|session| {
        let mutation = begun_elsewhere(session);
        let soon = Context::background().with_timeout(Duration::from_millis(5));
        assert_eq!(session.close(&soon).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        let ctx = Context::new();
        std::thread::scope(|threads| {
            let closing = threads.spawn(|| session.close(&ctx));
            ctx.cancel();
            assert_eq!(closing.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
        });
        assert_eq!(session.begin_mutation(&background()).unwrap_err().kind(), ErrorKind::Closed);
        mutation.commit(&[set("a", 1)], &background()).unwrap();
        drop(mutation);
        session.close(&background()).unwrap();
    });
}

#[test]
fn a_close_that_returned_has_released_the_session() {
    on_every_backend(|repository| {
        let created = repository.create(&CreateOptions::default(), &background()).unwrap();
        let id = created.id().to_owned();
        let mut session = created;
        for _ in 0..50 {
            let reopened = std::thread::scope(|threads| {
                threads.spawn(|| session.close(&background()).unwrap());
                session.close(&background()).unwrap();
                repository.open(&id, &background())
            });
            session = reopened.unwrap();
        }
    });
}

#[test]
fn many_closes_at_once_all_come_back() {
    on_every_session(|session| {
        let mutation = begun_elsewhere(session);
        let started = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    started.fetch_add(1, Ordering::Relaxed);
                    session.close(&background()).unwrap();
                });
            }
            wait_until(|| started.load(Ordering::Relaxed) == 8);
            mutation.end();
        });
        assert_eq!(session.stats(&background()).unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn an_open_scope_hinders_no_other_session() {
    on_every_backend(|repository| {
        let one = repository.create(&CreateOptions::default(), &background()).unwrap();
        let other = repository.create(&CreateOptions::default(), &background()).unwrap();
        let mutation = one.begin_mutation(&background()).unwrap();
        increment(&other).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| increment(&other).unwrap());
        });
        mutation.commit(&[set("count", 5)], &background()).unwrap();
        increment(&other).unwrap();
        mutation.end();
        assert_eq!((number(&one, "count"), number(&other, "count")), (Some(5), Some(3)));
    });
}
