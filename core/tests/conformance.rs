//! The conformance cases (`tests/conformance`), run on the core, on every backend.

// Helpers outside of test functions fail by panicking, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "conformance/arguments.rs"]
mod arguments;
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pisession::{
    Address, Branch, BranchScan, CommitResult, Context, CreateOptions, Entry, EntryQuery, EntryType, Error,
    ForkOptions, ForkPoint, ForkPosition, ForkScope, Json, ListOptions, ListRead, Mutation, NewEntry,
    NewNode, NewUsage, Order, PathOrder, Repository, RepositoryOptions, Session, SessionMetadata,
    SessionReader, StoredValue, UsageScan, Write,
};
use serde_json::{Map, Value, json};

use support::{Place, URIS, counting_options};

#[test]
fn every_case_holds_on_every_backend() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conformance/cases"));
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "there are no cases in {}", folder.display());
    let mut failures = Vec::new();
    let mut count = 0;
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let table: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for case in table["cases"].as_array().expect("a file has cases") {
            for uri in URIS {
                count += 1;
                if let Err(failure) = run_case(uri, case) {
                    failures.push(describe(file, case, uri, &failure));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn an_argument_that_is_not_read_is_a_fault_of_the_case() {
    let entry = json!({"kind": "entry", "entry": {}, "key": "a"});
    let steps = [
        ("session", "find_entries", json!({"stopAtId": "a"})),
        ("branch", "find_entries", json!({"fromSeq": 1})),
        ("mutation", "stats", json!({"id": "a"})),
        ("session", "no_such_op", json!({})),
        ("mutation", "commit", json!({"writes": [entry]})),
        ("branch", "append_many", json!({"entries": [{"message": {}, "data": 1}]})),
        ("session", "close", json!([])),
    ];
    for (on, op, args) in steps {
        assert!(arguments::check(on, op, &args).is_err(), "{op} on a {on} read {args}");
    }
}

/// The step that failed (from 1) and how.
type Failure = (usize, String);

fn describe(file: &Path, case: &Value, uri: &str, (step, what): &Failure) -> String {
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    format!("{file}: {} [{uri}], step {step}: {what}", case["name"])
}

fn run_case(uri: &str, case: &Value) -> Result<(), Failure> {
    let mut options = counting_options();
    if let Some(limit) = case["maxPayload"].as_u64() {
        options = RepositoryOptions { max_payload: limit as usize, ..options };
    }
    let place = Place::new(uri, options);
    let mut run = Run { repository: &place.repository, handles: BTreeMap::new(), results: BTreeMap::new() };
    for (number, step) in case["steps"].as_array().expect("a case has steps").iter().enumerate() {
        run.step(step).map_err(|what| (number + 1, format!("{what}\n    {step}")))?;
    }
    Ok(())
}

enum Handle {
    Session(Session),
    Mutation(Mutation),
    Branch(Branch),
}

impl Handle {
    fn kind(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Mutation(_) => "mutation",
            Self::Branch(_) => "branch",
        }
    }
}

struct Run<'a> {
    repository: &'a Repository,
    handles: BTreeMap<String, Handle>,
    results: BTreeMap<String, Value>,
}

/// What a step comes to: a result, the error the library gave, or a fault of the case itself.
enum Stop {
    Refused(Error),
    Wrong(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Wrong(what.into()))
}

impl Run<'_> {
    fn step(&mut self, step: &Value) -> Result<(), String> {
        const FIELDS: [&str; 9] = ["op", "on", "args", "as", "ctx", "pick", "expect", "count", "error"];
        let fields = step.as_object().ok_or("a step is an object")?;
        if let Some(unknown) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            return Err(format!("unknown field '{unknown}'"));
        }
        let args = self.resolve(step.get("args").unwrap_or(&json!({})))?;
        let on =
            self.handles.get(step["on"].as_str().unwrap_or("session")).map_or("repository", Handle::kind);
        arguments::check(on, step["op"].as_str().unwrap_or_default(), &args)?;
        match self.perform(step, &args) {
            Err(Stop::Wrong(what)) => Err(what),
            Err(Stop::Refused(error)) if step["error"].as_str() == Some(error.kind().name()) => Ok(()),
            Err(Stop::Refused(error)) => Err(format!("refused with {error:?}")),
            Ok(result) if step.get("error").is_some() => Err(format!("not refused, gave {result}")),
            Ok(result) => self.judge(step, fields, result),
        }
    }

    fn judge(&mut self, step: &Value, fields: &Map<String, Value>, result: Value) -> Result<(), String> {
        let picked = match step["pick"].as_str() {
            Some(name) => pick(&result, name)?,
            None => result.clone(),
        };
        if let Some(name) = step["as"].as_str() {
            self.results.insert(name.to_owned(), result);
        }
        if let Some(count) = fields.get("count")
            && picked.as_array().map(Vec::len) != count.as_u64().map(|count| count as usize)
        {
            return Err(format!("gave {} items", picked.as_array().map_or(0, Vec::len)));
        }
        if let Some(expected) = fields.get("expect") {
            let expected = self.resolve(expected)?;
            if !equal(&expected, &picked) {
                return Err(format!("\n    expected {expected}\n    but got  {picked}"));
            }
        }
        Ok(())
    }

    /// The value with `$name.path` replaced by what was captured and `{"repeat": n, "write": w}` written out.
    fn resolve(&self, value: &Value) -> Result<Value, String> {
        match value {
            Value::String(text) if text == "$any" => Ok(value.clone()),
            Value::String(text) => match text.strip_prefix('$') {
                Some(literal) if literal.starts_with('$') => Ok(json!(literal)),
                Some(path) => self.captured(path),
                None => Ok(value.clone()),
            },
            Value::Array(items) => {
                let mut out = Vec::new();
                for item in items {
                    let times = item.get("repeat").and_then(Value::as_u64);
                    let one = self.resolve(times.map_or(item, |_| &item["write"]))?;
                    out.extend(std::iter::repeat_n(one, times.unwrap_or(1) as usize));
                }
                Ok(Value::Array(out))
            }
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| Ok((name.clone(), self.resolve(value)?)))
                .collect::<Result<_, String>>()
                .map(Value::Object),
            _ => Ok(value.clone()),
        }
    }

    fn captured(&self, path: &str) -> Result<Value, String> {
        let pointer = format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
        let (name, rest) = pointer[1..].split_at(pointer[1..].find('/').unwrap_or(pointer.len() - 1));
        let found = self.results.get(name).and_then(|result| result.pointer(rest));
        found.cloned().ok_or_else(|| format!("nothing was captured as ${path}"))
    }

    fn perform(&mut self, step: &Value, args: &Value) -> Result<Value, Stop> {
        let ctx = match step["ctx"].as_str() {
            None => Context::background(),
            Some("cancelled") => {
                let ctx = Context::new();
                ctx.cancel();
                ctx
            }
            Some("expired") => Context::background().with_deadline(Instant::now()),
            Some(other) => return wrong(format!("unknown ctx '{other}'")),
        };
        let op = step["op"].as_str().unwrap_or_default();
        let made = step["as"].as_str();
        if let Some(result) = self.repository_op(op, args, made, &ctx)? {
            return Ok(result);
        }
        let on = step["on"].as_str().unwrap_or("session");
        let Some(handle) = self.handles.get(on) else { return wrong(format!("no handle '{on}'")) };
        let (result, handle) = match handle {
            Handle::Session(session) => session_op(session, op, args, &ctx)?,
            Handle::Mutation(mutation) => (mutation_op(mutation, op, args, &ctx)?, None),
            Handle::Branch(branch) => (branch_op(branch, op, args, &ctx)?, None),
        };
        if let (Some(name), Some(handle)) = (made, handle) {
            self.handles.insert(name.to_owned(), handle);
        }
        Ok(result)
    }

    fn repository_op(
        &mut self,
        op: &str,
        args: &Value,
        made: Option<&str>,
        ctx: &Context,
    ) -> Result<Option<Value>, Stop> {
        let id = args["id"].as_str();
        let session = match op {
            "create" => self.repository.create(
                &CreateOptions {
                    id: id.map(str::to_owned),
                    parent_session_id: args["parentSessionId"].as_str().map(str::to_owned),
                    cwd: args["cwd"].as_str().map(str::to_owned),
                    ..CreateOptions::default()
                },
                ctx,
            )?,
            "fork" => {
                let text = |name: &str| args[name].as_str().map(str::to_owned);
                let scope = match args["scope"].as_str() {
                    Some("tree") => ForkScope::Tree,
                    _ => ForkScope::Branch(ForkPoint {
                        branch: text("branch"),
                        entry: text("entry"),
                        position: match args["position"].as_str() {
                            Some("before") => ForkPosition::Before,
                            _ => ForkPosition::At,
                        },
                    }),
                };
                let options = ForkOptions { scope, id: text("id"), cwd: text("cwd") };
                let from = args["from"].as_str().unwrap_or_default();
                let fork = self.repository.fork((self.repository, from), &options, ctx)?;
                let result = json!({"session": metadata(fork.session.metadata()), "leftOut": fork.left_out});
                self.handles.insert(made.unwrap_or("session").to_owned(), Handle::Session(fork.session));
                return Ok(Some(result));
            }
            "open" => self.repository.open(id.unwrap_or_default(), ctx)?,
            "open_read_only" => self.repository.open_read_only(id.unwrap_or_default(), ctx)?,
            "list" => {
                let options = ListOptions { details: args["details"] == true };
                let listed = self.repository.list(&options, ctx)?;
                return Ok(Some(listed.iter().map(listing).collect()));
            }
            "delete" => {
                self.repository.delete(id.unwrap_or_default(), ctx)?;
                return Ok(Some(Value::Null));
            }
            "close_repository" => {
                self.repository.close(ctx)?;
                return Ok(Some(Value::Null));
            }
            _ => return Ok(None),
        };
        let result = metadata(session.metadata());
        self.handles.insert(made.unwrap_or("session").to_owned(), Handle::Session(session));
        Ok(Some(result))
    }
}

