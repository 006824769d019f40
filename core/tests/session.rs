//! Sessions large and deep, dumps, iterators, and what must hold without any second thread.

// Helpers outside of test functions fail by panicking, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io;
use std::sync::Arc;

use pisession::{
    Branch, BranchScan, Context, Cost, EntryQuery, Error, ErrorKind, MAX_PAYLOAD, NewEntry, NewNode,
    NewUsage, Order, PathOrder, RepositoryOptions, Session, SessionReader, Usage, UsageScan, Write,
};

use support::{Place, ToldClock, URIS, address, background, json, on_every_backend, on_every_session, user};

fn commit(session: &Session, writes: &[Write]) {
    session.mutate(|mutator, ctx| mutator.commit(writes, ctx), &background()).unwrap();
}

/// A branch `main` of custom entries "0", "1", … in one chain, built in commits of up to 1,000.
fn chain(session: &Session, length: usize) -> Branch {
    let ctx = background();
    let branch = session.create_branch("main", None, &ctx).unwrap();
    for first in (0..length).step_by(1000) {
        let last = length.min(first + 1000) - 1;
        let mut writes: Vec<Write> = (first..=last)
            .map(|number| {
                let parent = number.checked_sub(1).map(|parent| parent.to_string());
                Write::Entry(NewEntry::custom(number.to_string(), parent.as_deref(), "link", None))
            })
            .collect();
        let tip = pisession::Address::new("pi.branch.tip", "main").unwrap();
        writes.push(Write::SetValue(tip, pisession::Json::string(&last.to_string())));
        commit(session, &writes);
    }
    branch
}

