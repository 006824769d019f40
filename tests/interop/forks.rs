//! Forks of one program, opened by the other.

use serde_json::{Value, json};

use crate::commits::{self, commit};
use crate::peer::{Peer, peer};
use crate::place::{EPOCH, Place, ctx};

/// What is forked: the options of the reference.
fn cuts() -> Vec<Value> {
    vec![
        json!({"scope": "tree"}),
        json!({"scope": "branch", "branch": "main"}),
        json!({"scope": "branch", "branch": "aside"}),
        json!({"scope": "branch", "branch": "main", "entryId": "e-3"}),
        json!({"scope": "branch", "branch": "main", "entryId": "e-3", "position": "before"}),
        json!({"scope": "branch", "branch": "main", "entryId": "e-1", "position": "before"}),
    ]
}

/// A session with two lanes, one of them busy, a branch of data only, and every kind of value.
fn source(place: &Place) {
    let session = place.create("source");
    let all = commits::all();
    // The last one takes the tip from a lane: such a session does not fork.
    for writes in &all[..all.len() - 1] {
        commit(&session, writes).unwrap();
    }
    session.close(&ctx()).unwrap();
}

#[test]
fn forks_of_the_reference_are_opened_here_and_gone_on_with() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    source(&place);
    for (number, mut options) in cuts().into_iter().enumerate() {
        let id = format!("fork-{number}");
        options["source"] = json!("source");
        peer.does("fork", place.on(&id, options));
        peer.does("close", place.on(&id, json!({})));
        place.agree(peer, &id);
        assert_eq!(place.open(&id).metadata().parent_session_id.as_deref(), Some("source"));
        go_on(&place, peer, &id);
    }
    // The source was only read.
    place.agree(peer, "source");
}

/// Both write to it, and agree.
fn go_on(place: &Place, peer: &mut Peer, id: &str) {
    let session = place.open(id);
    let branch = session.branches(&ctx()).unwrap().into_iter().next().unwrap().name;
    let message = r#"{"role":"user","content":"more"}"#;
    let branch_here = session.branch(&branch, &ctx()).unwrap().unwrap();
    branch_here.append_message(&pisession::Json::parse(message).unwrap(), &ctx()).unwrap();
    session.close(&ctx()).unwrap();
    peer.does("open", place.on(id, json!({})));
    peer.does("appendMessage", place.on(id, json!({"name": branch, "message": message, "now": EPOCH})));
    peer.does("close", place.on(id, json!({})));
    place.agree(peer, id);
}
