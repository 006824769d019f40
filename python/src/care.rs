//! Repairing sessions, and copying them elsewhere as they are.

use pisession::{Conversion, ErrorKind, Finding, RepairOptions};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::context::Context;
use crate::error::{exception, optional_text, path as path_of};
use crate::files::{self, WarningTuple};
use crate::records::{self, MetadataTuple};
use crate::repository::{self, Repository};
use crate::session::Session;
use crate::wait::{ask_host, call, call_with_host};

/// `kind, message, id, line, offset, length, hint`.
pub(crate) type FindingTuple =
    (&'static str, String, Option<String>, Option<u64>, Option<u64>, Option<u64>, Option<String>);
/// `entries, messages, values, elements, usage`.
type CountsTuple = (u64, u64, u64, u64, u64);
/// `source, session, kept, findings, warnings`.
type RepairTuple = (MetadataTuple, Option<MetadataTuple>, CountsTuple, Vec<FindingTuple>, Vec<WarningTuple>);

pub(crate) fn finding(found: &Finding) -> FindingTuple {
    let Finding { message, id, hint, .. } = found.clone();
    (found.kind.name(), message, id, found.line, found.offset, found.length, hint)
}

/// Repairs the session in the file at `path`; without `into` it only looks.
#[pyfunction]
pub(crate) fn repair_file(
    py: Python<'_>,
    path: &Bound<'_, PyString>,
    into: Option<&Repository>,
    id: Option<Bound<'_, PyString>>,
    session: Option<Bound<'_, PyString>>,
    ctx: Option<&Context>,
) -> PyResult<RepairTuple> {
    let path = path_of(path)?;
    let id_text = |id: &Option<Bound<'_, PyString>>| {
        optional_text(id.as_ref(), ErrorKind::InvalidId, "a session id").map(|id| id.map(str::to_owned))
    };
    let options = RepairOptions {
        into: into.map(|into| into.inner().clone()),
        id: id_text(&id)?,
        session: id_text(&session)?,
    };
    let repair = call(py, ctx, |ctx| pisession::repair_file(&path, &options, &mut |_| (), ctx))?;
    let kept = repair.kept;
    Ok((
        records::metadata(&repair.source),
        repair.session.as_ref().map(records::metadata),
        (kept.entries, kept.messages, kept.values, kept.elements, kept.usage),
        repair.findings.iter().map(finding).collect(),
        files::warnings(&repair.warnings),
    ))
}

fn conversion(done: &Conversion) -> (MetadataTuple, bool) {
    (records::metadata(&done.session), done.made)
}

/// Copies a session into a repository: its metadata there, and whether it was made.
#[pyfunction]
pub(crate) fn convert_session(
    py: Python<'_>,
    session: &Session,
    into: &Repository,
    progress: Option<Py<PyAny>>,
    ctx: Option<&Context>,
) -> PyResult<(MetadataTuple, bool)> {
    let (session, into) = (session.inner(), into.inner());
    let done = call_with_host(py, ctx, |ctx| {
        pisession::convert_session(session, into, &mut |done| tell(progress.as_ref(), done), ctx)
    })?;
    Ok(conversion(&done))
}

/// Copies every session of a repository into another one: each listing, and its conversion or its error.
#[pyfunction]
pub(crate) fn convert_repository<'py>(
    py: Python<'py>,
    source: &Repository,
    into: &Repository,
    ctx: Option<&Context>,
) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let done = call(py, ctx, |ctx| {
        let (from, into) = (source.inner(), into.inner());
        pisession::convert_repository(from, into, &mut |_| (), &mut |_, _| (), ctx)
    })?;
    let tuple = |converted: pisession::Converted| {
        let (made, error) = match &converted.outcome {
            Ok(done) => (Some(conversion(done)), None),
            Err(error) => (None, Some(exception(py, error)?)),
        };
        (repository::listing_tuple(py, converted.source)?, made, error).into_pyobject(py)
    };
    done.into_iter().map(tuple).collect()
}

/// Tells a callable of the host how much was done. What it raises ends the call.
pub(crate) fn tell(progress: Option<&Py<PyAny>>, done: u64) {
    if let Some(progress) = progress {
        _ = ask_host(|py| progress.bind(py).call1((done,)).map(drop));
    }
}
