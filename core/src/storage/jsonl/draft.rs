//! A session file that is being made: under another name, with its index beside it.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::session::backend::SessionMetadata;
use crate::storage::commit::MAX_SEQ;
use crate::storage::copy::{PAGE, Record, Sink};
use crate::storage::jsonl::header::Header;
use crate::storage::jsonl::line::write_line;
use crate::storage::jsonl::lines::Lines;
use crate::storage::jsonl::state::State;

/// A file under construction, and what it holds.
pub(crate) struct JsonlDraft {
    path: PathBuf,
    metadata: SessionMetadata,
    lines: Lines,
    state: State,
}

impl JsonlDraft {
    /// Makes the file at `path`, in place of one that a crash left there.
    pub(crate) fn create(path: &Path, metadata: SessionMetadata) -> Result<Self> {
        let failed = |error| Error::io("cannot make the session's file", error).with_path(path);
        let lines = Lines::create(path).map_err(failed)?;
        let state = State::new(Header::new(metadata.clone()), 0);
        Ok(Self { path: path.to_owned(), metadata, lines, state })
    }

    fn write(&mut self, text: &str) -> Result<()> {
        let written = self.lines.write(&[text.as_bytes()]);
        written.map_err(|error| Error::io("cannot write the session's file", error).with_path(&self.path))
    }

    /// The whole file, synced.
    pub(crate) fn finish(mut self) -> Result<(File, State)> {
        let failed = |error| Error::io("cannot write the session's file", error).with_path(&self.path);
        self.state.end = self.lines.end();
        let file = self.lines.into_file().map_err(failed)?;
        // At both levels: a power loss must not leave a name without a session.
        file.sync_all().map_err(failed)?;
        Ok((file, self.state))
    }
}

impl Sink for JsonlDraft {
    fn start(&mut self, next_seq: u64, ctx: &Context) -> Result<()> {
        ctx.check()?;
        let cleared = self.lines.clear();
        cleared.map_err(|error| Error::io("cannot write the session's file", error).with_path(&self.path))?;
        let mut header = Header::new(self.metadata.clone());
        // A session that never had a commit starts at 1 without being told, and one that is full starts nowhere.
        header.next_seq = Some(next_seq).filter(|seq| (2..=MAX_SEQ).contains(seq));
        self.write(&header.to_line())?;
        self.state = State::new(header, self.lines.end());
        Ok(())
    }

    fn put(&mut self, record: Record, ctx: &Context) -> Result<()> {
        if self.state.lines.is_multiple_of(PAGE as u64) {
            ctx.check()?;
        }
        let mut line = String::new();
        let writes = std::slice::from_ref(&record.write);
        let places = write_line(&mut line, writes, record.seq, 0, self.lines.end())?;
        self.write(&line)?;
        for (place, span) in places {
            self.state.apply(place, span)?;
        }
        self.state.lines += 1;
        Ok(())
    }
}
