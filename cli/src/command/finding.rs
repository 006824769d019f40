//! How a finding is shown: to people on a line, to programs as an object.

use std::path::Path;

use pisession::{Error, Finding, FindingKind, Warning};
use serde::Serialize;

use crate::failure::{Failure, place};
use crate::output::text::{clean_line, padded};
use crate::output::{Output, Role};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FindingLine {
    kind: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    /// For people: where.
    #[serde(skip)]
    place: String,
}

impl FindingLine {
    pub(super) fn of(finding: &Finding, session: Option<&str>, path: Option<&Path>) -> Self {
        let error = finding.error.as_ref();
        let path = error.and_then(Error::path).or(path);
        // What is wrong with a file that holds many sessions is not about the one that was looked at first.
        let session = session.filter(|_| finding.kind != FindingKind::DamagedFile);
        Self {
            kind: finding.kind.name(),
            message: finding.message.clone(),
            hint: finding.hint.clone(),
            session: session.map(str::to_owned),
            id: finding.id.clone(),
            path: path.map(|path| path.to_string_lossy().into_owned()),
            line: finding.line,
            offset: finding.offset,
            length: finding.length,
            error: error.map(|error| error.kind().name()),
            place: match (error, finding.line, finding.offset) {
                (Some(error), ..) => place(error),
                (None, Some(line), Some(offset)) => in_file(line, offset),
                (None, ..) => String::new(),
            },
        }
    }

    /// A warning of the reader of old files.
    pub(super) fn of_warning(warning: &Warning, session: Option<&str>, path: Option<&Path>) -> Self {
        Self {
            kind: warning.kind.name(),
            message: warning.message(),
            hint: None,
            session: session.map(str::to_owned),
            id: None,
            path: path.map(|path| path.to_string_lossy().into_owned()),
            line: Some(warning.line),
            offset: Some(warning.offset),
            length: None,
            error: None,
            place: in_file(warning.line, warning.offset),
        }
    }
}

/// Prints findings for people, with session and file where they are `of_several` sessions.
pub(super) fn print(findings: &[FindingLine], of_several: bool, out: &mut Output) -> Result<(), Failure> {
    for (at, finding) in findings.iter().enumerate() {
        let kind = out.paint(Role::Problem, &padded(finding.kind, 18));
        let mut line = format!("{kind} {}", clean_line(&finding.message, 400));
        let session = finding.session.as_deref().filter(|_| of_several);
        let path = finding.path.as_deref().filter(|_| of_several || finding.error.is_some());
        for about in [session, path].into_iter().flatten() {
            line.push_str(&out.paint(Role::Faint, &format!("  {}", clean_line(about, 400))));
        }
        if finding.path.is_none() || finding.error.is_none() {
            line.push_str(&out.paint(Role::Faint, &format!("  {}", finding.place)));
        } else if let Some(number) = finding.line {
            line.push_str(&out.paint(Role::Faint, &format!(" line {number}")));
        }
        out.line(line.trim_end())?;
        // A damaged file has many findings and one way out.
        let next = findings.get(at + 1).and_then(|next| next.hint.as_ref());
        if let Some(hint) = finding.hint.as_ref().filter(|hint| next != Some(*hint)) {
            out.line(&out.paint(Role::Faint, &format!("  hint: {}", clean_line(hint, 400))))?;
        }
    }
    Ok(())
}

fn in_file(line: u64, offset: u64) -> String {
    format!("line {line}, byte {offset}")
}
