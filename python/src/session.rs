//! Sessions: global durable data, branches, and the way onto the mutation line.

use pisession::{
    Address, CheckDepth, CheckOptions, ErrorKind, ExportOptions, ExportScope, SqlValue, UsageScan,
};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyList, PyString, PyTuple};

use crate::branch::Branch;
use crate::care::{FindingTuple, finding, tell};
use crate::context::Context;
use crate::entries::Entries;
use crate::error::{self, optional_text, text};
use crate::files::{self, LossTuple, losses};
use crate::injected::new_id;
use crate::json::json_of;
use crate::mutation::Mutation;
use crate::query::{EntryArguments, PathArguments, invalid, order};
use crate::reads::{self, ListArguments, address};
use crate::records::{self, EntryTuple, MetadataTuple, StructureTuple};
use crate::wait::{call, call_with_host};

/// One open session.
#[pyclass(frozen, module = "pisession._pisession")]
pub(crate) struct Session(pisession::Session);

impl Session {
    pub(crate) fn new(session: pisession::Session) -> Self {
        Self(session)
    }

    pub(crate) fn inner(&self) -> &pisession::Session {
        &self.0
    }
}

#[pymethods]
impl Session {
    fn metadata(&self) -> MetadataTuple {
        records::metadata(self.0.metadata())
    }

