//! What a repository promises, wherever it keeps its sessions: in memory, in a folder of SQLite files, in a
//! SQLite container.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use pisession::{
    Address, Clock, Context, CreateOptions, Durability, Error, ErrorKind, Format, Json, ListOptions,
    Repository, RepositoryOptions, Session, SessionReader, Write, open_repository,
};

/// A kind of repository, and a folder that goes with it.
struct Place {
    name: &'static str,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new(name: &'static str, last: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { name, path: folder.path().join(last), _folder: folder }
    }

    fn folder() -> Self {
        Self::new("folder", "sessions")
    }

    fn container() -> Self {
        Self::new("container", "sessions.sqlite")
    }

    fn uri(&self) -> String {
        match self.name {
            "memory" => "memory:".to_owned(),
            "lines" => format!("jsonl:{}", self.path.display()),
            _ => format!("sqlite:{}", self.path.display()),
        }
    }

    fn repository(&self) -> Repository {
        self.repository_with(RepositoryOptions::default())
    }

    fn repository_with(&self, options: RepositoryOptions) -> Repository {
        let options = RepositoryOptions { durability: Durability::Process, ..options };
        open_repository(&self.uri(), options).unwrap()
    }

    /// Every name under the place's parent, with the file's bytes.
    fn files(&self) -> BTreeSet<PathBuf> {
        fn walk(folder: &Path, found: &mut BTreeSet<PathBuf>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    walk(&path, found);
                }
                found.insert(path);
            }
        }
        let mut found = BTreeSet::new();
        walk(self.path.parent().unwrap(), &mut found);
        found
    }
}

fn everywhere() -> [Place; 4] {
    [Place::new("memory", "unused"), Place::new("lines", "sessions"), Place::folder(), Place::container()]
}

fn on_disk() -> [Place; 2] {
    [Place::folder(), Place::container()]
}

fn ctx() -> Context {
    Context::background()
}

fn with_id(id: &str) -> CreateOptions {
    CreateOptions { id: Some(id.to_owned()), ..CreateOptions::default() }
}

fn create(repository: &Repository, id: &str) -> Session {
    repository.create(&with_id(id), &ctx()).unwrap()
}

fn create_closed(repository: &Repository, id: &str) {
    create(repository, id).close(&ctx()).unwrap();
}

fn ids(repository: &Repository) -> Vec<String> {
    let listed = repository.list(&ListOptions::default(), &ctx()).unwrap();
    let mut ids: Vec<String> = listed.into_iter().filter_map(|listing| Some(listing.metadata?.id)).collect();
    ids.sort();
    ids
}

fn kind<T>(result: Result<T, Error>) -> ErrorKind {
    match result {
        Ok(_) => panic!("that was to be refused"),
        Err(error) => error.kind(),
    }
}

/// A clock that counts.
#[derive(Debug, Default)]
struct Counter(std::sync::atomic::AtomicI64);

impl Clock for Counter {
    fn now(&self) -> i64 {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }
}

#[test]
fn a_new_session_has_no_branch_and_its_id_is_taken() {
    for place in everywhere() {
        let repository = place.repository();
        let session = create(&repository, "session");
        let metadata = session.metadata();
        assert_eq!((metadata.id.as_str(), metadata.storage_version), ("session", 1), "{}", place.name);
        assert!(session.branch("main", &ctx()).unwrap().is_none());
        assert!(session.branches(&ctx()).unwrap().is_empty());
        assert_eq!(session.next_seq(&ctx()).unwrap(), 1);
        let again = || repository.create(&with_id("session"), &ctx());
        assert_eq!(kind(again()), ErrorKind::SessionExists, "{}: open", place.name);
        session.close(&ctx()).unwrap();
        assert_eq!(kind(again()), ErrorKind::SessionExists, "{}: closed", place.name);
        let other = repository.create(&CreateOptions::default(), &ctx()).unwrap();
        assert_eq!(ids(&repository).len(), 2);
        assert_ne!(other.id(), "session");
    }
}

#[test]
fn close_waits_for_the_begun_mutation_and_refuses_the_waiting_one() {
    for place in everywhere() {
        let repository = place.repository();
        let session = create(&repository, "session");
        let scope = session.begin_mutation(&ctx()).unwrap();
        std::thread::scope(|threads| {
            let (says, heard) = mpsc::channel();
            let waiting = threads.spawn({
                let session = session.clone();
                move || {
                    says.send(()).unwrap();
                    session.mutate(|_, _| -> Result<(), Error> { panic!("it must never run") }, &ctx())
                }
            });
            heard.recv().unwrap();
            let closing = threads.spawn({
                let session = session.clone();
                move || session.close(&ctx())
            });
            assert_eq!(kind(waiting.join().unwrap()), ErrorKind::Closed, "{}", place.name);
            scope
                .commit(&[Write::SetValue(Address::new("app", "last").unwrap(), Json::null())], &ctx())
                .unwrap();
            scope.end();
            closing.join().unwrap().unwrap();
        });
        assert_eq!(kind(session.name(&ctx())), ErrorKind::Closed);
        let session = repository.open("session", &ctx()).unwrap();
        assert!(session.get_value(&Address::new("app", "last").unwrap(), &ctx()).unwrap().is_some());
    }
}

