//! What reading an old file found: what its programs left out or broke, and where each entry came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use uuid::Uuid;

use crate::model::usage::Usage;

/// What a warning is about.
///
/// Those for which [`is_damage`](Self::is_damage) holds are refused by strict reading, and writing from a
/// file that has one must be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// Unknown objects stand before the header.
    Preamble,
    /// The file is of a version that is not known here. It is read, and never written.
    NewerVersion,
    /// Several JSON values stand on one line; all of them were taken.
    Glued,
    /// A line gives no entry and was skipped.
    BadLine,
    /// The last line breaks off and was dropped.
    TornTail,
    /// A second session header; nothing from there on was read.
    SecondHeader,
    /// An entry without an id got one.
    MissingId,
    /// An entry without a parent field was put under the entry before it.
    MissingParentId,
    /// An entry's parent stands later in the file; entries are stored parents first.
    ForwardParent,
    /// An entry's parent is nowhere in the file; the entry became a root.
    MissingParent,
    /// Entries were their own ancestors; the first of them became a root.
    Cycle,
    /// The same entry again; it was taken once.
    Duplicate,
    /// The id of an earlier entry with another content; the later one got a new id.
    DuplicateId,
    /// A reference leads nowhere; it is null, or was skipped.
    MissingReference,
    /// The first kept entry of a compaction is not on its path; it keeps nothing.
    BadKeptEntry,
    /// An assistant message says that it is still pending; it was taken as it is.
    PendingAssistant,
}

impl WarningKind {
    /// Its stable name, for example `bad_line`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preamble => "preamble",
            Self::NewerVersion => "newer_version",
            Self::Glued => "glued",
            Self::BadLine => "bad_line",
            Self::TornTail => "torn_tail",
            Self::SecondHeader => "second_header",
            Self::MissingId => "missing_id",
            Self::MissingParentId => "missing_parent_id",
            Self::ForwardParent => "forward_parent",
            Self::MissingParent => "missing_parent",
            Self::Cycle => "cycle",
            Self::Duplicate => "duplicate",
            Self::DuplicateId => "duplicate_id",
            Self::MissingReference => "missing_reference",
            Self::BadKeptEntry => "bad_kept_entry",
            Self::PendingAssistant => "pending_assistant",
        }
    }

    /// Whether the file's structure is damaged there: something was skipped, guessed or put right.
    pub fn is_damage(self) -> bool {
        !matches!(
            self,
            Self::Preamble
                | Self::NewerVersion
                | Self::MissingReference
                | Self::BadKeptEntry
                | Self::PendingAssistant
        )
    }
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What else a warning says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningDetails {
    /// Nothing.
    None,
    /// How many JSON values stand on the line.
    Values(u64),
    /// How many lines were not read, this one included, blank ones not counted.
    Ignored(u64),
    /// How many objects stand before the header.
    Count(u64),
    /// The field that holds the reference.
    Field(&'static str),
    /// The version, as it is written in the file.
    Version(Box<str>),
}

/// One thing that reading a file found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// The line, from 1.
    pub line: u64,
    /// Which of the values on the line, from 0.
    pub value: u32,
    /// Where the line starts in the file.
    pub offset: u64,
    /// How many bytes the line has, without its end.
    pub length: u64,
    /// What else there is to say.
    pub details: WarningDetails,
}

