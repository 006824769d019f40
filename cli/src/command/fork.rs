//! `fork`: a new session that goes on from a point of another one.

use clap::Args;
use pisession::{Context, ErrorKind, ForkOptions, ForkPoint, ForkPosition, ForkScope, SessionReader as _};
use serde::Serialize;

use super::unknown_branch;
use crate::failure::{Failure, Verdict};
use crate::output::text::clean_line;
use crate::output::{Output, Role};
use crate::target::{self, Target};

/// Make a new session that goes on from a point of another one
///
/// The session is read as it is now, whoever has it open; nothing of it is changed. Without --tree the new
/// session has one branch, the path to --entry or to the tip of --branch, with the labels of its entries and the
/// name. With --tree it has all entries and branches, and what applications keep beside them. Lanes are idle, and
/// the ledger starts empty.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession fork sqlite:sessions#0199c1f2-7b6e-7cc1-9d5e-5d0f0c6b8f11
  pisession fork sqlite:sessions#ID --branch main --entry ENTRY --before
  pisession fork session.jsonl --tree --into sqlite:sessions

With --json: {\"id\", \"parentSessionId\", \"path\"?, \"messageCount\", \"leftOut\": [LANE]}. Exit code 1 if the \
configuration of a lane was left out, since the session holds it by half.")]
pub(super) struct Fork {
    /// The session: URI#ID, or the path of its file
    session: String,

    /// The branch whose path is taken; without --entry and --branch it is main
    #[arg(long, value_name = "NAME", conflicts_with = "tree")]
    branch: Option<String>,

    /// The entry at which the path ends, in place of the branch's tip
    #[arg(long, value_name = "ID", conflicts_with = "tree")]
    entry: Option<String>,

    /// End the path before that entry
    #[arg(long, conflicts_with = "tree")]
    before: bool,

    /// Take all entries and branches
    #[arg(long)]
    tree: bool,

    /// The id of the new session
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// The repository of the new session; without it, the one the session is in
    #[arg(long, value_name = "URI")]
    into: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    id: &'a str,
    parent_session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    message_count: u64,
    left_out: &'a [String],
}

impl Fork {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        let uri = self.destination()?;
        let source = target::opened(&self.session, ctx)?;
        let repository = target::repository(&uri)?;
        let forked = repository.fork(&source.session, &self.options(), ctx);
        let fork = match (forked, &self.branch) {
            (Err(error), name) if error.kind() == ErrorKind::UnknownBranch => {
                let name = name.as_deref().unwrap_or("main");
                return Err(unknown_branch(&source.session, name, ctx)?);
            }
            (forked, _) => forked?,
        };
        let metadata = fork.session.metadata();
        let report = Report {
            id: &metadata.id,
            parent_session_id: metadata.parent_session_id.as_deref(),
            path: metadata.path.as_ref().map(|path| path.to_string_lossy().into_owned()),
            message_count: fork.session.stats(ctx)?.message_count,
            left_out: &fork.left_out,
        };
        fork.session.close(ctx)?;
        repository.close(ctx)?;
        if out.is_json() {
            out.object(&report)?;
        } else {
            print(&report, out)?;
        }
        Ok(Verdict::of(!fork.left_out.is_empty()))
    }

    fn options(&self) -> ForkOptions {
        let position = if self.before { ForkPosition::Before } else { ForkPosition::At };
        let point = ForkPoint { branch: self.branch.clone(), entry: self.entry.clone(), position };
        let scope = if self.tree { ForkScope::Tree } else { ForkScope::Branch(point) };
        ForkOptions { scope, id: self.id.clone(), cwd: None }
    }

    /// The URI of the repository of the new session.
    fn destination(&self) -> Result<String, Failure> {
        let into = match (&self.into, Target::of(&self.session)) {
            (Some(into), _) => Target::of(into),
            (None, Target::Session { uri, .. }) => Target::Repository(uri),
            (None, _) => {
                return Err(Failure::usage(
                    "a session file does not say where the new session goes",
                    "write --into sqlite:PATH or --into jsonl:PATH",
                ));
            }
        };
        match into {
            Target::Repository(uri) if uri.starts_with("memory:") => Err(Failure::usage(
                "what is forked into memory is gone when the command ends",
                "write --into sqlite:PATH or --into jsonl:PATH",
            )),
            Target::Repository(uri) => Ok(uri),
            _ => Err(Failure::usage(
                format!("'{}' names no repository", self.into.as_deref().unwrap_or_default()),
                "write --into sqlite:PATH or --into jsonl:PATH",
            )),
        }
    }
}

fn print(report: &Report<'_>, out: &mut Output) -> Result<(), Failure> {
    let id = out.paint(Role::Id, &clean_line(report.id, usize::MAX));
    let parent = clean_line(report.parent_session_id.unwrap_or_default(), usize::MAX);
    let messages = match report.message_count {
        1 => "1 message".to_owned(),
        count => format!("{count} messages"),
    };
    out.line(&format!("{id}  forked from {parent}  {messages}"))?;
    for lane in report.left_out {
        let line = format!("  the lane '{}' is there by half: left out", clean_line(lane, 400));
        out.line(&out.paint(Role::Problem, &line))?;
    }
    Ok(())
}
