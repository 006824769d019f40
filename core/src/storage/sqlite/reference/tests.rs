//! What reading the reference's tables costs.

#[path = "../../../../tests/support/reference.rs"]
#[allow(dead_code)] // other tests use the rest
mod container;

use std::path::Path;

use self::container::Container;
use super::super::tests::{ctx, open};
use super::super::{Access, Database};
use super::{ReferenceStorage, read, sessions};
use crate::error::ErrorKind;
use crate::storage::query::{BranchScan, EntryScan, Order, PathOrder};
use crate::storage::{Reads as _, Storage as _};
use crate::sync::lock;

const COUNT: usize = 10_000;

fn chain(path: &Path) -> (Database, ReferenceStorage) {
    let mut container = Container::create(path);
    container.session("s", 5);
    container.chain("s", COUNT);
    container.close();
    let database = open(path, Access::Read).unwrap();
    let storage = ReferenceStorage::open(database.clone(), "s", &ctx()).unwrap();
    (database, storage)
}

/// How many entries the last walk along a path met.
fn walked(storage: &ReferenceStorage) -> usize {
    lock(&storage.walks.0).as_ref().map_or(0, super::path::Walk::length)
}

#[test]
fn no_statement_scans_a_table_or_sorts() {
    let folder = tempfile::tempdir().unwrap();
    let (database, _storage) = chain(&folder.path().join("c"));
    let mut seen = 0;
    for sql in read::statements().into_iter().chain(sessions::STATEMENTS) {
        let steps: Vec<String> = database
            .read(&ctx(), |connection| {
                let failed = |error| connection.fault("explain", error);
                let mut plan =
                    connection.sql().prepare(&format!("EXPLAIN QUERY PLAN {sql}")).map_err(failed)?;
                for at in 1..=plan.parameter_count() {
                    plan.raw_bind_parameter(at, 1).map_err(failed)?;
                }
                let mut rows = plan.raw_query();
                let mut steps = Vec::new();
                while let Some(row) = rows.next().map_err(failed)? {
                    steps.push(row.get(3).map_err(failed)?);
                }
                Ok(steps)
            })
            .unwrap();
        for step in steps {
            // The one row of a sum.
            let scans = step.contains("SCAN") && step != "SCAN CONSTANT ROW";
            assert!(!scans && !step.contains("TEMP B-TREE"), "{step}: {sql}");
            seen += usize::from(step.contains("SEARCH"));
        }
    }
    assert!(seen >= 18, "{seen} searches");
}

#[test]
fn the_newest_of_a_long_path_cost_as_many_steps_as_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let (_database, storage) = chain(&folder.path().join("c"));
    let newest = BranchScan { limit: Some(50), ..BranchScan::default() };
    let found = storage.scan_branch("e10000", &newest, &ctx()).unwrap();
    assert_eq!(found.len(), 50);
    assert_eq!((found[0].id.as_str(), found[49].id.as_str()), ("e10000", "e9951"));
    assert_eq!(found[0].parent_id.as_deref(), Some("e9999"));
    assert_eq!(walked(&storage), 50);
    // The next page goes on from there.
    let next = BranchScan { cursor: Some(found[49].seq), ..newest };
    let found = storage.scan_branch("e10000", &next, &ctx()).unwrap();
    assert_eq!((found[0].id.as_str(), found.len(), walked(&storage)), ("e9950", 50, 100));
}

#[test]
fn a_path_is_walked_once_however_many_pages_are_read_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (_database, storage) = chain(&folder.path().join("c"));
    let mut page = BranchScan {
        order: PathOrder::OldestFirst,
        limit: Some(100),
        cursor: Some(0),
        ..BranchScan::default()
    };
    let mut count = 0;
    loop {
        let found = storage.scan_branch_structure("e10000", &page, &ctx()).unwrap();
        let Some(last) = found.last() else { break };
        assert_eq!(found[0].id, format!("e{}", count + 1));
        count += found.len();
        page.cursor = Some(last.seq);
        assert_eq!(walked(&storage), COUNT);
    }
    assert_eq!(count, COUNT);
}

#[test]
fn the_newest_of_a_session_are_found_from_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (_database, storage) = chain(&folder.path().join("c"));
    let newest = EntryScan { order: Order::Descending, limit: Some(50), ..EntryScan::default() };
    let found = storage.scan_entries(&newest, &ctx()).unwrap();
    assert_eq!((found.len(), found[0].seq, found[49].seq), (50, 10_000, 9_951));
    assert_eq!(storage.next_seq(&ctx()).unwrap(), 10_002);
    assert_eq!(storage.stats(&ctx()).unwrap().message_count, 10_000);
}

#[test]
fn a_closed_storage_refuses_and_an_open_one_commits_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (_database, storage) = chain(&folder.path().join("c"));
    assert_eq!(storage.commit(&[], &ctx()).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(storage.query("SELECT 1", &[], &ctx()).unwrap_err().kind(), ErrorKind::Unsupported);
    let copy = folder.path().join("copy");
    assert_eq!(storage.backup_to(&copy, &ctx()).unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(!copy.exists());
    storage.close(&ctx()).unwrap();
    assert_eq!(storage.stats(&ctx()).unwrap_err().kind(), ErrorKind::Closed);
}