#[test]
fn a_chain_of_200_000_entries_is_built_opened_walked_and_dropped_on_a_small_stack() {
    const LENGTH: usize = 200_000;
    let walk = || {
        on_every_backend(|repository| {
            let ctx = background();
            let session = repository.create(&Default::default(), &ctx).unwrap();
            let id = session.id().to_owned();
            chain(&session, LENGTH);
            session.close(&ctx).unwrap();
            drop(session);
            let session = repository.open(&id, &ctx).unwrap();
            let branch = session.branch("main", &ctx).unwrap().unwrap();

            let newest = branch.find_entries(&BranchScan::default(), &ctx).unwrap();
            assert_eq!(newest.len(), LENGTH);
            assert!(newest.iter().rev().enumerate().all(|(number, entry)| entry.id == number.to_string()));
            drop(newest);
            let oldest = BranchScan { order: PathOrder::OldestFirst, ..BranchScan::default() };
            let walked = branch.entries(&oldest, &ctx).unwrap().enumerate();
            let walked = walked.filter(|(number, entry)| entry.as_ref().unwrap().id == number.to_string());
            assert_eq!(walked.count(), LENGTH);

            // A divergence deep in the chain, and pages far from both ends.
            commit(&session, &[Write::Entry(NewEntry::custom("side", Some("1000"), "link", None))]);
            let scan = BranchScan { cursor: Some(500), limit: Some(3), ..BranchScan::default() };
            let page = session.scan_branch_structure("side", &scan, &ctx).unwrap();
            assert!(page.iter().all(|entry| entry.seq < 500) && page.len() == 3);
            let scan = BranchScan { stop_at_id: Some("150000".to_owned()), ..oldest };
            assert_eq!(branch.find_entries(&scan, &ctx).unwrap().len(), 150_001);

            let mut counted = Lines(0);
            session.dump(&mut counted, &ctx).unwrap();
            assert!(counted.0 > LENGTH);
        });
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(walk).unwrap().join().unwrap();
}

/// Counts lines and keeps nothing.
struct Lines(usize);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.iter().filter(|byte| **byte == b'\n').count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_dump_has_a_line_for_each_item_also_beyond_a_page() {
    on_every_session(|session| {
        let number = |number: usize| format!("{number:04}");
        let usage = Usage { input: 1.0, ..Usage::default() };
        let mut writes = Vec::new();
        for item in 0..600 {
            let name = number(item);
            let tip = pisession::Address::new("pi.branch.tip", &name).unwrap();
            writes.push(Write::Entry(NewEntry::custom(format!("e{name}"), None, "x", None)));
            writes.push(Write::Usage(NewUsage::new(format!("u{name}"), &usage, None)));
            writes.push(Write::SetValue(address(&name), json("[1,2]")));
            writes.push(Write::SetValue(tip, json("null")));
            writes.push(Write::AppendList(address(&name), json("{\"a\":1}")));
        }
        writes.extend((0..2500).map(|_| Write::AppendList(address("long"), json("0"))));
        commit(session, &writes);
        let mut out = Vec::new();
        session.dump(&mut out, &background()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let dump: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (field, count) in [("entries", 600), ("usage", 600), ("values", 1200), ("lists", 601)] {
            assert_eq!(dump[field].as_array().unwrap().len(), count, "{field}");
        }
        assert_eq!(dump["branches"].as_object().unwrap().len(), 600);
        assert_eq!(dump["lists"][600]["elements"].as_array().unwrap().len(), 2500);
        assert!(text.lines().any(|line| line.starts_with("{\"id\":\"e0300\"")));
        assert!(text.lines().any(|line| line == "\"0599\":null"));
        assert!(text.ends_with("}\n") && text.lines().count() > 600 * 5 + 2500);
    });
}

#[test]
fn a_dump_that_cannot_be_written_fails_with_what_the_system_said() {
    struct Failing(usize, io::ErrorKind);
    impl io::Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| io::Error::from(self.1))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    on_every_session(|session| {
        chain(session, 10);
        let ctx = background();
        for (kind, expected) in
            [(io::ErrorKind::BrokenPipe, ErrorKind::Io), (io::ErrorKind::StorageFull, ErrorKind::Full)]
        {
            for room in [0, 100, 1000] {
                let error = session.dump(&mut Failing(room, kind), &ctx).unwrap_err();
                assert_eq!(error.kind(), expected, "{error:?}");
            }
        }
        session.dump(&mut Failing(1 << 20, io::ErrorKind::BrokenPipe), &ctx).unwrap();
    });
}

#[test]
fn a_dump_inside_a_mutation_of_its_thread_is_no_writer() {
    on_every_session(|session| {
        let mutation = session.begin_mutation(&background()).unwrap();
        session.dump(&mut Lines(0), &background()).unwrap();
        mutation.end();
    });
}

#[test]
fn two_handles_of_one_name_are_equal_and_of_two_sessions_are_not() {
    on_every_backend(|repository| {
        let ctx = background();
        let one = repository.create(&Default::default(), &ctx).unwrap();
        let other = repository.create(&Default::default(), &ctx).unwrap();
        let made = one.create_branch("main", None, &ctx).unwrap();
        assert_eq!(made, one.clone().branch("main", &ctx).unwrap().unwrap());
        assert_ne!(made, one.create_branch("side", None, &ctx).unwrap());
        assert_ne!(made, other.create_branch("main", None, &ctx).unwrap());
    });
}

#[test]
fn iterators_end_after_their_context_is_cancelled() {
    on_every_session(|session| {
        let branch = chain(session, 600);
        let ctx = Context::new();
        let mut along_path = branch.entries(&BranchScan::default(), &ctx).unwrap();
        let mut all = session.entries(&EntryQuery::default(), &ctx);
        assert!(along_path.next().unwrap().is_ok() && all.next().unwrap().is_ok());
        ctx.cancel();
        for entries in [along_path, all] {
            let mut rest: Vec<Result<_, Error>> = entries.collect();
            let last = rest.pop().unwrap();
            assert_eq!(last.unwrap_err().kind(), ErrorKind::Cancelled);
            assert!(rest.len() < 599 && rest.iter().all(Result::is_ok));
        }
    });
}

#[test]
fn paging_along_a_path_is_a_snapshot_of_it() {
    on_every_session(|session| {
        let ctx = background();
        let branch = chain(session, 600);
        let entries = branch.entries(&BranchScan::default(), &ctx).unwrap();
        let oldest = BranchScan { order: PathOrder::OldestFirst, ..BranchScan::default() };
        let oldest = branch.entries(&oldest, &ctx).unwrap();
        branch.append_message(&user("late"), &ctx).unwrap();
        session.create_branch("side", Some("10"), &ctx).unwrap().append_message(&user("x"), &ctx).unwrap();
        assert_eq!(entries.map(Result::unwrap).filter(|entry| entry.id.len() < 10).count(), 600);
        assert_eq!(oldest.map(Result::unwrap).filter(|entry| entry.id.len() < 10).count(), 600);
        assert_eq!(branch.entries(&BranchScan::default(), &ctx).unwrap().count(), 601);
    });
}

#[test]
fn an_append_that_is_refused_leaves_tip_and_seq_for_the_next() {
    on_every_session(|session| {
        let ctx = background();
        let branch = session.create_branch("main", None, &ctx).unwrap();
        let first = branch.append_message(&user("a"), &ctx).unwrap();
        let nodes = [NewNode::Message(user("b")), NewNode::Message(json("[]"))];
        assert_eq!(branch.append_many(&nodes, &ctx).unwrap_err().kind(), ErrorKind::InvalidArgument);
        let pending = json("{\"role\":\"assistant\",\"stopReason\":\"pending\"}");
        let error = branch.append_message(&pending, &ctx).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PendingAssistant);
        assert_eq!(branch.tip_id(&ctx).unwrap().as_ref(), Some(&first));
        assert_eq!(session.next_seq(&ctx).unwrap(), 4);
        let next = branch.append_message(&user("c"), &ctx).unwrap();
        let next = session.get_entry(&next, &ctx).unwrap().unwrap();
        assert_eq!((next.parent_id, next.seq), (Some(first), 4));
    });
}

