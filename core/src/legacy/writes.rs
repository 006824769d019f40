//! An old file as the writes that make a session of it.

use std::ops::{ControlFlow, Range};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::legacy::OldFile;
use crate::legacy::lines::{Digests, Line, Lines, Object, objects};
use crate::legacy::nodes::Kind;
use crate::legacy::print::Stored;
use crate::legacy::report::Legacy;
use crate::legacy::same::SourceRecord;
use crate::legacy::scan::Progress;
use crate::legacy::storage::LegacyStorage;
use crate::legacy::times::NewIds;
use crate::model::entry::NewEntry;
use crate::model::json::{Json, push_quoted};
use crate::model::usage::NewUsage;
use crate::model::value::Address;
use crate::model::write::Write;

/// Namespace of the list that holds what only an export needs; its key is empty.
pub(crate) const LIST: &str = "pisession.legacy";
/// How many ids an element of the list holds.
const IDS: usize = 1_000;
/// How many entries are written between two looks at the context.
const LOOK: usize = 256;

/// Which commit a write may be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Any.
    Anywhere,
    /// Only that of the write before it.
    WithPrevious,
}

/// What takes the writes; it may end them.
pub(super) type Take<'a> = &'a mut dyn FnMut(Write, Place) -> Result<ControlFlow<()>>;

