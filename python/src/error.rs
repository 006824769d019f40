//! Errors of the core become the exceptions that the package defines in Python.

use pisession::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// The exception for `error`.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error).map_or_else(|failure| failure, PyErr::from_value)
}

/// The exception object for `error`.
pub(crate) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    static FROM_NATIVE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    FROM_NATIVE.import(py, "pisession._errors", "from_native")?.call1((
        error.kind().name(),
        error.message(),
        error.hint(),
        error.path(),
        error.line(),
        error.offset(),
        error.id(),
        error.errno(),
    ))
}

/// The text of `string`. One with a lone surrogate is no Unicode text: an error of `kind`.
pub(crate) fn text<'a>(string: &'a Bound<'_, PyString>, kind: ErrorKind, what: &str) -> PyResult<&'a str> {
    string.to_str().map_err(|_| {
        let error = Error::new(kind, format!("{what} must be Unicode text without lone surrogates"));
        to_python(string.py(), &error)
    })
}

/// The text of an optional string.
pub(crate) fn optional_text<'a>(
    string: Option<&'a Bound<'_, PyString>>,
    kind: ErrorKind,
    what: &str,
) -> PyResult<Option<&'a str>> {
    string.map(|string| text(string, kind, what)).transpose()
}