    /// What reading an old file found.
    fn legacy<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.0.legacy().map(|legacy| files::legacy(py, legacy)).transpose()
    }

    #[pyo3(signature = (timestamp=None))]
    fn new_id(&self, timestamp: Option<i64>) -> PyResult<String> {
        new_id(self.0.id_generator().as_ref(), timestamp)
    }

    fn get_entries<'py>(
        &self,
        py: Python<'py>,
        ids: Vec<Bound<'py, PyString>>,
        ctx: Option<&Context>,
    ) -> PyResult<Bound<'py, PyList>> {
        reads::get_entries(py, &self.0, &reads::ids(ids)?, ctx)
    }

    fn find_entries<'py>(
        &self,
        py: Python<'py>,
        query: EntryArguments,
        ctx: Option<&Context>,
    ) -> PyResult<Bound<'py, PyList>> {
        let query = query.query(py)?;
        records::entries(py, call(py, ctx, |ctx| self.0.find_entries(&query, ctx))?)
    }

    fn find_entry<'py>(
        &self,
        py: Python<'py>,
        query: EntryArguments,
        ctx: Option<&Context>,
    ) -> PyResult<Option<EntryTuple<'py>>> {
        let query = query.query(py)?;
        let found = call(py, ctx, |ctx| self.0.find_entry(&query, ctx))?;
        Ok(found.map(|found| records::entry(py, found)))
    }

    fn entries(&self, py: Python<'_>, query: EntryArguments, ctx: Option<&Context>) -> PyResult<Entries> {
        let ctx = ctx.map_or_else(pisession::Context::background, Context::inner);
        Ok(Entries::new(self.0.entries(&query.query(py)?, &ctx)))
    }

    fn stats<'py>(&self, py: Python<'py>, ctx: Option<&Context>) -> PyResult<Bound<'py, PyTuple>> {
        reads::stats(py, &self.0, ctx)
    }

    fn get_value<'py>(
        &self,
        py: Python<'py>,
        namespace: &Bound<'py, PyString>,
        key: &Bound<'py, PyString>,
        ctx: Option<&Context>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, u64)>> {
        reads::get_value(py, &self.0, &address(namespace, key)?, ctx)
    }

    fn scan_values<'py>(
        &self,
        py: Python<'py>,
        namespace: &Bound<'py, PyString>,
        prefix: &Bound<'py, PyString>,
        ctx: Option<&Context>,
    ) -> PyResult<Bound<'py, PyList>> {
        reads::scan_values(py, &self.0, &address(namespace, prefix)?, ctx)
    }

    fn read_list<'py>(
        &self,
        py: Python<'py>,
        namespace: &Bound<'py, PyString>,
        key: &Bound<'py, PyString>,
        read: ListArguments,
        ctx: Option<&Context>,
    ) -> PyResult<Bound<'py, PyList>> {
        reads::read_list(py, &self.0, &address(namespace, key)?, read, ctx)
    }

    fn scan_branch<'py>(
        &self,
        py: Python<'py>,
        start: &Bound<'py, PyString>,
        scan: PathArguments,
        ctx: Option<&Context>,
    ) -> PyResult<Bound<'py, PyList>> {
        reads::scan_branch(py, &self.0, text(start, ErrorKind::InvalidId, "an id")?, scan, ctx)
    }

    fn scan_branch_structure(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyString>,
        scan: PathArguments,
        ctx: Option<&Context>,
    ) -> PyResult<Vec<StructureTuple>> {
        let start = text(start, ErrorKind::InvalidId, "an id")?;
        reads::scan_branch_structure(py, &self.0, start, scan, ctx)
    }

    /// `scan` is `from_seq, to_seq, order, limit`.
    fn scan_usage<'py>(
        &self,
        py: Python<'py>,
        scan: (Option<u64>, Option<u64>, String, Option<u64>),
        ctx: Option<&Context>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let (from_seq, to_seq, order_name, limit) = scan;
        let scan = UsageScan { from_seq, to_seq, order: order(py, &order_name)?, limit };
        let rows = call(py, ctx, |ctx| self.0.scan_usage(&scan, ctx))?;
        rows.iter().map(|row| records::usage_row(py, row)).collect()
    }

    fn next_seq(&self, py: Python<'_>, ctx: Option<&Context>) -> PyResult<u64> {
        call(py, ctx, |ctx| self.0.next_seq(ctx))
    }

    fn value_addresses(
        &self,
        py: Python<'_>,
        after: Option<(Bound<'_, PyString>, Bound<'_, PyString>)>,
        limit: usize,
        ctx: Option<&Context>,
    ) -> PyResult<Vec<(String, String)>> {
        let after = after.map(|(namespace, key)| address(&namespace, &key)).transpose()?;
        Ok(pairs(call(py, ctx, |ctx| self.0.value_addresses(after.as_ref(), limit, ctx))?))
    }

    fn list_addresses(
        &self,
        py: Python<'_>,
        after: Option<(Bound<'_, PyString>, Bound<'_, PyString>)>,
        limit: usize,
        ctx: Option<&Context>,
    ) -> PyResult<Vec<(String, String)>> {
        let after = after.map(|(namespace, key)| address(&namespace, &key)).transpose()?;
        Ok(pairs(call(py, ctx, |ctx| self.0.list_addresses(after.as_ref(), limit, ctx))?))
    }

    fn name(&self, py: Python<'_>, ctx: Option<&Context>) -> PyResult<Option<String>> {
        call(py, ctx, |ctx| self.0.name(ctx))
    }

    fn set_name(
        &self,
        py: Python<'_>,
        name: Option<Bound<'_, PyString>>,
        ctx: Option<&Context>,
    ) -> PyResult<()> {
        let name = optional_text(name.as_ref(), ErrorKind::InvalidArgument, "a session's name")?;
        call(py, ctx, |ctx| self.0.set_name(name, ctx))
    }

    fn get_label(
        &self,
        py: Python<'_>,
        entry_id: &Bound<'_, PyString>,
        ctx: Option<&Context>,
    ) -> PyResult<Option<String>> {
        let entry_id = text(entry_id, ErrorKind::InvalidId, "an id")?;
        call(py, ctx, |ctx| self.0.get_label(entry_id, ctx))
    }

    fn set_label(
        &self,
        py: Python<'_>,
        entry_id: &Bound<'_, PyString>,
        label: Option<Bound<'_, PyString>>,
        ctx: Option<&Context>,
    ) -> PyResult<()> {
        let entry_id = text(entry_id, ErrorKind::InvalidId, "an id")?;
        let label = optional_text(label.as_ref(), ErrorKind::InvalidArgument, "a label")?;
        call(py, ctx, |ctx| self.0.set_label(entry_id, label, ctx))
    }

    fn branch(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyString>,
        ctx: Option<&Context>,
    ) -> PyResult<Option<Branch>> {
        let name = text(name, ErrorKind::InvalidBranch, "a branch name")?;
        Ok(call(py, ctx, |ctx| self.0.branch(name, ctx))?.map(Branch::new))
    }

    fn branches(&self, py: Python<'_>, ctx: Option<&Context>) -> PyResult<Vec<(String, Option<String>)>> {
        let branches = call(py, ctx, |ctx| self.0.branches(ctx))?;
        Ok(branches.into_iter().map(|branch| (branch.name, branch.tip_id)).collect())
    }

    fn create_branch(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyString>,
        at: Option<Bound<'_, PyString>>,
        ctx: Option<&Context>,
    ) -> PyResult<Branch> {
        let name = text(name, ErrorKind::InvalidBranch, "a branch name")?;
        let at = optional_text(at.as_ref(), ErrorKind::InvalidId, "an id")?;
        Ok(Branch::new(call(py, ctx, |ctx| self.0.create_branch(name, at, ctx))?))
    }

    fn set_value(
        &self,
        py: Python<'_>,
        namespace: &Bound<'_, PyString>,
        key: &Bound<'_, PyString>,
        value: &Bound<'_, PyAny>,
        ctx: Option<&Context>,
    ) -> PyResult<()> {
        let (address, value) = (address(namespace, key)?, json_of(value, "value")?);
        call(py, ctx, |ctx| self.0.set_value(&address, &value, ctx))
    }

    fn delete_value(
        &self,
        py: Python<'_>,
        namespace: &Bound<'_, PyString>,
        key: &Bound<'_, PyString>,
        ctx: Option<&Context>,
    ) -> PyResult<()> {
        let address = address(namespace, key)?;
        call(py, ctx, |ctx| self.0.delete_value(&address, ctx))
    }

    fn append_list(
        &self,
        py: Python<'_>,
        namespace: &Bound<'_, PyString>,
        key: &Bound<'_, PyString>,
        element: &Bound<'_, PyAny>,
        ctx: Option<&Context>,
    ) -> PyResult<()> {
        let (address, element) = (address(namespace, key)?, json_of(element, "element")?);
        call(py, ctx, |ctx| self.0.append_list(&address, &element, ctx))
    }

    fn delete_list(
        &self,
        py: Python<'_>,
        namespace: &Bound<'_, PyString>,
        key: &Bound<'_, PyString>,
        ctx: Option<&Context>,
    ) -> PyResult<()> {
        let address = address(namespace, key)?;
        call(py, ctx, |ctx| self.0.delete_list(&address, ctx))
    }

    fn begin_mutation(&self, py: Python<'_>, ctx: Option<&Context>) -> PyResult<Mutation> {
        Ok(Mutation::new(call(py, ctx, |ctx| self.0.begin_mutation(ctx))?))
    }

    #[allow(clippy::type_complexity)] // a table: names of its columns, and its rows
    fn query<'py>(
        &self,
        py: Python<'py>,
        sql: &Bound<'py, PyString>,
        parameters: Vec<Bound<'py, PyAny>>,
        ctx: Option<&Context>,
    ) -> PyResult<(Vec<String>, Vec<Bound<'py, PyTuple>>)> {
        let sql = text(sql, ErrorKind::InvalidArgument, "an SQL statement")?;
        let parameters = parameters
            .iter()
            .enumerate()
            .map(|(number, value)| sql_value(value, &format!("parameters[{number}]")))
            .collect::<PyResult<Vec<_>>>()?;
        let found = call(py, ctx, |ctx| self.0.query(sql, &parameters, ctx))?;
        let rows = found.rows.into_iter().map(|row| {
            let cells: PyResult<Vec<_>> = row.into_iter().map(|cell| sql_cell(py, cell)).collect();
            PyTuple::new(py, cells?)
        });
        Ok((found.columns, rows.collect::<PyResult<_>>()?))
    }

    /// What is wrong with the session. `progress` is a callable that takes the number of entries read.
    fn check(
        &self,
        py: Python<'_>,
        depth: &str,
        progress: Option<Py<PyAny>>,
        ctx: Option<&Context>,
    ) -> PyResult<Vec<FindingTuple>> {
        let depth = match depth {
            "brief" => CheckDepth::Brief,
            "quick" => CheckDepth::Quick,
            "full" => CheckDepth::Full,
            _ => {
                let hint = "a depth is 'brief', 'quick' or 'full'";
                return Err(invalid(py, format!("'{depth}' is no depth of a check"), hint));
            }
        };
        let options = CheckOptions { depth, ..CheckOptions::default() };
        let found = call_with_host(py, ctx, |ctx| {
            self.0.check_with(&options, &mut |done| tell(progress.as_ref(), done), ctx)
        })?;
        Ok(found.iter().map(finding).collect())
    }

    /// Bytes of the file before and after.
    fn compact(&self, py: Python<'_>, ctx: Option<&Context>) -> PyResult<(u64, u64)> {
        let done = call(py, ctx, |ctx| self.0.compact(ctx))?;
        Ok((done.before, done.after))
    }

    /// `line, offset, length, reason` of what opening read past.
    fn gaps(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64, u64, String)>> {
        let gaps = call(py, None, |_| self.0.gaps())?;
        Ok(gaps.into_iter().map(|gap| (gap.line, gap.offset, gap.length, gap.reason)).collect())
    }

    fn backup_to(&self, py: Python<'_>, path: &Bound<'_, PyString>, ctx: Option<&Context>) -> PyResult<()> {
        let path = error::path(path)?;
        call(py, ctx, |ctx| self.0.backup_to(&path, ctx))
    }

    /// Number of entries, lines and bytes, and what version 3 cannot hold.
    fn export(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyString>,
        branch: Option<Bound<'_, PyString>>,
        overwrite: bool,
        ctx: Option<&Context>,
    ) -> PyResult<(u64, u64, u64, Vec<LossTuple>)> {
        let path = error::path(path)?;
        let branch = optional_text(branch.as_ref(), ErrorKind::InvalidBranch, "a branch name")?;
        let scope = branch.map_or(ExportScope::Tree, |name| ExportScope::Branch(name.to_owned()));
        let options = ExportOptions { scope, overwrite };
        let export = call(py, ctx, |ctx| self.0.export_to(&path, &options, ctx))?;
        Ok((export.entries, export.lines, export.bytes, losses(export.losses)))
    }

    fn close(&self, py: Python<'_>, ctx: Option<&Context>) -> PyResult<()> {
        call(py, ctx, |ctx| self.0.close(ctx))
    }
}

