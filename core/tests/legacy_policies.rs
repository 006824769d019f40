//! What a write to a session of version 1 to 3 does: it is refused, goes to a copy, or the file is upgraded.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests, which clippy does not take for tests

mod legacy_support;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use legacy_support::{
    HEADER, Old, content, ctx, entries, memory, message, read_only, repositories, salvage, sha256, shared,
    warnings,
};
use pisession::{
    BranchScan, ErrorKind, ImportOptions, Json, LegacyPolicy, OpenOptions, Repository, Session,
    SessionReader, UsageScan, import_file, open_file, open_repository,
};

#[test]
fn commits_are_refused_and_the_file_stays_as_it_is() {
    let old = Old::of(&[&message("b1", None, 1)]);
    let before = (sha256(std::fs::read(&old.path).unwrap()), std::fs::metadata(&old.path).unwrap().mtime());
    let session = old.open();
    let error = session.set_name(Some("name"), &ctx()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LegacyReadOnly);
    assert!(error.hint().unwrap().contains("copy") && error.hint().unwrap().contains("import"), "{error}");
    session.close(&ctx()).unwrap();
    assert_eq!(session.stats(&ctx()).unwrap_err().kind(), ErrorKind::Closed);
    let after = (sha256(std::fs::read(&old.path).unwrap()), std::fs::metadata(&old.path).unwrap().mtime());
    assert_eq!(before, after);
}

#[test]
fn a_copy_is_a_new_session_that_can_be_written() {
    for (_folder, repository) in repositories() {
        copies(&repository);
    }
}

