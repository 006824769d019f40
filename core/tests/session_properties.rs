//! Random histories against a model that is too plain to be wrong, on every backend.

// Helpers outside of test functions fail by panicking, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::{BTreeMap, HashMap};

use pisession::{
    Address, BranchScan, Durability, Entry, EntryQuery, EntryType, ErrorKind, Json, ListRead, NewEntry,
    NewUsage, Order, PathOrder, RepositoryOptions, Session, SessionReader, Usage, UsageScan, Write,
};
use proptest::prelude::*;

use support::{Place, URIS, background, counting_options};

/// One write, in numbers that are resolved against what is there when it is applied.
#[derive(Debug, Clone)]
enum Op {
    /// Back from the newest entry by so many for the parent; none for a root.
    Entry(Option<usize>, Kind),
    Usage(u8),
    Set(u8, u8),
    Delete(u8),
    Append(u8, u8),
    DeleteList(u8),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Message,
    Compaction,
    Custom(u8),
}

impl Kind {
    fn entry_type(self) -> EntryType {
        match self {
            Self::Message => EntryType::Message,
            Self::Compaction => EntryType::Compaction,
            Self::Custom(_) => EntryType::Custom,
        }
    }

    fn custom_type(self) -> Option<String> {
        match self {
            Self::Custom(number) => Some(format!("type {number}")),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
struct ModelEntry {
    id: String,
    parent: Option<String>,
    seq: u64,
    kind: Kind,
}

/// Everything a session holds, in the plainest form.
#[derive(Default)]
struct Model {
    entries: Vec<ModelEntry>,
    by_id: HashMap<String, usize>,
    values: BTreeMap<String, (u8, u64)>,
    lists: BTreeMap<String, Vec<(u64, u8)>>,
    usage: Vec<(String, u64, u8)>,
    next_seq: u64,
}

impl Model {
    /// Applies `op` and gives the write that says the same.
    fn apply(&mut self, op: &Op) -> Write {
        let seq = self.next_seq;
        self.next_seq += 1;
        let place = |key: &u8| Address::new("app", format!("key {key}")).unwrap();
        match op {
            Op::Entry(back, kind) => {
                let back = back.filter(|_| !self.entries.is_empty());
                let parent = back
                    .map(|back| self.entries[self.entries.len() - 1 - back % self.entries.len()].id.clone());
                let id = format!("e{seq}");
                let payload = match kind {
                    Kind::Message => "{\"message\":{\"role\":\"user\"}}",
                    Kind::Compaction => {
                        "{\"summary\":\"\",\"retainedTail\":[],\"tokensBefore\":1,\"fromHook\":false}"
                    }
                    Kind::Custom(_) => "{}",
                };
                let custom_type = kind.custom_type();
                let entry = NewEntry::with_payload(
                    &id,
                    parent.as_deref(),
                    kind.entry_type(),
                    custom_type.as_deref(),
                    Json::parse(payload).unwrap(),
                );
                self.by_id.insert(id.clone(), self.entries.len());
                self.entries.push(ModelEntry { id, parent, seq, kind: *kind });
                Write::Entry(entry.unwrap())
            }
            Op::Usage(input) => {
                let usage = Usage { input: f64::from(*input), ..Usage::default() };
                let id = format!("u{seq}");
                self.usage.push((id.clone(), seq, *input));
                Write::Usage(NewUsage::new(id, &usage, None))
            }
            Op::Set(key, value) => {
                self.values.insert(format!("key {key}"), (*value, seq));
                Write::SetValue(place(key), Json::of(value).unwrap())
            }
            Op::Delete(key) => {
                self.values.remove(&format!("key {key}"));
                Write::DeleteValue(place(key))
            }
            Op::Append(key, value) => {
                self.lists.entry(format!("key {key}")).or_default().push((seq, *value));
                Write::AppendList(place(key), Json::of(value).unwrap())
            }
            Op::DeleteList(key) => {
                self.lists.remove(&format!("key {key}"));
                Write::DeleteList(place(key))
            }
        }
    }

    /// What a scan of the path from `start` gives, by its definition: path, order, stop, filter, cursor, limit.
    fn scan_branch(&self, start: &str, scan: &BranchScan) -> Vec<&ModelEntry> {
        let mut path = Vec::new();
        let mut at = Some(start);
        while let Some(id) = at {
            let entry = &self.entries[self.by_id[id]];
            path.push(entry);
            at = entry.parent.as_deref();
        }
        if scan.order == PathOrder::OldestFirst {
            path.reverse();
        }
        let stop = path.iter().position(|entry| {
            Some(entry.kind.entry_type()) == scan.stop_at_type || Some(&entry.id) == scan.stop_at_id.as_ref()
        });
        path.truncate(stop.map_or(path.len(), |stop| stop + 1));
        path.retain(|entry| passes(entry, scan.entry_type, scan.custom_type.as_deref()));
        if let Some(cursor) = scan.cursor {
            path.retain(|entry| match scan.order {
                PathOrder::NewestFirst => entry.seq < cursor,
                PathOrder::OldestFirst => entry.seq > cursor,
            });
        }
        path.truncate(scan.limit.map_or(path.len(), |limit| limit as usize));
        path
    }

    fn find_entries(&self, query: &EntryQuery) -> Vec<&ModelEntry> {
        let mut found: Vec<&ModelEntry> = self.entries.iter().collect();
        if query.order == Order::Descending {
            found.reverse();
        }
        found.retain(|entry| {
            passes(entry, query.entry_type, query.custom_type.as_deref())
                && query.from_seq.is_none_or(|from| entry.seq >= from)
                && query.to_seq.is_none_or(|to| entry.seq <= to)
                && query.cursor.is_none_or(|cursor| match query.order {
                    Order::Ascending => entry.seq > cursor,
                    Order::Descending => entry.seq < cursor,
                })
        });
        found.truncate(query.limit.map_or(found.len(), |limit| limit as usize));
        found
    }
}

fn passes(entry: &ModelEntry, entry_type: Option<EntryType>, custom_type: Option<&str>) -> bool {
    entry_type.is_none_or(|wanted| wanted == entry.kind.entry_type())
        && custom_type.is_none_or(|wanted| entry.kind.custom_type().as_deref() == Some(wanted))
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::Message),
        1 => Just(Kind::Compaction),
        4 => (0..3u8).prop_map(Kind::Custom),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let back = prop_oneof![
        1 => Just(None),
        30 => Just(Some(0)),
        6 => (0..5usize).prop_map(Some),
        3 => (0..1000usize).prop_map(Some),
    ];
    prop_oneof![
        12 => (back, kind()).prop_map(|(back, kind)| Op::Entry(back, kind)),
        1 => any::<u8>().prop_map(Op::Usage),
        2 => (0..12u8, any::<u8>()).prop_map(|(key, value)| Op::Set(key, value)),
        1 => (0..12u8).prop_map(Op::Delete),
        2 => (0..4u8, any::<u8>()).prop_map(|(key, value)| Op::Append(key, value)),
        1 => (0..4u8).prop_map(Op::DeleteList),
    ]
}

fn history() -> impl Strategy<Value = Vec<Vec<Op>>> {
    let commits = |ops, count| proptest::collection::vec(proptest::collection::vec(op(), 0..ops), 1..count);
    prop_oneof![3 => commits(4, 12), 2 => commits(12, 20), 1 => commits(60, 20)]
}

/// A question in numbers between 0 and 1, which are scaled to the session they are put to.
#[derive(Debug, Clone)]
struct Question {
    start: f64,
    oldest_first: bool,
    stop_type: Option<Kind>,
    stop_id: Option<f64>,
    filter_type: Option<Kind>,
    filter_custom: Option<u8>,
    cursor: Option<f64>,
    limit: Option<u64>,
    bounds: (Option<f64>, Option<f64>),
}

fn question() -> impl Strategy<Value = Question> {
    let part = || 0.0..1.0f64;
    let rarely = proptest::option::weighted::<proptest::strategy::BoxedStrategy<Kind>>;
    (
        (part().prop_map(f64::sqrt), any::<bool>()),
        (rarely(0.3, kind().boxed()), proptest::option::weighted(0.3, part())),
        (rarely(0.3, kind().boxed()), proptest::option::weighted(0.2, 0..4u8)),
        proptest::option::weighted(0.5, part()),
        proptest::option::weighted(0.5, prop_oneof![0..4u64, 0..400u64]),
        (proptest::option::weighted(0.3, part()), proptest::option::weighted(0.3, part())),
    )
        .prop_map(|((start, oldest_first), stop, filter, cursor, limit, bounds)| Question {
            start,
            oldest_first,
            stop_type: stop.0,
            stop_id: stop.1,
            filter_type: filter.0,
            filter_custom: filter.1,
            cursor,
            limit,
            bounds,
        })
}

impl Question {
    fn scan(&self, model: &Model) -> BranchScan {
        BranchScan {
            order: if self.oldest_first { PathOrder::OldestFirst } else { PathOrder::NewestFirst },
            stop_at_type: self.stop_type.map(Kind::entry_type),
            stop_at_id: self.stop_id.map(|part| model.entries[scaled(part, model.entries.len())].id.clone()),
            entry_type: self.filter_type.map(Kind::entry_type),
            custom_type: self.filter_custom.and_then(|number| Kind::Custom(number).custom_type()),
            cursor: self.cursor.map(|part| scaled(part, model.next_seq as usize + 2) as u64),
            limit: self.limit,
        }
    }

    fn query(&self, model: &Model) -> EntryQuery {
        let scan = self.scan(model);
        let bound = |part: Option<f64>| part.map(|part| scaled(part, model.next_seq as usize + 2) as u64);
        EntryQuery {
            entry_type: scan.entry_type,
            custom_type: scan.custom_type,
            from_seq: bound(self.bounds.0),
            to_seq: bound(self.bounds.1),
            cursor: scan.cursor,
            order: if self.oldest_first { Order::Ascending } else { Order::Descending },
            limit: scan.limit,
        }
    }
}

fn scaled(part: f64, count: usize) -> usize {
    ((part * count as f64) as usize).min(count - 1)
}

fn ids<'a>(entries: impl IntoIterator<Item = &'a ModelEntry>) -> Vec<String> {
    entries.into_iter().map(|entry| entry.id.clone()).collect()
}

fn ids_of(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.id.clone()).collect()
}

