//! Errors.
//!
//! A function that can fail returns 0 or one of the numbers below, and takes a pi_error ** last. NULL is
//! allowed there; anything else is always written: NULL on success, an object on failure.

use std::ffi::c_char;
use std::os::unix::ffi::OsStrExt;

use pisession::{Error, ErrorKind};

use crate::buf::Text;
use crate::guard::guard_value;
use crate::handle;

/// Success.
pub const PI_OK: i32 = 0;
/// The operating system refused an operation; the source tells how.
pub const PI_IO: i32 = -1;
/// The disk is full or a size limit was reached. Nothing was written.
pub const PI_FULL: i32 = -2;
/// Another process holds the database's lock past the busy timeout.
pub const PI_BUSY: i32 = -3;
/// The session is open for writing elsewhere.
pub const PI_SESSION_BUSY: i32 = -4;
/// The call's context was cancelled.
pub const PI_CANCELLED: i32 = -5;
/// The call's deadline passed.
pub const PI_DEADLINE_EXCEEDED: i32 = -6;
/// The session or repository is closed.
pub const PI_CLOSED: i32 = -7;
/// The session was opened for reading only.
pub const PI_READ_ONLY: i32 = -8;
/// The session is a file of version 1 to 3, which is never written in place.
pub const PI_LEGACY_READ_ONLY: i32 = -9;
/// This backend cannot do that.
pub const PI_UNSUPPORTED: i32 = -10;
/// No session of that id, or its file is gone.
pub const PI_UNKNOWN_SESSION: i32 = -11;
/// A session of that id exists already.
pub const PI_SESSION_EXISTS: i32 = -12;
/// Two files claim that session id.
pub const PI_AMBIGUOUS_SESSION: i32 = -13;
/// No branch of that name.
pub const PI_UNKNOWN_BRANCH: i32 = -14;
/// No entry of that id.
pub const PI_UNKNOWN_ENTRY: i32 = -15;
/// A tip or branch point names an entry that does not exist.
pub const PI_UNKNOWN_TARGET: i32 = -16;
/// An entry names a parent that does not exist.
pub const PI_MISSING_PARENT: i32 = -17;
/// A branch of that name exists already.
pub const PI_BRANCH_EXISTS: i32 = -18;
/// An entry or usage row of that id exists already.
pub const PI_DUPLICATE_ID: i32 = -19;
/// The entry is not on the path of that branch.
pub const PI_ENTRY_NOT_ON_BRANCH: i32 = -20;
/// An id is empty, too long, or holds characters ids cannot have.
pub const PI_INVALID_ID: i32 = -21;
/// A namespace is empty, or a part of an address holds characters it cannot have.
pub const PI_INVALID_ADDRESS: i32 = -22;
/// A branch name is empty or holds characters it cannot have.
pub const PI_INVALID_BRANCH: i32 = -23;
/// A lane name is empty or holds characters it cannot have.
pub const PI_INVALID_LANE: i32 = -24;
/// A payload is not JSON as this library takes it.
pub const PI_INVALID_JSON: i32 = -25;
/// An argument has a value the call does not take.
pub const PI_INVALID_ARGUMENT: i32 = -26;
/// A payload, a commit or a count is over its limit.
pub const PI_TOO_LARGE: i32 = -27;
/// The address belongs to the library and is not declared.
pub const PI_RESERVED_ADDRESS: i32 = -28;
/// An assistant message that is still pending cannot be stored.
pub const PI_PENDING_ASSISTANT: i32 = -29;
/// The mutation has used its one commit.
pub const PI_COMMIT_ATTEMPTED: i32 = -30;
/// The mutation has ended.
pub const PI_MUTATION_ENDED: i32 = -31;
/// A writer was called from inside a mutation of the same session and would wait for itself.
pub const PI_NESTED_MUTATION: i32 = -32;
/// The file is not a session.
pub const PI_NOT_A_SESSION: i32 = -33;
/// The file was written by a newer version of the format.
pub const PI_UNSUPPORTED_VERSION: i32 = -34;
/// The file is damaged.
pub const PI_CORRUPT: i32 = -35;
/// Another program changed the file behind an open session.
pub const PI_FILE_CHANGED: i32 = -36;
/// Storage cannot prove its state after a failure; reopen the session.
pub const PI_STORAGE_FAULT: i32 = -37;
/// Another SQLite library in this process interfered with the database file.
pub const PI_FOREIGN_SQLITE: i32 = -38;
/// The handle was made before a fork and is used in the child.
pub const PI_FORKED: i32 = -39;
/// A handle was misused (freed, of another type, used concurrently where that is not allowed).
pub const PI_MISUSE: i32 = -40;
/// A panic was caught at the boundary of the library. Please report it.
pub const PI_PANIC: i32 = -41;

