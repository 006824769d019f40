//! Session and Branch: global durable data, named paths through the tree, and the one mutation line.

pub(crate) mod backend;
pub(crate) mod branch;
pub(crate) mod check;
mod dump;
pub(crate) mod entries;
pub(crate) mod line;
pub(crate) mod mutation;
pub(crate) mod reader;

use std::path::Path;
use std::sync::Arc;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::legacy::Legacy;
use crate::model::address as addresses;
use crate::model::entry::{Entry, EntryType};
use crate::model::id::IdGenerator;
use crate::model::json::Json;
use crate::model::usage::UsageRow;
use crate::model::value::{Address, Value};
use crate::model::write::{CommitResult, Write};
use crate::session::backend::{Backend, SessionMetadata};
use crate::session::branch::{Branch, BranchName};
use crate::session::entries::Entries;
use crate::session::mutation::{Mutation, Mutator};
use crate::session::reader::{SessionReader, branch_tip, sealed::Source, stored_text};
use crate::sql::{Rows, SqlValue};
use crate::storage::copy::{Planner, Sink};
use crate::storage::jsonl::compact::Compaction;
use crate::storage::jsonl::state::Gap;
use crate::storage::query::{EntryScan, Order, UsageScan};
use crate::storage::{Reads, Storage};

/// Which entries of a session to find. Default: all, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryQuery {
    /// Only entries of this type.
    pub entry_type: Option<EntryType>,
    /// Only custom entries of this type.
    pub custom_type: Option<String>,
    /// From this `seq` on, inclusive.
    pub from_seq: Option<u64>,
    /// Up to this `seq`, inclusive.
    pub to_seq: Option<u64>,
    /// Only entries beyond this `seq`: below it descending, above it ascending.
    pub cursor: Option<u64>,
    /// Descending by default.
    pub order: Order,
    /// At most so many; 0 gives none.
    pub limit: Option<u64>,
}

impl Default for EntryQuery {
    fn default() -> Self {
        Self {
            entry_type: None,
            custom_type: None,
            from_seq: None,
            to_seq: None,
            cursor: None,
            order: Order::Descending,
            limit: None,
        }
    }
}

impl EntryQuery {
    fn scan(&self) -> EntryScan {
        let (mut from_seq, mut to_seq) = (self.from_seq, self.to_seq);
        let mut limit = self.limit;
        match (self.cursor, self.order) {
            (Some(cursor), Order::Ascending) => {
                from_seq = Some(from_seq.unwrap_or(0).max(cursor.saturating_add(1)))
            }
            (Some(0), Order::Descending) => limit = Some(0),
            (Some(cursor), Order::Descending) => to_seq = Some(to_seq.unwrap_or(u64::MAX).min(cursor - 1)),
            (None, _) => {}
        }
        EntryScan {
            entry_type: self.entry_type,
            custom_type: self.custom_type.clone(),
            from_seq,
            to_seq,
            order: self.order,
            limit,
        }
    }
}

/// A branch and where it points.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BranchInfo {
    /// Its name.
    pub name: String,
    /// Its tip; none for a null tip.
    pub tip_id: Option<String>,
}

/// One open session: its global durable data and its one mutation line.
///
/// A session has no branch of its own: `main` is an ordinary name. Handles are cheap to clone, may be used
/// from any thread, and share the session; the last one dropped without [`close`](Self::close) releases the
/// session's lock as a crash would, without loss.
///
/// What belongs to one path is on its [`Branch`]; a session has no such method:
///
/// ```compile_fail,E0599
/// # fn no_appends(session: pisession::Session, ctx: pisession::Context) {
/// session.append_message(&pisession::Json::null(), &ctx);
/// # }
/// ```
///
/// ```compile_fail,E0599
/// # fn no_tip(session: pisession::Session, ctx: pisession::Context) {
/// session.tip_id(&ctx);
/// # }
/// ```
#[derive(Clone)]
pub struct Session(Arc<dyn Backend>);

