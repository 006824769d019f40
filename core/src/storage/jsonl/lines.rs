//! Records out of one file and into another: what copies and compaction read and write with.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::storage::jsonl::line::Span;

/// How much is read or written in one step.
const CHUNK: u64 = 1 << 20;
/// How much between two records is read along with them.
const GAP: u64 = 4 << 10;

/// Reads spans of a file whose offsets ascend, many in one step where they lie close together.
pub(crate) struct Spans {
    file: Arc<File>,
    bytes: Vec<u8>,
    offset: u64,
}

impl Spans {
    pub(crate) fn of(file: Arc<File>) -> Self {
        Self { file, bytes: Vec::new(), offset: 0 }
    }

    /// The bytes of `span`; `next` are the spans that will be asked for after it.
    pub(crate) fn read(&mut self, span: Span, next: impl IntoIterator<Item = Span>) -> io::Result<&[u8]> {
        let end = |span: Span| span.offset + u64::from(span.length);
        if span.offset < self.offset || end(span) > self.offset + self.bytes.len() as u64 {
            let mut until = end(span);
            for next in next {
                if next.offset < until || next.offset - until > GAP || end(next) - span.offset > CHUNK {
                    break;
                }
                until = end(next);
            }
            self.bytes.resize((until - span.offset) as usize, 0);
            self.offset = span.offset;
            if let Err(error) = self.file.read_exact_at(&mut self.bytes, span.offset) {
                self.bytes.clear();
                return Err(error);
            }
        }
        let from = (span.offset - self.offset) as usize;
        Ok(&self.bytes[from..from + span.length as usize])
    }
}

/// A new file that is written line by line.
pub(crate) struct Lines {
    out: BufWriter<File>,
    end: u64,
}

impl Lines {
    /// Makes the file, in place of one that was left there.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().read(true).append(true).create_new(true).open(path)?;
        Ok(Self { out: BufWriter::with_capacity(CHUNK as usize, file), end: 0 })
    }

    /// Where the next line will stand.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Writes pieces of lines.
    pub(crate) fn write(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        for piece in pieces {
            self.out.write_all(piece)?;
            self.end += piece.len() as u64;
        }
        Ok(())
    }

    /// The file with nothing in it.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.end = 0;
        self.out.get_ref().set_len(0)
    }

    /// The file with all that was written.
    pub(crate) fn into_file(self) -> io::Result<File> {
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}
