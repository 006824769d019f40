//! Export.
//!
//! A session as a session file of version 3, which coding agents open. Functions begin with pi_session, as
//! all that a session does.

use std::ffi::c_char;
use std::mem::offset_of;

use pisession::{ExportOptions, ExportScope};

use crate::argument::{self, Out, Plain, init_options, optional_text, path};
use crate::buf::pi_buf;
use crate::context::{self, pi_context};
use crate::error::pi_error;
use crate::guard::{guard, guard_value};
use crate::session::{self, pi_session};

/// How a session is exported. To be filled by pi_export_options_init first; 0 and NULL are defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_export_options {
    /// Set by pi_export_options_init.
    pub struct_size: usize,
    /// Only the path to the tip of this branch; NULL for the whole tree, which opens at "main".
    pub branch: *const c_char,
    /// Bytes of branch, or PI_NUL, which is the default.
    pub branch_len: usize,
    /// Not 0: a file that is there is replaced.
    pub overwrite: i64,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_export_options {}

/// Fills options with defaults; size is sizeof *options. Each length becomes PI_NUL, so that a text that ends
/// with a NUL needs no more than to be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_export_options_init(options: *mut pi_export_options, size: usize) {
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(options, size, &[offset_of!(pi_export_options, branch_len)]) });
}

/// Writes the session as a session file of version 3 to path, the bytes of a file's name; the file appears whole,
/// and durably, or not at all. A session that came from such a file gives its lines again, and behind them what
/// came to it since. options may be NULL; so may report, which otherwise is the caller's, to be freed with
/// pi_buf_free: a JSON object with path, entries, lines, bytes and losses, what version 3 cannot hold, each with
/// kind, count, message and, where it has them, name, namespace, key and entryId. PI_SESSION_EXISTS where a file
/// is that may not be replaced, PI_UNKNOWN_BRANCH, PI_CORRUPT, PI_IO, PI_FULL. It reads and writes files and
/// waits for no mutation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_export(
    session: *const pi_session,
    path: *const c_char,
    path_len: usize,
    options: *const pi_export_options,
    report: *mut *mut pi_buf,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, options and their texts are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let report = Out::cleared(report);
            let path = self::path(path, path_len, "path")?;
            let options = argument::options(options)?;
            let branch = optional_text(options.branch, options.branch_len, "branch")?;
            let options = ExportOptions {
                scope: branch.map_or(ExportScope::Tree, |name| ExportScope::Branch(name.to_owned())),
                overwrite: options.overwrite != 0,
            };
            let session = session::get(session)?;
            let export = session.export_to(path, &options, &context::get(context)?)?;
            report.set(|| pi_buf::give(export.to_json().as_str()));
            Ok(())
        })
    }
}
