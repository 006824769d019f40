//! When a folder is swept of what crashes left there.

use std::io;
use std::path::Path;
use std::sync::{Mutex, TryLockError};

/// A sweep looks at every name of a folder. It is done again after a sixteenth as many creates as it found
/// names: making n sessions costs n, not n².
const SHARE: usize = 16;

/// Counts the creates in one folder, the first of which sweeps it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// How many creates pass before one sweeps.
    left: Mutex<usize>,
}

impl Turns {
    /// Runs `sweep`, which gives the number of names it found in `folder`, if that is due. What cannot be swept
    /// stays and harms nothing.
    pub(crate) fn take(&self, folder: &Path, sweep: impl FnOnce() -> io::Result<usize>) {
        let mut left = match self.left.try_lock() {
            Ok(left) => left,
            Err(TryLockError::Poisoned(left)) => left.into_inner(),
            // Somebody else is at it.
            Err(TryLockError::WouldBlock) => return,
        };
        if *left > 0 {
            *left -= 1;
            return;
        }
        match sweep() {
            Ok(names) => *left = names / SHARE,
            Err(error) => {
                tracing::debug!(%error, path = %folder.display(), "a folder could not be swept");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn making_many_sessions_looks_at_few_names_each() {
        let turns = Turns::default();
        let (mut names, mut looked) = (0, 0);
        for _ in 0..10_000 {
            turns.take(Path::new("folder"), || {
                looked += names;
                Ok(names)
            });
            names += 1;
        }
        assert!(looked > 0 && looked < 20 * names, "{looked} looks for {names} sessions");
    }

    #[test]
    fn a_sweep_that_failed_is_due_again() {
        let turns = Turns::default();
        let mut tries = 0;
        for _ in 0..3 {
            turns.take(Path::new("folder"), || {
                tries += 1;
                Err(io::Error::other("no"))
            });
        }
        assert_eq!(tries, 3);
    }
}
