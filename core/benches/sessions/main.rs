//! What sessions cost, beside raw SQLite and raw files in the same run: one table with ratios and peak memory.
//!
//! Every measurement runs in a process of its own, so that its peak memory is its own. `cargo bench` runs
//! all; `cargo bench -- append` those whose name holds the word; `BENCH_SIZES=1000,100000` limits the sizes.
//! The sides of a case take turns in `BENCH_ROUNDS` rounds, 5 by default; what is printed is the median of the
//! rounds, of a ratio the median of each round's, of memory the most. Files are made under `BENCH_DIR`, by default the system's folder for temporary files: for numbers at
//! `power` it must be on a real disk.

mod cases;
mod data;
mod forks;
mod raw;

use std::process::Command;
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    match arguments.next().as_deref() {
        Some("--measure") => measure(&arguments.collect::<Vec<_>>()),
        word => table(word.unwrap_or_default()),
    }
}

fn all() -> impl Iterator<Item = &'static cases::Case> {
    cases::ALL.iter().chain(forks::ALL)
}

/// What one measurement prints: how long one operation took, and the process's peak memory.
#[derive(Debug, Clone, Copy)]
struct Measured {
    nanos: f64,
    peak_kib: u64,
}

/// What one side took, round by round.
struct Rounds(Vec<Measured>);

impl Rounds {
    fn nanos(&self) -> f64 {
        median(self.0.iter().map(|round| round.nanos).collect())
    }

    fn ratio_to(&self, other: &Self) -> f64 {
        median(self.0.iter().zip(&other.0).map(|(own, other)| own.nanos / other.nanos).collect())
    }

    fn peak_mib(&self) -> f64 {
        self.0.iter().map(|round| round.peak_kib).max().unwrap_or_default() as f64 / 1024.0
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// The child: runs one side of one case and prints what it took.
fn measure(arguments: &[String]) -> Result<(), Failure> {
    let [case, side, size] = arguments else { return Err("--measure CASE SIDE SIZE".into()) };
    let case = all().find(|known| known.name == case).ok_or("no such case")?;
    let run = case.sides.iter().find(|(name, _)| name == side).ok_or("no such side")?.1;
    let took = run(size.parse()?)?;
    println!("{} {}", took.as_nanos_per_operation(), peak_kib()?);
    Ok(())
}

/// A duration over a number of operations.
pub(crate) struct Took {
    total: Duration,
    operations: u64,
}

impl Took {
    pub(crate) fn new(total: Duration, operations: u64) -> Self {
        Self { total, operations }
    }

    fn as_nanos_per_operation(&self) -> f64 {
        self.total.as_nanos() as f64 / self.operations as f64
    }
}

/// The highest resident memory of this process so far.
fn peak_kib() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// The parent: runs every side of every case and prints the table.
fn table(word: &str) -> Result<(), Failure> {
    let sizes: Vec<u64> = match std::env::var("BENCH_SIZES") {
        Ok(sizes) => sizes.split(',').map(str::parse).collect::<Result<_, _>>()?,
        Err(_) => vec![1_000, 100_000, 1_000_000],
    };
    let rounds: usize = std::env::var("BENCH_ROUNDS").map_or(Ok(5), |rounds| rounds.parse())?;
    println!("{:<42} {:>9} {:>12} {:>9}  {:<52} aim", "case", "size", "took", "peak", "ratio");
    for case in all().filter(|case| case.name.contains(word)) {
        let largest = sizes.iter().max().copied().unwrap_or_default();
        let wanted = case
            .sizes
            .iter()
            .copied()
            .filter(|size| sizes.contains(size) || (case.fixed && *size <= largest));
        let mut smallest: Option<f64> = None;
        for size in wanted {
            let sides = run(case, size, rounds.max(1))?;
            let (_, ours) = &sides[0];
            let ratios: Vec<String> = sides[1..]
                .iter()
                .map(|(side, other)| format!("{:.2}x {side}", ours.ratio_to(other)))
                .chain(
                    smallest
                        .filter(|_| case.per_operation)
                        .map(|smallest| format!("{:.2}x smallest", ours.nanos() / smallest)),
                )
                .collect();
            println!(
                "{:<42} {size:>9} {:>12} {:>7.1}M  {:<52} {}",
                case.name,
                readable(ours.nanos()),
                ours.peak_mib(),
                ratios.join(", "),
                case.aim,
            );
            for (side, other) in &sides[1..] {
                println!(
                    "{:<42} {:>9} {:>12} {:>7.1}M",
                    format!("  {side}"),
                    "",
                    readable(other.nanos()),
                    other.peak_mib()
                );
            }
            smallest = smallest.or(Some(ours.nanos()));
        }
    }
    Ok(())
}

/// The sides of a case in turns, every other round the other way round: what else the machine does meets all.
fn run(case: &cases::Case, size: u64, rounds: usize) -> Result<Vec<(&'static str, Rounds)>, Failure> {
    let mut sides: Vec<_> = case.sides.iter().map(|(side, _)| (*side, Rounds(Vec::new()))).collect();
    for round in 0..rounds {
        for turn in 0..sides.len() {
            let turn = if round % 2 == 0 { turn } else { sides.len() - 1 - turn };
            let (side, taken) = &mut sides[turn];
            taken.0.push(child(case.name, side, size)?);
        }
    }
    Ok(sides)
}

fn child(case: &str, side: &str, size: u64) -> Result<Measured, Failure> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--measure", case, side, &size.to_string()])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{case}, {side}, {size}: the measurement failed").into());
    }
    let text = String::from_utf8(output.stdout)?;
    let (nanos, peak) = text.trim().split_once(' ').ok_or("the measurement printed nothing")?;
    Ok(Measured { nanos: nanos.parse()?, peak_kib: peak.parse()? })
}

fn readable(nanos: f64) -> String {
    match nanos {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} us", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}
