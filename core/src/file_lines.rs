//! A file line by line: read in large chunks, one line in memory at a time, of whatever length, and copied
//! only where a chunk ends inside it.

use std::io::{self, Read};
use std::ops::Range;

use memchr::memchr;

/// How many bytes are read at a time: they stay in the processor's cache.
pub(crate) const CHUNK: usize = 64 << 10;
/// How many bytes the buffer may keep once a longer line is done with.
pub(crate) const KEPT_BUFFER: usize = 4 << 20;

/// The lines of what is read from `source`, which end at `\n` only.
pub(crate) struct FileLines<R> {
    source: R,
    /// How many bytes are read at a time.
    step: usize,
    buffer: Vec<u8>,
    /// What of the buffer was read and not given yet.
    rest: Range<usize>,
}

impl<R: Read> FileLines<R> {
    /// The lines of `source`, which has about `size` bytes.
    pub(crate) fn of(source: R, size: u64) -> Self {
        // One byte more than there are: the end is seen without another step.
        let step = usize::try_from(size).unwrap_or(CHUNK).saturating_add(1).min(CHUNK);
        Self { source, step, buffer: vec![0; step], rest: 0..0 }
    }

    /// The first bytes of what is still to be read.
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        if self.rest.is_empty() {
            self.read_more()?;
        }
        Ok(&self.buffer[self.rest.clone()])
    }

    /// The next line with its line end, which the last may lack; empty at the end.
    pub(crate) fn next(&mut self) -> io::Result<&[u8]> {
        let mut searched = 0;
        let length = loop {
            if let Some(at) = memchr(b'\n', &self.buffer[self.rest.start + searched..self.rest.end]) {
                break searched + at + 1;
            }
            searched = self.rest.len();
            if !self.read_more()? {
                break searched;
            }
        };
        let line = self.rest.start..self.rest.start + length;
        self.rest.start = line.end;
        Ok(&self.buffer[line])
    }

    /// Reads more behind what is there; false at the end.
    fn read_more(&mut self) -> io::Result<bool> {
        if self.rest.end + self.step > self.buffer.len() {
            self.buffer.copy_within(self.rest.clone(), 0);
            self.rest = 0..self.rest.len();
            if self.rest.end + self.step > self.buffer.len() {
                self.buffer.resize(2 * self.buffer.len(), 0);
            } else if self.buffer.len() > KEPT_BUFFER && self.rest.end + self.step < KEPT_BUFFER {
                self.buffer.truncate(KEPT_BUFFER);
                self.buffer.shrink_to_fit();
            }
        }
        loop {
            match self.source.read(&mut self.buffer[self.rest.end..self.rest.end + self.step]) {
                Ok(length) => {
                    self.rest.end += length;
                    return Ok(length > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
