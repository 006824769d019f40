//! The authority of one call: may it go on, until when, and whose span is its parent.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;

/// Cancellation, deadline and trace parent of one call.
///
/// A context is never stored and never written durably. Cancelling it ends the waiting of the calls it
/// was given to and nothing else: a commit that was admitted is not undone. Cheap to clone; clones share
/// the cancellation. `Context::background()` is the neutral one.
///
/// ```
/// use pisession::{Context, ErrorKind};
/// use std::time::Duration;
///
/// let ctx = Context::background().with_timeout(Duration::from_secs(5));
/// assert!(ctx.check().is_ok());
/// ctx.cancel();
/// assert_eq!(ctx.check().unwrap_err().kind(), ErrorKind::Cancelled);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Context {
    token: Option<CancellationToken>,
    deadline: Option<Instant>,
    traceparent: Option<Arc<str>>,
    interrupt: Option<Interrupt>,
}

/// How often a call asks its interrupt check.
const INTERRUPT_TICK: Duration = Duration::from_millis(50);

#[derive(Clone)]
struct Interrupt(Arc<Interruption>);

struct Interruption {
    check: Box<dyn Fn() -> bool + Send + Sync>,
    state: Mutex<Asked>,
}

/// When the check was last asked, or that it once said to end.
#[derive(Clone, Copy)]
enum Asked {
    At(Instant),
    Ended,
}

impl Interrupt {
    fn new(check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(Interruption { check: Box::new(check), state: Mutex::new(Asked::At(Instant::now())) }))
    }

    /// Whether the call is to end; asks unless it did so a moment ago.
    fn ends(&self) -> bool {
        match *lock(&self.0.state) {
            Asked::Ended => return true,
            Asked::At(last) if last.elapsed() < INTERRUPT_TICK => return false,
            Asked::At(_) => {}
        }
        // Not under the lock: the host's code runs in here. Another thread may have been told to end meanwhile.
        let ends = (self.0.check)();
        let mut state = lock(&self.0.state);
        if let Asked::At(last) = &mut *state {
            *last = Instant::now();
        }
        if ends {
            *state = Asked::Ended;
        }
        matches!(*state, Asked::Ended)
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupt")
    }
}

impl Context {
    /// The neutral context: no deadline, no trace parent, and cancelling it has no effect.
    pub fn background() -> Self {
        Self::default()
    }

    /// A context of its own that can be cancelled.
    pub fn new() -> Self {
        Self { token: Some(CancellationToken::new()), ..Self::default() }
    }

    /// A context of its own that is cancelled with this one, and can be cancelled without it.
    ///
    /// ```
    /// use pisession::Context;
    ///
    /// let ctx = Context::new();
    /// let part = ctx.child();
    /// part.cancel();
    /// assert!(part.is_cancelled() && !ctx.is_cancelled());
    /// ```
    #[must_use]
    pub fn child(&self) -> Self {
        let token = self.token.as_ref().map_or_else(CancellationToken::new, CancellationToken::child_token);
        Self { token: Some(token), ..self.clone() }
    }

    /// The same context with a deadline `timeout` from now (the earlier one, if there is one already). It can be
    /// cancelled.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.with_deadline(deadline),
            None => {
                self.token.get_or_insert_with(CancellationToken::new);
                self
            }
        }
    }

    /// The same context with a deadline (the earlier one, if there is one already). It can be cancelled.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.token.get_or_insert_with(CancellationToken::new);
        self.deadline = Some(self.deadline.map_or(deadline, |own| own.min(deadline)));
        self
    }

    /// The same context with a W3C `traceparent`, the parent of the spans the call opens.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the text is not of the form `00-<32 hex>-<16 hex>-<2 hex>`.
    pub fn with_traceparent(mut self, traceparent: &str) -> Result<Self> {
        let parts: Vec<&str> = traceparent.split('-').collect();
        let hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let valid = parts.len() == 4
            && parts.iter().zip([2, 32, 16, 2]).all(|(part, length)| hex(part, length))
            && parts[0] != "ff"
            && !parts[1].bytes().all(|b| b == b'0')
            && !parts[2].bytes().all(|b| b == b'0');
        if !valid {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("'{traceparent}' is no W3C traceparent"),
            )
            .with_hint("use the form 00-<trace id>-<parent id>-<flags> in lower-case hex"));
        }
        self.traceparent = Some(traceparent.into());
        Ok(self)
    }

    /// The same context with a check that a blocking call asks, on its own thread, about every 50 ms while it
    /// waits or works; once it says true the call ends as if the context had been cancelled.
    ///
    /// For hosts that must look at something now and then, such as the signals of an interpreter. The check
    /// runs in the middle of the call, which may hold locks: it must not use sessions or repositories.
    #[must_use]
    pub fn with_interrupt(mut self, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.interrupt = Some(Interrupt::new(check));
        self
    }

    /// Whether the interrupt check ends the call; false without one.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(Interrupt::ends)
    }

    /// How long a blocking call may sleep before it looks at this context again.
    ///
    /// # Errors
    /// [`ErrorKind::DeadlineExceeded`].
    pub(crate) fn sleep(&self) -> Result<Option<Duration>> {
        let tick = self.interrupt.as_ref().map(|_| INTERRUPT_TICK);
        let Some(deadline) = self.deadline else { return Ok(tick) };
        match deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(Some(tick.map_or(left, |tick| tick.min(left)))),
            _ => Err(deadline_exceeded()),
        }
    }

    /// Cancels every call that was given this context or a clone of it. No effect on the background.
    pub fn cancel(&self) {
        if let Some(token) = &self.token {
            token.cancel();
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.token.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    /// Its deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Its trace parent.
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// Whether the call may go on.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`] or [`ErrorKind::DeadlineExceeded`].
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() || self.is_interrupted() {
            return Err(Error::new(ErrorKind::Cancelled, "the call's context was cancelled"));
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(deadline_exceeded()),
            _ => Ok(()),
        }
    }

    /// Resolves when the context is cancelled; never for the background.
    pub(crate) async fn cancelled(&self) {
        match &self.token {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

pub(crate) fn deadline_exceeded() -> Error {
    Error::new(ErrorKind::DeadlineExceeded, "the call's deadline passed")
        .with_hint("call again with more time")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_context_with_any_timeout_can_be_cancelled() {
        for timeout in [Duration::from_secs(1_000), Duration::MAX] {
            let ctx = Context::background().with_timeout(timeout);
            ctx.clone().cancel();
            assert_eq!(ctx.check().unwrap_err().kind(), ErrorKind::Cancelled, "{timeout:?}");
        }
    }

    #[test]
    fn an_interrupt_stays_while_another_thread_is_still_asking() {
        let first = AtomicBool::new(true);
        let ((asking, is_asked), (answer, answered)) = (mpsc::channel(), mpsc::channel::<()>());
        let (asking, answered) = (Mutex::new(asking), Mutex::new(answered));
        // Who asks first is told to go on, but only after who asks next was told to end.
        let ctx = Context::background().with_interrupt(move || {
            let is_first = first.swap(false, Ordering::SeqCst);
            if is_first {
                lock(&asking).send(()).unwrap();
                lock(&answered).recv().unwrap();
            }
            !is_first
        });
        let until_interrupted = |ctx: &Context| {
            while ctx.check().is_ok() {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(|| until_interrupted(&ctx));
            is_asked.recv().unwrap();
            until_interrupted(&ctx);
            answer.send(()).unwrap();
        });
        assert_eq!(ctx.check().unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
