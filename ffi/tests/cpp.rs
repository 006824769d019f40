//! `pisession.hpp`, the programs of `tests/cpp` and the examples in C++ and C: compiled as every C++ from 17 on with
//! all warnings, linked with the shared and with the static library, run on every kind of repository, and once under
//! valgrind.

#![allow(clippy::unwrap_used, clippy::panic)] // the helpers are tests too

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{Link, compile, header_functions, installed, is_installed, manifest, run};

/// The programs of `tests/cpp`, each with its sources.
const PROGRAMS: [(&str, &[&str]); 8] = [
    ("care", &["care.cpp"]),
    ("errors", &["errors.cpp"]),
    ("files", &["files.cpp"]),
    ("lifetime", &["lifetime.cpp", "lifetime_other.cpp"]),
    ("mutation", &["mutation.cpp"]),
    ("places", &["places.cpp"]),
    ("query", &["query.cpp"]),
    ("session", &["session.cpp"]),
];

/// What g++ is to complain about.
const WARNINGS: [&str; 7] =
    ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"];

/// What the classes of C++ do otherwise, or leave to C.
const NOT_WRAPPED: [&str; 6] = [
    "pi_abi_version",
    "pi_debug_live_handles",
    "pi_debug_panic",
    "pi_error_code",   // the call has returned it
    "pi_session_open", // Repository::open is pi_session_open_with
    "pi_version_number",
];

fn source(name: &str) -> PathBuf {
    manifest().join("../tests/cpp").join(name)
}

fn gpp(standard: &str) -> Command {
    let mut gpp = Command::new("g++");
    gpp.arg(format!("-std={standard}")).args(["-g", "-pthread", "-D_GLIBCXX_ASSERTIONS"]).args(WARNINGS);
    gpp.arg("-I").arg(manifest().join("../include"));
    gpp
}

/// Compiles and links a program into `folder`.
fn compile_cpp(name: &str, sources: &[PathBuf], standard: &str, link: Link, folder: &Path) -> PathBuf {
    let program = folder.join(name);
    let mut gpp = gpp(standard);
    gpp.args(sources).arg("-o").arg(&program);
    match link {
        Link::Shared => gpp
            .arg("-L")
            .arg(installed())
            .arg("-lpisession")
            .arg(format!("-Wl,-rpath,{}", installed().display())),
        Link::Static => gpp.arg(installed().join("libpisession.a")).args([
            "-Wl,--gc-sections",
            "-lgcc_s",
            "-lpthread",
            "-lm",
            "-ldl",
        ]),
    };
    run(&mut gpp);
    program
}

fn compile_program((name, files): (&str, &[&str]), standard: &str, link: Link, folder: &Path) -> PathBuf {
    let sources: Vec<PathBuf> = files.iter().map(|file| source(file)).collect();
    compile_cpp(name, &sources, standard, link, folder)
}

/// The programs as C++17 with the shared library; compiled once.
fn shared_programs() -> &'static [PathBuf] {
    static COMPILED: OnceLock<Vec<PathBuf>> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cpp");
        fs::create_dir_all(&folder).unwrap();
        PROGRAMS.map(|program| compile_program(program, "c++17", Link::Shared, &folder)).to_vec()
    })
}

/// An empty repository of each kind, in `folder`.
fn repositories(folder: &Path) -> Vec<String> {
    let places = ["jsonl:{}/lines", "sqlite:{}/sessions", "sqlite:{}/all.sqlite"];
    let files = places.map(|place| place.replace("{}", &folder.display().to_string()));
    ["memory:".to_owned()].into_iter().chain(files).collect()
}

/// Runs `program` on the repository at `uri`, behind `launcher`. It must print nothing.
fn run_silently(launcher: &[&str], program: &Path, uri: &str) {
    let words: Vec<&str> = launcher.iter().copied().chain([program.to_str().unwrap(), uri]).collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {uri}: {}\n{said}", program.display(), output.status);
    assert!(said.is_empty() && output.stdout.is_empty(), "{} {uri} printed:\n{said}", program.display());
}

/// Runs `program` on every kind of repository.
fn run_on_every_repository(program: &Path) {
    let folder = tempfile::tempdir().unwrap();
    for uri in repositories(folder.path()) {
        run_silently(&[], program, &uri);
    }
}

#[test]
fn every_source_in_the_folder_belongs_to_a_program() {
    let found: BTreeSet<String> = fs::read_dir(source(""))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".cpp"))
        .collect();
    let known = PROGRAMS.iter().flat_map(|(_, files)| *files).map(|&file| file.to_owned()).collect();
    assert_eq!(found, known);
}

#[test]
fn every_function_of_c_has_its_place_in_cpp() {
    let include = manifest().join("../include");
    let header = fs::read_to_string(include.join("pisession.h")).unwrap();
    let classes = fs::read_to_string(include.join("pisession.hpp")).unwrap();
    let words: BTreeSet<&str> = classes.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let missing: Vec<String> = header_functions(&header)
        .into_iter()
        .filter(|function| !words.contains(function.as_str()) && !NOT_WRAPPED.contains(&function.as_str()))
        .collect();
    assert!(missing.is_empty(), "pisession.hpp has nothing for {missing:?}");
}

/// The structs of the header, each with its fields.
fn header_structs(header: &str) -> Vec<(&str, Vec<&str>)> {
    let bodies = header.split("typedef struct ").skip(1).filter_map(|rest| rest.split_once(" {\n"));
    bodies
        .filter(|(name, _)| !name.contains(';'))
        .map(|(name, rest)| {
            let body = rest.split("\n}").next().unwrap();
            let fields = body.lines().filter_map(|line| line.strip_suffix(';')?.rsplit([' ', '*']).next());
            (name, fields.collect())
        })
        .collect()
}

