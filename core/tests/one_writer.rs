//! A session has one writer, however its file is called and through whatever repository it is opened.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use pisession::{
    Context, CreateOptions, Durability, ErrorKind, Repository, RepositoryOptions, open_repository,
};

fn ctx() -> Context {
    Context::background()
}

fn repository(path: &Path) -> Repository {
    let options = RepositoryOptions { durability: Durability::Process, ..RepositoryOptions::default() };
    open_repository(&format!("sqlite:{}", path.display()), options).unwrap()
}

fn with_id(id: &str) -> CreateOptions {
    CreateOptions { id: Some(id.to_owned()), ..CreateOptions::default() }
}

#[test]
fn the_folder_and_the_file_as_a_container_meet_the_same_lock() {
    // The session's id, and what its file is called.
    for (id, name) in [
        ("a", "a.sqlite"),
        ("a", "copy.sqlite"),
        ("a/b", "~YQAvAGIA.sqlite"),
        ("a/b", "a.sqlite"),
        ("~", "~.sqlite"),
    ] {
        for made_as_container in [false, true] {
            let case = format!("{id} in {name}, {made_as_container}");
            let place = tempfile::tempdir().unwrap();
            let root = place.path().join("sessions");
            fs::create_dir(&root).unwrap();
            let file = root.join(name);
            let folder = repository(&root);
            if made_as_container {
                repository(&file).create(&with_id(id), &ctx()).unwrap().close(&ctx()).unwrap();
            } else {
                let session = folder.create(&with_id(id), &ctx()).unwrap();
                session.close(&ctx()).unwrap();
                fs::rename(session.metadata().path.as_ref().unwrap(), &file).unwrap();
            }
            let container = repository(&file);
            for (one, other) in [(&folder, &container), (&container, &folder)] {
                let session = one.open(id, &ctx()).unwrap();
                for refused in [other.open(id, &ctx()).map(drop), other.delete(id, &ctx())] {
                    assert_eq!(refused.unwrap_err().kind(), ErrorKind::SessionBusy, "{case}");
                }
                session.set_name(Some("one"), &ctx()).unwrap();
                let reader = other.open_read_only(id, &ctx()).unwrap();
                assert_eq!(reader.name(&ctx()).unwrap().as_deref(), Some("one"), "{case}");
                session.close(&ctx()).unwrap();
            }
            folder.delete(id, &ctx()).unwrap();
            let left: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert!(left.is_empty(), "{case}: {left:?}");
        }
    }
}

#[test]
fn a_link_that_leads_nowhere_is_no_repository() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    for name in ["link", "link.sqlite", "link.db"] {
        std::os::unix::fs::symlink(at("nothing"), at(name)).unwrap();
        for scheme in ["sqlite", "jsonl"] {
            let uri = format!("{scheme}:{}", at(name).display());
            let refused = open_repository(&uri, RepositoryOptions::default()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{uri}");
            assert_eq!(refused.path(), Some(at(name).as_path()), "{uri}");
        }
    }
    assert!(!at("nothing").exists());
}

#[test]
fn a_container_that_becomes_a_link_is_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let (real, link) = (place.path().join("real.db"), place.path().join("link.db"));
    let by_link = repository(&link);
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let by_name = repository(&real);
    let _session = by_name.create(&with_id("a"), &ctx()).unwrap();
    for refused in [
        by_link.open("a", &ctx()).map(drop),
        by_link.create(&with_id("b"), &ctx()).map(drop),
        by_link.delete("a", &ctx()),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::FileChanged);
    }
    // Opened again it is followed, and meets the lock.
    assert_eq!(repository(&link).open("a", &ctx()).unwrap_err().kind(), ErrorKind::SessionBusy);
}

#[test]
fn after_a_fault_a_container_is_written_again_once_all_its_sessions_were_closed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("c.db");
    let container = repository(&path);
    let one = container.create(&with_id("a"), &ctx()).unwrap();
    let other = container.create(&with_id("b"), &ctx()).unwrap();
    one.set_name(Some("kept"), &ctx()).unwrap();
    // Another library put a copy of the log in its place.
    let wal = place.path().join("c.db-wal");
    fs::copy(&wal, place.path().join("copy")).unwrap();
    fs::rename(place.path().join("copy"), &wal).unwrap();
    let fault = one.set_name(Some("lost"), &ctx()).unwrap_err();
    one.close(&ctx()).unwrap();
    let refused = [
        fault,
        container.open("a", &ctx()).map(drop).unwrap_err(),
        container.create(&with_id("c"), &ctx()).map(drop).unwrap_err(),
        container.delete("a", &ctx()).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::ForeignSqlite);
        assert!(error.hint().unwrap().contains("close every session of this file"), "{error}");
    }
    other.close(&ctx()).unwrap();
    let again = container.open("a", &ctx()).unwrap();
    again.set_name(Some("again"), &ctx()).unwrap();
    assert_eq!(again.name(&ctx()).unwrap().as_deref(), Some("again"));
}
