//! What a file is: told by its first JSON objects, never by its name.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::legacy::lines::{Line, Lines, Object, is_string, objects};
use crate::legacy::report::{Warning, WarningDetails, WarningKind};
use crate::legacy::times;
use crate::model::json::{count_of, number_of, text_of};

/// How many unknown objects may stand before the header.
const PREAMBLE: u64 = 8;
/// How far into another file its header is looked for.
const LOOKED_AT: u64 = 1 << 20;
const SQLITE: &[u8] = b"SQLite format 3\0";

/// The header of a file of version 1 to 3, or of a newer one that looks the same.
#[derive(Debug, Clone)]
pub(super) struct Header {
    /// 1 where the file says none.
    pub(super) version: u64,
    /// The version as it is written.
    pub(super) version_text: Option<Box<str>>,
    pub(super) id: String,
    pub(super) created_at: Option<i64>,
    pub(super) cwd: String,
    /// The path of the file it was branched from.
    pub(super) parent: Option<String>,
    /// Version 1 only: the model and thinking level it starts with, as JSON.
    pub(super) provider: Option<Box<str>>,
    pub(super) model_id: Option<Box<str>>,
    pub(super) thinking_level: Option<Box<str>>,
}

/// What one object says about its file.
enum Verdict {
    Header(Box<Header>),
    Format4(String),
    Refused(Error),
    Unknown,
}

fn judge(object: &Object<'_>) -> Verdict {
    let is = |name: &str, text: &str| object.get(name).and_then(text_of).is_some_and(|value| value == text);
    if is("kind", "header") && object.get("v").and_then(number_of) == Some(4.0) {
        return Verdict::Format4(object.get("id").and_then(text_of).unwrap_or_default().into_owned());
    }
    if is("kind", "header") && object.get("v").and_then(number_of).is_some() {
        return Verdict::Refused(Error::new(
            ErrorKind::UnsupportedVersion,
            "the file is a session of a format newer than 4, which is not known here",
        ));
    }
    if is("kind", "header") && object.get("version").and_then(number_of) == Some(4.0) {
        return Verdict::Refused(dialect("header-version-4", "its header has 'version' in place of 'v'"));
    }
    if is("type", "session") {
        if object.get("createdAt").and_then(number_of).is_some() {
            return Verdict::Refused(dialect("session-created-at", "its header has a numeric 'createdAt'"));
        }
        return match header(object) {
            Ok(header) => Verdict::Header(Box::new(header)),
            Err(what) => Verdict::Refused(no_session(&format!("its session header has {what}"))),
        };
    }
    if is("type", "session_start") {
        return Verdict::Refused(dialect(
            "session-start",
            "it starts with an object of type 'session_start'",
        ));
    }
    if is("type", "session_meta") {
        return Verdict::Refused(dialect("session-meta", "it has an object of type 'session_meta'"));
    }
    if object.string("uuid").is_some() && object.string("sessionId").is_some() {
        return Verdict::Refused(dialect("uuid-session-id", "its lines have 'uuid' and 'sessionId'"));
    }
    Verdict::Unknown
}

fn header(object: &Object<'_>) -> Result<Header, &'static str> {
    let text = |name| object.get(name).and_then(text_of).map(|text| text.into_owned());
    let id = text("id").filter(|id| !id.is_empty()).ok_or("no 'id'")?;
    let timestamp = object.string("timestamp").ok_or("no 'timestamp'")?;
    let cwd = text("cwd").ok_or("no 'cwd'")?;
    let version = match object.get("version") {
        None => 1,
        Some(written) => whole_number(written).ok_or("a 'version' that is no whole number from 1")?,
    };
    let kept = |name| object.get(name).filter(|_| version == 1).map(Box::from);
    Ok(Header {
        version,
        version_text: object.get("version").map(Box::from),
        id,
        created_at: times::read(timestamp),
        cwd,
        parent: text("parentSession")
            .filter(|path| !path.is_empty())
            .or_else(|| text("branchedFrom").filter(|path| !path.is_empty())),
        provider: kept("provider"),
        model_id: kept("modelId"),
        thinking_level: kept("thinkingLevel"),
    })
}

/// A whole number from 1 on; one that is too large for anything is the largest.
fn whole_number(written: &str) -> Option<u64> {
    match count_of(written) {
        Some(number) => (number >= 1).then_some(number),
        None => number_of(written).filter(|number| *number >= 1.0 && number.fract() == 0.0).map(|_| u64::MAX),
    }
}

fn dialect(name: &str, how: &str) -> Error {
    Error::new(
        ErrorKind::NotASession,
        format!("the file is of the {name} dialect, which another program writes: {how}"),
    )
    .with_hint("the file was not touched; open it with the program that wrote it")
}

fn no_session(what: &str) -> Error {
    Error::new(ErrorKind::NotASession, format!("the file is no session: {what}"))
        .with_hint("a session file starts with a header of type 'session' with id, timestamp and cwd")
}

/// A header and where it was found.
pub(super) struct Found {
    pub(super) header: Header,
    /// Which of the values on its line it is.
    pub(super) value: usize,
    /// What to say of unknown objects before it.
    pub(super) preamble: Option<Warning>,
}

/// Looks for the header, line by line.
#[derive(Default)]
pub(super) struct Detector {
    preamble: u64,
    /// The line of the first unknown object, where it starts, and how long it is.
    first: Option<(u64, u64, u64)>,
}

/// What the lines so far say.
pub(super) enum Step {
    /// Nothing yet.
    Next,
    Found(Box<Found>),
    Format4(String),
}

impl Detector {
    /// Judges the first bytes: those of a session are known before a whole line is read, which may be long.
    pub(super) fn start(&self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Err(no_session("it is empty"));
        }
        if bytes.starts_with(SQLITE) {
            return Err(Error::new(ErrorKind::Unsupported, "the file is a SQLite database, no session file")
                .with_hint("open it as a repository, by the name sqlite: and its path"));
        }
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') | None => Ok(()),
            Some(_) => Err(no_session("it does not start with a JSON object")),
        }
    }

    /// Judges one line.
    pub(super) fn line(&mut self, line: &Line<'_>, found: &[Object<'_>]) -> Result<Step> {
        for (value, object) in found.iter().enumerate() {
            match judge(object) {
                Verdict::Header(header) => {
                    return Ok(Step::Found(Box::new(Found {
                        header: *header,
                        value,
                        preamble: self.warning(),
                    })));
                }
                Verdict::Format4(id) => return Ok(Step::Format4(id)),
                Verdict::Refused(error) => return Err(error.with_line(line.number, line.offset)),
                Verdict::Unknown => {
                    self.preamble += 1;
                    self.first.get_or_insert((line.number, line.offset, line.length()));
                }
            }
            if self.preamble > PREAMBLE {
                return Err(self.nothing_found());
            }
        }
        Ok(Step::Next)
    }

    fn warning(&self) -> Option<Warning> {
        let (line, offset, length) = self.first?;
        let details = WarningDetails::Count(self.preamble);
        Some(Warning { kind: WarningKind::Preamble, line, value: 0, offset, length, details })
    }

    /// The error for a line before the header that holds no objects.
    pub(super) fn no_objects(&self, line: &Line<'_>) -> Error {
        no_session("a line that is no JSON object stands before any session header")
            .with_line(line.number, line.offset)
    }

    /// The error for a file that ends, or goes on too long, without a header.
    pub(super) fn nothing_found(&self) -> Error {
        no_session("it has no session header")
    }
}

