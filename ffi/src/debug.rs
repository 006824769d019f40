//! For tests.
//!
//! What tests of a program and of the library itself look at.

use crate::error::pi_error;
use crate::guard::{guard, guard_value};
use crate::handle;
use crate::session::{self, pi_session};

/// How many things the library handed out and has not got back: handles, sets, buffers, errors, batches.
#[unsafe(no_mangle)]
pub extern "C" fn pi_debug_live_handles() -> usize {
    guard_value(handle::live)
}

/// Panics inside the library, in a call on session (NULL: in none), to show what a defect of the library would
/// do: PI_PANIC comes back, the session refuses every later call but close and free with PI_STORAGE_FAULT,
/// nothing else is touched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_debug_panic(session: *const pi_session, error: *mut *mut pi_error) -> i32 {
    // SAFETY: the output is NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let _session = if session.is_null() { None } else { Some(session::get(session)?) };
            #[expect(clippy::panic, reason = "the one panic that is meant")]
            {
                panic!("pi_debug_panic was called")
            }
        })
    }
}
