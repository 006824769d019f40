//! The library's own addresses: what may stand there, and how it is reached.

// Helpers outside of test functions fail by panicking, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use pisession::{
    Address, Error, ErrorKind, ListRead, SessionReader as _, Value, ValueList, Write, addresses,
};

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
        let commit =
            |writes: &[Write]| session.mutate(|mutator, ctx| mutator.commit(writes, ctx), &ctx).unwrap();
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

/// Namespace and key of each of the library's own addresses.
#[test]
fn each_address_of_the_library_stands_where_it_is_declared() {
    let frames: ValueList<u64> = addresses::assistant_frames("op", "entry").unwrap();
    let table = [
        (addresses::branch_tip("main").unwrap().address().clone(), "pi.branch.tip", "main"),
        (addresses::branch_tip_inventory_prefix(), "pi.branch.tip", ""),
        (addresses::lane_config("main").unwrap(), "pi.lane.config", "main"),
        (addresses::lane_state("main").unwrap(), "pi.lane.state", "main"),
        (addresses::operation_result("op").unwrap(), "pi.result", "op"),
        (addresses::operation_meta("op").unwrap(), "pi.op.meta", "op"),
        (addresses::operation_state("op").unwrap(), "pi.op.state", "op"),
        (addresses::tool_args("op", "step", 3).unwrap(), "pi.op.tool_args", "op:step:3"),
        (addresses::tool_memo("op", "call", "a:b").unwrap(), "pi.op.tool_memo", "op:call:a:b"),
        (addresses::preparation("op", "task").unwrap(), "pi.op.preparation", "op:task"),
        (addresses::pending_entry("entry").unwrap(), "pi.pending.entry", "entry"),
        (addresses::tool_output("op", "call").unwrap(), "pi.pending.tool_output", "op:call"),
        (frames.address().clone(), "pi.pending.assistant_frame", "op:entry"),
        (addresses::session_name().address().clone(), "pi.session.name", ""),
        (addresses::entry_label("entry").unwrap().address().clone(), "pi.entry.label", "entry"),
    ];
    for (address, namespace, key) in &table {
        assert_eq!((address.namespace(), address.key()), (*namespace, *key));
        assert!(address.is_reserved());
    }
    on_every_session(|session| {
        let ctx = background();
        // What is declared may be written: a value at each, but for the frames and the tips of nothing.
        for (address, namespace, key) in &table {
            let value = json(if namespace.ends_with("tip") { "null" } else { "\"text\"" });
            let set = session.set_value(address, &value, &ctx).map_err(|error| error.kind());
            let appended = session.append_list(address, &value, &ctx).map_err(|error| error.kind());
            let (expected_set, expected_appended) = match *namespace {
                "pi.pending.assistant_frame" => (Err(ErrorKind::ReservedAddress), Ok(())),
                "pi.branch.tip" if key.is_empty() => {
                    (Err(ErrorKind::InvalidBranch), Err(ErrorKind::ReservedAddress))
                }
                _ => (Ok(()), Err(ErrorKind::ReservedAddress)),
            };
            assert_eq!((set, appended), (expected_set, expected_appended), "{address}");
        }
    });
}

/// What cannot be a name or an id, in each place of each key.
#[test]
fn addresses_are_not_made_of_what_is_no_name_or_id() {
    use addresses::*;
    let kind = |made: Result<(), Error>| made.unwrap_err().kind();
    for bad in ["", "a\0b"] {
        for made in [branch_tip(bad).map(drop), lane_config(bad).map(drop), lane_state(bad).map(drop)] {
            assert_eq!(kind(made), ErrorKind::InvalidBranch);
        }
        for made in [
            operation_result(bad),
            operation_meta(bad),
            operation_state(bad),
            tool_args(bad, "step", 0),
            tool_args("op", bad, 0),
            tool_memo(bad, "call", "name"),
            tool_memo("op", bad, "name"),
            tool_memo("op", "call", bad),
            preparation(bad, "task"),
            preparation("op", bad),
            pending_entry(bad),
            tool_output(bad, "call"),
            tool_output("op", bad),
            assistant_frames::<u64>(bad, "entry").map(|list| list.address().clone()),
            assistant_frames::<u64>("op", bad).map(|list| list.address().clone()),
            entry_label(bad).map(|label| label.address().clone()),
        ] {
            assert_eq!(kind(made.map(drop)), ErrorKind::InvalidId);
        }
    }
    // Two keys must never become one.
    for made in [tool_args("a:b", "c", 0), tool_args("a", "b:c", 0), tool_memo("a", "b:c", "d")] {
        assert_eq!(kind(made.map(drop)), ErrorKind::InvalidId);
    }
}

#[test]
fn typed_addresses_read_and_write_what_the_session_does() {
    on_every_session(|session| {
        let ctx = background();
        let commit = |write: Result<Write, Error>| {
            session.mutate(|mutator, ctx| mutator.commit(&[write?], ctx).map(drop), &ctx)
        };
        let tip = addresses::branch_tip("main").unwrap();
        assert_eq!(tip.get(session, &ctx).unwrap(), None);
        commit(tip.set(&None)).unwrap();
        let main = session.branch("main", &ctx).unwrap().unwrap();
        assert_eq!((main.tip_id(&ctx).unwrap(), tip.get(session, &ctx).unwrap()), (None, Some(None)));
        let id = main.append_message(&user("hello"), &ctx).unwrap();
        assert_eq!(tip.get(session, &ctx).unwrap(), Some(Some(id.clone())));
        assert_eq!(commit(tip.set(&Some("nobody".into()))).unwrap_err().kind(), ErrorKind::UnknownTarget);
        commit(addresses::session_name().set(&"name".into())).unwrap();
        commit(addresses::entry_label(&id).unwrap().set(&"label".into())).unwrap();
        assert_eq!(session.name(&ctx).unwrap().as_deref(), Some("name"));
        assert_eq!(session.get_label(&id, &ctx).unwrap().as_deref(), Some("label"));
        session.set_label(&id, None, &ctx).unwrap();
        assert_eq!(addresses::entry_label(&id).unwrap().get(session, &ctx).unwrap(), None);
        let tips = session.scan_values(&addresses::branch_tip_inventory_prefix(), &ctx).unwrap();
        assert_eq!(tips.len(), 1);
        // What is no id has no label.
        assert_eq!(session.get_label("", &ctx).unwrap(), None);
        commit(Ok(tip.delete())).unwrap();
        assert!(session.branch("main", &ctx).unwrap().is_none());
    });
}
