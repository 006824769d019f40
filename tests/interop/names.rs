//! Where the two put sessions, and what they list.

use std::path::PathBuf;

use pisession::{CreateOptions, ErrorKind, ListOptions};
use serde_json::{Value, json};

use crate::peer::{Peer, peer};
use crate::place::{CWD, EPOCH, Place, ctx};

/// Ids that are awkward in file names.
const IDS: &[&str] = &[
    "plain",
    "with space",
    "a/b\\c:d",
    "..",
    "~!*'()",
    "%41",
    "100%",
    "ünï-\u{1f33f}",
    "a\"b'c",
    "new\nline\ttab\u{1}",
    "-dash",
    "name.jsonl",
    "UPPER_and_lower",
];

/// Working folders that are awkward in folder names.
const FOLDERS: &[&str] = &[
    "/",
    "/a/b",
    "/a-b",
    "/a/b/",
    "/a/./b/../c",
    "//double//slash",
    "/with space/ünï",
    "/back\\slash:colon",
    "/--dashes--",
    "/..",
];

#[test]
fn files_and_folders_have_the_same_names() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let ids = IDS.iter().map(|id| (*id, CWD, EPOCH + 7));
    let folders = FOLDERS.iter().map(|folder| ("session", *folder, EPOCH));
    let times = [0, 1, 999, 4_102_444_800_000, 253_402_300_799_999].map(|time| ("session", CWD, time));
    for (id, cwd, time) in ids.chain(folders).chain(times) {
        let (ours, theirs) = (Place::new(), Place::new());
        ours.tell(time);
        let options =
            CreateOptions { id: Some(id.into()), cwd: Some(cwd.into()), ..CreateOptions::default() };
        let session =
            ours.repository.create(&options, &ctx()).unwrap_or_else(|error| panic!("{id:?} {error:?}"));
        let our_path = session.metadata().path.clone().unwrap();
        session.close(&ctx()).unwrap();
        let their_path = peer.does("create", theirs.on(id, json!({"cwd": cwd, "now": time})));
        peer.does("close", theirs.on(id, json!({})));
        let their_path = PathBuf::from(their_path.as_str().unwrap());
        assert_eq!(
            our_path.strip_prefix(ours.root()).unwrap(),
            their_path.strip_prefix(theirs.root()).unwrap(),
            "{id:?} in {cwd:?} at {time}"
        );
        assert_eq!(std::fs::read(our_path).unwrap(), std::fs::read(their_path).unwrap(), "{id:?} in {cwd:?}");
        assert_eq!(listed_by_both(peer, &ours), 1, "{id:?} in {cwd:?}");
        assert_eq!(listed_by_both(peer, &theirs), 1, "{id:?} in {cwd:?}");
    }
}

#[test]
fn the_two_list_the_same_sessions() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    for (number, id) in IDS.iter().enumerate() {
        let now = EPOCH + 1000 * number as i64;
        place.tell(now);
        let (cwd, parent) = (FOLDERS[number % FOLDERS.len()], (number % 3 == 0).then_some("a parent"));
        if number % 2 == 0 {
            let options = CreateOptions {
                id: Some((*id).to_owned()),
                cwd: Some(cwd.to_owned()),
                parent_session_id: parent.map(str::to_owned),
                ..CreateOptions::default()
            };
            place.repository.create(&options, &ctx()).unwrap().close(&ctx()).unwrap();
        } else {
            let command = match parent {
                Some(parent) => json!({"cwd": cwd, "now": now, "parentSessionId": parent}),
                None => json!({"cwd": cwd, "now": now}),
            };
            peer.does("create", place.on(id, command));
            peer.does("close", place.on(id, json!({})));
        }
    }
    assert_eq!(listed_by_both(peer, &place), IDS.len());
}

/// One id belongs to one session of a repository, whichever program made it.
#[test]
fn an_id_of_the_other_is_taken() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    place.create("ours").close(&ctx()).unwrap();
    let refused = peer.ask("create", place.on("ours", json!({"cwd": CWD, "now": EPOCH}))).unwrap_err();
    assert!(refused.contains("already exists"), "{refused}");
    peer.does("create", place.on("theirs", json!({"cwd": CWD, "now": EPOCH})));
    peer.does("close", place.on("theirs", json!({})));
    let options = CreateOptions { id: Some("theirs".into()), cwd: Some(CWD.into()), ..Default::default() };
    assert_eq!(place.repository.create(&options, &ctx()).unwrap_err().kind(), ErrorKind::SessionExists);
}

