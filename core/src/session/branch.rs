//! One named path through the entry tree: its tip, queries along it, direct appends.

use std::fmt;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::address::{check_branch_name, reserved};
use crate::model::entry::{Entry, NewEntry};
use crate::model::json::Json;
use crate::model::value::Address;
use crate::model::write::Write;
use crate::session::Session;
use crate::session::entries::Entries;
use crate::session::reader::{SessionReader, branch_tip, sealed::Source};
use crate::storage::query::BranchScan;

/// A branch name that was checked: not empty, without U+0000. It is kept as the address of the branch's tip.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BranchName(Address);

impl BranchName {
    pub(crate) fn new(name: &str) -> Result<Self> {
        check_branch_name(name)?;
        Ok(Self(Address::known(reserved::BRANCH_TIP, name)))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.key()
    }

    /// Where its tip stands.
    pub(crate) fn tip(&self) -> &Address {
        &self.0
    }

    /// The write that moves the branch's tip.
    pub(crate) fn set_tip(&self, tip: Option<&str>) -> Write {
        Write::SetValue(self.tip().clone(), tip.map_or_else(Json::null, Json::string))
    }
}

/// An entry to be appended to a branch: what it is, without id and parent.
#[derive(Debug, Clone, PartialEq)]
pub enum NewNode {
    /// A message.
    Message(Json),
    /// An entry of the application's own type, with or without data.
    Custom(String, Option<Json>),
}

/// A named path of a session. It is a name and holds no state: two of one name are equal.
///
/// What an agent is configured with belongs to a lane; a branch has none of it:
///
/// ```compile_fail,E0599
/// # fn no_configuration(branch: pisession::Branch, ctx: pisession::Context) {
/// branch.set_model("provider", "model", &ctx);
/// # }
/// ```
///
/// ```compile_fail,E0599
/// # fn no_configuration(branch: pisession::Branch, ctx: pisession::Context) {
/// branch.set_value(&pisession::Address::new("app", "key").unwrap(), &pisession::Json::null(), &ctx);
/// # }
/// ```
#[derive(Clone)]
pub struct Branch {
    session: Session,
    name: BranchName,
}

impl Branch {
    pub(crate) fn new(session: Session, name: BranchName) -> Self {
        Self { session, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Its tip; none for a null tip.
    ///
    /// # Errors
    /// [`UnknownBranch`](ErrorKind::UnknownBranch) if it was deleted; see [`SessionReader`].
    pub fn tip_id(&self, ctx: &Context) -> Result<Option<String>> {
        branch_tip(self.session.reads()?, &self.name, ctx)?.ok_or_else(|| self.unknown())
    }

    /// Entries on its path, from the tip, newest first by default.
    ///
    /// # Errors
    /// [`UnknownBranch`](ErrorKind::UnknownBranch) if it was deleted; [`UnknownEntry`](ErrorKind::UnknownEntry)
    /// if its tip names no entry (a damaged file); see [`SessionReader`].
    pub fn find_entries(&self, scan: &BranchScan, ctx: &Context) -> Result<Vec<Entry>> {
        match self.tip_id(ctx)? {
            Some(tip) => self.session.scan_branch(&tip, scan, ctx),
            None => Ok(Vec::new()),
        }
    }

    /// The first of [`find_entries`](Self::find_entries).
    ///
    /// # Errors
    /// As [`find_entries`](Self::find_entries).
    pub fn find_entry(&self, scan: &BranchScan, ctx: &Context) -> Result<Option<Entry>> {
        let scan = BranchScan { limit: Some(scan.limit.unwrap_or(1).min(1)), ..scan.clone() };
        Ok(self.find_entries(&scan, ctx)?.pop())
    }

    /// The same entries one by one, read in pages along the path of the tip it has now: a snapshot, since a
    /// path is immutable, and memory does not grow with it.
    ///
    /// # Errors
    /// As [`tip_id`](Self::tip_id).
    pub fn entries(&self, scan: &BranchScan, ctx: &Context) -> Result<Entries> {
        let tip = self.tip_id(ctx)?;
        Ok(Entries::of_path(self.session.clone(), tip, scan.clone(), ctx.clone()))
    }

    /// Appends a message under the tip and moves the tip, in one commit; the new entry's id.
    ///
    /// # Errors
    /// [`PendingAssistant`](ErrorKind::PendingAssistant); [`UnknownBranch`](ErrorKind::UnknownBranch) if the
    /// branch was deleted; what a commit fails with.
    pub fn append_message(&self, message: &Json, ctx: &Context) -> Result<String> {
        self.append_one(NewNode::Message(message.clone()), ctx)
    }

    /// Appends an entry of the application's own type, with or without data; the new entry's id.
    ///
    /// # Errors
    /// As [`append_message`](Self::append_message).
    pub fn append_custom_entry(
        &self,
        custom_type: &str,
        data: Option<&Json>,
        ctx: &Context,
    ) -> Result<String> {
        self.append_one(NewNode::Custom(custom_type.to_owned(), data.cloned()), ctx)
    }

    fn append_one(&self, node: NewNode, ctx: &Context) -> Result<String> {
        Ok(self.append_many(&[node], ctx)?.swap_remove(0))
    }

    /// Appends several entries, each under the one before, in one commit; their ids.
    ///
    /// # Errors
    /// As [`append_message`](Self::append_message).
    pub fn append_many(&self, nodes: &[NewNode], ctx: &Context) -> Result<Vec<String>> {
        let ids: Vec<String> = nodes.iter().map(|_| self.session.id_generator().next(None)).collect();
        let mut entries: Vec<NewEntry> = Vec::with_capacity(nodes.len());
        for (node, id) in nodes.iter().zip(&ids) {
            let parent = entries.last().map(|before| before.id.as_str());
            let entry = match node {
                NewNode::Message(message) => NewEntry::message(id, parent, message),
                NewNode::Custom(custom_type, data) => {
                    NewEntry::custom(id, parent, custom_type, data.as_ref())
                }
            };
            // What they are is checked by the commit, as for every writer.
            entries.push(entry);
        }
        let Some(last) = ids.last() else { return Ok(ids) };
        self.session.mutate(
            |mutator, ctx| {
                let tip = branch_tip(mutator.reads()?, &self.name, ctx)?.ok_or_else(|| self.unknown())?;
                entries[0].parent_id = tip;
                let mut writes: Vec<Write> = entries.into_iter().map(Write::Entry).collect();
                writes.push(self.name.set_tip(Some(last)));
                mutator.commit(&writes, ctx)
            },
            ctx,
        )?;
        Ok(ids)
    }

    fn unknown(&self) -> Error {
        Error::new(ErrorKind::UnknownBranch, format!("there is no branch '{}'", self.name()))
            .with_id(self.name())
            .with_hint("make it with `create_branch`")
    }
}

impl PartialEq for Branch {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.session.is_same(&other.session)
    }
}

impl Eq for Branch {}

impl fmt::Debug for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branch").field("session", &self.session.id()).field("name", &self.name()).finish()
    }
}
