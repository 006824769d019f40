//! The reads that a session and a mutation share.

use pisession::{Address, Error, ErrorKind, ListRead, SessionReader};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::context::Context;
use crate::error::{text, to_python};
use crate::json::bytes_of;
use crate::query::{PathArguments, order};
use crate::records::{self, StructureTuple};
use crate::wait::call;

/// The address of `namespace` and `key`.
pub(crate) fn address(namespace: &Bound<'_, PyString>, key: &Bound<'_, PyString>) -> PyResult<Address> {
    let kind = ErrorKind::InvalidAddress;
    let (namespace_text, key) = (text(namespace, kind, "a namespace")?, text(key, kind, "a key")?);
    Address::new(namespace_text, key).map_err(|error| to_python(namespace.py(), &error))
}

pub(crate) fn get_entries<'py>(
    py: Python<'py>,
    reader: &(impl SessionReader + Sync),
    ids: &[String],
    ctx: Option<&Context>,
) -> PyResult<Bound<'py, PyList>> {
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    records::entries(py, call(py, ctx, |ctx| reader.get_entries(&ids, ctx))?)
}

pub(crate) fn stats<'py>(
    py: Python<'py>,
    reader: &(impl SessionReader + Sync),
    ctx: Option<&Context>,
) -> PyResult<Bound<'py, PyTuple>> {
    records::stats(py, &call(py, ctx, |ctx| reader.stats(ctx))?)
}

pub(crate) fn get_value<'py>(
    py: Python<'py>,
    reader: &(impl SessionReader + Sync),
    address: &Address,
    ctx: Option<&Context>,
) -> PyResult<Option<(Bound<'py, PyBytes>, u64)>> {
    let stored = call(py, ctx, |ctx| reader.get_value(address, ctx))?;
    Ok(stored.map(|stored| (bytes_of(py, &stored.value), stored.seq)))
}

pub(crate) fn scan_values<'py>(
    py: Python<'py>,
    reader: &(impl SessionReader + Sync),
    prefix: &Address,
    ctx: Option<&Context>,
) -> PyResult<Bound<'py, PyList>> {
    records::stored_values(py, call(py, ctx, |ctx| reader.scan_values(prefix, ctx))?)
}

/// `cursor, order, limit` of a list read.
pub(crate) type ListArguments = (Option<u64>, String, u64);

pub(crate) fn read_list<'py>(
    py: Python<'py>,
    reader: &(impl SessionReader + Sync),
    address: &Address,
    (cursor, order_name, limit): ListArguments,
    ctx: Option<&Context>,
) -> PyResult<Bound<'py, PyList>> {
    let read = ListRead { cursor, order: order(py, &order_name)?, limit };
    records::elements(py, call(py, ctx, |ctx| reader.read_list(address, &read, ctx))?)
}

pub(crate) fn scan_branch<'py>(
    py: Python<'py>,
    reader: &(impl SessionReader + Sync),
    start: &str,
    scan: PathArguments,
    ctx: Option<&Context>,
) -> PyResult<Bound<'py, PyList>> {
    let scan = scan.scan(py)?;
    records::entries(py, call(py, ctx, |ctx| reader.scan_branch(start, &scan, ctx))?)
}

pub(crate) fn scan_branch_structure(
    py: Python<'_>,
    reader: &(impl SessionReader + Sync),
    start: &str,
    scan: PathArguments,
    ctx: Option<&Context>,
) -> PyResult<Vec<StructureTuple>> {
    let scan = scan.scan(py)?;
    let found = call(py, ctx, |ctx| reader.scan_branch_structure(start, &scan, ctx))?;
    Ok(found.into_iter().map(records::structure).collect())
}

/// Ids as text; one with a lone surrogate is refused.
pub(crate) fn ids(ids: Vec<Bound<'_, PyString>>) -> PyResult<Vec<String>> {
    ids.iter().map(|id| text(id, ErrorKind::InvalidId, "an id").map(str::to_owned)).collect()
}

/// Raises `error`.
pub(crate) fn raise<T>(py: Python<'_>, result: Result<T, Error>) -> PyResult<T> {
    result.map_err(|error| to_python(py, &error))
}
