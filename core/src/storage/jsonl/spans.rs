//! Pieces of a file, read many at a time where they lie close together.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use crate::storage::jsonl::line::Span;

/// How much is read in one step, unless a piece is longer: it stays in the processor's cache.
const CHUNK: u64 = 32 << 10;
/// How much between two pieces is read along with them.
const GAP: u64 = 4 << 10;

/// Reads spans of a file, best in the order they stand there, from either end.
pub(crate) struct Spans {
    file: Arc<File>,
    /// What was read last, from `start` to `end` of the file.
    bytes: Vec<u8>,
    start: u64,
    end: u64,
}

impl Spans {
    pub(crate) fn of(file: Arc<File>) -> Self {
        Self { file, bytes: Vec::new(), start: 0, end: 0 }
    }

    /// The bytes of `span`; `next` are the spans that will be asked for after it.
    pub(crate) fn read(&mut self, span: Span, next: impl IntoIterator<Item = Span>) -> io::Result<&[u8]> {
        if span.offset < self.start || span.end() > self.end {
            let (mut start, mut end) = (span.offset, span.end());
            for next in next {
                let (from, to) = (start.min(next.offset), end.max(next.end()));
                let is_close = next.offset <= end + GAP && start <= next.end() + GAP;
                if !is_close || to - from > CHUNK {
                    break;
                }
                (start, end) = (from, to);
            }
            let length = (end - start) as usize;
            if self.bytes.len() < length {
                self.bytes.resize(length, 0);
            }
            (self.start, self.end) = (0, 0);
            self.file.read_exact_at(&mut self.bytes[..length], start)?;
            (self.start, self.end) = (start, end);
        }
        let from = (span.offset - self.start) as usize;
        Ok(&self.bytes[from..from + span.length as usize])
    }
}
