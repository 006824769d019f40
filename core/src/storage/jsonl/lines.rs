//! A new file, line by line: what copies and compaction write with.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
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
        Self::with_mode(path, 0o666)
    }

    /// Makes a file that is to take the place of another one, with its owner and permissions: at no time may
    /// more people read it.
    pub(crate) fn create_in_place_of(old: &File, path: &Path) -> io::Result<Self> {
        let lines = Self::with_mode(path, 0o600)?;
        keep_owner(old, lines.out.get_ref())?;
        Ok(lines)
    }

    /// `mode` is what the file may be at most; the process's mask says what it is.
    fn with_mode(path: &Path, mode: u32) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().read(true).append(true).create_new(true).mode(mode).open(path)?;
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

/// Gives a new file owner and permissions of an old one.
pub(crate) fn keep_owner(old: &File, new: &File) -> io::Result<()> {
    let (was, is) = (old.metadata()?, new.metadata()?);
    if (was.uid(), was.gid()) != (is.uid(), is.gid()) {
        fchown(new, Some(was.uid()), Some(was.gid()))?;
    }
    new.set_permissions(was.permissions())
}
