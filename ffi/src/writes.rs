//! Writes.
//!
//! The writes of one commit are collected in a pi_writes, in their order, and applied all or nothing by
//! pi_mutation_commit. What is wrong with a write by itself is said when it is added; a write that was refused
//! is not added.

use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pisession::{NewEntry, NewUsage, Result, Write};

use crate::argument::{Out, address, is_null, json, optional_json, optional_text, text};
use crate::error::pi_error;
use crate::guard::{guard, guard_value};
use crate::handle;

/// The writes of one commit. To be freed with pi_writes_free, after the commit too.
pub struct pi_writes(Mutex<Vec<Write>>);

impl pi_writes {
    fn lock(&self) -> Result<MutexGuard<'_, Vec<Write>>> {
        handle::check_process()?;
        // Nothing that can panic runs while it is held.
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The writes collected; none for NULL.
///
/// # Safety
/// `writes` is NULL or was not freed (rule 3).
pub(crate) unsafe fn collected(writes: *const pi_writes) -> Result<Vec<Write>> {
    // SAFETY: as asked for.
    match unsafe { writes.as_ref() } {
        Some(writes) => Ok(writes.lock()?.clone()),
        None => Ok(Vec::new()),
    }
}

/// Adds a write.
///
/// # Safety
/// As [`collected`].
unsafe fn add(writes: *mut pi_writes, write: Write) -> Result<()> {
    // SAFETY: as asked for.
    let writes = unsafe { writes.as_ref() }.ok_or_else(|| is_null("writes"))?;
    writes.lock()?.push(write);
    Ok(())
}

/// Makes an empty batch. *writes is the caller's, to be freed with pi_writes_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_writes_new(writes: *mut *mut pi_writes, error: *mut *mut pi_error) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            Out::cleared(writes).required("writes")?.set(|| handle::give(pi_writes(Mutex::default())));
            Ok(())
        })
    }
}

/// How many writes were added. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_writes_count(writes: *const pi_writes) -> usize {
    guard_value(|| {
        // SAFETY: NULL or a batch that was not freed (rule 3).
        let writes = unsafe { writes.as_ref() };
        writes.and_then(|writes| writes.lock().ok()).map_or(0, |writes| writes.len())
    })
}

/// Frees the batch. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_writes_free(writes: *mut pi_writes) {
    // SAFETY: NULL or a batch that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(writes) }));
}

/// Adds an entry from its JSON object: id, parentId (null for a root), type, customType for custom entries, and
/// the type's payload fields. PI_INVALID_JSON, PI_INVALID_ID, PI_PENDING_ASSISTANT, PI_INVALID_ARGUMENT naming
/// the field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_writes_insert_entry(
    writes: *mut pi_writes,
    entry: *const c_char,
    entry_len: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output, batch and text are as the contract says (rules 2, 3 and 5).
    unsafe {
        guard(error, || {
            let entry = json(entry, entry_len, "entry")?;
            add(writes, Write::Entry(NewEntry::from_json(entry.as_str())?))
        })
    }
}

/// Adds a message (a JSON object) under the entry parent_id (NULL for a root). The tip of a branch does not move
/// with it: set the value ("pi.branch.tip", branch name) in the same commit. The commit refuses what is wrong
/// with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_writes_insert_message(
    writes: *mut pi_writes,
    id: *const c_char,
    id_len: usize,
    parent_id: *const c_char,
    parent_id_len: usize,
    message: *const c_char,
    message_len: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output, batch and texts are as the contract says (rules 2, 3 and 5).
    unsafe {
        guard(error, || {
            let id = text(id, id_len, "id")?;
            let parent_id = optional_text(parent_id, parent_id_len, "parent_id")?;
            let message = json(message, message_len, "message")?;
            add(writes, Write::Entry(NewEntry::message(id, parent_id, &message)))
        })
    }
}

/// Adds an entry of the application's own type, with JSON data or without (data NULL), under the entry parent_id
/// (NULL for a root). As pi_writes_insert_message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_writes_insert_custom_entry(
    writes: *mut pi_writes,
    id: *const c_char,
    id_len: usize,
    parent_id: *const c_char,
    parent_id_len: usize,
    custom_type: *const c_char,
    custom_type_len: usize,
    data: *const c_char,
    data_len: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output, batch and texts are as the contract says (rules 2, 3 and 5).
    unsafe {
        guard(error, || {
            let id = text(id, id_len, "id")?;
            let parent_id = optional_text(parent_id, parent_id_len, "parent_id")?;
            let custom_type = text(custom_type, custom_type_len, "custom_type")?;
            let data = optional_json(data, data_len, "data")?;
            add(writes, Write::Entry(NewEntry::custom(id, parent_id, custom_type, data.as_ref())))
        })
    }
}

/// Adds a row of the ledger from its JSON object: id, usage, adjustment?, entryId?, details?, and others, which
/// are kept. PI_INVALID_JSON, PI_INVALID_ID, PI_INVALID_ARGUMENT naming the field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_writes_insert_usage(
    writes: *mut pi_writes,
    usage: *const c_char,
    usage_len: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output, batch and text are as the contract says (rules 2, 3 and 5).
    unsafe {
        guard(error, || {
            let usage = json(usage, usage_len, "usage")?;
            add(writes, Write::Usage(NewUsage::from_json(usage.as_str())?))
        })
    }
}

/// Adds the setting or replacing of a value. PI_INVALID_ADDRESS, PI_INVALID_JSON.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_writes_set_value(
    writes: *mut pi_writes,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output, batch and texts are as the contract says (rules 2, 3 and 5).
    unsafe {
        guard(error, || {
            let address = address(name_space, name_space_len, key, key_len)?;
            add(writes, Write::SetValue(address, json(value, value_len, "value")?))
        })
    }
}

/// Adds the deletion of a value, which may be absent. PI_INVALID_ADDRESS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_writes_delete_value(
    writes: *mut pi_writes,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output, batch and texts are as the contract says (rules 2, 3 and 5).
    unsafe {
        guard(error, || add(writes, Write::DeleteValue(address(name_space, name_space_len, key, key_len)?)))
    }
}

/// Adds the appending of an element to a list. PI_INVALID_ADDRESS, PI_INVALID_JSON.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_writes_append_list(
    writes: *mut pi_writes,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    element: *const c_char,
    element_len: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output, batch and texts are as the contract says (rules 2, 3 and 5).
    unsafe {
        guard(error, || {
            let address = address(name_space, name_space_len, key, key_len)?;
            add(writes, Write::AppendList(address, json(element, element_len, "element")?))
        })
    }
}

/// Adds the deletion of a whole list, which may be absent. PI_INVALID_ADDRESS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_writes_delete_list(
    writes: *mut pi_writes,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output, batch and texts are as the contract says (rules 2, 3 and 5).
    unsafe {
        guard(error, || add(writes, Write::DeleteList(address(name_space, name_space_len, key, key_len)?)))
    }
}