#[test]
fn sessions_are_listed_and_keep_what_they_hold_across_close_and_open() {
    for place in everywhere() {
        let repository = place.repository_with(RepositoryOptions {
            clock: std::sync::Arc::new(Counter::default()),
            ..RepositoryOptions::default()
        });
        let first = create(&repository, "first");
        first.set_name(Some("a name"), &ctx()).unwrap();
        let main = first.create_branch("main", None, &ctx()).unwrap();
        main.append_message(&Json::parse(r#"{"role":"user"}"#).unwrap(), &ctx()).unwrap();
        let options = CreateOptions {
            id: Some("second".to_owned()),
            parent_session_id: Some("parent".to_owned()),
            cwd: Some("/some/folder".to_owned()),
            created_at: Some(1_700_000_000_123),
            legacy_parent_session_path: Some("/old/file.jsonl".to_owned()),
        };
        let second = repository.create(&options, &ctx()).unwrap();
        for state in ["open", "closed"] {
            let plain = repository.list(&ListOptions::default(), &ctx()).unwrap();
            assert_eq!(plain.len(), 2, "{}: {state}", place.name);
            assert_eq!((plain[0].name.as_deref(), plain[0].message_count), (None, None));
            let listed = repository.list(&ListOptions { details: true }, &ctx()).unwrap();
            // The newest comes first.
            assert_eq!(listed[0].metadata.as_ref().unwrap(), second.metadata(), "{}: {state}", place.name);
            assert_eq!(listed[1].metadata.as_ref().unwrap(), first.metadata(), "{}: {state}", place.name);
            assert_eq!(listed[0].metadata.as_ref().unwrap().parent_session_id.as_deref(), Some("parent"));
            assert_eq!((listed[0].name.as_deref(), listed[0].message_count), (None, Some(0)));
            assert_eq!((listed[1].name.as_deref(), listed[1].message_count), (Some("a name"), Some(1)));
            assert!(listed.iter().all(|listing| listing.problem.is_none()));
            if place.name != "memory" {
                assert!(listed[1].modified_at > Some(first.metadata().created_at), "{}: {state}", place.name);
            }
            first.close(&ctx()).unwrap();
            second.close(&ctx()).unwrap();
        }
        assert_eq!(kind(first.name(&ctx())), ErrorKind::Closed);
        let metadata = first.metadata().clone();
        let again = repository.open(&metadata, &ctx()).unwrap();
        assert_eq!(again.name(&ctx()).unwrap().as_deref(), Some("a name"));
        assert_eq!(again.metadata(), &metadata);
    }
}

#[test]
fn the_format_and_the_file_of_a_session_are_named() {
    for (place, format, file) in [
        (Place::new("memory", "unused"), Format::Memory, None),
        (Place::folder(), Format::SqliteFile, Some("sessions/a.sqlite")),
        (Place::container(), Format::SqliteContainer, Some("sessions.sqlite")),
    ] {
        let repository = place.repository();
        let session = create(&repository, "a");
        let listed = repository.list(&ListOptions::default(), &ctx()).unwrap();
        let path = file.map(|file| place.path.parent().unwrap().join(file));
        assert_eq!((listed[0].format, &listed[0].path), (format, &path));
        assert_eq!(session.metadata().path, path);
    }
}

#[test]
fn what_is_deleted_is_gone_and_the_others_stay() {
    for place in everywhere() {
        let repository = place.repository();
        create_closed(&repository, "removed");
        create_closed(&repository, "retained");
        assert_eq!(kind(repository.delete("missing", &ctx())), ErrorKind::UnknownSession);
        let open = repository.open("removed", &ctx()).unwrap();
        assert_eq!(kind(repository.delete("removed", &ctx())), ErrorKind::SessionBusy, "{}", place.name);
        open.close(&ctx()).unwrap();
        repository.delete("removed", &ctx()).unwrap();
        assert_eq!(ids(&repository), ["retained"], "{}", place.name);
        assert_eq!(kind(repository.open("removed", &ctx())), ErrorKind::UnknownSession);
        assert_eq!(kind(repository.open_read_only("removed", &ctx())), ErrorKind::UnknownSession);
        assert_eq!(kind(repository.delete("removed", &ctx())), ErrorKind::UnknownSession);
        let again = create(&repository, "removed");
        assert_eq!(again.next_seq(&ctx()).unwrap(), 1);
    }
}

#[test]
fn a_session_is_written_in_one_place_and_read_in_any_number() {
    for place in everywhere() {
        let repository = place.repository();
        let writer = create(&repository, "a");
        let address = Address::new("app", "n").unwrap();
        let busy = repository.open("a", &ctx()).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::SessionBusy, "{}", place.name);
        let readers: Vec<Session> = (0..3).map(|_| repository.open_read_only("a", &ctx()).unwrap()).collect();
        writer.set_value(&address, &Json::of(&1).unwrap(), &ctx()).unwrap();
        for reader in &readers {
            assert_eq!(reader.get_value(&address, &ctx()).unwrap().unwrap().value.as_str(), "1");
            assert_eq!(
                kind(reader.set_value(&address, &Json::null(), &ctx())),
                ErrorKind::ReadOnly,
                "{}",
                place.name
            );
        }
        writer.close(&ctx()).unwrap();
        let writer = repository.open("a", &ctx()).unwrap();
        writer.set_value(&address, &Json::of(&2).unwrap(), &ctx()).unwrap();
        for reader in &readers {
            assert_eq!(
                reader.get_value(&address, &ctx()).unwrap().unwrap().value.as_str(),
                "2",
                "{}",
                place.name
            );
        }
        assert_eq!(kind(repository.open("a", &ctx())), ErrorKind::SessionBusy);
    }
}

#[test]
fn another_handle_of_the_place_and_a_link_to_it_meet_the_same_lock() {
    for place in on_disk() {
        let session = create(&place.repository(), "a");
        let link = place.path.with_file_name("link");
        std::os::unix::fs::symlink(&place.path, &link).unwrap();
        for uri in [place.uri(), format!("sqlite:{}", link.display())] {
            let other = open_repository(&uri, RepositoryOptions::default()).unwrap();
            let busy = other.open("a", &ctx()).unwrap_err();
            assert_eq!(busy.kind(), ErrorKind::SessionBusy, "{uri}");
            assert!(busy.message().contains(&std::process::id().to_string()), "{busy}");
            assert_eq!(kind(other.delete("a", &ctx())), ErrorKind::SessionBusy, "{uri}");
            assert_eq!(kind(other.create(&with_id("a"), &ctx())), ErrorKind::SessionExists, "{uri}");
            assert_eq!(ids(&other), ["a"]);
        }
        session.close(&ctx()).unwrap();
        place.repository().open("a", &ctx()).unwrap();
    }
}

#[test]
fn a_session_that_is_dropped_frees_its_lock_and_loses_nothing() {
    for place in everywhere() {
        let repository = place.repository();
        let session = create(&repository, "a");
        session.set_name(Some("kept"), &ctx()).unwrap();
        drop(session);
        let session = repository.open("a", &ctx()).unwrap();
        assert_eq!(session.name(&ctx()).unwrap().as_deref(), Some("kept"), "{}", place.name);
    }
}

#[test]
fn sessions_of_one_container_are_written_side_by_side() {
    let place = Place::container();
    let repository = place.repository();
    let other = place.repository();
    let sessions: Vec<Session> = (0..4)
        .map(|n| create(if n % 2 == 0 { &repository } else { &other }, &format!("session-{n}")))
        .collect();
    std::thread::scope(|threads| {
        for session in &sessions {
            threads.spawn(|| {
                for n in 0..20 {
                    session.set_name(Some(&format!("{n}")), &ctx()).unwrap();
                }
            });
        }
    });
    sessions[0].close(&ctx()).unwrap();
    for session in &sessions[1..] {
        assert_eq!(session.next_seq(&ctx()).unwrap(), 21);
        session.set_name(Some("after"), &ctx()).unwrap();
    }
    assert_eq!(ids(&repository), ["session-0", "session-1", "session-2", "session-3"]);
}

#[test]
fn close_closes_every_session_and_reports_every_error() {
    for place in everywhere() {
        let repository = place.repository();
        let sessions: Vec<Session> = (0..3).map(|n| create(&repository, &format!("s{n}"))).collect();
        // A scope that this very thread holds cannot be waited for.
        let scopes: Vec<_> = sessions[..2].iter().map(|s| s.begin_mutation(&ctx()).unwrap()).collect();
        let error = repository.close(&ctx()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NestedMutation, "{}", place.name);
        assert!(error.message().contains("1 more"), "{error}");
        assert_eq!(kind(sessions[2].name(&ctx())), ErrorKind::Closed);
        drop(scopes);
        repository.close(&ctx()).unwrap();
        for session in &sessions {
            assert_eq!(kind(session.name(&ctx())), ErrorKind::Closed, "{}", place.name);
        }
        let locks = |files: BTreeSet<PathBuf>| {
            files.into_iter().filter(|path| path.extension().is_some_and(|e| e == "lock")).count()
        };
        assert_eq!(locks(place.files()), 0, "{}", place.name);
    }
}

#[test]
fn an_id_is_never_a_path() {
    let wild = [
        "../x",
        "a/b",
        "C:x",
        "..",
        ".",
        "%2e%2e",
        "/etc/passwd",
        "a\\b",
        "~a",
        "~",
        "a b",
        "é",
        "e\u{301}",
        "a",
        "A",
        "CON",
        "x.sqlite",
        "x.sqlite.lock",
        "\n",
        "\u{10000}",
        "\u{202e}x",
        "-",
        "--help",
    ];
    for place in everywhere() {
        let repository = place.repository();
        let before = place.files();
        for id in wild {
            create_closed(&repository, id);
        }
        let mut expected: Vec<String> = wild.iter().map(|id| (*id).to_owned()).collect();
        expected.sort();
        assert_eq!(ids(&repository), expected, "{}", place.name);
        for path in place.files().difference(&before) {
            let folder = if place.name == "lines" && path.is_file() { path.parent().unwrap() } else { path };
            let inside = *path == place.path || folder.parent() == Some(&place.path);
            let locks = path.to_string_lossy().contains("sessions.sqlite");
            assert!(inside || locks, "{} appeared", path.display());
        }
        for id in wild {
            let session = repository.open(id, &ctx()).unwrap();
            assert_eq!(session.id(), id);
            session.close(&ctx()).unwrap();
            repository.delete(id, &ctx()).unwrap();
        }
        assert!(ids(&repository).is_empty());
        for id in ["", "a\0b"] {
            assert_eq!(kind(repository.create(&with_id(id), &ctx())), ErrorKind::InvalidId, "{id:?}");
            assert_eq!(kind(repository.open(id, &ctx())), ErrorKind::InvalidId, "{id:?}");
            assert_eq!(kind(repository.delete(id, &ctx())), ErrorKind::InvalidId, "{id:?}");
        }
    }
}

#[test]
fn an_id_that_is_no_file_name_is_refused_and_leaves_nothing() {
    for place in on_disk() {
        let repository = place.repository();
        for id in ["a".repeat(300), "é".repeat(100)] {
            assert_eq!(kind(repository.create(&with_id(&id), &ctx())), ErrorKind::InvalidId);
            assert_eq!(kind(repository.open(id.as_str(), &ctx())), ErrorKind::InvalidId);
        }
        assert!(place.files().is_empty());
        create_closed(&repository, &"a".repeat(220));
        repository.open(&"a".repeat(220), &ctx()).unwrap().set_name(Some("long"), &ctx()).unwrap();
    }
}

#[test]
fn one_bad_file_does_not_hide_the_others() {
    let place = Place::folder();
    let repository = place.repository();
    create_closed(&repository, "good");
    let bad: [(&str, &[u8]); 4] = [
        ("empty.sqlite", b""),
        ("picture.sqlite", b"\x89PNG\r\n\x1a\n and so on"),
        ("log.sqlite", b"2026-01-01 started\n"),
        ("torn.sqlite", b"SQLite format 3\0"),
    ];
    for (name, bytes) in bad {
        fs::write(place.path.join(name), bytes).unwrap();
    }
    std::os::unix::fs::symlink("nowhere", place.path.join("dangling.sqlite")).unwrap();
    // Not ours, and not looked at.
    fs::write(place.path.join("notes.txt"), "notes").unwrap();
    fs::create_dir(place.path.join("folder.sqlite")).unwrap();
    let files = place.files();
    let listed = repository.list(&ListOptions { details: true }, &ctx()).unwrap();
    assert_eq!(listed[0].metadata.as_ref().unwrap().id, "good");
    let problems: Vec<(String, ErrorKind)> = listed[1..]
        .iter()
        .map(|listing| {
            let name = listing.path.as_ref().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
            (name, listing.problem.as_ref().unwrap().kind())
        })
        .collect();
    let names = ["dangling.sqlite", "empty.sqlite", "log.sqlite", "picture.sqlite", "torn.sqlite"];
    assert_eq!(problems, names.map(|name| (name.to_owned(), ErrorKind::NotASession)));
    for id in ["empty", "picture", "log", "torn", "dangling"] {
        assert_eq!(kind(repository.open(id, &ctx())), ErrorKind::NotASession, "{id}");
        assert_eq!(kind(repository.open_read_only(id, &ctx())), ErrorKind::NotASession, "{id}");
        assert_eq!(kind(repository.delete(id, &ctx())), ErrorKind::NotASession, "{id}");
        assert_eq!(kind(repository.create(&with_id(id), &ctx())), ErrorKind::SessionExists, "{id}");
    }
    for (name, bytes) in bad {
        assert_eq!(fs::read(place.path.join(name)).unwrap(), bytes, "{name} was changed");
    }
    assert_eq!(place.files(), files);
}

#[test]
fn a_file_that_is_no_container_is_left_as_it_is() {
    for bytes in [&b""[..], b"\x89PNG\r\n\x1a\n", b"text\n"] {
        let place = Place::container();
        fs::write(&place.path, bytes).unwrap();
        let repository = place.repository();
        assert_eq!(kind(repository.list(&ListOptions::default(), &ctx())), ErrorKind::NotASession);
        assert_eq!(kind(repository.open("a", &ctx())), ErrorKind::NotASession);
        assert_eq!(kind(repository.create(&with_id("a"), &ctx())), ErrorKind::NotASession);
        assert_eq!(fs::read(&place.path).unwrap(), bytes);
    }
}

#[test]
fn metadata_delete_the_session_in_their_file_and_no_other() {
    for place in everywhere() {
        let (repository, elsewhere) = (place.repository(), Place::new(place.name, "elsewhere.sqlite"));
        create_closed(&repository, "a");
        create_closed(&elsewhere.repository(), "a");
        let stranger = elsewhere.repository().open("a", &ctx());
        if let Ok(stranger) = stranger {
            // Of another repository: nothing is deleted, here or there.
            let refused = repository.delete(stranger.metadata(), &ctx());
            assert_eq!(kind(refused), ErrorKind::InvalidArgument, "{}", place.name);
            stranger.close(&ctx()).unwrap();
            assert_eq!(
                (ids(&repository), ids(&elsewhere.repository())),
                (vec!["a".into()], vec!["a".into()])
            );
        }
        let metadata = repository.open_read_only("a", &ctx()).unwrap().metadata().clone();
        if let Some(path) = metadata.path.as_ref().filter(|path| path.parent() == Some(&place.path)) {
            let copy = path.with_file_name(format!("copy-{}", path.file_name().unwrap().to_str().unwrap()));
            fs::copy(path, &copy).unwrap();
            assert_eq!(kind(repository.delete("a", &ctx())), ErrorKind::AmbiguousSession, "{}", place.name);
            repository.delete(&metadata, &ctx()).unwrap();
            assert!(copy.exists() && !path.exists(), "{}", place.name);
            assert_eq!(kind(repository.delete(&metadata, &ctx())), ErrorKind::UnknownSession);
            let kept = repository.open_read_only("a", &ctx()).unwrap().metadata().clone();
            assert_eq!(kept.path, Some(copy));
            repository.delete(&kept, &ctx()).unwrap();
        } else {
            repository.delete(&metadata, &ctx()).unwrap();
        }
        assert!(ids(&repository).is_empty(), "{}", place.name);
        assert_eq!(kind(repository.delete(&metadata, &ctx())), ErrorKind::UnknownSession, "{}", place.name);
    }
}

#[test]
fn two_files_of_one_id_are_told_apart_by_their_paths() {
    let place = Place::folder();
    let repository = place.repository();
    let session = create(&repository, "a");
    session.set_name(Some("original"), &ctx()).unwrap();
    session.close(&ctx()).unwrap();
    create_closed(&repository, "b");
    fs::copy(place.path.join("a.sqlite"), place.path.join("copy.sqlite")).unwrap();
    for _ in 0..2 {
        let error = repository.open("a", &ctx()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AmbiguousSession);
        assert!(error.message().contains("a.sqlite, copy.sqlite"), "{error}");
    }
    assert_eq!(kind(repository.open_read_only("a", &ctx())), ErrorKind::AmbiguousSession);
    assert_eq!(kind(repository.delete("a", &ctx())), ErrorKind::AmbiguousSession);
    assert_eq!(kind(repository.open("copy", &ctx())), ErrorKind::UnknownSession);
    assert_eq!(ids(&repository), ["a", "a", "b"]);
    repository.open("b", &ctx()).unwrap();
    let listed = repository.list(&ListOptions::default(), &ctx()).unwrap();
    let copies: Vec<_> =
        listed.iter().filter_map(|listing| listing.metadata.as_ref()).filter(|m| m.id == "a").collect();
    let sessions: Vec<Session> =
        copies.iter().map(|metadata| repository.open(*metadata, &ctx()).unwrap()).collect();
    sessions[0].set_name(Some("changed"), &ctx()).unwrap();
    assert_eq!(sessions[1].name(&ctx()).unwrap().as_deref(), Some("original"));
    drop(sessions);
    // Replaced in its place, a file is looked into again.
    fs::remove_file(place.path.join("b.sqlite")).unwrap();
    fs::copy(place.path.join("a.sqlite"), place.path.join("b.sqlite")).unwrap();
    let error = repository.open("a", &ctx()).unwrap_err();
    assert!(error.message().contains("a.sqlite, b.sqlite, copy.sqlite"), "{error}");
    fs::remove_file(place.path.join("b.sqlite")).unwrap();
    // A file counts for the id it holds, also under another name.
    fs::remove_file(place.path.join("a.sqlite")).unwrap();
    let session = repository.open("a", &ctx()).unwrap();
    assert_eq!(session.metadata().path, Some(place.path.join("copy.sqlite")));
    assert_eq!(kind(repository.create(&with_id("a"), &ctx())), ErrorKind::SessionExists);
}

#[test]
fn a_path_outside_of_the_repository_is_refused() {
    for place in on_disk() {
        let repository = place.repository();
        create_closed(&repository, "a");
        let elsewhere = Place::folder();
        let mut metadata = create(&elsewhere.repository(), "a").metadata().clone();
        assert_eq!(kind(repository.open(&metadata, &ctx())), ErrorKind::InvalidArgument, "{}", place.name);
        for wrong in ["../sessions/a.sqlite/..", "/etc/passwd", "..", "/"] {
            metadata.path = Some(place.path.join(wrong));
            let refused = kind(repository.open(&metadata, &ctx()));
            assert_eq!(refused, ErrorKind::InvalidArgument, "{}: {wrong}", place.name);
        }
        let listed = repository.list(&ListOptions::default(), &ctx()).unwrap();
        let mut metadata = listed[0].metadata.clone().unwrap();
        repository.open(&metadata, &ctx()).unwrap();
        // The id has to be that of the file.
        metadata.id = "b".to_owned();
        assert_eq!(kind(repository.open(&metadata, &ctx())), ErrorKind::UnknownSession, "{}", place.name);
    }
}

#[test]
fn a_link_that_leads_out_of_the_folder_is_not_followed() {
    let place = Place::folder();
    let repository = place.repository();
    create_closed(&repository, "a");
    let elsewhere = Place::folder();
    let session = create(&elsewhere.repository(), "b");
    let target = session.metadata().path.clone().unwrap();
    session.close(&ctx()).unwrap();
    std::os::unix::fs::symlink(&target, place.path.join("b.sqlite")).unwrap();
    assert_eq!(kind(repository.open("b", &ctx())), ErrorKind::NotASession);
    assert_eq!(kind(repository.delete("b", &ctx())), ErrorKind::NotASession);
    assert_eq!(ids(&repository), ["a"]);
    assert!(target.exists());
}

#[test]
fn delete_leaves_no_file() {
    for place in on_disk() {
        let repository = place.repository();
        create_closed(&repository, "kept");
        let files = place.files();
        let session = create(&repository, "a");
        session.set_name(Some("x"), &ctx()).unwrap();
        // Dropped, it leaves its log behind.
        drop(session);
        repository.delete("a", &ctx()).unwrap();
        assert_eq!(place.files(), files, "{}", place.name);
    }
}

#[test]
fn looking_leaves_no_file_in_a_folder_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt as _;
    // Dropped, a session leaves its log behind, as a crash does.
    for (place, crashes) in [Place::folder(), Place::container(), Place::folder(), Place::container()]
        .into_iter()
        .zip([false, false, true, true])
    {
        let case = format!("{}, {crashes}", place.name);
        let repository = place.repository();
        let session = create(&repository, "a");
        session.set_name(Some("name"), &ctx()).unwrap();
        if !crashes {
            session.close(&ctx()).unwrap();
        }
        drop(session);
        let files = place.files();
        let folder =
            if place.path.is_dir() { place.path.clone() } else { place.path.parent().unwrap().into() };
        let permit = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        permit(0o555);
        let repository = place.repository();
        let listed = repository.list(&ListOptions { details: true }, &ctx()).unwrap();
        assert_eq!(listed[0].name.as_deref(), Some("name"), "{case}");
        let reader = repository.open_read_only("a", &ctx()).unwrap();
        assert_eq!(reader.name(&ctx()).unwrap().as_deref(), Some("name"), "{case}");
        assert_eq!(place.files(), files, "{case}: while it is open");
        reader.close(&ctx()).unwrap();
        assert_eq!(place.files(), files, "{case}");
        permit(0o755);
    }
}

