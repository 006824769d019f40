//! The mutation line: one per open session, keyless, first come first served.
//!
//! It is one FIFO queue for blocking and async callers alike. It protects read-decide-commit-publish
//! procedures and knows nothing of storage; storage's own queue protects atomic application and `seq`.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};
use std::thread::ThreadId;

use crate::context::{Context, deadline_exceeded};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;
use crate::wait::wait;

/// Names one scope of the line.
pub(crate) type Ticket = u64;

/// The line.
#[derive(Debug, Default)]
pub(crate) struct Line {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    holder: Option<Holder>,
    queue: VecDeque<Arc<Waiter>>,
    /// Those who wait for the last scope to end, without wanting one.
    closers: Vec<Arc<Waiter>>,
    sealed: bool,
    last_ticket: Ticket,
}

#[derive(Debug)]
struct Holder {
    ticket: Ticket,
    /// Who began or last used the scope; none until a waiter that was granted has taken note.
    owner: Option<Owner>,
}

/// Whom a scope belongs to, and who asks for one: a thread, and the task it runs, if any.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    thread: ThreadId,
    task: Option<tokio::task::Id>,
}

/// How a caller waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// Its thread sleeps.
    Blocking,
    /// Its task does; the thread goes on with others.
    Async,
}

impl Owner {
    /// The caller.
    pub(crate) fn current() -> Self {
        Self { thread: std::thread::current().id(), task: tokio::task::try_id() }
    }

    /// Whether this caller would hold up the scope it waits for, which is `holder`'s.
    fn holds_up(self, holder: Owner, waiting: Waiting) -> bool {
        if self.task.is_some() && self.task == holder.task {
            return true;
        }
        let other_task = self.task.is_some() || holder.task.is_some();
        self.thread == holder.thread && (waiting == Waiting::Blocking || !other_task)
    }
}

