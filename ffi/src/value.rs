//! Values and lists.
//!
//! A value is one JSON text at an address (namespace and key), a list is JSON texts in the order they were
//! appended. Namespaces "pi" and "pi.*" are the library's own.

use std::ffi::c_char;

use pisession::{Address, Context, ListElement, ListRead, Order, Result, SessionReader, StoredValue};

use crate::argument::{self, Out, Plain, View, address, init_options, json, optional_number, order};
use crate::buf::{Text, pi_buf};
use crate::context::{self, pi_context};
use crate::error::{PI_INVALID_ARGUMENT, PI_OK, pi_error};
use crate::guard::{guard, guard_value};
use crate::handle;
use crate::session::{self, pi_session};

/// Which elements of a list to read. To be filled by pi_list_read_init first; 0 and NULL are defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_list_read {
    /// Set by pi_list_read_init.
    pub struct_size: usize,
    /// PI_ASCENDING (default) or PI_DESCENDING.
    pub order: i64,
    /// Only elements after (descending: before) this seq; NULL for all.
    pub cursor: *const u64,
    /// At most so many; must be positive; clamped to 10000. NULL for 1000.
    pub limit: *const u64,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_list_read {}

/// Fills read with defaults; size is sizeof *read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_list_read_init(read: *mut pi_list_read, size: usize) {
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(read, size, &[]) });
}

/// The elements asked for.
///
/// # Safety
/// `read` is as [`argument::options`] asks, its pointers NULL or readable.
pub(crate) unsafe fn list_read(read: *const pi_list_read) -> Result<ListRead> {
    // SAFETY: as asked for.
    unsafe {
        let read = argument::options(read)?;
        Ok(ListRead {
            order: order(read.order, Order::Ascending)?,
            cursor: optional_number(read.cursor),
            limit: optional_number(read.limit).unwrap_or(pisession::LIST_LIMIT),
        })
    }
}

/// Reads the value at `address` into its outputs, for a session or inside a mutation.
pub(crate) fn read_value(
    reader: &impl SessionReader,
    address: &Address,
    value: Out<*mut pi_buf>,
    seq: Out<u64>,
    ctx: &Context,
) -> Result<()> {
    if let Some(stored) = reader.get_value(address, ctx)? {
        value.set(|| pi_buf::give(stored.value.as_str()));
        seq.set(|| stored.seq);
    }
    Ok(())
}

/// Reads the value at an address. *value is its JSON as stored, the caller's, to be freed with pi_buf_free; NULL
/// when it is absent. *seq is when it was set; seq may be NULL. PI_INVALID_ADDRESS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_get_value(
    session: *const pi_session,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    value: *mut *mut pi_buf,
    seq: *mut u64,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let (value, seq) = (Out::cleared(value), Out::cleared(seq));
            let value = value.required("value")?;
            let address = address(name_space, name_space_len, key, key_len)?;
            read_value(&*session::get(session)?, &address, value, seq, &context::get(context)?)
        })
    }
}

/// Reads the values of a namespace whose key starts with key_prefix, keys ascending by code point. *values is
/// the caller's, to be freed with pi_values_free. PI_INVALID_ADDRESS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_scan_values(
    session: *const pi_session,
    name_space: *const c_char,
    name_space_len: usize,
    key_prefix: *const c_char,
    key_prefix_len: usize,
    values: *mut *mut pi_values,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let values = Out::cleared(values).required("values")?;
            let prefix = address(name_space, name_space_len, key_prefix, key_prefix_len)?;
            let found = session::get(session)?.scan_values(&prefix, &context::get(context)?)?;
            values.set(|| pi_values::give(&found));
            Ok(())
        })
    }
}

/// Reads elements of a list; none when it is absent. read may be NULL. *elements is the caller's, to be freed
/// with pi_elements_free. PI_INVALID_ADDRESS; PI_INVALID_ARGUMENT for a limit of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_read_list(
    session: *const pi_session,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    read: *const pi_list_read,
    elements: *mut *mut pi_elements,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, texts and query are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let elements = Out::cleared(elements).required("elements")?;
            let address = address(name_space, name_space_len, key, key_len)?;
            let read = list_read(read)?;
            let found = session::get(session)?.read_list(&address, &read, &context::get(context)?)?;
            elements.set(|| pi_elements::give(&found));
            Ok(())
        })
    }
}

/// Sets or replaces a value. Waits for its turn on the mutation line. PI_INVALID_ADDRESS, PI_INVALID_JSON,
/// PI_RESERVED_ADDRESS, PI_TOO_LARGE; what a commit fails with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_set_value(
    session: *mut pi_session,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let address = address(name_space, name_space_len, key, key_len)?;
            let value = json(value, value_len, "value")?;
            session::get(session)?.set_value(&address, &value, &context::get(context)?)
        })
    }
}