/// What the beginning of a file says.
enum Beginning {
    Old(Box<Header>),
    /// The id of a session of format 4.
    Format4(String),
}

/// Reads the beginning of the file at `path`, as far as a header may stand.
fn beginning(path: &Path) -> Result<Beginning> {
    let io = |error| Error::io("cannot open the session file", error).with_path(path);
    // Looked at before it is opened: opening a pipe would wait for its writer.
    let metadata = std::fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        return Err(no_session("it is no regular file").with_path(path));
    }
    let file = File::open(path).map_err(io)?;
    let mut lines = Lines::of(&file, metadata.len().min(LOOKED_AT), false).map_err(io)?;
    let mut detector = Detector::default();
    detector.start(lines.peek().map_err(io)?)?;
    while let Some(line) = lines.next().map_err(io)? {
        if line.is_blank() {
            continue;
        }
        let found = objects(&line).map_err(|_| detector.no_objects(&line))?;
        match detector.line(&line, &found)? {
            Step::Next => {}
            Step::Found(found) => return Ok(Beginning::Old(Box::new(found.header))),
            Step::Format4(id) => return Ok(Beginning::Format4(id)),
        }
    }
    Err(detector.nothing_found())
}

/// What the beginning of a session file tells.
pub(crate) struct Told {
    /// The session's id; empty where a file of format 4 has none.
    pub(crate) id: String,
    pub(crate) is_format4: bool,
}

/// What the beginning of the file at `path` tells, of whatever version. Its header may stand too far behind.
pub(crate) fn tell(path: &Path) -> Result<Told> {
    Ok(match beginning(path).map_err(|error| error.with_path(path))? {
        Beginning::Old(header) => Told { id: header.id, is_format4: false },
        Beginning::Format4(id) => Told { id, is_format4: true },
    })
}

/// Whether the file at `path` is a SQLite database.
pub(crate) fn is_sqlite(path: &Path) -> bool {
    let begins_so = || -> std::io::Result<bool> {
        // Looked at first: opening a pipe would wait for its writer.
        if !std::fs::metadata(path)?.is_file() {
            return Ok(false);
        }
        let mut head = [0; SQLITE.len()];
        File::open(path)?.read_exact(&mut head)?;
        Ok(head == SQLITE)
    };
    // What cannot be read is judged by who reads it next.
    begins_so().unwrap_or(false)
}

/// The header of the file of version 1 to 3 at `path`.
pub(super) fn header_of(path: &Path) -> Result<Header> {
    match beginning(path).map_err(|error| error.with_path(path))? {
        Beginning::Old(header) => Ok(*header),
        Beginning::Format4(_) => Err(no_session("it is of format 4").with_path(path)),
    }
}

/// The id of the session in the file at `path`, of whatever version; none if it is no session file, or its
/// header stands too far behind.
pub(super) fn session_id(path: &Path) -> Option<String> {
    tell(path).ok().map(|told| told.id).filter(|id| !id.is_empty())
}

/// Where a path in the header of the file at `path` leads.
pub(super) fn resolve(path: &Path, parent: &str) -> PathBuf {
    path.parent().unwrap_or_else(|| Path::new("")).join(parent)
}

/// A JSON text that is a string and not the empty one.
pub(super) fn is_name(value: Option<&str>) -> bool {
    value.is_some_and(|value| is_string(value) && value.len() > 2)
}
