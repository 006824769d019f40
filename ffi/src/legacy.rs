//! Old files.
//!
//! What reading a session file of version 1 to 3 found: its warnings, its usage, the map of its ids. A session
//! that was opened from such a file has it, and what pi_repository_import gives.

use std::ffi::c_char;
use std::os::unix::ffi::OsStrExt;

use pisession::{Legacy, Warning};

use crate::argument::{Out, Plain, View};
use crate::buf::Text;
use crate::error::{PI_INVALID_ARGUMENT, PI_OK, pi_error};
use crate::guard::{guard, guard_value};
use crate::handle;
use crate::session::{self, pi_session};

/// What reading an old file found. To be freed with pi_legacy_free.
pub struct pi_legacy {
    version: u64,
    session_id: Text,
    usage: Text,
    usage_rows: u64,
    backup: Option<Text>,
    warnings: Vec<WarningText>,
    ids: Vec<(Text, Text)>,
}

/// A warning as C reads it.
pub(crate) struct WarningText {
    kind: Text,
    message: Text,
    warning: Warning,
}

impl WarningText {
    pub(crate) fn new(warning: &Warning) -> Self {
        Self {
            kind: Text::new(warning.kind.name()),
            message: Text::new(warning.message()),
            warning: warning.clone(),
        }
    }

    pub(crate) fn view(&self) -> pi_legacy_warning {
        pi_legacy_warning {
            kind: self.kind.data(),
            kind_len: self.kind.len(),
            message: self.message.data(),
            message_len: self.message.len(),
            line: self.warning.line,
            value: u64::from(self.warning.value),
            offset: self.warning.offset,
            length: self.warning.length,
            is_damage: i64::from(self.warning.kind.is_damage()),
        }
    }
}

impl pi_legacy {
    /// In the hands of the host.
    pub(crate) fn give(legacy: &Legacy) -> *mut pi_legacy {
        handle::give(Self {
            version: legacy.version,
            session_id: Text::new(&legacy.session_id),
            usage: Text::new(legacy.usage.to_json().as_str()),
            usage_rows: legacy.usage_rows,
            backup: legacy.backup.as_ref().map(|path| Text::new(path.as_os_str().as_bytes())),
            warnings: legacy.warnings.iter().map(WarningText::new).collect(),
            ids: legacy.ids().map(|(old, new)| (Text::new(old), Text::new(new))).collect(),
        })
    }
}

/// What reading the file found from which the session was opened, copied or upgraded by the call that gave it.
/// NULL with PI_OK for any other session. *legacy is the caller's, to be freed with pi_legacy_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_legacy(
    session: *const pi_session,
    legacy: *mut *mut pi_legacy,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let legacy = Out::cleared(legacy).required("legacy")?;
            if let Some(found) = session::get(session)?.legacy() {
                legacy.set(|| pi_legacy::give(found));
            }
            Ok(())
        })
    }
}

/// An old file in brief: views that are valid until the pi_legacy is freed. Absent texts are NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_legacy_info {
    /// The version of the file; 1 where it says none.
    pub version: u64,
    /// The session id in the file.
    pub session_id: *const c_char,
    /// Bytes of session_id.
    pub session_id_len: usize,
    /// The usage in the file, summed: a JSON object.
    pub usage: *const c_char,
    /// Bytes of usage.
    pub usage_len: usize,
    /// How many usage objects went into it.
    pub usage_rows: u64,
    /// Where the file as it was is kept, if the call upgraded it; as the bytes of its name.
    pub backup: *const c_char,
    /// Bytes of backup.
    pub backup_len: usize,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_legacy_info {}

