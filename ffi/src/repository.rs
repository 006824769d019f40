//! Repositories.
//!
//! A repository is a place where sessions are kept, named by a text: memory: (a new one each time),
//! sqlite:PATH or jsonl:PATH.

use std::ffi::c_char;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use pisession::{
    Durability, Error, ErrorKind, ListOptions, Repository, RepositoryOptions, Result, SessionListing,
    open_repository,
};

use crate::argument::{self, Out, Plain, View, init_options, stored, text};
use crate::buf::Text;
use crate::context::{self, pi_context};
use crate::error::{PI_INVALID_ARGUMENT, PI_OK, pi_error};
use crate::guard::{guard, guard_value};
use crate::handle::{self, Handle};
use crate::session::MetadataText;

/// A repository. To be freed with pi_repository_free.
pub struct pi_repository(pub(crate) Repository);

impl Handle for pi_repository {
    const NAME: &'static str = "repository";
}

/// A commit that was acknowledged survives power loss (the default).
pub const PI_DURABILITY_POWER: i64 = 1;
/// A commit that was acknowledged survives the end of the process, in whatever way.
pub const PI_DURABILITY_PROCESS: i64 = 2;

/// How a repository works. To be filled by pi_repository_options_init first; 0 is the default of each field.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_repository_options {
    /// Set by pi_repository_options_init.
    pub struct_size: usize,
    /// PI_DURABILITY_POWER or PI_DURABILITY_PROCESS.
    pub durability: i64,
    /// How many milliseconds a commit waits for another process's lock on a shared database: 5000.
    pub busy_timeout_ms: u64,
    /// How many bytes a payload may have: 256 MiB.
    pub max_payload: u64,
}

// SAFETY: integers only.
unsafe impl Plain for pi_repository_options {}

impl pi_repository_options {
    fn read(&self) -> Result<RepositoryOptions> {
        let mut options = RepositoryOptions::default();
        options.durability = match self.durability {
            0 => options.durability,
            PI_DURABILITY_POWER => Durability::Power,
            PI_DURABILITY_PROCESS => Durability::Process,
            other => {
                return Err(Error::new(ErrorKind::InvalidArgument, format!("{other} is no durability"))
                    .with_hint("use PI_DURABILITY_POWER or PI_DURABILITY_PROCESS"));
            }
        };
        if self.busy_timeout_ms != 0 {
            options.busy_timeout = Duration::from_millis(self.busy_timeout_ms);
        }
        if self.max_payload != 0 {
            options.max_payload = usize::try_from(self.max_payload).unwrap_or(usize::MAX);
        }
        Ok(options)
    }
}

/// Fills options with defaults; size is sizeof *options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repository_options_init(options: *mut pi_repository_options, size: usize) {
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(options, size, &[]) });
}

/// Opens the repository that uri names. What is not there yet is made by the first pi_session_create.
/// options may be NULL. *repository is the caller's, to be freed with pi_repository_free.
/// PI_INVALID_ARGUMENT for a text that names none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repository_open(
    uri: *const c_char,
    uri_len: usize,
    options: *const pi_repository_options,
    repository: *mut *mut pi_repository,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, text and options are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let repository = Out::cleared(repository).required("repository")?;
            let uri = text(uri, uri_len, "uri")?;
            let options = argument::options(options)?.read()?;
            context::get(context)?.check()?;
            let opened = handle::insert(pi_repository(open_repository(uri, options)?))?;
            repository.set(|| opened);
            Ok(())
        })
    }
}

/// Closes the repository: it makes, opens, lists and deletes nothing any more (PI_CLOSED), and every session
/// that was opened through it is closed; waits for what has begun. The first error comes back, its message
/// names the others. May be called again. The repository is still to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repository_close(
    repository: *mut pi_repository,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the output is NULL or writable (rule 2).
    unsafe { guard(error, || handle::get(repository)?.0.close(&context::get(context)?)) }
}

/// Frees the repository; sessions opened through it go on. Nothing for NULL. PI_MISUSE if it is no live one.
#[unsafe(no_mangle)]
pub extern "C" fn pi_repository_free(repository: *mut pi_repository) -> i32 {
    guard_value(|| handle::free(repository))
}

/// Deletes a session that is open nowhere. PI_SESSION_BUSY if it is open, PI_UNKNOWN_SESSION if there is none,
/// PI_AMBIGUOUS_SESSION if several files hold one of that id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repository_delete(
    repository: *mut pi_repository,
    id: *const c_char,
    id_len: usize,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output and text are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let id = text(id, id_len, "id")?;
            handle::get(repository)?.0.delete(id, &context::get(context)?)
        })
    }
}

/// pi_repository_delete for the session in the file at path, the bytes of its name as pi_session_info has it,
/// where several files hold a session of that id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repository_delete_at(
    repository: *mut pi_repository,
    id: *const c_char,
    id_len: usize,
    path: *const c_char,
    path_len: usize,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let stored = stored(id, id_len, path, path_len)?;
            handle::get(repository)?.0.delete(&stored, &context::get(context)?)
        })
    }
}

/// What a listing looks up. To be filled by pi_list_options_init first; 0 is the default of each field.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_list_options {
    /// Set by pi_list_options_init.
    pub struct_size: usize,
    /// 1: also name and number of messages, which cost an open of each session.
    pub details: i64,
}

// SAFETY: integers only.
unsafe impl Plain for pi_list_options {}

/// Fills options with defaults; size is sizeof *options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_list_options_init(options: *mut pi_list_options, size: usize) {
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(options, size, &[]) });
}

/// The sessions of a repository. To be freed with pi_sessions_free.
pub struct pi_sessions(Vec<Listed>);