#[test]
fn asking_for_what_is_not_there_makes_nothing() {
    for place in on_disk() {
        let repository = place.repository();
        assert!(ids(&repository).is_empty());
        assert_eq!(kind(repository.open("a", &ctx())), ErrorKind::UnknownSession, "{}", place.name);
        assert_eq!(kind(repository.open_read_only("a", &ctx())), ErrorKind::UnknownSession);
        assert_eq!(kind(repository.delete("a", &ctx())), ErrorKind::UnknownSession);
        assert!(place.files().is_empty(), "{}", place.name);
        create_closed(&repository, "b");
        let files = place.files();
        assert_eq!(kind(repository.open("a", &ctx())), ErrorKind::UnknownSession, "{}", place.name);
        assert_eq!(kind(repository.delete("a", &ctx())), ErrorKind::UnknownSession);
        assert_eq!(place.files(), files, "{}", place.name);
    }
}

#[test]
fn what_a_crash_left_is_swept_at_the_next_create() {
    let place = Place::folder();
    create_closed(&place.repository(), "a");
    let open = place.repository();
    let session = create(&open, "open");
    let files = place.files();
    for left in [
        "gone.sqlite.lock",
        "gone.sqlite-wal",
        "gone.sqlite-shm",
        "a.sqlite.lock",
        "new.sqlite.0123456789ab.new",
        "new.sqlite.0123456789ab.new-journal",
        "a.sqlite.0123456789ab.new",
    ] {
        fs::write(place.path.join(left), "4194304 1 nowhere\n").unwrap();
    }
    // Being made by a process that lives: one under the lock of its target, one under its own.
    let made = [
        place.path.join("open.sqlite.0123456789ab.new"),
        place.path.join("backup.db.0123456789ab.new"),
        // Not ours, or what may still be wanted.
        place.path.join("notes.txt"),
        place.path.join("Cargo.lock"),
        place.path.join("moved.sqlite-wal"),
    ];
    for path in &made {
        fs::write(path, "kept").unwrap();
    }
    let held = fs::File::open(&made[1]).unwrap();
    held.lock().unwrap();
    create_closed(&place.repository(), "new");
    let mut expected = files;
    expected.extend(made);
    expected.insert(place.path.join("new.sqlite"));
    assert_eq!(place.files(), expected);
    session.set_name(Some("still mine"), &ctx()).unwrap();
}

