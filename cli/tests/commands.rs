//! Every command on the sample file and on sessions made through the core: text for people, JSON for programs,
//! exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use pisession::Json;
use support::{Place, pisession, sample, user};

#[test]
fn every_command_reads_the_sample_file() {
    for (command, contains) in [
        ("info", ["name       Fix the word count and add a chart", "format     jsonl-3", "messages   33"]),
        ("tree", ["[main] #done", "#failing test", "├─"]),
        (
            "log",
            [
                "assistant claude-opus-4-5  1faff213  2025-12-01",
                "→ bash {\"command\":",
                "[image image/png, 103 bytes]",
            ],
        ),
        ("dump", ["\"name\":\"Fix the word count and add a chart\"", "\"branches\":{", "\"nextSeq\":"]),
        ("doctor", ["1 session looked at, nothing found", "", ""]),
    ] {
        let out = pisession(&[command, &sample()]).fine();
        for text in contains {
            assert!(out.contains(text), "{command}: {text}: {out}");
        }
    }
}

#[test]
fn every_command_reads_the_imported_sample() {
    let place = Place::new();
    let out = pisession(&["import", &sample(), "--into", &place.uri]).fine();
    let id = out.split_whitespace().next().unwrap();
    let session = format!("{}#{id}", place.uri);
    for command in ["info", "tree", "log", "dump", "doctor"] {
        assert!(!pisession(&[command, &session]).fine().is_empty(), "{command}");
    }
    let file = place.folder.path().join("sessions").join(format!("{id}.sqlite"));
    let by_file = pisession(&["dump", file.to_str().unwrap()]).fine();
    assert_eq!(by_file, pisession(&["dump", &session]).fine());
}

#[test]
fn info_in_json_has_metadata_format_totals_and_branches() {
    let info = pisession(&["info", &sample(), "--json"]).json();
    assert_eq!(info["id"], "7d0e2f54-3c1a-4b6e-9f28-5a1c8e40b937");
    assert_eq!(info["format"], "jsonl-3");
    assert_eq!(info["cwd"], "/home/ada/projects/wordcount");
    assert_eq!(info["messageCount"], 33);
    assert_eq!(info["branches"][0]["name"], "main");
    assert_eq!(info["findings"], serde_json::json!([]));
    let cost = info["usage"]["cost"]["total"].as_f64().unwrap();
    assert!(cost > 0.1 && cost < 0.2, "{cost}");
}

#[test]
fn tree_in_json_has_every_entry_and_its_marks() {
    let tree = pisession(&["tree", &sample(), "--json"]).json();
    let entries = tree["entries"].as_array().unwrap();
    let last = entries.last().unwrap();
    assert_eq!((&last["tipOf"][0], &last["label"]), (&"main".into(), &"done".into()));
    assert_eq!(last["id"], tree["branches"][0]["tipId"]);
    assert!(entries.iter().any(|entry| entry["type"] == "compaction" && entry["oldId"] == "efa38088"));
    assert!(entries.iter().any(|entry| entry["kind"] == "todo" && entry["type"] == "custom"));
}

#[test]
fn log_in_json_is_the_path_of_the_branch_an_entry_on_each_line() {
    let all = pisession(&["log", &sample(), "--json"]).json_lines();
    for pair in all.windows(2) {
        assert_eq!(pair[1]["parentId"], pair[0]["id"]);
    }
    for (limit, expected) in [("0", 0), ("1", 1), ("5", 5), ("10000", all.len())] {
        let some = pisession(&["log", &sample(), "--json", "--limit", limit]).json_lines();
        assert_eq!(some, all[all.len() - expected..], "{limit}");
    }
}

#[test]
fn log_shows_results_in_brief_and_whole_with_full() {
    let place = Place::new();
    let (session, name) = place.session("s");
    let lines: String = (1..=30).map(|number| format!("  line {number}\n")).collect();
    let result = format!(
        r#"{{"role":"toolResult","toolCallId":"1","toolName":"read","content":[{{"type":"text","text":{}}}],"isError":true}}"#,
        Json::string(&lines)
    );
    place.append(&session, &[&user("question"), &result]);
    let brief = pisession(&["log", &name]).fine();
    assert!(brief.contains("toolResult read, error"), "{brief}");
    assert!(brief.contains("  line 8\n… 22 more lines\n"), "{brief}");
    let full = pisession(&["log", &name, "--full"]).fine();
    assert!(full.contains("  line 30\n") && !full.contains('…'), "{full}");
}

#[test]
fn log_follows_the_branch_that_is_named() {
    let place = Place::new();
    let (session, name) = place.session("s");
    place.insert(&session, &[("a", None, "first"), ("b", Some("a"), "left"), ("c", Some("a"), "right")]);
    session.create_branch("side", Some("b"), &place.ctx).unwrap();
    let out = pisession(&["log", &name, "--branch", "side"]).fine();
    assert!(out.contains("first") && out.contains("left") && !out.contains("right"), "{out}");
    assert_eq!(pisession(&["log", &name]).fine(), "");
    let unknown = pisession(&["log", &name, "--branch", "none"]);
    assert_eq!(unknown.code, 3);
    assert!(unknown.err.contains("its branches are main, side"), "{}", unknown.err);
}

