//! An entry as a piece of a transcript.

pub(crate) mod message;

use pisession::Entry;

use crate::failure::Failure;
use crate::output::text::{clean_block, clean_line, clean_row, time};
use crate::output::{Output, Role};
use message::{Block, Said, image};

/// How many lines of a tool's output and of thinking are shown in brief.
const OUTPUT_LINES: usize = 8;
const THINKING_LINES: usize = 3;

/// How much of each entry is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Text whole; thinking, tool calls and results cut.
    Brief,
    /// All of it.
    Full,
}

/// Prints `entry`, known to people as `id`: a heading with who speaks, then what is said.
pub(crate) fn print(
    entry: &Entry,
    id: &str,
    label: Option<&str>,
    extent: Extent,
    out: &mut Output,
) -> Result<(), Failure> {
    let said = Said::by_entry(entry);
    let width = out.width();
    let mut heading = out.paint(Role::Heading, &clean_line(&said.by, 40));
    for (at, about) in said.about.iter().enumerate() {
        let role = if said.failed { Role::Problem } else { Role::Plain };
        heading.push_str(if at == 0 { " " } else { ", " });
        heading.push_str(&out.paint(role, &clean_line(about, 60)));
    }
    let place = format!("  {}  {}", clean_line(id, 64), time(entry.timestamp));
    heading.push_str(&out.paint(Role::Faint, &place));
    if let Some(label) = label {
        heading.push_str(&format!("  {}", out.paint(Role::Label, &format!("#{}", clean_line(label, 40)))));
    }
    out.line(&heading)?;
    for block in &said.blocks {
        match block {
            Block::Text(text) => print_text(text, Role::Plain, said.output, OUTPUT_LINES, extent, out)?,
            Block::Thinking(text) => print_text(text, Role::Faint, true, THINKING_LINES, extent, out)?,
            Block::Data(text) => print_text(text, Role::Plain, true, 1, extent, out)?,
            Block::ToolCall { name, arguments } => {
                let call = format!("→ {name} {arguments}");
                let call = match extent {
                    Extent::Brief => clean_line(&call, width),
                    Extent::Full => clean_block(&call),
                };
                out.line(&out.paint(Role::Id, &call))?;
            }
            Block::Image(kind, bytes) => out.line(&clean_line(&image(kind, *bytes), width))?,
            Block::Other(kind) => out.line(&clean_line(&format!("[{kind}]"), width))?,
        }
    }
    out.line("")
}

fn print_text(
    text: &str,
    role: Role,
    may_be_cut: bool,
    brief_lines: usize,
    extent: Extent,
    out: &mut Output,
) -> Result<(), Failure> {
    if extent == Extent::Full || !may_be_cut {
        for line in clean_block(text.trim_end()).lines() {
            out.line(&out.paint(role, line))?;
        }
        return Ok(());
    }
    let width = out.width();
    let mut lines = text.trim_end().lines();
    for line in lines.by_ref().take(brief_lines) {
        out.line(&out.paint(role, &clean_row(line, width)))?;
    }
    let more = lines.count();
    if more > 0 {
        let note = format!("… {more} more {}", if more == 1 { "line" } else { "lines" });
        out.line(&out.paint(Role::Faint, &note))?;
    }
    Ok(())
}
