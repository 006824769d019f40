//! One turn of the mutation line. Its writes are collected here and committed once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pisession::{ErrorKind, NewEntry, NewUsage, Write};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::context::Context;
use crate::error::text;
use crate::json::json_of;
use crate::query::PathArguments;
use crate::reads::{self, ListArguments, address, raise};
use crate::records::{self, StructureTuple};
use crate::wait::call;

/// A begun mutation.
#[pyclass(frozen, module = "pisession._pisession")]
pub(crate) struct Mutation {
    mutation: pisession::Mutation,
    /// The writes; none once it was committed or ended.
    collected: Mutex<Option<Vec<Write>>>,
}

impl Mutation {
    pub(crate) fn new(mutation: pisession::Mutation) -> Self {
        Self { mutation, collected: Mutex::new(Some(Vec::new())) }
    }

    fn collected(&self) -> MutexGuard<'_, Option<Vec<Write>>> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collect(&self, py: Python<'_>, write: Write) -> PyResult<()> {
        if let Some(writes) = self.collected().as_mut() {
            writes.push(write);
            return Ok(());
        }
        // After the commit or the end the core refuses another commit, and says why.
        call(py, None, |ctx| self.mutation.commit(&[], ctx)).map(drop)
    }
}

#[pymethods]
impl Mutation {
    fn new_id(&self) -> String {
        self.mutation.id_generator().next(None)
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

    /// `entry` is the JSON object of an entry; its id.
    fn insert_entry(&self, py: Python<'_>, entry: &Bound<'_, PyAny>) -> PyResult<String> {
        let entry = raise(py, NewEntry::from_json(json_of(entry, "entry")?.as_str()))?;
        let id = entry.id().to_owned();
        self.collect(py, Write::Entry(entry))?;
        Ok(id)
    }

    /// `row` is the JSON object of a usage row; its id.
    fn insert_usage_row(&self, py: Python<'_>, row: &Bound<'_, PyAny>) -> PyResult<String> {
        let row = raise(py, NewUsage::from_json(json_of(row, "row")?.as_str()))?;
        let id = row.id().to_owned();
        self.collect(py, Write::Usage(row))?;
        Ok(id)
    }

    /// How many writes were collected and not committed.
    #[getter]
    fn pending(&self) -> usize {
        self.collected().as_ref().map_or(0, Vec::len)
    }

    fn commit<'py>(&self, py: Python<'py>, ctx: Option<&Context>) -> PyResult<Bound<'py, PyTuple>> {
        let writes = self.collected().take().unwrap_or_default();
        records::commit_result(py, &call(py, ctx, |ctx| self.mutation.commit(&writes, ctx))?)
    }

    fn end(&self, py: Python<'_>) -> PyResult<()> {
        drop(self.collected().take());
        // It waits for a commit that another thread has begun.
        call(py, None, |_| {
            self.mutation.end();
            Ok(())
        })
    }
}
