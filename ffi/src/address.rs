//! Addresses.
//!
//! Where the values and lists of a session stand, without what stands there: for tools that look through all of it.

use std::ffi::c_char;

use pisession::{Address, Result};

use crate::argument::{self, Out, Plain, View};
use crate::buf::Text;
use crate::context::{self, pi_context};
use crate::error::{PI_INVALID_ARGUMENT, PI_OK, pi_error};
use crate::guard::{guard, guard_value};
use crate::handle;
use crate::session::{self, pi_session};

/// The address to go on after; none for NULL namespace and key.
///
/// # Safety
/// As [`argument::address`].
unsafe fn after(
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
) -> Result<Option<Address>> {
    if name_space.is_null() && key.is_null() {
        return Ok(None);
    }
    // SAFETY: as asked for.
    unsafe { argument::address(name_space, name_space_len, key, key_len) }.map(Some)
}

/// Reads the addresses that hold a value, ascending by namespace and key, at most limit of them. They begin behind
/// the address name_space, key; both NULL: at the first. *addresses is the caller's, to be freed with
/// pi_addresses_free. PI_INVALID_ADDRESS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_value_addresses(
    session: *const pi_session,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    limit: usize,
    addresses: *mut *mut pi_addresses,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let addresses = Out::cleared(addresses).required("addresses")?;
            let after = after(name_space, name_space_len, key, key_len)?;
            let session = session::get(session)?;
            let found = session.value_addresses(after.as_ref(), limit, &context::get(context)?)?;
            addresses.set(|| pi_addresses::give(&found));
            Ok(())
        })
    }
}

/// Reads the addresses that hold a list. As pi_session_value_addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_list_addresses(
    session: *const pi_session,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    limit: usize,
    addresses: *mut *mut pi_addresses,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let addresses = Out::cleared(addresses).required("addresses")?;
            let after = after(name_space, name_space_len, key, key_len)?;
            let session = session::get(session)?;
            let found = session.list_addresses(after.as_ref(), limit, &context::get(context)?)?;
            addresses.set(|| pi_addresses::give(&found));
            Ok(())
        })
    }
}

/// Addresses that were found. To be freed with pi_addresses_free.
pub struct pi_addresses(Vec<(Text, Text)>);

impl pi_addresses {
    fn give(found: &[Address]) -> *mut pi_addresses {
        let text = |address: &Address| (Text::new(address.namespace()), Text::new(address.key()));
        handle::give(pi_addresses(found.iter().map(text).collect()))
    }
}

/// One address: views that are valid until the set is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_address {
    /// Its namespace.
    pub name_space: *const c_char,
    /// Bytes of name_space.
    pub name_space_len: usize,
    /// Its key.
    pub key: *const c_char,
    /// Bytes of key.
    pub key_len: usize,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_address {}

/// How many addresses were found. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_addresses_count(addresses: *const pi_addresses) -> usize {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| unsafe { addresses.as_ref() }.map_or(0, |addresses| addresses.0.len()))
}

/// Fills *view with the address at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_addresses_get(
    addresses: *const pi_addresses,
    index: usize,
    view: *mut pi_address,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: the set is NULL or was not freed, the view NULL or writable for `size` bytes (rules 2, 3).
        let (view, addresses) = unsafe { (View::cleared(view, size), addresses.as_ref()) };
        match (view.required("view"), addresses.and_then(|addresses| addresses.0.get(index))) {
            (Ok(view), Some((name_space, key))) => {
                view.set(&pi_address {
                    name_space: name_space.data(),
                    name_space_len: name_space.len(),
                    key: key.data(),
                    key_len: key.len(),
                });
                PI_OK
            }
            _ => PI_INVALID_ARGUMENT,
        }
    })
}

/// Frees the set and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_addresses_free(addresses: *mut pi_addresses) {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(addresses) }));
}
