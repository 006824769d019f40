//! The commands, a file for each.

mod compact;
mod convert;
mod doctor;
mod dump;
mod export;
mod finding;
mod fork;
mod import;
mod info;
mod log;
mod ls;
mod repair;
mod show;
mod tree;
mod upgrade;

use std::collections::HashMap;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};
use pisession::{Address, Context, Error, ErrorKind, Session, SessionReader as _};

use crate::failure::{Failure, Verdict};
use crate::output::Output;

/// Look at, check, import, upgrade, export, fork, convert and repair the sessions of AI agents.
///
/// A repository is named by a URI: jsonl:PATH (a folder with files of JSON lines), or sqlite:PATH (a folder
/// with a file per session, or a container file that holds many). A session is named as URI#ID, or by the path
/// of its file: JSON lines of version 1 to 3 or of format 4 (.jsonl), or a SQLite file that holds one session.
#[derive(Debug, Parser)]
#[command(name = "pisession", version, long_version = LONG_VERSION.as_str(), max_term_width = 100, after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// Write JSON for programs instead of text for people
    ///
    /// One JSON object; ls and log write one on each line. Errors are JSON on stderr:
    /// {"error":{"kind","number","message","hint"?,"path"?,"line"?,"offset"?,"id"?}}.
    #[arg(long, global = true)]
    json: bool,
}

/// The version, and that of the SQLite inside: whether a file can be read may hang on it.
static LONG_VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{}\nSQLite {}", env!("CARGO_PKG_VERSION"), pisession::sqlite_version()));

const EXAMPLES: &str = "\
Examples:
  pisession info ~/.pi/agent/sessions/project/session.jsonl
  pisession tree session.jsonl
  pisession log session.jsonl --limit 10
  pisession import *.jsonl --into sqlite:sessions
  pisession export sqlite:sessions#ID session.jsonl
  pisession upgrade session.jsonl
  pisession ls sqlite:sessions --details
  pisession ls jsonl:sessions
  pisession log sqlite:sessions#0199c1f2-7b6e-7cc1-9d5e-5d0f0c6b8f11
  pisession fork sqlite:sessions#0199c1f2-7b6e-7cc1-9d5e-5d0f0c6b8f11 --entry ID
  pisession doctor sqlite:sessions
  pisession repair damaged.jsonl --into sqlite:sessions
  pisession convert jsonl:sessions sqlite:sessions.db";

const EXIT_CODES: &str = "\
Exit codes:
  0    fine
  1    something was found (doctor, repair) or left out (fork), or there were warnings (import, upgrade)
  2    the arguments make no sense
  3    an error, told on stderr
  130  interrupted

Colour is used on a terminal only, and never when NO_COLOR is set.";

#[derive(Debug, Subcommand)]
enum Command {
    Ls(ls::Ls),
    Info(info::Info),
    Tree(tree::Tree),
    Log(log::Log),
    Show(show::Show),
    Dump(dump::Dump),
    Doctor(doctor::Doctor),
    Import(import::Import),
    Export(export::Export),
    Upgrade(upgrade::Upgrade),
    Fork(fork::Fork),
    Convert(convert::Convert),
    Compact(compact::Compact),
    Repair(repair::Repair),
}

impl Arguments {
    /// Whether the output is for programs.
    pub(crate) fn json(&self) -> bool {
        self.json
    }
}

/// Runs the command that `arguments` name.
pub(crate) fn run(arguments: &Arguments, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
    match &arguments.command {
        Command::Ls(ls) => ls.run(out, ctx),
        Command::Info(info) => info.run(out, ctx),
        Command::Tree(tree) => tree.run(out, ctx),
        Command::Log(log) => log.run(out, ctx),
        Command::Show(show) => show.run(out, ctx),
        Command::Dump(dump) => dump.run(out, ctx),
        Command::Doctor(doctor) => doctor.run(out, ctx),
        Command::Import(import) => import.run(out, ctx),
        Command::Export(export) => export.run(out, ctx),
        Command::Upgrade(upgrade) => upgrade.run(out, ctx),
        Command::Fork(fork) => fork.run(out, ctx),
        Command::Convert(convert) => convert.run(out, ctx),
        Command::Compact(compact) => compact.run(out, ctx),
        Command::Repair(repair) => repair.run(out, ctx),
    }
}

/// The labels of a session, by the id of their entry.
fn labels(session: &Session, ctx: &Context) -> Result<HashMap<String, String>, Failure> {
    let stored = session.scan_values(&Address::new("pi.entry.label", "")?, ctx)?;
    Ok(stored
        .into_iter()
        .filter_map(|label| {
            Some((label.address.key().to_owned(), label.value.view().to_text()?.into_owned()))
        })
        .collect())
}

/// The ids that entries have in their file where that is one of version 1 to 3, by their ids here.
fn old_ids(session: &Session) -> HashMap<String, String> {
    let ids = session.legacy().into_iter().flat_map(|legacy| legacy.ids());
    ids.map(|(old, id)| (id, old.to_owned())).collect()
}

/// The names of the branches whose tip is an entry, by the id of that entry.
fn tips(session: &Session, ctx: &Context) -> Result<HashMap<String, Vec<String>>, Failure> {
    let mut tips: HashMap<String, Vec<String>> = HashMap::new();
    for branch in session.branches(ctx)? {
        if let Some(tip) = branch.tip_id {
            tips.entry(tip).or_default().push(branch.name);
        }
    }
    Ok(tips)
}

/// The error that there is no branch `name`, with the names there are.
fn unknown_branch(session: &Session, name: &str, ctx: &Context) -> Result<Failure, Failure> {
    let names: Vec<String> = session.branches(ctx)?.into_iter().take(20).map(|branch| branch.name).collect();
    let error = Error::new(ErrorKind::UnknownBranch, format!("there is no branch '{name}'")).with_id(name);
    let hint = match names.as_slice() {
        [] => "the session has no branch; pisession tree shows what it holds".to_owned(),
        names => format!("its branches are {}", names.join(", ")),
    };
    Ok(error.with_hint(hint).into())
}