/// What failed, where, and what to do about it. To be freed with pi_error_free.
pub struct pi_error {
    code: i32,
    kind: Text,
    message: Text,
    hint: Option<Text>,
    path: Option<Text>,
    id: Option<Text>,
    line: Option<u64>,
    offset: Option<u64>,
    errno: Option<i32>,
    retryable: bool,
}

impl pi_error {
    pub(crate) fn new(error: Error) -> Box<Self> {
        // A C string ends at its first NUL; a message that quotes one spells it.
        let plain = |text: &str| Text::new(text.replace('\0', "\\0"));
        let message = if error.message().is_empty() { error.kind().name() } else { error.message() };
        Box::new(Self {
            code: -error.kind().number(),
            kind: Text::new(error.kind().name()),
            message: plain(message),
            hint: error.hint().map(plain),
            path: error.path().map(|path| Text::new(path.as_os_str().as_bytes())),
            id: error.id().map(plain),
            line: error.line(),
            offset: error.offset(),
            errno: error.errno(),
            retryable: error.is_retryable(),
        })
    }

    /// The failure of a function of the host that returned `code` and nothing else.
    pub(crate) fn of_host(code: i32) -> Box<Self> {
        let kind = ErrorKind::ALL.iter().find(|kind| -kind.number() == code);
        let error = Error::new(
            kind.copied().unwrap_or(ErrorKind::InvalidArgument),
            format!("the function given to the call returned {code}"),
        );
        let name = kind.map_or("Application", |kind| kind.name());
        Box::new(Self { code, kind: Text::new(name), ..*Self::new(error) })
    }

    pub(crate) fn code(&self) -> i32 {
        self.code
    }
}

/// The number the failed function returned. PI_OK for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_error_code(error: *const pi_error) -> i32 {
    // SAFETY: NULL or an error that was not freed (rule 3).
    guard_value(|| unsafe { error.as_ref() }.map_or(PI_OK, |error| error.code))
}

/// The name of the kind, for example "SessionBusy"; "Application" for a number of the host's own. Borrowed
/// from the error. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_error_kind(error: *const pi_error) -> *const c_char {
    // SAFETY: NULL or an error that was not freed (rule 3).
    guard_value(|| unsafe { error.as_ref() }.map_or(std::ptr::null(), |error| error.kind.data()))
}

/// What failed, in a sentence; never empty. Borrowed from the error. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_error_message(error: *const pi_error) -> *const c_char {
    // SAFETY: NULL or an error that was not freed (rule 3).
    guard_value(|| unsafe { error.as_ref() }.map_or(std::ptr::null(), |error| error.message.data()))
}

/// What to do about it; NULL where that is not known. Borrowed from the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_error_hint(error: *const pi_error) -> *const c_char {
    // SAFETY: NULL or an error that was not freed (rule 3).
    guard_value(|| Text::view(unsafe { error.as_ref() }.and_then(|error| error.hint.as_ref())).0)
}

/// The file it is about, as the bytes of its name; NULL where there is none. Borrowed from the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_error_path(error: *const pi_error) -> *const c_char {
    // SAFETY: NULL or an error that was not freed (rule 3).
    guard_value(|| Text::view(unsafe { error.as_ref() }.and_then(|error| error.path.as_ref())).0)
}

/// The session, entry, branch or other id it is about; NULL where there is none. Borrowed from the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_error_id(error: *const pi_error) -> *const c_char {
    // SAFETY: NULL or an error that was not freed (rule 3).
    guard_value(|| Text::view(unsafe { error.as_ref() }.and_then(|error| error.id.as_ref())).0)
}

/// The line in the file, from 1; -1 where there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_error_line(error: *const pi_error) -> i64 {
    // SAFETY: NULL or an error that was not freed (rule 3).
    guard_value(|| number(unsafe { error.as_ref() }.and_then(|error| error.line)))
}

/// The byte in the file or in the text given (with a line: that of the line's start); -1 where there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_error_offset(error: *const pi_error) -> i64 {
    // SAFETY: NULL or an error that was not freed (rule 3).
    guard_value(|| number(unsafe { error.as_ref() }.and_then(|error| error.offset)))
}

/// The operating system's error number, for PI_IO and PI_FULL; 0 where there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_error_errno(error: *const pi_error) -> i64 {
    // SAFETY: NULL or an error that was not freed (rule 3).
    guard_value(|| i64::from(unsafe { error.as_ref() }.and_then(|error| error.errno).unwrap_or(0)))
}

/// 1 if the same call may succeed later without anything else being changed, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_error_retryable(error: *const pi_error) -> i64 {
    // SAFETY: NULL or an error that was not freed (rule 3).
    guard_value(|| i64::from(unsafe { error.as_ref() }.is_some_and(|error| error.retryable)))
}

/// Frees the error and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_error_free(error: *mut pi_error) {
    // SAFETY: NULL or an error that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(error) }));
}

fn number(number: Option<u64>) -> i64 {
    number.map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX))
}
