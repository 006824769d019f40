//! `repair`: a sound new session of what can be read of a damaged one.

use clap::{ArgGroup, Args};
use pisession::{
    Context, ErrorKind, Repair as Repaired, RepairCounts, RepairOptions, repair_file, repair_session,
};
use serde::Serialize;

use super::finding::{self, FindingLine};
use crate::failure::{Failure, Verdict};
use crate::output::progress::Progress;
use crate::output::text::{clean_line, thousands};
use crate::output::{Output, Role};
use crate::target::{self, Target};

/// Make a sound new session of what can be read of a damaged one
///
/// The damaged session is only read. Whatever can be read of it goes into a new session: ids, seqs and times stay.
/// What is missing is named with its place: damaged lines, entries that became roots since their parents are lost,
/// branches that were put back to where they were before, labels and lanes that led nowhere and are left out.
/// --dry-run tells the same and makes nothing.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("end").required(true), after_help = "\
Examples:
  pisession repair damaged.jsonl --dry-run
  pisession repair damaged.jsonl --into sqlite:repaired
  pisession repair sqlite:sessions.db#ID --into sqlite:repaired

With --json: {\"session\"?: {\"id\", \"path\"?}, \"source\": {\"id\", \"path\"?}, \"kept\": {\"entries\", \"messages\", \
\"values\", \"elements\", \"usage\"}, \"findings\": [{\"kind\", \"message\", \"id\"?, \"line\"?, \"offset\"?, \
\"length\"?, …}]}. Exit code 1 if something was damaged.")]
pub(super) struct Repair {
    /// The damaged session: the path of its file, or URI#ID
    source: String,

    /// Tell what would be made, and make nothing
    #[arg(long, group = "end")]
    dry_run: bool,

    /// The repository of the new session: sqlite:PATH or jsonl:PATH
    #[arg(long, value_name = "URI", group = "end")]
    into: Option<String>,

    /// The id of the new session, in place of the damaged one's
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

#[derive(Serialize)]
struct Object<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<Named<'a>>,
    source: Named<'a>,
    kept: Counts,
    findings: &'a [FindingLine],
}

#[derive(Serialize)]
struct Named<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

#[derive(Serialize)]
struct Counts {
    entries: u64,
    messages: u64,
    values: u64,
    elements: u64,
    usage: u64,
}

impl<'a> Named<'a> {
    fn of(metadata: &'a pisession::SessionMetadata) -> Self {
        let path = metadata.path.as_ref().map(|path| path.to_string_lossy().into_owned());
        Self { id: &metadata.id, path }
    }
}

impl From<RepairCounts> for Counts {
    fn from(kept: RepairCounts) -> Self {
        let RepairCounts { entries, messages, values, elements, usage } = kept;
        Self { entries, messages, values, elements, usage }
    }
}

impl Repair {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        let into = self.into.as_deref().map(target::destination).transpose()?;
        let options = RepairOptions { into, id: self.id.clone(), session: None };
        let repaired = self.repair(&options, ctx)?;
        if let Some(into) = &options.into {
            into.close(ctx)?;
        }
        let path = repaired.source.path.as_deref();
        let session = Some(repaired.source.id.as_str());
        let found = repaired.findings.iter().map(|finding| FindingLine::of(finding, session, path));
        let warned = repaired.warnings.iter().map(|warning| FindingLine::of_warning(warning, session, path));
        let findings: Vec<FindingLine> = found.chain(warned).collect();
        if out.is_json() {
            out.object(&Object {
                session: repaired.session.as_ref().map(Named::of),
                source: Named::of(&repaired.source),
                kept: repaired.kept.into(),
                findings: &findings,
            })?;
        } else {
            finding::print(&findings, false, out)?;
            print(&repaired, out)?;
        }
        Ok(Verdict::of(!repaired.is_sound()))
    }

    fn repair(&self, options: &RepairOptions, ctx: &Context) -> Result<Repaired, Failure> {
        let progress = Progress::new("bytes read");
        let mut told = |bytes| progress.at(bytes);
        let repaired = match Target::of(&self.source) {
            Target::Repository(uri) => {
                return Err(Failure::usage(
                    format!("'{uri}' names a repository and no session"),
                    "repair one session after the other: by the path of its file, or as URI#ID; pisession doctor \
                     finds those that are damaged",
                ));
            }
            Target::Session { uri, id } => {
                repair_session(&target::existing_repository(&uri)?, &id, options, &mut told, ctx)
            }
            Target::File(path) => repair_file(path, options, &mut told, ctx),
        };
        repaired
            .map_err(|error| match error.kind() {
                ErrorKind::SessionExists => {
                    error.with_hint("give the new session another id with --id, or another place")
                }
                ErrorKind::AmbiguousSession => {
                    error.with_hint("name the session as sqlite:PATH#ID, or by the path of its file")
                }
                _ => error,
            })
            .map_err(target::failure)
    }
}

fn print(repaired: &Repaired, out: &mut Output) -> Result<(), Failure> {
    let kept = repaired.kept;
    let counts: Vec<String> = [
        (kept.entries, "entries"),
        (kept.values, "values"),
        (kept.elements, "list elements"),
        (kept.usage, "ledger rows"),
    ]
    .iter()
    .map(|(count, what)| format!("{} {what}", thousands(*count as f64)))
    .collect();
    let counts = counts.join(", ");
    match &repaired.session {
        None => out.line(&format!("would keep {counts}")),
        Some(session) => {
            let id = out.paint(Role::Id, &clean_line(&session.id, usize::MAX));
            let path = session.path.as_ref().map(|path| clean_line(&path.display().to_string(), usize::MAX));
            out.line(&format!("{id}  made, with {counts}  {}", path.unwrap_or_default()))
        }
    }
}
