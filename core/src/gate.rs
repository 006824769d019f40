//! Who may still work on something that is to be closed: new calls are refused, those under way end first.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::context::Context;
use crate::error::Result;
use crate::wait::wait;

/// Stands beside the number of those inside once the gate is shut.
const SHUT: usize = 1 << (usize::BITS - 1);

/// A gate; open at first.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    inside: AtomicUsize,
    emptied: Notify,
}

/// One call that was let in, until it is dropped.
#[derive(Debug)]
pub(crate) struct Inside<'a>(&'a Gate);

impl Gate {
    /// Lets a call in; none once the gate is shut.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        let before = self.inside.fetch_add(1, Ordering::SeqCst);
        // Refused, it leaves again as every other.
        let inside = Inside(self);
        (before & SHUT == 0).then_some(inside)
    }

    /// Lets nobody in any more.
    pub(crate) fn shut(&self) {
        self.inside.fetch_or(SHUT, Ordering::SeqCst);
    }

    /// Waits for those inside. The gate is shut.
    ///
    /// # Errors
    /// `DeadlineExceeded`, `Cancelled`: some are still inside.
    pub(crate) fn drain(&self, ctx: &Context) -> Result<()> {
        let emptied = async {
            loop {
                let mut emptied = pin!(self.emptied.notified());
                // From here on none is missed.
                emptied.as_mut().enable();
                if self.inside.load(Ordering::SeqCst) == SHUT {
                    return;
                }
                emptied.await;
            }
        };
        wait(emptied, ctx)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if self.0.inside.fetch_sub(1, Ordering::SeqCst) == SHUT | 1 {
            self.0.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use std::time::Duration;

    #[test]
    fn a_shut_gate_lets_nobody_in_and_waits_for_those_inside() {
        let gate = Gate::default();
        let (one, other) = (gate.enter().unwrap(), gate.enter().unwrap());
        gate.shut();
        assert!(gate.enter().is_none());
        let late = Context::background().with_timeout(Duration::from_millis(1));
        assert_eq!(gate.drain(&late).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        let ctx = Context::new();
        ctx.cancel();
        assert_eq!(gate.drain(&ctx).unwrap_err().kind(), ErrorKind::Cancelled);
        std::thread::scope(|threads| {
            let drained = threads.spawn(|| gate.drain(&Context::background()));
            drop(one);
            assert!(gate.enter().is_none());
            drop(other);
            drained.join().unwrap().unwrap();
        });
        // Nobody is inside: no context matters.
        gate.drain(&ctx).unwrap();
    }

    #[test]
    fn the_last_of_many_wakes_who_waits() {
        for _ in 0..200 {
            let gate = Gate::default();
            std::thread::scope(|threads| {
                for _ in 0..3 {
                    threads.spawn(|| while gate.enter().is_some() {});
                }
                gate.shut();
                gate.drain(&Context::background()).unwrap();
            });
        }
    }
}
