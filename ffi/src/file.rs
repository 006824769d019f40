//! Session files.
//!
//! Sessions opened with options, from a repository or by the path of their file, and import. Files of version 1
//! to 3 open too: what a write to such a session does is said when it is opened.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;
use std::sync::Arc;

use pisession::{
    Error, ErrorKind, ImportOptions, LegacyPolicy, OpenMode, OpenOptions, Result, import_file, open_file,
};

use crate::argument::{self, Out, Plain, init_options, optional_text, path, stored};
use crate::buf::pi_buf;
use crate::context::{self, Progress, pi_context, pi_progress_function};
use crate::error::pi_error;
use crate::guard::{guard, guard_value};
use crate::handle;
use crate::legacy::pi_legacy;
use crate::repository::pi_repository;
use crate::session::{self, pi_session};

/// A write to a session of version 1 to 3 fails with PI_LEGACY_READ_ONLY (the default).
pub const PI_LEGACY_POLICY_READ_ONLY: i64 = 1;
/// Opening makes a new session, whole, with a new id, and gives that one. The old file stays as it is.
pub const PI_LEGACY_POLICY_COPY: i64 = 2;
/// Opening rewrites the file as format 4, with its id, and keeps the old one as NAME.vN.bak.
pub const PI_LEGACY_POLICY_UPGRADE: i64 = 3;

/// How a session is opened. To be filled by pi_open_options_init first; 0 and NULL are defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_open_options {
    /// Set by pi_open_options_init.
    pub struct_size: usize,
    /// 1: for reading only. No file is written then, whatever legacy says.
    pub read_only: i64,
    /// What a write does if the session is a file of version 1 to 3: one of PI_LEGACY_POLICY_*.
    pub legacy: i64,
    /// Where PI_LEGACY_POLICY_COPY makes the new session; NULL for beside the file: in the same repository, or
    /// in the file's folder if it is opened by its path.
    pub copy_to: *mut pi_repository,
    /// 1: go on although a file of JSON lines is damaged. One of format 4 is then open for reading only; of an
    /// old one what can be read is copied or upgraded.
    pub salvage: i64,
    /// 1: refuse an old file whose structure is damaged, in place of warning of it.
    pub strict: i64,
    /// Which file is meant, as the bytes of its name that pi_session_info has, where several files of the
    /// repository hold a session of that id. For pi_session_open_with only.
    pub path: *const c_char,
    /// Bytes of path, or PI_NUL, which is the default.
    pub path_len: usize,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_open_options {}

impl pi_open_options {
    fn read(&self) -> Result<OpenOptions> {
        let invalid = |what: String, hint: &str| {
            Err(Error::new(ErrorKind::InvalidArgument, what).with_hint(hint.to_owned()))
        };
        let legacy = match (self.legacy, self.copy_to.is_null()) {
            (0 | PI_LEGACY_POLICY_READ_ONLY, true) => LegacyPolicy::ReadOnly,
            (PI_LEGACY_POLICY_COPY, true) => LegacyPolicy::Copy,
            (PI_LEGACY_POLICY_COPY, false) => {
                LegacyPolicy::CopyTo(handle::get(self.copy_to.cast_const())?.0.clone())
            }
            (PI_LEGACY_POLICY_UPGRADE, true) => LegacyPolicy::Upgrade,
            (0 | PI_LEGACY_POLICY_READ_ONLY | PI_LEGACY_POLICY_UPGRADE, false) => {
                return invalid("copy_to is for copies".to_owned(), "set legacy to PI_LEGACY_POLICY_COPY");
            }
            (other, _) => {
                return invalid(format!("{other} is no legacy policy"), "use one of PI_LEGACY_POLICY_*");
            }
        };
        let mode = if self.read_only == 0 { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        Ok(OpenOptions { mode, legacy, salvage: self.salvage != 0, strict: self.strict != 0 })
    }
}

/// Fills options with defaults; size is sizeof *options. path_len becomes PI_NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_open_options_init(options: *mut pi_open_options, size: usize) {
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(options, size, &[offset_of!(pi_open_options, path_len)]) });
}

