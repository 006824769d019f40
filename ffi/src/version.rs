//! Versions.
//!
//! The header says what a program was compiled with, the functions say what it runs with.

use std::ffi::{CString, c_char};
use std::sync::OnceLock;

use crate::guard::guard_value;

/// The version of the library, for example "0.1.0". Never NULL; static.
#[unsafe(no_mangle)]
pub extern "C" fn pi_version() -> *const c_char {
    guard_value(|| concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast())
}

/// The version of the library as a number, to be compared with PI_VERSION_NUMBER of the header.
#[unsafe(no_mangle)]
pub extern "C" fn pi_version_number() -> i64 {
    guard_value(|| {
        let part = |text: &str| text.parse::<i64>().unwrap_or(0);
        part(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
            + part(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
            + part(env!("CARGO_PKG_VERSION_PATCH"))
    })
}

/// The number in the name of the shared library, libpisession.so.N: programs of one number work together
/// with libraries of the same number and an equal or newer version.
#[unsafe(no_mangle)]
pub extern "C" fn pi_abi_version() -> i64 {
    guard_value(|| 0)
}

/// The version of the SQLite inside the library, for example "3.54.1". Never NULL; static.
#[unsafe(no_mangle)]
pub extern "C" fn pi_sqlite_version() -> *const c_char {
    static VERSION: OnceLock<CString> = OnceLock::new();
    guard_value(|| {
        VERSION.get_or_init(|| CString::new(pisession::sqlite_version()).unwrap_or_default()).as_ptr()
    })
}
