//! `import`: session files of version 1 to 3 become sessions of a repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use pisession::{Context, Error, ErrorKind, ImportOptions, Repository, Warning, import_file};
use serde::Serialize;

use crate::failure::{ErrorLine, Failure, Verdict, people_text, say};
use crate::output::progress::Progress;
use crate::output::text::clean_line;
use crate::output::{Output, Role};
use crate::target;

/// How many warnings of a file are printed for people.
const WARNINGS: usize = 20;

/// Import session files of version 1 to 3 into a repository
///
/// The files are never written. Nothing of them is lost: what has no place in the new session is kept beside
/// it. Importing a file again, or an older state of it, adds nothing. A damaged file is refused unless
/// --salvage is given. With several files, one that fails does not stop the others. A file of format 4 needs no
/// import: it is a session of the jsonl: repository in whose folder it lies.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession import session.jsonl --into sqlite:sessions
  pisession import ~/.pi/agent/sessions/*/*.jsonl --into sqlite:sessions.db
  pisession import session.jsonl --into sqlite:sessions --id another-id

With --json: {\"imported\": [{\"file\", \"id\", \"added\", \"warnings\": [{\"kind\", \"message\", \"line\", \"offset\"}]}], \
\"failed\": [{\"file\", \"error\"}]}. added is false if the session was there already. Exit code 1 if there were \
warnings, 3 if a file failed.")]
pub(super) struct Import {
    /// The session files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The repository: sqlite:PATH or jsonl:PATH
    #[arg(long, value_name = "URI")]
    into: String,

    /// The id of the new session, in place of the file's; for one file only
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// Refuse a file at the first thing in it that is not as it should be
    #[arg(long, conflicts_with = "salvage")]
    strict: bool,

    /// Import what can be read of a damaged file
    #[arg(long)]
    salvage: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    imported: Vec<Imported>,
    failed: Vec<Failed<'a>>,
}

#[derive(Serialize)]
struct Imported {
    file: String,
    id: String,
    added: bool,
    warnings: Vec<WarningLine>,
}

#[derive(Serialize)]
pub(super) struct WarningLine {
    kind: &'static str,
    message: String,
    line: u64,
    offset: u64,
}

impl WarningLine {
    pub(super) fn all(warnings: &[Warning]) -> Vec<Self> {
        let line = |warning: &Warning| Self {
            kind: warning.kind.name(),
            message: warning.message(),
            line: warning.line,
            offset: warning.offset,
        };
        warnings.iter().map(line).collect()
    }
}

#[derive(Serialize)]
struct Failed<'a> {
    file: String,
    error: ErrorLine<'a>,
}

impl Import {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        if self.id.is_some() && self.files.len() > 1 {
            return Err(Failure::usage(
                "--id names one session and there are several files",
                "import them one by one, or without --id",
            ));
        }
        let repository = target::destination(&self.into)?;
        let mut imported = Vec::new();
        let mut failed: Vec<(String, Error)> = Vec::new();
        for file in &self.files {
            let name = file.to_string_lossy().into_owned();
            match self.import(file, &name, &repository, ctx) {
                Ok(one) => {
                    if !out.is_json() {
                        print(&one, out)?;
                    }
                    imported.push(one);
                }
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error.into()),
                Err(error) if self.files.len() == 1 => return Err(error.into()),
                Err(error) => {
                    if !out.is_json() {
                        // What was imported stands before it.
                        out.flush()?;
                        say(&format!("{}: {}", clean_line(&name, usize::MAX), people_text(&error)));
                    }
                    failed.push((name, error));
                }
            }
        }
        repository.close(ctx)?;
        let warned = imported.iter().any(|one| !one.warnings.is_empty());
        if out.is_json() {
            let failed =
                failed.iter().map(|(file, error)| Failed { file: file.clone(), error: ErrorLine::of(error) });
            out.object(&Report { imported, failed: failed.collect() })?;
        }
        if let Some((_, first)) = failed.first() {
            let message = format!("{} of {} files were not imported", failed.len(), self.files.len());
            return Err(Error::new(first.kind(), message).into());
        }
        Ok(Verdict::of(warned))
    }

    fn import(
        &self,
        file: &Path,
        name: &str,
        repository: &Repository,
        ctx: &Context,
    ) -> pisession::Result<Imported> {
        let progress = Progress::new("imported");
        let options = ImportOptions {
            strict: self.strict,
            salvage: self.salvage,
            id: self.id.clone(),
            progress: Some(Arc::new(move |done, all| progress.part(done, all))),
        };
        let import =
            import_file(file, repository, &options, ctx).map_err(|error| self.with_way_out(error))?;
        let warnings = WarningLine::all(import.warnings());
        Ok(Imported { file: name.to_owned(), id: import.session.id, added: import.added, warnings })
    }
}

impl Import {
    /// Says which option helps.
    fn with_way_out(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Corrupt if self.strict => error.with_hint("import it without --strict"),
            ErrorKind::Corrupt if !self.salvage => error
                .with_hint("import with --salvage what can be read; pisession doctor FILE names all damage"),
            ErrorKind::SessionExists if self.id.is_none() => error.with_hint("import it with another --id"),
            ErrorKind::InvalidId if self.id.is_none() => error
                .with_hint("the file's own id cannot be used here: give the session another one with --id"),
            _ => error,
        }
    }
}

fn print(one: &Imported, out: &mut Output) -> Result<(), Failure> {
    let id = out.paint(Role::Id, &clean_line(&one.id, usize::MAX));
    let what = if one.added { "imported" } else { "was there already" };
    out.line(&format!("{id}  {what}  {}", clean_line(&one.file, usize::MAX)))?;
    print_warnings(&one.warnings, &one.file, out)
}

/// The first warnings, and how many of each kind there are more.
pub(super) fn print_warnings(warnings: &[WarningLine], file: &str, out: &mut Output) -> Result<(), Failure> {
    for warning in warnings.iter().take(WARNINGS) {
        let line = format!("  {} line {}: {}", warning.kind, warning.line, clean_line(&warning.message, 400));
        out.line(&out.paint(Role::Problem, &line))?;
    }
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for warning in warnings.iter().skip(WARNINGS) {
        *kinds.entry(warning.kind).or_default() += 1;
    }
    if !kinds.is_empty() {
        let counts: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let file = clean_line(file, usize::MAX);
        let line = format!("  and more: {}; pisession doctor {file} names all", counts.join(", "));
        out.line(&out.paint(Role::Problem, &line))?;
    }
    Ok(())
}