/// A file to be written from.
pub(super) struct Source<'a> {
    pub(super) storage: &'a LegacyStorage,
    pub(super) legacy: &'a Legacy,
    digests: Digests,
    in_file_order: bool,
    created_at: i64,
}

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a OldFile) -> Self {
        Self {
            storage: &file.storage,
            legacy: &file.legacy,
            digests: file.digests.unwrap_or(Digests { bytes: [0; 32], lines: [0; 32] }),
            in_file_order: file.in_file_order,
            created_at: file.metadata.created_at,
        }
    }

    /// Gives every write in order: entries, name, labels, tip, configuration, state, usage, list. The same
    /// file gives the same writes.
    pub(super) fn each(&self, progress: Progress<'_>, ctx: &Context, take: Take<'_>) -> Result<()> {
        if self.entries(progress, ctx, take)?.is_continue() && self.values(take)?.is_continue() {
            let size = self.storage.size();
            if self.list(&|done| progress(size + done), ctx, take)?.is_continue() {
                progress(2 * size);
            }
        }
        Ok(())
    }

    fn entries(&self, progress: Progress<'_>, ctx: &Context, take: Take<'_>) -> Result<ControlFlow<()>> {
        let mut done = 0;
        for position in 0..self.storage.entries.len() {
            if position % LOOK == 0 {
                ctx.check()?;
                self.storage.check_unchanged()?;
                progress(done);
            }
            let entry = self.storage.entry(position)?;
            done = self.storage.end_of(position).max(done);
            let new = NewEntry {
                id: entry.id,
                parent_id: entry.parent_id,
                entry_type: entry.entry_type,
                custom_type: entry.custom_type,
                payload: entry.payload,
                made_at: Some(entry.timestamp),
            };
            if take(Write::Entry(new), Place::Anywhere)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn values(&self, take: Take<'_>) -> Result<ControlFlow<()>> {
        // Name, labels, tip, configuration, state and usage appear together.
        let mut place = Place::Anywhere;
        for address in &self.storage.values {
            if let Some(stored) = self.storage.value(address) {
                if take(Write::SetValue(address.clone(), stored.value), place)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                place = Place::WithPrevious;
            }
        }
        take(Write::Usage(self.usage_row()), place)
    }

    /// The one row that stands for all usage in the file.
    fn usage_row(&self) -> NewUsage {
        let usage = self.legacy.usage;
        let key = "v3-import";
        let id = NewIds::of(&self.legacy.session_id).id(&format!("\0{key}"), 0, self.created_at);
        let payload = format!(
            "{{\"usage\":{},\"adjustment\":true,\"details\":{{\"source\":\"{key}\"}}}}",
            usage.to_json()
        );
        NewUsage { id: id.hyphenated().to_string(), usage, payload: Json::trusted(payload) }
    }

    fn list(&self, progress: Progress<'_>, ctx: &Context, take: Take<'_>) -> Result<ControlFlow<()>> {
        let io = |error| Error::io("cannot read the session file", error).with_path(&self.storage.path);
        let address = Address::known(LIST, "");
        let append = |element: String| Write::AppendList(address.clone(), Json::trusted(element));
        let mut lines = Lines::of(&self.storage.file, self.storage.size(), false).map_err(io)?;
        let mut positions = 0..0;
        while let Some(line) = lines.next().map_err(io)? {
            if line.number % LOOK as u64 == 0 {
                ctx.check()?;
                progress(line.offset);
            }
            if self.in_file_order {
                let placed = &self.legacy.origins.placed;
                let end = placed[positions.end..].partition_point(|placed| placed.line <= line.number);
                positions = positions.end..positions.end + end;
            }
            if !self.prints_again(&line, positions.clone())
                && take(append(line_element(&line)), Place::Anywhere)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        // Nothing of a file that changed meanwhile may look like a whole one.
        self.storage.check_unchanged()?;
        for first in (0..self.storage.entries.len()).step_by(IDS) {
            let element = self.ids_element(first..self.storage.entries.len().min(first + IDS))?;
            if take(append(element), Place::Anywhere)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        take(append(self.source_element()), Place::Anywhere)
    }

    /// Whether an export could print the line from the entries it gave. Out of order it could not: nothing
    /// would tell where the line was.
    fn prints_again(&self, line: &Line<'_>, positions: Range<usize>) -> bool {
        if positions.len() != 1 || !self.in_file_order {
            return false;
        }
        let Some(object) =
            objects(line).ok().filter(|values| values.len() == 1).and_then(|mut one| one.pop())
        else {
            return false;
        };
        // A carriage return between tokens is not stored.
        let is_whole_line =
            object.start == 0 && object.end == line.bytes.len() && !line.bytes.contains(&b'\r');
        is_whole_line
            && self.printed(positions.start, object).is_some_and(|text| text.as_bytes() == line.bytes)
    }

    fn printed(&self, position: usize, object: Object<'_>) -> Option<String> {
        let origins = &self.legacy.origins;
        let entry = self.storage.entries.entry(position);
        let first_kept = object.get("firstKeptEntryId");
        let payload = self.storage.old(entry.payload, object, entry.timestamp).payload(&[]);
        let parent_id = match self.storage.entries.parent(position) {
            Some(parent) => Some(origins.old_id(parent)?),
            None => None,
        };
        let stored = Stored {
            entry_type: entry.entry_type,
            custom_type: entry.custom_type.as_deref(),
            payload: &payload,
            timestamp: entry.timestamp,
            id: origins.old_id(position)?,
            parent_id,
            reference: self.storage.reference(position).and_then(|position| origins.old_id(position)),
            first_kept,
        };
        stored.line()
    }

    /// The element with the old and new ids of some entries, and with what compactions among them keep.
    fn ids_element(&self, positions: Range<usize>) -> Result<String> {
        let (mut ids, mut kept) = (String::new(), String::new());
        for position in positions {
            let entry = self.storage.entries.entry(position);
            if let Some(old) = self.legacy.origins.old_id(position) {
                ids.push_str(if ids.is_empty() { "[" } else { ",[" });
                push_quoted(&mut ids, old);
                ids.push(',');
                push_quoted(&mut ids, &entry.id.to_string());
                ids.push(']');
            }
            if entry.payload.kind == Kind::Compaction
                && let Some(first) = self.storage.first_kept(position)?
            {
                if !kept.is_empty() {
                    kept.push(',');
                }
                push_quoted(&mut kept, &entry.id.to_string());
                kept.push(':');
                kept.push_str(&first);
            }
        }
        Ok(format!("{{\"ids\":[{ids}],\"kept\":{{{kept}}}}}"))
    }

    /// Which bytes the session is made from.
    pub(super) fn record(&self) -> SourceRecord {
        let Digests { bytes, lines } = self.digests;
        SourceRecord { bytes: self.storage.size(), sha256: hex(&bytes), lines_sha256: hex(&lines) }
    }

    fn source_element(&self) -> String {
        let SourceRecord { bytes, sha256, lines_sha256 } = self.record();
        let mut out = format!("{{\"source\":{{\"bytes\":{bytes},\"sha256\":\"{sha256}\"");
        if lines_sha256 != sha256 {
            out.push_str(&format!(",\"linesSha256\":\"{lines_sha256}\""));
        }
        out + "}}"
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The element for a whole line; a line that is no text is kept as base64.
fn line_element(line: &Line<'_>) -> String {
    let mut out = format!("{{\"line\":{},", line.number);
    match std::str::from_utf8(line.bytes) {
        Ok(text) => {
            out.push_str("\"text\":");
            push_quoted(&mut out, text);
        }
        Err(_) => {
            out.push_str("\"bytes\":\"");
            STANDARD.encode_string(line.bytes, &mut out);
            out.push('"');
        }
    }
    out.push('}');
    out
}
