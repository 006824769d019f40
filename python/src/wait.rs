//! Calls that can wait: without the interpreter lock, with an ear for Ctrl-C, and with an end.
//!
//! A thread that wants the interpreter lock back while the interpreter is torn down is ended by it in the middle
//! of our frames, which aborts the process. So the end of the program goes in steps: calls of other threads are
//! refused (with an exception made before, as making one runs Python code, which takes turns with other
//! threads), those that wait fail because everything is closed, and the last ones are waited for.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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

/// Says which thread handles signals.
#[pyfunction]
pub(crate) fn set_main_thread(ident: u64) {
    MAIN_THREAD.store(ident, Ordering::Relaxed);
}

/// In a forked child the calls of other threads are gone.
pub(crate) fn forget_calls() {
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
    /// Code of the host runs, in the middle of a call of this thread.
    static IN_HOST: Cell<bool> = const { Cell::new(false) };
    /// What such code raised. It wins over the result of the call.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// The context of the call that asks callables of the host.
    static ASKING: RefCell<Option<pisession::Context>> = const { RefCell::new(None) };
}

/// Runs `f` without the interpreter lock, in the context the caller gave. On the main thread a signal whose
/// handler raises ends the call.
pub(crate) fn call<T: Send>(
    py: Python<'_>,
    ctx: Option<&Context>,
    f: impl FnOnce(&pisession::Context) -> pisession::Result<T> + Send,
) -> PyResult<T> {
    let ctx = ctx.map_or_else(pisession::Context::background, Context::inner);
    let ctx = if is_main_thread() { ctx.with_interrupt(run_signal_handlers) } else { ctx };
    run(py, &ctx, f)
}

/// The same for a call that asks a callable of the host: once that raised, the call ends.
pub(crate) fn call_with_host<T: Send>(
    py: Python<'_>,
    ctx: Option<&Context>,
    f: impl FnOnce(&pisession::Context) -> pisession::Result<T> + Send,
) -> PyResult<T> {
    // What the callable raises must not cancel the caller's own context.
    let ctx = ctx.map_or_else(pisession::Context::background, Context::inner).child();
    // A call that is refused in the middle of another one leaves that one's in its place.
    let outer = ASKING.replace(Some(ctx.clone()));
    let ctx = if is_main_thread() { ctx.with_interrupt(run_signal_handlers) } else { ctx };
    let result = run(py, &ctx, f);
    ASKING.set(outer);
    result
}

fn run<T: Send>(
    py: Python<'_>,
    ctx: &pisession::Context,
    f: impl FnOnce(&pisession::Context) -> pisession::Result<T> + Send,
) -> PyResult<T> {
    let main = is_main_thread();
    if !main && let Some(refusal) = REFUSAL.get(py) {
        return Err(PyErr::from_value(refusal.bind(py).clone()));
    }
    if IN_HOST.get() {
        let error = pisession::Error::new(
            ErrorKind::NestedMutation,
            "a signal handler, or a callable that was handed in, used a session in the middle of a call that \
             this thread had not ended",
        )
        .with_hint("let it set a flag, cancel a Context or raise, and use the session afterwards");
        return Err(to_python(py, &error));
    }
    let under_way = UnderWay::new();
    let result = py.detach(|| {
        // What a panic may have left half done in the core is behind its locks, which say so.
        let result = catch_unwind(AssertUnwindSafe(|| f(ctx)));
        wait_out_the_end();
        result
    });
    let result = match (raised(), result) {
        (Some(raised), _) => Err(raised),
        (None, Ok(Ok(value))) => Ok(value),
        (None, Ok(Err(error))) => Err(to_python(py, &error)),
        (None, Err(panic)) => Err(panicked(py, &*panic)),
    };
    drop(under_way);
    result
}

/// Once the program has ended a thread other than the main one must not come back to Python.
fn wait_out_the_end() {
    while ENDED.load(Ordering::Acquire) && !is_main_thread() {
        thread::park();
    }
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

fn has_raised() -> bool {
    RAISED.with_borrow(Option::is_some)
}

/// What code of the host raised in the middle of the call that has just ended.
pub(crate) fn raised() -> Option<PyErr> {
    RAISED.take()
}

/// Runs code of the host in the middle of a call, which released the interpreter lock: the thread takes it back,
/// and releases it again. None if it raised, which the call will raise.
///
/// The call may hold locks of the core. Nobody waits for those with the interpreter lock.
pub(crate) fn ask_host<T>(ask: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
    wait_out_the_end();
    let in_host = InHost(IN_HOST.replace(true));
    let answer = Python::try_attach(ask);
    drop(in_host);
    match answer? {
        Ok(answer) => Some(answer),
        Err(error) => {
            // The first one is the reason of what came after it.
            RAISED.with_borrow_mut(|raised| _ = raised.get_or_insert(error));
            ASKING.with_borrow(|asking| asking.iter().for_each(pisession::Context::cancel));
            None
        }
    }
}

/// While code of the host runs; what was before comes back.
struct InHost(bool);

impl Drop for InHost {
    fn drop(&mut self) {
        IN_HOST.set(self.0);
    }
}

/// Asked by the core while the main thread waits or works in it: runs the handlers of signals that came. Whether
/// one raised.
fn run_signal_handlers() -> bool {
    _ = ask_host(|py| py.check_signals());
    has_raised()
}
