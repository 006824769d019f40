//! Calls that can wait: without the interpreter lock, and with an ear for Ctrl-C.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pisession::{Error, ErrorKind};
use pyo3::prelude::*;

use crate::context::Context;
use crate::error::to_python;

/// The interpreter's main thread, as `threading.get_ident` numbers it; 0 as long as it is not known.
static MAIN_THREAD: AtomicU64 = AtomicU64::new(0);

/// Says which thread handles signals. Called when the package is imported and in a forked child.
#[pyfunction]
pub(crate) fn set_main_thread(ident: u64) {
    MAIN_THREAD.store(ident, Ordering::Relaxed);
}

fn is_main_thread() -> bool {
    // `threading.get_ident` is the same number.
    nix::sys::pthread::pthread_self() as u64 == MAIN_THREAD.load(Ordering::Relaxed)
}

/// Runs `f` without the interpreter lock, in the context the caller gave. On the main thread a signal whose
/// handler raises ends the waiting; what it raised wins over the result of the call.
pub(crate) fn call<T: Send>(
    py: Python<'_>,
    ctx: Option<&Context>,
    f: impl FnOnce(&pisession::Context) -> pisession::Result<T> + Send,
) -> PyResult<T> {
    let mut ctx = ctx.map_or_else(pisession::Context::background, Context::inner);
    let raised: Arc<Mutex<Option<PyErr>>> = Arc::default();
    if is_main_thread() {
        let raised = Arc::clone(&raised);
        ctx = ctx.with_interrupt(move || run_signal_handlers(&raised));
    }
    // What a panic may have left half done in the core is behind its locks, which say so.
    let result = py.detach(|| catch_unwind(AssertUnwindSafe(|| f(&ctx))));
    if let Some(raised) = raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(raised);
    }
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(to_python(py, &error)),
        Err(panic) => {
            let what = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned());
            let error = Error::new(ErrorKind::Panic, format!("the library panicked: {what}"))
                .with_hint("please report it");
            Err(to_python(py, &error))
        }
    }
}

/// Asked by the core while the main thread waits in it. The thread takes back the interpreter lock it released
/// in `call`, runs the handlers of signals that came, and releases it again.
fn run_signal_handlers(raised: &Mutex<Option<PyErr>>) -> bool {
    match Python::try_attach(|py| py.check_signals()) {
        Some(Err(error)) => {
            *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            true
        }
        Some(Ok(())) | None => false,
    }
}
