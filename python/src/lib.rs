//! The native module `pisession._pisession`: it hands the calls of the Python package to the core.
//!
//! It translates and decides nothing. Classes are frozen and take `&self`, so that threads may share them;
//! records, exceptions and warnings are made in Python, from the plain tuples that come from here. Around
//! everything that can wait the interpreter lock is released ([`wait`]), and no thread of the library ever
//! attaches to the interpreter.

mod branch;
mod care;
mod context;
mod entries;
mod error;
mod files;
mod fork;
mod injected;
mod json;
mod mutation;
mod query;
mod reads;
mod records;
mod repository;
mod session;
mod wait;

use pyo3::prelude::*;

/// The native part of `pisession`. Nothing in it is public.
#[pymodule(gil_used = false)]
mod _pisession {
    #[pymodule_export]
    use crate::branch::Branch;
    #[pymodule_export]
    use crate::care::{convert_repository, convert_session, repair_file};
    #[pymodule_export]
    use crate::context::Context;
    #[pymodule_export]
    use crate::entries::Entries;
    #[pymodule_export]
    use crate::files::{import_file, open_file};
    #[pymodule_export]
    use crate::fork::after_fork_in_child;
    #[pymodule_export]
    use crate::json::write_json;
    #[pymodule_export]
    use crate::mutation::Mutation;
    #[pymodule_export]
    use crate::repository::{Repository, open_repository};
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::wait::{begin_exit, finish_exit, set_main_thread};

    use pyo3::prelude::*;

    /// Version, kinds of errors (name, number, retryable).
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let kinds: Vec<(&str, i32, bool)> = pisession::ErrorKind::ALL
            .iter()
            .map(|kind| (kind.name(), kind.number(), kind.is_retryable()))
            .collect();
        module.add("ERROR_KINDS", kinds)
    }
}
