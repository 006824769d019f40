//! Every file of the corpus gives what its manifest says, leniently and strictly, and is not touched.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests, which clippy does not take for tests

mod legacy_support;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use legacy_support::{read_only, sha256, shared};
use pisession::{
    Branch, BranchScan, Context, Entry, EntryQuery, EntryType, ErrorKind, ImportOptions, Json, OpenOptions,
    Order, Origin, PathOrder, Session, SessionReader, Warning, WarningDetails, import_file, open_file,
    open_repository,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[test]
fn every_file_gives_what_the_manifest_says() {
    let Some(corpus) = shared("corpus") else { return };
    let manifest: BTreeMap<String, Value> =
        serde_json::from_slice(&std::fs::read(corpus.join("MANIFEST.json")).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for (name, expected) in &manifest {
        let path = corpus.join(name);
        assert_eq!(sha256(std::fs::read(&path).unwrap()), expected["sha256"], "{name} before");
        let found = look_at(&path);
        for (field, expected) in expected.as_object().unwrap() {
            if ["shows", "made", "sha256", "bytes", "lines"].contains(&field.as_str()) {
                continue;
            }
            let found = found.get(field.as_str()).unwrap_or(&Value::Null);
            if !same(found, expected) {
                wrong.push(format!("{name}: {field}\n   found {found}\nexpected {expected}"));
            }
        }
        assert_eq!(sha256(std::fs::read(&path).unwrap()), expected["sha256"], "{name} after");
    }
    assert_eq!(manifest.len(), 89);
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

/// Numbers are compared as doubles, exactly: `1` and `1.0` are one number.
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

fn look_at(path: &Path) -> BTreeMap<&'static str, Value> {
    let ctx = Context::background();
    let session = match open_file(path, &read_only(), &ctx) {
        Ok(session) if session.legacy().is_none() => {
            return BTreeMap::from([("recognised", json!("format4"))]);
        }
        Ok(session) => session,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotASession, "{}: {error}", path.display());
            let words =
                error.message().split_once("of the ").and_then(|(_, rest)| rest.split_once(" dialect"));
            let refused = words.map_or("NotASession".to_owned(), |(name, _)| format!("{name}-dialect"));
            return BTreeMap::from([("refused", json!(refused))]);
        }
    };
    let mut found = report(path, &session);
    let strict = OpenOptions { strict: true, ..read_only() };
    found.insert(
        "strict",
        match open_file(path, &strict, &ctx) {
            Ok(_) => Value::Null,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert_eq!(error.path(), Some(path.canonicalize().unwrap().as_path()));
                let reason = error.message().split(':').next().unwrap();
                json!({"line": error.line(), "offset": error.offset(), "reason": reason})
            }
        },
    );
    session.close(&ctx).unwrap();
    found
}

