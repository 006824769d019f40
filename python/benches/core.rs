//! What the core takes for the operations that `overhead.py` measures through Python: one line each, with the
//! processor time of an operation in nanoseconds.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use pisession::{
    Address, BranchScan, Context, CreateOptions, Durability, Json, ListRead, RepositoryOptions,
    SessionReader as _, open_repository,
};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(message), Some(rounds)) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("core-cost FOLDER MESSAGE ROUNDS; overhead.py runs it".into());
    };
    let rounds: u32 = rounds.parse()?;
    for kind in ["memory", "jsonl", "sqlite"] {
        measure(kind, Path::new(&folder), &message, rounds)?;
    }
    Ok(())
}

fn measure(kind: &str, folder: &Path, message: &str, rounds: u32) -> Result<(), Failure> {
    let ctx = Context::background();
    let uri = match kind {
        "memory" => "memory:".to_owned(),
        _ => format!("{kind}:{}", folder.join(kind).display()),
    };
    let options = RepositoryOptions { durability: Durability::Process, ..RepositoryOptions::default() };
    let repository = open_repository(&uri, options)?;
    let session = repository.create(&CreateOptions::default(), &ctx)?;
    let main = session.create_branch("main", None, &ctx)?;
    let report = |what: &str, nanos: f64| println!("{kind} {what} {nanos:.0}");

    // The text is looked at as what a caller hands in is.
    report("append_message", per_round(rounds, || Ok(main.append_message(&Json::parse(message)?, &ctx)?))?);
    let address = Address::new("app", "counter")?;
    session.set_value(&address, &Json::parse("1")?, &ctx)?;
    report("get_value", per_round(rounds, || Ok(session.get_value(&address, &ctx)?))?);
    let list = Address::new("app", "list")?;
    session.append_list(&list, &Json::parse("1")?, &ctx)?;
    report("read_list", per_round(rounds, || Ok(session.read_list(&list, &ListRead::default(), &ctx)?))?);
    let tip = main.tip_id(&ctx)?.ok_or("no tip")?;
    report("get_entry", per_round(rounds, || Ok(session.get_entry(&tip, &ctx)?))?);
    let one = BranchScan { limit: Some(1), ..BranchScan::default() };
    report("find_entry", per_round(rounds, || Ok(main.find_entries(&one, &ctx)?))?);
    let many = BranchScan { limit: Some(50), ..BranchScan::default() };
    report("find_50_entries", per_round(rounds / 10, || Ok(main.find_entries(&many, &ctx)?))?);
    report("stats", per_round(rounds, || Ok(session.stats(&ctx)?))?);
    report("tip_id", per_round(rounds, || Ok(main.tip_id(&ctx)?))?);
    repository.close(&ctx)?;
    Ok(())
}

/// The processor time of this thread that a round takes, in nanoseconds; the best of ten tries.
fn per_round<T>(rounds: u32, mut round: impl FnMut() -> Result<T, Failure>) -> Result<f64, Failure> {
    let mut best = f64::INFINITY;
    for _ in 0..10 {
        let before = processor_time()?;
        for _ in 0..rounds {
            black_box(round()?);
        }
        best = best.min((processor_time()? - before).as_nanos() as f64 / f64::from(rounds));
    }
    Ok(best)
}

fn processor_time() -> Result<Duration, Failure> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}
