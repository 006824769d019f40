//! What the core gives back, as the plain tuples that the package makes records of.

use pisession::{
    CommitResult, Cost, Entry, EntryStructure, ListElement, SessionMetadata, Stats, StoredValue, Usage,
    UsageRow,
};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::json::bytes_of;

pub(crate) type EntryTuple<'py> =
    (String, Option<String>, u64, i64, &'static str, Option<String>, Bound<'py, PyBytes>);
pub(crate) type StructureTuple = (String, Option<String>, u64, i64, &'static str, Option<String>);
pub(crate) type ValueTuple<'py> = (String, String, Bound<'py, PyBytes>, u64);
pub(crate) type MetadataTuple =
    (String, i64, u32, Option<String>, Option<String>, Option<String>, Option<std::path::PathBuf>);

pub(crate) fn entry(py: Python<'_>, entry: Entry) -> EntryTuple<'_> {
    let payload = bytes_of(py, &entry.payload);
    let name = entry.entry_type.name();
    (entry.id, entry.parent_id, entry.seq, entry.timestamp, name, entry.custom_type, payload)
}

pub(crate) fn entries(py: Python<'_>, found: Vec<Entry>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, found.into_iter().map(|found| entry(py, found)).collect::<Vec<_>>())
}

pub(crate) fn structure(found: EntryStructure) -> StructureTuple {
    let name = found.entry_type.name();
    (found.id, found.parent_id, found.seq, found.timestamp, name, found.custom_type)
}

pub(crate) fn stored_value(py: Python<'_>, stored: StoredValue) -> ValueTuple<'_> {
    let (namespace, key) = (stored.address.namespace().to_owned(), stored.address.key().to_owned());
    (namespace, key, bytes_of(py, &stored.value), stored.seq)
}

pub(crate) fn stored_values(py: Python<'_>, stored: Vec<StoredValue>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, stored.into_iter().map(|stored| stored_value(py, stored)).collect::<Vec<_>>())
}

pub(crate) fn elements(py: Python<'_>, elements: Vec<ListElement>) -> PyResult<Bound<'_, PyList>> {
    let pairs = elements.iter().map(|element| (element.seq, bytes_of(py, &element.value)));
    PyList::new(py, pairs.collect::<Vec<_>>())
}

pub(crate) fn metadata(metadata: &SessionMetadata) -> MetadataTuple {
    let metadata = metadata.clone();
    (
        metadata.id,
        metadata.created_at,
        metadata.storage_version,
        metadata.cwd,
        metadata.parent_session_id,
        metadata.legacy_parent_session_path,
        metadata.path,
    )
}

/// A counter: an int where it is whole, as people expect of tokens.
fn number(py: Python<'_>, number: f64) -> PyResult<Bound<'_, PyAny>> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT {
        (number as i64).into_bound_py_any(py)
    } else {
        number.into_bound_py_any(py)
    }
}

fn cost<'py>(py: Python<'py>, cost: &Cost) -> PyResult<Bound<'py, PyTuple>> {
    let fields = [cost.input, cost.output, cost.cache_read, cost.cache_write, cost.total];
    let fields: PyResult<Vec<_>> = fields.into_iter().map(|field| number(py, field)).collect();
    PyTuple::new(py, fields?)
}

pub(crate) fn usage<'py>(py: Python<'py>, usage: &Usage) -> PyResult<Bound<'py, PyTuple>> {
    let needed = |field| number(py, field);
    let optional = |field: Option<f64>| match field {
        Some(field) => number(py, field),
        None => Ok(py.None().into_bound(py)),
    };
    PyTuple::new(
        py,
        [
            needed(usage.input)?,
            needed(usage.output)?,
            needed(usage.cache_read)?,
            needed(usage.cache_write)?,
            optional(usage.cache_write_1h)?,
            optional(usage.reasoning)?,
            needed(usage.total_tokens)?,
            cost(py, &usage.cost)?.into_any(),
        ],
    )
}

pub(crate) fn stats<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyTuple>> {
    (stats.message_count, usage(py, &stats.usage)?).into_pyobject(py)
}

pub(crate) fn usage_row<'py>(py: Python<'py>, row: &UsageRow) -> PyResult<Bound<'py, PyTuple>> {
    (&row.id, row.seq, usage(py, &row.usage)?, bytes_of(py, &row.payload)).into_pyobject(py)
}

pub(crate) fn commit_result<'py>(py: Python<'py>, result: &CommitResult) -> PyResult<Bound<'py, PyTuple>> {
    (result.first_seq, &result.seqs, result.timestamp, stats(py, &result.stats)?).into_pyobject(py)
}
