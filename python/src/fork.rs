//! What a forked child does first: it lets go of what belongs to its parent.

use std::os::fd::{BorrowedFd, RawFd};

use nix::sys::stat::fstat;
use pisession::take_lock_descriptors;
use pyo3::prelude::*;

use crate::wait::{forget_calls, set_main_thread};

/// Called in a forked child, in its only thread, which is numbered `ident`. The descriptors of lock files are
/// closed: a child that lives longer than a killed parent would keep the parent's sessions locked.
#[pyfunction]
pub(crate) fn after_fork_in_child(ident: u64) {
    set_main_thread(ident);
    forget_calls();
    take_lock_descriptors(close_if_it_is);
}

/// Closes the descriptor if its file is still the one that was listed.
fn close_if_it_is(descriptor: RawFd, file: (u64, u64)) {
    // SAFETY: it is looked at and not kept; one that is not open is an error of `fstat`.
    let found = fstat(unsafe { BorrowedFd::borrow_raw(descriptor) });
    if found.is_ok_and(|found| (found.st_dev, found.st_ino) == file) {
        // The `File` that owns it in the parent's memory does not close it: handles of the parent are refused, and
        // the core forgets what it would close. A descriptor that does not close is one that is gone.
        let _ = nix::unistd::close(descriptor);
    }
}
