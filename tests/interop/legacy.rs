//! Files of versions 1 to 3: imported by us, opened by the reference; upgraded by the reference, opened by us.

use std::path::{Path, PathBuf};

use pisession::{ErrorKind, ImportOptions, Json, import_file};
use serde_json::json;

use crate::peer::{Peer, peer};
use crate::place::{EPOCH, Place, ctx, dump};

const MARK: &str = r#"[{"kind":"value","op":"set","namespace":"app","key":"mark","value":1}]"#;

/// Files that the reference reads as well, of every kind of line that it knows.
const VERSION_3: &[(&str, &str)] = &[
    ("header", ""),
    (
        "every-type",
        r#"{"type":"model_change","id":"a1","parentId":null,"timestamp":"2025-06-15T15:06:41.000Z","provider":"p","modelId":"m"}
{"type":"thinking_level_change","id":"a2","parentId":"a1","timestamp":"2025-06-15T15:06:42.000Z","thinkingLevel":"high"}
{"type":"message","id":"a3","parentId":"a2","timestamp":"2025-06-15T15:06:43.123Z","message":{"role":"user","content":[{"type":"text","text":"é\u0000"}],"timestamp":1}}
{"type":"message","id":"a4","parentId":"a3","timestamp":"2025-06-15T15:06:44.000Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"read","arguments":{}}],"api":"x","provider":"p","model":"m","usage":{"input":10,"output":2,"cacheRead":1,"cacheWrite":1,"totalTokens":14,"cost":{"input":0.1,"output":0.2,"cacheRead":0,"cacheWrite":0,"total":0.30000000000000004}},"stopReason":"toolUse","timestamp":2}}
{"type":"message","id":"a5","parentId":"a4","timestamp":"2025-06-15T15:06:45.000Z","message":{"role":"toolResult","toolCallId":"c","toolName":"read","content":[],"isError":false,"timestamp":3}}
{"type":"custom","id":"a6","parentId":"a5","timestamp":"2025-06-15T15:06:46.000Z","customType":"note","data":{"n":1}}
{"type":"custom_message","id":"a7","parentId":"a6","timestamp":"2025-06-15T15:06:47.000Z","customType":"hint","content":"shown","display":true}
{"type":"label","id":"a8","parentId":"a7","timestamp":"2025-06-15T15:06:48.000Z","targetId":"a3","label":"start"}
{"type":"session_info","id":"a9","parentId":"a8","timestamp":"2025-06-15T15:06:49.000Z","name":"a name"}
{"type":"compaction","id":"b1","parentId":"a9","timestamp":"2025-06-15T15:06:50.000Z","summary":"so far","firstKeptEntryId":"a5","tokensBefore":100}
{"type":"message","id":"b2","parentId":"a3","timestamp":"2025-06-15T15:06:51.000Z","message":{"role":"assistant","content":[],"api":"x","provider":"p","model":"m","usage":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":2,"cost":{"input":0.7,"output":0.1,"cacheRead":0,"cacheWrite":0,"total":0.8}},"stopReason":"stop","timestamp":2}}
{"type":"branch_summary","id":"b3","parentId":"b1","timestamp":"2025-06-15T15:06:52.000Z","fromId":"b2","summary":"left"}
{"type":"active_tools_change","id":"b4","parentId":"b3","timestamp":"2025-06-15T15:06:53.000Z","activeToolNames":["read"]}
"#,
    ),
    (
        "no-configuration",
        r#"{"type":"message","id":"a1","parentId":null,"timestamp":"2025-06-15T15:06:43.000Z","message":{"role":"user","content":"one"}}
{"type":"message","id":"a2","parentId":null,"timestamp":"2025-06-15T15:06:42.000Z","message":{"role":"user","content":"two roots"}}
{"type":"message","id":"torn","parentId":"a2","times"#,
    ),
];

/// Files that the reference does not read.
const OLDER: &[(&str, &str)] = &[
    (
        "version-1",
        r#"{"type":"session","id":"version-1","timestamp":"2025-06-15T15:06:40.000Z","cwd":"/w","provider":"p","modelId":"m","thinkingLevel":"low"}
{"type":"message","timestamp":"2025-06-15T15:06:41.000Z","message":{"role":"user","content":"one"}}
{"type":"message","timestamp":"2025-06-15T15:06:42.000Z","message":{"role":"hookMessage","customType":"h","content":"x","display":true}}
{"type":"compaction","timestamp":"2025-06-15T15:06:43.000Z","summary":"s","firstKeptEntryIndex":1,"tokensBefore":5}
{"type":"message","timestamp":"2025-06-15T15:06:44.000Z","message":{"role":"assistant","content":[],"usage":{"input":3,"cost":{"total":0.1}},"stopReason":"stop"}}
"#,
    ),
    (
        "version-2",
        r#"{"type":"session","version":2,"id":"version-2","timestamp":"2025-06-15T15:06:40.000Z","cwd":"/w","branchedFrom":"/gone.jsonl"}
{"type":"message","id":"a","parentId":null,"timestamp":"2025-06-15T15:06:41.000Z","message":{"role":"user","content":"one"}}
{"type":"message","id":"b","parentId":"a","timestamp":"2025-06-15T15:06:42.000Z","message":{"role":"hookMessage","customType":"h","content":"x","display":true}}
"#,
    ),
    (
        "what-the-coding-agent-writes-newer",
        r#"{"type":"session","version":3,"id":"what-the-coding-agent-writes-newer","timestamp":"2025-06-15T15:06:40.000Z","cwd":"/w"}
{"type":"message","id":"a","parentId":null,"timestamp":"2025-06-15T15:06:41.000Z","message":{"role":"user","content":"one"}}
{"type":"usage","id":"u","parentId":"a","timestamp":"2025-06-15T15:06:42.000Z","usage":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":2,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}
{"type":"context_edit","id":"e","parentId":"u","timestamp":"2025-06-15T15:06:43.000Z","targetId":"a","edit":"x"}
{"type":"of_another_program","id":"o","parentId":"e","timestamp":"1969-12-31T23:59:59.000Z","anything":[1e400]}
{"type":"compaction","id":"c","parentId":"o","timestamp":"2025-06-15T15:06:44.000Z","summary":"s","firstKeptEntryId":"c","tokensBefore":5}
{"type":"leaf","id":"l","parentId":"c","timestamp":"2025-06-15T15:06:45.000Z","targetId":"a"}
"#,
    ),
];

#[test]
fn what_we_import_is_opened_by_the_reference_and_gone_on_with() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let version_3 = VERSION_3.iter().map(|(name, lines)| (*name, version_3(name, lines)));
    let older = OLDER.iter().map(|(name, text)| (*name, (*text).to_owned()));
    for (name, text) in version_3.chain(older) {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let place = Place::new();
        assert_eq!(import(&place, &path).as_deref(), Ok(name));
        peer.does("open", place.on(name, json!({})));
        peer.does(
            "appendMessage",
            place.on(
                name,
                json!({"name": "main", "message": r#"{"role":"user","content":"more"}"#, "now": EPOCH}),
            ),
        );
        peer.does("close", place.on(name, json!({})));
        place.agree(peer, name);
    }
}

/// Its harness takes the lane that we imported, model and tools and kept messages and all, and runs on it.
#[test]
fn a_lane_that_we_imported_is_run_by_the_reference() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let (name, lines) = VERSION_3[1];
    let lines = lines.replace(r#""provider":"p","modelId":"m""#, r#""provider":"faux","modelId":"faux-1""#);
    let lines = lines.replace(r#""activeToolNames":["read"]"#, r#""activeToolNames":["echo"]"#);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, version_3(name, &lines)).unwrap();
    let place = Place::new();
    import(&place, &path).unwrap();
    for round in 1..=3 {
        let roles = peer.does("run", place.on(name, json!({"prompt": "go on", "now": EPOCH})));
        let roles: Vec<&str> = roles.as_array().unwrap().iter().map(|role| role.as_str().unwrap()).collect();
        assert_eq!(roles[roles.len() - 4..], ["user", "assistant", "toolResult", "assistant"]);
        place.agree(peer, name);
        // What we add in between is in the next run's context.
        let session = place.open(name);
        let main = session.branch("main", &ctx()).unwrap().unwrap();
        main.append_message(
            &Json::parse(r#"{"role":"user","content":"ours","timestamp":1}"#).unwrap(),
            &ctx(),
        )
        .unwrap();
        if round == 2 {
            session.compact(&ctx()).unwrap();
        }
        session.close(&ctx()).unwrap();
        place.agree(peer, name);
    }
}

/// Its own import rewrites the file at the first commit. What it made of it is what we make of it.
#[test]
fn what_the_reference_upgraded_is_what_we_import() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    for (name, lines) in VERSION_3 {
        let (ours, theirs) = (Place::new(), Place::new());
        let path = old_file(&theirs, name, version_3(name, lines).as_bytes());
        assert_eq!(import(&ours, &path).as_deref(), Ok(*name));
        upgrade(peer, &theirs, name).unwrap();
        theirs.agree(peer, name);
        assert_eq!(difference(peer, &ours, &theirs, name), None, "{name}");
    }
}

/// Files of the world: the reference opens what we import of each, and where it reads the file itself, both
/// made the same of it.
#[test]
fn each_file_of_the_corpus_that_we_import_is_opened_by_the_reference() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let (mut imported, mut both) = (0, 0);
    let mut differences = Vec::new();
    for path in shared("corpus").into_iter().chain(shared("golden/v3")).flatten() {
        let file = path.file_name().unwrap().to_str().unwrap();
        let (ours, theirs) = (Place::new(), Place::new());
        let id = match import(&ours, &path) {
            Ok(id) => id,
            Err(ErrorKind::NotASession | ErrorKind::UnsupportedVersion | ErrorKind::Unsupported) => continue,
            Err(kind) => panic!("{kind:?}: {file}"),
        };
        imported += 1;
        println!("{file}");
        ours.agree(peer, &id);
        // It copies record by record, which takes minutes for large files.
        let bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 256 << 10 {
            continue;
        }
        old_file(&theirs, &id, &bytes);
        if let Err(why) = upgrade(peer, &theirs, &id) {
            println!("    not read by the reference: {why}");
            continue;
        }
        theirs.agree(peer, &id);
        both += 1;
        let expected = READ_OTHERWISE.iter().find(|(name, _)| file.starts_with(name));
        match (difference(peer, &ours, &theirs, &id), expected) {
            (None, None) | (Some(_), Some(_)) => {}
            (found, expected) => differences.push(format!("{file}: expected {expected:?}, found {found:?}")),
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(imported == 0 || imported > 100 && both > 30, "{imported} {both}");
}

/// Files that the reference and we read otherwise, and why.
const READ_OTHERWISE: &[(&str, &str)] = &[
    ("13-torn-only-newline-missing", "a last line that is whole counts with us without its line end, too"),
    ("20-model-change-without-fields", "a model change without a model gives no configuration"),
    (
        "52-parent-session-here",
        "a parent named by a relative path is looked for beside the file; the copy has none",
    ),
    ("58-numbers", "a counter that a message does not have counts 0; the reference's sum is NaN"),
    ("60-torn-tail-whole", "as 13"),
    ("62-invalid-utf-8", "a line that is no UTF-8 is no JSON; the reference puts U+FFFD into it"),
    ("69-active-tools-invalid", "tools that are no list of names are none"),
    ("70-model-change-invalid", "as 20"),
];

/// Imports a file, damaged or not; the id of the session.
fn import(place: &Place, path: &Path) -> Result<String, ErrorKind> {
    let options = ImportOptions { salvage: true, ..ImportOptions::default() };
    import_file(path, &place.repository, &options, &ctx())
        .map(|import| import.session_id().to_owned())
        .map_err(|error| error.kind())
}

/// A version 3 file in a folder of the reference's.
fn old_file(place: &Place, name: &str, bytes: &[u8]) -> PathBuf {
    let path = place.root().join("--w--").join(format!("2025-06-15T15-06-40-000Z_{name}.jsonl"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Lets the reference open an old file and commit to it; else why it does not.
fn upgrade(peer: &mut Peer, place: &Place, id: &str) -> Result<(), String> {
    peer.ask("open", place.on(id, json!({})))?;
    peer.does("commit", place.on(id, json!({"writes": MARK, "now": EPOCH})));
    peer.does("close", place.on(id, json!({})));
    Ok(())
}

fn version_3(id: &str, lines: &str) -> String {
    let header = json!({
        "type": "session",
        "version": 3,
        "id": id,
        "timestamp": "2025-06-15T15:06:40.000Z",
        "cwd": "/w",
    });
    format!("{header}\n{lines}")
}

/// Where the two sessions of one old file differ, but for their ids, one to one.
fn difference(peer: &mut Peer, ours: &Place, theirs: &Place, id: &str) -> Option<String> {
    let read = |place: &Place| dump(&place.repository.open_read_only(id, &ctx()).unwrap());
    peer.ask("compareImports", json!({"ours": read(ours), "theirs": read(theirs)})).err()
}

/// The session files of a folder of shared material; none, with a note, where it is absent.
fn shared(folder: &str) -> Option<Vec<PathBuf>> {
    let root = std::env::var_os("PISESSION_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let folder = root.join(folder);
    let Ok(files) = std::fs::read_dir(&folder) else {
        let said = format!(
            "\nSKIPPED: {} is not there; set PISESSION_SHARED to the shared test material\n",
            folder.display()
        );
        // Past the capture of the test harness: `tests/run` shows and counts it.
        std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes()).unwrap();
        return None;
    };
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    files.sort();
    Some(files)
}