/// Deletes a value; fine when it is absent. Waits for its turn on the mutation line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_delete_value(
    session: *mut pi_session,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let address = address(name_space, name_space_len, key, key_len)?;
            session::get(session)?.delete_value(&address, &context::get(context)?)
        })
    }
}

/// Appends an element to a list. Waits for its turn on the mutation line. Errors as pi_session_set_value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_append_list(
    session: *mut pi_session,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    element: *const c_char,
    element_len: usize,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let address = address(name_space, name_space_len, key, key_len)?;
            let element = json(element, element_len, "element")?;
            session::get(session)?.append_list(&address, &element, &context::get(context)?)
        })
    }
}

/// Deletes a whole list; fine when it is absent. Waits for its turn on the mutation line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_delete_list(
    session: *mut pi_session,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let address = address(name_space, name_space_len, key, key_len)?;
            session::get(session)?.delete_list(&address, &context::get(context)?)
        })
    }
}

/// Values a scan found. To be freed with pi_values_free.
pub struct pi_values(Vec<ValueText>);

struct ValueText {
    namespace: Text,
    key: Text,
    value: Text,
    seq: u64,
}

impl pi_values {
    pub(crate) fn give(found: &[StoredValue]) -> *mut pi_values {
        let text = |stored: &StoredValue| ValueText {
            namespace: Text::new(stored.address.namespace()),
            key: Text::new(stored.address.key()),
            value: Text::new(stored.value.as_str()),
            seq: stored.seq,
        };
        handle::give(pi_values(found.iter().map(text).collect()))
    }
}

/// One value: views that are valid until the set is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_value {
    /// Its namespace.
    pub name_space: *const c_char,
    /// Bytes of name_space.
    pub name_space_len: usize,
    /// Its key.
    pub key: *const c_char,
    /// Bytes of key.
    pub key_len: usize,
    /// Its JSON, exactly as stored.
    pub value: *const c_char,
    /// Bytes of value.
    pub value_len: usize,
    /// When it was set, in the session's order.
    pub seq: u64,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_value {}

/// How many values were found. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_values_count(values: *const pi_values) -> usize {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| unsafe { values.as_ref() }.map_or(0, |values| values.0.len()))
}

/// Fills *view with the value at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_values_get(
    values: *const pi_values,
    index: usize,
    view: *mut pi_value,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: the set is NULL or was not freed, the view NULL or writable for `size` bytes (rules 2, 3).
        let (view, values) = unsafe { (View::cleared(view, size), values.as_ref()) };
        match (view.required("view"), values.and_then(|values| values.0.get(index))) {
            (Ok(view), Some(text)) => {
                view.set(&pi_value {
                    name_space: text.namespace.data(),
                    name_space_len: text.namespace.len(),
                    key: text.key.data(),
                    key_len: text.key.len(),
                    value: text.value.data(),
                    value_len: text.value.len(),
                    seq: text.seq,
                });
                PI_OK
            }
            _ => PI_INVALID_ARGUMENT,
        }
    })
}

/// Frees the set and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_values_free(values: *mut pi_values) {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(values) }));
}

/// Elements of a list. To be freed with pi_elements_free.
pub struct pi_elements(Vec<(u64, Text)>);

impl pi_elements {
    pub(crate) fn give(found: &[ListElement]) -> *mut pi_elements {
        let text = |element: &ListElement| (element.seq, Text::new(element.value.as_str()));
        handle::give(pi_elements(found.iter().map(text).collect()))
    }
}

/// One element of a list: views that are valid until the set is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_element {
    /// Its place in the session's order, and its cursor.
    pub seq: u64,
    /// Its JSON, exactly as stored.
    pub value: *const c_char,
    /// Bytes of value.
    pub value_len: usize,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_element {}

/// How many elements were read. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_elements_count(elements: *const pi_elements) -> usize {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| unsafe { elements.as_ref() }.map_or(0, |elements| elements.0.len()))
}

/// Fills *view with the element at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_elements_get(
    elements: *const pi_elements,
    index: usize,
    view: *mut pi_element,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: the set is NULL or was not freed, the view NULL or writable for `size` bytes (rules 2, 3).
        let (view, elements) = unsafe { (View::cleared(view, size), elements.as_ref()) };
        match (view.required("view"), elements.and_then(|elements| elements.0.get(index))) {
            (Ok(view), Some((seq, value))) => {
                view.set(&pi_element { seq: *seq, value: value.data(), value_len: value.len() });
                PI_OK
            }
            _ => PI_INVALID_ARGUMENT,
        }
    })
}

/// Frees the set and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_elements_free(elements: *mut pi_elements) {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(elements) }));
}
