//! The commits of the reference implementation's golden sessions, replayed on every backend, give their dumps.

// Helpers outside of test functions fail by panicking, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pisession::{
    Address, CreateOptions, Error, ErrorKind, Json, NewEntry, NewUsage, RepositoryOptions, Session, Write,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use support::{Place, ToldClock, URIS, background, shared};

#[derive(Deserialize)]
struct Golden {
    #[serde(rename = "fileName")]
    file_name: Option<String>,
    create: Create,
    commits: Vec<Commit>,
    dump: Box<RawValue>,
}

#[derive(Deserialize)]
struct Create {
    id: String,
    cwd: Option<String>,
}

#[derive(Deserialize)]
struct Commit {
    writes: Vec<GoldenWrite>,
    result: Option<Done>,
    error: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Done {
    #[serde(rename = "firstSeq")]
    first_seq: u64,
    seqs: Vec<u64>,
    timestamp: i64,
    stats: Value,
}

#[derive(Deserialize)]
struct GoldenWrite {
    kind: String,
    op: Option<String>,
    namespace: Option<Box<RawValue>>,
    key: Option<Box<RawValue>>,
    value: Option<Box<RawValue>>,
    entry: Option<Box<RawValue>>,
    row: Option<Box<RawValue>>,
}

impl GoldenWrite {
    fn write(&self) -> Result<Write, Error> {
        let text = |raw: &Option<Box<RawValue>>| raw.as_ref().map_or("null", |raw| raw.get()).to_owned();
        Ok(match (self.kind.as_str(), self.op.as_deref()) {
            ("entry", None) => Write::Entry(NewEntry::from_json(&text(&self.entry))?),
            ("usage", None) => Write::Usage(NewUsage::from_json(&text(&self.row))?),
            ("value", Some("set")) => Write::SetValue(self.address()?, Json::parse(text(&self.value))?),
            ("value", Some("delete")) => Write::DeleteValue(self.address()?),
            ("list", Some("append")) => Write::AppendList(self.address()?, Json::parse(text(&self.value))?),
            ("list", Some("delete")) => Write::DeleteList(self.address()?),
            other => panic!("unknown write {other:?}"),
        })
    }

    fn address(&self) -> Result<Address, Error> {
        let part = |raw: &Option<Box<RawValue>>| {
            let json = Json::parse(raw.as_ref().map_or("", |raw| raw.get()))?;
            let text = json.as_text().map(|text| text.into_owned());
            text.ok_or_else(|| Error::new(ErrorKind::InvalidAddress, "no Unicode text"))
        };
        Address::new(part(&self.namespace)?, part(&self.key)?)
    }
}

#[test]
fn golden_commits_of_format_4_give_their_dumps() {
    replay_all("golden/v4");
}

#[test]
fn golden_commits_of_sqlite_give_their_dumps() {
    replay_all("golden/sqlite");
}

fn replay_all(folder: &str) {
    let Some(folder) = shared(folder) else { return };
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".expected.json") && ("01".."15").contains(&&name[..2]))
        .collect();
    names.sort();
    assert_eq!(names.len(), 14, "{names:?}");
    for name in &names {
        for uri in URIS {
            replay(&folder, name, uri);
        }
    }
}

fn replay(folder: &Path, name: &str, uri: &str) {
    let here = format!("{}/{name} [{uri}]", folder.display());
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    let golden: Golden = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{here}: {error}"));
    let mut expected = read(golden.dump.get());
    // A file of JSON lines always has a working folder.
    let cwd = golden
        .create
        .cwd
        .clone()
        .or_else(|| uri.starts_with("jsonl:").then(|| "/workspace/golden".to_owned()));
    if golden.create.cwd != cwd {
        expected["metadata"]["cwd"] = cwd.clone().into();
    }
    let clock = Arc::new(ToldClock::default());
    clock.tell(expected["metadata"]["createdAt"].as_i64().unwrap());
    let place = Place::new(uri, RepositoryOptions { clock: clock.clone(), ..Default::default() });
    let create = CreateOptions { id: Some(golden.create.id.clone()), cwd, ..CreateOptions::default() };
    let session = place.repository.create(&create, &background()).unwrap();
    let mut seqs = BTreeMap::new();
    for (number, commit) in golden.commits.iter().enumerate() {
        replay_commit(&format!("{here}, commit {number}"), &session, &clock, commit, &mut seqs);
    }
    // Only there do we refuse what the reference took: keys that hold a lone surrogate.
    let refused = golden.commits.iter().filter(|commit| commit.result.is_some()).count()
        - golden.commits.iter().filter(|commit| taken(commit, &seqs)).count();
    assert_eq!(refused, if name.starts_with("14-") { 2 } else { 0 }, "{here}");
    assert!(refused > 0 || seqs.iter().all(|(golden, ours)| golden == ours), "{here}: {seqs:?}");
    let expected = with_our_seqs(expected, &seqs);
    assert_eq!(dump(&session), expected, "{here}");

    session.close(&background()).unwrap();
    if uri.starts_with("jsonl:") && folder.ends_with("v4") && refused == 0 {
        let file = std::fs::read_to_string(folder.join(name.replace(".expected.json", ".jsonl"))).unwrap();
        let ours = session.metadata().path.as_ref().unwrap();
        assert_eq!(std::fs::read_to_string(ours).unwrap(), file, "{here}");
        assert!(ours.ends_with(golden.file_name.as_deref().unwrap()), "{}", ours.display());
    }
    let session = place.repository.open(&golden.create.id, &background()).unwrap();
    assert_eq!(dump(&session), expected, "{here}, reopened");
}

