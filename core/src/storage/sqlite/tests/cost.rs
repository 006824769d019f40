//! What an append and a scan cost, in pages and rows: counts, not times.

use super::{Kept, ctx, fill, fill_from};
use crate::storage::Reads as _;
use crate::storage::path::{Tree as _, scan};
use crate::storage::query::{BranchScan, EntryScan, Order, PathOrder};

use super::super::read::View;
use super::super::tree::{Eager, SessionTree};

const FRAME: u64 = 4096 + 24;
const PAYLOAD: usize = 1200;

fn checkpoint(kept: &Kept) {
    let writer = kept.database.writer(&ctx()).unwrap();
    let busy = writer.first("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(busy, Some(0));
}

#[test]
fn an_append_costs_at_most_five_and_a_half_frames() {
    let kept = Kept::new();
    fill(&kept, 300, PAYLOAD);
    let mut frames = 0;
    let rounds = 10;
    for _ in 0..rounds {
        checkpoint(&kept);
        // Few enough that SQLite does not checkpoint by itself.
        fill(&kept, 100, PAYLOAD);
        frames += std::fs::metadata(kept.beside("-wal")).unwrap().len() / FRAME;
    }
    let average = frames as f64 / (rounds * 100) as f64;
    println!("{average} frames per append");
    assert!(average <= 5.5, "{average} frames per append");
    assert!(average > 3.0, "{average} frames per append: is anything written?");
}

#[test]
fn a_session_takes_less_than_a_third_more_than_its_payloads() {
    let kept = Kept::new();
    let count = 3000;
    fill(&kept, count, PAYLOAD);
    kept.close();
    let size = std::fs::metadata(&kept.path).unwrap().len();
    let ratio = size as f64 / (count * PAYLOAD) as f64;
    println!("{ratio} × the payloads");
    assert!(ratio < 1.3, "{ratio} × the payloads");
    assert!(!kept.beside("-wal").exists() && !kept.beside("-shm").exists());
}

#[test]
fn moving_a_value_touches_no_index() {
    let kept = Kept::new();
    fill(&kept, 10, 100);
    checkpoint(&kept);
    let name = |text: &str| {
        let address = crate::Address::new("app", "name").unwrap();
        kept.commit(&[crate::Write::SetValue(address, crate::Json::string(text))]);
    };
    name("one");
    checkpoint(&kept);
    name("two");
    // The value's leaf and the session's row.
    assert_eq!(std::fs::metadata(kept.beside("-wal")).unwrap().len(), 32 + 2 * FRAME);
}

#[test]
fn the_wal_does_not_grow_without_bound() {
    let kept = Kept::new();
    fill(&kept, 2000, PAYLOAD);
    let size = std::fs::metadata(kept.beside("-wal")).unwrap().len();
    assert!(size < 1100 * FRAME, "{size} bytes");
}

/// Counts the rows a statement of the walk steps over.
fn steps(kept: &Kept, start: &str, what: &BranchScan) -> (usize, i32) {
    kept.database
        .read(&ctx(), |connection| {
            let sid = super::super::sessions::find(connection, "s")?;
            let tree = SessionTree::<Eager>::new(View { connection, sid });
            assert!(tree.find(start)?.is_some());
            let before = machine_steps(connection);
            let found = scan(&tree, start, what, &ctx())?;
            Ok((found.len(), machine_steps(connection) - before))
        })
        .unwrap()
}

/// Steps of SQLite's machine in the statements of a walk.
fn machine_steps(connection: &super::super::connection::Connection) -> i32 {
    use super::super::read::{CLIMB_WHOLE, NODE, NODE_BY_ID};
    [CLIMB_WHOLE, NODE, NODE_BY_ID]
        .into_iter()
        .map(|sql| connection.prepared(sql).unwrap().get_status(rusqlite::StatementStatus::VmStep))
        .sum()
}

#[test]
fn a_page_of_a_path_costs_what_it_returns() {
    let small = Kept::new();
    let of_small = fill(&small, 100, 40);
    let large = Kept::new();
    let of_large = fill(&large, 4000, 40);
    let newest = BranchScan { limit: Some(50), ..BranchScan::default() };
    let (found, few) = steps(&small, &of_small[99], &newest);
    assert_eq!(found, 50);
    let (found, many) = steps(&large, &of_large[3999], &newest);
    assert_eq!(found, 50);
    assert_eq!(few, many, "the newest entries do not cost more in a longer session");
    // A page behind a cursor and the oldest ones take a few jumps more.
    for deep in [
        BranchScan { cursor: Some(1000), ..newest.clone() },
        BranchScan { order: PathOrder::OldestFirst, ..newest.clone() },
        BranchScan { order: PathOrder::OldestFirst, cursor: Some(4000), ..newest },
    ] {
        let (found, cost) = steps(&large, &of_large[3999], &deep);
        assert_eq!(found, 50);
        assert!(cost < 3 * few, "{cost} steps for {deep:?}, {few} for the newest");
    }
}

#[test]
fn interleaved_branches_cost_a_seek_per_entry_and_give_their_own() {
    let kept = Kept::new();
    let root = "root".to_owned();
    kept.append(&root, None, 40);
    let mut tips = [root.clone(), root.clone(), root];
    for round in 0..200 {
        for (branch, tip) in tips.iter_mut().enumerate() {
            let id = format!("b{branch}-{round}");
            kept.append(&id, Some(tip), 40);
            *tip = id;
        }
    }
    for (branch, tip) in tips.iter().enumerate() {
        let path = kept.storage.scan_branch(tip, &BranchScan::default(), &ctx()).unwrap();
        assert_eq!(path.len(), 201);
        assert!(path[..200].iter().all(|entry| entry.id.starts_with(&format!("b{branch}-"))));
        let (_, cost) = steps(&kept, tip, &BranchScan::default());
        assert!(cost < 201 * 80, "{cost} steps");
    }
}

/// Each query for entries that are no messages finds them, and its cost follows their number.
#[test]
fn rare_types_are_found_without_reading_the_session() {
    use crate::{EntryType::*, Json, NewEntry, Write};
    let payload = |text: &str| Json::parse(text).unwrap();
    let with_rare = |messages: usize| {
        let kept = Kept::new();
        let root = fill(&kept, messages / 2, 40).swap_remove(0);
        for (at, name) in ["a", "b", "a"].into_iter().enumerate() {
            kept.commit(&[Write::Entry(NewEntry::custom(format!("c{at}"), Some(&root), name, None))]);
        }
        let summary = payload(r#"{"fromId":null,"summary":"s","fromHook":false}"#);
        let compact = payload(r#"{"summary":"s","retainedTail":[],"tokensBefore":1,"fromHook":false}"#);
        for (id, kind, payload) in [("s", BranchSummary, summary), ("k", Compaction, compact)] {
            let entry = NewEntry::with_payload(id, Some(&root), kind, None, payload).unwrap();
            kept.commit(&[Write::Entry(entry)]);
        }
        fill_from(&kept, &root, messages / 2, 40);
        kept
    };
    let (small, large) = (with_rare(20), with_rare(1000));
    for (entry_type, custom_type, limit, expected) in [
        (Some(Custom), None, None, &["c2", "c1", "c0"][..]),
        (Some(Custom), None, Some(1), &["c2"]),
        (Some(Custom), Some("a"), None, &["c2", "c0"]),
        (None, Some("b"), None, &["c1"]),
        (None, Some("nobody's"), None, &[]),
        (Some(Compaction), None, None, &["k"]),
        (Some(BranchSummary), None, None, &["s"]),
    ] {
        for order in [Order::Descending, Order::Ascending] {
            let custom_type = custom_type.map(str::to_owned);
            let scan = EntryScan { entry_type, custom_type, order, limit, ..EntryScan::default() };
            let cost = |kept: &Kept| {
                kept.database
                    .read(&ctx(), |connection| {
                        let sid = super::super::sessions::find(connection, "s")?;
                        let before = steps_of_reads(connection);
                        let found = View { connection, sid }.scan_entries(&scan, &ctx())?;
                        let mut ids: Vec<String> = found.into_iter().map(|entry| entry.id).collect();
                        if order == Order::Ascending {
                            ids.reverse();
                        }
                        if limit.is_none() {
                            assert_eq!(ids, expected, "{scan:?}");
                        }
                        assert_eq!(ids.len(), expected.len(), "{scan:?}");
                        Ok(steps_of_reads(connection) - before)
                    })
                    .unwrap()
            };
            let few = cost(&small);
            assert!(few > 0);
            assert_eq!(cost(&large), few, "{scan:?}");
        }
    }
}

/// Steps of SQLite's machine in every statement that reads.
fn steps_of_reads(connection: &super::super::connection::Connection) -> i32 {
    super::super::read::statements()
        .into_iter()
        .map(|sql| connection.prepared(sql).unwrap().get_status(rusqlite::StatementStatus::VmStep))
        .sum()
}

#[test]
fn a_page_of_a_session_costs_the_same_wherever_it_begins() {
    let kept = Kept::new();
    fill(&kept, 3000, 40);
    let page = |from_seq| EntryScan { from_seq: Some(from_seq), limit: Some(256), ..EntryScan::default() };
    let cost = |from_seq| {
        let steps = |connection: &super::super::connection::Connection| {
            connection
                .prepared(super::super::read::ALL[0])
                .unwrap()
                .get_status(rusqlite::StatementStatus::VmStep)
        };
        kept.database
            .read(&ctx(), |connection| {
                let sid = super::super::sessions::find(connection, "s")?;
                let before = steps(connection);
                let found = View { connection, sid }.scan_entries(&page(from_seq), &ctx())?;
                assert_eq!(found.len(), 256);
                Ok(steps(connection) - before)
            })
            .unwrap()
    };
    let first = cost(0);
    assert!(first > 256);
    assert_eq!((cost(2000), cost(5000)), (first, first));
}