/// Fills *info; size is sizeof *info. PI_INVALID_ARGUMENT for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_legacy_get(
    legacy: *const pi_legacy,
    info: *mut pi_legacy_info,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: NULL or not freed, and NULL or writable for `size` bytes (rules 2, 3).
        let (info, legacy) = unsafe { (View::cleared(info, size), legacy.as_ref()) };
        let (Ok(info), Some(legacy)) = (info.required("info"), legacy) else { return PI_INVALID_ARGUMENT };
        let (backup, backup_len) = Text::view(legacy.backup.as_ref());
        info.set(&pi_legacy_info {
            version: legacy.version,
            session_id: legacy.session_id.data(),
            session_id_len: legacy.session_id.len(),
            usage: legacy.usage.data(),
            usage_len: legacy.usage.len(),
            usage_rows: legacy.usage_rows,
            backup,
            backup_len,
        });
        PI_OK
    })
}

/// One thing that reading an old file found: views that are valid until the pi_legacy is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_legacy_warning {
    /// What it is about, for example "bad_line".
    pub kind: *const c_char,
    /// Bytes of kind.
    pub kind_len: usize,
    /// What was found, in plain words.
    pub message: *const c_char,
    /// Bytes of message.
    pub message_len: usize,
    /// The line, from 1.
    pub line: u64,
    /// Which of the values on the line, from 0.
    pub value: u64,
    /// Where the line starts in the file.
    pub offset: u64,
    /// How many bytes the line has, without its end.
    pub length: u64,
    /// 1: the file's structure is damaged there, and strict reading refuses it.
    pub is_damage: i64,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_legacy_warning {}

/// How many warnings there are, by line. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_legacy_warnings_count(legacy: *const pi_legacy) -> usize {
    // SAFETY: NULL or not freed (rule 3).
    guard_value(|| unsafe { legacy.as_ref() }.map_or(0, |legacy| legacy.warnings.len()))
}

/// Fills *view with the warning at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_legacy_warnings_get(
    legacy: *const pi_legacy,
    index: usize,
    view: *mut pi_legacy_warning,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: NULL or not freed, and NULL or writable for `size` bytes (rules 2, 3).
        let (view, legacy) = unsafe { (View::cleared(view, size), legacy.as_ref()) };
        let found = legacy.and_then(|legacy| legacy.warnings.get(index));
        let (Ok(view), Some(found)) = (view.required("view"), found) else { return PI_INVALID_ARGUMENT };
        view.set(&found.view());
        PI_OK
    })
}

/// An id of an entry in an old file, and its id here: views that are valid until the pi_legacy is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_legacy_id {
    /// The id in the file.
    pub old_id: *const c_char,
    /// Bytes of old_id.
    pub old_id_len: usize,
    /// The id here.
    pub new_id: *const c_char,
    /// Bytes of new_id.
    pub new_id_len: usize,
}

// SAFETY: pointers that may be NULL, and integers.
unsafe impl Plain for pi_legacy_id {}

/// How many old ids there are, in stored order. Entries without one are not among them; one that the file uses
/// for several entries comes several times. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_legacy_ids_count(legacy: *const pi_legacy) -> usize {
    // SAFETY: NULL or not freed (rule 3).
    guard_value(|| unsafe { legacy.as_ref() }.map_or(0, |legacy| legacy.ids.len()))
}

/// Fills *view with the ids at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_legacy_ids_get(
    legacy: *const pi_legacy,
    index: usize,
    view: *mut pi_legacy_id,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: NULL or not freed, and NULL or writable for `size` bytes (rules 2, 3).
        let (view, legacy) = unsafe { (View::cleared(view, size), legacy.as_ref()) };
        let found = legacy.and_then(|legacy| legacy.ids.get(index));
        let (Ok(view), Some((old, new))) = (view.required("view"), found) else {
            return PI_INVALID_ARGUMENT;
        };
        view.set(&pi_legacy_id {
            old_id: old.data(),
            old_id_len: old.len(),
            new_id: new.data(),
            new_id_len: new.len(),
        });
        PI_OK
    })
}

/// Frees it and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_legacy_free(legacy: *mut pi_legacy) {
    // SAFETY: NULL or not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(legacy) }));
}
