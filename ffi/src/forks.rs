//! Forks.
//!
//! A fork is a new session that goes on from a point of another one, or has all of it.

use std::ffi::c_char;
use std::mem::offset_of;

use pisession::{
    Error, ErrorKind, ForkOptions, ForkPoint, ForkPosition, ForkScope, ForkSource, Json, Result,
};

use crate::argument::{self, Out, Plain, init_options, optional_text, stored};
use crate::buf::pi_buf;
use crate::context::{self, pi_context};
use crate::error::pi_error;
use crate::guard::{guard, guard_value};
use crate::handle;
use crate::repository::pi_repository;
use crate::session::{self, give, pi_session};

/// The path to one entry, as one branch (the default).
pub const PI_FORK_BRANCH: i64 = 1;
/// Every entry and every branch, and what applications keep beside them.
pub const PI_FORK_TREE: i64 = 2;

/// The entry is the new tip (the default).
pub const PI_FORK_AT: i64 = 1;
/// Its parent is; before a root the branch is empty.
pub const PI_FORK_BEFORE: i64 = 2;

/// What a fork is of. To be filled by pi_fork_options_init first; 0 is the default of each number, NULL texts
/// are absent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_fork_options {
    /// Set by pi_fork_options_init.
    pub struct_size: usize,
    /// PI_FORK_BRANCH or PI_FORK_TREE; with a tree branch, entry and position are absent.
    pub scope: i64,
    /// The branch whose path is taken; NULL for main, or with an entry for any path of the tree, which becomes main.
    pub branch: *const c_char,
    /// Bytes of branch, or PI_NUL, which is the default.
    pub branch_len: usize,
    /// The entry on that path; NULL for the branch's tip.
    pub entry_id: *const c_char,
    /// Bytes of entry_id, or PI_NUL, which is the default.
    pub entry_id_len: usize,
    /// PI_FORK_AT or PI_FORK_BEFORE.
    pub position: i64,
    /// The id of the new session; NULL for a new one.
    pub id: *const c_char,
    /// Bytes of id, or PI_NUL, which is the default.
    pub id_len: usize,
    /// The working folder of the new session; NULL for the source's.
    pub cwd: *const c_char,
    /// Bytes of cwd, or PI_NUL, which is the default.
    pub cwd_len: usize,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_fork_options {}

/// Fills options with defaults; size is sizeof *options. Each length becomes PI_NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_fork_options_init(options: *mut pi_fork_options, size: usize) {
    let lens = [
        offset_of!(pi_fork_options, branch_len),
        offset_of!(pi_fork_options, entry_id_len),
        offset_of!(pi_fork_options, id_len),
        offset_of!(pi_fork_options, cwd_len),
    ];
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(options, size, &lens) });
}

impl pi_fork_options {
    /// # Safety
    /// Its texts are as the contract says (rule 5).
    unsafe fn read(&self) -> Result<ForkOptions> {
        let owned = |data, len, what| {
            // SAFETY: as asked for.
            Ok::<_, Error>(unsafe { optional_text(data, len, what) }?.map(str::to_owned))
        };
        let point = ForkPoint {
            branch: owned(self.branch, self.branch_len, "branch")?,
            entry: owned(self.entry_id, self.entry_id_len, "entry_id")?,
            position: match self.position {
                0 | PI_FORK_AT => ForkPosition::At,
                PI_FORK_BEFORE => ForkPosition::Before,
                other => {
                    return Err(invalid(
                        format!("{other} is no position of a fork"),
                        "use PI_FORK_AT or PI_FORK_BEFORE",
                    ));
                }
            },
        };
        let scope = match self.scope {
            0 | PI_FORK_BRANCH => ForkScope::Branch(point),
            PI_FORK_TREE if point == ForkPoint::default() => ForkScope::Tree,
            PI_FORK_TREE => {
                return Err(invalid(
                    "a fork of the whole tree has no branch, entry or position".to_owned(),
                    "leave them out, or use PI_FORK_BRANCH",
                ));
            }
            other => {
                return Err(invalid(
                    format!("{other} is no scope of a fork"),
                    "use PI_FORK_BRANCH or PI_FORK_TREE",
                ));
            }
        };
        Ok(ForkOptions {
            scope,
            id: owned(self.id, self.id_len, "id")?,
            cwd: owned(self.cwd, self.cwd_len, "cwd")?,
        })
    }
}

/// Makes the fork and hands it out.
fn make<'a>(
    repository: *mut pi_repository,
    source: impl Into<ForkSource<'a>>,
    options: &ForkOptions,
    fork: Out<*mut pi_session>,
    left_out: Out<*mut pi_buf>,
    context: *const pi_context,
) -> Result<()> {
    let repository = handle::get(repository)?;
    let made = repository.0.fork(source, options, &context::get(context)?)?;
    let names: Vec<String> =
        made.left_out.iter().map(|name| Json::string(name).as_str().to_owned()).collect();
    let session = give(Some(repository), made.session)?;
    fork.set(|| session);
    left_out.set(|| pi_buf::give(format!("[{}]", names.join(","))));
    Ok(())
}

fn invalid(message: String, hint: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).with_hint(hint)
}

/// Makes a new session in repository from source, which is open in whatever mode and repository, over one snapshot
/// of it: the commits that were made before. May be called inside a mutation. options may be NULL. *fork is the
/// caller's, to be closed and freed; *left_out, which may be NULL, too, to be freed with pi_buf_free: a JSON array
/// with the names of lanes whose configuration was left out, since the source holds it by half.
/// PI_UNKNOWN_BRANCH, PI_UNKNOWN_ENTRY, PI_ENTRY_NOT_ON_BRANCH, PI_CORRUPT, PI_RESERVED_ADDRESS,
/// PI_SESSION_EXISTS, PI_INVALID_ID: then there is no new session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_fork(
    repository: *mut pi_repository,
    source: *mut pi_session,
    options: *const pi_fork_options,
    fork: *mut *mut pi_session,
    left_out: *mut *mut pi_buf,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, options and their texts are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let left_out = Out::cleared(left_out);
            let fork = Out::cleared(fork).required("fork")?;
            let options = argument::options(options)?.read()?;
            let source = session::get(source)?;
            make(repository, &*source, &options, fork, left_out, context)
        })
    }
}

/// pi_session_fork of the session of that id in source, a repository, which may be the same; the session may be
/// open elsewhere, for writing too. path is the bytes of the name of its file, as pi_session_info has it, where
/// several files hold a session of that id, else NULL. As pi_session_fork, and as pi_session_open_read_only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_fork_stored(
    repository: *mut pi_repository,
    source: *const pi_repository,
    id: *const c_char,
    id_len: usize,
    path: *const c_char,
    path_len: usize,
    options: *const pi_fork_options,
    fork: *mut *mut pi_session,
    left_out: *mut *mut pi_buf,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, options and texts are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let left_out = Out::cleared(left_out);
            let fork = Out::cleared(fork).required("fork")?;
            let stored = stored(id, id_len, path, path_len)?;
            let options = argument::options(options)?.read()?;
            let source = handle::get(source)?;
            make(repository, (&source.0, &stored), &options, fork, left_out, context)
        })
    }
}