fn compare(session: &Session, model: &Model, questions: &[Question]) -> Result<(), TestCaseError> {
    let ctx = background();
    for question in questions.iter().filter(|_| !model.entries.is_empty()) {
        let start = &model.entries[scaled(question.start, model.entries.len())].id;
        let scan = question.scan(model);
        let expected = ids(model.scan_branch(start, &scan));
        let found = session.scan_branch(start, &scan, &ctx).unwrap();
        prop_assert_eq!(ids_of(&found), expected.clone(), "scan_branch from {} {:?}", start, scan);
        for entry in &found {
            let known = &model.entries[model.by_id[&entry.id]];
            prop_assert_eq!((entry.seq, &entry.parent_id), (known.seq, &known.parent));
            prop_assert_eq!(
                (entry.entry_type, &entry.custom_type),
                (known.kind.entry_type(), &known.kind.custom_type())
            );
        }
        let structures = session.scan_branch_structure(start, &scan, &ctx).unwrap();
        let of_entries: Vec<_> = found.iter().map(Entry::structure).collect();
        prop_assert_eq!(structures, of_entries, "scan_branch_structure from {} {:?}", start, scan);
        let tip = Write::SetValue(Address::new("pi.branch.tip", "at").unwrap(), Json::string(start));
        let branch = match session.branch("at", &ctx).unwrap() {
            Some(branch) => branch,
            None => session.create_branch("at", None, &ctx).unwrap(),
        };
        session.mutate(|mutator, ctx| mutator.commit(&[tip], ctx), &ctx).unwrap();
        let paged: Vec<Entry> = branch.entries(&scan, &ctx).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(ids_of(&paged), expected, "paged from {} {:?}", start, scan);

        let query = question.query(model);
        let expected = ids(model.find_entries(&query));
        prop_assert_eq!(
            ids_of(&session.find_entries(&query, &ctx).unwrap()),
            expected.clone(),
            "{:?}",
            query
        );
        let paged: Vec<Entry> = session.entries(&query, &ctx).map(Result::unwrap).collect();
        prop_assert_eq!(ids_of(&paged), expected, "paged {:?}", query);
    }
    Ok(())
}