/// Doubles of every size from a fixed seed.
fn doubles() -> impl Iterator<Item = f64> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        f64::from_bits(state)
    })
    .filter(|number| number.is_finite())
}

#[test]
fn costs_are_given_back_to_the_bit_and_summed_in_order() {
    on_every_session(|session| {
        let ctx = background();
        // Half of every size, half as costs are.
        let costs: Vec<f64> =
            doubles().take(10_000).flat_map(|any| [any, (any.to_bits() % 100_000) as f64 / 1e7]).collect();
        let row = |(number, cost): (usize, &f64)| {
            let cost = Cost { input: *cost, total: cost.fract(), ..Cost::default() };
            Write::Usage(NewUsage::new(number.to_string(), &Usage { cost, ..Usage::default() }, None))
        };
        let rows: Vec<Write> = costs.iter().enumerate().map(row).collect();
        rows.chunks(1000).for_each(|chunk| commit(session, chunk));
        let stored = session.scan_usage(&UsageScan::default(), &ctx).unwrap();
        for (row, cost) in stored.iter().zip(&costs) {
            assert_eq!(row.usage.cost.input.to_bits(), (cost + 0.0).to_bits(), "{cost:e}");
        }
        let sum = costs.iter().fold(0.0, |sum, cost| sum + cost.fract());
        assert_eq!(session.stats(&ctx).unwrap().usage.cost.total.to_bits(), f64::to_bits(sum));
    });
}

#[test]
fn counters_that_are_no_numbers_count_zero_at_once_and_after_reopening() {
    on_every_backend(|repository| {
        let ctx = background();
        let session = repository.create(&Default::default(), &ctx).unwrap();
        let usage = Usage { input: f64::NAN, output: f64::INFINITY, total_tokens: 3.0, ..Usage::default() };
        commit(&session, &[Write::Usage(NewUsage::new("u", &usage, None))]);
        let expected = Usage { total_tokens: 3.0, ..Usage::default() };
        assert_eq!(session.stats(&ctx).unwrap().usage, expected);
        let id = session.id().to_owned();
        session.close(&ctx).unwrap();
        assert_eq!(repository.open(&id, &ctx).unwrap().stats(&ctx).unwrap().usage, expected);
    });
}

