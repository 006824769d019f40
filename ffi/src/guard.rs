//! The one way into an export: nothing unwinds out of the library, and the error output is always written.
//!
//! Nothing is printed on the way: the panic hook of this library's own copy of std notes message and place
//! for the error object.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use pisession::{Error, ErrorKind, Result};

use crate::error::{PI_PANIC, pi_error};
use crate::handle;

static HOOK: Once = Once::new();

thread_local! {
    /// Where the last panic of this thread was.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `body`, turns what it fails with into a number and an error object.
///
/// # Safety
/// `error` is NULL or writable (rule 2).
pub(crate) unsafe fn guard(error: *mut *mut pi_error, body: impl FnOnce() -> Result<()>) -> i32 {
    // SAFETY: `error` is NULL or writable, as asked for.
    unsafe { guard_object(error, || body().map_err(pi_error::new)) }
}

/// [`guard`] for a body that may fail with an error object as it stands.
///
/// # Safety
/// As [`guard`].
pub(crate) unsafe fn guard_object(
    error: *mut *mut pi_error,
    body: impl FnOnce() -> Result<(), Box<pi_error>>,
) -> i32 {
    if !error.is_null() {
        // SAFETY: not NULL, so writable.
        unsafe { error.write(std::ptr::null_mut()) };
    }
    let Err(object) = caught(body).unwrap_or_else(|panic| Err(pi_error::new(panic))) else { return 0 };
    let code = object.code();
    if !error.is_null() {
        // SAFETY: not NULL, so writable.
        unsafe { error.write(handle::give_boxed(object)) };
    }
    code
}

/// Runs the `body` of a function without an error output.
pub(crate) fn guard_value<T: Fallback>(body: impl FnOnce() -> T) -> T {
    caught(body).unwrap_or(T::FALLBACK)
}

/// What a function returns when a panic was caught in it.
pub(crate) trait Fallback {
    const FALLBACK: Self;
}

impl Fallback for () {
    const FALLBACK: Self = ();
}

impl Fallback for i32 {
    const FALLBACK: Self = PI_PANIC;
}

impl Fallback for i64 {
    const FALLBACK: Self = 0;
}

impl Fallback for u64 {
    const FALLBACK: Self = 0;
}

impl Fallback for usize {
    const FALLBACK: Self = 0;
}

impl<T> Fallback for *const T {
    const FALLBACK: Self = std::ptr::null();
}

fn caught<T>(body: impl FnOnce() -> T) -> Result<T> {
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string);
            // A thread that is ending has no place to note it in; the error then goes without.
            let _ = PLACE.try_with(|last| last.replace(place));
        }));
    });
    // A session whose call panicked is latched and the table holds whole objects only, so what the closure
    // leaves behind cannot be met half done.
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| panicked(payload.as_ref()))
}

fn panicked(payload: &(dyn Any + Send)) -> Error {
    let said = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message");
    let place = PLACE.try_with(RefCell::take).ok().flatten();
    let place = place.map_or_else(String::new, |place| format!(" at {place}"));
    Error::new(ErrorKind::Panic, format!("a panic was caught in the library{place}: {said}"))
        .with_hint("please report it; a session it happened in must be closed and opened again")
}
