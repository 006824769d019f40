//! The seam under `Session`: what a session is made of, wherever it lives.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::legacy::Legacy;
use crate::model::id::IdGenerator;
use crate::model::write::{CommitResult, Write};
use crate::process::Process;
use crate::session::line::{Line, Owner, Ticket};
use crate::storage::{Reads, Storage};
use crate::sync::lock;

/// What a session says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionMetadata {
    /// Its id, unique in its repository.
    pub id: String,
    /// When it was made, Unix ms.
    pub created_at: i64,
    /// Version of the stored form.
    pub storage_version: u32,
    /// The working folder it was made for.
    pub cwd: Option<String>,
    /// The session it was forked or copied from.
    pub parent_session_id: Option<String>,
    /// The file of an old session it came from, where that has no id here.
    pub legacy_parent_session_path: Option<String>,
    /// The file it is kept in.
    pub path: Option<PathBuf>,
}

pub(crate) type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A session, wherever it lives. `Session`, `Mutation` and `Branch` are written once above it.
pub(crate) trait Backend: Send + Sync {
    fn metadata(&self) -> &SessionMetadata;
    fn ids(&self) -> &Arc<dyn IdGenerator>;
    /// The process it was opened in.
    fn process(&self) -> Process;
    /// The reads; `Closed` after close, `Forked` in a child. A begun scope reads through them too, and may
    /// while `close` waits for it to end.
    fn reads(&self) -> Result<&dyn Reads>;
    fn begin(&self, ctx: &Context) -> Result<Ticket>;
    fn begin_async<'a>(&'a self, ctx: &'a Context) -> Waiting<'a, Result<Ticket>>;
    /// Notes that the calling thread uses the scope.
    fn touch(&self, ticket: Ticket);
    /// Of a scope of this process: the mutation has checked that.
    fn commit(&self, ticket: Ticket, writes: &[Write], ctx: &Context) -> Result<CommitResult>;
    fn end(&self, ticket: Ticket);
    fn close(&self, ctx: &Context) -> Result<()>;
    fn storage(&self) -> Result<&dyn Storage>;
    /// What reading an old file found; none for a session that came from none.
    fn legacy(&self) -> Option<&Legacy>;
    /// Notes what reading the file found that this session was made from. Once.
    fn set_legacy(&self, legacy: Legacy);
}

/// What is released when a session closes or is dropped: its lock, its place among the open ones.
pub(crate) type Lease = Box<dyn Send + Sync>;

/// What closes after storage and before the lease is released; idempotent, and none of several callers returns
/// before it is done. Only dropped when the session is.
pub(crate) type Finish = Box<dyn Fn(&Context) -> Result<()> + Send + Sync>;

/// A session of this process over its storage.
pub(crate) struct LocalSession {
    metadata: SessionMetadata,
    ids: Arc<dyn IdGenerator>,
    storage: Option<Box<dyn Storage>>,
    line: Line,
    closed: AtomicBool,
    finish: Option<Finish>,
    lease: Mutex<Option<Lease>>,
    process: Process,
    legacy: OnceLock<Legacy>,
}

impl LocalSession {
    pub(crate) fn new(
        metadata: SessionMetadata,
        ids: Arc<dyn IdGenerator>,
        storage: Box<dyn Storage>,
        lease: Option<Lease>,
        legacy: Option<Legacy>,
    ) -> Self {
        Self {
            metadata,
            ids,
            storage: Some(storage),
            line: Line::default(),
            closed: AtomicBool::new(false),
            finish: None,
            lease: Mutex::new(lease),
            process: Process::current(),
            legacy: legacy.map(OnceLock::from).unwrap_or_default(),
        }
    }

    /// The same session, which does this too when it closes.
    pub(crate) fn finishing_with(mut self, finish: Finish) -> Self {
        self.finish = Some(finish);
        self
    }

    /// The error of a close that was given up.
    fn is_closing(&self, error: Error) -> Error {
        let message = match error.kind() {
            ErrorKind::DeadlineExceeded => "the call's deadline passed before the session was closed",
            ErrorKind::Cancelled => "the call's context was cancelled before the session was closed",
            _ => return error,
        };
        Error::new(error.kind(), message)
            .with_id(&self.metadata.id)
            .with_hint("it takes no new work and is still locked; close it again to finish")
    }

