//! The conformance cases (`tests/conformance`), run through the shared library by a C program that knows nothing
//! but `pisession.h`.

#![allow(clippy::unwrap_used, clippy::panic)] // the helpers are tests too

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Link, compile, manifest};

/// The operations of the cases that the C library does not have; cases that need one are left out.
const LACKING: [&str; 1] = ["append_many"];

#[test]
fn every_case_holds_through_the_c_library_on_every_backend() {
    let here = manifest().join("../tests/conformance");
    let folder = tempfile::tempdir().unwrap();
    let sources = ["runner.c", "calls.c", "translate.c", "json.c"].map(|name| here.join(name));
    let program = compile(&sources, Link::Shared, folder.path());
    let places = folder.path().join("places");
    fs::create_dir(&places).unwrap();
    let files = files(&here.join("cases"));
    assert!(!files.is_empty(), "there are no cases in {}", here.display());

    let output = Command::new(program).arg(&places).args(&files).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    let lacking: BTreeSet<&str> = said
        .lines()
        .filter(|line| line.starts_with("SKIPPED "))
        .filter_map(|line| line.rsplit_once(": no ").map(|(_, operation)| operation))
        .collect();
    assert_eq!(lacking, BTreeSet::from(LACKING), "\n{said}");
    let passed = said.lines().last().and_then(|line| line.split_once(" passed, 0 failed, "));
    let passed: usize = passed.and_then(|(count, _)| count.parse().ok()).unwrap_or_default();
    // Each file has a case that needs nothing else, on four kinds of repositories.
    assert!(passed >= 4 * files.len(), "\n{said}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}
