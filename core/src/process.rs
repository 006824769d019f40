//! The fork check: a handle made before a `fork` is refused in the child.

use crate::error::{Error, ErrorKind, Result};

/// The process a handle was made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    /// Whether this is still that process.
    pub(crate) fn check(self) -> Result<()> {
        if self == Self::current() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Forked,
            format!("the handle was made in process {} and this is a fork of it", self.0),
        )
        .with_hint("open the repository again in the child"))
    }
}
