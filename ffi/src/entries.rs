//! Entries.
//!
//! Entries are the nodes of the conversation tree, written once. A scan gives a set of them or, where there
//! may be many, a cursor.

use std::ffi::c_char;
use std::mem::offset_of;
use std::sync::{Arc, Mutex, TryLockError};

use pisession::{
    BranchScan, Entries, Entry, EntryQuery, EntryStructure, EntryType, Error, ErrorKind, Order, PathOrder,
    Result, SessionReader,
};

use crate::argument::{
    self, Out, Plain, View, init_options, optional_number, optional_text, order, text, texts,
};
use crate::buf::Text;
use crate::context::{self, pi_context};
use crate::error::{PI_INVALID_ARGUMENT, PI_OK, pi_error};
use crate::guard::{guard, guard_value};
use crate::handle::{self, Handle};
use crate::session::{self, pi_session};

/// Oldest first.
pub const PI_ASCENDING: i64 = 1;
/// Newest first.
pub const PI_DESCENDING: i64 = 2;

/// Which entries of a session to find. To be filled by pi_entry_query_init first; 0 and NULL are defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_entry_query {
    /// Set by pi_entry_query_init.
    pub struct_size: usize,
    /// Only entries of this type: "message", "compaction", "branch_summary" or "custom"; NULL for all.
    pub r#type: *const c_char,
    /// Bytes of type, or PI_NUL, which is the default.
    pub type_len: usize,
    /// Only custom entries of this type; NULL for all.
    pub custom_type: *const c_char,
    /// Bytes of custom_type, or PI_NUL, which is the default.
    pub custom_type_len: usize,
    /// From this seq on, inclusive; NULL for all.
    pub from_seq: *const u64,
    /// Up to this seq, inclusive; NULL for all.
    pub to_seq: *const u64,
    /// Only entries beyond this seq: below it descending, above it ascending; NULL for all.
    pub cursor: *const u64,
    /// At most so many; 0 gives none; NULL for all.
    pub limit: *const u64,
    /// PI_DESCENDING (default) or PI_ASCENDING.
    pub order: i64,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_entry_query {}

/// Fills query with defaults; size is sizeof *query. Each length becomes PI_NUL, so that a text that ends with a
/// NUL needs no more than to be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_entry_query_init(query: *mut pi_entry_query, size: usize) {
    let lens = [offset_of!(pi_entry_query, type_len), offset_of!(pi_entry_query, custom_type_len)];
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(query, size, &lens) });
}

/// Which entries of a path to give. Applied in this order: stop, filter, cursor, limit. To be filled by
/// pi_branch_scan_init first; 0 and NULL are defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_branch_scan {
    /// Set by pi_branch_scan_init.
    pub struct_size: usize,
    /// Stop at the first entry of this type, inclusively; NULL for none.
    pub stop_at_type: *const c_char,
    /// Bytes of stop_at_type, or PI_NUL, which is the default.
    pub stop_at_type_len: usize,
    /// Stop at this entry, inclusively; NULL for none.
    pub stop_at_id: *const c_char,
    /// Bytes of stop_at_id, or PI_NUL, which is the default.
    pub stop_at_id_len: usize,
    /// Only entries of this type; NULL for all.
    pub r#type: *const c_char,
    /// Bytes of type, or PI_NUL, which is the default.
    pub type_len: usize,
    /// Only custom entries of this type; NULL for all.
    pub custom_type: *const c_char,
    /// Bytes of custom_type, or PI_NUL, which is the default.
    pub custom_type_len: usize,
    /// Only entries beyond this seq: below it newest first, above it oldest first; NULL for all.
    pub cursor: *const u64,
    /// At most so many; 0 gives none; NULL for all.
    pub limit: *const u64,
    /// PI_DESCENDING, from the start to the root (default), or PI_ASCENDING, from the root to the start.
    pub order: i64,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_branch_scan {}

/// Fills scan with defaults; size is sizeof *scan. The lengths as with pi_entry_query_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_branch_scan_init(scan: *mut pi_branch_scan, size: usize) {
    let lens = [
        offset_of!(pi_branch_scan, stop_at_type_len),
        offset_of!(pi_branch_scan, stop_at_id_len),
        offset_of!(pi_branch_scan, type_len),
        offset_of!(pi_branch_scan, custom_type_len),
    ];
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(scan, size, &lens) });
}

