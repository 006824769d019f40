//! Forks of one program, opened by the other.

use pisession::{ForkOptions, ForkPoint, ForkPosition, ForkScope, SessionReader as _};
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

/// The same fork by either is the same file.
#[test]
fn forks_of_ours_are_those_of_the_reference() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    for options in cuts() {
        let (ours, theirs) = (Place::new(), Place::new());
        source(&ours);
        source(&theirs);
        let now = EPOCH + 5000;
        ours.tell(now);
        let text = |name: &str| options[name].as_str().map(str::to_owned);
        let point = ForkPoint {
            branch: text("branch"),
            entry: text("entryId"),
            position: if text("position").is_some() { ForkPosition::Before } else { ForkPosition::At },
        };
        let scope = if options["scope"] == "tree" { ForkScope::Tree } else { ForkScope::Branch(point) };
        let fork = ForkOptions { scope, id: Some("fork".to_owned()), ..ForkOptions::default() };
        let made = ours.repository.fork((&ours.repository, "source"), &fork, &ctx()).unwrap();
        assert!(made.left_out.is_empty(), "{options}");
        made.session.close(&ctx()).unwrap();
        let mut command = options.clone();
        command["source"] = json!("source");
        command["now"] = json!(now);
        peer.does("fork", theirs.on("fork", command));
        peer.does("close", theirs.on("fork", json!({})));
        let read = |place: &Place| std::fs::read_to_string(place.file("fork")).unwrap();
        assert_eq!(read(&ours), read(&theirs), "{options}");
        ours.agree(peer, "fork");
        go_on(&ours, peer, "fork");
    }
}

/// A branch that is no lane, and the path to an entry that no branch reaches: the reference forks neither, and
/// opens what we made of them. A number that JavaScript cannot hold stays what it is; in its own fork it does
/// not.
#[test]
fn named_differences_of_forks() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    source(&place);
    let session = place.open("source");
    commit(
        &session,
        r#"[{"kind":"value","op":"set","namespace":"app","key":"large","value":9007199254740993}]"#,
    )
    .unwrap();
    session.create_branch("data only", Some("e-1"), &ctx()).unwrap();
    session.close(&ctx()).unwrap();
    let points = [
        ("data", ForkPoint { branch: Some("data only".to_owned()), ..ForkPoint::default() }),
        ("loose", ForkPoint { entry: Some("r-1".to_owned()), ..ForkPoint::default() }),
    ];
    for (id, point) in points {
        let fork = ForkOptions {
            scope: ForkScope::Branch(point),
            id: Some(id.to_owned()),
            ..ForkOptions::default()
        };
        let made = place.repository.fork((&place.repository, "source"), &fork, &ctx()).unwrap();
        made.session.close(&ctx()).unwrap();
        place.agree(peer, id);
        go_on(&place, peer, id);
    }
    let options = json!({"source": "source", "scope": "branch", "branch": "data only"});
    let refused = peer.ask("fork", place.on("refused", options)).unwrap_err();
    assert!(refused.contains("not a configured AgentLane"), "{refused}");

    let fork = ForkOptions { scope: ForkScope::Tree, id: Some("ours".to_owned()), ..ForkOptions::default() };
    let made = place.repository.fork((&place.repository, "source"), &fork, &ctx()).unwrap();
    made.session.close(&ctx()).unwrap();
    peer.does("fork", place.on("theirs", json!({"source": "source", "scope": "tree"})));
    peer.does("close", place.on("theirs", json!({})));
    for (id, number) in [("ours", "9007199254740993"), ("theirs", "9007199254740992")] {
        let session = place.open(id);
        let large = pisession::Address::new("app", "large").unwrap();
        assert_eq!(session.get_value(&large, &ctx()).unwrap().unwrap().value.as_str(), number);
        session.close(&ctx()).unwrap();
        place.agree(peer, id);
    }
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
