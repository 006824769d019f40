//! `info`: what a session is, in one screen.

use clap::Args;
use pisession::{CheckDepth, CheckOptions, Context, Session, SessionReader as _};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::failure::{Failure, Verdict};
use crate::output::text::{clean_line, thousands, time};
use crate::output::{Output, Role};
use crate::target::{self, Opened};

/// Print what a session is: metadata, format, totals, branches, health in brief
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession info session.jsonl
  pisession info sqlite:sessions#ID --json | jq .usage.cost.total

With --json: {\"id\", \"name\"?, \"createdAt\", \"modifiedAt\"?, \"format\", \"storageVersion\", \"cwd\"?, \
\"parentSessionId\"?, \"legacyParentSessionPath\"?, \"path\"?, \"messageCount\", \"usage\", \"nextSeq\", \
\"branches\": [{\"name\", \"tipId\"}], \"findings\": […]}. findings name what a look without reading every entry \
found; doctor reads all.")]
pub(super) struct Info {
    /// The session: URI#ID, or the path of its file
    session: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_at: Option<i64>,
    format: String,
    storage_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    legacy_parent_session_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    message_count: u64,
    usage: Box<RawValue>,
    next_seq: u64,
    branches: Vec<BranchLine>,
    findings: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BranchLine {
    name: String,
    tip_id: Option<String>,
}

impl Info {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        let Opened { session, format, modified_at, .. } = &target::opened(&self.session, ctx)?;
        let metadata = session.metadata();
        let stats = session.stats(ctx)?;
        let branches = session.branches(ctx)?;
        let name = session.name(ctx)?;
        let findings = brief_health(session, ctx)?;
        let path = metadata.path.as_ref().map(|path| path.to_string_lossy().into_owned());
        if out.is_json() {
            out.object(&Object {
                id: &metadata.id,
                name,
                created_at: metadata.created_at,
                modified_at: *modified_at,
                format: format.to_string(),
                storage_version: metadata.storage_version,
                cwd: metadata.cwd.as_deref(),
                parent_session_id: metadata.parent_session_id.as_deref(),
                legacy_parent_session_path: metadata.legacy_parent_session_path.as_deref(),
                path,
                message_count: stats.message_count,
                usage: crate::output::raw(&stats.usage.to_json())?,
                next_seq: session.next_seq(ctx)?,
                branches: branches
                    .into_iter()
                    .map(|branch| BranchLine { name: branch.name, tip_id: branch.tip_id })
                    .collect(),
                findings,
            })?;
            return Ok(Verdict::Fine);
        }
        out.field("id", &clean_line(&metadata.id, usize::MAX))?;
        let texts = [
            ("name", name.as_deref()),
            ("path", path.as_deref()),
            ("cwd", metadata.cwd.as_deref()),
            ("parent", metadata.parent_session_id.as_deref()),
            ("parent", metadata.legacy_parent_session_path.as_deref()),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                out.field(name, &clean_line(text, usize::MAX))?;
            }
        }
        out.field("created", &time(metadata.created_at))?;
        if let Some(modified_at) = modified_at {
            out.field("modified", &time(*modified_at))?;
        }
        out.field("format", &format.to_string())?;
        out.field("messages", &thousands(stats.message_count as f64))?;
        let usage = &stats.usage;
        let tokens = format!(
            "{} ({} in, {} out, {} read from and {} written to the cache)",
            thousands(usage.total_tokens),
            thousands(usage.input),
            thousands(usage.output),
            thousands(usage.cache_read),
            thousands(usage.cache_write),
        );
        out.field("tokens", &tokens)?;
        out.field("cost", &format!("{:.4}", usage.cost.total))?;
        for (at, branch) in branches.iter().enumerate() {
            let tip = branch.tip_id.as_deref().unwrap_or("empty");
            let name = out.paint(Role::Tip, &clean_line(&branch.name, 60));
            let line = format!("{name} at {}", clean_line(tip, usize::MAX));
            out.field(if at == 0 { "branches" } else { "" }, &line)?;
        }
        match findings.as_slice() {
            [] => out.field("health", "nothing found (pisession doctor reads everything)")?,
            findings => {
                for (at, finding) in findings.iter().enumerate() {
                    let line = out.paint(Role::Problem, &clean_line(finding, 400));
                    out.field(if at == 0 { "health" } else { "" }, &line)?;
                }
            }
        }
        Ok(Verdict::Fine)
    }
}

/// What can be found without reading every entry: how many warnings of which kind the reader of an old file
/// had, and what a brief check of the session finds.
fn brief_health(session: &Session, ctx: &Context) -> Result<Vec<String>, Failure> {
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for warning in session.legacy().map(|legacy| legacy.warnings.as_slice()).unwrap_or_default() {
        match kinds.iter_mut().find(|(kind, _)| *kind == warning.kind.name()) {
            Some((_, count)) => *count += 1,
            None => kinds.push((warning.kind.name(), 1)),
        }
    }
    let mut findings: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    let options = CheckOptions { depth: CheckDepth::Brief, ..CheckOptions::default() };
    for finding in session.check_with(&options, &mut |_| (), ctx)? {
        findings.push(format!("{}: {}", finding.kind.name(), finding.message));
    }
    Ok(findings)
}
