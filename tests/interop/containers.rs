//! SQLite containers of the reference, read here.

use std::path::PathBuf;

use pisession::{ErrorKind, Repository, open_repository};
use serde_json::{Value, json};

use crate::commits::{self, commit};
use crate::peer::{Peer, peer};
use crate::place::{EPOCH, ctx, dump};

/// A container of the reference's, in a folder of its own.
struct Container {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Container {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: folder.path().join("theirs.sqlite"), _folder: folder }
    }

    fn on(&self, id: &str, more: Value) -> Value {
        let mut command = json!({"root": self.path, "id": id});
        command.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        command
    }

    fn repository(&self) -> Repository {
        open_repository(&format!("sqlite:{}", self.path.display()), Default::default()).unwrap()
    }

    /// We have the same of a session that the reference has open.
    #[track_caller]
    fn agree(&self, peer: &mut Peer, id: &str) {
        let session =
            self.repository().open_read_only(id, &ctx()).unwrap_or_else(|error| panic!("{error:?}"));
        peer.does("compare", self.on(id, json!({"text": dump(&session)})));
    }
}

/// Each commit is read while the reference has the container open: by a session that was opened before, and by
/// a new one.
#[test]
fn each_commit_to_a_container_is_read_here() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let container = Container::new();
    peer.does("create", container.on("live", json!({"now": EPOCH})));
    let reader = container.repository().open("live", &ctx()).unwrap();
    for (number, writes) in commits::all().into_iter().enumerate() {
        let now = EPOCH + 1000 * number as i64;
        peer.does("commit", container.on("live", json!({"writes": writes, "now": now})));
        container.agree(peer, "live");
        peer.does("compare", container.on("live", json!({"text": dump(&reader)})));
    }
    let refused = commit(&reader, commits::all()[1]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    peer.does("close", container.on("live", json!({})));

    // Closed as well, with nothing left beside it by our reading.
    reader.close(&ctx()).unwrap();
    let session = container.repository().open("live", &ctx()).unwrap();
    let text = dump(&session);
    session.close(&ctx()).unwrap();
    peer.does("open", container.on("live", json!({})));
    peer.does("compare", container.on("live", json!({"text": text})));
    peer.does("close", container.on("live", json!({})));
}

#[test]
fn sessions_and_forks_of_one_container_are_listed_and_read_here() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let container = Container::new();
    peer.does("create", container.on("source", json!({"now": EPOCH})));
    let all = commits::all();
    // The last one takes the tip from a lane: such a session does not fork.
    for writes in &all[..all.len() - 1] {
        peer.does("commit", container.on("source", json!({"writes": writes, "now": EPOCH})));
    }
    let forks = [
        ("tree", json!({"scope": "tree"})),
        ("main", json!({"scope": "branch", "branch": "main"})),
        ("before", json!({"scope": "branch", "branch": "main", "entryId": "e-3", "position": "before"})),
    ];
    for (id, mut options) in forks {
        options["source"] = json!("source");
        peer.does("fork", container.on(id, options));
        container.agree(peer, id);
        peer.does(
            "appendMessage",
            container.on(id, json!({"name": "main", "message": r#"{"role":"user"}"#})),
        );
        container.agree(peer, id);
    }
    let theirs = peer.does("list", json!({"root": container.path}));
    let mut theirs: Vec<&str> =
        theirs.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
    let listed = container.repository().list(&Default::default(), &ctx()).unwrap();
    let mut ours: Vec<&str> = listed.iter().map(|item| item.metadata.as_ref().unwrap().id.as_str()).collect();
    theirs.sort_unstable();
    ours.sort_unstable();
    assert_eq!(ours, theirs);
    assert_eq!(ours.len(), 4);
    for id in ["source", "tree", "main", "before"] {
        peer.does("close", container.on(id, json!({})));
    }
}

/// What a killed process left in the log beside the container is read.
#[test]
fn a_container_of_a_killed_reference_is_read_here() {
    if peer().is_none() {
        return;
    }
    let container = Container::new();
    let mut killed = Peer::start().unwrap();
    killed.does("create", container.on("killed", json!({"now": EPOCH})));
    for writes in commits::all() {
        killed.does("commit", container.on("killed", json!({"writes": writes, "now": EPOCH})));
    }
    killed.kill();
    let session = container.repository().open("killed", &ctx()).unwrap();
    let text = dump(&session);
    session.close(&ctx()).unwrap();
    let mut peer = peer().unwrap();
    let peer = peer.as_mut().unwrap();
    peer.does("open", container.on("killed", json!({})));
    peer.does("compare", container.on("killed", json!({"text": text})));
    peer.does("close", container.on("killed", json!({})));
}