fn session_op(
    session: &Session,
    op: &str,
    args: &Value,
    ctx: &Context,
) -> Result<(Value, Option<Handle>), Stop> {
    let text = |name: &str| args[name].as_str();
    let done = |(): ()| Value::Null;
    let result = match op {
        "metadata" => metadata(session.metadata()),
        "commit" => {
            let writes = writes(args)?;
            commit_result(&session.mutate(|mutator, ctx| mutator.commit(&writes, ctx), ctx)?)
        }
        "begin_mutation" => {
            let mutation = session.begin_mutation(ctx)?;
            return Ok((Value::Null, Some(Handle::Mutation(mutation))));
        }
        "create_branch" => {
            let branch = session.create_branch(text("name").unwrap_or_default(), text("at"), ctx)?;
            return Ok((json!({"name": branch.name()}), Some(Handle::Branch(branch))));
        }
        "branch" => match session.branch(text("name").unwrap_or_default(), ctx)? {
            Some(branch) => return Ok((json!({"name": branch.name()}), Some(Handle::Branch(branch)))),
            None => Value::Null,
        },
        "branches" => session
            .branches(ctx)?
            .iter()
            .map(|branch| json!({"name": branch.name, "tipId": branch.tip_id}))
            .collect(),
        "get_entry" => session
            .get_entry(text("id").unwrap_or_default(), ctx)?
            .map_or(Value::Null, |found| entry(&found, args)),
        "find_entries" => entries(&session.find_entries(&entry_query(args)?, ctx)?, args),
        "find_entry" => {
            session.find_entry(&entry_query(args)?, ctx)?.map_or(Value::Null, |found| entry(&found, args))
        }
        "scan_usage" => {
            let scan = UsageScan {
                from_seq: args["fromSeq"].as_u64(),
                to_seq: args["toSeq"].as_u64(),
                order: order(args, Order::Ascending)?,
                limit: args["limit"].as_u64(),
            };
            session.scan_usage(&scan, ctx)?.iter().map(|row| payload(&row.to_json(), args)).collect()
        }
        "name" => json!(session.name(ctx)?),
        "get_label" => json!(session.get_label(text("id").unwrap_or_default(), ctx)?),
        "set_name" => done(session.set_name(text("name"), ctx)?),
        "set_label" => done(session.set_label(text("id").unwrap_or_default(), text("label"), ctx)?),
        "set_value" => done(session.set_value(&address(args)?, &given(args, "value")?, ctx)?),
        "delete_value" => done(session.delete_value(&address(args)?, ctx)?),
        "append_list" => done(session.append_list(&address(args)?, &given(args, "value")?, ctx)?),
        "delete_list" => done(session.delete_list(&address(args)?, ctx)?),
        "next_seq" => json!(session.next_seq(ctx)?),
        "dump" => {
            let mut out = Vec::new();
            session.dump(&mut out, ctx)?;
            read(&String::from_utf8_lossy(&out))
        }
        "close" => done(session.close(ctx)?),
        _ => read_op(session, op, args, ctx)?,
    };
    Ok((result, None))
}

