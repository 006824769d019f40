//! What a file of version 3 cannot hold of a session.

use std::collections::BTreeMap;
use std::fmt;

use crate::model::json::push_quoted;
use crate::model::value::Address;

/// What a [`Loss`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LossKind {
    /// Values of applications. One record for each namespace.
    Value,
    /// Lists of applications. One record for each namespace; counted are lists.
    List,
    /// Rows of the ledger, but for the one that an import makes.
    UsageRow,
    /// A branch other than the exported file's one, or that one's name where it is not `main`.
    Branch,
    /// Configuration of lanes that the exported branch is not.
    Lane,
    /// The exported branch's configuration: it is not one that version 3 can say, or it was deleted and the
    /// old lines still say it.
    Configuration,
    /// Results of operations.
    Result,
    /// Operations that have not ended: what waits for them and what they go on from.
    Operation,
    /// Labels of entries that are not there.
    Label,
    /// Messages that a compaction keeps and that are no entries directly above it. The program that opens
    /// the file sees less, or another summary among them.
    RetainedTail,
    /// A field of entries that version 3 does not have. One record for each field.
    EntryField,
    /// References to entries that are not in the file.
    Reference,
    /// Lines of the file that the session came from which are not written as they were: fields that no entry
    /// has, and where in its history names, labels and configuration changed.
    OldLine,
    /// The session's parent, whose path is not known here.
    Parent,
    /// The working folder, which version 3 asks for and the session does not have.
    WorkingFolder,
}

impl LossKind {
    /// Its stable name, for example `usage_row`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::List => "list",
            Self::UsageRow => "usage_row",
            Self::Branch => "branch",
            Self::Lane => "lane",
            Self::Configuration => "configuration",
            Self::Result => "result",
            Self::Operation => "operation",
            Self::Label => "label",
            Self::RetainedTail => "retained_tail",
            Self::EntryField => "entry_field",
            Self::Reference => "reference",
            Self::OldLine => "old_line",
            Self::Parent => "parent",
            Self::WorkingFolder => "working_folder",
        }
    }
}

impl fmt::Display for LossKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One kind of thing that the session has and the file has not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Loss {
    /// What it is about.
    pub kind: LossKind,
    /// How many of them.
    pub count: u64,
    /// The namespace, branch or field.
    pub name: Option<String>,
    /// The address of the first of them, for values and lists.
    pub address: Option<Address>,
    /// The first entry, for what belongs to entries.
    pub entry_id: Option<String>,
}

impl Loss {
    /// What is not in the file, in plain words.
    pub fn message(&self) -> String {
        let count = self.count;
        let name = self.name.as_deref().unwrap_or_default();
        let first = self.entry_id.as_deref().unwrap_or_default();
        let some = |one: &str, many: &str| {
            if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
        };
        match self.kind {
            LossKind::Value => format!("{} in {name}", some("value", "values")),
            LossKind::List => format!("{} in {name}", some("list", "lists")),
            LossKind::UsageRow => some("row of the ledger", "rows of the ledger"),
            LossKind::Branch => format!("the branch name '{name}'"),
            LossKind::Lane => some("other branch's configuration", "configurations of other branches"),
            LossKind::Configuration => {
                "the branch's configuration, which differs from what the file says".into()
            }
            LossKind::Result => some("result of an operation", "results of operations"),
            LossKind::Operation => {
                format!("{} of operations that have not ended ({name})", some("value", "values"))
            }
            LossKind::Label => {
                some("label of an entry that is not there", "labels of entries that are not there")
            }
            LossKind::RetainedTail => format!(
                "kept messages of {}, first {first}",
                some(
                    "compaction that are not the entries above it",
                    "compactions that are not the entries above them"
                )
            ),
            LossKind::EntryField => {
                format!("the field '{name}' of {}, first {first}", some("entry", "entries"))
            }
            LossKind::Reference => {
                format!(
                    "{} to entries that are not in the file, first of {first}",
                    some("reference", "references")
                )
            }
            LossKind::OldLine => some("line of the old file as it was", "lines of the old file as they were"),
            LossKind::Parent => format!("the parent session '{name}', whose path is not known"),
            LossKind::WorkingFolder => "a working folder, which the session does not have".into(),
        }
    }
}

impl Loss {
    pub(super) fn push_json(&self, out: &mut String) {
        out.push_str(&format!("{{\"kind\":\"{}\",\"count\":{}", self.kind, self.count));
        for (field, text) in [
            ("name", self.name.as_deref()),
            ("namespace", self.address.as_ref().map(Address::namespace)),
            ("key", self.address.as_ref().map(Address::key)),
            ("entryId", self.entry_id.as_deref()),
            ("message", Some(&*self.message())),
        ] {
            if let Some(text) = text {
                out.push_str(&format!(",\"{field}\":"));
                push_quoted(out, text);
            }
        }
        out.push('}');
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message(), self.kind)
    }
}

/// Counts what is lost.
#[derive(Debug, Default)]
pub(super) struct Losses(BTreeMap<(LossKind, String), Loss>);

impl Losses {
    /// One more of `kind`, grouped by `name`.
    pub(super) fn add(&mut self, kind: LossKind, name: &str) -> &mut Loss {
        let loss = self.0.entry((kind, name.to_owned())).or_insert_with(|| Loss {
            kind,
            count: 0,
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            address: None,
            entry_id: None,
        });
        loss.count += 1;
        loss
    }

    pub(super) fn of_address(&mut self, kind: LossKind, address: &Address) {
        let loss = self.add(kind, address.namespace());
        loss.address.get_or_insert_with(|| address.clone());
    }

    pub(super) fn of_entry(&mut self, kind: LossKind, name: &str, id: &str) {
        let loss = self.add(kind, name);
        loss.entry_id.get_or_insert_with(|| id.to_owned());
    }

    pub(super) fn into_records(self) -> Vec<Loss> {
        self.0.into_values().collect()
    }
}
