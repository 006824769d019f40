//! Repairing and moving.
//!
//! A damaged session gives a new one of all that can be read of it; sound ones go to other repositories as they
//! are. What is read is never written.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;

use pisession::{Converted, Repair, RepairCounts, RepairOptions, SessionMetadata};

use crate::argument::{self, Out, Plain, View, init_options, optional_text, path};
use crate::buf::Text;
use crate::check::pi_findings;
use crate::context::{self, Progress, pi_context, pi_progress_function};
use crate::error::{PI_INVALID_ARGUMENT, PI_OK, pi_error};
use crate::guard::{guard, guard_value};
use crate::handle;
use crate::legacy::{WarningText, pi_legacy_warning};
use crate::repository::pi_repository;
use crate::session::{self, pi_session};

/// How a session is repaired. To be filled by pi_repair_options_init first; 0 and NULL are defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_repair_options {
    /// Set by pi_repair_options_init.
    pub struct_size: usize,
    /// Where the new session is made; NULL to look only.
    pub into: *mut pi_repository,
    /// The id of the new session; NULL for the old one's.
    pub id: *const c_char,
    /// Bytes of id, or PI_NUL, which is the default.
    pub id_len: usize,
    /// The id of the session that is meant, in a database that holds several.
    pub session: *const c_char,
    /// Bytes of session, or PI_NUL, which is the default.
    pub session_len: usize,
    /// Told how many bytes of a file of JSON lines were read, now and then; NULL for nobody.
    pub progress: pi_progress_function,
    /// What progress gets.
    pub user_data: *mut c_void,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_repair_options {}

/// Fills options with defaults; size is sizeof *options. Each length becomes PI_NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repair_options_init(options: *mut pi_repair_options, size: usize) {
    let lens = [offset_of!(pi_repair_options, id_len), offset_of!(pi_repair_options, session_len)];
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(options, size, &lens) });
}

/// Makes a new session of what can be read of the one in the file at path (the bytes of its name): JSON lines of
/// any version, or SQLite. The file is only read. Ids, seqs and timestamps stay; the new session appears whole or
/// not at all, and is not open. options may be NULL: to look only. *repair tells what was kept and what was wrong;
/// it is the caller's, to be freed with pi_repair_free. PI_NOT_A_SESSION if nothing in the file is of a session;
/// PI_UNSUPPORTED_VERSION; PI_AMBIGUOUS_SESSION and PI_UNKNOWN_SESSION where a database holds several sessions, or
/// not the one that is meant; PI_FILE_CHANGED; what pi_session_create fails with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repair_file(
    path: *const c_char,
    path_len: usize,
    options: *const pi_repair_options,
    repair: *mut *mut pi_repair,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, options and texts are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let repair = Out::cleared(repair).required("repair")?;
            let path = self::path(path, path_len, "path")?;
            let options = argument::options(options)?;
            let progress = Progress::new(options.progress, options.user_data);
            handle::check_process()?;
            let options = RepairOptions {
                into: if options.into.is_null() {
                    None
                } else {
                    Some(handle::get(options.into.cast_const())?.0.clone())
                },
                id: optional_text(options.id, options.id_len, "id")?.map(str::to_owned),
                session: optional_text(options.session, options.session_len, "session")?.map(str::to_owned),
            };
            let tell = &mut |bytes| progress.tell(bytes, 0);
            let done = pisession::repair_file(path, &options, tell, &context::get(context)?)?;
            repair.set(|| handle::give(pi_repair::new(&done)));
            Ok(())
        })
    }
}

/// What a repair did, or would do. To be freed with pi_repair_free.
pub struct pi_repair {
    source_id: Text,
    session: Option<Place>,
    kept: RepairCounts,
    is_sound: bool,
    findings: pi_findings,
    warnings: Vec<WarningText>,
}

/// Where a session is.
struct Place {
    id: Text,
    path: Option<Text>,
}

impl Place {
    fn new(metadata: &SessionMetadata) -> Self {
        let path = metadata.path.as_ref().map(|path| Text::new(path.as_os_str().as_bytes()));
        Self { id: Text::new(&metadata.id), path }
    }
}

impl pi_repair {
    fn new(done: &Repair) -> Self {
        Self {
            source_id: Text::new(&done.source.id),
            session: done.session.as_ref().map(Place::new),
            kept: done.kept,
            is_sound: done.is_sound(),
            findings: pi_findings::new(&done.findings),
            warnings: done.warnings.iter().map(WarningText::new).collect(),
        }
    }
}

