//! `upgrade`: a session file of version 1 to 3 becomes one of format 4, in its place.

use std::path::PathBuf;

use clap::Args;
use pisession::{Context, Error, ErrorKind, LegacyPolicy, OpenOptions, open_file};
use serde::Serialize;

use crate::command::import::{WarningLine, print_warnings};
use crate::failure::{Failure, Verdict};
use crate::output::text::clean_line;
use crate::output::{Output, Role};

/// Rewrite a session file of version 1 to 3 as format 4, in its place
///
/// The session keeps its id and its path; the old file is kept beside it as FILE.v1.bak, FILE.v2.bak or
/// FILE.v3.bak, and no other file of that name is touched. The program that wrote the file may not be able to
/// read it any more: to go on in a copy, use import. A damaged file is refused unless --salvage is given. A file
/// of format 4 is left as it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession upgrade session.jsonl
  pisession upgrade damaged.jsonl --salvage

With --json: {\"file\", \"id\", \"upgraded\", \"backup\"?, \"warnings\": [{\"kind\", \"message\", \"line\", \"offset\"}]}. \
upgraded is false if the file was of format 4 already. Exit code 1 if there were warnings.")]
pub(super) struct Upgrade {
    /// The session file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Refuse the file at the first thing in it that is not as it should be
    #[arg(long, conflicts_with = "salvage")]
    strict: bool,

    /// Keep what can be read of a damaged file
    #[arg(long)]
    salvage: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    file: &'a str,
    id: &'a str,
    upgraded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<&'a str>,
    warnings: Vec<WarningLine>,
}

impl Upgrade {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        let options = OpenOptions {
            legacy: LegacyPolicy::Upgrade,
            salvage: self.salvage,
            strict: self.strict,
            ..OpenOptions::default()
        };
        let session = open_file(&self.file, &options, ctx).map_err(|error| self.with_way_out(error))?;
        let file = self.file.to_string_lossy();
        let legacy = session.legacy();
        let backup = legacy.and_then(|legacy| legacy.backup.as_deref()).map(|path| path.to_string_lossy());
        let report = Report {
            file: &file,
            id: session.id(),
            upgraded: legacy.is_some(),
            backup: backup.as_deref(),
            warnings: WarningLine::all(legacy.map(|legacy| &*legacy.warnings).unwrap_or_default()),
        };
        session.close(ctx)?;
        let verdict = Verdict::of(!report.warnings.is_empty());
        if out.is_json() {
            out.object(&report)?;
            return Ok(verdict);
        }
        let id = out.paint(Role::Id, &clean_line(report.id, usize::MAX));
        let file = clean_line(report.file, usize::MAX);
        match report.backup {
            Some(backup) => {
                let backup = clean_line(backup, usize::MAX);
                out.line(&format!("{id}  upgraded  {file}  the old file is {backup}"))?;
            }
            None => out.line(&format!("{id}  was of format 4 already  {file}"))?,
        }
        print_warnings(&report.warnings, report.file, out)?;
        Ok(verdict)
    }

    /// Says which option helps.
    fn with_way_out(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Corrupt if self.strict => error.with_hint("upgrade it without --strict"),
            ErrorKind::Corrupt if !self.salvage => error
                .with_hint("upgrade with --salvage what can be read; pisession doctor FILE names all damage"),
            _ => error,
        }
    }
}
