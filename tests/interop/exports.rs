//! Files of version 3 that we export, opened by the reference.

use pisession::{Export, ExportOptions, ExportScope, Session};
use serde_json::{Value, json};

use crate::commits::{self, commit};
use crate::peer::{Peer, peer};
use crate::place::{EPOCH, Place, ctx, dump};

/// What version 3 can hold: a lane, a divergence, summaries, a label, a name.
const WRITES: &str = r#"[
{"kind":"entry","entry":{"id":"m-1","parentId":null,"type":"message","message":{"role":"user","content":"é 𝄞","timestamp":1}}},
{"kind":"entry","entry":{"id":"m-2","parentId":"m-1","type":"message","message":{"role":"assistant","content":[],"api":"x","provider":"p","model":"m","usage":{"input":10,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":12,"cost":{"input":0.1,"output":0.2,"cacheRead":0,"cacheWrite":0,"total":0.30000000000000004}},"stopReason":"stop","timestamp":2}}},
{"kind":"entry","entry":{"id":"x-1","parentId":"m-2","type":"custom","customType":"note","data":{"n":[1e-7]}}},
{"kind":"entry","entry":{"id":"x-2","parentId":"x-1","type":"custom","customType":"bare"}},
{"kind":"entry","entry":{"id":"c-1","parentId":"x-2","type":"compaction","summary":"so far","retainedTail":[{"role":"assistant","content":[],"api":"x","provider":"p","model":"m","usage":{"input":10,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":12,"cost":{"input":0.1,"output":0.2,"cacheRead":0,"cacheWrite":0,"total":0.30000000000000004}},"stopReason":"stop","timestamp":2}],"tokensBefore":100,"fromHook":false}},
{"kind":"entry","entry":{"id":"d-1","parentId":"m-1","type":"message","message":{"role":"custom","customType":"t","content":"aside","display":true,"timestamp":3}}},
{"kind":"entry","entry":{"id":"s-1","parentId":"c-1","type":"branch_summary","fromId":"d-1","summary":"left","fromHook":false}},
{"kind":"entry","entry":{"id":"m-3","parentId":"s-1","type":"message","message":{"role":"user","content":"end","timestamp":4}}},
{"kind":"value","op":"set","namespace":"pi.branch.tip","key":"main","value":"m-3"},
{"kind":"value","op":"set","namespace":"pi.branch.tip","key":"aside","value":"d-1"},
{"kind":"value","op":"set","namespace":"pi.entry.label","key":"m-1","value":"start"},
{"kind":"value","op":"set","namespace":"pi.session.name","key":"","value":"a name"},
{"kind":"value","op":"set","namespace":"pi.lane.config","key":"main","value":{"model":{"provider":"p","modelId":"m"},"thinkingLevel":"high","activeToolNames":["read"]}},
{"kind":"value","op":"set","namespace":"pi.lane.state","key":"main","value":{"currentOperationId":null,"lastOperationId":null,"inbox":[]}}
]"#;

/// The reference reads the file as a session of its own, makes of it what we make of it, and writes on.
#[test]
fn an_exported_session_is_opened_by_the_reference() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let source = Place::new();
    let session = source.create("source");
    commit(&session, WRITES).unwrap();
    for scope in [ExportScope::Tree, ExportScope::Branch("main".into()), ExportScope::Branch("aside".into())]
    {
        let place = Place::new();
        let export = export(&place, &session, scope.clone());
        let imported = Place::new();
        let path = export.path.unwrap();
        pisession::import_file(path, &imported.repository, &Default::default(), &ctx()).unwrap();
        upgrade(peer, &place).unwrap();
        place.agree(peer, "source");
        let read = |place: &Place| dump(&place.repository.open_read_only("source", &ctx()).unwrap());
        let compared = peer.ask("compareImports", json!({"ours": read(&imported), "theirs": read(&place)}));
        assert_eq!(compared, Ok(Value::Null), "{scope:?}");
        // What it kept is what we had, but for what an old file has in other words: ids, times, tips.
        if scope == ExportScope::Tree {
            let had = entries(&session);
            assert_eq!(entries(&place.open("source")), had);
        }
    }
}

/// A compaction that keeps nothing names itself, as the coding agent writes it. The reference's import knows
/// only those that keep something.
#[test]
fn named_difference_of_a_compaction_that_keeps_nothing() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let source = Place::new();
    let session = source.create("source");
    for writes in &commits::all()[..12] {
        commit(&session, writes).unwrap();
    }
    let place = Place::new();
    export(&place, &session, ExportScope::Tree);
    let refused = upgrade(peer, &place).unwrap_err();
    assert!(refused.contains("firstKeptEntryId is not on its parent branch"), "{refused}");
}

/// Exports to where the reference looks for sessions.
fn export(place: &Place, session: &Session, scope: ExportScope) -> Export {
    let path = place.root().join("--w--").join("2025-06-15T15-06-40-000Z_source.jsonl");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    session.export_to(&path, &ExportOptions { scope, ..ExportOptions::default() }, &ctx()).unwrap()
}

/// Lets the reference open the file and commit to it; else why it does not.
fn upgrade(peer: &mut Peer, place: &Place) -> Result<(), String> {
    let mark = r#"[{"kind":"value","op":"set","namespace":"app","key":"mark","value":1}]"#;
    peer.ask("open", place.on("source", json!({})))?;
    peer.does("commit", place.on("source", json!({"writes": mark, "now": EPOCH})));
    peer.does("close", place.on("source", json!({})));
    Ok(())
}

/// Type and payload of the entries, in order.
fn entries(session: &Session) -> Vec<String> {
    let order = pisession::Order::Ascending;
    let query = pisession::EntryQuery { order, ..Default::default() };
    let entries = session.find_entries(&query, &ctx()).unwrap();
    let text = |entry: &pisession::Entry| format!("{} {}", entry.entry_type, entry.payload);
    entries.iter().filter(|entry| entry.entry_type.name() != "branch_summary").map(text).collect()
}
