//! Sessions.
//!
//! A session holds global durable data (values, lists, entries, usage, name, labels) and one mutation line.
//! It has no branch of its own: "main" is an ordinary name. Reads see the newest applied commit and never
//! wait for a mutation.

use std::ffi::c_char;
use std::mem::offset_of;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pisession::{CreateOptions, Error, ErrorKind, Result, Session, SessionMetadata, SessionReader, Stats};

use crate::argument::{self, Out, Plain, View, init_options, optional_number, optional_text, text};
use crate::buf::{Text, pi_buf};
use crate::context::{self, pi_context};
use crate::error::pi_error;
use crate::guard::{guard, guard_value};
use crate::handle::{self, Handle};
use crate::repository::pi_repository;

/// An open session. To be closed with pi_session_close and freed with pi_session_free.
pub struct pi_session {
    session: Session,
    metadata: MetadataText,
    /// A call on it panicked.
    latched: AtomicBool,
    /// None for a session that was opened by the path of its file.
    _repository: Option<Arc<pi_repository>>,
}

impl Handle for pi_session {
    const NAME: &'static str = "session";
}

impl pi_session {
    /// Enters a call on the session.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Entered> {
        if self.latched.load(Ordering::Acquire) {
            return Err(Error::new(
                ErrorKind::StorageFault,
                "a panic in an earlier call left the session unsure",
            )
            .with_id(self.session.id())
            .with_hint("close it and open it again"));
        }
        Ok(Entered(Arc::clone(self)))
    }
}

/// A call on a session; if it panics, the session is latched.
pub(crate) struct Entered(Arc<pi_session>);

impl Entered {
    pub(crate) fn handle(&self) -> Arc<pi_session> {
        Arc::clone(&self.0)
    }
}

impl Deref for Entered {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0.session
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.latched.store(true, Ordering::Release);
        }
    }
}

/// Enters a call on the session of that handle.
pub(crate) fn get(session: *const pi_session) -> Result<Entered> {
    handle::get(session)?.enter()
}

/// Metadata as C reads it.
pub(crate) struct MetadataText {
    pub(crate) id: Text,
    pub(crate) created_at: i64,
    pub(crate) storage_version: u64,
    pub(crate) cwd: Option<Text>,
    pub(crate) parent_session_id: Option<Text>,
    legacy_parent_session_path: Option<Text>,
    path: Option<Text>,
}

impl MetadataText {
    pub(crate) fn new(metadata: &SessionMetadata) -> Self {
        Self {
            id: Text::new(&metadata.id),
            created_at: metadata.created_at,
            storage_version: u64::from(metadata.storage_version),
            cwd: metadata.cwd.as_ref().map(Text::new),
            parent_session_id: metadata.parent_session_id.as_ref().map(Text::new),
            legacy_parent_session_path: metadata.legacy_parent_session_path.as_ref().map(Text::new),
            path: metadata.path.as_ref().map(|path| Text::new(path.as_os_str().as_bytes())),
        }
    }

    fn view(&self) -> pi_metadata {
        let (id, id_len) = Text::view(Some(&self.id));
        let (cwd, cwd_len) = Text::view(self.cwd.as_ref());
        let (parent_session_id, parent_session_id_len) = Text::view(self.parent_session_id.as_ref());
        let (legacy_parent_session_path, legacy_parent_session_path_len) =
            Text::view(self.legacy_parent_session_path.as_ref());
        let (path, path_len) = Text::view(self.path.as_ref());
        pi_metadata {
            id,
            id_len,
            created_at: self.created_at,
            storage_version: self.storage_version,
            cwd,
            cwd_len,
            parent_session_id,
            parent_session_id_len,
            legacy_parent_session_path,
            legacy_parent_session_path_len,
            path,
            path_len,
        }
    }
}

/// What a session says of itself: views that are valid until the session is freed. Absent texts are NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_metadata {
    /// Its id, unique in its repository.
    pub id: *const c_char,
    /// Bytes of id.
    pub id_len: usize,
    /// When it was made, Unix ms.
    pub created_at: i64,
    /// Version of the stored form.
    pub storage_version: u64,
    /// The working folder it was made for.
    pub cwd: *const c_char,
    /// Bytes of cwd.
    pub cwd_len: usize,
    /// The session it was forked or copied from.
    pub parent_session_id: *const c_char,
    /// Bytes of parent_session_id.
    pub parent_session_id_len: usize,
    /// The file of an old session it came from, where that has no id here.
    pub legacy_parent_session_path: *const c_char,
    /// Bytes of legacy_parent_session_path.
    pub legacy_parent_session_path_len: usize,
    /// The file it is kept in, as the bytes of its name.
    pub path: *const c_char,
    /// Bytes of path.
    pub path_len: usize,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_metadata {}

