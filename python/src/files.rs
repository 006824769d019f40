//! How sessions are opened, files of versions 1 to 3 above all; import.

use std::path::PathBuf;

use std::sync::Arc;

use pisession::{ErrorKind, ImportOptions, Legacy, LegacyPolicy, Loss, OpenMode, OpenOptions, Warning};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::context::Context;
use crate::error::{optional_text, path as path_of};
use crate::query::invalid;
use crate::records::{self, MetadataTuple};
use crate::repository::Repository;
use crate::session::Session;
use crate::wait::{ask_host, call, call_with_host};

/// `kind, line, value, offset, length, message, is_damage`.
pub(crate) type WarningTuple = (&'static str, u64, u32, u64, u64, String, bool);

/// `read_only, legacy, copy_to, salvage, strict`.
#[derive(FromPyObject)]
pub(crate) struct OpenArguments(bool, String, Option<Py<Repository>>, bool, bool);

impl OpenArguments {
    pub(crate) fn options(self, py: Python<'_>) -> PyResult<OpenOptions> {
        let legacy = match (self.1.as_str(), self.2) {
            ("read_only", None) => LegacyPolicy::ReadOnly,
            ("copy", None) => LegacyPolicy::Copy,
            ("copy", Some(to)) => LegacyPolicy::CopyTo(to.get().inner().clone()),
            ("upgrade", None) => LegacyPolicy::Upgrade,
            ("read_only" | "upgrade", Some(_)) => {
                return Err(invalid(py, "copy_to is for copies".to_owned(), "open it with legacy='copy'"));
            }
            (other, _) => {
                let hint = "a legacy policy is 'read_only', 'copy' or 'upgrade'";
                return Err(invalid(py, format!("'{other}' is no legacy policy"), hint));
            }
        };
        let mode = if self.0 { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        Ok(OpenOptions { mode, legacy, salvage: self.3, strict: self.4 })
    }
}

/// What reading an old file found: `version, session_id, warnings, ids, usage, usage_rows, backup`.
pub(crate) fn legacy<'py>(py: Python<'py>, legacy: &Legacy) -> PyResult<Bound<'py, PyTuple>> {
    let ids: Vec<(&str, String)> = legacy.ids().collect();
    let backup: Option<&PathBuf> = legacy.backup.as_ref();
    let found = warnings(&legacy.warnings);
    let usage = records::usage(py, &legacy.usage)?;
    (legacy.version, &legacy.session_id, found, ids, usage, legacy.usage_rows, backup).into_pyobject(py)
}

pub(crate) fn warnings(warnings: &[Warning]) -> Vec<WarningTuple> {
    let tuple = |warning: &Warning| {
        let (kind, message) = (warning.kind, warning.message());
        (kind.name(), warning.line, warning.value, warning.offset, warning.length, message, kind.is_damage())
    };
    warnings.iter().map(tuple).collect()
}

/// `kind, count, message, name, address, entry_id`.
pub(crate) type LossTuple =
    (&'static str, u64, String, Option<String>, Option<(String, String)>, Option<String>);

pub(crate) fn losses(losses: Vec<Loss>) -> Vec<LossTuple> {
    let tuple = |loss: Loss| {
        let message = loss.message();
        let address = loss.address.map(|address| (address.namespace().to_owned(), address.key().to_owned()));
        (loss.kind.name(), loss.count, message, loss.name, address, loss.entry_id)
    };
    losses.into_iter().map(tuple).collect()
}

/// Opens the session file at `path`.
#[pyfunction]
pub(crate) fn open_file(
    py: Python<'_>,
    path: &Bound<'_, PyString>,
    options: OpenArguments,
    ctx: Option<&Context>,
) -> PyResult<Session> {
    let path = path_of(path)?;
    let options = options.options(py)?;
    Ok(Session::new(call(py, ctx, |ctx| pisession::open_file(&path, &options, ctx))?))
}

/// Imports the session file at `path`: metadata of the session, whether anything was added, number of entries,
/// what reading the file found. `progress` is a callable that takes work done and all work, in bytes.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // those of the options, one by one
pub(crate) fn import_file<'py>(
    py: Python<'py>,
    path: &Bound<'_, PyString>,
    repository: &Repository,
    strict: bool,
    salvage: bool,
    id: Option<Bound<'_, PyString>>,
    progress: Option<Py<PyAny>>,
    ctx: Option<&Context>,
) -> PyResult<(MetadataTuple, bool, u64, Bound<'py, PyTuple>)> {
    let path = path_of(path)?;
    let id = optional_text(id.as_ref(), ErrorKind::InvalidId, "a session id")?.map(str::to_owned);
    let options = ImportOptions { strict, salvage, id, progress: progress.map(host_progress) };
    let import =
        call_with_host(py, ctx, |ctx| pisession::import_file(&path, repository.inner(), &options, ctx))?;
    Ok((records::metadata(&import.session), import.added, import.entries, legacy(py, &import.legacy)?))
}

/// Tells a callable of the host about progress. What it raises ends the call.
pub(crate) fn host_progress(progress: Py<PyAny>) -> Arc<dyn Fn(u64, u64) + Send + Sync> {
    Arc::new(move |done, all| {
        _ = ask_host(|py| progress.bind(py).call1((done, all)).map(drop));
    })
}