/// An entry type that may be absent.
///
/// # Safety
/// As [`optional_text`].
unsafe fn entry_type(data: *const c_char, len: usize, what: &str) -> Result<Option<EntryType>> {
    // SAFETY: as asked for.
    let Some(name) = (unsafe { optional_text(data, len, what) })? else { return Ok(None) };
    EntryType::from_name(name).map(Some).ok_or_else(|| {
        Error::new(ErrorKind::InvalidArgument, format!("'{name}' is no type of entries"))
            .with_hint("a type is message, compaction, branch_summary or custom")
    })
}

/// The entries of a session that are asked for.
///
/// # Safety
/// `query` is as [`argument::options`] asks, its texts and numbers NULL or readable.
unsafe fn entry_query(query: *const pi_entry_query) -> Result<EntryQuery> {
    // SAFETY: as asked for.
    unsafe {
        let query = argument::options(query)?;
        Ok(EntryQuery {
            entry_type: entry_type(query.r#type, query.type_len, "type")?,
            custom_type: optional_text(query.custom_type, query.custom_type_len, "custom_type")?
                .map(str::to_owned),
            from_seq: optional_number(query.from_seq),
            to_seq: optional_number(query.to_seq),
            cursor: optional_number(query.cursor),
            order: order(query.order, Order::Descending)?,
            limit: optional_number(query.limit),
        })
    }
}

/// The entries of a path that are asked for.
///
/// # Safety
/// `scan` is as [`argument::options`] asks, its texts and numbers NULL or readable.
pub(crate) unsafe fn branch_scan(scan: *const pi_branch_scan) -> Result<BranchScan> {
    // SAFETY: as asked for.
    unsafe {
        let scan = argument::options(scan)?;
        Ok(BranchScan {
            order: match order(scan.order, Order::Descending)? {
                Order::Ascending => PathOrder::OldestFirst,
                Order::Descending => PathOrder::NewestFirst,
            },
            stop_at_type: entry_type(scan.stop_at_type, scan.stop_at_type_len, "stop_at_type")?,
            stop_at_id: optional_text(scan.stop_at_id, scan.stop_at_id_len, "stop_at_id")?.map(str::to_owned),
            entry_type: entry_type(scan.r#type, scan.type_len, "type")?,
            custom_type: optional_text(scan.custom_type, scan.custom_type_len, "custom_type")?
                .map(str::to_owned),
            cursor: optional_number(scan.cursor),
            limit: optional_number(scan.limit),
        })
    }
}

/// Reads the entry of that id. *entries holds it and is the caller's, to be freed with pi_entries_free; NULL
/// when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_get_entry(
    session: *const pi_session,
    id: *const c_char,
    id_len: usize,
    entries: *mut *mut pi_entries,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and text are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let entries = Out::cleared(entries).required("entries")?;
            let id = text(id, id_len, "id")?;
            if let Some(found) = session::get(session)?.get_entry(id, &context::get(context)?)? {
                entries.set(|| pi_entries::give(&[found]));
            }
            Ok(())
        })
    }
}

/// Reads those of count ids that exist, in the order asked; an id asked for twice comes twice. id_lens may be
/// NULL if every id ends with a NUL. *entries is the caller's, to be freed with pi_entries_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_get_entries(
    session: *const pi_session,
    ids: *const *const c_char,
    id_lens: *const usize,
    count: usize,
    entries: *mut *mut pi_entries,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let entries = Out::cleared(entries).required("entries")?;
            let ids = texts(ids, id_lens, count, "ids")?;
            let found = session::get(session)?.get_entries(&ids, &context::get(context)?)?;
            entries.set(|| pi_entries::give(&found));
            Ok(())
        })
    }
}

/// Finds entries of the whole session, newest first unless asked otherwise. query may be NULL. *entries is the
/// caller's, to be freed with pi_entries_free. Give a limit, or use pi_session_entries for a large session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_find_entries(
    session: *const pi_session,
    query: *const pi_entry_query,
    entries: *mut *mut pi_entries,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and query are as the contract says (rules 2 and 7).
    unsafe {
        guard(error, || {
            let entries = Out::cleared(entries).required("entries")?;
            let query = entry_query(query)?;
            let found = session::get(session)?.find_entries(&query, &context::get(context)?)?;
            entries.set(|| pi_entries::give(&found));
            Ok(())
        })
    }
}