#[test]
fn timestamps_are_what_the_clock_says_also_when_it_goes_back() {
    for uri in URIS {
        let clock = Arc::new(ToldClock::default());
        clock.tell(5000);
        let options = RepositoryOptions { clock: clock.clone(), ..RepositoryOptions::default() };
        let place = Place::new(uri, options);
        let ctx = background();
        let session = place.repository.create(&Default::default(), &ctx).unwrap();
        let branch = session.create_branch("main", None, &ctx).unwrap();
        for now in [7000, 3000, 0, 9000] {
            clock.tell(now);
            branch.append_message(&user("x"), &ctx).unwrap();
        }
        let id = session.id().to_owned();
        session.close(&ctx).unwrap();
        let session = place.repository.open(&id, &ctx).unwrap();
        assert_eq!(session.metadata().created_at, 5000);
        let ascending = EntryQuery { order: Order::Ascending, ..EntryQuery::default() };
        let found = session.find_entries(&ascending, &ctx).unwrap();
        assert!(found.iter().map(|entry| entry.timestamp).eq([7000, 3000, 0, 9000]));
        assert!(found.iter().map(|entry| entry.seq).eq([2, 4, 6, 8]));
    }
}

#[test]
fn a_payload_over_256_mib_and_a_commit_over_1_gib_are_refused() {
    let error = pisession::Json::parse(" ".repeat(MAX_PAYLOAD + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    // One text, shared by all the writes.
    let large = json(&format!("\"{}\"", "x".repeat(8 << 20)));
    let writes = vec![Write::AppendList(address("large"), large); 128];
    on_every_session(|session| {
        let error = session.mutate(|mutator, ctx| mutator.commit(&writes, ctx), &background()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert_eq!(session.next_seq(&background()).unwrap(), 1);
    });
}

#[test]
fn ids_can_be_asked_for_by_the_thousand() {
    on_every_session(|session| {
        chain(session, 2000);
        let ids: Vec<String> = (0..40_000).map(|number| (number % 3000).to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let found = session.get_entries(&ids, &background()).unwrap();
        let there: Vec<&str> = ids.iter().copied().filter(|id| id.parse::<u64>().unwrap() < 2000).collect();
        assert!(found.iter().map(|entry| entry.id.as_str()).eq(there));
    });
}

#[test]
fn a_query_with_every_bound_at_its_edge_is_answered() {
    on_every_session(|session| {
        chain(session, 3);
        let ctx = background();
        for order in [Order::Ascending, Order::Descending] {
            for bound in [0, 1, u64::MAX] {
                let query = EntryQuery {
                    from_seq: Some(bound),
                    to_seq: Some(bound),
                    cursor: Some(bound),
                    limit: Some(bound),
                    order,
                    ..EntryQuery::default()
                };
                assert_eq!(session.find_entries(&query, &ctx).unwrap(), []);
                let scan =
                    UsageScan { from_seq: Some(bound), to_seq: Some(bound), limit: Some(bound), order };
                assert_eq!(session.scan_usage(&scan, &ctx).unwrap(), []);
            }
            for path in [PathOrder::NewestFirst, PathOrder::OldestFirst] {
                let scan = BranchScan {
                    order: path,
                    cursor: Some(u64::MAX),
                    limit: Some(u64::MAX),
                    ..BranchScan::default()
                };
                let count = if path == PathOrder::NewestFirst { 3 } else { 0 };
                assert_eq!(session.scan_branch("2", &scan, &ctx).unwrap().len(), count);
            }
        }
    });
}
