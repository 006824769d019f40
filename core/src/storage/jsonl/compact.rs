//! Snapshot compaction: the file again, with what is alive and nothing else.

use std::collections::HashMap;
use std::fs::{self, File};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::folder::sync_name;
use crate::model::json::push_quoted;
use crate::model::value::Address;
use crate::repository::file_name::{DRAFT, with_ending};
use crate::storage::commit::MAX_SEQ;
use crate::storage::jsonl::header::Header;
use crate::storage::jsonl::line::Span;
use crate::storage::jsonl::lines::Lines;
use crate::storage::jsonl::spans::Spans;
use crate::storage::jsonl::state::State;
use crate::storage::jsonl::{Current, Identity, JsonlStorage};
use crate::storage::tables::Place;
use crate::storage::{closed, read_only};

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// Bytes of the file before.
    pub before: u64,
    /// Bytes of the file after.
    pub after: u64,
}

/// Something alive, to be written in `seq` order.
struct Live<'a> {
    seq: u64,
    /// What stands before the payload in its line, for values and elements.
    address: Option<(&'static str, &'a Address)>,
    span: &'a mut Span,
}

/// The new file, not yet in place, and where in it everything alive stands.
struct Rewritten {
    file: File,
    identity: Identity,
    /// In `seq` order.
    spans: Vec<Span>,
    /// Where records with unknown fields stand, by `seq`.
    odd: HashMap<u64, Span>,
    header: Header,
}

impl State {
    /// About how many bytes are alive: the file could be rewritten with so many.
    pub(crate) fn live_bytes(&mut self) -> u64 {
        let header = self.header.to_line().len() as u64;
        header
            + live(self)
                .iter()
                .map(|live| u64::from(live.span.length) + 1 + frame(live).0.len() as u64)
                .sum::<u64>()
    }
}

/// Everything alive, in `seq` order.
fn live(state: &mut State) -> Vec<Live<'_>> {
    let entries = state.entries.entries_mut().map(|entry| Live {
        seq: entry.seq,
        address: None,
        span: &mut entry.payload,
    });
    let others = state.tables.places_mut().map(|place| match place {
        Place::Value(address, seq, span) => {
            Live { seq, address: Some(("\"value\",\"op\":\"set\"", address)), span }
        }
        Place::Element(address, seq, span) => {
            Live { seq, address: Some(("\"list\",\"op\":\"append\"", address)), span }
        }
        Place::Usage(seq, span) => Live { seq, address: None, span },
    });
    let mut all: Vec<Live<'_>> = entries.chain(others).collect();
    all.sort_unstable_by_key(|live| live.seq);
    all
}

/// What stands before and behind a payload in its line.
fn frame(live: &Live<'_>) -> (String, &'static str) {
    let Some((kind, address)) = live.address else { return (String::new(), "") };
    let mut before = format!("{{\"kind\":{kind},\"seq\":{},\"namespace\":", live.seq);
    push_quoted(&mut before, address.namespace());
    before.push_str(",\"key\":");
    push_quoted(&mut before, address.key());
    before.push_str(",\"value\":");
    (before, "}")
}

impl JsonlStorage {
    /// Rewrites the file with what is alive: header, entries, values, list elements and usage rows in `seq`
    /// order, each with its `seq`. The old file stays until the new one is whole and synced.
    pub(super) fn compact_on_request(&self, ctx: &Context) -> Result<Compaction> {
        if !self.writes() {
            return Err(read_only());
        }
        let _admitted = self.gate.enter().ok_or_else(closed)?;
        let _committing = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_fault()?;
        self.compact_now(&mut self.lock_mut(), ctx)
    }

    /// With the commit lock held.
    pub(super) fn compact_now(&self, current: &mut Current, ctx: &Context) -> Result<Compaction> {
        self.check_unchanged(current.identity)?;
        let before = current.identity.length;
        let temporary = with_ending(&self.path, DRAFT);
        let written = self.write_live(current, &temporary, ctx).and_then(|rewritten| {
            // It took a while: what another program wrote meanwhile is not in the new file.
            self.check_unchanged(current.identity)?;
            fs::rename(&temporary, &self.path).map_err(|error| {
                Error::io("cannot put the compacted file in place", error).with_path(&self.path)
            })?;
            Ok(rewritten)
        });
        let Rewritten { file, identity, spans, odd, header } = match written {
            Ok(rewritten) => rewritten,
            Err(error) => {
                // The old file is as it was; a temporary one that cannot be removed is swept at the next create.
                let _ = fs::remove_file(&temporary);
                return Err(error);
            }
        };
        let state = &mut current.state;
        state.lines = 1 + spans.len() as u64;
        for (live, span) in live(state).into_iter().zip(spans) {
            *live.span = span;
        }
        let after = identity.length;
        current.file = Arc::new(file);
        current.identity = identity;
        current.state.header = header;
        current.state.odd = odd;
        current.state.end = after;
        current.state.unterminated = false;
        // It is in use from here on. Where its name cannot be synced, the next commit that promises to survive
        // a power loss does so first.
        self.synced.store(false, Ordering::Release);
        sync_name(&self.path)?;
        self.synced.store(true, Ordering::Release);
        Ok(Compaction { before, after })
    }

    fn write_live(
        &self,
        current: &mut Current,
        temporary: &std::path::Path,
        ctx: &Context,
    ) -> Result<Rewritten> {
        let io = |error| Error::io("cannot write the compacted file", error).with_path(temporary);
        let source = Arc::clone(&current.file);
        let mut header = current.state.header.clone();
        // A session that is full is so by what is alive in it, or has one number left again: there is no larger one.
        header.next_seq = Some(current.state.next_seq.min(MAX_SEQ));
        let mut lines = Lines::create_in_place_of(&source, temporary).map_err(io)?;
        lines.write(&[header.to_line().as_bytes()]).map_err(io)?;
        let odd_before = current.state.odd.clone();
        let all = live(&mut current.state);
        let mut texts = Spans::of(Arc::clone(&source));
        let mut spans = Vec::with_capacity(all.len());
        let mut odd = HashMap::new();
        for (number, live) in all.iter().enumerate() {
            if number % 1_024 == 0 {
                ctx.check()?;
            }
            let next = all[number + 1..].iter().map(|live| *live.span);
            // A record with unknown fields is written again as it stands.
            if let Some(whole) = live.address.and_then(|_| odd_before.get(&live.seq)) {
                let record = texts.read(*whole, next).map_err(|error| self.unreadable(*whole, error))?;
                let offset = lines.end() + (live.span.offset - whole.offset);
                spans.push(Span { offset, length: live.span.length });
                odd.insert(live.seq, Span { offset: lines.end(), length: whole.length });
                lines.write(&[record, b"\n"]).map_err(io)?;
                continue;
            }
            let (before, behind) = frame(live);
            let payload = texts.read(*live.span, next).map_err(|error| self.unreadable(*live.span, error))?;
            spans.push(Span { offset: lines.end() + before.len() as u64, length: live.span.length });
            lines.write(&[before.as_bytes(), payload, behind.as_bytes(), b"\n"]).map_err(io)?;
        }
        let file = lines.into_file().map_err(io)?;
        // At both levels: a power failure must never cost more than the latest commits.
        file.sync_all().map_err(io)?;
        let identity = Identity::of(&file.metadata().map_err(io)?);
        Ok(Rewritten { file, identity, spans, odd, header })
    }
}
