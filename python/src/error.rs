//! Errors of the core become the exceptions that the package defines in Python.

use std::any::Any;
use std::path::PathBuf;

use pisession::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// The exception for `error`, to be raised.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    static IN_CONTEXT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    exception(py, error)
        .and_then(|exception| IN_CONTEXT.import(py, "pisession._errors", "in_context")?.call1((exception,)))
        .map_or_else(|failure| failure, PyErr::from_value)
}

/// The exception object for `error`, which is raised by nobody.
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

/// What a panic that was caught becomes.
pub(crate) fn panicked(py: Python<'_>, panic: &(dyn Any + Send)) -> PyErr {
    let what = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    let error =
        Error::new(ErrorKind::Panic, format!("the library panicked: {what}")).with_hint("please report it");
    to_python(py, &error)
}

/// The path that `string` spells. Bytes of it that are no text are surrogates, as Python has them in file names.
pub(crate) fn path(string: &Bound<'_, PyString>) -> PyResult<PathBuf> {
    string.extract().map_err(|_| {
        let error = Error::new(ErrorKind::InvalidArgument, "a path must be text that names a file")
            .with_hint("it holds a surrogate that stands for no byte");
        to_python(string.py(), &error)
    })
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
