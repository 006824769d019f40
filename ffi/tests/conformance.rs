//! The conformance cases (`tests/conformance`), run through the shared library by a C program that knows nothing
//! but `pisession.h`.

#![allow(clippy::unwrap_used, clippy::panic)] // the helpers are tests too

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use common::{Link, compile, manifest};

/// The kinds of repositories that the C program runs every case on.
const KINDS: usize = 4;

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
    let cases: usize = files.iter().map(|file| cases(file)).sum();
    assert_eq!(said.lines().last(), Some(&*format!("{} passed, 0 failed", KINDS * cases)), "\n{said}");
}

fn cases(file: &Path) -> usize {
    let table: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    table["cases"].as_array().unwrap().len()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}
