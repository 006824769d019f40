//! Copying from a session file: the places are noted at one boundary, the file is read up to it afterwards,
//! while its writer goes on.

use std::sync::{Arc, PoisonError};

use crate::context::Context;
use crate::error::Result;
use crate::model::json::Json;
use crate::storage::closed;
use crate::storage::copy::indexed::{Indexed, Item, What};
use crate::storage::copy::{Ordered, PAGE, Plan, Planner, Record, Sink};
use crate::storage::jsonl::JsonlStorage;
use crate::storage::jsonl::draft::EntryPlace;
use crate::storage::jsonl::line::{Span, payload_of_entry, payload_of_usage};
use crate::storage::jsonl::spans::Spans;

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
        let as_they_stand = into.as_jsonl().is_some();
        let mut out = Ordered::start(&mut plan, into, ctx)?;
        for from in (0..items.len()).step_by(PAGE) {
            ctx.check()?;
            let page = &items[from..items.len().min(from + PAGE)];
            let mut places = if as_they_stand { self.places(page)? } else { Vec::new() }.into_iter();
            for (number, item) in (from..).zip(page) {
                let span = item.what.span();
                let next = items[number + 1..].iter().map(|item| item.what.span());
                let bytes = texts.read(span, next).map_err(|error| self.unreadable(span, error))?;
                let sink = out.at(item.seq, ctx)?;
                if let (What::Entry(..), Some(draft)) = (&item.what, sink.as_jsonl()) {
                    let place = places.next().filter(|_| bytes.starts_with(b"{") && bytes.ends_with(b"}"));
                    draft.put_entry(place.ok_or_else(|| self.not_as_indexed(span))?, &plan.entries, bytes)?;
                    continue;
                }
                let text = std::str::from_utf8(bytes).map_err(|_| self.not_as_indexed(span))?;
                sink.put(self.record(item, text).ok_or_else(|| self.not_as_indexed(span))?, ctx)?;
            }
        }
        out.finish(ctx)
    }

    /// Where the entries among some items stand, in their order.
    fn places(&self, items: &[Item<Span, Span>]) -> Result<Vec<EntryPlace>> {
        let current = self.lock();
        let entries = &current.state.entries;
        let mut places = Vec::with_capacity(items.len());
        for item in items {
            let What::Entry(position, span) = item.what else { continue };
            let position = position as usize;
            if entries.len() <= position || entries.entry(position).seq != item.seq {
                return Err(self.not_as_indexed(span));
            }
            let entry = entries.entry(position);
            places.push(EntryPlace {
                id: entry.id.clone(),
                parent: entries.parent(position),
                seq: entry.seq,
                timestamp: entry.timestamp,
                entry_type: entry.entry_type,
                custom_type: entry.custom_type.clone(),
            });
        }
        Ok(places)
    }

    /// Plans and notes what is to be copied, between two commits.
    fn select(&self, plan: &mut Planner<'_>, ctx: &Context) -> Result<Selected> {
        self.follow()?;
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
