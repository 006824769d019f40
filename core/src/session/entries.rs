//! Entries one by one, read in pages: no read transaction stays open in a host's loop.

use std::collections::VecDeque;

use crate::context::Context;
use crate::error::Result;
use crate::model::entry::{Entry, EntryType};
use crate::process::Process;
use crate::session::reader::{SessionReader, sealed::Source};
use crate::session::{EntryQuery, Session};
use crate::storage::query::{BranchScan, PathOrder};

/// How many entries a page has.
const PAGE: u64 = 256;

/// An iterator over entries. After an error it ends; in a forked child every step is one.
#[derive(Debug)]
pub struct Entries {
    session: Session,
    ctx: Context,
    rest: Rest,
    page: VecDeque<Entry>,
    left: Option<u64>,
    process: Process,
}

/// What is still to be read.
#[derive(Debug)]
enum Rest {
    Session(EntryQuery),
    Path(String, BranchScan),
    Nothing,
}

impl Entries {
    pub(crate) fn of_session(session: Session, query: EntryQuery, ctx: Context) -> Self {
        Self::new(session, ctx, query.limit, Rest::Session(query))
    }

    pub(crate) fn of_path(session: Session, start: Option<String>, scan: BranchScan, ctx: Context) -> Self {
        let rest = start.map_or(Rest::Nothing, |start| Rest::Path(start, scan.clone()));
        Self::new(session, ctx, scan.limit, rest)
    }

    fn new(session: Session, ctx: Context, left: Option<u64>, rest: Rest) -> Self {
        Self { session, ctx, rest, page: VecDeque::new(), left, process: Process::current() }
    }

    fn next_page(&mut self) -> Result<()> {
        let wanted = self.left.map_or(PAGE, |left| left.min(PAGE));
        let page = match std::mem::replace(&mut self.rest, Rest::Nothing) {
            Rest::Nothing => return Ok(()),
            Rest::Session(query) => {
                let page = self
                    .session
                    .find_entries(&EntryQuery { limit: Some(wanted), ..query.clone() }, &self.ctx)?;
                if page.len() as u64 == wanted
                    && let Some(last) = page.last()
                {
                    self.rest = Rest::Session(EntryQuery { cursor: Some(last.seq), ..query });
                }
                page
            }
            Rest::Path(start, mut scan) => {
                self.find_stop(&start, &mut scan)?;
                let page = self.session.scan_branch(
                    &start,
                    &BranchScan { limit: Some(wanted), ..scan.clone() },
                    &self.ctx,
                )?;
                if page.len() as u64 == wanted
                    && let Some(last) = page.last()
                {
                    self.rest = rest_of_path(start, scan, last);
                }
                page
            }
        };
        self.left = self.left.map(|left| left.saturating_sub(page.len() as u64));
        self.page = page.into();
        Ok(())
    }

    /// From the root, a stop type is looked for once and then stands for the entry found: pages then begin
    /// at their cursor and not at the root.
    fn find_stop(&self, start: &str, scan: &mut BranchScan) -> Result<()> {
        if scan.order == PathOrder::OldestFirst
            && let Some(stop_type) = scan.stop_at_type.take()
        {
            let first = BranchScan {
                order: PathOrder::OldestFirst,
                stop_at_id: scan.stop_at_id.clone(),
                entry_type: Some(stop_type),
                limit: Some(1),
                ..BranchScan::default()
            };
            if let Some(stop) = self.session.reads()?.scan_branch_structure(start, &first, &self.ctx)?.pop() {
                scan.stop_at_id = Some(stop.id);
            }
        }
        Ok(())
    }
}

fn rest_of_path(start: String, scan: BranchScan, last: &Entry) -> Rest {
    let is_stop = |stop: Option<EntryType>| stop == Some(last.entry_type);
    if is_stop(scan.stop_at_type) || scan.stop_at_id.as_deref() == Some(last.id.as_str()) {
        return Rest::Nothing;
    }
    match (scan.order, &last.parent_id) {
        // Nothing stopped the walk down to `last`, so it may go on from there.
        (PathOrder::NewestFirst, Some(parent)) => {
            Rest::Path(parent.clone(), BranchScan { cursor: None, ..scan })
        }
        (PathOrder::NewestFirst, None) => Rest::Nothing,
        (PathOrder::OldestFirst, _) => Rest::Path(start, BranchScan { cursor: Some(last.seq), ..scan }),
    }
}

impl Iterator for Entries {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        // What was read before a fork is not given out in the child either.
        if let Err(error) = self.process.check() {
            return Some(Err(error));
        }
        if self.page.is_empty()
            && self.left != Some(0)
            && let Err(error) = self.next_page()
        {
            self.rest = Rest::Nothing;
            return Some(Err(error));
        }
        self.page.pop_front().map(Ok)
    }
}