#[test]
fn show_takes_an_id_a_piece_of_it_or_the_old_one() {
    let old = pisession(&["show", &sample(), "efa38088", "--json"]).json();
    assert_eq!((&old["entry"]["type"], &old["oldId"]), (&"compaction".into(), &"efa38088".into()));
    let id = old["entry"]["id"].as_str().unwrap();
    for piece in [id, &id[id.len() - 8..], &id[..13]] {
        assert_eq!(pisession(&["show", &sample(), piece, "--json"]).json(), old, "{piece}");
    }
    let text = pisession(&["show", &sample(), "efa38088"]).fine();
    assert!(text.contains("type       compaction") && text.contains("messages kept"), "{text}");
    let tip = pisession(&["show", &sample(), "1faff213", "--json"]).json();
    assert_eq!((&tip["label"], &tip["branches"][0]), (&"done".into(), &"main".into()));
    for (piece, message) in
        [("019ad9", "names more than one entry"), ("nowhere", "there is no entry 'nowhere'")]
    {
        let run = pisession(&["show", &sample(), piece]);
        assert_eq!(run.code, 3);
        assert!(run.err.contains(message), "{}", run.err);
    }
}

#[test]
fn show_in_json_gives_the_payload_as_it_is_stored() {
    let place = Place::new();
    let (session, name) = place.session("s");
    let message = r#"{"role":"user","n":9007199254740993,"tiny":1e-7,"huge":1e400,"half":"\ud83d","n":0.10}"#;
    let ids = place.append(&session, &[message]);
    let run = pisession(&["show", &name, &ids[0], "--json"]);
    assert!(run.out.contains(message), "{}", run.out);
    assert!(pisession(&["log", &name, "--json"]).fine().contains(message));
}

#[test]
fn ls_lists_newest_first_with_details_when_asked() {
    let place = Place::new();
    let (first, _) = place.session("first");
    first.set_name(Some("the name"), &place.ctx).unwrap();
    place.append(&first, &[&user("a"), &user("b")]);
    let (_second, _) = place.session("second");
    let listed = pisession(&["ls", &place.uri, "--details", "--json"]).json_lines();
    assert_eq!(listed.len(), 2);
    let of = |id: &str| listed.iter().find(|line| line["id"] == id).unwrap();
    assert_eq!((&of("first")["name"], &of("first")["messageCount"]), (&"the name".into(), &2.into()));
    assert_eq!(of("second")["messageCount"], 0);
    assert!(pisession(&["ls", &place.uri, "--json"]).json_lines()[0].get("messageCount").is_none());
    let text = pisession(&["ls", &place.uri, "--details"]).fine();
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("2 messages  the name"), "{text}");
    assert_eq!(pisession(&["ls", "memory:"]).fine(), "");
}

#[test]
fn a_file_that_cannot_be_read_does_not_hide_the_others() {
    let place = Place::new();
    let (session, _) = place.session("good");
    session.close(&place.ctx).unwrap();
    std::fs::write(place.folder.path().join("sessions/bad.sqlite"), "no database").unwrap();
    let text = pisession(&["ls", &place.uri]).fine();
    assert!(text.lines().next().unwrap().starts_with("good"), "{text}");
    assert!(text.lines().nth(1).unwrap().contains("bad.sqlite"), "{text}");
    let listed = pisession(&["ls", &place.uri, "--json"]).json_lines();
    assert!(listed[1]["problem"]["kind"].is_string(), "{listed:?}");
}

#[test]
fn what_is_not_there_is_an_error() {
    let place = Place::new();
    let (_session, _) = place.session("s");
    let unknown = format!("{}#nope", place.uri);
    let missing = format!("{}-missing", place.uri);
    let file = place.folder.path().join("missing.jsonl").to_str().unwrap().to_owned();
    for (arguments, kind) in [
        (vec!["info", &unknown], "UnknownSession"),
        (vec!["tree", &unknown], "UnknownSession"),
        (vec!["log", &unknown], "UnknownSession"),
        (vec!["show", &unknown, "x"], "UnknownSession"),
        (vec!["dump", &unknown], "UnknownSession"),
        (vec!["doctor", &unknown], "UnknownSession"),
        (vec!["info", &file], "Io"),
        (vec!["doctor", &file], "Io"),
        (vec!["ls", &missing], "Io"),
        (vec!["doctor", &missing], "Io"),
        (vec!["import", &file, "--into", &place.uri], "Io"),
    ] {
        let run = pisession(&arguments);
        assert_eq!((run.code, run.out.as_str()), (3, ""), "{arguments:?}: {}", run.err);
        assert!(run.err.starts_with("error: "), "{arguments:?}: {}", run.err);
        let json = pisession(&[arguments.as_slice(), &["--json"]].concat());
        assert_eq!((json.code, &json.json_error()["kind"]), (3, &kind.into()), "{arguments:?}");
    }
}

