//! Everything that reaches stdout goes through here: buffering, colour, width, and control characters.

pub(crate) mod progress;
pub(crate) mod text;

use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write};

use anstyle::{AnsiColor, Style};
use pisession::{Error, ErrorKind, Json};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::failure::Failure;

/// How wide lines are when there is no terminal to ask.
const WIDTH: usize = 120;

/// What a piece of output is, and so what it looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    Heading,
    Faint,
    Id,
    Tip,
    Label,
    Problem,
}

impl Role {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Heading => Style::new().bold(),
            Self::Faint => Style::new().dimmed(),
            Self::Id => AnsiColor::Yellow.on_default(),
            Self::Tip => AnsiColor::Green.on_default().bold(),
            Self::Label => AnsiColor::Cyan.on_default(),
            Self::Problem => AnsiColor::Red.on_default(),
        }
    }
}

/// The command's output.
pub(crate) struct Output {
    stream: Stream,
    json: bool,
    colour: bool,
    width: usize,
}

impl Output {
    pub(crate) fn stdout(json: bool) -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let columns = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
        let width = match terminal_size::terminal_size_of(&stdout) {
            Some((width, _)) => width.0.into(),
            None => columns().unwrap_or(WIDTH),
        };
        Self {
            stream: Stream { out: BufWriter::new(stdout), terminal, held: false, reader_is_gone: false },
            json,
            colour: terminal && !dumb && !set("NO_COLOR"),
            width: width.max(20),
        }
    }

    /// Whether the output is for programs.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// How many columns a line may fill.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// `text`, which must be clean, in the look of `role`.
    pub(crate) fn paint(&self, role: Role, text: &str) -> String {
        let style = role.style();
        if self.colour && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// A line for people. What comes from a session in it must have been cleaned.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.stream.out_line(line.as_bytes())?;
        Ok(())
    }

    /// A heading and what stands under it, aligned.
    pub(crate) fn field(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let name = self.paint(Role::Faint, &format!("{name:<10}"));
        self.line(&format!("{name} {value}"))
    }

    /// A JSON object on a line of its own.
    pub(crate) fn object<T: Serialize>(&mut self, object: &T) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.stream, object).map_err(io::Error::from)?;
        self.stream.write_all(b"\n")?;
        Ok(())
    }

    /// JSON text on a line of its own.
    pub(crate) fn json_line(&mut self, json: &str) -> Result<(), Failure> {
        self.stream.write_all(json.as_bytes())?;
        self.stream.write_all(b"\n")?;
        Ok(())
    }

    /// Where JSON text is written to: on a terminal, control characters in it are escaped.
    pub(crate) fn json_stream(&mut self) -> &mut dyn Write {
        &mut self.stream
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.stream.flush()?;
        Ok(())
    }

    /// Whether a write failed because the other end of the pipe was closed.
    pub(crate) fn reader_is_gone(&self) -> bool {
        self.stream.reader_is_gone
    }
}

/// `json` as a part of a larger object, spelt as it is.
pub(crate) fn raw(json: &Json) -> Result<Box<RawValue>, Failure> {
    RawValue::from_string(json.as_str().trim().to_owned())
        .map_err(|error| Error::new(ErrorKind::InvalidJson, format!("cannot write the JSON: {error}")).into())
}

/// Stdout, for JSON text. JSON may hold DEL and the C1 control characters (U+0080 to U+009F) raw in its
/// strings, and some terminals obey the latter; on a terminal they become escapes, which mean the same.
struct Stream {
    out: BufWriter<Stdout>,
    terminal: bool,
    /// A 0xC2 that came last and may begin a control character.
    held: bool,
    reader_is_gone: bool,
}

impl Stream {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            self.reader_is_gone = true;
        }
        result
    }

    fn out_line(&mut self, line: &[u8]) -> io::Result<()> {
        let result = self.out.write_all(line).and_then(|()| self.out.write_all(b"\n"));
        self.note(result)
    }

    fn escaped(&mut self, bytes: &[u8]) -> io::Result<()> {
        for &byte in bytes {
            match (std::mem::take(&mut self.held), byte) {
                (true, 0x80..=0x9f) => write!(self.out, "\\u{byte:04x}")?,
                (true, _) => self.out.write_all(&[0xc2, byte])?,
                (false, 0xc2) => self.held = true,
                (false, 0x7f) => self.out.write_all(b"\\u007f")?,
                (false, _) => self.out.write_all(&[byte])?,
            }
        }
        Ok(())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = if self.terminal { self.escaped(bytes) } else { self.out.write_all(bytes) };
        self.note(result).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.note(result)
    }
}