impl Warning {
    /// What was found, in plain words, without the place.
    pub fn message(&self) -> String {
        let text = match (self.kind, &self.details) {
            (WarningKind::Preamble, WarningDetails::Count(count)) => {
                return format!("{count} unknown objects stand before the session header");
            }
            (WarningKind::NewerVersion, WarningDetails::Version(version)) => {
                return format!(
                    "the file is of version {version}, which is newer than any known here; it is only read"
                );
            }
            (WarningKind::Glued, WarningDetails::Values(values)) => {
                return format!("{values} JSON values stand on one line; all were taken");
            }
            (WarningKind::SecondHeader, WarningDetails::Ignored(ignored)) => {
                return format!("a second session header; {ignored} lines from here on were not read");
            }
            (WarningKind::MissingReference, WarningDetails::Field(field)) => {
                return format!("'{field}' names no entry of the file");
            }
            (WarningKind::Preamble, _) => "unknown objects stand before the session header",
            (WarningKind::NewerVersion, _) => "the file is of a newer version; it is only read",
            (WarningKind::Glued, _) => "several JSON values stand on one line; all were taken",
            (WarningKind::BadLine, _) => "the line is no entry and was skipped",
            (WarningKind::TornTail, _) => "the last line breaks off and was dropped",
            (WarningKind::SecondHeader, _) => "a second session header; nothing from here on was read",
            (WarningKind::MissingId, _) => "the entry has no id and got one",
            (WarningKind::MissingParentId, _) => {
                "the entry has no parentId and was put under the entry before it"
            }
            (WarningKind::ForwardParent, _) => "the entry's parent stands later in the file",
            (WarningKind::MissingParent, _) => {
                "the entry's parent is nowhere in the file; the entry became a root"
            }
            (WarningKind::Cycle, _) => "the entry is its own ancestor; it became a root",
            (WarningKind::Duplicate, _) => "the same entry again; it was taken once",
            (WarningKind::DuplicateId, _) => {
                "an earlier entry has the same id and another content; this one got a new id"
            }
            (WarningKind::MissingReference, _) => "a reference names no entry of the file",
            (WarningKind::BadKeptEntry, _) => {
                "the first kept entry of the compaction is not on its path; it keeps nothing"
            }
            (WarningKind::PendingAssistant, _) => {
                "the assistant message says that it is still pending; it was taken as it is"
            }
        };
        text.to_owned()
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} ({})", self.line, self.message(), self.kind)
    }
}

/// Where something stands in an old file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Its id there; none if it had none.
    pub id: Option<String>,
    /// The line, from 1.
    pub line: u64,
    /// Which of the values on the line, from 0.
    pub value: u32,
}

/// Where one entry came from, kept small: a file may have millions of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) new_id: Uuid,
    pub(super) line: u64,
    pub(super) value: u32,
    /// Start and length of the old id in the texts; none if it had none.
    pub(super) old_id: Option<(u32, u32)>,
}

/// Where the entries came from, in stored order.
#[derive(Debug, Default)]
pub(super) struct Origins {
    pub(super) texts: String,
    pub(super) placed: Vec<Placed>,
}

impl Origins {
    /// The old id of the entry at that place in stored order.
    pub(super) fn old_id(&self, position: usize) -> Option<&str> {
        let (start, length) = self.placed.get(position)?.old_id?;
        self.texts.get(start as usize..(start + length) as usize)
    }
}

/// What reading a file of version 1, 2 or 3 found.
#[derive(Debug, Clone, Default)]
pub struct Legacy {
    /// The version of the file; 1 where it says none.
    pub version: u64,
    /// The session id in the file.
    pub session_id: String,
    /// The line of the header, from 1.
    pub header_line: u64,
    /// When the session was made, by the header, Unix ms; none where that cannot be read.
    pub header_created_at: Option<i64>,
    /// What is wrong with the file, by line, then value.
    pub warnings: Vec<Warning>,
    /// How many nodes of the old tree gave no entry, by their old type.
    pub dropped: BTreeMap<&'static str, u64>,
    /// The node that was selected in the file, whether it gave an entry or not; the tip of `main` is the
    /// nearest entry at or above it.
    pub selected: Option<Origin>,
    /// The usage in the file, summed in its order.
    pub usage: Usage,
    /// How many usage objects went into it.
    pub usage_rows: u64,
    /// Where the file as it was is kept, if opening it upgraded it.
    pub backup: Option<PathBuf>,
    pub(super) origins: Arc<Origins>,
}

impl Legacy {
    /// Whether the file is damaged: it has a warning for which [`WarningKind::is_damage`] holds.
    pub fn is_damaged(&self) -> bool {
        self.first_damage().is_some()
    }

    pub(super) fn first_damage(&self) -> Option<&Warning> {
        self.warnings.iter().find(|warning| warning.kind.is_damage())
    }

    /// Old ids with the ids of their entries here, in stored order. Entries without an old id are not in it;
    /// an old id that the file uses for several entries comes several times.
    pub fn ids(&self) -> impl Iterator<Item = (&str, String)> {
        self.origins.placed.iter().enumerate().filter_map(|(position, placed)| {
            Some((self.origins.old_id(position)?, placed.new_id.hyphenated().to_string()))
        })
    }

    /// The entries' ids here and where each came from, in stored order.
    pub fn entries(&self) -> impl Iterator<Item = (String, Origin)> {
        self.origins.placed.iter().enumerate().map(|(position, placed)| {
            let origin = Origin {
                id: self.origins.old_id(position).map(str::to_owned),
                line: placed.line,
                value: placed.value,
            };
            (placed.new_id.hyphenated().to_string(), origin)
        })
    }
}
