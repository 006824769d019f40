//! One turn of the mutation line: reads, at most one commit, end.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::id::IdGenerator;
use crate::model::write::{CommitResult, Write};
use crate::session::backend::Backend;
use crate::session::line::Ticket;
use crate::session::reader::{SessionReader, sealed::Source};
use crate::storage::Reads;
use crate::sync::lock;

/// The inside of a mutation: its reads and its one commit, without its end.
///
/// A mutation reads, decides, commits at most once, publishes process-local state and returns. Inside it
/// never run a model request, a tool, a timer, another writer of the same session, or unbounded work: the
/// mutation blocks every writer of the session.
///
/// Its end belongs to whoever began it:
///
/// ```compile_fail,E0624
/// # fn no_end(mutator: &pisession::Mutator) {
/// mutator.end();
/// # }
/// ```
pub struct Mutator {
    session: Arc<dyn Backend>,
    ticket: Ticket,
    attempted: Mutex<bool>,
    ended: AtomicBool,
    span: tracing::Span,
}

impl Mutator {
    /// Applies `writes`, all or nothing. Legal once; the line stays held until the mutation ends.
    ///
    /// # Errors
    /// [`CommitAttempted`](ErrorKind::CommitAttempted) the second time, also after a failed first or
    /// one that its context refused; [`MutationEnded`](ErrorKind::MutationEnded); what the writes are refused for, with nothing written
    /// ([`DuplicateId`](ErrorKind::DuplicateId), [`MissingParent`](ErrorKind::MissingParent),
    /// [`UnknownTarget`](ErrorKind::UnknownTarget), [`PendingAssistant`](ErrorKind::PendingAssistant),
    /// [`ReservedAddress`](ErrorKind::ReservedAddress), [`TooLarge`](ErrorKind::TooLarge), …); what storage
    /// fails with.
    pub fn commit(&self, writes: &[Write], ctx: &Context) -> Result<CommitResult> {
        // Before the lock: in a fork it may be held by a thread that is not there.
        self.session.process().check()?;
        // Held through the commit: `end` waits for it.
        let mut attempted = lock(&self.attempted);
        self.check()?;
        // Noted before anything can be refused: there is one attempt, whatever becomes of it.
        if std::mem::replace(&mut *attempted, true) {
            return Err(Error::new(ErrorKind::CommitAttempted, "the mutation has used its one commit")
                .with_hint("collect all writes of a decision in one commit"));
        }
        ctx.check()?;
        let _entered = self.span.enter();
        self.session.commit(self.ticket, writes, ctx)
    }

    /// The session's id generator.
    pub fn id_generator(&self) -> &Arc<dyn IdGenerator> {
        self.session.ids()
    }

    fn check(&self) -> Result<()> {
        if self.ended.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::MutationEnded, "the mutation has ended")
                .with_hint("begin another one for another decision"));
        }
        Ok(())
    }

    fn end(&self) {
        // In a fork the line is the parent's.
        if self.session.process().check().is_err() {
            return;
        }
        let _admitted = lock(&self.attempted);
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.session.end(self.ticket);
        }
    }
}

impl Source for Mutator {
    fn reads(&self) -> Result<&dyn Reads> {
        self.check()?;
        self.session.touch(self.ticket);
        self.session.reads()
    }
}

impl SessionReader for Mutator {}

impl std::fmt::Debug for Mutator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mutation")
            .field("session", &self.session.metadata().id)
            .field("ended", &self.ended)
            .finish()
    }
}

/// One turn of a session's mutation line, held until [`end`](Self::end) or drop.
///
/// Reads and commit are those of [`Mutator`]. `begin_mutation` is for transport and lifecycle; ordinary code
/// uses [`Session::mutate`](crate::Session::mutate), which ends the mutation on every path.
#[derive(Debug)]
pub struct Mutation {
    mutator: Mutator,
}

impl Mutation {
    pub(crate) fn new(session: Arc<dyn Backend>, ticket: Ticket) -> Self {
        let span = tracing::debug_span!("pisession.mutation", session.id = %session.metadata().id);
        Self {
            mutator: Mutator {
                session,
                ticket,
                attempted: Mutex::new(false),
                ended: AtomicBool::new(false),
                span,
            },
        }
    }

    /// Waits for an admitted commit, ends the mutation and releases the line. Idempotent, and legal without
    /// a commit.
    pub fn end(&self) {
        self.mutator.end();
    }
}

impl Deref for Mutation {
    type Target = Mutator;

    fn deref(&self) -> &Mutator {
        &self.mutator
    }
}

impl Drop for Mutation {
    fn drop(&mut self) {
        self.mutator.end();
    }
}