struct Listed {
    metadata: Option<MetadataText>,
    path: Option<Text>,
    format: Text,
    name: Option<Text>,
    problem: Option<Text>,
    problem_code: i32,
    modified_at: Option<i64>,
    message_count: Option<u64>,
}

impl Listed {
    fn new(listing: &SessionListing) -> Self {
        Self {
            metadata: listing.metadata.as_ref().map(MetadataText::new),
            path: listing.path.as_ref().map(|path| Text::new(path.as_os_str().as_bytes())),
            format: Text::new(listing.format.to_string()),
            name: listing.name.as_ref().map(Text::new),
            problem: listing.problem.as_ref().map(|problem| Text::new(problem.to_string())),
            problem_code: listing.problem.as_ref().map_or(PI_OK, |problem| -problem.kind().number()),
            modified_at: listing.modified_at,
            message_count: listing.message_count,
        }
    }

    fn view(&self) -> pi_session_info {
        let metadata = self.metadata.as_ref();
        let (id, id_len) = Text::view(metadata.map(|metadata| &metadata.id));
        let (cwd, cwd_len) = Text::view(metadata.and_then(|metadata| metadata.cwd.as_ref()));
        let (parent_session_id, parent_session_id_len) =
            Text::view(metadata.and_then(|metadata| metadata.parent_session_id.as_ref()));
        let (path, path_len) = Text::view(self.path.as_ref());
        let (format, format_len) = Text::view(Some(&self.format));
        let (name, name_len) = Text::view(self.name.as_ref());
        let (problem, problem_len) = Text::view(self.problem.as_ref());
        pi_session_info {
            id,
            id_len,
            created_at: metadata.map_or(-1, |metadata| metadata.created_at),
            storage_version: metadata.map_or(0, |metadata| metadata.storage_version),
            cwd,
            cwd_len,
            parent_session_id,
            parent_session_id_len,
            path,
            path_len,
            modified_at: self.modified_at.unwrap_or(-1),
            format,
            format_len,
            name,
            name_len,
            message_count: self.message_count.and_then(|count| i64::try_from(count).ok()).unwrap_or(-1),
            problem,
            problem_len,
            problem_code: i64::from(self.problem_code),
        }
    }
}

/// One session of a listing: views that are valid until the listing is freed. Absent texts are NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_session_info {
    /// Its id; NULL if the session cannot be read, see problem.
    pub id: *const c_char,
    /// Bytes of id.
    pub id_len: usize,
    /// When it was made, Unix ms; -1 if it cannot be read.
    pub created_at: i64,
    /// Version of the stored form; 0 if it cannot be read.
    pub storage_version: u64,
    /// The working folder it was made for.
    pub cwd: *const c_char,
    /// Bytes of cwd.
    pub cwd_len: usize,
    /// The session it was forked or copied from.
    pub parent_session_id: *const c_char,
    /// Bytes of parent_session_id.
    pub parent_session_id_len: usize,
    /// The file it is in, as the bytes of its name.
    pub path: *const c_char,
    /// Bytes of path.
    pub path_len: usize,
    /// When it was last written, Unix ms; -1 where that is not known.
    pub modified_at: i64,
    /// How it is kept: "memory", "sqlite", "sqlite-container", "reference-sqlite", "jsonl-4", ...
    pub format: *const c_char,
    /// Bytes of format.
    pub format_len: usize,
    /// Its name, when details were asked for.
    pub name: *const c_char,
    /// Bytes of name.
    pub name_len: usize,
    /// How many messages it has, when details were asked for; else -1.
    pub message_count: i64,
    /// Why it cannot be read; NULL if it can.
    pub problem: *const c_char,
    /// Bytes of problem.
    pub problem_len: usize,
    /// The number of that problem's kind; PI_OK if there is none.
    pub problem_code: i64,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_session_info {}

/// Lists the sessions, newest first; one bad file does not hide the others. options may be NULL. *sessions is
/// the caller's, to be freed with pi_sessions_free. PI_IO if the place itself cannot be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repository_list(
    repository: *const pi_repository,
    options: *const pi_list_options,
    sessions: *mut *mut pi_sessions,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and options are as the contract says (rules 2 and 7).
    unsafe {
        guard(error, || {
            let sessions = Out::cleared(sessions).required("sessions")?;
            let options = argument::options(options)?;
            let options = ListOptions { details: options.details != 0 };
            let listed = handle::get(repository)?.0.list(&options, &context::get(context)?)?;
            sessions.set(|| handle::give(pi_sessions(listed.iter().map(Listed::new).collect())));
            Ok(())
        })
    }
}

/// How many sessions were listed. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_sessions_count(sessions: *const pi_sessions) -> usize {
    // SAFETY: NULL or a listing that was not freed (rule 3).
    guard_value(|| unsafe { sessions.as_ref() }.map_or(0, |sessions| sessions.0.len()))
}

/// Fills *view with the session at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_sessions_get(
    sessions: *const pi_sessions,
    index: usize,
    view: *mut pi_session_info,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: the set is NULL or was not freed, the view NULL or writable for `size` bytes (rules 2, 3).
        let (view, sessions) = unsafe { (View::cleared(view, size), sessions.as_ref()) };
        match (view.required("view"), sessions.and_then(|sessions| sessions.0.get(index))) {
            (Ok(view), Some(listed)) => {
                view.set(&listed.view());
                PI_OK
            }
            _ => PI_INVALID_ARGUMENT,
        }
    })
}

/// Frees the listing and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_sessions_free(sessions: *mut pi_sessions) {
    // SAFETY: NULL or a listing that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(sessions) }));
}
