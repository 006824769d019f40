//! What entries are called in a file of version 3: as they were in the file they came from, or by eight hex
//! digits derived from the session's id and theirs, so that every export gives the same ones.

use std::collections::{HashMap, HashSet};

use sha2::{Digest as _, Sha256};

use crate::legacy::restore::{OldIds, Restored};
use crate::storage::indexed_id::IndexedId;

/// The names of the entries that are in the file.
pub(super) struct Names {
    hash: Sha256,
    /// None for an entry to which no line can refer.
    by_id: HashMap<IndexedId, Option<Box<str>>>,
    /// The names that entries shall have, where they are known before.
    wanted: HashMap<IndexedId, Box<str>>,
    /// Names that nothing new may have.
    taken: HashSet<Box<str>>,
    has_nameless: bool,
}

impl Names {
    fn of(session_id: &str) -> Self {
        Self {
            hash: Sha256::new_with_prefix(session_id).chain_update([0]),
            by_id: HashMap::new(),
            wanted: HashMap::new(),
            taken: HashSet::new(),
            has_nameless: false,
        }
    }

    /// For a file that goes on behind the lines of an old one.
    pub(super) fn behind(session_id: &str, restored: &Restored) -> Self {
        let mut names = Self::of(session_id);
        names.taken.extend(restored.scanned.keys.all().map(Box::from));
        for (id, node) in restored.entries() {
            let name = restored.name(node).map(Box::from);
            names.has_nameless |= name.is_none();
            names.by_id.insert(IndexedId::Uuid(id), name);
        }
        names
    }

    /// For a file that is written anew. An old name that two entries had stays with the first.
    pub(super) fn anew(session_id: &str, old: &OldIds) -> Self {
        let mut names = Self::of(session_id);
        for (id, name) in &old.pairs {
            if names.taken.insert(name.clone()) {
                names.wanted.insert(IndexedId::of(id).into_owned(), name.clone());
            }
        }
        names
    }

    /// Whether some entry cannot be referred to: it has no name, or another one after it has it too.
    pub(super) fn has_nameless(&self) -> bool {
        self.has_nameless
    }

    /// The name of an entry that is in the file.
    pub(super) fn get(&self, id: &str) -> Option<&str> {
        self.by_id.get(&IndexedId::of(id).into_owned())?.as_deref()
    }

    /// Whether the entry is in the file.
    pub(super) fn holds(&self, id: &str) -> bool {
        self.by_id.contains_key(&IndexedId::of(id).into_owned())
    }

    /// Names an entry, which is in the file from here on.
    pub(super) fn give(&mut self, id: &str) -> String {
        let key = IndexedId::of(id).into_owned();
        let name = match self.wanted.remove(&key) {
            Some(name) => name.into_string(),
            None => self.mint(id),
        };
        self.by_id.insert(key, Some(name.as_str().into()));
        name
    }

    /// A new name for what `key` stands for.
    pub(super) fn mint(&mut self, key: &str) -> String {
        let mut attempt = 0_u64;
        loop {
            let mut hash = self.hash.clone().chain_update(key);
            if attempt > 0 {
                hash.update(format!("\0{attempt}"));
            }
            let name: String = hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            if self.taken.insert(name.as_str().into()) {
                return name;
            }
            attempt += 1;
        }
    }
}
