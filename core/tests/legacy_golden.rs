//! The golden files of version 3 give the dumps that the reference gives, ids renamed one to one.
//!
//! Files that the reference reads otherwise are named with what holds here: 13 (a whole last line without a
//! line end is kept) and 20 (a model change without fields gives no configuration).
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests, which clippy does not take for tests

mod legacy_support;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use legacy_support::{read_only, shared};
use pisession::{
    Address, BranchScan, Context, EntryQuery, ErrorKind, Order, PathOrder, Session, SessionReader, open_file,
};
use serde_json::{Value, json};

/// Those whose `dumpAfterOpen` holds.
const SAME: [u32; 24] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18, 19, 22, 23, 24, 25, 26, 72];
/// Those that are refused.
const REFUSED: [u32; 6] = [52, 53, 54, 56, 58, 89];

#[test]
fn golden_files_give_the_dumps_of_the_reference() {
    let Some(golden) = shared("golden/v3") else { return };
    let mut seen = Vec::new();
    for (number, name) in inputs(&golden) {
        if !SAME.contains(&number) {
            continue;
        }
        seen.push(number);
        let expected = read_json(&golden.join(format!("{name}.expected.json")));
        let (folder, path) = input(&golden, &name);
        let mut expected = expected["dumpAfterOpen"].clone();
        if number == 1 {
            // Role hookMessage is of versions 1 and 2: in version 3 it is left alone, as in the reference.
            assert!(expected.to_string().contains("hookMessage"));
        }
        let session = open_file(&path, &read_only(), &Context::background()).unwrap();
        let mut found = dump(&session);
        number_ids(&mut expected);
        number_ids(&mut found);
        assert!(same(&found, &expected), "{name}\n   found {found}\nexpected {expected}");
        drop(folder);
    }
    assert_eq!(seen, SAME);
}

#[test]
fn whole_last_line_without_a_line_end_is_kept() {
    let Some(golden) = shared("golden/v3") else { return };
    let session =
        open_file(golden.join("13-torn-only-newline-missing.jsonl"), &read_only(), &Context::background())
            .unwrap();
    let dump = dump(&session);
    assert_eq!(dump["entries"].as_array().unwrap().len(), 2);
    assert_eq!(dump["branches"]["main"], dump["entries"][1]["id"]);
    assert!(session.legacy().unwrap().warnings.is_empty());
}

#[test]
fn model_change_without_fields_gives_no_configuration() {
    let Some(golden) = shared("golden/v3") else { return };
    let path = golden.join("20-model-change-without-fields.jsonl");
    let session = open_file(path, &read_only(), &Context::background()).unwrap();
    let dump = dump(&session);
    assert_eq!(dump["values"].as_array().unwrap().len(), 1, "{dump}");
    assert_eq!(dump["nextSeq"], json!(3));
}

#[test]
fn files_without_a_header_are_refused_and_all_others_open() {
    let Some(golden) = shared("golden/v3") else { return };
    for (number, name) in inputs(&golden).into_iter().filter(|(number, _)| *number >= 50) {
        let (folder, path) = input(&golden, &name);
        let opened = open_file(&path, &read_only(), &Context::background());
        if REFUSED.contains(&number) {
            assert_eq!(opened.unwrap_err().kind(), ErrorKind::NotASession, "{name}");
        } else {
            dump(&opened.unwrap_or_else(|error| panic!("{name}: {error}")));
        }
        drop(folder);
    }
}

fn inputs(golden: &Path) -> BTreeMap<u32, String> {
    let names = std::fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().file_name());
    names
        .filter_map(|name| {
            let name = name.to_str().unwrap().strip_suffix(".jsonl")?.to_owned();
            (!name.contains(".after-")).then(|| (name[..2].parse().unwrap(), name))
        })
        .collect()
}