/// What a new session is. To be filled by pi_session_options_init first; NULL texts are absent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_session_options {
    /// Set by pi_session_options_init.
    pub struct_size: usize,
    /// Its id; NULL for a new one.
    pub id: *const c_char,
    /// Bytes of id, or PI_NUL, which is the default.
    pub id_len: usize,
    /// The session it goes on from.
    pub parent_session_id: *const c_char,
    /// Bytes of parent_session_id, or PI_NUL, which is the default.
    pub parent_session_id_len: usize,
    /// The working folder it is for.
    pub cwd: *const c_char,
    /// Bytes of cwd, or PI_NUL, which is the default.
    pub cwd_len: usize,
    /// When it was made, Unix ms, for a session that comes from elsewhere; NULL for now.
    pub created_at: *const i64,
    /// The file of an old session it came from, where that has no id here.
    pub legacy_parent_session_path: *const c_char,
    /// Bytes of legacy_parent_session_path, or PI_NUL, which is the default.
    pub legacy_parent_session_path_len: usize,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_session_options {}

/// Fills options with defaults; size is sizeof *options. Each length becomes PI_NUL, so that a text that ends
/// with a NUL needs no more than to be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_options_init(options: *mut pi_session_options, size: usize) {
    let lens = [
        offset_of!(pi_session_options, id_len),
        offset_of!(pi_session_options, parent_session_id_len),
        offset_of!(pi_session_options, cwd_len),
        offset_of!(pi_session_options, legacy_parent_session_path_len),
    ];
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(options, size, &lens) });
}

/// A session in the hands of the host, which keeps its repository alive.
pub(crate) fn give(repository: Option<Arc<pi_repository>>, session: Session) -> Result<*mut pi_session> {
    let metadata = MetadataText::new(session.metadata());
    let _repository = repository;
    handle::insert(pi_session { session, metadata, latched: AtomicBool::new(false), _repository })
}

/// Makes a session and opens it for writing. It holds nothing but its metadata: no branch, no value. options
/// may be NULL. *session is the caller's, to be closed and freed. PI_SESSION_EXISTS, PI_INVALID_ID.
/// PI_INVALID_ARGUMENT for a created_at before 1970 or after the year 9999.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_create(
    repository: *mut pi_repository,
    options: *const pi_session_options,
    session: *mut *mut pi_session,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, options and their texts are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let session = Out::cleared(session).required("session")?;
            let options = argument::options(options)?;
            let mut new = CreateOptions::default();
            let owned = |data, len, what| Ok(optional_text(data, len, what)?.map(str::to_owned));
            new.id = owned(options.id, options.id_len, "id")?;
            new.parent_session_id =
                owned(options.parent_session_id, options.parent_session_id_len, "parent_session_id")?;
            new.cwd = owned(options.cwd, options.cwd_len, "cwd")?;
            new.created_at = optional_number(options.created_at);
            new.legacy_parent_session_path = owned(
                options.legacy_parent_session_path,
                options.legacy_parent_session_path_len,
                "legacy_parent_session_path",
            )?;
            let repository = handle::get(repository)?;
            let made = repository.0.create(&new, &context::get(context)?)?;
            let made = give(Some(repository), made)?;
            session.set(|| made);
            Ok(())
        })
    }
}

/// Opens a session for writing; only one place at a time can. *session is the caller's, to be closed and
/// freed. PI_UNKNOWN_SESSION, PI_SESSION_BUSY, PI_AMBIGUOUS_SESSION, PI_CORRUPT, PI_UNSUPPORTED_VERSION.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_open(
    repository: *mut pi_repository,
    id: *const c_char,
    id_len: usize,
    session: *mut *mut pi_session,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and text are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let session = Out::cleared(session).required("session")?;
            let id = text(id, id_len, "id")?;
            let repository = handle::get(repository)?;
            let opened = repository.0.open(id, &context::get(context)?)?;
            let opened = give(Some(repository), opened)?;
            session.set(|| opened);
            Ok(())
        })
    }
}

