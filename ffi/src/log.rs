//! The log.
//!
//! What the library does, as lines for the host's own log: what went wrong without failing a call, and at
//! PI_LOG_DEBUG each open, commit and mutation with its duration. Ids and counts only, never content. Nothing is
//! written anywhere else.

use std::ffi::{c_char, c_void};
use std::io;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use pisession::{Error, ErrorKind, Result};
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{FmtSpan, Writer};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Registry, reload};

use crate::argument::UserData;
use crate::buf::Text;
use crate::error::pi_error;
use crate::guard::guard;
use crate::handle;

/// No lines.
pub const PI_LOG_OFF: i64 = 0;
/// What made a call fail that could not say so itself.
pub const PI_LOG_ERROR: i64 = 1;
/// What went wrong without failing a call.
pub const PI_LOG_WARN: i64 = 2;
/// What an operator wants to know.
pub const PI_LOG_INFO: i64 = 3;
/// Each open, commit and mutation, with its duration.
pub const PI_LOG_DEBUG: i64 = 4;
/// Everything there is.
pub const PI_LOG_TRACE: i64 = 5;

/// Where the lines go.
struct Sink {
    function: unsafe extern "C" fn(i64, *const c_char, usize, *mut c_void),
    user_data: UserData,
}

// SAFETY: the contract of `pi_set_log` says that the function may be called from any thread, also at once.
unsafe impl Send for Sink {}
// SAFETY: as above.
unsafe impl Sync for Sink {}

static SINK: RwLock<Option<Arc<Sink>>> = RwLock::new(None);
/// Changes the level of the one subscriber, which is made at the first call.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Gives the lines of the library to a function of the host, up to a level; level PI_LOG_OFF or a NULL function
/// ends that. There is one log for the whole process; a new one takes the place of the last.
///
/// The function gets the level, the line without its end (UTF-8, with a NUL that is not counted, valid during the
/// call) and user_data. It is called on the thread of the call that the line is about, from any thread and at
/// once from several; it must not use the library. drop(user_data), which may be NULL, runs once, when the log was
/// replaced and no thread is in the function any more, or if this call fails: until then the function may still
/// run, also after the call that replaced it. PI_INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_set_log(
    level: i64,
    function: Option<
        unsafe extern "C" fn(level: i64, line: *const c_char, line_len: usize, user_data: *mut c_void),
    >,
    user_data: *mut c_void,
    drop: Option<unsafe extern "C" fn(user_data: *mut c_void)>,
    error: *mut *mut pi_error,
) -> i32 {
    let user_data = UserData { data: user_data, drop };
    // SAFETY: the output is NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            handle::check_process()?;
            let level = level_filter(level)?;
            let (sink, level) = match function {
                Some(function) if level != LevelFilter::OFF => {
                    (Some(Arc::new(Sink { function, user_data })), level)
                }
                _ => (None, LevelFilter::OFF),
            };
            let before = std::mem::replace(&mut *SINK.write().unwrap_or_else(PoisonError::into_inner), sink);
            std::mem::drop(before);
            set_level(level)
        })
    }
}

fn level_filter(level: i64) -> Result<LevelFilter> {
    Ok(match level {
        PI_LOG_OFF => LevelFilter::OFF,
        PI_LOG_ERROR => LevelFilter::ERROR,
        PI_LOG_WARN => LevelFilter::WARN,
        PI_LOG_INFO => LevelFilter::INFO,
        PI_LOG_DEBUG => LevelFilter::DEBUG,
        PI_LOG_TRACE => LevelFilter::TRACE,
        _ => {
            return Err(Error::new(ErrorKind::InvalidArgument, format!("{level} is no level of the log"))
                .with_hint("use one of the PI_LOG_ constants"));
        }
    })
}

fn set_level(level: LevelFilter) -> Result<()> {
    let targets = Targets::new().with_target("pisession", level);
    let handle = FILTER.get_or_init(|| {
        let (filter, handle) = reload::Layer::new(Targets::new());
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_target(false)
            .with_level(false)
            .with_timer(NoTime)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(Lines);
        // The dispatcher belongs to this library's own copy of `tracing`: nobody else sets it.
        let _ = tracing::subscriber::set_global_default(Registry::default().with(filter).with(lines));
        handle
    });
    handle
        .reload(targets)
        .map_err(|error| Error::new(ErrorKind::Misuse, format!("the log's level cannot be set: {error}")))
}

/// The host knows the time.
struct NoTime;

impl FormatTime for NoTime {
    fn format_time(&self, _: &mut Writer<'_>) -> std::fmt::Result {
        Ok(())
    }
}

/// Makes the writer of one line.
struct Lines;

/// Gets a line whole, in one write.
struct Line(i64);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(PI_LOG_INFO)
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line {
        Line(match *metadata.level() {
            Level::ERROR => PI_LOG_ERROR,
            Level::WARN => PI_LOG_WARN,
            Level::INFO => PI_LOG_INFO,
            Level::DEBUG => PI_LOG_DEBUG,
            Level::TRACE => PI_LOG_TRACE,
        })
    }
}

impl io::Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Not under the lock: the host's code runs in here.
        let sink = SINK.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sink) = sink {
            let text = Text::new(line.trim_ascii());
            // SAFETY: the function and its data are the host's, for calls such as this one (rule 10).
            unsafe { (sink.function)(self.0, text.data(), text.len(), sink.user_data.data) };
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