/// Opens a session of the repository as options say; NULL is pi_session_open. *session is the caller's, to be
/// closed and freed. As pi_session_open; PI_CORRUPT, if a damaged old file is to be copied or upgraded without
/// salvage; PI_UNSUPPORTED_VERSION, if one of a version above 3 is; PI_FILE_CHANGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_open_with(
    repository: *mut pi_repository,
    id: *const c_char,
    id_len: usize,
    options: *const pi_open_options,
    session: *mut *mut pi_session,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, text and options are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let session = Out::cleared(session).required("session")?;
            let options = argument::options(options)?;
            let stored = stored(id, id_len, options.path, options.path_len)?;
            let options = options.read()?;
            let repository = handle::get(repository)?;
            let opened = repository.0.open_with(&stored, &options, &context::get(context)?)?;
            let opened = session::give(Some(repository), opened)?;
            session.set(|| opened);
            Ok(())
        })
    }
}

/// Opens the session file at path, whatever it is called, as options say; NULL is for writing, old files for
/// reading. path is the bytes of its name. *session is the caller's, to be closed and freed. As
/// pi_session_open_with; PI_NOT_A_SESSION for anything else, PI_UNSUPPORTED for SQLite databases.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_open_file(
    path: *const c_char,
    path_len: usize,
    options: *const pi_open_options,
    session: *mut *mut pi_session,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, text and options are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let session = Out::cleared(session).required("session")?;
            let path = self::path(path, path_len, "path")?;
            handle::check_process()?;
            let options = argument::options(options)?;
            if !options.path.is_null() {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "the options of pi_session_open_file take no path",
                )
                .with_hint("the path of the file is an argument of its own"));
            }
            let options = options.read()?;
            let opened = session::give(None, open_file(path, &options, &context::get(context)?)?)?;
            session.set(|| opened);
            Ok(())
        })
    }
}

/// How a file is imported. To be filled by pi_import_options_init first; 0 and NULL are defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_import_options {
    /// Set by pi_import_options_init.
    pub struct_size: usize,
    /// The id of the session; NULL for the file's.
    pub id: *const c_char,
    /// Bytes of id, or PI_NUL, which is the default.
    pub id_len: usize,
    /// 1: import what can be read of a damaged file.
    pub salvage: i64,
    /// 1: refuse a file whose structure is damaged, at its first damage.
    pub strict: i64,
    /// Told how many bytes are done and how many in all, now and then; NULL for nobody. The file is gone through
    /// three times, and each counts.
    pub progress: pi_progress_function,
    /// What progress gets.
    pub user_data: *mut c_void,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_import_options {}

/// Fills options with defaults; size is sizeof *options. id_len becomes PI_NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_import_options_init(options: *mut pi_import_options, size: usize) {
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(options, size, &[offset_of!(pi_import_options, id_len)]) });
}

/// Makes a session in the repository from the session file of version 1 to 3 at path, which is not written. A
/// session that came from this file, or from one that starts with it, is left as it is. options may be NULL, and
/// each output: *id is the session's id, to be freed with pi_buf_free; *added is 1, or 0 if it was there already;
/// *legacy is what was found, to be freed with pi_legacy_free. PI_SESSION_EXISTS if a session of that id is
/// something else; PI_CORRUPT for a damaged file without salvage; PI_UNSUPPORTED_VERSION; PI_FILE_CHANGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repository_import(
    repository: *mut pi_repository,
    path: *const c_char,
    path_len: usize,
    options: *const pi_import_options,
    id: *mut *mut pi_buf,
    added: *mut u64,
    legacy: *mut *mut pi_legacy,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, texts and options are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let (id, added, legacy) = (Out::cleared(id), Out::cleared(added), Out::cleared(legacy));
            let path = self::path(path, path_len, "path")?;
            let options = argument::options(options)?;
            let progress = Progress::new(options.progress, options.user_data);
            let options = ImportOptions {
                id: optional_text(options.id, options.id_len, "id")?.map(str::to_owned),
                salvage: options.salvage != 0,
                strict: options.strict != 0,
                progress: Some(Arc::new(move |done, all| progress.tell(done, all))),
            };
            let repository = handle::get(repository)?;
            let import = import_file(path, &repository.0, &options, &context::get(context)?)?;
            id.set(|| pi_buf::give(import.session_id()));
            added.set(|| u64::from(import.added));
            legacy.set(|| pi_legacy::give(&import.legacy));
            Ok(())
        })
    }
}