/// Reads the entries on the path from the entry start to its root, newest first unless asked otherwise. scan
/// may be NULL. *entries is the caller's, to be freed with pi_entries_free. PI_UNKNOWN_ENTRY if there is no
/// entry start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_scan_branch(
    session: *const pi_session,
    start: *const c_char,
    start_len: usize,
    scan: *const pi_branch_scan,
    entries: *mut *mut pi_entries,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, text and query are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let entries = Out::cleared(entries).required("entries")?;
            let start = text(start, start_len, "start")?;
            let scan = branch_scan(scan)?;
            let found = session::get(session)?.scan_branch(start, &scan, &context::get(context)?)?;
            entries.set(|| pi_entries::give(&found));
            Ok(())
        })
    }
}

/// Where the entries of pi_session_scan_branch stand, without reading their payloads: payload is NULL in what
/// pi_entries_get fills. *entries as there, and so the errors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_scan_branch_structure(
    session: *const pi_session,
    start: *const c_char,
    start_len: usize,
    scan: *const pi_branch_scan,
    entries: *mut *mut pi_entries,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, text and query are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let entries = Out::cleared(entries).required("entries")?;
            let start = text(start, start_len, "start")?;
            let scan = branch_scan(scan)?;
            let session = session::get(session)?;
            let found = session.scan_branch_structure(start, &scan, &context::get(context)?)?;
            entries.set(|| pi_entries::give_structure(&found));
            Ok(())
        })
    }
}

/// The entries of pi_session_find_entries one by one, read in pages. query may be NULL. *cursor is the caller's,
/// to be freed with pi_cursor_free. The context is looked at once per page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_entries(
    session: *const pi_session,
    query: *const pi_entry_query,
    cursor: *mut *mut pi_cursor,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and query are as the contract says (rules 2 and 7).
    unsafe {
        guard(error, || {
            let cursor = Out::cleared(cursor).required("cursor")?;
            let query = entry_query(query)?;
            let session = session::get(session)?;
            let entries = session.entries(&query, &context::get(context)?);
            let made = pi_cursor::give(session.handle(), entries)?;
            cursor.set(|| made);
            Ok(())
        })
    }
}

/// Entries a scan found. To be freed with pi_entries_free.
pub struct pi_entries(Vec<EntryText>);

impl pi_entries {
    pub(crate) fn give(found: &[Entry]) -> *mut pi_entries {
        handle::give(pi_entries(found.iter().map(EntryText::new).collect()))
    }

    pub(crate) fn give_structure(found: &[EntryStructure]) -> *mut pi_entries {
        handle::give(pi_entries(found.iter().map(EntryText::of_structure).collect()))
    }
}

/// An entry as C reads it.
struct EntryText {
    id: Text,
    parent_id: Option<Text>,
    seq: u64,
    timestamp: i64,
    entry_type: Text,
    custom_type: Option<Text>,
    /// None in a structure.
    payload: Option<Text>,
}

impl EntryText {
    fn new(entry: &Entry) -> Self {
        Self {
            id: Text::new(&entry.id),
            parent_id: entry.parent_id.as_ref().map(Text::new),
            seq: entry.seq,
            timestamp: entry.timestamp,
            entry_type: Text::new(entry.entry_type.name()),
            custom_type: entry.custom_type.as_ref().map(Text::new),
            payload: Some(Text::new(entry.payload.as_str())),
        }
    }

    fn of_structure(place: &EntryStructure) -> Self {
        Self {
            id: Text::new(&place.id),
            parent_id: place.parent_id.as_ref().map(Text::new),
            seq: place.seq,
            timestamp: place.timestamp,
            entry_type: Text::new(place.entry_type.name()),
            custom_type: place.custom_type.as_ref().map(Text::new),
            payload: None,
        }
    }

