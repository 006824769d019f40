//! Calls that can wait: without the interpreter lock, with an ear for Ctrl-C, and with an end.
//!
//! A thread that wants the interpreter lock back while the interpreter is torn down is ended by it in the middle
//! of our frames, which aborts the process. So the end of the program goes in steps: calls of other threads are
//! refused (with an exception made before, as making one runs Python code, which takes turns with other
//! threads), those that wait fail because everything is closed, and the last ones are waited for.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pisession::ErrorKind;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::context::Context;
use crate::error::{panicked, to_python};

/// The interpreter's main thread, as `threading.get_ident` numbers it; 0 as long as it is not known.
static MAIN_THREAD: AtomicU64 = AtomicU64::new(0);

/// How many calls are under way.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// What calls of threads other than the main one are refused with, once the program ends.
static REFUSAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
/// It has ended: a call that is still under way must never come back to Python.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Says which thread handles signals. Called when the package is imported and in a forked child, where it is
/// the only one.
#[pyfunction]
pub(crate) fn set_main_thread(ident: u64) {
    MAIN_THREAD.store(ident, Ordering::Relaxed);
    CALLS.store(0, Ordering::Release);
}

/// From here on the calls of other threads are refused with `refusal`.
#[pyfunction]
pub(crate) fn begin_exit(py: Python<'_>, refusal: Py<PyAny>) {
    REFUSAL.get_or_init(py, || refusal);
}

/// Waits for the calls that are under way, but not longer than `timeout` seconds.
#[pyfunction]
pub(crate) fn finish_exit(py: Python<'_>, timeout: f64) {
    py.detach(|| {
        let end = Instant::now() + Duration::try_from_secs_f64(timeout).unwrap_or_default();
        while CALLS.load(Ordering::Acquire) > 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    });
    ENDED.store(true, Ordering::Release);
}

fn is_main_thread() -> bool {
    // `threading.get_ident` is the same number.
    nix::sys::pthread::pthread_self() as u64 == MAIN_THREAD.load(Ordering::Relaxed)
}

thread_local! {
    /// Signal handlers run, in the middle of a call of this thread.
    static IN_HANDLERS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` without the interpreter lock, in the context the caller gave. On the main thread a signal whose
/// handler raises ends the call; what it raised wins over the result of the call.
pub(crate) fn call<T: Send>(
    py: Python<'_>,
    ctx: Option<&Context>,
    f: impl FnOnce(&pisession::Context) -> pisession::Result<T> + Send,
) -> PyResult<T> {
    let main = is_main_thread();
    if !main && let Some(refusal) = REFUSAL.get(py) {
        return Err(PyErr::from_value(refusal.bind(py).clone()));
    }
    if IN_HANDLERS.get() {
        let error = pisession::Error::new(
            ErrorKind::NestedMutation,
            "a signal handler used a session while it interrupted a call that this thread had not ended",
        )
        .with_hint("let the handler set a flag, cancel a Context or raise, and use the session afterwards");
        return Err(to_python(py, &error));
    }
    let under_way = UnderWay::new();
    let mut ctx = ctx.map_or_else(pisession::Context::background, Context::inner);
    let raised: Arc<Mutex<Option<PyErr>>> = Arc::default();
    if main {
        let raised = Arc::clone(&raised);
        ctx = ctx.with_interrupt(move || run_signal_handlers(&raised));
    }
    let result = py.detach(|| {
        // What a panic may have left half done in the core is behind its locks, which say so.
        let result = catch_unwind(AssertUnwindSafe(|| f(&ctx)));
        while !main && ENDED.load(Ordering::Acquire) {
            thread::park();
        }
        result
    });
    let result = outcome(py, result, &raised);
    drop(under_way);
    result
}

/// A call under way, counted.
struct UnderWay;

impl UnderWay {
    fn new() -> Self {
        CALLS.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What the call gives to Python.
fn outcome<T>(
    py: Python<'_>,
    result: thread::Result<pisession::Result<T>>,
    raised: &Mutex<Option<PyErr>>,
) -> PyResult<T> {
    if let Some(raised) = raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(raised);
    }
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(to_python(py, &error)),
        Err(panic) => Err(panicked(py, &*panic)),
    }
}

/// Asked by the core while the main thread waits or works in it. The thread takes back the interpreter lock it
/// released in `call`, runs the handlers of signals that came, and releases it again.
fn run_signal_handlers(raised: &Mutex<Option<PyErr>>) -> bool {
    IN_HANDLERS.set(true);
    let handled = Python::try_attach(|py| py.check_signals());
    IN_HANDLERS.set(false);
    match handled {
        Some(Err(error)) => {
            *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            true
        }
        Some(Ok(())) | None => false,
    }
}