impl State {
    /// Refuses a caller that would wait for itself.
    fn refuse_nested(&self, caller: Owner, waiting: Waiting) -> Result<()> {
        match self.holder.as_ref().and_then(|holder| holder.owner) {
            Some(owner) if caller.holds_up(owner, waiting) => Err(nested()),
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    answer: Mutex<Answer>,
}

#[derive(Debug)]
enum Answer {
    Pending(Option<Waker>),
    Granted,
    Refused,
}

impl Waiter {
    fn answer(&self, answer: Answer) {
        let before = std::mem::replace(&mut *lock(&self.answer), answer);
        if let Answer::Pending(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl Line {
    /// Waits for a turn, blocking the calling thread.
    pub(crate) fn begin(&self, ctx: &Context) -> Result<Ticket> {
        ctx.check()?;
        let turn = self.turn(Waiting::Blocking)?;
        wait(turn.or_cancelled(ctx), ctx)?
    }

    /// Waits for a turn. A deadline in `ctx` needs a tokio runtime with time enabled.
    pub(crate) async fn begin_async(&self, ctx: &Context) -> Result<Ticket> {
        ctx.check()?;
        let turn = self.turn(Waiting::Async)?;
        let answer = turn.or_cancelled(ctx);
        match ctx.deadline() {
            Some(deadline) => tokio::time::timeout_at(deadline.into(), answer)
                .await
                .unwrap_or_else(|_| Err(deadline_exceeded())),
            None => answer.await,
        }
    }

    /// Takes the line if it is free, else a place in the queue.
    fn turn(&self, waiting: Waiting) -> Result<Turn<'_>> {
        let owner = Owner::current();
        let mut state = lock(&self.state);
        if state.sealed {
            return Err(crate::storage::closed());
        }
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        let free = state.holder.is_none();
        state.refuse_nested(owner, waiting)?;
        let answer = if free { Answer::Granted } else { Answer::Pending(None) };
        let waiter = Arc::new(Waiter { ticket, answer: Mutex::new(answer) });
        if free {
            state.holder = Some(Holder { ticket, owner: Some(owner) });
        } else {
            state.queue.push_back(Arc::clone(&waiter));
        }
        Ok(Turn { line: self, waiter: Some(waiter) })
    }

    /// Notes who uses the scope now.
    pub(crate) fn used_by(&self, ticket: Ticket, owner: Owner) {
        if let Some(holder) = lock(&self.state).holder.as_mut().filter(|holder| holder.ticket == ticket) {
            holder.owner = Some(owner);
        }
    }

    /// Ends a scope and grants the next one. No effect for a scope that has ended.
    pub(crate) fn end(&self, ticket: Ticket) {
        let mut state = lock(&self.state);
        if state.holder.as_ref().is_none_or(|holder| holder.ticket != ticket) {
            return;
        }
        state.holder = None;
        if let Some(next) = state.queue.pop_front() {
            state.holder = Some(Holder { ticket: next.ticket, owner: None });
            drop(state);
            next.answer(Answer::Granted);
        } else {
            let closers = std::mem::take(&mut state.closers);
            drop(state);
            closers.iter().for_each(|closer| closer.answer(Answer::Granted));
        }
    }

    /// Refuses new and waiting scopes, then waits for the begun one to end. Idempotent.
    pub(crate) fn seal(&self, ctx: &Context) -> Result<()> {
        let closer = {
            let mut state = lock(&self.state);
            state.refuse_nested(Owner::current(), Waiting::Blocking)?;
            state.sealed = true;
            let refused = std::mem::take(&mut state.queue);
            let closer = Arc::new(Waiter { ticket: 0, answer: Mutex::new(Answer::Pending(None)) });
            if state.holder.is_some() {
                state.closers.push(Arc::clone(&closer));
            } else {
                closer.answer(Answer::Granted);
            }
            drop(state);
            refused.iter().for_each(|waiter| waiter.answer(Answer::Refused));
            closer
        };
        let waited = wait(Answered(&closer), ctx);
        // Whoever gave up has left.
        lock(&self.state).closers.retain(|waiting| !Arc::ptr_eq(waiting, &closer));
        waited.map(drop)
    }

    #[cfg(test)]
    fn waiting(&self) -> usize {
        lock(&self.state).queue.len()
    }
}

/// A place in the queue; dropped, it is left, and a turn that was granted meanwhile goes to the next.
struct Turn<'a> {
    line: &'a Line,
    waiter: Option<Arc<Waiter>>,
}

impl Turn<'_> {
    async fn or_cancelled(mut self, ctx: &Context) -> Result<Ticket> {
        let Some(waiter) = self.waiter.clone() else { return Err(cancelled()) };
        match tokio_select(Answered(&waiter), ctx.cancelled()).await {
            Some(true) => {
                self.line.used_by(waiter.ticket, Owner::current());
                self.waiter = None;
                Ok(waiter.ticket)
            }
            Some(false) => Err(crate::storage::closed()),
            None => Err(cancelled()),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            lock(&self.line.state).queue.retain(|queued| queued.ticket != waiter.ticket);
            self.line.end(waiter.ticket);
        }
    }
}

/// Resolves when the waiter is answered: true if it was granted.
struct Answered<'a>(&'a Waiter);

impl Future for Answered<'_> {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<bool> {
        let mut answer = lock(&self.0.answer);
        match &mut *answer {
            Answer::Granted => Poll::Ready(true),
            Answer::Refused => Poll::Ready(false),
            Answer::Pending(waker) => {
                *waker = Some(task.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The output of `first`, or none if `other` is ready before it.
async fn tokio_select<T>(first: impl Future<Output = T>, other: impl Future<Output = ()>) -> Option<T> {
    tokio::select! {
        biased;
        output = first => Some(output),
        () = other => None,
    }
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the call's context was cancelled while it waited for the mutation line")
}

fn nested() -> Error {
    Error::new(
        ErrorKind::NestedMutation,
        "a writer was called from inside a mutation of the same session and would wait for itself",
    )
    .with_hint("write through the mutation you hold, or end it first")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    fn wait_until(what: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !what() {
            assert!(Instant::now() < end, "the condition did not come about");
            std::thread::yield_now();
        }
    }

    #[test]
    fn turns_are_granted_in_the_order_asked() {
        let line = Line::default();
        let first = line.begin(&Context::background()).unwrap();
        let (send, granted) = mpsc::channel();
        std::thread::scope(|threads| {
            for number in 0..8 {
                let (line, send) = (&line, send.clone());
                threads.spawn(move || {
                    let ticket = line.begin(&Context::background()).unwrap();
                    send.send(number).unwrap();
                    line.end(ticket);
                });
                wait_until(|| line.waiting() == number + 1);
            }
            assert!(granted.try_recv().is_err());
            line.end(first);
        });
        assert_eq!(granted.try_iter().collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn a_cancelled_waiter_leaves_the_queue_and_the_others_keep_their_order() {
        let line = Line::default();
        let first = line.begin(&Context::background()).unwrap();
        let ctx = Context::new();
        std::thread::scope(|threads| {
            let cancelled = threads.spawn(|| line.begin(&ctx));
            wait_until(|| line.waiting() == 1);
            let second = threads.spawn(|| line.begin(&Context::background()));
            wait_until(|| line.waiting() == 2);
            ctx.cancel();
            assert_eq!(cancelled.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
            assert_eq!(line.waiting(), 1);
            line.end(first);
            line.end(second.join().unwrap().unwrap());
        });
        line.end(line.begin(&Context::background()).unwrap());
    }

    #[test]
    fn a_deadline_ends_the_waiting() {
        let line = Line::default();
        let first = line.begin(&Context::background()).unwrap();
        std::thread::scope(|threads| {
            let waiter =
                threads.spawn(|| line.begin(&Context::background().with_timeout(Duration::from_millis(5))));
            assert_eq!(waiter.join().unwrap().unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        });
        assert_eq!(line.waiting(), 0);
        line.end(first);
    }

    #[test]
    fn an_interrupt_ends_the_waiting_and_one_that_says_no_keeps_the_place() {
        let line = Line::default();
        let first = line.begin(&Context::background()).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicBool::new(false));
        let patient = Context::background().with_interrupt({
            let asked = Arc::clone(&asked);
            move || {
                asked.store(true, Ordering::Release);
                false
            }
        });
        let interrupted = Context::background().with_interrupt({
            let stop = Arc::clone(&stop);
            move || stop.load(Ordering::Acquire)
        });
        std::thread::scope(|threads| {
            let second = threads.spawn(|| line.begin(&patient));
            wait_until(|| line.waiting() == 1);
            let third = threads.spawn(|| line.begin(&interrupted));
            wait_until(|| line.waiting() == 2 && asked.load(Ordering::Acquire));
            stop.store(true, Ordering::Release);
            assert_eq!(third.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
            assert_eq!(line.waiting(), 1);
            line.end(first);
            line.end(second.join().unwrap().unwrap());
        });
    }

    #[test]
    fn async_and_blocking_callers_share_the_queue() {
        let line = Arc::new(Line::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let first = line.begin(&Context::background()).unwrap();
        std::thread::scope(|threads| {
            let other = Arc::clone(&line);
            let task = threads.spawn(move || {
                runtime.block_on(async {
                    let ctx = Context::background().with_timeout(Duration::from_millis(1));
                    assert_eq!(
                        other.begin_async(&ctx).await.unwrap_err().kind(),
                        ErrorKind::DeadlineExceeded
                    );
                    let ticket = other.begin_async(&Context::background()).await.unwrap();
                    other.end(ticket);
                });
            });
            wait_until(|| line.waiting() == 1);
            wait_until(|| {
                let queued = lock(&line.state);
                queued.last_ticket == 3 && queued.queue.len() == 1
            });
            line.end(first);
            task.join().unwrap();
        });
    }

    #[test]
    fn nesting_is_refused_for_the_thread_that_last_used_the_scope() {
        let line = Line::default();
        let ticket = line.begin(&Context::background()).unwrap();
        assert_eq!(line.begin(&Context::background()).unwrap_err().kind(), ErrorKind::NestedMutation);
        assert_eq!(line.seal(&Context::background()).unwrap_err().kind(), ErrorKind::NestedMutation);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                line.used_by(ticket, Owner::current());
                assert_eq!(line.begin(&Context::background()).unwrap_err().kind(), ErrorKind::NestedMutation);
            });
        });
        line.end(ticket);
        line.end(line.begin(&Context::background()).unwrap());
    }

    #[test]
    fn a_seal_that_gives_up_leaves_and_the_others_still_wait() {
        let line = Line::default();
        let ticket = line.begin(&Context::background()).unwrap();
        let (cancelled, asked) = (Context::new(), Arc::new(AtomicBool::new(false)));
        let interrupted = Context::background().with_interrupt({
            let asked = Arc::clone(&asked);
            move || asked.load(Ordering::Acquire)
        });
        let late = Context::background().with_timeout(Duration::from_millis(5));
        std::thread::scope(|threads| {
            let patient = threads.spawn(|| line.seal(&Context::background()));
            wait_until(|| lock(&line.state).closers.len() == 1);
            let waiting = lock(&line.state).closers.clone();
            let others = [&cancelled, &interrupted].map(|ctx| threads.spawn(|| line.seal(ctx)));
            wait_until(|| lock(&line.state).closers.len() == 3);
            let late = threads.spawn(|| line.seal(&late)).join().unwrap();
            assert_eq!(late.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
            cancelled.cancel();
            asked.store(true, Ordering::Release);
            for other in others {
                assert_eq!(other.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
            }
            let left = lock(&line.state).closers.clone();
            assert!(left.len() == 1 && Arc::ptr_eq(&left[0], &waiting[0]));
            line.end(ticket);
            patient.join().unwrap().unwrap();
        });
    }

    #[test]
    fn seal_refuses_waiters_and_waits_for_the_scope() {
        let line = Line::default();
        let ticket = line.begin(&Context::background()).unwrap();
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| line.begin(&Context::background()));
            wait_until(|| line.waiting() == 1);
            let late =
                threads.spawn(|| line.seal(&Context::background().with_timeout(Duration::from_millis(5))));
            assert_eq!(waiter.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
            assert_eq!(late.join().unwrap().unwrap_err().kind(), ErrorKind::DeadlineExceeded);
            let sealed = threads.spawn(|| line.seal(&Context::background()));
            wait_until(|| lock(&line.state).closers.len() == 1);
            line.end(ticket);
            sealed.join().unwrap().unwrap();
        });
        assert_eq!(line.begin(&Context::background()).unwrap_err().kind(), ErrorKind::Closed);
        line.seal(&Context::background()).unwrap();
    }
}
