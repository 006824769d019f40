//! What a forked child does first: it lets go of the locks of its parent.
//!
//! A child that lives longer than a killed parent would keep the parent's sessions locked. The handler closes
//! the descriptors of the lock files and does nothing else: it runs where no lock may be waited for and nothing
//! allocated.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Once;

use nix::sys::stat::fstat;
use pisession::take_lock_descriptors;

/// Installs the handler, once in a process.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the library stays loaded (`-z nodelete`), so the handler does as well; it takes nothing, cannot
        // unwind, and calls only what may be called between `fork` and `exec`: atomics, `fstat` and `close`.
        let result = unsafe { nix::libc::pthread_atfork(None, None, Some(in_the_child)) };
        // It fails without memory only; then a child keeps the locks until it ends.
        let _ = result;
    });
}

extern "C" fn in_the_child() {
    take_lock_descriptors(close_if_it_is);
}

/// Closes the descriptor if its file is still the one that was listed.
fn close_if_it_is(descriptor: RawFd, file: (u64, u64)) {
    // SAFETY: it is looked at and not kept; one that is not open is an error of `fstat`.
    let found = fstat(unsafe { BorrowedFd::borrow_raw(descriptor) });
    if found.is_ok_and(|found| (found.st_dev, found.st_ino) == file) {
        // The `File` that owns it in the parent's memory is never dropped here: handles of the parent are refused,
        // and the core forgets what it would close. A descriptor that does not close is one that is gone.
        let _ = nix::unistd::close(descriptor);
    }
}