fn mutation_op(mutation: &Mutation, op: &str, args: &Value, ctx: &Context) -> Result<Value, Stop> {
    match op {
        "commit" => Ok(commit_result(&mutation.commit(&writes(args)?, ctx)?)),
        "end" => {
            mutation.end();
            Ok(Value::Null)
        }
        _ => read_op(&**mutation, op, args, ctx),
    }
}

fn branch_op(branch: &Branch, op: &str, args: &Value, ctx: &Context) -> Result<Value, Stop> {
    Ok(match op {
        "branch_name" => json!(branch.name()),
        "tip_id" => json!(branch.tip_id(ctx)?),
        "find_entries" => entries(&branch.find_entries(&branch_scan(args)?, ctx)?, args),
        "find_entry" => {
            branch.find_entry(&branch_scan(args)?, ctx)?.map_or(Value::Null, |found| entry(&found, args))
        }
        "append_message" => json!(branch.append_message(&given(args, "message")?, ctx)?),
        "append_custom_entry" => {
            let custom_type = args["customType"].as_str().unwrap_or_default();
            json!(branch.append_custom_entry(custom_type, optional(args, "data")?.as_ref(), ctx)?)
        }
        "append_many" => {
            let nodes = args["entries"].as_array().map_or(&[][..], Vec::as_slice).iter().map(|node| {
                Ok(match node["customType"].as_str() {
                    Some(custom_type) => NewNode::Custom(custom_type.to_owned(), optional(node, "data")?),
                    None => NewNode::Message(given(node, "message")?),
                })
            });
            json!(branch.append_many(&nodes.collect::<Result<Vec<_>, Stop>>()?, ctx)?)
        }
        _ => return wrong(format!("a branch has no op '{op}'")),
    })
}

