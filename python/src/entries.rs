//! Entries one by one.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::records::{EntryTuple, entry};
use crate::wait::call;

/// An iterator over entries, read in pages.
#[pyclass(frozen, module = "pisession._pisession")]
pub(crate) struct Entries(Mutex<pisession::Entries>);

impl Entries {
    pub(crate) fn new(entries: pisession::Entries) -> Self {
        Self(Mutex::new(entries))
    }
}

#[pymethods]
impl Entries {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<EntryTuple<'py>>> {
        let next =
            call(py, None, |_| self.0.lock().unwrap_or_else(PoisonError::into_inner).next().transpose())?;
        Ok(next.map(|next| entry(py, next)))
    }
}
