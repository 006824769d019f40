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

/// Seeds and calls of each: `PISESSION_FUZZ=seeds:calls`, `make soak` asks for more.
fn rounds() -> (u64, u64) {
    let asked = std::env::var("PISESSION_FUZZ").unwrap_or_else(|_| "6:4000".to_owned());
    let (seeds, calls) = asked.split_once(':').unwrap();
    (seeds.parse().unwrap(), calls.parse().unwrap())
}

#[test]
fn no_argument_crashes_hangs_or_panics_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let program = program("fuzz", folder.path());
    let (seeds, calls) = rounds();
    for seed in 0..seeds {
        let place = folder.path().join(seed.to_string());
        std::fs::create_dir(&place).unwrap();
        println!("seed {seed}");
        run(Command::new(&program).args([seed.to_string(), calls.to_string()]).current_dir(&place));
        std::fs::remove_dir_all(&place).unwrap();
    }
}
