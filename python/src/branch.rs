//! Branches: one named path through the entry tree.

use pisession::{ErrorKind, NewNode};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::context::Context;
use crate::entries::Entries;
use crate::error::text;
use crate::json::json_of;
use crate::query::PathArguments;
use crate::records::{self, EntryTuple};
use crate::wait::call;

/// A named path of a session.
#[pyclass(frozen, module = "pisession._pisession")]
pub(crate) struct Branch(pisession::Branch);

impl Branch {
    pub(crate) fn new(branch: pisession::Branch) -> Self {
        Self(branch)
    }
}

#[pymethods]
impl Branch {
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    fn equals(&self, other: &Branch) -> bool {
        self.0 == other.0
    }

    fn tip_id(&self, py: Python<'_>, ctx: Option<&Context>) -> PyResult<Option<String>> {
        call(py, ctx, |ctx| self.0.tip_id(ctx))
    }

    fn find_entries<'py>(
        &self,
        py: Python<'py>,
        scan: PathArguments,
        ctx: Option<&Context>,
    ) -> PyResult<Bound<'py, PyList>> {
        let scan = scan.scan(py)?;
        records::entries(py, call(py, ctx, |ctx| self.0.find_entries(&scan, ctx))?)
    }

    fn find_entry<'py>(
        &self,
        py: Python<'py>,
        scan: PathArguments,
        ctx: Option<&Context>,
    ) -> PyResult<Option<EntryTuple<'py>>> {
        let scan = scan.scan(py)?;
        let found = call(py, ctx, |ctx| self.0.find_entry(&scan, ctx))?;
        Ok(found.map(|found| records::entry(py, found)))
    }

    fn entries(&self, py: Python<'_>, scan: PathArguments, ctx: Option<&Context>) -> PyResult<Entries> {
        let scan = scan.scan(py)?;
        // The iterator keeps the caller's context; that of one call ends with it.
        let kept = ctx.map_or_else(pisession::Context::background, Context::inner);
        Ok(Entries::new(call(py, ctx, |_| self.0.entries(&scan, &kept))?))
    }

    /// Appends `nodes` in one commit; their ids. A node is `(message,)`, `(custom_type, data)` or, without data,
    /// `custom_type`.
    fn append_many(
        &self,
        py: Python<'_>,
        nodes: Vec<Bound<'_, PyAny>>,
        ctx: Option<&Context>,
    ) -> PyResult<Vec<String>> {
        let many = nodes.len() > 1;
        let nodes: Vec<NewNode> = nodes
            .iter()
            .enumerate()
            .map(|(number, node)| {
                new_node(node, |name| if many { format!("nodes[{number}].{name}") } else { name.to_owned() })
            })
            .collect::<PyResult<_>>()?;
        call(py, ctx, |ctx| self.0.append_many(&nodes, ctx))
    }
}

/// What a node is: `custom_type`, `(custom_type, data)` or `(message,)`; `place` names a part of it.
fn new_node(node: &Bound<'_, PyAny>, place: impl Fn(&str) -> String) -> PyResult<NewNode> {
    let custom_type = |name: &Bound<'_, PyString>| {
        text(name, ErrorKind::InvalidArgument, "a custom type").map(str::to_owned)
    };
    if let Ok(name) = node.cast::<PyString>() {
        return Ok(NewNode::Custom(custom_type(name)?, None));
    }
    let node = node.cast::<PyTuple>()?;
    if node.len() == 1 {
        return Ok(NewNode::Message(json_of(&node.get_item(0)?, &place("message"))?));
    }
    let name = node.get_item(0)?.cast_into::<PyString>()?;
    Ok(NewNode::Custom(custom_type(&name)?, Some(json_of(&node.get_item(1)?, &place("data"))?)))
}
