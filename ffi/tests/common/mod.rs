//! What the tests of the C library share: where things are, and the library itself.

#![allow(dead_code)] // each test uses a part of it

pub(crate) mod table;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of this crate.
pub(crate) fn manifest() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folder that holds `libpisession.so` and `libpisession.a`, built as the tests were.
///
/// Cargo does not build a C library for the tests of its own package, so it is asked to.
pub(crate) fn library_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--offline", "--package", "pisession-ffi", "--lib"]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        run(cargo.current_dir(manifest()));
        // The test is in <target>/<profile>/deps.
        let test = std::env::current_exe().unwrap();
        test.parent().unwrap().parent().unwrap().to_owned()
    })
}

/// What gcc is to complain about.
pub(crate) const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Wpedantic", "-Wstrict-prototypes", "-Werror"];

/// How a program is linked.
pub(crate) enum Link {
    Shared,
    Static,
}

/// The library as an installation has it: the shared one under its soname too, the static one made of it.
pub(crate) fn installed() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let built = library_folder();
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("library").join(profile);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::copy(built.join("libpisession.so"), folder.join("libpisession.so.0")).unwrap();
        symlink("libpisession.so.0", folder.join("libpisession.so")).unwrap();
        run(Command::new(manifest().join("static-library.sh"))
            .arg(built.join("libpisession.a"))
            .arg(manifest().join("symbols.txt"))
            .arg(folder.join("libpisession.a")));
        folder
    })
}

/// Compiles and links a program into `folder`, which is the calling test's own. It is called as its first source.
pub(crate) fn compile(sources: &[PathBuf], link: Link, folder: &Path) -> PathBuf {
    compile_with(sources, link, &[], folder)
}

/// [`compile`] with more options for the compiler, which stand behind the library.
pub(crate) fn compile_with(sources: &[PathBuf], link: Link, options: &[&str], folder: &Path) -> PathBuf {
    let program = folder.join(sources[0].file_stem().unwrap());
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-g", "-pthread"]).args(WARNINGS);
    gcc.arg("-I")
        .arg(manifest().join("../include"))
        .arg("-I")
        .arg(folder)
        .args(sources)
        .arg("-o")
        .arg(&program);
    match link {
        Link::Shared => gcc
            .arg("-L")
            .arg(installed())
            .arg("-lpisession")
            .arg(format!("-Wl,-rpath,{}", installed().display())),
        Link::Static => gcc.arg(installed().join("libpisession.a")).args([
            "-Wl,--gc-sections",
            "-lgcc_s",
            "-lutil",
            "-lrt",
            "-lpthread",
            "-lm",
            "-ldl",
            "-lc",
        ]),
    };
    run(gcc.args(options));
    program
}

/// Says that something was not tried, past the capture of the test harness and on a line of its own: `tests/run`
/// shows and counts it.
pub(crate) fn skipped(what: &str) {
    let mut screen = std::io::stderr();
    writeln!(screen, "\nSKIPPED: {what}").unwrap();
}

/// Runs a program; its output. Panics with all it said if it fails.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// Whether a program is there.
pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The functions a header declares.
pub(crate) fn header_functions(header: &str) -> Vec<String> {
    let mut functions = Vec::new();
    let mut in_comment = false;
    for line in header.lines() {
        in_comment |= line.trim_start().starts_with("/*");
        if !in_comment
            && !line.starts_with([' ', '#', '}'])
            && !line.starts_with("typedef")
            && let Some((before, _)) = line.split_once('(')
            && let Some(name) = before.rsplit([' ', '*']).next()
        {
            functions.push(name.to_owned());
        }
        in_comment &= !line.contains("*/");
    }
    functions
}
