//! The library's own addresses: what may stand there, and how it is reached.

// Helpers outside of test functions fail by panicking, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use pisession::{Address, ErrorKind, ListRead, Value, ValueList};

use support::{background, json, on_every_session, user};

/// White space around a JSON text means nothing, and what is of the wrong kind is refused with it, too.
#[test]
fn white_space_around_what_is_set_means_nothing() {
    on_every_session(|session| {
        let ctx = background();
        let main = session.create_branch("main", None, &ctx).unwrap();
        let id = main.append_message(&user("hello"), &ctx).unwrap();
        let set = |namespace: &str, key: &str, text: &str| {
            session.set_value(&Address::new(namespace, key).unwrap(), &json(text), &ctx)
        };
        for (before, after) in [("", ""), (" ", ""), ("", "\t"), (" \t ", "  "), ("\n", "\r\n")] {
            let around = |text: &str| format!("{before}{text}{after}");
            set("pi.branch.tip", "main", &around("null")).unwrap();
            assert_eq!(main.tip_id(&ctx).unwrap(), None);
            set("pi.branch.tip", "main", &around(&format!("\"{id}\""))).unwrap();
            assert_eq!(main.tip_id(&ctx).unwrap().as_deref(), Some(id.as_str()));
            set("pi.session.name", "", &around("\"a name\"")).unwrap();
            assert_eq!(session.name(&ctx).unwrap().as_deref(), Some("a name"));
            set("pi.entry.label", &id, &around("\"a label\"")).unwrap();
            assert_eq!(session.get_label(&id, &ctx).unwrap().as_deref(), Some("a label"));
            for (namespace, key) in [("pi.branch.tip", "main"), ("pi.session.name", "")] {
                let error = set(namespace, key, &around("5")).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{namespace}");
            }
            let error = set("pi.branch.tip", "main", &around("\"nobody\"")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnknownTarget);
        }
        assert_eq!(session.check(&mut |_| (), &ctx).unwrap().len(), 0);
    });
}

#[test]
fn typed_addresses_are_deleted_as_they_are_set() {
    on_every_session(|session| {
        let ctx = background();
        let value: Value<u64> = Value::new("app", "number").unwrap();
        let list: ValueList<u64> = ValueList::new("app", "number").unwrap();
        let commit = |writes: &[pisession::Write]| {
            session.mutate(|mutator, ctx| mutator.commit(writes, ctx), &ctx).unwrap()
        };
        let both = || {
            let elements = list.read(session, &ListRead::default(), &ctx).unwrap();
            (value.get(session, &ctx).unwrap(), elements.len())
        };
        commit(&[value.set(&1).unwrap(), list.append(&1).unwrap(), list.append(&2).unwrap()]);
        assert_eq!(both(), (Some(1), 2));
        commit(&[value.delete()]);
        assert_eq!(both(), (None, 2));
        commit(&[value.set(&2).unwrap(), list.delete()]);
        assert_eq!(both(), (Some(2), 0));
    });
}