/// What questions do not touch: values, lists, ledger, totals.
fn compare_rest(session: &Session, model: &Model) -> Result<(), TestCaseError> {
    let ctx = background();
    for prefix in ["", "key 1", "key 11", "x"] {
        let found = session.scan_values(&Address::new("app", prefix).unwrap(), &ctx).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|stored| (stored.address.key().to_owned(), (stored.value.read::<u8>().unwrap(), stored.seq)))
            .collect();
        let expected: Vec<_> = model
            .values
            .iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .map(|(key, at)| (key.clone(), *at))
            .collect();
        prop_assert_eq!(found, expected);
    }
    for key in (0..4).map(|key| format!("key {key}")) {
        let address = Address::new("app", &key).unwrap();
        let elements = model.lists.get(&key).cloned().unwrap_or_default();
        for order in [Order::Ascending, Order::Descending] {
            // Whole, then in pages of two from cursor to cursor.
            for limit in [1000, 2] {
                let mut read = ListRead { order, limit, ..ListRead::default() };
                let mut found = Vec::new();
                loop {
                    let page = session.read_list(&address, &read, &ctx).unwrap();
                    prop_assert!(page.len() as u64 <= limit);
                    let Some(last) = page.last() else { break };
                    read.cursor = Some(last.seq);
                    found.extend(
                        page.iter().map(|element| (element.seq, element.value.read::<u8>().unwrap())),
                    );
                }
                if order == Order::Descending {
                    found.reverse();
                }
                prop_assert_eq!(&found, &elements);
            }
        }
    }
    let rows = session.scan_usage(&UsageScan::default(), &ctx).unwrap();
    let rows: Vec<_> = rows.into_iter().map(|row| (row.id, row.seq, row.usage.input as u8)).collect();
    prop_assert_eq!(&rows, &model.usage);
    let stats = session.stats(&ctx).unwrap();
    let messages = model.entries.iter().filter(|entry| entry.kind == Kind::Message).count();
    let input: u64 = model.usage.iter().map(|(_, _, input)| u64::from(*input)).sum();
    prop_assert_eq!((stats.message_count, stats.usage.input), (messages as u64, input as f64));
    prop_assert_eq!(session.next_seq(&ctx).unwrap(), model.next_seq);
    Ok(())
}

