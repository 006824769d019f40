//! Clocks and ids that callables of the host give.
//!
//! They are asked in the middle of calls. What they raise, the call raises; until then the core gets what it
//! refuses before anything is written.

use std::fmt;

use pisession::{Clock, IdGenerator};
use pyo3::prelude::*;

use crate::wait::{ask_host, raised};

/// `() -> int`: now, in milliseconds since 1970.
pub(crate) struct HostClock(pub(crate) Py<PyAny>);

impl Clock for HostClock {
    fn now(&self) -> i64 {
        ask_host(|py| self.0.bind(py).call0()?.extract()).unwrap_or(i64::MIN)
    }
}

impl fmt::Debug for HostClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostClock")
    }
}

/// `(timestamp: int | None) -> str`: a new id, which carries the timestamp if one is given.
pub(crate) struct HostIds(pub(crate) Py<PyAny>);

impl IdGenerator for HostIds {
    fn next(&self, timestamp: Option<i64>) -> String {
        ask_host(|py| self.0.bind(py).call1((timestamp,))?.extract()).unwrap_or_default()
    }
}

impl fmt::Debug for HostIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostIds")
    }
}

/// A new id, outside of any call.
pub(crate) fn new_id(ids: &dyn IdGenerator, timestamp: Option<i64>) -> PyResult<String> {
    let id = ids.next(timestamp);
    raised().map_or(Ok(id), Err)
}
