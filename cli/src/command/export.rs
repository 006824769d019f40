//! `export`: a session as a file of version 3.

use clap::Args;
use pisession::{Context, ErrorKind, ExportOptions, ExportScope};

use super::unknown_branch;
use crate::failure::{Failure, Verdict, say};
use crate::output::Output;
use crate::output::text::clean_line;
use crate::target;

/// Write a session as a session file of version 3, which coding agents open
///
/// A session that came from such a file gives its lines again, and behind them what came to it since. What
/// version 3 cannot hold is told on stderr. The file appears whole or not at all, and never over another one
/// unless --overwrite is given.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession export sqlite:sessions#ID session.jsonl
  pisession export sqlite:sessions#ID attempt.jsonl --branch attempt-2
  pisession export old-version-1.jsonl new.jsonl
  pisession export sqlite:sessions#ID - | head

With --json, the report: {\"path\"?, \"entries\", \"lines\", \"bytes\", \"losses\": [{\"kind\", \"count\", \"name\"?, \
\"namespace\"?, \"key\"?, \"entryId\"?, \"message\"}]}, on stdout, or on stderr where the session goes to stdout.")]
pub(super) struct Export {
    /// The session: URI#ID, or the path of its file
    session: String,

    /// The new file; - for stdout
    #[arg(value_name = "OUT")]
    out: String,

    /// Only the path to the tip of this branch
    #[arg(long, value_name = "NAME", conflicts_with = "tree")]
    branch: Option<String>,

    /// All entries, which is the default; the file opens at main
    #[arg(long)]
    tree: bool,

    /// Replace a file that is there
    #[arg(long)]
    overwrite: bool,
}

impl Export {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        let session = target::session(&self.session, ctx)?;
        let scope = self.branch.clone().map_or(ExportScope::Tree, ExportScope::Branch);
        let options = ExportOptions { scope, overwrite: self.overwrite };
        let is_stdout = self.out == "-";
        let exported = if is_stdout {
            session.export(out.json_stream(), &options, ctx)
        } else {
            session.export_to(&self.out, &options, ctx)
        };
        let export = match (exported, &self.branch) {
            (Err(error), Some(branch)) if error.kind() == ErrorKind::UnknownBranch => {
                return Err(unknown_branch(&session, branch, ctx)?);
            }
            (Err(error), _) if error.kind() == ErrorKind::SessionExists => {
                return Err(error.with_hint("export to another path, or with --overwrite").into());
            }
            (exported, _) => exported?,
        };
        if out.is_json() {
            let report = export.to_json();
            if is_stdout {
                out.flush()?;
                say(report.as_str());
            } else {
                out.json_line(report.as_str())?;
            }
            return Ok(Verdict::Fine);
        }
        out.flush()?;
        let entries =
            if export.entries == 1 { "1 entry".to_owned() } else { format!("{} entries", export.entries) };
        let place = if is_stdout { "stdout" } else { &self.out };
        say(&format!("{entries} in {}", clean_line(place, usize::MAX)));
        if !export.losses.is_empty() {
            say("not in the file, for version 3 cannot hold it:");
        }
        for loss in &export.losses {
            say(&format!("  {} {}", loss.kind, clean_line(&loss.message(), 400)));
        }
        Ok(Verdict::Fine)
    }
}
