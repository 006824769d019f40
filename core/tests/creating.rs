//! A session is made whole or not at all, whenever its maker gives up.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Instant;

use pisession::{
    Context, CreateOptions, Durability, ErrorKind, ListOptions, RepositoryOptions, open_repository,
};

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