fn report(path: &Path, session: &Session) -> BTreeMap<&'static str, Value> {
    let ctx = Context::background();
    let legacy = session.legacy().unwrap();
    let metadata = session.metadata();
    let recognised = match legacy.version {
        1 => "v1",
        2 => "v2",
        3 => "v3",
        _ => "newer",
    };
    let version = version_text(path, legacy.header_line);
    let mut header = json!({
        "line": legacy.header_line,
        "version": version,
        "sessionId": metadata.id,
        "createdAt": legacy.header_created_at,
        "cwd": metadata.cwd,
    });
    if let Some(id) = &metadata.parent_session_id {
        header["parent"] = json!({"parentSessionId": id});
    }
    if let Some(path) = &metadata.legacy_parent_session_path {
        header["parent"] = json!({"legacyParentSessionPath": path});
    }
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for warning in &legacy.warnings {
        *counts.entry(warning.kind.name()).or_default() += 1;
    }

    let query = EntryQuery { order: Order::Ascending, ..EntryQuery::default() };
    let entries: Vec<Entry> = session.entries(&query, &ctx).collect::<Result<_, _>>().unwrap();
    let origins: Vec<(String, Origin)> = legacy.entries().collect();
    assert_eq!(entries.len(), origins.len());
    assert!(entries.iter().zip(&origins).all(|(entry, (id, _))| entry.id == *id));
    let position: HashMap<&str, usize> =
        entries.iter().enumerate().map(|(at, entry)| (entry.id.as_str(), at)).collect();
    let old = old_values(path);
    let fields = |at: usize| &old[&(origins[at].1.line, origins[at].1.value)];

    let mut by_type: BTreeMap<&str, u64> = BTreeMap::new();
    let mut custom_types: BTreeMap<&str, u64> = BTreeMap::new();
    let mut roles: BTreeMap<String, u64> = BTreeMap::new();
    let mut children = vec![0_u64; entries.len()];
    let mut depths = vec![1_u64; entries.len()];
    let (mut messages, mut others, mut tree) = (String::new(), String::new(), String::new());
    let mut compactions = Vec::new();
    let mut references = Vec::new();
    let mut roots = 0;
    for (at, entry) in entries.iter().enumerate() {
        assert_eq!(entry.seq, at as u64 + 1);
        *by_type.entry(entry.entry_type.name()).or_default() += 1;
        if let Some(custom_type) = &entry.custom_type {
            *custom_types.entry(custom_type).or_default() += 1;
        }
        if let Some(role) = entry.role() {
            *roles.entry(role.into_owned()).or_default() += 1;
        }
        let parent = entry.parent_id.as_deref().map(|parent| position[parent]);
        match parent {
            Some(parent) => {
                children[parent] += 1;
                depths[at] = depths[parent] + 1;
            }
            None => roots += 1,
        }
        let parent = parent.map_or("-".to_owned(), |parent| parent.to_string());
        tree.push_str(&format!("{at} {parent} {} {}\n", entry.entry_type, entry.timestamp));
        let old_type: String = serde_json::from_str(fields(at)["type"].get()).unwrap();
        let payload = &entry.payload;
        match entry.entry_type {
            EntryType::Message if old_type == "message" => {
                let message = entry.message().unwrap();
                if fields(at)["message"].get().contains("hookMessage") {
                    messages.push_str(&message.replace("\"role\":\"custom\"", "\"role\":\"hookMessage\""));
                } else {
                    messages.push_str(message);
                }
            }
            EntryType::Message => {
                let message = Json::parse(entry.message().unwrap()).unwrap();
                for name in ["content", "details"] {
                    others.push_str(message.get(name).unwrap_or_default());
                }
            }
            EntryType::Compaction | EntryType::BranchSummary => {
                for name in ["summary", "details", "usage"] {
                    others.push_str(payload.get(name).unwrap_or_default());
                }
            }
            EntryType::Custom if entry.custom_type.as_deref().unwrap().starts_with("pi.") => {
                let data: RawFields = serde_json::from_str(entry.data().unwrap()).unwrap();
                let edit = old_type == "context_edit";
                for (_, value) in data.0.iter().filter(|(key, _)| !edit || key != "targetId") {
                    others.push_str(value.get());
                }
            }
            EntryType::Custom => others.push_str(entry.data().unwrap_or_default()),
        }
        if entry.entry_type == EntryType::Compaction {
            let tail: Vec<Value> =
                serde_json::from_str::<Vec<&RawValue>>(payload.get("retainedTail").unwrap())
                    .unwrap()
                    .into_iter()
                    .map(|message| json!(Json::parse(message.get()).unwrap().get("role").unwrap()))
                    .collect();
            let mut roles: BTreeMap<String, u64> = BTreeMap::new();
            for role in &tail {
                *roles.entry(role.as_str().unwrap().trim_matches('"').to_owned()).or_default() += 1;
            }
            let mut compaction = place(&origins[at].1);
            compaction["retainedTail"] = json!(tail.len());
            compaction["roles"] = json!(roles);
            compactions.push(compaction);
        }
        let field = match (entry.entry_type, entry.custom_type.as_deref()) {
            (EntryType::BranchSummary, _) => Some(("fromId", payload.get("fromId"))),
            (_, Some("pi.context_edit")) => Some(("targetId", payload.get("data").and(target_of(entry)))),
            _ => None,
        };
        if let Some((field, value)) = field {
            let id: Option<String> = value.and_then(|text| serde_json::from_str(text).unwrap());
            let mut reference = place(&origins[at].1);
            reference["field"] = json!(field);
            reference["to"] = id.map_or(Value::Null, |id| place(&origins[position[id.as_str()]].1));
            references.push((origins[at].1.line, origins[at].1.value, reference));
        }
    }
    references.sort_by_key(|(line, value, _)| (*line, *value));

    let main: Branch = session.branch("main", &ctx).unwrap().unwrap();
    let tip = main.tip_id(&ctx).unwrap();
    let path_length = main
        .find_entries(&BranchScan { order: PathOrder::OldestFirst, ..BranchScan::default() }, &ctx)
        .unwrap()
        .len();
    let tip = tip.map_or(Value::Null, |tip| {
        let mut place = place(&origins[position[tip.as_str()]].1);
        place["position"] = json!(position[tip.as_str()]);
        place
    });
    let labels: Vec<Value> = entries
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| {
            let label = session.get_label(&entry.id, &ctx).unwrap()?;
            let mut place = place(&origins[at].1);
            place["label"] = json!(label);
            Some(place)
        })
        .collect();
    let value = |namespace: &str| {
        let address = pisession::Address::new(namespace, "main").unwrap();
        let stored = session.get_value(&address, &ctx).unwrap();
        stored.map_or(Value::Null, |stored| stored.value.read().unwrap())
    };
    let idle = value("pi.lane.state");
    let configuration = value("pi.lane.config");
    assert_eq!(idle.is_null(), configuration.is_null(), "configuration and state come together");
    let stats = session.stats(&ctx).unwrap();
    assert_eq!(stats.usage, legacy.usage);
    assert!(session.scan_usage(&Default::default(), &ctx).unwrap().is_empty());

    BTreeMap::from([
        ("recognised", json!(recognised)),
        ("header", header),
        ("warnings", legacy.warnings.iter().map(warning).collect()),
        ("warningCounts", json!(counts)),
        ("entries", json!(entries.len())),
        ("entriesByType", json!(by_type)),
        ("customTypes", json!(custom_types)),
        ("messageCount", json!(stats.message_count)),
        ("roles", json!(roles)),
        ("dropped", json!(legacy.dropped)),
        ("roots", json!(roots)),
        ("branchPoints", json!(children.iter().filter(|count| **count > 1).count())),
        ("longestPath", json!(depths.iter().max().copied().unwrap_or_default())),
        ("selected", legacy.selected.as_ref().map_or(Value::Null, place)),
        ("tip", tip),
        ("tipPathLength", json!(path_length)),
        ("name", json!(session.name(&ctx).unwrap())),
        ("labels", json!(labels)),
        ("configuration", configuration),
        ("compactions", json!(compactions)),
        ("references", references.into_iter().map(|(_, _, reference)| reference).collect()),
        ("usage", stats.usage.to_json().read().unwrap()),
        ("usageRows", json!(legacy.usage_rows)),
        ("firstTimestamp", json!(entries.first().map(|entry| entry.timestamp))),
        ("lastTimestamp", json!(entries.last().map(|entry| entry.timestamp))),
        ("messagesSha256", json!(sha256(messages))),
        ("othersSha256", json!(sha256(others))),
        ("treeSha256", json!(sha256(tree))),
    ])
}

