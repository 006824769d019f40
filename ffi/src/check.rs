//! Checks.
//!
//! A session is looked over, and what is wrong with it is named. Nothing is repaired and nothing is written.

use std::ffi::{c_char, c_void};

use pisession::{CheckDepth, CheckOptions, Error, ErrorKind, FileCheck, Finding, Gap, Result};

use crate::argument::{self, Out, Plain, View, init_options};
use crate::buf::Text;
use crate::context::{self, Progress, pi_context, pi_progress_function};
use crate::error::{PI_INVALID_ARGUMENT, PI_OK, pi_error};
use crate::guard::{guard, guard_value};
use crate::handle;
use crate::session::{self, pi_session};

/// What costs little: the end of the file, tips, labels, lanes.
pub const PI_CHECK_BRIEF: i64 = 1;
/// Everything is read once (the default).
pub const PI_CHECK_QUICK: i64 = 2;
/// Also whether what was read fits together, and what the file says beside it: each line of a file of JSON lines is
/// read again; of a SQLite file, indexes are held against tables.
pub const PI_CHECK_FULL: i64 = 3;

/// How a session is checked. To be filled by pi_check_options_init first; 0 and NULL are defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_check_options {
    /// Set by pi_check_options_init.
    pub struct_size: usize,
    /// PI_CHECK_BRIEF, PI_CHECK_QUICK or PI_CHECK_FULL.
    pub depth: i64,
    /// 1: the file itself is not looked at, since it was, for another session in it.
    pub skip_file: i64,
    /// Told how many entries were read, now and then; NULL for nobody.
    pub progress: pi_progress_function,
    /// What progress gets.
    pub user_data: *mut c_void,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_check_options {}

impl pi_check_options {
    fn read(&self) -> Result<CheckOptions> {
        let depth = match self.depth {
            PI_CHECK_BRIEF => CheckDepth::Brief,
            0 | PI_CHECK_QUICK => CheckDepth::Quick,
            PI_CHECK_FULL => CheckDepth::Full,
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!("{other} is no depth of a check"),
                )
                .with_hint("use PI_CHECK_BRIEF, PI_CHECK_QUICK or PI_CHECK_FULL, or 0 for the default"));
            }
        };
        let file = if self.skip_file == 0 { FileCheck::Look } else { FileCheck::Skip };
        Ok(CheckOptions { depth, file })
    }
}

/// Fills options with defaults; size is sizeof *options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_check_options_init(options: *mut pi_check_options, size: usize) {
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(options, size, &[]) });
}

/// Looks the session over, while it stays in use. options may be NULL. *findings is what is wrong with it, none
/// for a sound one; the caller's, to be freed with pi_findings_free. What cannot be read is a finding too; the call
/// itself fails with PI_CLOSED, PI_CANCELLED and PI_DEADLINE_EXCEEDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_check(
    session: *const pi_session,
    options: *const pi_check_options,
    findings: *mut *mut pi_findings,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and options are as the contract says (rules 2 and 7).
    unsafe {
        guard(error, || {
            let findings = Out::cleared(findings).required("findings")?;
            let options = argument::options(options)?;
            let progress = Progress::new(options.progress, options.user_data);
            let session = session::get(session)?;
            let found = session.check_with(
                &options.read()?,
                &mut |entries| progress.tell(entries, 0),
                &context::get(context)?,
            )?;
            findings.set(|| handle::give(pi_findings::new(&found)));
            Ok(())
        })
    }
}

/// What reading went past in a file of JSON lines that was opened with salvage: each a "damaged_line" with its
/// place. None for any other session. *findings is the caller's, to be freed with pi_findings_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_gaps(
    session: *const pi_session,
    findings: *mut *mut pi_findings,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let findings = Out::cleared(findings).required("findings")?;
            let gaps = session::get(session)?.gaps()?;
            findings.set(|| handle::give(pi_findings(gaps.iter().map(FindingText::of_gap).collect())));
            Ok(())
        })
    }
}

/// What a check found. To be freed with pi_findings_free.
pub struct pi_findings(Vec<FindingText>);

impl pi_findings {
    pub(crate) fn new(found: &[Finding]) -> Self {
        Self(found.iter().map(FindingText::new).collect())
    }
}

/// A finding as C reads it.
struct FindingText {
    kind: Text,
    message: Text,
    id: Option<Text>,
    hint: Option<Text>,
    line: Option<u64>,
    offset: Option<u64>,
    length: Option<u64>,
    error_code: i32,
}

impl FindingText {
    fn new(finding: &Finding) -> Self {
        Self {
            kind: Text::new(finding.kind.name()),
            message: Text::new(&finding.message),
            id: finding.id.as_ref().map(Text::new),
            hint: finding.hint.as_ref().map(Text::new),
            line: finding.line,
            offset: finding.offset,
            length: finding.length,
            error_code: finding.error.as_ref().map_or(PI_OK, |error| -error.kind().number()),
        }
    }

    fn of_gap(gap: &Gap) -> Self {
        Self {
            kind: Text::new("damaged_line"),
            message: Text::new(&gap.reason),
            id: None,
            hint: None,
            line: Some(gap.line),
            offset: Some(gap.offset),
            length: Some(gap.length),
            error_code: PI_OK,
        }
    }

    fn view(&self) -> pi_finding {
        let number =
            |number: Option<u64>| number.map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX));
        let (id, id_len) = Text::view(self.id.as_ref());
        let (hint, hint_len) = Text::view(self.hint.as_ref());
        pi_finding {
            kind: self.kind.data(),
            kind_len: self.kind.len(),
            message: self.message.data(),
            message_len: self.message.len(),
            id,
            id_len,
            line: number(self.line),
            offset: number(self.offset),
            length: number(self.length),
            hint,
            hint_len,
            error_code: i64::from(self.error_code),
        }
    }
}

/// One thing that is wrong: views that are valid until the set is freed. Absent texts are NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_finding {
    /// What it is, for example "tip_of_nothing".
    pub kind: *const c_char,
    /// Bytes of kind.
    pub kind_len: usize,
    /// It in a sentence.
    pub message: *const c_char,
    /// Bytes of message.
    pub message_len: usize,
    /// The entry, branch or other id it is about.
    pub id: *const c_char,
    /// Bytes of id.
    pub id_len: usize,
    /// The line of the file it is in, from 1; -1 where there is none.
    pub line: i64,
    /// Where it begins in the file, in bytes; -1 where that is not known.
    pub offset: i64,
    /// How many bytes of the file it takes; -1 where that is not known.
    pub length: i64,
    /// What to do about it.
    pub hint: *const c_char,
    /// Bytes of hint.
    pub hint_len: usize,
    /// The number of the error that reading ended with; PI_OK if there was none.
    pub error_code: i64,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_finding {}

/// How many findings there are. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_findings_count(findings: *const pi_findings) -> usize {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| unsafe { findings.as_ref() }.map_or(0, |findings| findings.0.len()))
}

/// Fills *view with the finding at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_findings_get(
    findings: *const pi_findings,
    index: usize,
    view: *mut pi_finding,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: the set is NULL or was not freed, the view NULL or writable for `size` bytes (rules 2, 3).
        let (view, findings) = unsafe { (View::cleared(view, size), findings.as_ref()) };
        match (view.required("view"), findings.and_then(|findings| findings.0.get(index))) {
            (Ok(view), Some(found)) => {
                view.set(&found.view());
                PI_OK
            }
            _ => PI_INVALID_ARGUMENT,
        }
    })
}

/// Frees the set and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_findings_free(findings: *mut pi_findings) {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(findings) }));
}
