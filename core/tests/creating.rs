//! A session is made whole or not at all, whenever its maker gives up; and only at a time that files can hold.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;
use std::time::Instant;

use pisession::{
    Context, CreateOptions, Durability, ErrorKind, IdGenerator, ListOptions, RepositoryOptions,
    open_repository,
};
use support::{Place, ToldClock, URIS, background, counting_options};

const TRIES: u32 = 120;

#[test]
fn a_create_that_ran_out_of_time_leaves_no_session() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = Context::background();
    for kind in ["sqlite:sessions", "sqlite:sessions.db", "jsonl:lines"] {
        let (scheme, name) = kind.split_once(':').unwrap();
        let uri = format!("{scheme}:{}", folder.path().join(name).display());
        let options = RepositoryOptions { durability: Durability::Process, ..RepositoryOptions::default() };
        let repository = open_repository(&uri, options).unwrap();
        let create = |id: &str, ctx: &Context| {
            repository.create(&CreateOptions { id: Some(id.to_owned()), ..CreateOptions::default() }, ctx)
        };
        let at = Instant::now();
        for n in 0..5 {
            create(&format!("warm-{n}"), &ctx).unwrap().close(&ctx).unwrap();
        }
        // Each try has a little more time, up to about twice of what it takes.
        let step = at.elapsed() * 2 / (5 * TRIES);
        let mut expected = 5;
        for n in 0..TRIES {
            let id = format!("session-{n}");
            match create(&id, &ctx.clone().with_timeout(step * n)) {
                Ok(session) => {
                    session.close(&ctx).unwrap();
                    expected += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{kind}: {error}");
                    assert!(!error.to_string().contains("nothing was changed"), "{error}");
                    let there = repository.open(&id, &ctx).map(drop);
                    assert_eq!(there.unwrap_err().kind(), ErrorKind::UnknownSession, "{kind} {n}: {error}");
                }
            }
        }
        assert_eq!(repository.list(&ListOptions::default(), &ctx).unwrap().len(), expected, "{kind}");
    }
}

/// A file with such a time would be refused by whoever opens it next.
#[test]
fn times_that_no_file_can_hold_are_refused_with_nothing_written() {
    for uri in URIS {
        let clock = Arc::new(ToldClock::default());
        let place = Place::new(uri, RepositoryOptions { clock: clock.clone(), ..Default::default() });
        let create = |id: &str, created_at| {
            let options = CreateOptions { id: Some(id.to_owned()), created_at, ..CreateOptions::default() };
            place.repository.create(&options, &background())
        };
        let session = create("kept", None).unwrap();
        for time in [i64::MIN, -1, 253_402_300_800_000, 1 << 53, i64::MAX] {
            clock.tell(time);
            let refused = session.set_name(Some("a name"), &background()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{uri} {time}");
            assert_eq!(create("none", None).unwrap_err().kind(), ErrorKind::InvalidArgument, "{uri} {time}");
            clock.tell(1);
            assert_eq!(
                create("none", Some(time)).unwrap_err().kind(),
                ErrorKind::InvalidArgument,
                "{uri} {time}"
            );
        }
        for time in [0, 253_402_300_799_999] {
            clock.tell(time);
            session.create_branch(&time.to_string(), None, &background()).unwrap();
            create(&time.to_string(), None).unwrap().close(&background()).unwrap();
        }
        session.close(&background()).unwrap();
        // In memory a session is gone once it is closed.
        if *uri != "memory:" {
            let session = place.repository.open("kept", &background()).unwrap();
            assert_eq!(
                (session.name(&background()).unwrap(), session.branches(&background()).unwrap().len()),
                (None, 2)
            );
        }
        let listed = place.repository.list(&ListOptions::default(), &background()).unwrap();
        assert!(listed.iter().all(|item| item.problem.is_none()), "{uri} {listed:?}");
        assert!(listed.iter().all(|item| item.metadata.as_ref().unwrap().id != "none"), "{uri}");
    }
}

/// Only the library's own ids are new without a look at what is there.
#[test]
fn an_id_that_a_given_generator_makes_again_is_refused() {
    for uri in URIS.iter().filter(|uri| **uri != "memory:") {
        let folder = tempfile::tempdir().unwrap();
        let uri = uri.replace("{folder}", folder.path().to_str().unwrap());
        let create = |clock: Arc<ToldClock>| {
            let options = RepositoryOptions { clock, ..counting_options() };
            open_repository(&uri, options).unwrap().create(&CreateOptions::default(), &background())
        };
        let session = create(Arc::default()).unwrap();
        session.close(&background()).unwrap();
        let later = ToldClock::default();
        later.tell(1_000);
        assert_eq!(create(Arc::new(later)).unwrap_err().kind(), ErrorKind::SessionExists, "{uri}");
    }
}

/// Makes the id it was given.
#[derive(Debug)]
struct OneId(&'static str);

impl IdGenerator for OneId {
    fn next(&self, _timestamp: Option<i64>) -> String {
        self.0.to_owned()
    }
}

#[test]
fn an_id_that_is_none_is_refused_also_from_a_generator() {
    for (uri, id) in URIS.iter().flat_map(|uri| [(uri, ""), (uri, "a\0b")]) {
        let ids: Option<Arc<dyn IdGenerator>> = Some(Arc::new(OneId(id)));
        let place = Place::new(uri, RepositoryOptions { ids, ..RepositoryOptions::default() });
        let refused = place.repository.create(&CreateOptions::default(), &background()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidId, "{uri} {id:?}");
        assert!(place.repository.list(&ListOptions::default(), &background()).unwrap().is_empty(), "{uri}");
    }
}
