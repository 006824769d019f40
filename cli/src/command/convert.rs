//! `convert`: sessions as they are, in another repository.

use std::path::PathBuf;

use clap::Args;
use pisession::{
    Context, Conversion, Converted, Error, ErrorKind, OpenMode, OpenOptions, Repository, Session,
    convert_repository, convert_session,
};
use serde::Serialize;

use crate::failure::{ErrorLine, Failure, Verdict, people_text, say};
use crate::output::progress::Progress;
use crate::output::text::clean_line;
use crate::output::{Output, Role};
use crate::target::{self, Target};

/// Copy sessions into another repository as they are
///
/// Everything is kept: entries, values, lists, ledger, ids, seqs, times, and what a session says of itself. Files of
/// version 1 to 3 are imported. The sources are only read, also while they are in use elsewhere: then as they are at
/// that moment. A session appears in its new place whole or not at all, so that a conversion that was cut off goes on
/// with what is missing when it is run again. What is there already and is the same is left as it is; what is there
/// and is something else is an error, and the other sessions go on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession convert jsonl:sessions sqlite:sessions.db
  pisession convert sqlite:sessions.db#ID jsonl:elsewhere
  pisession convert session.jsonl sqlite:sessions

With --json: {\"converted\": [{\"id\", \"from\"?, \"to\"?, \"made\"}], \"failed\": [{\"id\"?, \"from\"?, \"error\"}]}. made \
is false for what was there already. Exit code 3 if one failed.")]
pub(super) struct Convert {
    /// A repository (URI), a session (URI#ID), or the path of a session file
    from: String,

    /// The repository to copy into: sqlite:PATH or jsonl:PATH
    to: String,
}

#[derive(Default)]
struct Report {
    converted: Vec<Line>,
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Object<'a> {
    converted: &'a [Line],
    failed: Vec<FailedLine<'a>>,
}

#[derive(Serialize)]
struct Line {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    made: bool,
}

struct Failed {
    id: Option<String>,
    from: Option<String>,
    error: Error,
}

#[derive(Serialize)]
struct FailedLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    error: ErrorLine<'a>,
}

impl Convert {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        let mut report = Report::default();
        match Target::of(&self.from) {
            Target::Repository(uri) => {
                let from = target::existing_repository(&uri)?;
                let into = target::destination(&self.to)?;
                report.repository(&from, &into, out, ctx)?;
                into.close(ctx)?;
            }
            Target::Session { uri, id } => {
                let from = target::existing_repository(&uri)?;
                let options = OpenOptions { mode: OpenMode::ReadOnly, ..OpenOptions::default() };
                let session = from.open_with(&id, &options, ctx)?;
                report.session(&session, &target::destination(&self.to)?, out, ctx)?;
            }
            Target::File(path) => {
                let opened = target::file(&path, ctx).map_err(target::failure)?;
                report.session(&opened.session, &target::destination(&self.to)?, out, ctx)?;
            }
        }
        report.end(out)
    }
}

impl Report {
    fn repository(
        &mut self,
        from: &Repository,
        into: &Repository,
        out: &mut Output,
        ctx: &Context,
    ) -> Result<(), Failure> {
        let progress = Progress::new("sessions");
        let mut done = 0;
        let mut unsaid = Ok(());
        let mut told = |converted: &Converted, all: usize| {
            done += 1;
            progress.of(done, all as u64);
            if unsaid.is_ok() {
                unsaid = progress.around(|| self.add(converted, out));
            }
        };
        convert_repository(from, into, &mut |_| progress.tick(), &mut told, ctx)?;
        unsaid
    }

    fn session(
        &mut self,
        session: &Session,
        into: &Repository,
        out: &mut Output,
        ctx: &Context,
    ) -> Result<(), Failure> {
        let progress = Progress::new("records copied");
        let conversion =
            convert_session(session, into, &mut |count| progress.at(count), ctx).map_err(with_way_out)?;
        drop(progress);
        into.close(ctx)?;
        self.converted(&conversion, session.metadata().path.clone(), out)
    }

    fn add(&mut self, converted: &Converted, out: &mut Output) -> Result<(), Failure> {
        let from = &converted.source.path;
        let error = match &converted.outcome {
            Ok(conversion) => return self.converted(conversion, from.clone(), out),
            Err(error) => with_way_out(error.clone()),
        };
        let id = converted.source.metadata.as_ref().map(|metadata| metadata.id.clone());
        let from = from.as_ref().map(|path| path.to_string_lossy().into_owned());
        if !out.is_json() {
            out.flush()?;
            let name = id.as_deref().or(from.as_deref()).unwrap_or_default();
            say(&format!("{}: {}", clean_line(name, usize::MAX), people_text(&error)));
        }
        self.failed.push(Failed { id, from, error });
        Ok(())
    }

    fn converted(
        &mut self,
        conversion: &Conversion,
        from: Option<PathBuf>,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let line = Line {
            id: conversion.session.id.clone(),
            from: from.as_ref().map(text),
            to: conversion.session.path.as_ref().map(text),
            made: conversion.made,
        };
        if !out.is_json() {
            let id = out.paint(Role::Id, &clean_line(&line.id, usize::MAX));
            let what = if line.made { "converted" } else { "was there already" };
            let to = clean_line(line.to.as_deref().unwrap_or_default(), usize::MAX);
            out.line(format!("{id}  {what}  {to}").trim_end())?;
        }
        self.converted.push(line);
        Ok(())
    }

    fn end(&self, out: &mut Output) -> Result<Verdict, Failure> {
        let all = self.converted.len() + self.failed.len();
        if out.is_json() {
            let failed = self.failed.iter().map(|failed| FailedLine {
                id: failed.id.as_deref(),
                from: failed.from.as_deref(),
                error: ErrorLine::of(&failed.error),
            });
            out.object(&Object { converted: &self.converted, failed: failed.collect() })?;
        } else if all != 1 {
            let made = self.converted.iter().filter(|line| line.made).count();
            let there = self.converted.len() - made;
            out.line(&format!("{made} of {all} sessions converted, {there} were there already"))?;
        }
        let Some(first) = self.failed.first() else { return Ok(Verdict::Fine) };
        let message = format!("{} of {all} sessions were not converted", self.failed.len());
        Err(Error::new(first.error.kind(), message).into())
    }
}

/// Says which command helps.
fn with_way_out(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corrupt => {
            error.with_hint("pisession repair makes a new session of what can be read of it, anywhere")
        }
        _ => error,
    }
}
