//! The command line of pisession: look at, check and import agent sessions.
//!
//! It translates between a terminal and the core and decides nothing that another face would decide too.

#![forbid(unsafe_code)]

mod command;
mod failure;
mod output;
mod target;
mod transcript;

use std::process::ExitCode;

use clap::Parser as _;
use pisession::Context;

use crate::command::Arguments;
use crate::failure::Failure;
use crate::output::Output;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return failure::usage(&error),
    };
    let ctx = Context::new();
    let json = arguments.json();
    let mut out = Output::stdout(json);
    let done = cancel_on_interrupt(&ctx)
        .and_then(|()| command::run(&arguments, &mut out, &ctx))
        .and_then(|verdict| out.flush().map(|()| verdict));
    match done {
        Ok(verdict) => verdict.into(),
        // Whoever read the output has seen enough.
        Err(_) if out.reader_is_gone() => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

/// The first Ctrl-C ends the work at the next place where nothing is half done, the second one at once.
fn cancel_on_interrupt(ctx: &Context) -> Result<(), Failure> {
    let ctx = ctx.clone();
    ctrlc::set_handler(move || {
        if ctx.is_cancelled() {
            std::process::exit(failure::INTERRUPTED.into());
        }
        ctx.cancel();
    })
    .map_err(|error| {
        pisession::Error::new(pisession::ErrorKind::Io, format!("cannot listen for Ctrl-C: {error}")).into()
    })
}