fn place(origin: &Origin) -> Value {
    let mut place = json!({"id": origin.id, "line": origin.line});
    if origin.value > 0 {
        place["value"] = json!(origin.value);
    }
    place
}

fn warning(warning: &Warning) -> Value {
    let name = warning.kind.name();
    let mut out = json!({"kind": name, "line": warning.line});
    match &warning.details {
        WarningDetails::Values(values) => out["values"] = json!(values),
        WarningDetails::Ignored(ignored) => out["ignored"] = json!(ignored),
        WarningDetails::Count(count) => out["count"] = json!(count),
        WarningDetails::Field(field) => out["field"] = json!(field),
        WarningDetails::Version(version) => out["version"] = json!(version),
        _ => {}
    }
    if ["bad_line", "torn_tail"].contains(&name) {
        out["offset"] = json!(warning.offset);
        out["length"] = json!(warning.length);
    }
    out
}

fn target_of(entry: &Entry) -> Option<&str> {
    let data: BorrowedFields<'_> = serde_json::from_str(entry.data()?).unwrap();
    data.0.get("targetId").map(|value| value.get())
}

#[derive(Deserialize)]
struct BorrowedFields<'a>(#[serde(borrow)] BTreeMap<String, &'a RawValue>);

/// The fields of every JSON object of a file, by line and number on the line.
fn old_values(path: &Path) -> HashMap<(u64, u32), BTreeMap<String, Box<RawValue>>> {
    let bytes = std::fs::read(path).unwrap();
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut found = HashMap::new();
    for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let values =
            serde_json::Deserializer::from_slice(text).into_iter::<BTreeMap<String, Box<RawValue>>>();
        for (value, fields) in (0..).zip(values.map_while(Result::ok)) {
            found.insert((line, value), fields);
        }
    }
    found
}