#[test]
fn arguments_that_make_no_sense_are_told_apart_from_errors() {
    let place = Place::new();
    for arguments in [
        &[][..],
        &["nonsense"],
        &["ls"],
        &["ls", "nowhere"],
        &["ls", "memory:path"],
        &["ls", "wrong:path"],
        &["info", &place.uri],
        &["log", "a.jsonl", "--limit", "-1"],
        &["log", "a.jsonl", "--limit", "many"],
        &["import", "--into", "memory:"],
        &["import", "a.jsonl"],
        &["import", "a.jsonl", "--into", "folder"],
        &["import", "a.jsonl", "b.jsonl", "--into", "memory:", "--id", "x"],
        &["import", "a.jsonl", "--into", "memory:", "--strict", "--salvage"],
        &["fork", "a.jsonl"],
    ] {
        let run = pisession(arguments);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments:?}: {}", run.err);
        let json = pisession(&[arguments, &["--json"]].concat());
        assert_eq!(json.code, 2, "{arguments:?}");
        assert!(!json.json_error()["message"].as_str().unwrap().is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_shows_examples() {
    for arguments in [
        &["--help"][..],
        &["ls", "--help"],
        &["info", "--help"],
        &["tree", "--help"],
        &["log", "--help"],
        &["show", "--help"],
        &["dump", "--help"],
        &["doctor", "--help"],
        &["import", "--help"],
    ] {
        let out = pisession(arguments).fine();
        assert!(out.contains("Examples:\n  pisession "), "{arguments:?}: {out}");
    }
    assert!(pisession(&["--version"]).fine().starts_with("pisession "));
}

#[test]
fn a_pipe_is_refused_at_once() {
    let place = Place::new();
    let pipe = place.folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let pipe = pipe.to_str().unwrap();
    for (command, code) in [("info", 3), ("doctor", 1)] {
        // Opening it would wait for a writer that never comes.
        let mut child = support::command(&[command, pipe]).spawn().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if std::time::Instant::now() > until {
                child.kill().unwrap();
                break None;
            }
            std::thread::yield_now();
        };
        assert_eq!(ended.and_then(|status| status.code()), Some(code), "{command}");
    }
}

#[test]
fn a_folder_is_named_as_a_repository() {
    let place = Place::new();
    let folder = place.folder.path().to_str().unwrap();
    for command in ["info", "doctor"] {
        let run = pisession(&[command, folder, "--json"]);
        assert_eq!(run.code, 2, "{command}: {}", run.err);
        let hint = run.json_error()["hint"].as_str().unwrap().to_owned();
        assert!(hint.contains(&format!("pisession ls jsonl:{folder}")), "{hint}");
        assert!(hint.contains(&format!("sqlite:{folder}")), "{hint}");
    }
}

#[test]
fn ls_of_a_session_says_what_to_write() {
    let place = Place::new();
    let (_session, name) = place.session("s");
    let run = pisession(&["ls", &name, "--json"]);
    assert_eq!(run.code, 2);
    assert!(
        run.json_error()["message"].as_str().unwrap().contains("names a session, and ls takes a repository")
    );
    assert!(run.json_error()["hint"].as_str().unwrap().contains(&format!("pisession ls {}", place.uri)));
}

#[test]
fn an_unreadable_file_is_listed_without_a_format_that_nobody_knows() {
    let place = Place::new();
    place.file("bad.jsonl", "hello\n");
    let uri = format!("jsonl:{}", place.folder.path().display());
    let listed = pisession(&["ls", &uri, "--json"]).json_lines();
    assert_eq!((listed.len(), &listed[0]["format"]), (1, &"unknown".into()));
}

#[test]
fn usage_errors_in_json_name_the_argument() {
    let run = pisession(&["import", "--json"]);
    assert_eq!(run.code, 2);
    let message = run.json_error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("--into <URI>") && message.contains("<FILE>"), "{message}");
    let run = pisession(&["log", "x", "--limit", "many", "--json"]);
    assert!(run.json_error()["message"].as_str().unwrap().contains("--limit"), "{}", run.err);
}

#[test]
fn paths_of_repositories_that_lead_elsewhere_are_named_in_whole_sentences() {
    let place = Place::new();
    let file = place.file("file", "");
    let run = pisession(&["ls", &format!("jsonl:{file}"), "--json"]);
    let message = run.json_error()["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("the path of a jsonl: repository"), "{message}");
    let run = pisession(&["ls", "sqlite:/dev/null", "--json"]);
    let message = run.json_error()["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("the path of a sqlite: repository"), "{message}");
}

#[test]
fn the_version_says_which_sqlite_is_inside_and_the_help_knows_every_kind_of_repository() {
    let version = pisession(&["--version"]).fine();
    assert!(version.contains(&format!("SQLite {}", pisession::sqlite_version())), "{version}");
    let help = pisession(&["--help"]).fine();
    assert!(help.contains("jsonl:PATH") && help.contains("format 4"), "{help}");
    let hint = pisession(&["info", "sqlite:x", "--json"]).json_error()["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("jsonl:PATH"), "{hint}");
}