/// What each does otherwise here, and why: ids are unique in a whole repository of ours, but only in a folder
/// of the reference's; and it takes a file for another of the same id if its name only ends so.
#[test]
fn named_differences_of_ids() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    place.create("x_same").close(&ctx()).unwrap();
    let refused = peer.ask("create", place.on("same", json!({"cwd": CWD, "now": EPOCH})));
    assert!(refused.unwrap_err().contains("already exists"));
    place.create("same").close(&ctx()).unwrap();

    // One id in two working folders: the reference makes both, and we ask which is meant.
    peer.does("create", place.on("same", json!({"cwd": "/elsewhere", "now": EPOCH})));
    peer.does("close", place.on("same", json!({})));
    assert_eq!(place.repository.open("same", &ctx()).unwrap_err().kind(), ErrorKind::AmbiguousSession);
    let listed = place.repository.list(&ListOptions::default(), &ctx()).unwrap();
    let both: Vec<_> =
        listed.iter().filter_map(|item| item.metadata.as_ref()).filter(|m| m.id == "same").collect();
    assert_eq!(both.len(), 2);
    for metadata in both {
        place.repository.open(metadata, &ctx()).unwrap().close(&ctx()).unwrap();
    }
}

/// A folder of Windows is no folder below the current one, and names of files have four digits for the year.
#[test]
fn named_differences_of_folders_and_times() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    let create = |id: &str, cwd: &str| {
        let options =
            CreateOptions { id: Some(id.into()), cwd: Some(cwd.into()), ..CreateOptions::default() };
        place.repository.create(&options, &ctx())
    };
    for (id, cwd) in [("drive", r"C:\Users\x"), ("share", r"\\server\x")] {
        let session = create(id, cwd).unwrap();
        assert_eq!(session.metadata().cwd.as_deref(), Some(cwd));
        session.close(&ctx()).unwrap();
        let theirs = format!("{id}-theirs");
        peer.does("create", place.on(&theirs, json!({"cwd": cwd, "now": EPOCH})));
        peer.does("close", place.on(&theirs, json!({})));
        let session = place.open(&theirs);
        assert_eq!(session.metadata().cwd, Some(format!("{}/{cwd}", place.root().display())));
    }
    let year_10000 = 253_402_300_800_000;
    place.tell(year_10000);
    assert_eq!(create("later", CWD).unwrap_err().kind(), ErrorKind::InvalidArgument);
    peer.does("create", place.on("later", json!({"cwd": CWD, "now": year_10000})));
    peer.does("close", place.on("later", json!({})));
    assert_eq!(listed_by_both(peer, &place), 5);
}

/// Both list the same sessions with the same metadata; how many.
fn listed_by_both(peer: &mut Peer, place: &Place) -> usize {
    let theirs = peer.does("list", json!({"root": place.root()}));
    let mut theirs: Vec<Value> = theirs.as_array().unwrap().clone();
    for item in &mut theirs {
        item.as_object_mut().unwrap().remove("modifiedAt");
    }
    let listed = place.repository.list(&ListOptions::default(), &ctx()).unwrap();
    let ours: Vec<Value> = listed
        .into_iter()
        .map(|item| {
            let metadata = item.metadata.unwrap_or_else(|| panic!("{:?}", item.problem));
            let mut ours = json!({
                "id": metadata.id,
                "createdAt": metadata.created_at,
                "storageVersion": metadata.storage_version,
                "cwd": metadata.cwd,
                "path": metadata.path,
            });
            for (name, value) in [
                ("parentSessionId", metadata.parent_session_id),
                ("legacyParentSessionPath", metadata.legacy_parent_session_path),
            ] {
                if let Some(value) = value {
                    ours[name] = value.into();
                }
            }
            ours
        })
        .collect();
    assert_eq!(ours, theirs);
    ours.len()
}
