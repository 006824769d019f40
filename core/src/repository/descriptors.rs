//! The descriptors of the lock files that this process has open, for a host that forks.
//!
//! A lock belongs to its open file, which a forked child shares: it would be held for as long as the child
//! lives, also when the process that took it was killed. A face that can run code in the child closes them
//! there. Such code may neither wait for a lock nor allocate, so the list is a fixed array of atomics; what
//! does not fit is not listed, and a child keeps it.

use std::fs::File;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

const ROOM: usize = 1024;
const FREE: i32 = -1;
/// Being filled.
const TAKEN: i32 = -2;

struct Place {
    descriptor: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

static PLACES: [Place; ROOM] = [const {
    Place { descriptor: AtomicI32::new(FREE), device: AtomicU64::new(0), inode: AtomicU64::new(0) }
}; ROOM];

/// A descriptor while it is listed. To be dropped before the file is closed.
#[derive(Debug)]
pub(crate) struct Listed(Option<usize>);

impl Listed {
    /// Lists the descriptor of `file`, if there is room.
    pub(crate) fn new(file: &File) -> Self {
        let Ok(metadata) = file.metadata() else { return Self(None) };
        let free = |place: &Place| {
            place.descriptor.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let index = PLACES.iter().position(free);
        if let Some(place) = index.and_then(|index| PLACES.get(index)) {
            place.device.store(metadata.dev(), Ordering::Relaxed);
            place.inode.store(metadata.ino(), Ordering::Relaxed);
            place.descriptor.store(file.as_raw_fd(), Ordering::Release);
        }
        Self(index)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(place) = self.0.and_then(|index| PLACES.get(index)) {
            place.descriptor.store(FREE, Ordering::Release);
        }
    }
}

/// Empties the list in a forked child and calls `each` with every descriptor and the device and inode that its
/// file had. Neither waits nor allocates. Other threads go on while a process forks: whether the descriptor is
/// of that file still is for the caller to look at.
///
/// Sessions of the parent that are dropped in the child do not close these descriptors.
#[doc(hidden)]
pub fn take_lock_descriptors(mut each: impl FnMut(RawFd, (u64, u64))) {
    for place in &PLACES {
        let descriptor = place.descriptor.swap(FREE, Ordering::AcqRel);
        if descriptor >= 0 {
            each(descriptor, (place.device.load(Ordering::Relaxed), place.inode.load(Ordering::Relaxed)));
        }
    }
}