fn copies(repository: &Repository) {
    let label = r#"{"type":"label","id":"c1","parentId":"b2","timestamp":"2026-03-01T10:00:03.000Z","targetId":"b1","label":"start"}"#;
    let old = Old::of(&[&message("b1", None, 1), &message("b2", Some("b1"), 2), label]);
    let bytes = std::fs::read(&old.path).unwrap();
    let options = OpenOptions { legacy: LegacyPolicy::CopyTo(repository.clone()), ..Default::default() };
    let copy = open_file(&old.path, &options, &ctx()).unwrap();
    assert_ne!(copy.id(), "old");
    assert_eq!(copy.metadata().parent_session_id.as_deref(), Some("old"));
    assert_eq!(copy.metadata().cwd.as_deref(), Some("/w"));
    assert_eq!(content(&copy), content(&old.open()));
    assert_eq!(copy.legacy().unwrap().ids().count(), 2);
    let rows = copy.scan_usage(&UsageScan::default(), &ctx()).unwrap();
    assert_eq!((rows.len(), rows[0].adjustment()), (1, true));
    assert_eq!(rows[0].details(), Some(r#"{"source":"v3-import"}"#));
    let main = copy.branch("main", &ctx()).unwrap().unwrap();
    main.append_message(&Json::parse(r#"{"role":"user","content":"on"}"#).unwrap(), &ctx()).unwrap();
    assert_eq!(main.find_entries(&BranchScan::default(), &ctx()).unwrap().len(), 3);
    assert_eq!(std::fs::read(&old.path).unwrap(), bytes);
    let again = open_file(&old.path, &options, &ctx()).unwrap();
    assert_ne!(again.id(), copy.id());
}

#[test]
fn writing_from_a_damaged_file_must_be_asked_for() {
    let old = Old::of(&["{bad", &message("b1", None, 1)]);
    let repository = memory();
    let refused = import_file(&old.path, &repository, &ImportOptions::default(), &ctx()).unwrap_err();
    assert_eq!((refused.kind(), refused.line()), (ErrorKind::Corrupt, Some(2)));
    assert!(refused.hint().unwrap().contains("salvage"));
    let copy = OpenOptions { legacy: LegacyPolicy::CopyTo(repository.clone()), ..Default::default() };
    assert_eq!(open_file(&old.path, &copy, &ctx()).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(repository.list(&Default::default(), &ctx()).unwrap().is_empty());
    let imported = import_file(&old.path, &repository, &salvage(), &ctx()).unwrap();
    assert_eq!((imported.added, imported.warnings().len()), (true, 1));
    let copy = OpenOptions { salvage: true, ..copy };
    assert_eq!(entries(&open_file(&old.path, &copy, &ctx()).unwrap()).len(), 1);
}

#[test]
fn newer_versions_are_read_and_never_written() {
    let header = HEADER.replace("\"version\":3", "\"version\":4");
    let old = Old::new(format!("{header}\n{}\n", message("b1", None, 1)));
    assert_eq!(warnings(&old.open()), ["1:newer_version"]);
    let repository = memory();
    let error = import_file(&old.path, &repository, &salvage(), &ctx()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    let copy =
        OpenOptions { salvage: true, legacy: LegacyPolicy::CopyTo(repository.clone()), ..Default::default() };
    assert_eq!(open_file(&old.path, &copy, &ctx()).unwrap_err().kind(), ErrorKind::UnsupportedVersion);
    assert!(repository.list(&Default::default(), &ctx()).unwrap().is_empty());
}

#[test]
fn a_repository_opens_an_old_file_as_the_policy_says() {
    let old = Old::of(&[&message("b1", None, 1)]);
    let folder = old.path.parent().unwrap();
    let repository = open_repository(&format!("jsonl:{}", folder.display()), Default::default()).unwrap();
    let bytes = std::fs::read(&old.path).unwrap();
    let session = repository.open("old", &ctx()).unwrap();
    let error = session.set_name(Some("name"), &ctx()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LegacyReadOnly);
    assert!(["copy", "upgrade", "import"].iter().all(|word| error.hint().unwrap().contains(word)), "{error}");

    let copy = OpenOptions { legacy: LegacyPolicy::Copy, ..Default::default() };
    let first = repository.open_with("old", &copy, &ctx()).unwrap();
    assert_eq!(first.metadata().parent_session_id.as_deref(), Some("old"));
    assert_eq!(content(&first), content(&session));
    first.set_name(Some("copied"), &ctx()).unwrap();
    let second = repository.open_with("old", &copy, &ctx()).unwrap();
    assert_eq!((second.name(&ctx()).unwrap(), second.id() == first.id()), (None, false));
    assert_eq!(repository.list(&Default::default(), &ctx()).unwrap().len(), 3);
    assert_eq!(std::fs::read(&old.path).unwrap(), bytes);

    let elsewhere = memory();
    let copy_to = OpenOptions { legacy: LegacyPolicy::CopyTo(elsewhere.clone()), ..Default::default() };
    let third = repository.open_with("old", &copy_to, &ctx()).unwrap();
    assert_eq!(content(&third), content(&session));
    assert_eq!(elsewhere.list(&Default::default(), &ctx()).unwrap().len(), 1);

    // The others are not concerned: it opens, and is written where it is.
    let id = first.id().to_owned();
    first.close(&ctx()).unwrap();
    let again = repository.open_with(&id, &copy, &ctx()).unwrap();
    assert_eq!((again.id(), again.name(&ctx()).unwrap().as_deref()), (id.as_str(), Some("copied")));
    repository.close(&ctx()).unwrap();
    assert_eq!(session.stats(&ctx()).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_copy_of_a_file_lies_beside_it() {
    let old = Old::of(&[&message("b1", None, 1)]);
    // What lies there is left alone, whatever it is called.
    let other = old.path.with_file_name("old.jsonl.new");
    std::fs::write(&other, "mine").unwrap();
    let copy = OpenOptions { legacy: LegacyPolicy::Copy, ..Default::default() };
    let session = open_file(&old.path, &copy, &ctx()).unwrap();
    assert_eq!(std::fs::read(&other).unwrap(), b"mine");
    std::fs::remove_file(other).unwrap();
    let path = session.metadata().path.clone().unwrap();
    assert_eq!(path.parent(), old.path.parent());
    assert_eq!(content(&session), content(&old.open()));
    assert_eq!(session.legacy().unwrap().ids().count(), 1);
    session.close(&ctx()).unwrap();
    // Of that folder it is a session like others.
    let uri = format!("jsonl:{}", old.path.parent().unwrap().display());
    let repository = open_repository(&uri, Default::default()).unwrap();
    assert_eq!(content(&repository.open(session.id(), &ctx()).unwrap()), content(&old.open()));
    assert_eq!(std::fs::read_dir(old.path.parent().unwrap()).unwrap().count(), 2);
}

#[test]
fn for_reading_only_nothing_is_copied() {
    let old = Old::of(&[&message("b1", None, 1)]);
    let repository = memory();
    let legacy = LegacyPolicy::CopyTo(repository.clone());
    let session = open_file(&old.path, &OpenOptions { legacy, ..read_only() }, &ctx()).unwrap();
    assert_eq!(session.id(), "old");
    assert!(repository.list(&Default::default(), &ctx()).unwrap().is_empty());
}

#[test]
fn strict_reading_refuses_a_damaged_file_in_a_repository_too() {
    let old = Old::of(&["{bad", &message("b1", None, 1)]);
    let uri = format!("jsonl:{}", old.path.parent().unwrap().display());
    let repository = open_repository(&uri, Default::default()).unwrap();
    let strict = OpenOptions { strict: true, ..Default::default() };
    let error = repository.open_with("old", &strict, &ctx()).unwrap_err();
    assert_eq!((error.kind(), error.line()), (ErrorKind::Corrupt, Some(2)));
    let upgrade = OpenOptions { legacy: LegacyPolicy::Upgrade, ..Default::default() };
    let error = repository.open_with("old", &upgrade, &ctx()).unwrap_err();
    assert_eq!((error.kind(), error.line()), (ErrorKind::Corrupt, Some(2)));
    let session = repository.open_with("old", &OpenOptions { salvage: true, ..upgrade }, &ctx()).unwrap();
    session.set_name(Some("saved"), &ctx()).unwrap();
}

#[test]
fn a_file_of_format_4_opens_by_its_path_as_in_its_repository() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("jsonl:{}", folder.path().display());
    let repository = open_repository(&uri, Default::default()).unwrap();
    let session = repository.create(&Default::default(), &ctx()).unwrap();
    let path = session.metadata().path.clone().unwrap();
    assert_eq!(open_file(&path, &Default::default(), &ctx()).unwrap_err().kind(), ErrorKind::SessionBusy);
    let reader = open_file(&path, &read_only(), &ctx()).unwrap();
    assert_eq!(reader.set_name(Some("no"), &ctx()).unwrap_err().kind(), ErrorKind::ReadOnly);
    session.close(&ctx()).unwrap();
    let writer = open_file(&path, &Default::default(), &ctx()).unwrap();
    writer.set_name(Some("by its path"), &ctx()).unwrap();
    assert_eq!(repository.open(session.id(), &ctx()).unwrap_err().kind(), ErrorKind::SessionBusy);
    writer.close(&ctx()).unwrap();
    assert_eq!(reader.name(&ctx()).unwrap().as_deref(), Some("by its path"));
}

#[test]
fn every_file_of_the_corpus_and_of_the_reference_is_the_same_copied_and_upgraded() {
    let folders = [shared("corpus"), shared("golden/v3")];
    let repositories = repositories();
    let mut seen = Vec::new();
    for folder in folders.into_iter().flatten() {
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let opened = open_file(&path, &read_only(), &ctx());
            let is_old = |session: &Session| session.legacy().is_some_and(|legacy| legacy.version <= 3);
            let Some(session) = opened.ok().filter(is_old) else { continue };
            for (_folder, repository) in &repositories {
                copied_as_it_reads(&path, &session, repository);
            }
            upgraded_as_it_reads(&path);
            count += 1;
        }
        seen.push(count);
    }
    assert!(seen.is_empty() || seen == [76, 60], "{seen:?}");
}

fn copied_as_it_reads(path: &Path, session: &Session, repository: &Repository) {
    let bytes = std::fs::read(path).unwrap();
    let legacy = LegacyPolicy::CopyTo(repository.clone());
    let copy = open_file(path, &OpenOptions { salvage: true, legacy, ..Default::default() }, &ctx()).unwrap();
    assert_eq!(content(&copy), content(session), "{}", path.display());
    let (found, expected) = (copy.legacy().unwrap(), session.legacy().unwrap());
    assert!(found.ids().eq(expected.ids()) && found.warnings == expected.warnings, "{}", path.display());
    assert_eq!(copy.stats(&ctx()).unwrap().usage, expected.usage, "{}", path.display());
    assert_eq!(copy.scan_usage(&UsageScan::default(), &ctx()).unwrap().len(), 1, "{}", path.display());
    assert_eq!(std::fs::read(path).unwrap(), bytes, "{}", path.display());
}

fn upgraded_as_it_reads(path: &Path) {
    let old = Old::new(std::fs::read(path).unwrap());
    let before = old.open();
    let (was, found) = (content(&before), before.legacy().unwrap());
    let options = OpenOptions { salvage: true, legacy: LegacyPolicy::Upgrade, ..Default::default() };
    let session = open_file(&old.path, &options, &ctx()).unwrap();
    assert_eq!(session.metadata(), before.metadata(), "{}", path.display());
    assert_eq!(content(&session), was, "{}", path.display());
    let legacy = session.legacy().unwrap();
    assert!(legacy.ids().eq(found.ids()) && legacy.warnings == found.warnings, "{}", path.display());
    let backup = legacy.backup.as_ref().unwrap();
    assert_eq!(std::fs::read(backup).unwrap(), std::fs::read(path).unwrap(), "{}", path.display());
    session.close(&ctx()).unwrap();
    let again = open_file(&old.path, &Default::default(), &ctx()).unwrap();
    assert_eq!(content(&again), was, "{}", path.display());
}
