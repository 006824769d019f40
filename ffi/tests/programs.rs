//! The C programs of `tests/c` and the examples of `examples/c`, compiled against the committed header, linked
//! with the shared and with the static library, run on every kind of repository, and on some under valgrind and with
//! the address sanitizer.

#![allow(clippy::unwrap_used, clippy::panic)] // the helpers are tests too

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Link, WARNINGS, compile, compile_with, header_functions, is_installed, manifest, run, skipped};

/// What a program is run on: a kind of repository, empty each time.
fn repositories(folder: &Path) -> Vec<String> {
    let places = ["jsonl:{}/lines", "sqlite:{}/sessions", "sqlite:{}/all.sqlite"];
    let files = places.map(|place| place.replace("{}", &folder.display().to_string()));
    ["memory:".to_owned()].into_iter().chain(files).collect()
}

const PROGRAMS: [&str; 15] = [
    "basic", "care", "check", "errors", "files", "fork", "forks", "handles", "log", "mutation", "orphan",
    "panic", "places", "query", "threads",
];

fn test_program(name: &str) -> PathBuf {
    manifest().join("../tests/c").join(format!("{name}.c"))
}

/// Runs `program` on every kind of repository. It must print nothing.
fn run_on_every_repository(program: &Path) {
    let kinds = repositories(Path::new("")).len();
    run_on(&(0..kinds).collect::<Vec<_>>(), program, &[]);
}

/// Runs `program` on some kinds of repositories, started by `launcher`. It must print nothing.
fn run_on(kinds: &[usize], program: &Path, launcher: &[&str]) {
    for kind in kinds {
        let folder = tempfile::tempdir().unwrap();
        let uri = repositories(folder.path()).swap_remove(*kind);
        let mut command = match launcher {
            [] => Command::new(program),
            [tool, options @ ..] => {
                let mut command = Command::new(tool);
                command.args(options).arg(program);
                command
            }
        };
        let output = command.arg(&uri).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {uri}: {}\n{said}", program.display(), output.status);
        assert!(said.is_empty() && output.stdout.is_empty(), "{} {uri} printed:\n{said}", program.display());
    }
}

#[test]
fn every_program_in_the_folder_is_run() {
    let mut found: Vec<String> = fs::read_dir(manifest().join("../tests/c"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "c"))
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort();
    assert_eq!(found, PROGRAMS);
}

#[test]
fn every_exported_function_is_called_by_some_program() {
    let mut calls = String::new();
    for folder in ["../tests/c", "../tests/conformance"] {
        let sources = fs::read_dir(manifest().join(folder)).unwrap().map(|file| file.unwrap().path());
        for source in sources.filter(|file| file.extension().is_some_and(|extension| extension == "c")) {
            // The preprocessor leaves no comment and writes macros out.
            let mut preprocess = Command::new("gcc");
            preprocess.args(["-E", "-P", "-I"]).arg(manifest().join("../include")).arg(&source);
            calls.push_str(&without_declarations(&run(&mut preprocess)));
        }
    }
    let header = fs::read_to_string(manifest().join("../include/pisession.h")).unwrap();
    let is_called = |function: &String| {
        let call = format!("{function}(");
        let starts =
            |at: usize| !calls[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        calls.match_indices(&call).any(|(at, _)| starts(at))
    };
    let uncalled: Vec<String> =
        header_functions(&header).into_iter().filter(|function| !is_called(function)).collect();
    assert!(uncalled.is_empty(), "no C program calls {uncalled:?}");
}

/// What follows the last declaration of the header in a source that the preprocessor wrote out.
fn without_declarations(source: &str) -> String {
    let header = fs::read_to_string(manifest().join("../include/pisession.h")).unwrap();
    let last = header_functions(&header).pop().unwrap();
    let Some((_, rest)) = source.split_once(&format!("{last}(")) else { return source.to_owned() };
    rest.split_once(");").unwrap().1.to_owned()
}

#[test]
fn programs_run_with_the_shared_library() {
    let folder = tempfile::tempdir().unwrap();
    for name in PROGRAMS {
        run_on_every_repository(&compile(&[test_program(name)], Link::Shared, folder.path()));
    }
}

#[test]
fn programs_run_with_the_static_library() {
    let folder = tempfile::tempdir().unwrap();
    for name in PROGRAMS {
        run_on_every_repository(&compile(&[test_program(name)], Link::Static, folder.path()));
    }
}

/// The programs whose memory is looked at at their end: a forked child has lost what the parent's other thread
/// held, a killed one everything, and that is right.
fn programs_that_end() -> impl Iterator<Item = &'static str> {
    PROGRAMS.into_iter().filter(|name| !["fork", "orphan"].contains(name))
}

