//! What is wrong with a file of JSON lines: its end, the lines that were read past, and whether its lines still
//! are what they were.

use std::fs::File;

use crate::error::Result;
use crate::session::check::{Finding, FindingKind};
use crate::storage::jsonl::state::{Damaged, Gap, State};

const REPAIR: &str = "repair it into a new session: pisession repair";

/// What shows without reading the file again; it is `length` bytes long.
pub(super) fn file(state: &State, length: u64, gaps: &[Gap]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = gaps.iter().map(damaged).collect();
    let torn = length.saturating_sub(state.end);
    if torn > 0 {
        let message = format!("the last line of the file breaks off after {torn} bytes");
        let hint = "it is of a commit that was cut off, or is being written now; nothing that was acknowledged \
                    is in it, and the next commit cuts it off";
        let finding = Finding::of_file(FindingKind::TornTail, message).with_hint(hint);
        findings.push(finding.at_line(state.lines + 1, state.end));
    }
    findings
}

/// Reads every line of the file, which is `length` bytes long, again and holds it against what is known.
pub(super) fn lines_again(file: &File, length: u64, known: &State, gaps: &[Gap]) -> Result<Vec<Finding>> {
    let mut now = Vec::new();
    let again = State::read(file, length, &mut Damaged::Note(&mut now))?;
    let mut findings: Vec<Finding> = now.iter().filter(|gap| !gaps.contains(gap)).map(damaged).collect();
    let same = (again.entries.len(), again.next_seq, again.stats.to_json())
        == (known.entries.len(), known.next_seq, known.stats.to_json());
    // What was appended meanwhile is fine.
    if findings.is_empty() && again.end == known.end && !same {
        let message = "the lines of the file are not what they were when it was opened";
        findings.push(Finding::of_file(FindingKind::DamagedFile, message.to_owned()).with_hint(REPAIR));
    }
    Ok(findings)
}

fn damaged(gap: &Gap) -> Finding {
    let message = format!("the line is damaged ({} bytes): {}", gap.length, gap.reason);
    let finding = Finding::of_file(FindingKind::DamagedLine, message).with_hint(REPAIR);
    Finding { length: Some(gap.length), ..finding.at_line(gap.line, gap.offset) }
}