    fn open_storage(&self) -> Result<&dyn Storage> {
        self.process.check()?;
        match &self.storage {
            Some(storage) if !self.closed.load(Ordering::Acquire) => Ok(storage.as_ref()),
            _ => Err(crate::storage::closed()),
        }
    }
}

/// Whether closing was given up before its end.
fn gave_up(closed: &Result<()>) -> bool {
    matches!(closed, Err(error) if error.kind() == ErrorKind::DeadlineExceeded || error.kind() == ErrorKind::Cancelled)
}

impl Backend for LocalSession {
    fn metadata(&self) -> &SessionMetadata {
        &self.metadata
    }

    fn ids(&self) -> &Arc<dyn IdGenerator> {
        &self.ids
    }

    fn process(&self) -> Process {
        self.process
    }

    fn reads(&self) -> Result<&dyn Reads> {
        Ok(self.open_storage()?)
    }

    fn storage(&self) -> Result<&dyn Storage> {
        self.open_storage()
    }

    fn begin(&self, ctx: &Context) -> Result<Ticket> {
        self.process.check()?;
        let span = tracing::debug_span!("pisession.mutation.wait", session.id = %self.metadata.id);
        span.in_scope(|| self.line.begin(ctx))
    }

    fn begin_async<'a>(&'a self, ctx: &'a Context) -> Waiting<'a, Result<Ticket>> {
        use tracing::Instrument as _;
        let span = tracing::debug_span!("pisession.mutation.wait", session.id = %self.metadata.id);
        Box::pin(
            async move {
                self.process.check()?;
                self.line.begin_async(ctx).await
            }
            .instrument(span),
        )
    }

    fn touch(&self, ticket: Ticket) {
        self.line.used_by(ticket, Owner::current());
    }

    fn commit(&self, ticket: Ticket, writes: &[Write], ctx: &Context) -> Result<CommitResult> {
        self.line.used_by(ticket, Owner::current());
        let count = |counted: fn(&Write) -> bool| writes.iter().filter(|write| counted(write)).count();
        let span = tracing::debug_span!(
            "pisession.commit",
            session.id = %self.metadata.id,
            traceparent = ctx.traceparent(),
            entries = count(|write| matches!(write, Write::Entry(_))),
            usage = count(|write| matches!(write, Write::Usage(_))),
            values = count(|write| matches!(write, Write::SetValue(..) | Write::DeleteValue(_))),
            lists = count(|write| matches!(write, Write::AppendList(..) | Write::DeleteList(_))),
            first_seq = tracing::field::Empty,
            last_seq = tracing::field::Empty,
        );
        let _entered = span.enter();
        // A scope that began before `close` may still commit: storage closes after it has ended.
        let storage = self.storage.as_ref().ok_or_else(crate::storage::closed)?;
        let result = storage.commit(writes, ctx)?;
        if let (Some(first), Some(last)) = (result.seqs.first(), result.seqs.last()) {
            span.record("first_seq", first);
            span.record("last_seq", last);
        }
        Ok(result)
    }

    fn end(&self, ticket: Ticket) {
        self.line.end(ticket);
    }

    fn close(&self, ctx: &Context) -> Result<()> {
        self.process.check()?;
        self.line.seal(ctx).map_err(|error| self.is_closing(error))?;
        // Nothing is locked while this waits: several may, each as long as it can, and all do the same.
        let mut closed = self.storage.as_ref().map_or(Ok(()), |storage| storage.close(ctx));
        if let Some(finish) = &self.finish
            && !gave_up(&closed)
        {
            closed = closed.and(finish(ctx));
        }
        if gave_up(&closed) {
            return closed.map_err(|error| self.is_closing(error));
        }
        self.closed.store(true, Ordering::Release);
        // Of two closes neither returns before the lease is released.
        let mut lease = lock(&self.lease);
        drop(lease.take());
        closed
    }

    fn legacy(&self) -> Option<&Legacy> {
        self.legacy.get()
    }

    fn set_legacy(&self, legacy: Legacy) {
        self.legacy.get_or_init(|| legacy);
    }
}

impl Drop for LocalSession {
    fn drop(&mut self) {
        if self.process.check().is_err() {
            // In a forked child nothing may be released that belongs to the parent.
            std::mem::forget(self.storage.take());
            std::mem::forget(self.finish.take());
            std::mem::forget(lock(&self.lease).take());
        }
    }
}
