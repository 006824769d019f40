//! Waiting on the calling thread for something that tasks may wait for, too.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::Thread;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};

/// Runs `future` on the calling thread, which sleeps in between, until the deadline, the cancellation or the
/// interrupt of `ctx`. What is there already is taken whatever `ctx` says.
///
/// # Errors
/// `DeadlineExceeded`, `Cancelled`.
pub(crate) fn wait<F: Future>(future: F, ctx: &Context) -> Result<F::Output> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut task = TaskContext::from_waker(&waker);
    // Polled from within a task, too, whose budget must not keep this from seeing what is there.
    let mut future = pin!(tokio::task::unconstrained(future));
    let mut cancelled = pin!(tokio::task::unconstrained(ctx.cancelled()));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut task) {
            return Ok(output);
        }
        if cancelled.as_mut().poll(&mut task).is_ready() {
            return Err(gave_up());
        }
        match ctx.sleep()? {
            Some(longest) => std::thread::park_timeout(longest),
            None => std::thread::park(),
        }
        if ctx.is_interrupted() {
            return Err(gave_up());
        }
    }
}

fn gave_up() -> Error {
    Error::new(ErrorKind::Cancelled, "the call's context was cancelled while it waited")
}
