//! Every kept statement finds its rows by an index, and none sorts.

use super::super::{copy, draft, read, sessions, write};
use super::Kept;

#[test]
fn no_statement_scans_a_table_or_sorts() {
    let kept = Kept::new();
    let writer = kept.database.writer(&super::ctx()).unwrap();
    let statements = read::statements()
        .into_iter()
        .chain(write::STATEMENTS)
        .chain(sessions::STATEMENTS)
        .chain(copy::STATEMENTS)
        .chain(draft::STATEMENTS);
    let mut seen = 0;
    for sql in statements {
        let mut plan = writer.sql().prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        for at in 1..=plan.parameter_count() {
            plan.raw_bind_parameter(at, 1).unwrap();
        }
        let mut rows = plan.raw_query();
        while let Some(row) = rows.next().unwrap() {
            let step: String = row.get(3).unwrap();
            assert!(!step.contains("SCAN") && !step.contains("TEMP B-TREE"), "{step}: {sql}");
            seen += usize::from(step.contains("SEARCH"));
        }
    }
    assert!(seen > 30, "{seen} searches");
}

/// The views must be as cheap: a row by id, and the newest rows of a session.
#[test]
fn a_query_of_one_session_reads_its_range() {
    let kept = Kept::new();
    let ids = super::fill(&kept, 3, 50);
    let writer = kept.database.writer(&super::ctx()).unwrap();
    for sql in [
        "SELECT * FROM entry WHERE session_id = 's' AND id = 'x'",
        "SELECT * FROM value WHERE session_id = 's' AND namespace = 'a' AND key = 'b'",
        "SELECT * FROM branch WHERE session_id = 's'",
        "SELECT * FROM list_element WHERE session_id = 's'",
        "SELECT * FROM usage WHERE session_id = 's'",
    ] {
        let mut plan = writer.sql().prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps: Vec<String> =
            plan.query_map([], |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap();
        assert!(!steps.iter().any(|step| step.contains("SCAN")), "{steps:?}: {sql}");
    }
    assert_eq!(ids.len(), 3);
}
