//! `dump`: everything a session holds, as canonical JSON.

use clap::Args;
use pisession::Context;

use crate::failure::{Failure, Verdict};
use crate::output::Output;
use crate::target;

/// Write everything a session holds as canonical JSON
///
/// One object, one line for each item: metadata, name, branches, entries, values, lists, usage, stats,
/// nextSeq. Two sessions that hold the same give the same text, whatever keeps them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession dump session.jsonl > session.json
  diff <(pisession dump a.sqlite) <(pisession dump b.sqlite)")]
pub(super) struct Dump {
    /// The session: URI#ID, or the path of its file
    session: String,
}

impl Dump {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        target::session(&self.session, ctx)?.dump(out.json_stream(), ctx)?;
        Ok(Verdict::Fine)
    }
}
