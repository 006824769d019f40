//! Repositories.

use std::sync::Arc;
use std::time::Duration;

use pisession::{
    CreateOptions, Durability, ErrorKind, ForkOptions, ForkPoint, ForkPosition, ForkScope, IdGenerator,
    ListOptions, RepositoryOptions, SessionListing, SessionMetadata,
};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::context::Context;
use crate::error::{self, exception, optional_text, text};
use crate::files::OpenArguments;
use crate::injected::{HostClock, HostIds};
use crate::query::invalid;
use crate::records;
use crate::session::Session;
use crate::wait::call;

/// Opens the repository that `uri` names.
#[pyfunction]
pub(crate) fn open_repository(
    py: Python<'_>,
    uri: &Bound<'_, PyString>,
    durability: &str,
    busy_timeout: f64,
    max_payload: Option<usize>,
    clock: Option<Py<PyAny>>,
    ids: Option<Py<PyAny>>,
) -> PyResult<Repository> {
    let mut options = RepositoryOptions {
        durability: match durability {
            "power" => Durability::Power,
            "process" => Durability::Process,
            _ => {
                let hint = "a durability is 'power' or 'process'";
                return Err(invalid(py, format!("'{durability}' is no durability"), hint));
            }
        },
        busy_timeout: Duration::try_from_secs_f64(busy_timeout).map_err(|_| {
            invalid(py, format!("a busy timeout of {busy_timeout} seconds is not possible"), "give seconds")
        })?,
        ..RepositoryOptions::default()
    };
    if let Some(max_payload) = max_payload {
        options.max_payload = max_payload;
    }
    if let Some(clock) = clock {
        options.clock = Arc::new(HostClock(clock));
    }
    options.ids = ids.map(|ids| Arc::new(HostIds(ids)) as Arc<dyn IdGenerator>);
    let uri = text(uri, ErrorKind::InvalidArgument, "a repository's URI")?;
    Ok(Repository(call(py, None, |_| pisession::open_repository(uri, options))?))
}

/// A place where sessions are kept.
#[pyclass(frozen, module = "pisession._pisession")]
pub(crate) struct Repository(pisession::Repository);

impl Repository {
    pub(crate) fn inner(&self) -> &pisession::Repository {
        &self.0
    }
}

/// What a fork is made from: a session that is open, or the id and path of one of the repository.
#[derive(FromPyObject)]
enum Source<'py> {
    Open(Bound<'py, Session>),
    Stored(Bound<'py, PyString>, Option<Bound<'py, PyString>>),
}

/// A session by its id and the path of its file: of metadata the core looks at these two when it opens.
fn named(id: &Bound<'_, PyString>, path: Option<&Bound<'_, PyString>>) -> PyResult<SessionMetadata> {
    Ok(SessionMetadata {
        id: text(id, ErrorKind::InvalidId, "a session id")?.to_owned(),
        path: path.map(error::path).transpose()?,
        created_at: 0,
        storage_version: 0,
        cwd: None,
        parent_session_id: None,
        legacy_parent_session_path: None,
    })
}

#[pymethods]
impl Repository {
    fn create(
        &self,
        py: Python<'_>,
        id: Option<Bound<'_, PyString>>,
        parent_session_id: Option<Bound<'_, PyString>>,
        cwd: Option<Bound<'_, PyString>>,
        ctx: Option<&Context>,
    ) -> PyResult<Session> {
        let id_text = |id: &Option<Bound<'_, PyString>>| {
            optional_text(id.as_ref(), ErrorKind::InvalidId, "a session id").map(|id| id.map(str::to_owned))
        };
        let options = CreateOptions {
            id: id_text(&id)?,
            parent_session_id: id_text(&parent_session_id)?,
            cwd: optional_text(cwd.as_ref(), ErrorKind::InvalidArgument, "a working folder")?
                .map(str::to_owned),
            ..CreateOptions::default()
        };
        Ok(Session::new(call(py, ctx, |ctx| self.0.create(&options, ctx))?))
    }

    #[allow(clippy::too_many_arguments)] // those of the options, one by one
    fn fork(
        &self,
        py: Python<'_>,
        source: Source<'_>,
        tree: bool,
        branch: Option<Bound<'_, PyString>>,
        entry: Option<Bound<'_, PyString>>,
        before: bool,
        id: Option<Bound<'_, PyString>>,
        cwd: Option<Bound<'_, PyString>>,
        ctx: Option<&Context>,
    ) -> PyResult<(Session, Vec<String>)> {
        let owned = |given: &Option<Bound<'_, PyString>>, kind, what| {
            optional_text(given.as_ref(), kind, what).map(|text| text.map(str::to_owned))
        };
        let point = ForkPoint {
            branch: owned(&branch, ErrorKind::InvalidBranch, "a branch name")?,
            entry: owned(&entry, ErrorKind::InvalidId, "an entry id")?,
            position: if before { ForkPosition::Before } else { ForkPosition::At },
        };
        let options = ForkOptions {
            scope: if tree { ForkScope::Tree } else { ForkScope::Branch(point) },
            id: owned(&id, ErrorKind::InvalidId, "a session id")?,
            cwd: owned(&cwd, ErrorKind::InvalidArgument, "a working folder")?,
        };
        let fork = match &source {
            Source::Open(source) => {
                let source = source.get().inner();
                call(py, ctx, |ctx| self.0.fork(source, &options, ctx))?
            }
            Source::Stored(id, path) => {
                let source = named(id, path.as_ref())?;
                call(py, ctx, |ctx| self.0.fork((&self.0, &source), &options, ctx))?
            }
        };
        Ok((Session::new(fork.session), fork.left_out))
    }

    fn open(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyString>,
        path: Option<Bound<'_, PyString>>,
        options: OpenArguments,
        ctx: Option<&Context>,
    ) -> PyResult<Session> {
        let metadata = named(id, path.as_ref())?;
        let options = options.options(py)?;
        Ok(Session::new(call(py, ctx, |ctx| self.0.open_with(&metadata, &options, ctx))?))
    }

    fn list<'py>(
        &self,
        py: Python<'py>,
        details: bool,
        ctx: Option<&Context>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let listed = call(py, ctx, |ctx| self.0.list(&ListOptions { details }, ctx))?;
        listed.into_iter().map(|listing| listing_tuple(py, listing)).collect()
    }

    fn delete(&self, py: Python<'_>, id: &Bound<'_, PyString>, ctx: Option<&Context>) -> PyResult<()> {
        let id = text(id, ErrorKind::InvalidId, "a session id")?;
        call(py, ctx, |ctx| self.0.delete(id, ctx))
    }

    fn close(&self, py: Python<'_>, ctx: Option<&Context>) -> PyResult<()> {
        call(py, ctx, |ctx| self.0.close(ctx))
    }
}

pub(crate) fn listing_tuple(py: Python<'_>, listing: SessionListing) -> PyResult<Bound<'_, PyTuple>> {
    let problem = listing.problem.as_ref().map(|problem| exception(py, problem)).transpose()?;
    (
        listing.metadata.as_ref().map(records::metadata),
        listing.path,
        listing.modified_at,
        listing.format.to_string(),
        listing.name,
        listing.message_count,
        problem,
    )
        .into_pyobject(py)
}