/// A repair in brief: views that are valid until the pi_repair is freed. Absent texts are NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_repair_info {
    /// The id of the damaged session.
    pub source_id: *const c_char,
    /// Bytes of source_id.
    pub source_id_len: usize,
    /// The id of the new session; NULL if there was only a look.
    pub id: *const c_char,
    /// Bytes of id.
    pub id_len: usize,
    /// The file of the new session, as the bytes of its name.
    pub path: *const c_char,
    /// Bytes of path.
    pub path_len: usize,
    /// 1 if there was nothing to repair.
    pub is_sound: i64,
    /// Entries that were kept.
    pub entries: u64,
    /// Of these, messages.
    pub messages: u64,
    /// Values, the tips of branches included.
    pub values: u64,
    /// Elements of lists.
    pub elements: u64,
    /// Rows of the ledger.
    pub usage: u64,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_repair_info {}

/// Fills *info; size is sizeof *info. PI_INVALID_ARGUMENT for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repair_get(
    repair: *const pi_repair,
    info: *mut pi_repair_info,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: NULL or not freed, and NULL or writable for `size` bytes (rules 2, 3).
        let (info, repair) = unsafe { (View::cleared(info, size), repair.as_ref()) };
        let (Ok(info), Some(repair)) = (info.required("info"), repair) else { return PI_INVALID_ARGUMENT };
        let (source_id, source_id_len) = Text::view(Some(&repair.source_id));
        let (id, id_len) = Text::view(repair.session.as_ref().map(|place| &place.id));
        let (path, path_len) = Text::view(repair.session.as_ref().and_then(|place| place.path.as_ref()));
        info.set(&pi_repair_info {
            source_id,
            source_id_len,
            id,
            id_len,
            path,
            path_len,
            is_sound: i64::from(repair.is_sound),
            entries: repair.kept.entries,
            messages: repair.kept.messages,
            values: repair.kept.values,
            elements: repair.kept.elements,
            usage: repair.kept.usage,
        });
        PI_OK
    })
}

/// What was damaged, and what was changed or left out therefore. Borrowed from the repair. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repair_findings(repair: *const pi_repair) -> *const pi_findings {
    // SAFETY: NULL or not freed (rule 3).
    guard_value(|| unsafe { repair.as_ref() }.map_or(std::ptr::null(), |repair| &raw const repair.findings))
}

/// How many warnings the reader of a file of version 1 to 3 had, by line. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repair_warnings_count(repair: *const pi_repair) -> usize {
    // SAFETY: NULL or not freed (rule 3).
    guard_value(|| unsafe { repair.as_ref() }.map_or(0, |repair| repair.warnings.len()))
}

/// Fills *view with the warning at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repair_warnings_get(
    repair: *const pi_repair,
    index: usize,
    view: *mut pi_legacy_warning,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: NULL or not freed, and NULL or writable for `size` bytes (rules 2, 3).
        let (view, repair) = unsafe { (View::cleared(view, size), repair.as_ref()) };
        let found = repair.and_then(|repair| repair.warnings.get(index));
        let (Ok(view), Some(found)) = (view.required("view"), found) else { return PI_INVALID_ARGUMENT };
        view.set(&found.view());
        PI_OK
    })
}

/// Frees the repair and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repair_free(repair: *mut pi_repair) {
    // SAFETY: NULL or not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(repair) }));
}

/// How sessions are converted. To be filled by pi_convert_options_init first; 0 and NULL are defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_convert_options {
    /// Set by pi_convert_options_init.
    pub struct_size: usize,
    /// Told how many records of a session were copied, now and then; NULL for nobody.
    pub progress: pi_progress_function,
    /// What progress gets.
    pub user_data: *mut c_void,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_convert_options {}

/// Fills options with defaults; size is sizeof *options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_convert_options_init(options: *mut pi_convert_options, size: usize) {
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(options, size, &[]) });
}

/// Copies the session into another repository as it is: entries, values, lists, ledger, ids, seqs, timestamps and
/// metadata. The copy appears whole or not at all, and is not open. One that is there already and holds the same is
/// left as it is. *made, which may be NULL, is 1, or 0 if it was there. options may be NULL. PI_SESSION_EXISTS if a
/// session of that id is something else; PI_CORRUPT for a damaged source; what pi_session_create fails with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_convert(
    session: *const pi_session,
    into: *mut pi_repository,
    options: *const pi_convert_options,
    made: *mut u64,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and options are as the contract says (rules 2 and 7).
    unsafe {
        guard(error, || {
            let made = Out::cleared(made);
            let options = argument::options(options)?;
            let progress = Progress::new(options.progress, options.user_data);
            let session = session::get(session)?;
            let into = handle::get(into)?;
            let tell = &mut |records| progress.tell(records, 0);
            let done = pisession::convert_session(&session, &into.0, tell, &context::get(context)?)?;
            made.set(|| u64::from(done.made));
            Ok(())
        })
    }
}

