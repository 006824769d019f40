//! A session file that is being made: under another name, with its index beside it.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::EntryType;
use crate::session::backend::SessionMetadata;
use crate::storage::commit::MAX_SEQ;
use crate::storage::copy::{Entries, PAGE, Record, Sink};
use crate::storage::index::Placement;
use crate::storage::indexed_id::IndexedId;
use crate::storage::jsonl::header::Header;
use crate::storage::jsonl::line::{Span, write_line};
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

    fn write(&mut self, pieces: &[&[u8]]) -> Result<()> {
        let written = self.lines.write(pieces);
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

/// Where an entry stands in the index of another session.
pub(crate) struct EntryPlace {
    pub(crate) id: IndexedId,
    /// The place of its parent there.
    pub(crate) parent: Option<usize>,
    pub(crate) seq: u64,
    pub(crate) timestamp: i64,
    pub(crate) entry_type: EntryType,
    pub(crate) custom_type: Option<Box<str>>,
}

impl JsonlDraft {
    /// Takes an entry with its text as it stands in another file of this format. Of that, `copied` entries
    /// come, every one.
    pub(crate) fn put_entry(&mut self, entry: EntryPlace, copied: &Entries, text: &[u8]) -> Result<()> {
        let parent = match copied {
            // All are in the order of their file, so their places are the same.
            Entries::All => entry.parent,
            // A path has no branches: the parent is what came before.
            Entries::Path(_) => entry.parent.and(self.state.entries.len().checked_sub(1)),
        };
        let length = u32::try_from(text.len())
            .map_err(|_| Error::new(ErrorKind::TooLarge, "a record is over 4 GiB"))?;
        let span = Span { offset: self.lines.end(), length };
        self.write(&[text, b"\n"])?;
        self.state.lines += 1;
        let place = Placement {
            parent,
            seq: entry.seq,
            timestamp: entry.timestamp,
            entry_type: entry.entry_type,
            custom_type: entry.custom_type.as_deref(),
        };
        self.state.push_entry(entry.id, place, span)
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
        self.write(&[header.to_line().as_bytes()])?;
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
        self.write(&[line.as_bytes()])?;
        for (place, span) in places {
            self.state.apply(place, span)?;
        }
        self.state.lines += 1;
        Ok(())
    }

    fn as_jsonl(&mut self) -> Option<&mut JsonlDraft> {
        Some(self)
    }
}