/// Opens a session for reading, beside whoever writes it. *session is the caller's, to be closed and freed.
/// As pi_session_open, but never PI_SESSION_BUSY; writing fails with PI_READ_ONLY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_open_read_only(
    repository: *mut pi_repository,
    id: *const c_char,
    id_len: usize,
    session: *mut *mut pi_session,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and text are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let session = Out::cleared(session).required("session")?;
            let id = text(id, id_len, "id")?;
            let repository = handle::get(repository)?;
            let opened = repository.0.open_read_only(id, &context::get(context)?)?;
            let opened = give(Some(repository), opened)?;
            session.set(|| opened);
            Ok(())
        })
    }
}

/// Closes the session: refuses new mutations and reads, fails the mutations that wait with PI_CLOSED, waits for
/// what has begun to end, closes the storage. Afterwards every handle of it fails with PI_CLOSED; all are still
/// to be freed. May be called again. PI_DEADLINE_EXCEEDED or PI_CANCELLED while a mutation, read, query or
/// backup does not end: it takes no new work and keeps its lock until it is closed again. PI_NESTED_MUTATION
/// from inside a mutation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_close(
    session: *mut pi_session,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the output is NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            // Closing is for latched sessions too.
            handle::get(session)?.session.close(&context::get(context)?)
        })
    }
}

/// Frees the session. Not closed before, it is released as a crash would, without loss, once its branches,
/// mutations and cursors are freed too. Nothing for NULL. PI_MISUSE if it is no live one.
#[unsafe(no_mangle)]
pub extern "C" fn pi_session_free(session: *mut pi_session) -> i32 {
    guard_value(|| handle::free(session))
}

/// Fills *metadata with what the session says of itself; size is sizeof *metadata. The texts are borrowed from
/// the session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_metadata(
    session: *const pi_session,
    metadata: *mut pi_metadata,
    size: usize,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let view = View::cleared(metadata, size).required("metadata")?;
            view.set(&handle::get(session)?.metadata.view());
            Ok(())
        })
    }
}

/// Makes a new id for an entry or a usage row. *id is the caller's, to be freed with pi_buf_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_new_id(
    session: *const pi_session,
    id: *mut *mut pi_buf,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let id = Out::cleared(id).required("id")?;
            let made = get(session)?.id_generator().next(None);
            id.set(|| pi_buf::give(made));
            Ok(())
        })
    }
}

/// Totals of a session.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_stats {
    /// Entries of type "message".
    pub message_count: u64,
    /// Input tokens. This and the following are sums over the ledger.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Tokens read from the provider's cache.
    pub cache_read: f64,
    /// Tokens written to the provider's cache.
    pub cache_write: f64,
    /// Of these, tokens written for an hour.
    pub cache_write_1h: f64,
    /// Reasoning tokens.
    pub reasoning: f64,
    /// All tokens.
    pub total_tokens: f64,
    /// Cost of input tokens.
    pub cost_input: f64,
    /// Cost of output tokens.
    pub cost_output: f64,
    /// Cost of tokens read from the cache.
    pub cost_cache_read: f64,
    /// Cost of tokens written to the cache.
    pub cost_cache_write: f64,
    /// All costs.
    pub cost_total: f64,
    /// 1 if any row had cache_write_1h.
    pub has_cache_write_1h: i64,
    /// 1 if any row had reasoning.
    pub has_reasoning: i64,
}

// SAFETY: numbers only.
unsafe impl Plain for pi_stats {}

impl pi_stats {
    pub(crate) fn new(stats: &Stats) -> Self {
        let usage = &stats.usage;
        Self {
            message_count: stats.message_count,
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            cache_write_1h: usage.cache_write_1h.unwrap_or(0.0),
            reasoning: usage.reasoning.unwrap_or(0.0),
            total_tokens: usage.total_tokens,
            cost_input: usage.cost.input,
            cost_output: usage.cost.output,
            cost_cache_read: usage.cost.cache_read,
            cost_cache_write: usage.cost.cache_write,
            cost_total: usage.cost.total,
            has_cache_write_1h: i64::from(usage.cache_write_1h.is_some()),
            has_reasoning: i64::from(usage.reasoning.is_some()),
        }
    }
}

