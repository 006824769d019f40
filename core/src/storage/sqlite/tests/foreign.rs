//! What another SQLite library in this process does to a file that is open here, played by its two halves:
//! the locks of this process are dropped (closing any descriptor of a file does that), and another process
//! opens and closes the database, which then believes itself the last user.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::guard::{beside, identity};
use super::{Kept, append, ctx};
use crate::repository::Durability;
use crate::storage::{Reads as _, Storage as _};

/// Set in a child: the database to work on.
const CHILD: &str = "PISESSION_TEST_DATABASE";

/// This test program with one of its tests, which finds `CHILD` set.
fn child(test: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("storage::sqlite::tests::foreign::{test}");
    command.args(["--exact", &name, "--nocapture"]).env(CHILD, path);
    command
}

fn drop_process_locks(path: &Path) {
    for suffix in ["", "-shm"] {
        drop(std::fs::File::open(beside(path, suffix)).unwrap());
    }
}

fn open_and_close(path: &Path) {
    let stranger = rusqlite::Connection::open(path).unwrap();
    stranger.query_row("SELECT count(*) FROM entry_row", [], |_| Ok(())).unwrap();
    stranger.close().unwrap();
}

fn wal_of(path: &Path) -> Option<super::super::guard::Identity> {
    std::fs::metadata(beside(path, "-wal")).ok().map(|metadata| identity(&metadata))
}

#[test]
fn a_stranger_that_believes_itself_the_last_user_deletes_nothing() {
    if let Some(path) = std::env::var_os(CHILD) {
        open_and_close(Path::new(&path));
        return;
    }
    let stranger = |path: &Path| {
        drop_process_locks(path);
        let done =
            child("a_stranger_that_believes_itself_the_last_user_deletes_nothing", path).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };

    let kept = Kept::new();
    kept.append("0", None, 100);
    let wal = wal_of(&kept.path);
    assert!(wal.is_some());
    for round in 1..4 {
        stranger(&kept.path);
        assert_eq!(wal_of(&kept.path), wal, "the log is still ours");
        kept.append(&round.to_string(), Some(&(round - 1).to_string()), 100);
    }
    // What `kill -9` would leave.
    let folder = tempfile::tempdir().unwrap();
    let crashed = folder.path().join("s.sqlite");
    for suffix in ["", "-wal"] {
        std::fs::copy(beside(&kept.path, suffix), beside(&crashed, suffix)).unwrap();
    }
    assert_eq!(Kept::at(&crashed).storage.stats(&ctx()).unwrap().message_count, 4);

    // The same stranger beside a writer without a guard: the log is gone.
    kept.close();
    let unguarded = rusqlite::Connection::open(&kept.path).unwrap();
    unguarded.execute("UPDATE session_row SET modified_at = 8", []).unwrap();
    assert!(wal_of(&kept.path).is_some());
    stranger(&kept.path);
    assert_eq!(wal_of(&kept.path), None);
    // Its own close would write to files that are gone: leave it as a crash would.
    std::mem::forget(unguarded);
}

#[test]
fn a_writer_that_is_killed_loses_no_acknowledged_commit() {
    if let Some(path) = std::env::var_os(CHILD) {
        let kept = Kept::at(Path::new(&path));
        let first = kept.storage.stats(&ctx()).unwrap().message_count;
        for count in first.. {
            let parent = count.checked_sub(1).map(|before| before.to_string());
            kept.append(&count.to_string(), parent.as_deref(), 2000);
            if count % 7 == 0 {
                drop_process_locks(&kept.path);
            }
            println!("acknowledged {}", count + 1);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sqlite");
    super::Database::create(&path, Some(&super::metadata("s")), Durability::Power, &ctx()).unwrap();
    let mut before = 0;
    for round in 0..5 {
        let mut writer = child("a_writer_that_is_killed_loses_no_acknowledged_commit", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut acknowledged = before;
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut read = |line: String| {
            if let Some((_, count)) = line.split_once("acknowledged ") {
                acknowledged = count.trim().parse().unwrap();
            }
            acknowledged
        };
        while read(lines.next().expect("the writer writes on").unwrap()) < before + 40 + 13 * round {
            if round % 2 == 0 {
                continue;
            }
            open_and_close(&path);
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            read(line);
        }
        let kept = Kept::at(&path);
        let found = kept.storage.stats(&ctx()).unwrap().message_count;
        assert!(found >= acknowledged, "{found} of {acknowledged} acknowledged commits are there");
        let tip = (found - 1).to_string();
        let path = kept.storage.scan_branch(&tip, &Default::default(), &ctx()).unwrap();
        assert_eq!(path.len() as u64, found);
        assert_eq!(kept.storage.next_seq(&ctx()).unwrap(), 2 * found + 1);
        let refused = kept.storage.commit(&append(&tip, None, 10), &ctx()).unwrap_err();
        assert_eq!(refused.kind(), crate::ErrorKind::DuplicateId);
        kept.close();
        before = found;
    }
}
