//! The programs of `tests/c/table`, which go through every function of the header by a table made from it.

#![allow(clippy::unwrap_used, clippy::panic)] // the helpers are tests too

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::table::write_calls;
use common::{Link, compile, manifest, run};

fn program(name: &str, folder: &Path) -> PathBuf {
    write_calls(folder);
    compile(&[manifest().join("../tests/c/table").join(format!("{name}.c"))], Link::Shared, folder)
}

#[test]
fn every_function_refuses_what_is_no_live_handle_of_its_type() {
    let folder = tempfile::tempdir().unwrap();
    run(Command::new(program("misuse", folder.path())).arg("memory:").current_dir(folder.path()));
}

#[test]
fn twenty_thousand_failing_calls_of_every_function_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let program = program("failures", folder.path());
    for uri in ["memory:", "jsonl:lines", "sqlite:sessions"] {
        run(Command::new(&program).arg(uri).current_dir(folder.path()));
    }
}