fn read_op(reader: &impl SessionReader, op: &str, args: &Value, ctx: &Context) -> Result<Value, Stop> {
    let start = args["start"].as_str().unwrap_or_default();
    Ok(match op {
        "get_entries" => {
            let ids: Vec<&str> = args["ids"]
                .as_array()
                .map_or(&[][..], Vec::as_slice)
                .iter()
                .filter_map(Value::as_str)
                .collect();
            entries(&reader.get_entries(&ids, ctx)?, args)
        }
        "stats" => read(reader.stats(ctx)?.to_json().as_str()),
        "get_value" => {
            reader.get_value(&address(args)?, ctx)?.map_or(Value::Null, |stored| value(&stored, args))
        }
        "scan_values" => reader
            .scan_values(&address(args)?, ctx)?
            .iter()
            .map(|stored| {
                let mut item = value(stored, args);
                item["namespace"] = json!(stored.address.namespace());
                item["key"] = json!(stored.address.key());
                item
            })
            .collect(),
        "read_list" => {
            let defaults = ListRead::default();
            let list = ListRead {
                cursor: args["cursor"].as_u64(),
                order: order(args, Order::Ascending)?,
                limit: args["limit"].as_u64().unwrap_or(defaults.limit),
            };
            reader
                .read_list(&address(args)?, &list, ctx)?
                .iter()
                .map(|element| json!({"seq": element.seq, "value": payload(&element.value, args)}))
                .collect()
        }
        "scan_branch" => entries(&reader.scan_branch(start, &branch_scan(args)?, ctx)?, args),
        "scan_branch_structure" => reader
            .scan_branch_structure(start, &branch_scan(args)?, ctx)?
            .iter()
            .map(|place| {
                let mut item = json!({
                    "id": place.id, "parentId": place.parent_id, "seq": place.seq,
                    "timestamp": place.timestamp, "type": place.entry_type.name(),
                });
                if let Some(custom_type) = &place.custom_type {
                    item["customType"] = json!(custom_type);
                }
                item
            })
            .collect(),
        _ => return wrong(format!("no op '{op}' on this handle")),
    })
}

fn writes(args: &Value) -> Result<Vec<Write>, Stop> {
    args["writes"].as_array().map_or(&[][..], Vec::as_slice).iter().map(write).collect()
}

fn write(write: &Value) -> Result<Write, Stop> {
    Ok(match write["kind"].as_str().unwrap_or_default() {
        "entry" => Write::Entry(NewEntry::from_json(&source(write, "entry"))?),
        "usage" => Write::Usage(NewUsage::from_json(&source(write, "row"))?),
        "set" => Write::SetValue(address(write)?, given(write, "value")?),
        "delete" => Write::DeleteValue(address(write)?),
        "append" => Write::AppendList(address(write)?, given(write, "value")?),
        "delete_list" => Write::DeleteList(address(write)?),
        kind => return wrong(format!("unknown kind of write '{kind}'")),
    })
}

/// The JSON text in `name`, or the text that `nameText` spells.
fn source(holder: &Value, name: &str) -> String {
    match holder.get(format!("{name}Text")).and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => holder[name].to_string(),
    }
}

fn given(holder: &Value, name: &str) -> Result<Json, Stop> {
    Ok(Json::parse(source(holder, name))?)
}

