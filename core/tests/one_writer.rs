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