fn version_text(path: &Path, line: u64) -> Option<String> {
    let old = old_values(path);
    let header = (0..9).find_map(|value| {
        let fields = old.get(&(line, value))?;
        (fields.get("type")?.get() == "\"session\"").then_some(fields)
    })?;
    header.get("version").map(|version| version.get().to_owned())
}

/// The fields of an object in their order, equal keys included.
struct RawFields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for RawFields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> serde::de::Visitor<'de> for Fields {
            type Value = RawFields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<RawFields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(RawFields(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// What a session holds but its own metadata, usage rows and lists.
fn content(session: &Session) -> Vec<String> {
    let ctx = Context::background();
    let query = EntryQuery { order: Order::Ascending, ..EntryQuery::default() };
    let mut out: Vec<String> =
        session.entries(&query, &ctx).map(|entry| entry.unwrap().to_json().to_string()).collect();
    for address in session.value_addresses(None, 10_000, &ctx).unwrap() {
        let stored = session.get_value(&address, &ctx).unwrap().unwrap();
        out.push(format!("{address} {} {}", stored.seq, stored.value));
    }
    out.push(session.stats(&ctx).unwrap().to_json().to_string());
    out
}

#[test]
fn every_file_that_opens_is_imported_as_it_reads_and_only_once() {
    let Some(corpus) = shared("corpus") else { return };
    let ctx = Context::background();
    let mut imported = 0;
    for entry in std::fs::read_dir(&corpus).unwrap() {
        let path = entry.unwrap().path();
        let opened = open_file(&path, &read_only(), &ctx);
        let Some(session) =
            opened.ok().filter(|session| session.legacy().is_some_and(|legacy| legacy.version <= 3))
        else {
            continue;
        };
        let repository = open_repository("memory:", Default::default()).unwrap();
        let options = ImportOptions { salvage: true, ..ImportOptions::default() };
        let import = || import_file(&path, &repository, &options, &ctx).unwrap();
        assert!(import().added, "{}", path.display());
        assert!(!import().added, "{}", path.display());
        let copy = repository.open(session.id(), &ctx).unwrap();
        assert_eq!(content(&copy), content(&session), "{}", path.display());
        assert_eq!(copy.metadata().created_at, session.metadata().created_at);
        imported += 1;
    }
    assert_eq!(imported, 76);
}

#[test]
fn older_states_of_an_imported_file_add_nothing() {
    let Some(corpus) = shared("corpus") else { return };
    let ctx = Context::background();
    let files: BTreeMap<String, std::path::PathBuf> = std::fs::read_dir(&corpus)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().to_str().unwrap()[..2].to_owned(), entry.path()))
        .collect();
    for (newest, older) in [("05", vec!["06"]), ("08", vec!["09", "10", "11", "12"])] {
        let repository = open_repository("memory:", Default::default()).unwrap();
        let import = |number: &str| import_file(&files[number], &repository, &ImportOptions::default(), &ctx);
        let first = import(newest).unwrap();
        assert!(first.added);
        for number in older {
            let again = import(number).unwrap();
            assert_eq!((again.added, again.session_id()), (false, first.session_id()), "{number}");
        }
        assert_eq!(repository.list(&Default::default(), &ctx).unwrap().len(), 1);
    }
}