#[test]
fn what_making_a_container_left_is_swept_at_the_next_create() {
    let place = Place::container();
    let left = place.path.with_file_name("sessions.sqlite.0123456789ab.new");
    let locks = place.path.with_file_name("sessions.sqlite.locks");
    fs::create_dir(&locks).unwrap();
    for path in [&left, &locks.join("gone.lock"), &place.path.with_file_name("sessions.sqlite.lock")] {
        fs::write(path, "4194304 1 nowhere\n").unwrap();
    }
    create_closed(&place.repository(), "a");
    assert_eq!(place.files(), BTreeSet::from([place.path.clone(), locks]));
}

#[test]
fn the_log_of_a_deleted_file_never_meets_a_new_session() {
    let place = Place::folder();
    let repository = place.repository();
    let session = create(&repository, "a");
    session.set_name(Some("old"), &ctx()).unwrap();
    let wal = fs::read(place.path.join("a.sqlite-wal")).unwrap();
    assert!(!wal.is_empty());
    session.close(&ctx()).unwrap();
    repository.delete("a", &ctx()).unwrap();
    fs::write(place.path.join("a.sqlite-wal"), wal).unwrap();
    let session = create(&repository, "a");
    assert_eq!(session.name(&ctx()).unwrap(), None);
    assert_eq!(session.next_seq(&ctx()).unwrap(), 1);
}

