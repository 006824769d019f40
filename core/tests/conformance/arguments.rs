//! Which arguments each operation of a case may have: one that no runner reads would make a case say more than it
//! proves.

use serde_json::Value;

/// Operations by the handle they are made on ("" is any) and their arguments.
const ARGUMENTS: [(&str, &str, &[&str]); 43] = [
    ("", "create", &["id", "cwd", "parentSessionId"]),
    ("", "fork", &["from", "id", "cwd", "scope", "branch", "entry", "position"]),
    ("", "open", &["id"]),
    ("", "open_read_only", &["id"]),
    ("", "list", &["details"]),
    ("", "delete", &["id"]),
    ("", "close_repository", &[]),
    ("", "metadata", &[]),
    ("", "begin_mutation", &[]),
    ("", "create_branch", &["name", "at"]),
    ("", "branch", &["name"]),
    ("", "branches", &[]),
    ("", "get_entry", &["id", "text"]),
    ("session", "find_entries", &QUERY),
    ("session", "find_entry", &QUERY),
    ("branch", "find_entries", &SCAN),
    ("branch", "find_entry", &SCAN),
    ("", "scan_usage", &["fromSeq", "toSeq", "order", "limit", "text"]),
    ("", "name", &[]),
    ("", "get_label", &["id"]),
    ("", "set_name", &["name"]),
    ("", "set_label", &["id", "label"]),
    ("", "set_value", &["namespace", "key", "value", "valueText"]),
    ("", "delete_value", &["namespace", "key"]),
    ("", "append_list", &["namespace", "key", "value", "valueText"]),
    ("", "delete_list", &["namespace", "key"]),
    ("", "next_seq", &[]),
    ("", "dump", &[]),
    ("", "close", &[]),
    ("", "commit", &["writes"]),
    ("", "end", &[]),
    ("", "get_entries", &["ids", "text"]),
    ("", "stats", &[]),
    ("", "get_value", &["namespace", "key", "text"]),
    ("", "scan_values", &["namespace", "key", "text"]),
    ("", "read_list", &["namespace", "key", "cursor", "order", "limit", "text"]),
    ("", "scan_branch", &PATH_SCAN),
    ("", "scan_branch_structure", &STRUCTURE_SCAN),
    ("", "branch_name", &[]),
    ("", "tip_id", &[]),
    ("", "append_message", &["message", "messageText"]),
    ("", "append_custom_entry", &["customType", "data", "dataText"]),
    ("", "append_many", &["entries"]),
];

const QUERY: [&str; 8] = ["type", "customType", "fromSeq", "toSeq", "cursor", "order", "limit", "text"];
const SCAN: [&str; 8] = ["order", "stopAtType", "stopAtId", "type", "customType", "cursor", "limit", "text"];
const PATH_SCAN: [&str; 9] =
    ["start", "order", "stopAtType", "stopAtId", "type", "customType", "cursor", "limit", "text"];
const STRUCTURE_SCAN: [&str; 8] =
    ["start", "order", "stopAtType", "stopAtId", "type", "customType", "cursor", "limit"];

/// Kinds of writes and their fields.
const WRITES: [(&str, &[&str]); 6] = [
    ("entry", &["kind", "entry", "entryText"]),
    ("usage", &["kind", "row", "rowText"]),
    ("set", &["kind", "namespace", "key", "value", "valueText"]),
    ("delete", &["kind", "namespace", "key"]),
    ("append", &["kind", "namespace", "key", "value", "valueText"]),
    ("delete_list", &["kind", "namespace", "key"]),
];

/// Refuses what operation `op` on a handle of that kind does not read.
pub(crate) fn check(handle: &str, op: &str, args: &Value) -> Result<(), String> {
    let found = ARGUMENTS.iter().find(|(on, name, _)| *name == op && (on.is_empty() || *on == handle));
    let (_, _, known) = found.ok_or_else(|| format!("no op '{op}' on a {handle}"))?;
    only(op, args, known)?;
    for write in list(args, "writes") {
        let kind = write["kind"].as_str().unwrap_or_default();
        let (_, known) =
            WRITES.iter().find(|(name, _)| *name == kind).ok_or_else(|| format!("unknown write '{kind}'"))?;
        only(kind, write, known)?;
    }
    for node in list(args, "entries") {
        let custom = node.get("customType").is_some();
        let known: &[&str] =
            if custom { &["customType", "data", "dataText"] } else { &["message", "messageText"] };
        only(op, node, known)?;
    }
    Ok(())
}

fn list<'a>(args: &'a Value, name: &str) -> &'a [Value] {
    args[name].as_array().map_or(&[], Vec::as_slice)
}

fn only(what: &str, given: &Value, known: &[&str]) -> Result<(), String> {
    let given = given.as_object().ok_or_else(|| format!("{what} takes an object"))?;
    match given.keys().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err(format!("{what} reads no '{unknown}'")),
        None => Ok(()),
    }
}
