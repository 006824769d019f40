//! A writer that would wait for itself is refused, whatever waits: a thread or a task.

// Helpers outside of test functions fail by panicking, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pisession::{Context, Error, ErrorKind, Json, Mutator, Session, SessionReader};

use support::{address, background, begun_elsewhere, increment, number, on_every_session, runtime, set};

/// Every call that needs the line.
fn writers(session: &Session) -> Vec<(&'static str, Result<(), Error>)> {
    let ctx = background();
    let place = address("nested");
    vec![
        ("begin_mutation", session.begin_mutation(&ctx).map(drop)),
        ("mutate", session.mutate(|_, _| Ok::<_, Error>(()), &ctx)),
        ("set_value", session.set_value(&place, &Json::null(), &ctx)),
        ("delete_value", session.delete_value(&place, &ctx)),
        ("append_list", session.append_list(&place, &Json::null(), &ctx)),
        ("delete_list", session.delete_list(&place, &ctx)),
        ("set_name", session.set_name(Some("n"), &ctx)),
        ("set_label", session.set_label("e", Some("l"), &ctx)),
        ("create_branch", session.create_branch("nested", None, &ctx).map(drop)),
        ("close", session.close(&ctx)),
    ]
}

fn assert_all_nested(session: &Session) {
    for (name, result) in writers(session) {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::NestedMutation, "{name}");
    }
}

#[test]
fn a_writer_inside_a_mutation_of_its_thread_is_refused() {
    on_every_session(|session| {
        session
            .mutate(
                |mutator, ctx| {
                    assert_all_nested(session);
                    mutator.commit(&[set("a", 1)], ctx)?;
                    assert_all_nested(&session.clone());
                    Ok::<_, Error>(())
                },
                &background(),
            )
            .unwrap();
        assert_eq!(session.next_seq(&background()).unwrap(), 2);
        increment(session).unwrap();
    });
}

#[test]
fn a_scope_belongs_to_the_thread_that_last_used_it() {
    on_every_session(|session| {
        let mutation = begun_elsewhere(session);
        mutation.stats(&background()).unwrap();
        assert_all_nested(session);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                mutation.commit(&[], &background()).unwrap();
                assert_all_nested(session);
            });
        });
        let soon = Context::background().with_timeout(Duration::from_millis(5));
        assert_eq!(session.set_name(None, &soon).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    });
}

#[test]
fn a_blocking_writer_inside_an_async_mutation_is_refused() {
    on_every_session(|session| {
        let nested = |session: Session| async move {
            let plan = |_: &Mutator, _: &Context| {
                assert_all_nested(&session);
                Ok::<_, Error>(())
            };
            session.mutate_async(plan, &background()).await.unwrap();
        };
        runtime().block_on(nested(session.clone()));
        let runtime = runtime();
        runtime.block_on(runtime.spawn(nested(session.clone()))).unwrap();
        increment(session).unwrap();
    });
}

#[test]
fn an_async_writer_inside_a_scope_of_its_task_is_refused() {
    on_every_session(|session| {
        let nested = |session: Session| async move {
            let ctx = background();
            let mutation = session.begin_mutation_async(&ctx).await.unwrap();
            let refused = session.begin_mutation_async(&ctx).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NestedMutation);
            // Use marks the thread as well and must not hide the task.
            mutation.stats(&ctx).unwrap();
            let refused = session.mutate_async(|_, _| Ok::<_, Error>(()), &ctx).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NestedMutation);
            assert_all_nested(&session);
            mutation.end();
            drop(session.begin_mutation_async(&ctx).await.unwrap());
        };
        runtime().block_on(nested(session.clone()));
        let runtime = runtime();
        runtime.block_on(runtime.spawn(nested(session.clone()))).unwrap();
    });
}

#[test]
fn another_task_of_the_same_thread_waits_its_turn() {
    on_every_session(|session| {
        let runtime = runtime();
        runtime.block_on(async {
            let ctx = background();
            let mutation = session.begin_mutation_async(&ctx).await.unwrap();
            mutation.commit(&[set("count", 1)], &ctx).unwrap();
            let other = session.clone();
            let started = Arc::new(AtomicBool::new(false));
            let note = Arc::clone(&started);
            let waiter = tokio::spawn(async move {
                note.store(true, Ordering::Relaxed);
                let plan = |mutator: &Mutator, ctx: &Context| {
                    let next = number(mutator, "count").unwrap_or(0) + 1;
                    mutator.commit(&[set("count", next)], ctx)
                };
                other.mutate_async(plan, &background()).await.unwrap();
            });
            while !started.load(Ordering::Relaxed) {
                tokio::task::yield_now().await;
            }
            assert!(!waiter.is_finished());
            mutation.end();
            waiter.await.unwrap();
        });
        assert_eq!(number(session, "count"), Some(2));
    });
}
