//! `compact`: files of JSON lines again, with what is alive and nothing else.

use std::path::{Path, PathBuf};

use clap::Args;
use pisession::{
    Compaction, Context, Error, ErrorKind, Format, ListOptions, OpenMode, OpenOptions, Repository, Session,
    open_file,
};
use serde::Serialize;

use crate::failure::{ErrorLine, Failure, Verdict, people_text, say};
use crate::output::text::{clean_line, size};
use crate::output::{Output, Role};
use crate::target::{self, Target};

/// Rewrite files of JSON lines with what is alive
///
/// Overwritten values, deleted lists and the like leave the file; entries, current values, the ledger, every seq
/// and id stay. The old file stays until the new one is whole and on the disk. A session that is open elsewhere
/// is not touched. Files of version 1 to 3 are left alone: they are never rewritten. SQLite needs no compacting:
/// it uses the room of deleted rows again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession compact jsonl:sessions
  pisession compact jsonl:sessions#ID
  pisession compact sessions/--home-ada-project--/2026-01-01T00-00-00-000Z_ID.jsonl

With --json: {\"compacted\": [{\"id\", \"path\"?, \"before\", \"after\"}], \"failed\": [{\"id\"?, \"path\"?, \"error\"}]}. \
before and after are bytes. Exit code 3 if one failed.")]
pub(super) struct Compact {
    /// A repository (jsonl:PATH), a session (URI#ID), or the path of a session file
    target: String,
}

#[derive(Default)]
struct Report {
    compacted: Vec<Line>,
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Object<'a> {
    compacted: &'a [Line],
    failed: Vec<FailedLine<'a>>,
}

#[derive(Serialize)]
struct Line {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    before: u64,
    after: u64,
}

struct Failed {
    id: Option<String>,
    path: Option<PathBuf>,
    error: Error,
}

#[derive(Serialize)]
struct FailedLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    error: ErrorLine<'a>,
}

impl Compact {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        let mut report = Report::default();
        match Target::of(&self.target) {
            Target::Repository(uri) => {
                let repository = target::existing_repository(&uri)?;
                report.repository(&repository, out, ctx)?;
                repository.close(ctx)?;
            }
            Target::Session { uri, id } => {
                let session = target::existing_repository(&uri)?.open(&id, ctx)?;
                report.session(&session, out, ctx)?;
            }
            Target::File(path) => report.session(&for_writing(&path, ctx)?, out, ctx)?,
        }
        report.end(out)
    }
}

/// The session in a file of JSON lines, for writing.
fn for_writing(path: &Path, ctx: &Context) -> Result<Session, Failure> {
    let looked = open_file(path, &OpenOptions { mode: OpenMode::ReadOnly, ..Default::default() }, ctx)?;
    if looked.legacy().is_some() {
        let error = Error::new(ErrorKind::LegacyReadOnly, "files of version 1 to 3 are never rewritten");
        return Err(error.with_path(path).with_hint("import it, and compact the new session").into());
    }
    // The path as the repository has it: the lock lies beside it.
    let path = std::path::absolute(path).map_err(|error| Error::io("cannot find the file", error))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let repository = target::repository(&format!("jsonl:{}", folder.display()))?;
    let metadata = pisession::SessionMetadata { path: Some(path.clone()), ..looked.metadata().clone() };
    Ok(repository.open(&metadata, ctx)?)
}

impl Report {
    /// Every session of a repository. One that fails does not stop the others.
    fn repository(
        &mut self,
        repository: &Repository,
        out: &mut Output,
        ctx: &Context,
    ) -> Result<(), Failure> {
        for listing in repository.list(&ListOptions::default(), ctx)? {
            let (metadata, path) = (listing.metadata, listing.path);
            if matches!(listing.format, Format::Jsonl(1..=3)) {
                continue;
            }
            let outcome = match (&metadata, listing.problem) {
                (_, Some(problem)) => Err(problem),
                (None, None) => continue,
                (Some(metadata), None) => repository.open(metadata, ctx).and_then(|session| {
                    let compaction = session.compact(ctx)?;
                    session.close(ctx)?;
                    Ok(compaction)
                }),
            };
            let id = metadata.map(|metadata| metadata.id);
            match outcome {
                Ok(compaction) => self.add(&id.unwrap_or_default(), path.as_deref(), compaction, out)?,
                // What holds for one holds for all.
                Err(error) if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Unsupported) => {
                    return Err(error.into());
                }
                Err(error) => {
                    if !out.is_json() {
                        out.flush()?;
                        let name = id.as_deref().map_or_else(String::new, |id| clean_line(id, usize::MAX));
                        say(&format!("{name}: {}", people_text(&error)));
                    }
                    self.failed.push(Failed { id, path, error });
                }
            }
        }
        Ok(())
    }

    fn session(&mut self, session: &Session, out: &mut Output, ctx: &Context) -> Result<(), Failure> {
        let compaction = session.compact(ctx)?;
        session.close(ctx)?;
        self.add(session.id(), session.metadata().path.as_deref(), compaction, out)
    }

    fn add(
        &mut self,
        id: &str,
        path: Option<&Path>,
        compaction: Compaction,
        out: &mut Output,
    ) -> Result<(), Failure> {
        if !out.is_json() {
            let id = out.paint(Role::Id, &clean_line(id, usize::MAX));
            out.line(&format!("{id}  {} → {}", bytes(compaction.before), bytes(compaction.after)))?;
        }
        self.compacted.push(Line {
            id: id.to_owned(),
            path: path.map(|path| path.to_string_lossy().into_owned()),
            before: compaction.before,
            after: compaction.after,
        });
        Ok(())
    }

    fn end(&self, out: &mut Output) -> Result<Verdict, Failure> {
        let count = self.compacted.len();
        if out.is_json() {
            let failed = self.failed.iter().map(|failed| FailedLine {
                id: failed.id.as_deref(),
                path: failed.path.as_ref().map(|path| path.to_string_lossy().into_owned()),
                error: ErrorLine::of(&failed.error),
            });
            out.object(&Object { compacted: &self.compacted, failed: failed.collect() })?;
        } else if count != 1 || !self.failed.is_empty() {
            let sum = |of: fn(&Line) -> u64| bytes(self.compacted.iter().map(of).sum());
            let (before, after) = (sum(|line| line.before), sum(|line| line.after));
            out.line(&format!("{count} sessions compacted, {before} → {after}"))?;
        }
        let Some(first) = self.failed.first() else { return Ok(Verdict::Fine) };
        let all = count + self.failed.len();
        let message = format!("{} of {all} sessions were not compacted", self.failed.len());
        Err(Error::new(first.error.kind(), message).into())
    }
}

fn bytes(count: u64) -> String {
    size(usize::try_from(count).unwrap_or(usize::MAX))
}
