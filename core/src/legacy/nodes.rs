//! The nodes of an old file's tree as they stand in it, and the ids that name them.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::error::{Error, ErrorKind, Result};

/// No node, no key, no position.
pub(super) const NONE: u32 = u32::MAX;

/// What a node is, by its old type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    Message,
    CustomMessage,
    Compaction,
    BranchSummary,
    Custom,
    ContextEdit,
    /// A type that is not known, or a known one without what it must have.
    Other,
    Label,
    SessionInfo,
    Usage,
    Leaf,
    ModelChange,
    ThinkingLevelChange,
    ActiveToolsChange,
}

impl Kind {
    /// Whether an entry of this kind may give a message to a kept range.
    pub(super) fn may_be_kept(self) -> bool {
        matches!(self, Self::Message | Self::CustomMessage | Self::Compaction | Self::BranchSummary)
    }

    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "message" => Self::Message,
            "custom_message" => Self::CustomMessage,
            "compaction" => Self::Compaction,
            "branch_summary" => Self::BranchSummary,
            "custom" => Self::Custom,
            "context_edit" => Self::ContextEdit,
            "label" => Self::Label,
            "session_info" => Self::SessionInfo,
            "usage" => Self::Usage,
            "leaf" => Self::Leaf,
            "model_change" => Self::ModelChange,
            "thinking_level_change" => Self::ThinkingLevelChange,
            "active_tools_change" => Self::ActiveToolsChange,
            _ => Self::Other,
        }
    }

    /// The old type of nodes that give no entry; none for those that do.
    pub(super) fn dropped(self) -> Option<&'static str> {
        match self {
            Self::Label => Some("label"),
            Self::SessionInfo => Some("session_info"),
            Self::Usage => Some("usage"),
            Self::Leaf => Some("leaf"),
            Self::ModelChange => Some("model_change"),
            Self::ThinkingLevelChange => Some("thinking_level_change"),
            Self::ActiveToolsChange => Some("active_tools_change"),
            _ => None,
        }
    }
}

/// One node of the old tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// Where its JSON stands in the file.
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Its line, where that starts, and how long it is.
    pub(super) line: u64,
    pub(super) line_offset: u64,
    pub(super) line_length: u64,
    pub(super) time: i64,
    pub(super) value: u32,
    /// What names it: its id, or its line for one without.
    pub(super) key: u32,
    /// How many nodes before it had the same name.
    pub(super) occurrence: u32,
    /// The node it hangs on.
    pub(super) parent: u32,
    /// The node that its `fromId` or `targetId` names.
    pub(super) reference: u32,
    /// Custom type of what it becomes, by number.
    pub(super) custom_type: u32,
    pub(super) kind: Kind,
    pub(super) has_id: bool,
}

/// A name that nodes have, or that references use.
#[derive(Debug, Clone, Copy)]
struct Key {
    hash: u64,
    start: u32,
    length: u32,
    /// How many nodes have it.
    count: u32,
    /// The first and the last node so far whose id it is.
    first: u32,
    last: u32,
}

/// All names of a file, their texts side by side.
#[derive(Debug, Default)]
pub(super) struct Keys {
    texts: String,
    keys: Vec<Key>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Keys {
    /// The number of the name `text`.
    pub(super) fn get(&mut self, text: &str) -> Result<u32> {
        let hash = self.hasher.hash_one(text);
        let (texts, keys) = (&self.texts, &self.keys);
        let of = |key: &Key| &texts[key.start as usize..(key.start + key.length) as usize];
        if let Some(found) =
            self.table.find(hash, |at| keys[*at as usize].hash == hash && of(&keys[*at as usize]) == text)
        {
            return Ok(*found);
        }
        let too_large = || Error::new(ErrorKind::TooLarge, "the ids of the file take more than 4 GiB");
        let key = number(self.keys.len())?;
        let start = u32::try_from(self.texts.len()).map_err(|_| too_large())?;
        let length = u32::try_from(text.len()).map_err(|_| too_large())?;
        start.checked_add(length).ok_or_else(too_large)?;
        self.table.insert_unique(hash, key, |at| keys[*at as usize].hash);
        self.texts.push_str(text);
        self.keys.push(Key { hash, start, length, count: 0, first: NONE, last: NONE });
        Ok(key)
    }

    /// Notes that `node` has the name; how many had it before.
    pub(super) fn occurs(&mut self, key: u32, node: u32, is_id: bool) -> u32 {
        let key = &mut self.keys[key as usize];
        key.count += 1;
        if is_id {
            if key.first == NONE {
                key.first = node;
            }
            key.last = node;
        }
        key.count - 1
    }

    /// The last node so far with that id.
    pub(super) fn last(&self, key: u32) -> Option<u32> {
        Some(self.keys[key as usize].last).filter(|node| *node != NONE)
    }

    /// The first node of the file with that id.
    pub(super) fn first(&self, key: u32) -> Option<u32> {
        Some(self.keys[key as usize].first).filter(|node| *node != NONE)
    }

    pub(super) fn text(&self, key: u32) -> &str {
        let (start, length) = self.span(key);
        &self.texts[start as usize..(start + length) as usize]
    }

    /// Where the name stands in the texts.
    pub(super) fn span(&self, key: u32) -> (u32, u32) {
        let key = &self.keys[key as usize];
        (key.start, key.length)
    }

    /// All names.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        (0..self.keys.len() as u32).map(|key| self.text(key))
    }

    pub(super) fn into_texts(mut self) -> String {
        self.texts.shrink_to_fit();
        self.texts
    }
}

/// A count of nodes as a number of them.
pub(super) fn number(count: usize) -> Result<u32> {
    u32::try_from(count).ok().filter(|number| *number != NONE).ok_or_else(|| {
        Error::new(ErrorKind::TooLarge, "a session file holds at most 4,294,967,294 entries here")
    })
}
