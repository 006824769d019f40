//! Pipes, terminals and signals: colour only where it is seen, no control character gets through, a reader
//! that goes away and Ctrl-C are no accidents.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Place, command, pisession, run, sample, user};

const HOSTILE: &str = "\u{1b}[31mred\u{7} \u{9b}2J\u{7f}\u{202e}txt.exe\0";

/// What the command writes to a terminal.
fn on_terminal(arguments: &[&str], no_color: &str) -> String {
    let pty = openpty(None, None).unwrap();
    let mut child =
        command(arguments).env("NO_COLOR", no_color).stdout(Stdio::from(pty.slave)).spawn().unwrap();
    let mut text = Vec::new();
    // A terminal whose other side is gone ends with an error; what was read until then counts.
    let _ = File::from(pty.master).read_to_end(&mut text);
    assert!(child.wait().unwrap().code().is_some());
    String::from_utf8(text).unwrap()
}

/// Control characters other than line ends, and characters that turn text around.
fn hostile(text: &str) -> Vec<char> {
    text.chars().filter(|c| (c.is_control() && *c != '\n' && *c != '\r') || *c == '\u{202e}').collect()
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    assert!(!pisession(&["tree", &sample()]).fine().contains('\u{1b}'));
    assert!(on_terminal(&["tree", &sample()], "").contains("\u{1b}[33m"));
    assert!(!on_terminal(&["tree", &sample()], "1").contains('\u{1b}'));
}

#[test]
fn control_characters_of_a_session_never_reach_the_output_raw() {
    let place = Place::new();
    let (session, name) = place.session("s");
    let call = format!(
        r#"{{"role":"assistant","content":[{{"type":"thinking","thinking":{0}}},{{"type":"toolCall","name":{0},"arguments":{{"a":{0}}}}},{{"type":"image","data":"","mimeType":{0}}},{{"type":{0}}}],"model":{0},"stopReason":{0}}}"#,
        pisession::Json::string(HOSTILE)
    );
    let tool =
        format!(r#"{{"role":"toolResult","toolName":{0},"content":{0}}}"#, pisession::Json::string(HOSTILE));
    let ids = place.append(
        &session,
        &[&user(HOSTILE), &call, &tool, &format!(r#"{{"role":{0}}}"#, pisession::Json::string(HOSTILE))],
    );
    session.set_name(Some(HOSTILE), &place.ctx).unwrap();
    session.set_label(&ids[1], Some(HOSTILE), &place.ctx).unwrap();
    session.set_label("nowhere\u{1b}[2J", Some(HOSTILE), &place.ctx).unwrap();
    session.create_branch("\u{1b}]0;title\u{7}", Some(&ids[1]), &place.ctx).unwrap();
    for arguments in [
        &["tree", &name][..],
        &["log", &name],
        &["log", &name, "--full"],
        &["show", &name, &ids[1]],
        &["show", &name, &ids[2]],
        &["info", &name],
        &["doctor", &name],
        &["ls", &place.uri, "--details"],
        &["show", &name, "\u{1b}[2Jnope"],
        &["log", &name, "--branch", "\u{1b}[2Jnope"],
    ] {
        let run = pisession(arguments);
        assert_eq!((hostile(&run.out), hostile(&run.err)), (vec![], vec![]), "{arguments:?}");
        assert!(!run.out.is_empty() || !run.err.is_empty(), "{arguments:?}");
    }
    assert!(pisession(&["log", &name]).fine().contains("␛[31mred␇ <U+009B>2J␡<U+202E>txt.exe␀"));
}

#[test]
fn json_on_a_terminal_escapes_what_json_allows_raw() {
    let place = Place::new();
    let (session, name) = place.session("s");
    place.append(&session, &[&user("a\u{9b}2J\u{7f}é")]);
    let piped = pisession(&["log", &name, "--json"]).fine();
    assert!(piped.contains("a\u{9b}2J\u{7f}é"), "{piped}");
    for command in ["log", "dump"] {
        let shown = on_terminal(&[command, &name, "--json"], "1");
        assert!(shown.contains("a\\u009b2J\\u007fé"), "{shown}");
        assert!(hostile(&shown).is_empty(), "{shown}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    let chain = place.chain(20_000);
    for arguments in [
        &["tree", &chain][..],
        &["tree", &chain, "--json"],
        &["log", &chain],
        &["log", &chain, "--json"],
        &["dump", &chain],
    ] {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = Vec::new();
        // The JSON of a tree is one line: of that, a part is enough.
        out.by_ref().take(1000).read_until(b'\n', &mut line).unwrap();
        assert!(!line.is_empty(), "{arguments:?}");
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{arguments:?}");
    }
}

#[test]
fn a_reader_that_was_never_there_is_no_error() {
    for arguments in [&["info", &sample()][..], &["doctor", &sample()], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output =
            command(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{arguments:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command(&["info", &sample()]).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot write the output"));
}

#[test]
fn interrupting_ends_the_work_and_says_so() {
    let place = Place::new();
    let chain = place.chain(20_000);
    let mut child = command(&["log", &chain]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    // Once it writes it listens for Ctrl-C, and it cannot end: the pipe holds less than all of it.
    let mut first = [0; 1];
    out.read_exact(&mut first).unwrap();
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "interrupted\n");
    assert!(!rest.ends_with(b"message 19999\n\n"));
}

#[test]
fn progress_is_for_terminals_only() {
    let place = Place::new();
    let run = run(&mut command(&["doctor", &place.chain(20_000)]));
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}
