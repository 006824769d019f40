//! The authority of one call.

use std::time::Duration;

use pisession::{Error, ErrorKind};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::error::{text, to_python};

/// How long a call may wait, and the means to end its waiting.
///
/// Args:
///     timeout: Seconds (or a ``timedelta``) from now, after which calls given this context fail with
///         ``DeadlineExceededError``.
///     traceparent: A W3C trace parent for the spans of the call.
///
/// One context may be given to several calls; the deadline is one moment for all of them.
#[pyclass(frozen, module = "pisession")]
pub(crate) struct Context(pisession::Context);

impl Context {
    pub(crate) fn inner(&self) -> pisession::Context {
        self.0.clone()
    }
}

/// A timeout in seconds. A number that no float can hold is for ever.
fn seconds(timeout: &Bound<'_, PyAny>) -> PyResult<f64> {
    let py = timeout.py();
    match timeout.extract() {
        Ok(seconds) => Ok(seconds),
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => {
            Ok(if timeout.lt(0)? { f64::NEG_INFINITY } else { f64::INFINITY })
        }
        Err(_) => match timeout.call_method0("total_seconds") {
            Ok(seconds) => seconds.extract(),
            Err(_) => Err(PyTypeError::new_err(format!(
                "timeout must be a number of seconds or a timedelta, not {}",
                timeout.get_type().name()?
            ))),
        },
    }
}

#[pymethods]
impl Context {
    #[new]
    #[pyo3(signature = (*, timeout=None, traceparent=None))]
    fn new(
        timeout: Option<&Bound<'_, PyAny>>,
        traceparent: Option<&Bound<'_, PyString>>,
        py: Python<'_>,
    ) -> PyResult<Self> {
        let mut ctx = pisession::Context::new();
        if let Some(timeout) = timeout {
            let seconds = seconds(timeout)?;
            if seconds.is_nan() || seconds < 0.0 {
                let error = Error::new(
                    ErrorKind::InvalidArgument,
                    format!("a timeout of {seconds} seconds is not possible"),
                )
                .with_hint("give a number of seconds that is not negative, or None");
                return Err(to_python(py, &error));
            }
            // More than a Duration can hold is for ever.
            if let Ok(timeout) = Duration::try_from_secs_f64(seconds) {
                ctx = ctx.with_timeout(timeout);
            }
        }
        if let Some(traceparent) = traceparent {
            let traceparent = text(traceparent, ErrorKind::InvalidArgument, "a traceparent")?;
            ctx = ctx.with_traceparent(traceparent).map_err(|error| to_python(py, &error))?;
        }
        Ok(Self(ctx))
    }

    /// Ends the waiting of every call that was given this context; they fail with ``CancelledError``. What was
    /// committed stays.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether it was cancelled.
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// The trace parent.
    #[getter]
    fn traceparent(&self) -> Option<&str> {
        self.0.traceparent()
    }

    fn __repr__(&self) -> String {
        let state = if self.0.is_cancelled() { "cancelled" } else { "active" };
        format!("<pisession.Context {state}>")
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a Context cannot be pickled: it lives in the call it was made for"))
    }
}
