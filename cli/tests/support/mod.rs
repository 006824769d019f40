//! Runs the command line and makes sessions for it.

#![allow(dead_code)] // each suite uses its part

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pisession::{
    Context, CreateOptions, Durability, Json, NewEntry, Repository, RepositoryOptions, Session, Write,
    open_repository,
};
use serde_json::Value;
use tempfile::TempDir;

/// How a run of the command line ended.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// The one JSON object it wrote.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    /// The JSON objects it wrote, one on each line.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The JSON error it wrote on stderr.
    pub(crate) fn json_error(&self) -> Value {
        let error: Value =
            serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {}", self.err));
        error["error"].clone()
    }

    /// The output of a run that ended well.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }
}

/// The command line, without what the environment of the test would change.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pisession"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("NO_COLOR")
        .env_remove("COLUMNS")
        .env("TERM", "xterm");
    command
}

/// Runs it with stdout and stderr piped.
pub(crate) fn pisession(arguments: &[&str]) -> Run {
    run(&mut command(arguments))
}

pub(crate) fn run(command: &mut Command) -> Run {
    let output = command.output().unwrap();
    Run {
        code: output.status.code().expect("ended by a signal"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The sample session file.
pub(crate) fn sample() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data/sample.jsonl");
    path.to_str().unwrap().to_owned()
}

/// A repository in a folder of its own.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) uri: String,
    pub(crate) repository: Repository,
    pub(crate) ctx: Context,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let uri = format!("sqlite:{}", folder.path().join("sessions").display());
        let options = RepositoryOptions { durability: Durability::Process, ..Default::default() };
        let repository = open_repository(&uri, options).unwrap();
        Self { folder, uri, repository, ctx: Context::background() }
    }

    /// A session with a `main` branch; its name on the command line.
    pub(crate) fn session(&self, id: &str) -> (Session, String) {
        let options = CreateOptions { id: Some(id.to_owned()), ..Default::default() };
        let session = self.repository.create(&options, &self.ctx).unwrap();
        session.create_branch("main", None, &self.ctx).unwrap();
        (session, format!("{}#{id}", self.uri))
    }

    /// Appends messages to `main`; their ids.
    pub(crate) fn append(&self, session: &Session, messages: &[&str]) -> Vec<String> {
        let main = session.branch("main", &self.ctx).unwrap().unwrap();
        let append = |message: &&str| main.append_message(&Json::parse(message).unwrap(), &self.ctx).unwrap();
        messages.iter().map(append).collect()
    }

    /// Inserts messages by id, parent and text, whatever branch.
    pub(crate) fn insert(&self, session: &Session, entries: &[(&str, Option<&str>, &str)]) {
        let write = |(id, parent, text): &(&str, Option<&str>, &str)| {
            Write::Entry(NewEntry::message(*id, *parent, &Json::parse(user(text)).unwrap()))
        };
        let writes: Vec<Write> = entries.iter().map(write).collect();
        session.mutate(|mutator, ctx| mutator.commit(&writes, ctx), &self.ctx).unwrap();
    }

    /// A file in the folder.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A version 3 file in which each message is the only child of the one before it.
    pub(crate) fn chain(&self, length: usize) -> String {
        let mut text = header("chain");
        for number in 0..length {
            let parent = match number {
                0 => "null".to_owned(),
                _ => format!("\"{:08x}\"", number - 1),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                r#"{{"type":"message","id":"{number:08x}","parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z","message":{}}}"#,
                user(&format!("message {number}"))
            );
        }
        self.file("chain.jsonl", text)
    }
}

/// The header line of a version 3 file.
pub(crate) fn header(id: &str) -> String {
    format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/home/ada\"}}\n"
    )
}

/// A user's message as JSON.
pub(crate) fn user(text: &str) -> String {
    format!("{{\"role\":\"user\",\"content\":{}}}", Json::string(text))
}
