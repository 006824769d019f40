//! How a command ends that does not end well: what is said on stderr, and the exit code.

use std::io::{self, Write as _};
use std::process::ExitCode;

use pisession::{Error, ErrorKind};
use serde::Serialize;

use crate::output::text::{clean_block, clean_line};

const FINDINGS: u8 = 1;
const USAGE: u8 = 2;
const ERROR: u8 = 3;
/// The exit code after Ctrl-C, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// What a command that ran to its end says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    Findings,
}

impl Verdict {
    pub(crate) fn of(findings: bool) -> Self {
        if findings { Self::Findings } else { Self::Fine }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Fine => ExitCode::SUCCESS,
            Verdict::Findings => ExitCode::from(FINDINGS),
        }
    }
}

/// Why a command did not run to its end.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments make no sense.
    Usage(Error),
    /// The core, or the output, failed.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Error(Error::io("cannot write the output", error))
    }
}

impl Failure {
    /// Arguments that make no sense, and what to write instead.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage(Error::new(ErrorKind::InvalidArgument, message).with_hint(hint))
    }

    /// Says it on stderr; the exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        let (error, code) = match self {
            Self::Usage(error) => (error, USAGE),
            Self::Error(error) if error.kind() == ErrorKind::Cancelled => (error, INTERRUPTED),
            Self::Error(error) => (error, ERROR),
        };
        let text = if json {
            serde_json::to_string(&Report { error: ErrorLine::of(error) })
                .unwrap_or_else(|_| "{\"error\":{}}".to_owned())
        } else if code == INTERRUPTED {
            "interrupted".to_owned()
        } else {
            people_text(error)
        };
        say(&text);
        ExitCode::from(code)
    }
}

/// What is wrong with the arguments, or the help that was asked for; the exit code.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let asks_json =
        std::env::args_os().skip(1).take_while(|argument| argument != "--").any(|a| a == "--json");
    if error.use_stderr() && asks_json {
        // Up to the empty line before the usage: which arguments are meant stands on lines of their own.
        let text = error.render().to_string();
        let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
        let message = lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned();
        return Failure::usage(message, "see pisession --help").report(true);
    }
    // A reader that is gone has no use for the help.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// The error as people read it: message, place, hint.
pub(crate) fn people_text(error: &Error) -> String {
    let mut text = format!("error: {}", clean_block(error.message()));
    let place = place(error);
    if !place.is_empty() {
        text.push_str("\n  at ");
        text.push_str(&place);
    }
    if let Some(hint) = error.hint() {
        text.push_str("\n  hint: ");
        text.push_str(&clean_line(hint, usize::MAX));
    }
    text
}

/// Path, line and offset of an error, in that order, as far as they are known.
pub(crate) fn place(error: &Error) -> String {
    let parts = [
        error.path().map(|path| clean_line(&path.display().to_string(), usize::MAX)),
        error.line().map(|line| format!("line {line}")),
        error.offset().map(|offset| format!("byte {offset}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Writes a line to stderr. If even that fails there is nobody left to tell.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[derive(Serialize)]
struct Report<'a> {
    error: ErrorLine<'a>,
}

/// An error in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorLine<'a> {
    kind: &'static str,
    number: i32,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

impl<'a> ErrorLine<'a> {
    pub(crate) fn of(error: &'a Error) -> Self {
        Self {
            kind: error.kind().name(),
            number: error.kind().number(),
            message: error.message(),
            hint: error.hint(),
            path: error.path().map(|path| path.to_string_lossy().into_owned()),
            line: error.line(),
            offset: error.offset(),
            id: error.id(),
        }
    }
}
