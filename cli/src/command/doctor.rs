//! `doctor`: names what is wrong with a session, a file, or every session of a repository. Repairs nothing.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use clap::Args;
use pisession::{
    CheckDepth, CheckOptions, Context, Error, ErrorKind, FileCheck, Finding, ListOptions, OpenMode,
    OpenOptions, Repository, Session, SessionListing,
};
use serde::Serialize;

use super::finding::{self, FindingLine};
use crate::failure::{Failure, Verdict};
use crate::output::Output;
use crate::output::progress::Progress;
use crate::target::{self, Target};

/// Look for damage, and name it; never repair
///
/// Opens the session, or each one of a repository, reads everything structural and names what it finds: what
/// cannot be read, each damaged line, damage of the database file, a torn tail, warnings of files of version 1 to
/// 3, branch tips and labels of nothing, incomplete lanes, imports that were cut off, files that hold one session
/// twice. pisession repair makes a sound session of what can be read.
/// Exit code 0 if nothing was found, 1 if something was.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession doctor session.jsonl
  pisession doctor sqlite:sessions --full
  pisession doctor sqlite:sessions#ID --json | jq -r '.findings[].kind'

With --json: {\"sessions\": how many were looked at, \"findings\": [{\"kind\", \"message\", \"hint\"?, \"session\"?, \"id\"?, \
\"path\"?, \"line\"?, \"offset\"?, \"length\"?, \"error\"?}]}. error is the kind of the error that a read ended with.")]
pub(super) struct Doctor {
    /// A repository (URI), a session (URI#ID), or the path of a session file
    target: String,

    /// Also hold what was read against each other and against the file
    ///
    /// Every line of a file of JSON lines is read again; of a SQLite file indexes are held against their tables,
    /// and places in the tree against each other. Every seq is there once, every id too. It takes longer.
    #[arg(long)]
    full: bool,
}

#[derive(Serialize)]
struct Report {
    sessions: u64,
    findings: Vec<FindingLine>,
    #[serde(skip)]
    depth: CheckDepth,
    /// The files that were looked at: a container is one for all its sessions.
    #[serde(skip)]
    files: HashSet<PathBuf>,
}

impl Doctor {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        let depth = if self.full { CheckDepth::Full } else { CheckDepth::Quick };
        let mut report = Report { sessions: 0, findings: Vec::new(), depth, files: HashSet::new() };
        match Target::of(&self.target) {
            Target::Repository(uri) => report.look_at_repository(&target::existing_repository(&uri)?, ctx)?,
            Target::Session { uri, id } => {
                let repository = target::existing_repository(&uri)?;
                let opened = target::in_repository_with(&repository, &uri, &id, true, ctx);
                report.look_at(opened, Some(&id), None, ctx)?;
            }
            Target::File(path) => {
                let opened = target::file_with(&path, true, ctx).map(|opened| opened.session);
                report.look_at(opened, None, Some(&path), ctx)?;
            }
        }
        report.print(out)?;
        Ok(Verdict::of(!report.findings.is_empty()))
    }
}

impl Report {
    fn look_at_repository(&mut self, repository: &Repository, ctx: &Context) -> Result<(), Failure> {
        let listed = repository.list(&ListOptions::default(), ctx)?;
        self.findings.extend(same_ids(&listed));
        for listing in listed {
            let path = listing.path.as_deref();
            match (&listing.metadata, listing.problem) {
                (_, Some(problem)) => {
                    let id = listing.metadata.as_ref().map(|metadata| metadata.id.as_str());
                    self.sessions += 1;
                    self.findings.push(FindingLine::of(&Finding::unreadable(problem), id, path));
                }
                (Some(metadata), None) => {
                    let past_damage =
                        OpenOptions { mode: OpenMode::ReadOnly, salvage: true, ..OpenOptions::default() };
                    let opened = repository.open_with(metadata, &past_damage, ctx);
                    self.look_at(opened, Some(&metadata.id), path, ctx)?;
                }
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Looks at one session. That it cannot be opened is a finding, that it is not there an error.
    fn look_at(
        &mut self,
        opened: pisession::Result<Session>,
        id: Option<&str>,
        path: Option<&Path>,
        ctx: &Context,
    ) -> Result<(), Failure> {
        let session = match opened {
            Ok(session) => session,
            Err(error) if is_finding(&error) => {
                self.sessions += 1;
                let hint =
                    error.hint().filter(|_| error.kind() == ErrorKind::AmbiguousSession).map(str::to_owned);
                let finding = Finding { hint, ..Finding::unreadable(error) };
                self.findings.push(FindingLine::of(&finding, id, path));
                return Ok(());
            }
            Err(error) => return Err(target::failure(error)),
        };
        self.sessions += 1;
        let path = session.metadata().path.as_deref().or(path);
        for warning in session.legacy().map(|legacy| legacy.warnings.as_slice()).unwrap_or_default() {
            self.findings.push(FindingLine::of_warning(warning, Some(session.id()), path));
        }
        let progress = Progress::new("entries read");
        let is_new = path.is_none_or(|path| self.files.insert(path.to_owned()));
        let file = if is_new { FileCheck::Look } else { FileCheck::Skip };
        let options = CheckOptions { depth: self.depth, file };
        let findings = session.check_with(&options, &mut |count| progress.at(count), ctx)?;
        self.findings
            .extend(findings.iter().map(|finding| FindingLine::of(finding, Some(session.id()), path)));
        Ok(())
    }

    fn print(&self, out: &mut Output) -> Result<(), Failure> {
        if out.is_json() {
            return out.object(self);
        }
        finding::print(&self.findings, self.sessions > 1, out)?;
        let sessions = match self.sessions {
            1 => "1 session".to_owned(),
            count => format!("{count} sessions"),
        };
        match self.findings.len() {
            0 => out.line(&format!("{sessions} looked at, nothing found")),
            1 => out.line(&format!("{sessions} looked at, 1 finding")),
            count => out.line(&format!("{sessions} looked at, {count} findings")),
        }
    }
}

/// The ids that several files hold.
fn same_ids(listed: &[SessionListing]) -> impl Iterator<Item = FindingLine> {
    let mut files: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for listing in listed {
        if let (Some(metadata), Some(path)) = (&listing.metadata, &listing.path) {
            files.entry(&metadata.id).or_default().push(path);
        }
    }
    let same = files.into_iter().filter(|(_, paths)| paths.len() > 1);
    same.map(|(id, paths)| FindingLine::of(&Finding::same_id(id, &paths), Some(id), None))
}

/// Whether an error of opening says that something is wrong with the session, and not with the call.
fn is_finding(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Corrupt
            | ErrorKind::NotASession
            | ErrorKind::UnsupportedVersion
            | ErrorKind::AmbiguousSession
            | ErrorKind::FileChanged
            | ErrorKind::StorageFault
            | ErrorKind::InvalidJson
    )
}
