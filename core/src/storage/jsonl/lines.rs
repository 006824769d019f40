//! A new file, line by line: what copies and compaction write with.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

/// How much is written in one step.
const CHUNK: usize = 1 << 20;

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
        Ok(Self { out: BufWriter::with_capacity(CHUNK, file), end: 0 })
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
