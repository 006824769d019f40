//! What the C library costs over the core, and how large it is: the calls of `overhead.c`, made from a C program
//! through the shared library and here on the core itself. Both work on a session in memory, so that what is measured
//! is the way in and out.

use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;

use pisession::{Address, BranchScan, Context, Json, SessionReader, open_repository};

const OPERATIONS: u32 = 20_000;
/// Sides take turns, and of each the fastest round counts.
const ROUNDS: usize = 7;
const CALLS: [&str; 3] = ["append a message", "get a value", "find the newest entry"];
const MESSAGE: &str = r#"{"role":"user","content":"what a message is like, more or less"}"#;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    // The bench is in <target>/<profile>/deps.
    let bench = std::env::current_exe()?;
    let built = bench.parent().and_then(Path::parent).ok_or("the bench is in no folder")?;
    run(Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--offline", "--lib"])
        .current_dir(env!("CARGO_MANIFEST_DIR")))?;
    let folder = tempfile::tempdir()?;
    let program = compile(built, folder.path())?;

    let (mut core, mut c) = ([f64::MAX; 3], [f64::MAX; 3]);
    for _ in 0..ROUNDS {
        keep_fastest(&mut core, through_core()?);
        keep_fastest(&mut c, through_c(&program, folder.path())?);
    }
    println!("{:<24} {:>9} {:>9} {:>9}", "ns", "core", "C", "over");
    for (call, (core, c)) in CALLS.iter().zip(core.into_iter().zip(c)) {
        println!("{call:<24} {core:>9.0} {c:>9.0} {:>9.0}", c - core);
    }

    let stripped = folder.path().join("stripped.so");
    run(Command::new("strip").arg(built.join("libpisession.so")).arg("-o").arg(&stripped))?;
    println!("libpisession.so, stripped: {:.2} MB", std::fs::metadata(stripped)?.len() as f64 / 1e6);
    Ok(())
}

fn keep_fastest(fastest: &mut [f64; 3], round: [f64; 3]) {
    for (fastest, took) in fastest.iter_mut().zip(round) {
        *fastest = fastest.min(took);
    }
}

/// The calls on the core.
fn through_core() -> Result<[f64; 3], Failure> {
    let ctx = Context::background();
    let repository = open_repository("memory:", Default::default())?;
    let session = repository.create(&Default::default(), &ctx)?;
    let branch = session.create_branch("main", None, &ctx)?;
    session.set_value(&Address::new("app", "key")?, &Json::parse(r#"{"step":1}"#)?, &ctx)?;
    // Texts are parsed on the way through C, too.
    let append = per_call(|| Ok(branch.append_message(&Json::parse(MESSAGE)?, &ctx)?))?;
    let value = per_call(|| Ok(session.get_value(&Address::new("app", "key")?, &ctx)?))?;
    let scan = BranchScan { limit: Some(1), ..BranchScan::default() };
    let newest = per_call(|| Ok(branch.find_entries(&scan, &ctx)?))?;
    Ok([append, value, newest])
}

fn per_call<T>(mut call: impl FnMut() -> Result<T, Failure>) -> Result<f64, Failure> {
    let begun = worked()?;
    for _ in 0..OPERATIONS {
        black_box(call()?);
    }
    Ok((worked()? - begun) / f64::from(OPERATIONS))
}

/// The time this thread has worked, in ns: what else the machine does is not in it.
fn worked() -> Result<f64, Failure> {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(said.split_whitespace().next().ok_or("no schedstat")?.parse()?)
}

/// The same calls through the C library.
fn through_c(program: &Path, library: &Path) -> Result<[f64; 3], Failure> {
    let said = run(Command::new(program).arg(OPERATIONS.to_string()).env("LD_LIBRARY_PATH", library))?;
    let numbers: Vec<f64> = said.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    numbers.try_into().map_err(|numbers| format!("the program printed {numbers:?}").into())
}

/// Compiles the C program; the library is put beside it under its name.
fn compile(built: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    std::fs::copy(built.join("libpisession.so"), folder.join("libpisession.so.0"))?;
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("overhead");
    run(Command::new("gcc")
        .args(["-O2", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror"])
        .arg("-I")
        .arg(manifest.join("../include"))
        .arg(manifest.join("benches/overhead.c"))
        .arg(folder.join("libpisession.so.0"))
        .arg("-o")
        .arg(&program))?;
    Ok(program)
}

/// Runs a program that must succeed; what it printed.
fn run(command: &mut Command) -> Result<String, Failure> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