#[test]
fn every_field_of_c_has_its_place_in_cpp() {
    let include = manifest().join("../include");
    let header = fs::read_to_string(include.join("pisession.h")).unwrap();
    let classes = fs::read_to_string(include.join("pisession.hpp")).unwrap();
    let ended = classes.replace("\n    }", "\n}");
    let functions: Vec<BTreeSet<&str>> = ended
        .split("\n}")
        .map(|function| function.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').collect())
        .collect();
    let structs = header_structs(&header);
    assert!(structs.len() > 30, "found {} structs", structs.len());
    for (name, fields) in structs {
        assert!(!fields.is_empty(), "found no field of {name}");
        for field in fields {
            // The first is set by C, the others by one function for all.
            if ["struct_size", "progress", "user_data"].contains(&field) {
                continue;
            }
            let uses =
                |words: &BTreeSet<&str>| words.contains(name) && words.contains(&*format!("raw.{field}"));
            assert!(functions.iter().any(uses), "pisession.hpp has nothing for {field} of {name}");
        }
    }
}

#[test]
fn every_kind_of_error_has_its_name_in_cpp() {
    let include = manifest().join("../include");
    let classes = fs::read_to_string(include.join("pisession.hpp")).unwrap();
    let header = fs::read_to_string(include.join("pisession.h")).unwrap();
    let numbers = header.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once(" -"));
    let mut count = 0;
    for (name, _) in numbers {
        count += 1;
        assert!(classes.contains(&format!(" = {name},")), "pisession.hpp has no kind for {name}");
    }
    assert!(count > 40, "found {count} kinds");
}

#[test]
fn the_header_compiles_as_every_cpp_from_17_on_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("alone.cpp");
    // Functions of a header that nobody calls are compiled too.
    fs::write(&alone, "#include <pisession.hpp>\n#include <pisession.hpp>\n").unwrap();
    for standard in ["c++17", "c++20", "c++23"] {
        let more = ["-Wold-style-cast", "-Wnon-virtual-dtor", "-Wextra-semi", "-fsyntax-only"];
        run(gpp(standard).args(more).arg(&alone));
    }
}

#[test]
fn programs_run_with_the_shared_library() {
    for program in shared_programs() {
        run_on_every_repository(program);
    }
}

#[test]
fn programs_run_with_the_static_library() {
    let folder = tempfile::tempdir().unwrap();
    for program in PROGRAMS {
        run_on_every_repository(&compile_program(program, "c++20", Link::Static, folder.path()));
    }
}

#[test]
fn programs_run_under_valgrind_without_a_finding() {
    if !is_installed("valgrind") {
        // Past the capture of the test harness, on a line of its own: `tests/run` shows and counts it.
        writeln!(std::io::stderr(), "\nSKIPPED: the C++ programs under valgrind, which is not installed")
            .unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let launcher = [
        "valgrind",
        "-q",
        "--fair-sched=yes",
        "--leak-check=full",
        "--show-leak-kinds=definite,indirect",
        "--errors-for-leak-kinds=definite,indirect",
        "--error-exitcode=9",
    ];
    for (index, program) in shared_programs().iter().enumerate() {
        run_silently(&launcher, program, &format!("sqlite:{}/{index}", folder.path().display()));
    }
}

#[test]
fn two_agents_share_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let sources = [manifest().join("../examples/cpp/two_agents.cpp")];
    let program = compile_cpp("two_agents", &sources, "c++17", Link::Shared, folder.path());
    for uri in repositories(folder.path()) {
        let said = run(Command::new(&program).args([&uri, "5"]));
        assert!(said.contains("fast, turn 5,") && said.contains("careful, turn 10,"), "{uri}:\n{said}");
        assert!(said.contains("turns: 15, tokens: "), "{uri}:\n{said}");
    }
}

#[test]
fn the_viewer_shows_sessions_their_tree_and_a_branch() {
    let folder = tempfile::tempdir().unwrap();
    let sources = [manifest().join("../examples/cpp/two_agents.cpp")];
    let agents = compile_cpp("two_agents", &sources, "c++17", Link::Shared, folder.path());
    let viewer = compile(&[manifest().join("../examples/c/viewer.c")], Link::Shared, folder.path());
    // What is in memory is seen by its own process only.
    for uri in repositories(folder.path()).into_iter().skip(1) {
        run(Command::new(&agents).args([&uri, "2"]));
        let listed = run(Command::new(&viewer).arg(&uri));
        assert!(listed.contains(", 7 messages"), "{uri}:\n{listed}");
        let id = listed.split_whitespace().next().unwrap();
        let overview = run(Command::new(&viewer).args([&uri, id]));
        for line in ["branch careful at ", "branch main at ", "7 messages, ", "tokens ("] {
            assert!(overview.contains(line), "{uri}:\n{overview}");
        }
        // The three branches meet in the root, which is the last entry.
        assert_eq!(overview.matches("* ").count(), 7, "{overview}");
        assert_eq!(overview.matches('/').count(), 1, "{overview}");
        let branch = run(Command::new(&viewer).args([&uri, id, "fast"]));
        assert_eq!(branch.matches("-- message\n").count(), 3, "{branch}");
        assert!(branch.contains("fast, turn 2,"), "{branch}");
        let refused = Command::new(&viewer).args([&uri, id, "nobody"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
    }
}