fn pairs(addresses: Vec<Address>) -> Vec<(String, String)> {
    addresses.iter().map(|address| (address.namespace().to_owned(), address.key().to_owned())).collect()
}

/// A parameter of a query; `place` is what the caller calls it.
fn sql_value(value: &Bound<'_, PyAny>, place: &str) -> PyResult<SqlValue> {
    if value.is_none() {
        return Ok(SqlValue::Null);
    }
    if let Ok(string) = value.cast::<PyString>() {
        return Ok(SqlValue::Text(text(string, ErrorKind::InvalidArgument, place)?.to_owned()));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(SqlValue::Blob(bytes.as_bytes().to_vec()));
    }
    if let Ok(float) = value.cast::<PyFloat>() {
        return Ok(SqlValue::Real(float.value()));
    }
    value.extract::<i64>().map(SqlValue::Integer).map_err(|failure| {
        let py = value.py();
        if failure.is_instance_of::<PyOverflowError>(py) {
            return invalid(
                py,
                format!("{place} does not fit into 64 bits"),
                "hand it over as a str or a float",
            );
        }
        let kind = value.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("{place} must be a str, bytes, int, float or None, not {kind}"))
    })
}

fn sql_cell(py: Python<'_>, cell: SqlValue) -> PyResult<Bound<'_, PyAny>> {
    match cell {
        SqlValue::Null => Ok(py.None().into_bound(py)),
        SqlValue::Integer(number) => number.into_bound_py_any(py),
        SqlValue::Real(number) => number.into_bound_py_any(py),
        SqlValue::Text(text) => text.into_bound_py_any(py),
        SqlValue::Blob(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
    }
}