impl Session {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        Self(backend)
    }

    /// What the session says of itself.
    pub fn metadata(&self) -> &SessionMetadata {
        self.0.metadata()
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.0.metadata().id
    }

    /// Where its new ids come from.
    pub fn id_generator(&self) -> &Arc<dyn IdGenerator> {
        self.0.ids()
    }

    /// What reading an old file found: its warnings, its usage and the map of its ids. None for a session that
    /// was not opened from one; a copy or an upgraded file has it from the open that made it.
    pub fn legacy(&self) -> Option<&Legacy> {
        self.0.legacy()
    }

    /// The entry of that id; none when there is none.
    ///
    /// # Errors
    /// See [`SessionReader`].
    pub fn get_entry(&self, id: &str, ctx: &Context) -> Result<Option<Entry>> {
        Ok(self.get_entries(&[id], ctx)?.pop())
    }

    /// Entries of the whole session, newest first by default. Give a limit, or use [`entries`](Self::entries)
    /// for a session that is large.
    ///
    /// # Errors
    /// See [`SessionReader`].
    pub fn find_entries(&self, query: &EntryQuery, ctx: &Context) -> Result<Vec<Entry>> {
        self.0.reads()?.scan_entries(&query.scan(), ctx)
    }

    /// The first of [`find_entries`](Self::find_entries).
    ///
    /// # Errors
    /// See [`SessionReader`].
    pub fn find_entry(&self, query: &EntryQuery, ctx: &Context) -> Result<Option<Entry>> {
        let query = EntryQuery { limit: Some(query.limit.unwrap_or(1).min(1)), ..query.clone() };
        Ok(self.find_entries(&query, ctx)?.pop())
    }

    /// The same entries one by one, read in pages: memory does not grow with the session.
    pub fn entries(&self, query: &EntryQuery, ctx: &Context) -> Entries {
        Entries::of_session(self.clone(), query.clone(), ctx.clone())
    }

    /// Rows of the ledger.
    ///
    /// # Errors
    /// See [`SessionReader`].
    pub fn scan_usage(&self, scan: &UsageScan, ctx: &Context) -> Result<Vec<UsageRow>> {
        self.0.reads()?.scan_usage(scan, ctx)
    }

    /// Addresses that hold a value, ascending by namespace and key, after `after`, at most `limit`.
    ///
    /// # Errors
    /// See [`SessionReader`].
    pub fn value_addresses(
        &self,
        after: Option<&Address>,
        limit: usize,
        ctx: &Context,
    ) -> Result<Vec<Address>> {
        self.0.reads()?.value_addresses(after, limit, ctx)
    }

    /// Addresses that hold a list, ascending by namespace and key, after `after`, at most `limit`.
    ///
    /// # Errors
    /// See [`SessionReader`].
    pub fn list_addresses(
        &self,
        after: Option<&Address>,
        limit: usize,
        ctx: &Context,
    ) -> Result<Vec<Address>> {
        self.0.reads()?.list_addresses(after, limit, ctx)
    }

    /// The `seq` the next commit starts at.
    ///
    /// # Errors
    /// See [`SessionReader`].
    pub fn next_seq(&self, ctx: &Context) -> Result<u64> {
        self.0.reads()?.next_seq(ctx)
    }

    /// The session's name; none when it has none.
    ///
    /// # Errors
    /// See [`SessionReader`].
    pub fn name(&self, ctx: &Context) -> Result<Option<String>> {
        stored_text(self.0.reads()?, &addresses::session_name(), ctx)
    }

    /// The label of an entry; none when it has none.
    ///
    /// # Errors
    /// See [`SessionReader`].
    pub fn get_label(&self, entry_id: &str, ctx: &Context) -> Result<Option<String>> {
        let reads = self.0.reads()?;
        // What is no id has no label.
        let Ok(label) = addresses::entry_label(entry_id) else { return ctx.check().map(|()| None) };
        stored_text(reads, &label, ctx)
    }

    /// The branch of that name; none when there is none.
    ///
    /// # Errors
    /// See [`SessionReader`].
    pub fn branch(&self, name: &str, ctx: &Context) -> Result<Option<Branch>> {
        let reads = self.0.reads()?;
        let Ok(name) = BranchName::new(name) else { return Ok(None) };
        let tip = branch_tip(reads, &name, ctx)?;
        Ok(tip.map(|_| Branch::new(self.clone(), name)))
    }

    /// All branches with their tips, names ascending.
    ///
    /// # Errors
    /// See [`SessionReader`].
    pub fn branches(&self, ctx: &Context) -> Result<Vec<BranchInfo>> {
        let stored = self.scan_values(&addresses::branch_tip_inventory_prefix(), ctx)?;
        Ok(stored
            .into_iter()
            .map(|tip| BranchInfo {
                name: tip.address.key().to_owned(),
                tip_id: tip.value.as_text().map(|id| id.into_owned()),
            })
            .collect())
    }

    /// Makes a branch at an entry (none for an empty branch). It writes the tip and nothing else.
    ///
    /// # Errors
    /// [`InvalidBranch`](ErrorKind::InvalidBranch), [`BranchExists`](ErrorKind::BranchExists),
    /// [`UnknownTarget`](ErrorKind::UnknownTarget); what a commit fails with.
    pub fn create_branch(&self, name: &str, at: Option<&str>, ctx: &Context) -> Result<Branch> {
        let name = BranchName::new(name)?;
        self.mutate(
            |mutator, ctx| {
                if branch_tip(mutator.reads()?, &name, ctx)?.is_some() {
                    return Err(Error::new(
                        ErrorKind::BranchExists,
                        format!("a branch '{}' exists already", name.as_str()),
                    )
                    .with_id(name.as_str())
                    .with_hint("get it with `branch`"));
                }
                mutator.commit(&[name.set_tip(at)], ctx)
            },
            ctx,
        )?;
        Ok(Branch::new(self.clone(), name))
    }

    /// Sets or replaces a value.
    ///
    /// # Errors
    /// What a commit fails with.
    pub fn set_value(&self, address: &Address, value: &Json, ctx: &Context) -> Result<()> {
        self.write(Write::SetValue(address.clone(), value.clone()), ctx).map(drop)
    }

    /// Deletes a value; fine when it is absent.
    ///
    /// # Errors
    /// What a commit fails with.
    pub fn delete_value(&self, address: &Address, ctx: &Context) -> Result<()> {
        self.write(Write::DeleteValue(address.clone()), ctx).map(drop)
    }

    /// Appends an element to a list.
    ///
    /// # Errors
    /// What a commit fails with.
    pub fn append_list(&self, address: &Address, element: &Json, ctx: &Context) -> Result<()> {
        self.write(Write::AppendList(address.clone(), element.clone()), ctx).map(drop)
    }

    /// Deletes a whole list; fine when it is absent.
    ///
    /// # Errors
    /// What a commit fails with.
    pub fn delete_list(&self, address: &Address, ctx: &Context) -> Result<()> {
        self.write(Write::DeleteList(address.clone()), ctx).map(drop)
    }

    /// Sets the session's name; none deletes it.
    ///
    /// # Errors
    /// What a commit fails with.
    pub fn set_name(&self, name: Option<&str>, ctx: &Context) -> Result<()> {
        self.set_text(&addresses::session_name(), name, ctx)
    }

    /// Labels an entry; none deletes the label. The entry need not exist.
    ///
    /// # Errors
    /// [`InvalidId`](ErrorKind::InvalidId); what a commit fails with.
    pub fn set_label(&self, entry_id: &str, label: Option<&str>, ctx: &Context) -> Result<()> {
        self.set_text(&addresses::entry_label(entry_id)?, label, ctx)
    }

    fn set_text(&self, place: &Value<String>, text: Option<&str>, ctx: &Context) -> Result<()> {
        let write = match text {
            Some(text) => Write::SetValue(place.address().clone(), Json::string(text)),
            None => place.delete(),
        };
        self.write(write, ctx).map(drop)
    }

    fn write(&self, write: Write, ctx: &Context) -> Result<CommitResult> {
        self.mutate(|mutator, ctx| mutator.commit(std::slice::from_ref(&write), ctx), ctx)
    }

    /// Waits for its turn on the mutation line and returns it. Whoever calls it ends it on every path;
    /// dropping it does. Ordinary code uses [`mutate`](Self::mutate).
    ///
    /// There is one line, and it has no name:
    ///
    /// ```compile_fail,E0061
    /// # fn keyless(session: pisession::Session, ctx: pisession::Context) {
    /// session.begin_mutation("main", &ctx);
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed), [`Cancelled`](ErrorKind::Cancelled),
    /// [`DeadlineExceeded`](ErrorKind::DeadlineExceeded); [`NestedMutation`](ErrorKind::NestedMutation) if
    /// this thread holds the line itself.
    pub fn begin_mutation(&self, ctx: &Context) -> Result<Mutation> {
        let ticket = self.0.begin(ctx)?;
        Ok(Mutation::new(Arc::clone(&self.0), ticket))
    }

    /// [`begin_mutation`](Self::begin_mutation) for async callers: same line, same order. A deadline in
    /// `ctx` needs a tokio runtime with time enabled.
    ///
    /// # Errors
    /// As [`begin_mutation`](Self::begin_mutation), for the task in place of the thread.
    pub async fn begin_mutation_async(&self, ctx: &Context) -> Result<Mutation> {
        let ticket = self.0.begin_async(ctx).await?;
        Ok(Mutation::new(Arc::clone(&self.0), ticket))
    }

    /// Runs `f` on the mutation line: begin, `f`, end, whatever happens in `f`. A commit made before `f`
    /// failed stays.
    ///
    /// `f` reads, decides, commits at most once and returns. It must not wait for anything, least of all for
    /// another writer of this session: that is refused as `NestedMutation` on this thread, and hangs until
    /// the context's deadline if another thread does it for `f`.
    ///
    /// ```
    /// use pisession::{Address, Context, Error, Json, SessionReader, Write, open_repository};
    ///
    /// let ctx = Context::background();
    /// let session = open_repository("memory:", Default::default())?.create(&Default::default(), &ctx)?;
    /// let counter = Address::new("app", "counter")?;
    /// let count = session.mutate(|mutator, ctx| {
    ///     let count = match mutator.get_value(&counter, ctx)? {
    ///         Some(stored) => stored.value.read::<u64>()? + 1,
    ///         None => 1,
    ///     };
    ///     mutator.commit(&[Write::SetValue(counter.clone(), Json::of(&count)?)], ctx)?;
    ///     Ok::<_, Error>(count)
    /// }, &ctx)?;
    /// assert_eq!(count, 1);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// The line has no name to give:
    ///
    /// ```compile_fail,E0061
    /// # fn keyless(session: pisession::Session, ctx: pisession::Context) {
    /// session.mutate("main", |_, _| Ok::<_, pisession::Error>(()), &ctx);
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`begin_mutation`](Self::begin_mutation), and what `f` fails with.
    pub fn mutate<T, E: From<Error>>(
        &self,
        f: impl FnOnce(&Mutator, &Context) -> Result<T, E>,
        ctx: &Context,
    ) -> Result<T, E> {
        let mutation = self.begin_mutation(ctx)?;
        f(&mutation, ctx)
    }

    /// [`mutate`](Self::mutate) for async callers: only the wait for the line is awaited, `f` runs as one
    /// synchronous call.
    ///
    /// # Errors
    /// As [`mutate`](Self::mutate).
    pub async fn mutate_async<T, E: From<Error>>(
        &self,
        f: impl FnOnce(&Mutator, &Context) -> Result<T, E>,
        ctx: &Context,
    ) -> Result<T, E> {
        let mutation = self.begin_mutation_async(ctx).await?;
        f(&mutation, ctx)
    }

    /// Runs one read-only SQL statement over the documented views of this session, on a connection of its
    /// own. The context interrupts it.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) where the session is not kept in SQLite,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for SQL that is wrong or would write.
    pub fn query(&self, sql: &str, parameters: &[SqlValue], ctx: &Context) -> Result<Rows> {
        self.0.storage()?.query(sql, parameters, ctx)
    }

    /// Copies the session, as it is now, into a new single file, while it stays in use.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) where the session is not kept in SQLite;
    /// [`SessionExists`](ErrorKind::SessionExists) if there is a file at `path`.
    pub fn backup_to(&self, path: impl AsRef<Path>, ctx: &Context) -> Result<()> {
        self.0.storage()?.backup_to(path.as_ref(), ctx)
    }

    /// Rewrites the session's file with what is alive: overwritten values, deleted lists and the like leave
    /// it. The old file stays until the new one is whole; readers follow. Closing does it when more is dead
    /// than alive.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) where the session is not kept as JSON lines;
    /// [`ReadOnly`](ErrorKind::ReadOnly); [`Full`](ErrorKind::Full) and [`Io`](ErrorKind::Io), with the old
    /// file as it was.
    pub fn compact(&self, ctx: &Context) -> Result<Compaction> {
        self.0.storage()?.compact(ctx)
    }

    /// Damage that opening with `salvage` read past.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed).
    pub fn gaps(&self) -> Result<Vec<Gap>> {
        Ok(self.0.storage()?.gaps().to_vec())
    }

    /// Refuses new mutations and reads, fails the mutations that wait, waits for what has begun to end, then
    /// closes storage. Idempotent. Afterwards every handle of this session fails with `Closed`.
    ///
    /// # Errors
    /// [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) or [`Cancelled`](ErrorKind::Cancelled) while a mutation,
    /// read, query or backup does not end: the session takes no new work and keeps its lock until it is closed
    /// again; [`NestedMutation`](ErrorKind::NestedMutation) from inside it.
    pub fn close(&self, ctx: &Context) -> Result<()> {
        self.0.close(ctx)
    }
}

impl Source for Session {
    fn reads(&self) -> Result<&dyn Reads> {
        self.0.reads()
    }
}

impl SessionReader for Session {}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(&self.id()).finish()
    }
}

impl Session {
    /// Notes what reading the file found that this session was made from.
    pub(crate) fn set_legacy(&self, legacy: Legacy) {
        self.0.set_legacy(legacy);
    }

    pub(crate) fn storage(&self) -> Result<&dyn Storage> {
        self.0.storage()
    }

    /// Copies what `plan` names, over one boundary between commits.
    pub(crate) fn copy_into(&self, plan: &mut Planner<'_>, into: &mut dyn Sink, ctx: &Context) -> Result<()> {
        self.0.storage()?.copy(plan, into, ctx)
    }

    /// Whether both are handles of one open session.
    pub(crate) fn is_same(&self, other: &Session) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