/// Fills *stats with the totals of the session; size is sizeof *stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_stats(
    session: *const pi_session,
    stats: *mut pi_stats,
    size: usize,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let view = View::cleared(stats, size).required("stats")?;
            view.set(&pi_stats::new(&get(session)?.stats(&context::get(context)?)?));
            Ok(())
        })
    }
}

/// Reads the seq the next commit starts at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_next_seq(
    session: *const pi_session,
    seq: *mut u64,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let seq = Out::cleared(seq).required("seq")?;
            let next = get(session)?.next_seq(&context::get(context)?)?;
            seq.set(|| next);
            Ok(())
        })
    }
}

/// Reads everything the session holds as one JSON object, payloads as stored: two sessions that hold the same
/// give the same bytes, whatever keeps them. *dump is the caller's, to be freed with pi_buf_free. It is read in
/// pages, each of the newest commit: to dump a session that others write to, begin a mutation around it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_dump(
    session: *const pi_session,
    dump: *mut *mut pi_buf,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let dump = Out::cleared(dump).required("dump")?;
            let mut written = Vec::new();
            get(session)?.dump(&mut written, &context::get(context)?)?;
            dump.set(|| pi_buf::give(written));
            Ok(())
        })
    }
}

/// Copies the session, as it is now, into a new SQLite file of its own at path, while it stays in use. Nothing is
/// left there on failure. PI_UNSUPPORTED where it is not kept in SQLite, PI_SESSION_EXISTS if there is a file at
/// path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_backup(
    session: *const pi_session,
    path: *const c_char,
    path_len: usize,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output and text are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let path = argument::path(path, path_len, "path")?;
            get(session)?.backup_to(path, &context::get(context)?)
        })
    }
}

/// What pi_session_compact did.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_compaction {
    /// Bytes of the file before.
    pub before: u64,
    /// Bytes of the file after.
    pub after: u64,
}

// SAFETY: integers.
unsafe impl Plain for pi_compaction {}

/// Rewrites the session's file of JSON lines with what is alive. The old file stays until the new one is whole;
/// readers follow. Closing does it when more is dead than alive. Fills *compaction, which may be NULL; size is
/// sizeof *compaction. PI_UNSUPPORTED where the session is kept otherwise; PI_READ_ONLY; PI_FULL and PI_IO leave
/// the old file as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_compact(
    session: *mut pi_session,
    compaction: *mut pi_compaction,
    size: usize,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let view = View::cleared(compaction, size);
            let done = get(session)?.compact(&context::get(context)?)?;
            view.set(&pi_compaction { before: done.before, after: done.after });
            Ok(())
        })
    }
}

/// Reads the session's name. *name is the caller's, to be freed with pi_buf_free; NULL when it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_name(
    session: *const pi_session,
    name: *mut *mut pi_buf,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let name = Out::cleared(name).required("name")?;
            if let Some(found) = get(session)?.name(&context::get(context)?)? {
                name.set(|| pi_buf::give(found));
            }
            Ok(())
        })
    }
}

/// Sets the session's name; NULL deletes it. Waits for its turn on the mutation line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_set_name(
    session: *mut pi_session,
    name: *const c_char,
    name_len: usize,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output and text are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let name = optional_text(name, name_len, "name")?;
            get(session)?.set_name(name, &context::get(context)?)
        })
    }
}

/// Reads the label of an entry. *label is the caller's, to be freed with pi_buf_free; NULL when it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_get_label(
    session: *const pi_session,
    entry_id: *const c_char,
    entry_id_len: usize,
    label: *mut *mut pi_buf,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and text are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let label = Out::cleared(label).required("label")?;
            let entry_id = text(entry_id, entry_id_len, "entry_id")?;
            if let Some(found) = get(session)?.get_label(entry_id, &context::get(context)?)? {
                label.set(|| pi_buf::give(found));
            }
            Ok(())
        })
    }
}

/// Labels an entry, which need not exist; a NULL label deletes it. Waits for its turn on the mutation line.
/// PI_INVALID_ID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_set_label(
    session: *mut pi_session,
    entry_id: *const c_char,
    entry_id_len: usize,
    label: *const c_char,
    label_len: usize,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: output and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let entry_id = text(entry_id, entry_id_len, "entry_id")?;
            let label = optional_text(label, label_len, "label")?;
            get(session)?.set_label(entry_id, label, &context::get(context)?)
        })
    }
}