/// Looks at the library's own accesses too, and is slow: one kind of repository; others are left to the address
/// sanitizer.
#[test]
fn programs_run_under_valgrind_without_a_finding() {
    if !is_installed("valgrind") {
        return skipped("the C programs under valgrind, which is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    // "Possibly lost" is what std keeps for the main thread through a pointer into the middle of a block.
    let launcher = [
        "valgrind",
        "-q",
        "--fair-sched=yes",
        "--errors-for-leak-kinds=definite,indirect",
        "--leak-check=full",
        "--show-leak-kinds=definite,indirect",
        "--error-exitcode=9",
    ];
    for name in programs_that_end() {
        let program = compile(&[test_program(name)], Link::Shared, folder.path());
        let kind = if name == "handles" { 1 } else { 3 };
        run_on(&[kind], &program, &launcher);
    }
}

/// The options that compile a program with the sanitizers for addresses and leaks.
const SANITIZED: [&str; 2] = ["-fsanitize=address", "-fno-omit-frame-pointer"];

/// Whether programs can be made and run with the sanitizers here.
fn has_sanitizers(folder: &Path) -> bool {
    let source = folder.join("sanitized.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let program = folder.join("sanitized");
    let made = Command::new("gcc").args(SANITIZED).arg(&source).arg("-o").arg(&program).output().unwrap();
    made.status.success() && Command::new(&program).output().unwrap().status.success()
}

#[test]
fn programs_run_with_the_address_sanitizer_without_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    if !has_sanitizers(folder.path()) {
        return skipped("the C programs with the address sanitizer, which gcc does not have here");
    }
    for name in programs_that_end() {
        let program = compile_with(&[test_program(name)], Link::Shared, &SANITIZED, folder.path());
        run_on(&[1, 2], &program, &[]);
    }
}

#[test]
fn the_address_sanitizer_finds_what_was_planted() {
    let folder = tempfile::tempdir().unwrap();
    if !has_sanitizers(folder.path()) {
        return skipped("planted defects with the address sanitizer, which gcc does not have here");
    }
    let planted = [
        ("leak", "LeakSanitizer: detected memory leaks"),
        ("overflow", "AddressSanitizer: heap-buffer-overflow"),
        ("late", "AddressSanitizer: heap-use-after-free"),
    ];
    for (name, finding) in planted {
        let source = manifest().join("../tests/c/planted").join(format!("{name}.c"));
        let output =
            Command::new(compile_with(&[source], Link::Shared, &SANITIZED, folder.path())).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(finding), "{name}: {}\n{said}", output.status);
    }
}

#[test]
fn a_program_may_have_a_sqlite_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("own.c");
    fs::write(&source, "#include <sqlite3.h>\nint main(void) { return sqlite3_libversion_number() == 0; }\n")
        .unwrap();
    for own in ["-lsqlite3", "-l:libsqlite3.a"] {
        let mut gcc = Command::new("gcc");
        gcc.arg(&source).args(["-o", "/dev/null", own, "-lm", "-lpthread", "-ldl"]);
        if !gcc.output().unwrap().status.success() {
            skipped(&format!("a program with {own}, which is not installed (libsqlite3-dev)"));
            continue;
        }
        for link in [Link::Shared, Link::Static] {
            let beside = manifest().join("../tests/c/sqlite/beside.c");
            let program = compile_with(&[beside], link, &[own, "-lm", "-ldl"], folder.path());
            run_on(&[2], &program, &[]);
        }
    }
}

#[test]
fn the_header_compiles_as_every_c_and_cpp_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("use.c");
    fs::write(&source, "#include \"pisession.h\"\nint main(void) { return pi_abi_version() != 0; }\n")
        .unwrap();
    let standards = ["c99", "c11", "c17", "c2x"].map(|standard| ("gcc", "c", standard));
    let plus = ["c++11", "c++17", "c++20"].map(|standard| ("g++", "c++", standard));
    for (compiler, language, standard) in standards.into_iter().chain(plus) {
        let warnings = WARNINGS.iter().filter(|warning| language == "c" || !warning.contains("strict-proto"));
        run(Command::new(compiler)
            .args(["-x", language, &format!("-std={standard}")])
            .args(warnings)
            .arg("-I")
            .arg(manifest().join("../include"))
            .arg("-c")
            .arg(&source)
            .args(["-o", "/dev/null"]));
    }
}

#[test]
fn the_notebook_takes_its_turns() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(&[manifest().join("../examples/c/notebook.c")], Link::Shared, folder.path());
    for uri in repositories(folder.path()) {
        let said = run(Command::new(&program).args([&uri, "shared", "3"]));
        for turn in 1..=3 {
            assert!(said.contains(&format!("turn {turn}")), "{uri}:\n{said}");
        }
    }
}

#[test]
fn the_program_of_the_readme_compiles_and_runs() {
    let readme = fs::read_to_string(manifest().join("README.md")).unwrap();
    let programs: Vec<&str> = readme
        .split("```c\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(code, _)| code)
        .collect();
    assert_eq!(programs.len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("readme.c");
    fs::write(&source, programs[0]).unwrap();
    let said = run(&mut Command::new(compile(&[source], Link::Shared, folder.path())));
    assert!(said.contains(r#"{"message":{"role":"user","content":"hello"}}"#), "{said}");
}