/// pi_session_convert for every session of a repository, newest first. One that fails does not stop the others.
/// *conversions tells what became of each; it is the caller's, to be freed with pi_conversions_free. What listing
/// fails with, PI_CANCELLED and PI_DEADLINE_EXCEEDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_repository_convert(
    repository: *const pi_repository,
    into: *mut pi_repository,
    options: *const pi_convert_options,
    conversions: *mut *mut pi_conversions,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and options are as the contract says (rules 2 and 7).
    unsafe {
        guard(error, || {
            let conversions = Out::cleared(conversions).required("conversions")?;
            let options = argument::options(options)?;
            let progress = Progress::new(options.progress, options.user_data);
            let repository = handle::get(repository)?;
            let into = handle::get(into)?;
            let tell = &mut |records| progress.tell(records, 0);
            let ctx = context::get(context)?;
            let done = pisession::convert_repository(&repository.0, &into.0, tell, &mut |_, _| (), &ctx)?;
            conversions.set(|| handle::give(pi_conversions(done.iter().map(ConversionText::new).collect())));
            Ok(())
        })
    }
}

/// What became of the sessions of a repository. To be freed with pi_conversions_free.
pub struct pi_conversions(Vec<ConversionText>);

/// A conversion as C reads it.
struct ConversionText {
    id: Option<Text>,
    source_path: Option<Text>,
    path: Option<Text>,
    made: bool,
    problem: Option<Text>,
    problem_code: i32,
}

impl ConversionText {
    fn new(converted: &Converted) -> Self {
        let place = converted.outcome.as_ref().ok().map(|done| Place::new(&done.session));
        let problem = converted.outcome.as_ref().err();
        Self {
            id: converted.source.metadata.as_ref().map(|metadata| Text::new(&metadata.id)),
            source_path: converted.source.path.as_ref().map(|path| Text::new(path.as_os_str().as_bytes())),
            path: place.and_then(|place| place.path),
            made: converted.outcome.as_ref().is_ok_and(|done| done.made),
            problem: problem.map(|problem| Text::new(problem.to_string())),
            problem_code: problem.map_or(PI_OK, |problem| -problem.kind().number()),
        }
    }
}

/// What became of one session: views that are valid until the set is freed. Absent texts are NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_conversion {
    /// The session's id; NULL if it cannot be read.
    pub id: *const c_char,
    /// Bytes of id.
    pub id_len: usize,
    /// The file it was in, as the bytes of its name.
    pub source_path: *const c_char,
    /// Bytes of source_path.
    pub source_path_len: usize,
    /// The file it is in now, as the bytes of its name.
    pub path: *const c_char,
    /// Bytes of path.
    pub path_len: usize,
    /// 1 if it was made; 0 if it was there already, or failed.
    pub made: i64,
    /// Why it failed; NULL if it did not.
    pub problem: *const c_char,
    /// Bytes of problem.
    pub problem_len: usize,
    /// The number of that problem's kind; PI_OK if there is none.
    pub problem_code: i64,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_conversion {}

/// How many sessions there were. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_conversions_count(conversions: *const pi_conversions) -> usize {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| unsafe { conversions.as_ref() }.map_or(0, |conversions| conversions.0.len()))
}

/// Fills *view with what became of the session at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_conversions_get(
    conversions: *const pi_conversions,
    index: usize,
    view: *mut pi_conversion,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: the set is NULL or was not freed, the view NULL or writable for `size` bytes (rules 2, 3).
        let (view, conversions) = unsafe { (View::cleared(view, size), conversions.as_ref()) };
        let found = conversions.and_then(|conversions| conversions.0.get(index));
        let (Ok(view), Some(found)) = (view.required("view"), found) else { return PI_INVALID_ARGUMENT };
        let (id, id_len) = Text::view(found.id.as_ref());
        let (source_path, source_path_len) = Text::view(found.source_path.as_ref());
        let (path, path_len) = Text::view(found.path.as_ref());
        let (problem, problem_len) = Text::view(found.problem.as_ref());
        view.set(&pi_conversion {
            id,
            id_len,
            source_path,
            source_path_len,
            path,
            path_len,
            made: i64::from(found.made),
            problem,
            problem_len,
            problem_code: i64::from(found.problem_code),
        });
        PI_OK
    })
}

/// Frees the set and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_conversions_free(conversions: *mut pi_conversions) {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(conversions) }));
}