fn dump(session: &Session) -> String {
    let mut out = Vec::new();
    session.dump(&mut out, &background()).unwrap();
    String::from_utf8(out).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_query_gives_what_its_definition_says(
        history in history(),
        questions in proptest::collection::vec(question(), 24),
    ) {
        let ctx = background();
        let mut dumps = Vec::new();
        for uri in URIS {
            let options = RepositoryOptions { durability: Durability::Process, ..counting_options() };
            let place = Place::new(uri, options);
            let options = pisession::CreateOptions { id: Some("one".to_owned()), cwd: Some("/workspace".to_owned()), ..Default::default() };
            let session = place.repository.create(&options, &ctx).unwrap();
            let mut model = Model { next_seq: 1, ..Model::default() };
            for commit in &history {
                let before = model.next_seq;
                let taken = model.entries.first().map(|entry| entry.id.clone());
                let writes: Vec<Write> = commit.iter().map(|op| model.apply(op)).collect();
                if let Some(taken) = taken {
                    // The same, but for a last write that spoils it: nothing of it may stay.
                    let spoilt = Write::Entry(NewEntry::custom(taken, None, "spoilt", None));
                    let spoilt: Vec<Write> = writes.iter().cloned().chain([spoilt]).collect();
                    let refused = session.mutate(|mutator, ctx| mutator.commit(&spoilt, ctx), &ctx);
                    prop_assert_eq!(refused.unwrap_err().kind(), ErrorKind::DuplicateId);
                }
                let result = session.mutate(|mutator, ctx| mutator.commit(&writes, ctx), &ctx).unwrap();
                prop_assert_eq!(result.seqs, (before..model.next_seq).collect::<Vec<_>>());
                prop_assert_eq!(result.stats, session.stats(&ctx).unwrap());
            }
            compare_rest(&session, &model)?;
            let dumped = dump(&session);
            session.close(&ctx).unwrap();
            let session = place.repository.open("one", &ctx).unwrap();
            prop_assert_eq!(&dump(&session), &dumped);
            compare_rest(&session, &model)?;
            compare(&session, &model, &questions)?;
            dumps.push(dumped);
        }
        prop_assert!(dumps.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", dumps);
    }
}
