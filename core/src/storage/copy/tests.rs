//! Whole copies, between all backends, and what others see of one that is being made.

use std::sync::mpsc::channel;
use std::time::Duration;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::address::reserved;
use crate::model::entry::NewEntry;
use crate::model::json::Json;
use crate::model::usage::{NewUsage, Usage};
use crate::model::value::Address;
use crate::model::write::Write;
use crate::repository::{CreateOptions, Durability, Repository, RepositoryOptions, open_repository};
use crate::session::Session;
use crate::session::reader::SessionReader as _;
use crate::storage::copy::{Entries, Plan, Record, Sink, Values, View};

const URIS: [&str; 4] =
    ["memory:", "jsonl:{folder}/lines", "sqlite:{folder}/sessions", "sqlite:{folder}/all.sqlite"];

fn repository(folder: &tempfile::TempDir, uri: &str) -> Repository {
    let options = RepositoryOptions { durability: Durability::Process, ..Default::default() };
    open_repository(&uri.replace("{folder}", folder.path().to_str().unwrap()), options).unwrap()
}

fn with_id(id: &str) -> CreateOptions {
    CreateOptions { id: Some(id.to_owned()), ..CreateOptions::default() }
}

/// Long enough to try, and over soon where that is waiting.
fn impatient() -> Context {
    Context::new().with_timeout(Duration::from_millis(50))
}

fn commit(session: &Session, writes: &[Write]) {
    session.mutate(|mutator, ctx| mutator.commit(writes, ctx), &Context::background()).unwrap();
}

/// Fills a session with some of everything, some of it dead.
fn fill(session: &Session) {
    let json = |text: &str| Json::parse(text).unwrap();
    let app = |key: &str| Address::new("app", key).unwrap();
    let usage = Usage { input: 0.1, output: 0.2, reasoning: Some(3.0), ..Usage::default() };
    let mut parent: Option<String> = None;
    for n in 0..600 {
        let id = format!("e{n}");
        let message = json(&format!("{{\"role\":\"user\",\"content\":\"\\ud800 {n}\"}}"));
        let tip = Address::known(reserved::BRANCH_TIP, "main");
        commit(
            session,
            &[
                Write::Entry(NewEntry::message(&id, parent.as_deref(), &message)),
                Write::SetValue(tip, Json::string(&id)),
            ],
        );
        // Every hundredth begins a path of its own.
        parent = Some(if n % 100 == 99 { "e0".to_owned() } else { id });
    }
    for n in 0..300 {
        commit(
            session,
            &[
                Write::SetValue(app(&format!("v{}", n % 40)), json(&n.to_string())),
                Write::AppendList(app(&format!("l{}", n % 3)), json(&format!("[ {n}]"))),
                Write::Usage(NewUsage::new(format!("u{n}"), &usage, Some("e1"))),
                Write::Entry(NewEntry::custom(format!("c{n}"), Some("e5"), "note", None)),
            ],
        );
        if n % 50 == 49 {
            commit(session, &[Write::DeleteList(app("l1")), Write::DeleteValue(app("v3"))]);
        }
    }
    session.set_name(Some("all of it"), &Context::background()).unwrap();
    commit(session, &[Write::DeleteValue(app("absent"))]);
}

fn dump(session: &Session) -> String {
    let mut out = Vec::new();
    session.dump(&mut out, &Context::background()).unwrap();
    let text = String::from_utf8(out).unwrap();
    let (_, rest) = text.split_once("\n\"name\"").unwrap();
    rest.to_owned()
}

