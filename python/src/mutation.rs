//! One turn of the mutation line. Its writes are collected here and committed once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pisession::{Error, ErrorKind, NewEntry, NewUsage, Write};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::context::Context;
use crate::error::text;
use crate::injected::new_id;
use crate::json::json_of;
use crate::query::PathArguments;
use crate::reads::{self, ListArguments, address, raise};
use crate::records::{self, StructureTuple};
use crate::wait::call;

/// A begun mutation.
#[pyclass(frozen, module = "pisession._pisession")]
pub(crate) struct Mutation {
    mutation: pisession::Mutation,
    /// Held for moments only, and never without the interpreter lock: a forked child finds it free.
    state: Mutex<State>,
}

/// What became of the writes. They are here, or were handed to the one commit, or were dropped.
enum State {
    Collecting(Vec<Write>),
    Committed,
    Ended,
}

fn commit_attempted() -> Error {
    Error::new(ErrorKind::CommitAttempted, "the mutation has used its one commit")
        .with_hint("collect all writes of a decision in one commit")
}

fn mutation_ended() -> Error {
    Error::new(ErrorKind::MutationEnded, "the mutation has ended")
        .with_hint("begin another one for another decision")
}

impl State {
    /// Where writes are collected; once they are gone, the refusal. The core is not asked then: what it says may
    /// have changed meanwhile.
    fn writes(&mut self) -> Result<&mut Vec<Write>, Error> {
        match self {
            Self::Collecting(writes) => Ok(writes),
            Self::Committed => Err(commit_attempted()),
            Self::Ended => Err(mutation_ended()),
        }
    }
}

impl Mutation {
    pub(crate) fn new(mutation: pisession::Mutation) -> Self {
        Self { mutation, state: Mutex::new(State::Collecting(Vec::new())) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collect(&self, py: Python<'_>, write: Write) -> PyResult<()> {
        let collected = self.state().writes().map(|writes| writes.push(write));
        raise(py, collected)
    }

    /// The writes, for the one commit.
    fn take(&self) -> Result<Vec<Write>, Error> {
        let mut state = self.state();
        let writes = std::mem::take(state.writes()?);
        *state = State::Committed;
        Ok(writes)
    }
}

#[pymethods]
impl Mutation {
    fn new_id(&self) -> PyResult<String> {
        new_id(self.mutation.id_generator().as_ref(), None)
    }

    fn get_entries<'py>(
        &self,
        py: Python<'py>,
        ids: Vec<Bound<'py, PyString>>,
        ctx: Option<&Context>,
    ) -> PyResult<Bound<'py, PyList>> {
        reads::get_entries(py, &*self.mutation, &reads::ids(ids)?, ctx)
    }

    fn stats<'py>(&self, py: Python<'py>, ctx: Option<&Context>) -> PyResult<Bound<'py, PyTuple>> {
        reads::stats(py, &*self.mutation, ctx)
    }

    fn get_value<'py>(
        &self,
        py: Python<'py>,
        namespace: &Bound<'py, PyString>,
        key: &Bound<'py, PyString>,
        ctx: Option<&Context>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, u64)>> {
        reads::get_value(py, &*self.mutation, &address(namespace, key)?, ctx)
    }

    fn scan_values<'py>(
        &self,
        py: Python<'py>,
        namespace: &Bound<'py, PyString>,
        prefix: &Bound<'py, PyString>,
        ctx: Option<&Context>,
    ) -> PyResult<Bound<'py, PyList>> {
        reads::scan_values(py, &*self.mutation, &address(namespace, prefix)?, ctx)
    }

    fn read_list<'py>(
        &self,
        py: Python<'py>,
        namespace: &Bound<'py, PyString>,
        key: &Bound<'py, PyString>,
        read: ListArguments,
        ctx: Option<&Context>,
    ) -> PyResult<Bound<'py, PyList>> {
        reads::read_list(py, &*self.mutation, &address(namespace, key)?, read, ctx)
    }

    fn scan_branch<'py>(
        &self,
        py: Python<'py>,
        start: &Bound<'py, PyString>,
        scan: PathArguments,
        ctx: Option<&Context>,
    ) -> PyResult<Bound<'py, PyList>> {
        reads::scan_branch(py, &*self.mutation, text(start, ErrorKind::InvalidId, "an id")?, scan, ctx)
    }

    fn scan_branch_structure(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyString>,
        scan: PathArguments,
        ctx: Option<&Context>,
    ) -> PyResult<Vec<StructureTuple>> {
        let start = text(start, ErrorKind::InvalidId, "an id")?;
        reads::scan_branch_structure(py, &*self.mutation, start, scan, ctx)
    }

    fn set_value(
        &self,
        py: Python<'_>,
        namespace: &Bound<'_, PyString>,
        key: &Bound<'_, PyString>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.collect(py, Write::SetValue(address(namespace, key)?, json_of(value, "value")?))
    }

    fn delete_value(
        &self,
        py: Python<'_>,
        namespace: &Bound<'_, PyString>,
        key: &Bound<'_, PyString>,
    ) -> PyResult<()> {
        self.collect(py, Write::DeleteValue(address(namespace, key)?))
    }

    fn append_list(
        &self,
        py: Python<'_>,
        namespace: &Bound<'_, PyString>,
        key: &Bound<'_, PyString>,
        element: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.collect(py, Write::AppendList(address(namespace, key)?, json_of(element, "element")?))
    }

    fn delete_list(
        &self,
        py: Python<'_>,
        namespace: &Bound<'_, PyString>,
        key: &Bound<'_, PyString>,
    ) -> PyResult<()> {
        self.collect(py, Write::DeleteList(address(namespace, key)?))
    }

    /// `entry` is the JSON object of an entry, which the caller calls `name`; its id.
    fn insert_entry(&self, py: Python<'_>, entry: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
        let entry = raise(py, NewEntry::from_json(json_of(entry, name)?.as_str()))?;
        let id = entry.id().to_owned();
        self.collect(py, Write::Entry(entry))?;
        Ok(id)
    }

    /// `row` is the JSON object of a usage row, which the caller calls `name`; its id.
    fn insert_usage_row(&self, py: Python<'_>, row: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
        let row = raise(py, NewUsage::from_json(json_of(row, name)?.as_str()))?;
        let id = row.id().to_owned();
        self.collect(py, Write::Usage(row))?;
        Ok(id)
    }

    /// How many writes were collected and not committed.
    #[getter]
    fn pending(&self) -> usize {
        match &*self.state() {
            State::Collecting(writes) => writes.len(),
            State::Committed | State::Ended => 0,
        }
    }

    fn commit<'py>(&self, py: Python<'py>, ctx: Option<&Context>) -> PyResult<Bound<'py, PyTuple>> {
        let writes = raise(py, self.take())?;
        records::commit_result(py, &call(py, ctx, |ctx| self.mutation.commit(&writes, ctx))?)
    }

    fn end(&self, py: Python<'_>) -> PyResult<()> {
        let ended = std::mem::replace(&mut *self.state(), State::Ended);
        drop(ended);
        // It waits for a commit that another thread has begun.
        call(py, None, |_| {
            self.mutation.end();
            Ok(())
        })
    }
}
