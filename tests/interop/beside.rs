//! The two at one file at a time. The reference takes no lock and looks at none.

use std::fs;

use pisession::{ErrorKind, OpenOptions, SessionReader as _};
use serde_json::json;

use crate::commits::commit;
use crate::peer::peer;
use crate::place::{CWD, EPOCH, Place, ctx, dump};

fn set(key: &str) -> String {
    format!(r#"[{{"kind":"value","op":"set","namespace":"app","key":"{key}","value":1}}]"#)
}

#[test]
fn our_reader_follows_the_reference() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    peer.does("create", place.on("live", json!({"cwd": CWD, "now": EPOCH})));
    let reader = place.repository.open_read_only("live", &ctx()).unwrap();
    for number in 0..20 {
        peer.does("commit", place.on("live", json!({"writes": set(&number.to_string())})));
        peer.does("compare", place.on("live", json!({"text": dump(&reader)})));
    }
    peer.does("close", place.on("live", json!({})));
}

/// Nothing is written over what the reference wrote while we had the session open.
#[test]
fn our_commit_is_refused_after_the_reference_wrote() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    let session = place.create("both");
    commit(&session, &set("ours")).unwrap();
    peer.does("open", place.on("both", json!({})));
    peer.does("commit", place.on("both", json!({"writes": set("theirs")})));
    peer.does("close", place.on("both", json!({})));
    let path = place.file("both");
    let before = fs::read(&path).unwrap();
    let refused = commit(&session, &set("ours too")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::FileChanged);
    assert_eq!(fs::read(&path).unwrap(), before);
    session.close(&ctx()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), before, "closing touches nothing, either");

    let session = place.open("both");
    commit(&session, &set("ours too")).unwrap();
    session.close(&ctx()).unwrap();
    place.agree(peer, "both");
}

/// The reference writes over what it does not know. Neither reads such a file any more, and `salvage` says
/// what is in it.
#[test]
fn a_reference_that_writes_on_after_us_damages_the_file() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    peer.does("create", place.on("both", json!({"cwd": CWD, "now": EPOCH})));
    let session = place.open("both");
    commit(&session, &set("ours")).unwrap();
    session.close(&ctx()).unwrap();
    peer.does("commit", place.on("both", json!({"writes": set("theirs")})));
    peer.does("close", place.on("both", json!({})));

    let refused = peer.ask("open", place.on("both", json!({}))).unwrap_err();
    assert!(refused.contains("Non-monotonic"), "{refused}");
    let refused = place.repository.open("both", &ctx()).unwrap_err();
    assert_eq!((refused.kind(), refused.line()), (ErrorKind::Corrupt, Some(3)));
    let salvage = OpenOptions { salvage: true, ..OpenOptions::default() };
    let session = place.repository.open_with("both", &salvage, &ctx()).unwrap();
    assert_eq!(session.gaps().unwrap().len(), 1);
    let ours = pisession::Address::new("app", "ours").unwrap();
    assert!(session.get_value(&ours, &ctx()).unwrap().is_some());
}

/// The reference appends by the file's name: a file that we put in its place meanwhile is gone on with.
#[test]
fn the_reference_goes_on_after_we_compacted_its_open_session() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    peer.does("create", place.on("compact", json!({"cwd": CWD, "now": EPOCH})));
    for _ in 0..10 {
        peer.does("commit", place.on("compact", json!({"writes": set("k")})));
    }
    let session = place.open("compact");
    session.compact(&ctx()).unwrap();
    session.close(&ctx()).unwrap();
    peer.does("commit", place.on("compact", json!({"writes": set("after")})));
    peer.does("close", place.on("compact", json!({})));
    place.agree(peer, "compact");
}

/// What we keep beside the sessions does not hide them from the reference, nor what it leaves from us.
#[test]
fn files_beside_the_sessions_are_no_sessions() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    let session = place.create("open");
    let folder = place.file("open").parent().unwrap().to_owned();
    let left = folder.join("2025-06-15T15-06-40-000Z_gone.jsonl.tmp");
    fs::write(&left, "{\"v\":4,\"kind\":\"header\"").unwrap();
    assert!(fs::read_dir(&folder).unwrap().count() > 2, "a lock is there as well");
    let listed = peer.does("list", json!({"root": place.root()}));
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(place.repository.list(&Default::default(), &ctx()).unwrap().len(), 1);
    // It reads beside us while the last line is whole.
    place.agree(peer, "open");
    commit(&session, &set("ours")).unwrap();
    place.agree(peer, "open");
    session.close(&ctx()).unwrap();
}
