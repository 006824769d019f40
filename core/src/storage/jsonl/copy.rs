//! Copying from a session file: the places are noted at one boundary, the file is read up to it afterwards,
//! while its writer goes on.

use std::sync::{Arc, PoisonError};

use crate::context::Context;
use crate::error::Result;
use crate::model::json::Json;
use crate::storage::closed;
use crate::storage::copy::indexed::{Indexed, Item, What};
use crate::storage::copy::{Ordered, PAGE, Plan, Planner, Record, Sink};
use crate::storage::jsonl::line::{Span, payload_of_entry, payload_of_usage};
use crate::storage::jsonl::spans::Spans;
use crate::storage::jsonl::{JsonlStorage, OpenMode};

/// What is to be copied, and the file it stands in. A file that compaction replaces stays readable.
struct Selected {
    plan: Plan,
    items: Vec<Item<Span, Span>>,
    texts: Spans,
}

impl What<Span, Span> {
    fn span(&self) -> Span {
        match self {
            Self::Entry(_, span) | Self::Usage(_, span) | Self::Value(_, span) | Self::Element(_, span) => {
                *span
            }
        }
    }
}

impl JsonlStorage {
    pub(super) fn copy_into(&self, plan: &mut Planner<'_>, into: &mut dyn Sink, ctx: &Context) -> Result<()> {
        ctx.check()?;
        // Closing waits for the copy.
        let _admitted = self.gate.enter().ok_or_else(closed)?;
        let Selected { mut plan, items, mut texts } = self.select(plan, ctx)?;
        let mut out = Ordered::start(&mut plan, into, ctx)?;
        for (number, item) in items.iter().enumerate() {
            if number % PAGE == 0 {
                ctx.check()?;
            }
            let span = item.what.span();
            let next = items[number + 1..].iter().map(|item| item.what.span());
            let bytes = texts.read(span, next).map_err(|error| self.unreadable(span, error))?;
            let text = std::str::from_utf8(bytes).map_err(|_| self.not_as_indexed(span))?;
            let record = self.record(item, text).ok_or_else(|| self.not_as_indexed(span))?;
            out.put(record, ctx)?;
        }
        out.finish(ctx)
    }

    /// Plans and notes what is to be copied, between two commits.
    fn select(&self, plan: &mut Planner<'_>, ctx: &Context) -> Result<Selected> {
        if self.options.mode == OpenMode::ReadOnly && !self.options.salvage {
            self.follow()?;
        }
        let _committing = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.lock();
        let file = Arc::clone(&current.file);
        let places = Indexed {
            entries: &current.state.entries,
            tables: &current.state.tables,
            next_seq: current.state.next_seq,
            json: &|span| self.json(&file, *span),
        };
        let plan = plan(&places)?;
        let items = places.select(&plan, ctx)?;
        Ok(Selected { plan, items, texts: Spans::of(Arc::clone(&file)) })
    }

    /// The record whose text was read; none if that is not what it was.
    fn record(&self, item: &Item<Span, Span>, text: &str) -> Option<Record> {
        let json = match &item.what {
            What::Entry(position, _) => {
                // Entries stay where they are in the index, whatever is committed or compacted.
                let current = self.lock();
                let entries = &current.state.entries;
                let position = *position as usize;
                if entries.len() <= position || entries.entry(position).seq != item.seq {
                    return None;
                }
                let payload = payload_of_entry(text, entries.entry(position).entry_type)?;
                return Some(entries.with_payload(position, payload).into());
            }
            What::Usage(..) => payload_of_usage(text)?,
            What::Value(..) | What::Element(..) => Json::trusted(text),
        };
        item.what.record(item.seq, json)
    }
}
