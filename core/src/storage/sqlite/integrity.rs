//! What SQLite itself says of a database file: whether its pages, trees and indexes are sound.

use super::database::Database;
use crate::context::Context;
use crate::error::Result;
use crate::session::check::{CheckDepth, Finding, FindingKind};

/// How many steps of SQLite's machine lie between two looks at the context.
const STEPS: i32 = 4000;

/// Looks the file over, on a connection of its own that only reads.
pub(super) fn check(database: &Database, depth: CheckDepth, ctx: &Context) -> Result<Vec<Finding>> {
    // The quick check takes each page and tree for itself; the whole one also holds indexes against tables.
    let sql = match depth {
        CheckDepth::Brief => return Ok(Vec::new()),
        CheckDepth::Quick => "PRAGMA quick_check",
        CheckDepth::Full => "PRAGMA integrity_check",
    };
    database.read_apart(ctx, |connection| {
        let watched = ctx.clone();
        let interrupt = move || watched.check().is_err();
        let set = connection.sql_mut().progress_handler(STEPS, Some(interrupt));
        set.map_err(|error| connection.fault("watch over a check of the database", error))?;
        let said = connection.all(sql, [], ctx, |row| row.get::<_, String>(0));
        // Whatever an interrupted check says, the context says why.
        ctx.check()?;
        Ok(said?.iter().filter(|line| *line != "ok").map(|line| damage(line)).collect())
    })
}

fn damage(line: &str) -> Finding {
    // SQLite ends some lines with a line end and begins some with the name of the database.
    let line = line.trim().trim_start_matches("*** in database main ***").trim();
    Finding::of_file(FindingKind::DamagedFile, format!("the database file: {line}")).with_hint(
        "copy the file first; then make a new session of what can be read (pisession repair), or use a backup",
    )
}