#[test]
fn a_whole_copy_holds_what_its_source_does_between_all_backends() {
    let ctx = Context::background();
    let folder = tempfile::tempdir().unwrap();
    for uri in URIS {
        let sources = repository(&folder, uri);
        let source = sources.create(&Default::default(), &ctx).unwrap();
        fill(&source);
        for to in URIS {
            let copies = repository(&folder, to);
            let options = CreateOptions {
                id: Some(format!("copy of {}", uri.replace(['/', '{', '}'], "-"))),
                created_at: Some(7),
                cwd: Some("/work".to_owned()),
                parent_session_id: Some("parent".to_owned()),
                ..CreateOptions::default()
            };
            let copy = copies.copy(&source, &options, &mut Plan::whole, &ctx).unwrap();
            assert_eq!(dump(&copy), dump(&source), "{uri} to {to}");
            assert_eq!(copy.metadata().created_at, 7);
            let taken = copies.copy(&source, &options, &mut Plan::whole, &ctx).unwrap_err();
            assert_eq!(taken.kind(), ErrorKind::SessionExists);
            // The copy is a session like every other: it is written as its source is, and opened again.
            for session in [&copy, &source] {
                commit(session, &[Write::Entry(NewEntry::custom(format!("to {to}"), Some("e9"), "x", None))]);
            }
            copy.close(&ctx).unwrap();
            let again = copies.open(copy.id(), &ctx).unwrap();
            let entries = |session: &Session| session.find_entries(&Default::default(), &ctx).unwrap();
            let (mut ours, mut theirs) = (entries(&again), entries(&source));
            for entry in [&mut ours[0], &mut theirs[0]] {
                assert_eq!(entry.id, format!("to {to}"));
                entry.timestamp = 0;
            }
            assert_eq!(ours, theirs);
            assert_eq!(again.stats(&ctx).unwrap(), source.stats(&ctx).unwrap());
            assert_eq!(again.next_seq(&ctx).unwrap(), source.next_seq(&ctx).unwrap());
            copies.close(&ctx).unwrap();
        }
        sources.close(&ctx).unwrap();
    }
}

#[test]
fn a_copy_that_is_not_published_leaves_nothing_and_its_id_is_free() {
    let ctx = Context::background();
    let folder = tempfile::tempdir().unwrap();
    let source = repository(&folder, "memory:").create(&Default::default(), &ctx).unwrap();
    fill(&source);
    for uri in URIS {
        let copies = repository(&folder, uri);
        let other = copies.create(&Default::default(), &ctx).unwrap();
        let options = with_id("copy");
        let cancelled = Context::new();
        let mut plan = |view: &dyn View| {
            // After the destination was begun.
            cancelled.cancel();
            Plan::whole(view)
        };
        let error = copies.copy(&source, &options, &mut plan, &cancelled).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{uri}");
        let mut refused = |_: &dyn View| Err(Error::new(ErrorKind::InvalidArgument, "no"));
        let error = copies.copy(&source, &options, &mut refused, &ctx).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{uri}");
        // An entry without its parent, when much is written already.
        let mut halved = |view: &dyn View| {
            let entry = NewEntry { made_at: Some(0), ..NewEntry::custom("lost", Some("nowhere"), "x", None) };
            let seq = view.next_seq()?;
            let added = vec![Record { seq, write: Write::Entry(entry) }];
            Ok(Plan { next_seq: seq + 1, added, ..Plan::whole(view)? })
        };
        let error = copies.copy(&source, &options, &mut halved, &ctx).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingParent, "{uri}");
        let listed = copies.list(&Default::default(), &ctx).unwrap();
        assert_eq!(listed.len(), 1, "{uri}");
        copies.create(&options, &ctx).unwrap().close(&ctx).unwrap();
        copies.delete("copy", &ctx).unwrap();
        let _copy = copies.copy(&source, &options, &mut Plan::whole, &ctx).unwrap();
        other.close(&ctx).unwrap();
        copies.close(&ctx).unwrap();
    }
    let sql = rusqlite::Connection::open(folder.path().join("all.sqlite")).unwrap();
    let count = |sql_text| sql.query_row(sql_text, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM session_row"), 2);
    assert_eq!(count("SELECT count(*) FROM entry_row"), 900);
    assert_eq!(count("SELECT count(DISTINCT sid) FROM value_row"), 1);
    assert_eq!(count("SELECT count(DISTINCT sid) FROM list_row"), 1);
    drop(sql);
    let left = files(folder.path());
    assert!(left.iter().all(|name| name.ends_with(".jsonl") || name.ends_with(".sqlite")), "{left:?}");
}

fn files(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    found
}

/// A draft that hides what it is: everything goes through records.
struct Plain<'a>(&'a mut dyn Sink);

impl Sink for Plain<'_> {
    fn start(&mut self, next_seq: u64, ctx: &Context) -> Result<()> {
        self.0.start(next_seq, ctx)
    }

    fn put(&mut self, record: Record, ctx: &Context) -> Result<()> {
        self.0.put(record, ctx)
    }
}

