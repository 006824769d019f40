//! `ls`: the sessions of a repository.

use clap::Args;
use pisession::{Context, ListOptions, SessionListing};
use serde::Serialize;

use crate::failure::{ErrorLine, Failure, Verdict};
use crate::output::text::{clean_line, columns, padded, thousands, time};
use crate::output::{Output, Role};
use crate::target::{self, Target};

/// List the sessions of a repository, newest first
///
/// A session that cannot be read is listed behind the others with its problem; doctor tells more.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession ls sqlite:sessions
  pisession ls sqlite:sessions.db --details
  pisession ls jsonl:sessions
  pisession ls sqlite:sessions --json | jq -r .id

With --json, an object on each line: {\"id\"?, \"createdAt\"?, \"modifiedAt\"?, \"format\", \"cwd\"?, \
\"parentSessionId\"?, \"path\"?, \"name\"?, \"messageCount\"?, \"problem\"?}. Times are Unix milliseconds; name \
and messageCount come with --details.")]
pub(super) struct Ls {
    /// The repository: sqlite:PATH or jsonl:PATH
    uri: String,

    /// Also name and number of messages, which cost opening each session
    #[arg(long)]
    details: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_at: Option<i64>,
    format: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ErrorLine<'a>>,
}

impl Ls {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        if let Target::Session { uri, .. } = Target::of(&self.uri) {
            return Err(Failure::usage(
                format!("'{}' names a session, and ls takes a repository", self.uri),
                format!("write pisession ls {uri}, or pisession info {}", self.uri),
            ));
        }
        let listed =
            target::existing_repository(&self.uri)?.list(&ListOptions { details: self.details }, ctx)?;
        if out.is_json() {
            for listing in &listed {
                out.object(&line(listing))?;
            }
        } else {
            self.print(&listed, out)?;
        }
        Ok(Verdict::Fine)
    }

    fn print(&self, listed: &[SessionListing], out: &mut Output) -> Result<(), Failure> {
        let id = |listing: &SessionListing| {
            clean_line(listing.metadata.as_ref().map_or("", |metadata| &metadata.id), 64)
        };
        let width = listed.iter().map(|listing| columns(&id(listing))).max().unwrap_or(0);
        for listing in listed {
            let Some(metadata) = &listing.metadata else {
                self.print_problem(listing, out)?;
                continue;
            };
            let mut columns = vec![
                out.paint(Role::Id, &padded(&id(listing), width)),
                time(metadata.created_at),
                padded(&listing.format.to_string(), 6),
            ];
            if self.details {
                let count = listing.message_count.map_or("?".to_owned(), |count| thousands(count as f64));
                columns.push(format!("{count:>7} messages"));
                columns.push(padded(&clean_line(listing.name.as_deref().unwrap_or("–"), 40), 20));
            }
            columns.push(out.paint(Role::Faint, &clean_line(metadata.cwd.as_deref().unwrap_or(""), 200)));
            out.line(columns.join("  ").trim_end())?;
            if listing.problem.is_some() {
                self.print_problem(listing, out)?;
            }
        }
        Ok(())
    }

    fn print_problem(&self, listing: &SessionListing, out: &mut Output) -> Result<(), Failure> {
        let path = listing.path.as_deref().map_or(String::new(), |path| path.display().to_string());
        let problem = listing.problem.as_ref().map_or("it cannot be read", |problem| problem.message());
        let line = format!("unreadable  {}  {}", clean_line(&path, 400), clean_line(problem, 400));
        out.line(&out.paint(Role::Problem, &line))
    }
}

fn line(listing: &SessionListing) -> Line<'_> {
    let metadata = listing.metadata.as_ref();
    Line {
        id: metadata.map(|metadata| metadata.id.as_str()),
        created_at: metadata.map(|metadata| metadata.created_at),
        modified_at: listing.modified_at,
        format: listing.format.to_string(),
        cwd: metadata.and_then(|metadata| metadata.cwd.as_deref()),
        parent_session_id: metadata.and_then(|metadata| metadata.parent_session_id.as_deref()),
        path: listing.path.as_ref().map(|path| path.to_string_lossy().into_owned()),
        name: listing.name.as_deref(),
        message_count: listing.message_count,
        problem: listing.problem.as_ref().map(ErrorLine::of),
    }
}