/// The input with real paths in place of the names of its parents.
fn input(golden: &Path, name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let parent = folder.path().join("parent.jsonl");
    let parent4 = folder.path().join("parent4.jsonl");
    std::fs::write(
        &parent,
        "{\"type\":\"session\",\"version\":3,\"id\":\"legacy-parent\",\"timestamp\":\"2025-06-15T15:06:40.000Z\",\"cwd\":\"/w\"}\n",
    )
    .unwrap();
    std::fs::write(&parent4, "{\"v\":4,\"kind\":\"header\",\"id\":\"v4-parent\",\"storageVersion\":1}\n")
        .unwrap();
    let bytes = std::fs::read(golden.join(format!("{name}.jsonl"))).unwrap();
    let path = folder.path().join("legacy.jsonl");
    match String::from_utf8(bytes) {
        Ok(text) => {
            let text = text
                .replace("$PARENT4", parent4.to_str().unwrap())
                .replace("$PARENT", parent.to_str().unwrap());
            std::fs::write(&path, text).unwrap();
        }
        Err(bytes) => std::fs::write(&path, bytes.as_bytes()).unwrap(),
    }
    (folder, path)
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Everything of a session, in the form of the golden dumps.
fn dump(session: &Session) -> Value {
    let ctx = Context::background();
    let metadata = session.metadata();
    let mut head = json!({
        "id": metadata.id,
        "createdAt": metadata.created_at,
        "storageVersion": metadata.storage_version,
    });
    for (name, value) in [
        ("cwd", &metadata.cwd),
        ("parentSessionId", &metadata.parent_session_id),
        ("legacyParentSessionPath", &metadata.legacy_parent_session_path),
    ] {
        if let Some(value) = value {
            head[name] = json!(value);
        }
    }
    let query = EntryQuery { order: Order::Ascending, ..EntryQuery::default() };
    let entries: Vec<Value> = session
        .find_entries(&query, &ctx)
        .unwrap()
        .iter()
        .map(|entry| serde_json::from_str(entry.to_json().as_str()).unwrap())
        .collect();
    let mut branches = json!({});
    let mut paths = json!({});
    for branch in session.branches(&ctx).unwrap() {
        let scan = BranchScan { order: PathOrder::OldestFirst, ..BranchScan::default() };
        let path = session.branch(&branch.name, &ctx).unwrap().unwrap().find_entries(&scan, &ctx).unwrap();
        paths[&branch.name] = path.iter().map(|entry| json!(entry.id)).collect();
        branches[&branch.name] = json!(branch.tip_id);
    }
    let values: Vec<Value> = session
        .value_addresses(None, 1000, &ctx)
        .unwrap()
        .iter()
        .map(|address: &Address| {
            let stored = session.get_value(address, &ctx).unwrap().unwrap();
            json!({
                "namespace": address.namespace(),
                "key": address.key(),
                "seq": stored.seq,
                "value": stored.value.read::<Value>().unwrap(),
            })
        })
        .collect();
    assert!(session.list_addresses(None, 1, &ctx).unwrap().is_empty());
    json!({
        "metadata": head,
        "name": session.name(&ctx).unwrap(),
        "branches": branches,
        "branchPaths": paths,
        "entries": entries,
        "values": values,
        "lists": [],
        "usage": session.scan_usage(&Default::default(), &ctx).unwrap().iter()
            .map(|row| row.to_json().read::<Value>().unwrap()).collect::<Vec<_>>(),
        "stats": session.stats(&ctx).unwrap().to_json().read::<Value>().unwrap(),
        "nextSeq": session.next_seq(&ctx).unwrap(),
    })
}

/// Puts the place in stored order where an entry's id stood, as a key too. Values are sorted anew, as their
/// keys may hold ids.
fn number_ids(dump: &mut Value) {
    let numbers: HashMap<String, String> = (0..)
        .zip(dump["entries"].as_array().unwrap())
        .map(|(at, entry): (usize, _)| (entry["id"].as_str().unwrap().to_owned(), format!("#{at}")))
        .collect();
    assert_eq!(numbers.len(), dump["entries"].as_array().unwrap().len());
    rename(dump, &numbers);
    dump["values"].as_array_mut().unwrap().sort_by_key(|value| value["seq"].as_u64());
}

fn rename(value: &mut Value, numbers: &HashMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(number) = numbers.get(text) {
                *text = number.clone();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, numbers)),
        Value::Object(fields) => fields.values_mut().for_each(|value| rename(value, numbers)),
        _ => {}
    }
}

/// Numbers are compared as doubles: `1` and `1.0` are one number.
fn same(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => found == expected,
    }
}
