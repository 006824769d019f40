//! `log`: a branch as a transcript.

use clap::Args;
use pisession::{BranchScan, Context, PathOrder};

use super::{labels, old_ids, unknown_branch};
use crate::failure::{Failure, Verdict};
use crate::output::Output;
use crate::target;
use crate::transcript::{self, Extent};

/// Print a branch as a transcript, oldest entry first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession log session.jsonl
  pisession log session.jsonl --limit 5 --full
  pisession log sqlite:sessions#ID --branch attempt-2
  pisession log session.jsonl --json | jq -r .type

With --json, an entry on each line, as it is stored: {\"id\", \"parentId\", \"type\", \"customType\"?, …payload, \
\"seq\", \"timestamp\"}.")]
pub(super) struct Log {
    /// The session: URI#ID, or the path of its file
    session: String,

    /// The branch
    #[arg(long, default_value = "main", value_name = "NAME")]
    branch: String,

    /// Only the newest N entries
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Thinking, tool calls and results whole
    #[arg(long)]
    full: bool,
}

impl Log {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        let session = target::session(&self.session, ctx)?;
        let Some(branch) = session.branch(&self.branch, ctx)? else {
            return Err(unknown_branch(&session, &self.branch, ctx)?);
        };
        let mut scan = BranchScan { order: PathOrder::OldestFirst, ..BranchScan::default() };
        if let Some(limit) = self.limit {
            // The cursor is exclusive: it is the entry before the first one that is wanted.
            let newest = BranchScan { limit: Some(limit.saturating_add(1)), ..BranchScan::default() };
            let Some(tip) = branch.tip_id(ctx)? else { return Ok(Verdict::Fine) };
            let structure = pisession::SessionReader::scan_branch_structure(&session, &tip, &newest, ctx)?;
            if structure.len() as u64 > limit {
                scan.cursor = structure.last().map(|entry| entry.seq);
            }
            scan.limit = Some(limit);
        }
        let labels = labels(&session, ctx)?;
        let old_ids = old_ids(&session);
        let extent = if self.full { Extent::Full } else { Extent::Brief };
        for entry in branch.entries(&scan, ctx)? {
            let entry = entry?;
            ctx.check()?;
            if out.is_json() {
                out.json_line(entry.to_json().as_str())?;
            } else {
                let id = old_ids.get(&entry.id).unwrap_or(&entry.id);
                transcript::print(&entry, id, labels.get(&entry.id).map(String::as_str), extent, out)?;
            }
        }
        Ok(Verdict::Fine)
    }
}