#[test]
fn records_copied_as_they_stand_are_those_that_are_written_anew() {
    let ctx = Context::background();
    let folder = tempfile::tempdir().unwrap();
    let lines = repository(&folder, "jsonl:{folder}/lines");
    let source = lines.create(&Default::default(), &ctx).unwrap();
    fill(&source);
    let path = Some("e250".to_owned());
    let of_path = |view: &dyn View| {
        let values = Values::LabelsOfEntries;
        Ok(Plan { entries: Entries::Path(path.clone()), values, usage: false, ..Plan::whole(view)? })
    };
    let added = |view: &dyn View| {
        let next_seq = view.next_seq()? + 1;
        let write = Write::SetValue(Address::known("app", "added"), Json::null());
        Ok(Plan { added: vec![Record { seq: next_seq - 1, write }], next_seq, ..Plan::whole(view)? })
    };
    type Planning<'a> = &'a dyn Fn(&dyn View) -> Result<Plan>;
    let plans: [Planning<'_>; 3] = [&Plan::whole, &of_path, &added];
    for mut plan in plans {
        let options = CreateOptions { created_at: Some(7), ..CreateOptions::default() };
        let fast = lines.copy(&source, &options, &mut plan, &ctx).unwrap();
        let fill = |draft: &mut dyn Sink| source.copy_into(&mut plan, &mut Plain(draft), &ctx);
        let slow = lines.make(&options, fill, &ctx).unwrap();
        let text = |session: &Session| {
            let text = std::fs::read_to_string(session.metadata().path.as_ref().unwrap()).unwrap();
            text.replace(session.id(), "id")
        };
        assert!(text(&fast).lines().count() > 50);
        assert_eq!(text(&fast), text(&slow));
        // The index that was made beside the file is the one that reading it gives.
        for session in [fast, slow] {
            let dumped = dump(&session);
            session.close(&ctx).unwrap();
            let again = lines.open(session.id(), &ctx).unwrap();
            assert_eq!(dump(&again), dumped);
            let scan = crate::BranchScan { limit: Some(30), ..Default::default() };
            let along = |session: &Session| session.scan_branch("e250", &scan, &ctx).unwrap();
            assert_eq!(along(&again), along(&source));
        }
    }
}

/// A session with one entry.
fn small(repository: &Repository) -> Session {
    let session = repository.create(&Default::default(), &Context::background()).unwrap();
    commit(&session, &[Write::Entry(NewEntry::custom("e", None, "x", None))]);
    session
}

#[test]
fn an_id_belongs_to_the_copy_that_reserved_it_first() {
    let ctx = Context::background();
    let folder = tempfile::tempdir().unwrap();
    let source = small(&repository(&folder, "memory:"));
    for uri in URIS {
        let copies = repository(&folder, uri);
        let elsewhere = if uri == "memory:" { copies.clone() } else { repository(&folder, uri) };
        let ((begin, begun), (go, goes)) = (channel(), channel());
        std::thread::scope(|threads| {
            let copy = threads.spawn(|| {
                // Moved here: they go with this thread, whatever fails.
                let (begin, goes) = (begin, goes);
                let mut plan = |view: &dyn View| {
                    begin.send(()).unwrap();
                    goes.recv().unwrap();
                    Plan::whole(view)
                };
                copies.copy(&source, &with_id("d"), &mut plan, &ctx)
            });
            begun.recv().unwrap();
            // Whoever wants the id waits, in every repository of that place; nobody sees anything yet.
            for other in [&copies, &elsewhere] {
                let waiting = other.create(&with_id("d"), &impatient()).unwrap_err();
                assert_eq!(waiting.kind(), ErrorKind::DeadlineExceeded, "{uri}");
                let waiting = other.copy(&source, &with_id("d"), &mut Plan::whole, &impatient()).unwrap_err();
                assert_eq!(waiting.kind(), ErrorKind::DeadlineExceeded, "{uri}");
                assert_eq!(other.list(&Default::default(), &ctx).unwrap().len(), 0, "{uri}");
            }
            let create = threads.spawn(|| elsewhere.create(&with_id("d"), &ctx));
            go.send(()).unwrap();
            let copy = copy.join().unwrap().unwrap();
            assert_eq!(dump(&copy), dump(&source), "{uri}");
            assert_eq!(create.join().unwrap().unwrap_err().kind(), ErrorKind::SessionExists, "{uri}");
        });
        copies.close(&ctx).unwrap();
        elsewhere.close(&ctx).unwrap();
    }
}

/// Only a container keeps a create waiting where a test can hold it: by its write lock.
#[test]
fn an_id_belongs_to_the_create_that_reserved_it_first() {
    let ctx = Context::background();
    let folder = tempfile::tempdir().unwrap();
    let source = small(&repository(&folder, "memory:"));
    let copies = repository(&folder, URIS[3]);
    let other = small(&copies);
    let sql = rusqlite::Connection::open(folder.path().join("all.sqlite")).unwrap();
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|threads| {
        let create = threads.spawn(|| copies.create(&with_id("d"), &ctx));
        let lock = folder.path().join("all.sqlite.locks").join("d.lock");
        while !lock.exists() && !create.is_finished() {
            std::thread::yield_now();
        }
        let waiting = copies.copy(&source, &with_id("d"), &mut Plan::whole, &impatient()).unwrap_err();
        assert_eq!(waiting.kind(), ErrorKind::DeadlineExceeded);
        sql.execute_batch("ROLLBACK").unwrap();
        assert_eq!(create.join().unwrap().unwrap().next_seq(&ctx).unwrap(), 1);
        let copy = copies.copy(&source, &with_id("d"), &mut Plan::whole, &ctx);
        assert_eq!(copy.unwrap_err().kind(), ErrorKind::SessionExists);
    });
    other.close(&ctx).unwrap();
    copies.close(&ctx).unwrap();
}