/// Whether we took that commit; an empty one has no seqs to tell by.
fn taken(commit: &Commit, seqs: &BTreeMap<u64, u64>) -> bool {
    commit.result.as_ref().is_some_and(|done| done.seqs.iter().all(|seq| seqs.contains_key(seq)))
}

/// Makes one commit and notes which `seq` of the reference became which of ours.
fn replay_commit(
    here: &str,
    session: &Session,
    clock: &ToldClock,
    commit: &Commit,
    seqs: &mut BTreeMap<u64, u64>,
) {
    let ctx = background();
    let before = session.next_seq(&ctx).unwrap();
    if let Some(done) = &commit.result {
        clock.tell(done.timestamp);
    }
    let outcome = commit
        .writes
        .iter()
        .map(GoldenWrite::write)
        .collect::<Result<Vec<Write>, Error>>()
        .and_then(|writes| session.mutate(|mutator, ctx| mutator.commit(&writes, ctx), &ctx));
    match (outcome, &commit.result, &commit.error) {
        (Ok(result), Some(done), None) => {
            assert_eq!(result.first_seq, before, "{here}");
            assert_eq!(result.first_seq == done.first_seq, result.seqs == done.seqs, "{here}");
            assert_eq!(result.timestamp, done.timestamp, "{here}");
            assert_eq!(read(result.stats.to_json().as_str()), done.stats.clone(), "{here}");
            seqs.extend(done.seqs.iter().copied().zip(result.seqs));
        }
        (Err(error), None, Some(causes)) => {
            let message = causes[0]["message"].as_str().unwrap_or_default().to_lowercase();
            let kind = match message {
                text if text.contains("missing parent") => ErrorKind::MissingParent,
                text if text.contains("duplicate") || text.contains("unique") => ErrorKind::DuplicateId,
                other => panic!("{here}: refused for '{other}'"),
            };
            assert_eq!(error.kind(), kind, "{here}: {error:?}");
        }
        (Err(error), Some(_), None) => {
            assert_eq!(error.kind(), ErrorKind::InvalidAddress, "{here}: {error:?}");
        }
        (outcome, _, _) => panic!("{here}: {outcome:?}"),
    }
    let taken = if taken(commit, seqs) { commit.writes.len() as u64 } else { 0 };
    assert_eq!(session.next_seq(&ctx).unwrap(), before + taken, "{here}");
}

fn dump(session: &Session) -> Value {
    let mut out = Vec::new();
    session.dump(&mut out, &background()).unwrap();
    read(std::str::from_utf8(&out).unwrap())
}

/// The golden dump without what is the reference's own, in our seqs, without what we refused.
fn with_our_seqs(mut dump: Value, seqs: &BTreeMap<u64, u64>) -> Value {
    let fields = dump.as_object_mut().unwrap();
    fields.remove("branchPaths");
    fields.remove("branchIndex");
    for kind in ["entries", "values", "usage"] {
        renumber(&mut fields[kind], seqs);
    }
    for list in fields["lists"].as_array_mut().unwrap() {
        renumber(&mut list["elements"], seqs);
    }
    fields["nextSeq"] = Value::from(seqs.values().max().map_or(1, |last| last + 1));
    dump
}

fn renumber(items: &mut Value, seqs: &BTreeMap<u64, u64>) {
    let items = items.as_array_mut().unwrap();
    items.retain(|item| seqs.contains_key(&item["seq"].as_u64().unwrap()));
    for item in items {
        item["seq"] = Value::from(seqs[&item["seq"].as_u64().unwrap()]);
    }
}

/// The JSON of `text`; lone surrogates, which strict readers refuse, become their name in angle brackets.
fn read(text: &str) -> Value {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok().filter(|unit| (0xd800..0xe000).contains(unit))
    };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let length = match (unit(at), unit(at + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..)) => 12,
            (Some(lone), _) => {
                out.push_str(&format!("<lone {lone:x}>"));
                at += 6;
                continue;
            }
            _ if text[at..].starts_with("\\") => 2,
            _ => text[at..].chars().next().map_or(1, char::len_utf8),
        };
        out.push_str(&text[at..at + length]);
        at += length;
    }
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error} in {text}"))
}