    fn view(&self) -> pi_entry {
        let (parent_id, parent_id_len) = Text::view(self.parent_id.as_ref());
        let (custom_type, custom_type_len) = Text::view(self.custom_type.as_ref());
        let (payload, payload_len) = Text::view(self.payload.as_ref());
        pi_entry {
            id: self.id.data(),
            id_len: self.id.len(),
            parent_id,
            parent_id_len,
            seq: self.seq,
            timestamp: self.timestamp,
            r#type: self.entry_type.data(),
            type_len: self.entry_type.len(),
            custom_type,
            custom_type_len,
            payload,
            payload_len,
        }
    }
}

/// One entry: views that are valid until the set is freed, or until the cursor's next step.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_entry {
    /// Its id.
    pub id: *const c_char,
    /// Bytes of id.
    pub id_len: usize,
    /// Its parent's id; NULL for a root.
    pub parent_id: *const c_char,
    /// Bytes of parent_id.
    pub parent_id_len: usize,
    /// Its place in the session's order.
    pub seq: u64,
    /// When its commit was made, Unix ms.
    pub timestamp: i64,
    /// "message", "compaction", "branch_summary" or "custom".
    pub r#type: *const c_char,
    /// Bytes of type.
    pub type_len: usize,
    /// Its custom type, for custom entries only; else NULL.
    pub custom_type: *const c_char,
    /// Bytes of custom_type.
    pub custom_type_len: usize,
    /// The JSON object of the type's payload fields, exactly as stored: {"message":...} for a message,
    /// {"data":...} or {} for a custom entry. NULL in a structure.
    pub payload: *const c_char,
    /// Bytes of payload.
    pub payload_len: usize,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_entry {}

/// How many entries were found. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_entries_count(entries: *const pi_entries) -> usize {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| unsafe { entries.as_ref() }.map_or(0, |entries| entries.0.len()))
}

/// Fills *view with the entry at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_entries_get(
    entries: *const pi_entries,
    index: usize,
    view: *mut pi_entry,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: the set is NULL or was not freed, the view NULL or writable for `size` bytes (rules 2, 3).
        let (view, entries) = unsafe { (View::cleared(view, size), entries.as_ref()) };
        match (view.required("view"), entries.and_then(|entries| entries.0.get(index))) {
            (Ok(view), Some(entry)) => {
                view.set(&entry.view());
                PI_OK
            }
            _ => PI_INVALID_ARGUMENT,
        }
    })
}

/// Frees the set and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_entries_free(entries: *mut pi_entries) {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(entries) }));
}

/// Entries one by one. Used by one thread at a time. To be freed with pi_cursor_free.
pub struct pi_cursor {
    session: Arc<pi_session>,
    steps: Mutex<Steps>,
}

struct Steps {
    entries: Entries,
    /// What the last step's views point into.
    current: Option<EntryText>,
}

impl Handle for pi_cursor {
    const NAME: &'static str = "cursor";
}

impl pi_cursor {
    pub(crate) fn give(session: Arc<pi_session>, entries: Entries) -> Result<*mut pi_cursor> {
        handle::insert(pi_cursor { session, steps: Mutex::new(Steps { entries, current: None }) })
    }
}

/// Goes to the next entry and fills *view with it; size is sizeof *view. At the end view->id is NULL and the
/// call succeeds. The views of the step before are no longer valid. After an error the cursor is at its end.
/// PI_MISUSE while another thread uses the cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_cursor_next(
    cursor: *mut pi_cursor,
    view: *mut pi_entry,
    size: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let view = View::cleared(view, size).required("view")?;
            let cursor = handle::get(cursor)?;
            let _session = cursor.session.enter()?;
            let mut steps = match cursor.steps.try_lock() {
                Ok(steps) => steps,
                Err(TryLockError::Poisoned(steps)) => steps.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::new(ErrorKind::Misuse, "the cursor is used by another thread")
                        .with_hint("use a cursor from one thread at a time"));
                }
            };
            steps.current = None;
            if let Some(entry) = steps.entries.next() {
                let entry = EntryText::new(&entry?);
                view.set(&entry.view());
                steps.current = Some(entry);
            }
            Ok(())
        })
    }
}

/// Frees the cursor and what was borrowed from it. Nothing for NULL. PI_MISUSE if it is no live one.
#[unsafe(no_mangle)]
pub extern "C" fn pi_cursor_free(cursor: *mut pi_cursor) -> i32 {
    guard_value(|| handle::free(cursor))
}