#[test]
fn what_is_being_made_is_never_swept() {
    let ctx = Context::background();
    let folder = tempfile::tempdir().unwrap();
    let source = small(&repository(&folder, "memory:"));
    for uri in &URIS[1..] {
        let copies = repository(&folder, uri);
        let mut expected = 1;
        let made = copies.make(
            &with_id("d"),
            |sink| {
                source.copy_into(&mut Plan::whole, sink, &ctx)?;
                // Each of these sweeps: the first create, and the first open for writing, of a repository.
                for _ in 0..2 {
                    let elsewhere = repository(&folder, uri);
                    elsewhere.create(&Default::default(), &ctx)?.close(&ctx)?;
                    let listed = elsewhere.list(&Default::default(), &ctx)?;
                    assert_eq!(listed.len(), expected, "{uri}");
                    elsewhere.open(listed[0].metadata.as_ref().unwrap(), &ctx)?;
                    elsewhere.close(&ctx)?;
                    expected += 1;
                }
                Ok(())
            },
            &ctx,
        );
        assert_eq!(dump(&made.unwrap()), dump(&source), "{uri}");
        copies.close(&ctx).unwrap();
        assert_eq!(repository(&folder, uri).list(&Default::default(), &ctx).unwrap().len(), 3, "{uri}");
    }
}

#[test]
fn a_container_opens_although_what_died_in_it_cannot_be_swept_for_now() {
    let ctx = Context::background();
    let folder = tempfile::tempdir().unwrap();
    let copies = repository(&folder, URIS[3]);
    let session = small(&copies);
    session.close(&ctx).unwrap();
    copies.close(&ctx).unwrap();
    let sql = rusqlite::Connection::open(folder.path().join("all.sqlite")).unwrap();
    let copied = "created_at, storage_version, modified_at, next_seq, message_count";
    sql.execute(
        &format!("INSERT INTO session_row (id, state, {copied}) SELECT 'died', 1, {copied} FROM session_row"),
        [],
    )
    .unwrap();
    let count = || sql.query_row("SELECT count(*) FROM session_row", [], |row| row.get::<_, i64>(0)).unwrap();
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let uri = URIS[3].replace("{folder}", folder.path().to_str().unwrap());
    let options = RepositoryOptions { busy_timeout: Duration::from_millis(50), ..Default::default() };
    let beside = open_repository(&uri, options).unwrap();
    let opened = beside.open(session.id(), &ctx).unwrap();
    assert_eq!(opened.find_entries(&Default::default(), &ctx).unwrap().len(), 1);
    beside.close(&ctx).unwrap();
    sql.execute_batch("ROLLBACK").unwrap();
    assert_eq!(count(), 2);
    // The id is nobody's, and the next open sweeps.
    let copies = repository(&folder, URIS[3]);
    copies.open(session.id(), &ctx).unwrap();
    assert_eq!(count(), 1);
    copies.create(&with_id("died"), &ctx).unwrap();
    copies.close(&ctx).unwrap();
}
