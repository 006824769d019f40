//! Nodes.
//!
//! Entries to be appended to a branch in one commit are collected in a pi_nodes, without ids and parents: these
//! come with pi_branch_append_many, which puts each under the one before.

use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pisession::{NewNode, Result};

use crate::argument::{Out, Plain, View, is_null, json, optional_json, text};
use crate::buf::Text;
use crate::error::{PI_INVALID_ARGUMENT, PI_OK, pi_error};
use crate::guard::{guard, guard_value};
use crate::handle;

/// The entries of one append. To be freed with pi_nodes_free, after the append too.
pub struct pi_nodes(Mutex<Vec<NewNode>>);

impl pi_nodes {
    fn lock(&self) -> Result<MutexGuard<'_, Vec<NewNode>>> {
        handle::check_process()?;
        // Nothing that can panic runs while it is held.
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The nodes collected; none for NULL.
///
/// # Safety
/// `nodes` is NULL or was not freed (rule 3).
pub(crate) unsafe fn collected(nodes: *const pi_nodes) -> Result<Vec<NewNode>> {
    // SAFETY: as asked for.
    match unsafe { nodes.as_ref() } {
        Some(nodes) => Ok(nodes.lock()?.clone()),
        None => Ok(Vec::new()),
    }
}

/// Adds a node.
///
/// # Safety
/// As [`collected`].
unsafe fn add(nodes: *mut pi_nodes, node: NewNode) -> Result<()> {
    // SAFETY: as asked for.
    let nodes = unsafe { nodes.as_ref() }.ok_or_else(|| is_null("nodes"))?;
    nodes.lock()?.push(node);
    Ok(())
}

/// Makes an empty batch. *nodes is the caller's, to be freed with pi_nodes_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_nodes_new(nodes: *mut *mut pi_nodes, error: *mut *mut pi_error) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            Out::cleared(nodes).required("nodes")?.set(|| handle::give(pi_nodes(Mutex::default())));
            Ok(())
        })
    }
}

/// Adds a message (a JSON object). PI_INVALID_JSON. The append refuses what else is wrong with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_nodes_add_message(
    nodes: *mut pi_nodes,
    message: *const c_char,
    message_len: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output, batch and text are as the contract says (rules 2, 3 and 5).
    unsafe { guard(error, || add(nodes, NewNode::Message(json(message, message_len, "message")?))) }
}

/// Adds an entry of the application's own type, with JSON data or without (data NULL). As pi_nodes_add_message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_nodes_add_custom_entry(
    nodes: *mut pi_nodes,
    custom_type: *const c_char,
    custom_type_len: usize,
    data: *const c_char,
    data_len: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output, batch and texts are as the contract says (rules 2, 3 and 5).
    unsafe {
        guard(error, || {
            let custom_type = text(custom_type, custom_type_len, "custom_type")?;
            let data = optional_json(data, data_len, "data")?;
            add(nodes, NewNode::Custom(custom_type.to_owned(), data))
        })
    }
}

/// How many nodes were added. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_nodes_count(nodes: *const pi_nodes) -> usize {
    guard_value(|| {
        // SAFETY: NULL or a batch that was not freed (rule 3).
        let nodes = unsafe { nodes.as_ref() };
        nodes.and_then(|nodes| nodes.lock().ok()).map_or(0, |nodes| nodes.len())
    })
}

/// Frees the batch. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_nodes_free(nodes: *mut pi_nodes) {
    // SAFETY: NULL or a batch that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(nodes) }));
}

/// The ids of the entries that an append made, in their order. To be freed with pi_ids_free.
pub struct pi_ids(Vec<Text>);

impl pi_ids {
    pub(crate) fn give(made: &[String]) -> *mut pi_ids {
        handle::give(pi_ids(made.iter().map(Text::new).collect()))
    }
}

/// One id: a view that is valid until the set is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_id {
    /// The id.
    pub id: *const c_char,
    /// Bytes of id.
    pub id_len: usize,
}

// SAFETY: an integer, and a pointer that may be NULL.
unsafe impl Plain for pi_id {}

/// How many ids there are. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_ids_count(ids: *const pi_ids) -> usize {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| unsafe { ids.as_ref() }.map_or(0, |ids| ids.0.len()))
}

/// Fills *view with the id at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_ids_get(ids: *const pi_ids, index: usize, view: *mut pi_id, size: usize) -> i32 {
    guard_value(|| {
        // SAFETY: the set is NULL or was not freed, the view NULL or writable for `size` bytes (rules 2, 3).
        let (view, ids) = unsafe { (View::cleared(view, size), ids.as_ref()) };
        match (view.required("view"), ids.and_then(|ids| ids.0.get(index))) {
            (Ok(view), Some(id)) => {
                view.set(&pi_id { id: id.data(), id_len: id.len() });
                PI_OK
            }
            _ => PI_INVALID_ARGUMENT,
        }
    })
}

/// Frees the set and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_ids_free(ids: *mut pi_ids) {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(ids) }));
}
