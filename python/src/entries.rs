//! Entries one by one.

use std::process;
use std::sync::{Mutex, PoisonError};

use pisession::{Error, ErrorKind};
use pyo3::prelude::*;

use crate::reads::raise;
use crate::records::{EntryTuple, entry};
use crate::wait::call;

/// An iterator over entries, read in pages.
#[pyclass(frozen, module = "pisession._pisession")]
pub(crate) struct Entries {
    entries: Mutex<pisession::Entries>,
    process: u32,
}

impl Entries {
    pub(crate) fn new(entries: pisession::Entries) -> Self {
        Self { entries: Mutex::new(entries), process: process::id() }
    }

    /// Whether this is still the process it was made in. Asked before the lock, which in a forked child may be
    /// held by a thread that is not there.
    fn check_process(&self) -> pisession::Result<()> {
        if self.process == process::id() {
            return Ok(());
        }
        let message = format!("the iterator was made in process {} and this is a fork of it", self.process);
        Err(Error::new(ErrorKind::Forked, message).with_hint("open the repository again in the child"))
    }
}

#[pymethods]
impl Entries {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<EntryTuple<'py>>> {
        raise(py, self.check_process())?;
        let next = call(py, None, |_| {
            self.entries.lock().unwrap_or_else(PoisonError::into_inner).next().transpose()
        })?;
        Ok(next.map(|next| entry(py, next)))
    }
}