fn optional(holder: &Value, name: &str) -> Result<Option<Json>, Stop> {
    let there = holder.get(name).is_some() || holder.get(format!("{name}Text")).is_some();
    there.then(|| given(holder, name)).transpose()
}

fn address(holder: &Value) -> Result<Address, Stop> {
    let text = |name: &str| holder[name].as_str().unwrap_or_default();
    Ok(Address::new(text("namespace"), text("key"))?)
}

fn order(args: &Value, default: Order) -> Result<Order, Stop> {
    match args["order"].as_str() {
        None => Ok(default),
        Some("ascending") => Ok(Order::Ascending),
        Some("descending") => Ok(Order::Descending),
        Some(other) => wrong(format!("unknown order '{other}'")),
    }
}

fn entry_type(args: &Value, name: &str) -> Result<Option<EntryType>, Stop> {
    match args[name].as_str() {
        None => Ok(None),
        Some(text) => match EntryType::from_name(text) {
            Some(found) => Ok(Some(found)),
            None => wrong(format!("unknown entry type '{text}'")),
        },
    }
}

fn branch_scan(args: &Value) -> Result<BranchScan, Stop> {
    Ok(BranchScan {
        order: match args["order"].as_str() {
            None | Some("newestFirst") => PathOrder::NewestFirst,
            Some("oldestFirst") => PathOrder::OldestFirst,
            Some(other) => return wrong(format!("unknown order '{other}'")),
        },
        stop_at_type: entry_type(args, "stopAtType")?,
        stop_at_id: args["stopAtId"].as_str().map(str::to_owned),
        entry_type: entry_type(args, "type")?,
        custom_type: args["customType"].as_str().map(str::to_owned),
        cursor: args["cursor"].as_u64(),
        limit: args["limit"].as_u64(),
    })
}

fn entry_query(args: &Value) -> Result<EntryQuery, Stop> {
    Ok(EntryQuery {
        entry_type: entry_type(args, "type")?,
        custom_type: args["customType"].as_str().map(str::to_owned),
        from_seq: args["fromSeq"].as_u64(),
        to_seq: args["toSeq"].as_u64(),
        cursor: args["cursor"].as_u64(),
        order: order(args, Order::Descending)?,
        limit: args["limit"].as_u64(),
    })
}

fn commit_result(result: &CommitResult) -> Value {
    json!({
        "firstSeq": result.first_seq,
        "seqs": result.seqs,
        "timestamp": result.timestamp,
        "stats": read(result.stats.to_json().as_str()),
    })
}

fn metadata(metadata: &SessionMetadata) -> Value {
    let mut out = json!({
        "id": metadata.id, "createdAt": metadata.created_at, "storageVersion": metadata.storage_version,
    });
    for (name, text) in [("cwd", &metadata.cwd), ("parentSessionId", &metadata.parent_session_id)] {
        if let Some(text) = text {
            out[name] = json!(text);
        }
    }
    out
}

fn listing(listing: &pisession::SessionListing) -> Value {
    let mut out = listing.metadata.as_ref().map_or_else(|| json!({}), metadata);
    if let Some(name) = &listing.name {
        out["name"] = json!(name);
    }
    if let Some(count) = listing.message_count {
        out["messageCount"] = json!(count);
    }
    out
}

fn entries(found: &[Entry], args: &Value) -> Value {
    found.iter().map(|found| entry(found, args)).collect()
}

/// The entry as one object; with `text` asked for, its structure and `payload`, the text of its payload.
fn entry(entry: &Entry, args: &Value) -> Value {
    if args["text"] == true {
        return json!({"id": entry.id, "payload": entry.payload.as_str()});
    }
    read(entry.to_json().as_str())
}

fn value(stored: &StoredValue, args: &Value) -> Value {
    json!({"value": payload(&stored.value, args), "seq": stored.seq})
}

/// What the payload says, or its text when that was asked for.
fn payload(json: &Json, args: &Value) -> Value {
    if args["text"] == true { Value::String(json.as_str().to_owned()) } else { read(json.as_str()) }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("the library gave {text}: {error}"))
}

fn pick(result: &Value, name: &str) -> Result<Value, String> {
    match result {
        Value::Array(items) => Ok(items.iter().map(|item| item[name].clone()).collect()),
        Value::Object(fields) => fields.get(name).cloned().ok_or_else(|| format!("no '{name}' in {result}")),
        _ => Err(format!("nothing to pick '{name}' from in {result}")),
    }
}

/// Equality as the cases mean it: numbers by value, `$any` for anything that is there.
fn equal(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::String(any), _) if any == "$any" => true,
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}
