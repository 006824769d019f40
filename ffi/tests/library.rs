//! What the linker made: names, exports and needs of the shared library, and of the static one.

#![allow(clippy::unwrap_used, clippy::panic)] // the helpers are tests too

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use common::{header_functions, library_folder, manifest, run};

fn declared() -> BTreeSet<String> {
    let header = fs::read_to_string(manifest().join("../include/pisession.h")).unwrap();
    header_functions(&header).into_iter().collect()
}

/// The names `nm` lists.
fn symbols(options: &[&str], file: &std::path::Path) -> BTreeSet<String> {
    let listed = run(Command::new("nm").args(options).arg(file));
    listed.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
}

#[test]
fn the_shared_library_exports_what_the_header_declares_and_nothing_else() {
    let exported = symbols(&["-D", "--defined-only"], &library_folder().join("libpisession.so"));
    assert!(exported.len() > 100);
    assert_eq!(exported, declared());
}

#[test]
fn the_static_library_exports_what_the_header_declares_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let shipped = folder.path().join("libpisession.a");
    run(Command::new(manifest().join("static-library.sh"))
        .arg(library_folder().join("libpisession.a"))
        .arg(manifest().join("symbols.txt"))
        .arg(&shipped));
    assert_eq!(symbols(&["-g", "--defined-only"], &shipped), declared());
}

#[test]
fn the_shared_library_has_its_soname_stays_loaded_and_needs_no_path() {
    let dynamic = run(Command::new("readelf").arg("-d").arg(library_folder().join("libpisession.so")));
    assert!(dynamic.contains("Library soname: [libpisession.so.0]"), "{dynamic}");
    assert!(dynamic.lines().any(|line| line.contains("FLAGS_1") && line.contains("NODELETE")), "{dynamic}");
    let needed: Vec<&str> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(!needed.is_empty() && needed.iter().all(|line| !line.contains('/')), "{dynamic}");
}