#[test]
fn a_session_whose_file_was_deleted_refuses_to_commit_and_is_not_made_again() {
    for place in on_disk() {
        let repository = place.repository();
        let session = create(&repository, "a");
        session.set_name(Some("before"), &ctx()).unwrap();
        let path = session.metadata().path.clone().unwrap();
        fs::remove_file(&path).unwrap();
        let refused = kind(session.set_name(Some("after"), &ctx()));
        let expected = [ErrorKind::UnknownSession, ErrorKind::FileChanged];
        assert!(expected.contains(&refused), "{}: {refused:?}", place.name);
        assert!(!path.exists());
        // Whether closing complains does not matter; that it recreates nothing does.
        let _ = session.close(&ctx());
        assert!(!path.exists(), "{}", place.name);
        assert_eq!(kind(repository.open("a", &ctx())), ErrorKind::UnknownSession, "{}", place.name);
    }
}

#[test]
fn creating_one_id_from_many_threads_has_one_winner() {
    for place in everywhere() {
        let shared = place.repository();
        let results: Vec<Result<Session, Error>> = std::thread::scope(|threads| {
            let started: Vec<_> = (0..8)
                .map(|n| {
                    let repository = if n % 2 == 0 || place.name == "memory" {
                        shared.clone()
                    } else {
                        place.repository()
                    };
                    threads.spawn(move || repository.create(&with_id("a"), &ctx()))
                })
                .collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (made, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(made.len(), 1, "{}", place.name);
        for error in refused {
            assert_eq!(kind(error), ErrorKind::SessionExists, "{}", place.name);
        }
    }
}

#[test]
fn listing_and_reading_go_on_while_sessions_come_and_go() {
    for place in on_disk() {
        let repository = place.repository();
        create_closed(&repository, "stays");
        std::thread::scope(|threads| {
            let churn = threads.spawn(|| {
                let repository = place.repository();
                for n in 0..30 {
                    let id = format!("s{n}");
                    create_closed(&repository, &id);
                    repository.delete(&id, &ctx()).unwrap();
                }
            });
            while !churn.is_finished() {
                let listed = repository.list(&ListOptions { details: true }, &ctx()).unwrap();
                assert!(
                    listed.iter().any(|l| l.metadata.as_ref().is_some_and(|m| m.id == "stays")),
                    "{}",
                    place.name
                );
                let problems: Vec<_> = listed.iter().filter_map(|l| l.problem.as_ref()).collect();
                assert!(problems.is_empty(), "{}: {problems:?}", place.name);
                for metadata in listed.iter().filter_map(|listing| listing.metadata.as_ref()) {
                    match repository.open_read_only(metadata, &ctx()) {
                        Ok(reader) => reader.close(&ctx()).unwrap(),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::UnknownSession, "{}: {error}", place.name);
                        }
                    }
                }
            }
            churn.join().unwrap();
        });
    }
}

#[test]
fn a_session_file_is_locked_the_same_as_a_repository_of_its_own() {
    let place = Place::folder();
    let repository = place.repository();
    let session = create(&repository, "a");
    let uri = format!("sqlite:{}", session.metadata().path.as_ref().unwrap().display());
    let alone = open_repository(&uri, RepositoryOptions::default()).unwrap();
    assert_eq!(ids(&alone), ["a"]);
    assert_eq!(kind(alone.open("a", &ctx())), ErrorKind::SessionBusy);
    session.close(&ctx()).unwrap();
    let session = alone.open("a", &ctx()).unwrap();
    assert_eq!(kind(repository.open("a", &ctx())), ErrorKind::SessionBusy);
    drop(session);
}

#[test]
fn a_uri_names_a_place_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("folder.db")).unwrap();
    fs::create_dir(at("made")).unwrap();
    let container = |name: &str| {
        let repository =
            open_repository(&format!("sqlite:{}", at(name).display()), RepositoryOptions::default()).unwrap();
        let session = repository.create(&with_id("a"), &ctx()).unwrap();
        session.close(&ctx()).unwrap();
        session.metadata().path.as_ref().unwrap() == &at(name)
    };
    for (name, is_container) in [
        ("new.sqlite", true),
        ("new.sqlite3", true),
        ("new.db", true),
        ("new", false),
        ("new.SQLITE", false),
        ("sqlite", false),
        ("folder.db", false),
        ("deep/er/new", false),
        ("deep/er/new.db", true),
        ("a%20b", false),
        ("~", false),
        ("q?x=1", false),
        ("new.sqlite", true),
    ] {
        let made = at(name).exists();
        if made && is_container {
            assert!(at(name).is_file());
            continue;
        }
        assert_eq!(container(name), is_container, "{name}");
        assert!(at(name).exists(), "{name} does not stand as it was given");
    }
    fs::rename(at("new.db"), at("no-ending")).unwrap();
    let renamed =
        open_repository(&format!("sqlite:{}", at("no-ending").display()), RepositoryOptions::default());
    assert_eq!(ids(&renamed.unwrap()), ["a"]);
    for (uri, expected) in [
        ("", ErrorKind::InvalidArgument),
        ("sqlite", ErrorKind::InvalidArgument),
        ("sqlite:", ErrorKind::InvalidArgument),
        ("sqlite:a\0b", ErrorKind::InvalidArgument),
        ("sqlite:/dev/null", ErrorKind::InvalidArgument),
        ("postgres:x", ErrorKind::InvalidArgument),
        ("memory:x", ErrorKind::InvalidArgument),
        ("jsonl:", ErrorKind::InvalidArgument),
        ("jsonl:/dev/null", ErrorKind::InvalidArgument),
    ] {
        assert_eq!(kind(open_repository(uri, RepositoryOptions::default())), expected, "{uri:?}");
    }
}
