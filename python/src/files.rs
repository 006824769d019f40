//! Session files outside of repositories: opened as they are, copied, imported.

use pisession::{ErrorKind, ImportOptions, LegacyPolicy, Loss, OpenOptions, Warning};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::context::Context;
use crate::error::{optional_text, path as path_of};
use crate::records::{self, MetadataTuple};
use crate::repository::Repository;
use crate::session::Session;
use crate::wait::call;

/// `kind, line, value, offset, length, message, is_damage`.
pub(crate) type WarningTuple = (&'static str, u64, u32, u64, u64, String, bool);

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

/// Opens the session file at `path`; commits go to a copy in `copy_to`, or are refused.
#[pyfunction]
pub(crate) fn open_file(
    py: Python<'_>,
    path: &Bound<'_, PyString>,
    strict: bool,
    salvage: bool,
    copy_to: Option<&Repository>,
    ctx: Option<&Context>,
) -> PyResult<Session> {
    let path = path_of(path)?;
    let legacy =
        copy_to.map_or(LegacyPolicy::ReadOnly, |copy_to| LegacyPolicy::CopyTo(copy_to.inner().clone()));
    let options = OpenOptions { strict, salvage, legacy, ..OpenOptions::default() };
    Ok(Session::new(call(py, ctx, |ctx| pisession::open_file(&path, &options, ctx))?))
}

/// Imports the session file at `path`: metadata of the session, whether anything was added, number of entries,
/// warnings.
#[pyfunction]
pub(crate) fn import_file(
    py: Python<'_>,
    path: &Bound<'_, PyString>,
    repository: &Repository,
    strict: bool,
    salvage: bool,
    id: Option<Bound<'_, PyString>>,
    ctx: Option<&Context>,
) -> PyResult<(MetadataTuple, bool, u64, Vec<WarningTuple>)> {
    let path = path_of(path)?;
    let id = optional_text(id.as_ref(), ErrorKind::InvalidId, "a session id")?.map(str::to_owned);
    let options = ImportOptions { strict, salvage, id, progress: None };
    let import = call(py, ctx, |ctx| pisession::import_file(&path, repository.inner(), &options, ctx))?;
    Ok((records::metadata(&import.session), import.added, import.entries, warnings(import.warnings())))
}
