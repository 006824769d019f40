//! Contexts.
//!
//! A context is the authority of the calls it is given to: cancellation, deadline, trace parent. NULL in its
//! place is the background, which has none of them. Cancelling never undoes a commit that was admitted.

use std::ffi::{c_char, c_void};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use pisession::{Context, Result};

use crate::argument::{Out, text};
use crate::error::pi_error;
use crate::guard::{guard, guard_value};
use crate::handle::{self, Handle};

/// A context. To be freed with pi_context_free, from any thread, also while a call uses it.
pub struct pi_context(RwLock<Context>);

impl Handle for pi_context {
    const NAME: &'static str = "context";
}

/// A function that is told how much of a call is done, and how much it is in all (0 where that is not known). It is
/// called on the calling thread, inside the call, and may call the library; no C++ exception and no longjmp may
/// leave it.
pub type pi_progress_function = Option<unsafe extern "C" fn(done: u64, all: u64, user_data: *mut c_void)>;

/// Whom a call tells of its progress, if anybody.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    function: pi_progress_function,
    user_data: *mut c_void,
}

// SAFETY: it is called on the thread of the call that got it, and does not outlive that call.
unsafe impl Send for Progress {}
// SAFETY: as above.
unsafe impl Sync for Progress {}

impl Progress {
    /// # Safety
    /// The function is NULL or may be called with `user_data` until the call returns (rule 10).
    pub(crate) unsafe fn new(function: pi_progress_function, user_data: *mut c_void) -> Self {
        Self { function, user_data }
    }

    pub(crate) fn tell(&self, done: u64, all: u64) {
        if let Some(function) = self.function {
            // SAFETY: the host gave both for this.
            unsafe { function(done, all, self.user_data) };
        }
    }
}

/// The context of a call.
pub(crate) fn get(context: *const pi_context) -> Result<Context> {
    if context.is_null() {
        return Ok(Context::background());
    }
    Ok(handle::get(context)?.0.read().unwrap_or_else(PoisonError::into_inner).clone())
}

fn change(context: *mut pi_context, change: impl FnOnce(Context) -> Result<Context>) -> Result<()> {
    let context = handle::get(context)?;
    let mut current = context.0.write().unwrap_or_else(PoisonError::into_inner);
    *current = change(current.clone())?;
    Ok(())
}

/// Makes a context without a deadline. *context is the caller's, to be freed with pi_context_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_context_new(context: *mut *mut pi_context, error: *mut *mut pi_error) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let context = Out::cleared(context).required("context")?;
            let made = handle::insert(pi_context(RwLock::new(Context::new())))?;
            context.set(|| made);
            Ok(())
        })
    }
}

/// Gives the context a deadline, so many milliseconds from now; an earlier one it has already stays. Holds
/// for calls made from now on; a call past the deadline fails with PI_DEADLINE_EXCEEDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_context_set_timeout(
    context: *mut pi_context,
    milliseconds: u64,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the output is NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            change(context, |context| Ok(context.with_timeout(Duration::from_millis(milliseconds))))
        })
    }
}

/// Gives the context a W3C trace parent, the parent of the spans of its calls. PI_INVALID_ARGUMENT if the text
/// is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_context_set_traceparent(
    context: *mut pi_context,
    traceparent: *const c_char,
    traceparent_len: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the text is readable and the output NULL or writable (rules 2 and 5).
    unsafe {
        guard(error, || {
            let traceparent = text(traceparent, traceparent_len, "traceparent")?;
            change(context, |context| context.with_traceparent(traceparent))
        })
    }
}

/// Cancels the context: calls that wait with it, in any thread, fail with PI_CANCELLED, and so do later ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_context_cancel(context: *mut pi_context, error: *mut *mut pi_error) -> i32 {
    // SAFETY: the output is NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            handle::get(context)?.0.read().unwrap_or_else(PoisonError::into_inner).cancel();
            Ok(())
        })
    }
}

/// Frees the context; calls that use it go on. Nothing for NULL. PI_MISUSE if it is no live context.
#[unsafe(no_mangle)]
pub extern "C" fn pi_context_free(context: *mut pi_context) -> i32 {
    guard_value(|| handle::free(context))
}
