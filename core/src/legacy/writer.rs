//! The lines of an export: those of the file that the session came from and what came to it since, or all
//! anew. What the lines of entries do not say (configuration, name, labels, which position is selected) is
//! said by lines at the end: programs go on at the last line of a file, so these hang on the branch's tip.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read as _, Write as Out};
use std::path::Path;

use uuid::Uuid;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::legacy::ending::{EndLine, EndLines, Ending, FileState};
use crate::legacy::export::{Export, ExportScope};
use crate::legacy::loss::{LossKind, Losses};
use crate::legacy::names::Names;
use crate::legacy::nodes::NONE;
use crate::legacy::print::{Stored, reference_of};
use crate::legacy::report::WarningKind;
use crate::legacy::restore::{EntryStream, OldIds, Restored};
use crate::legacy::tail::{FirstKept, first_kept};
use crate::legacy::times;
use crate::legacy::unheld::count_unheld;
use crate::legacy::values::MAIN;
use crate::model::entry::{Entry, EntryType};
use crate::model::json::{Members, push_quoted, quote};
use crate::session::Session;
use crate::session::branch::BranchName;
use crate::session::reader::{SessionReader, branch_tip, sealed::Source as _};
use crate::storage::query::{BranchScan, PathOrder};

/// How many entries of a path are read at a time.
const PAGE: u64 = 32;
/// How many entries are written between two looks at the context.
const LOOK: u64 = 256;

/// Writes the session; temporary files go to `folder`.
pub(super) fn write(
    session: &Session,
    out: &mut dyn Out,
    scope: &ExportScope,
    folder: &Path,
    ctx: &Context,
) -> Result<Export> {
    if session.legacy().is_some_and(|legacy| legacy.version > 3) {
        return Err(Error::new(
            ErrorKind::UnsupportedVersion,
            "the session file is of a version newer than 3; it can be read, but nothing is written from it",
        )
        .with_id(session.id())
        .with_hint("use a newer release of this library"));
    }
    // The tip comes before the end of what is exported: what it names is in there.
    let head = Head::of(session, scope, ctx)?;
    let last_seq = session.next_seq(ctx)?.saturating_sub(1);
    let old = OldIds::of(session, ctx)?;
    let restored = match scope {
        ExportScope::Tree => Restored::of(session, &old, folder, ctx)?,
        ExportScope::Branch(_) => None,
    };
    let mut losses = Losses::default();
    count_unheld(session, head.branch.as_ref().map(BranchName::as_str), &mut losses, ctx)?;
    let ending = Ending::of(session, &head, &mut losses, ctx)?;
    let restored = restored.filter(|restored| restored.scanned.header.version == 3);
    let mut writer = Writer {
        session,
        ctx,
        out,
        names: Names::anew(session.id(), &OldIds::default()),
        losses,
        entries: 0,
        lines: 0,
        bytes: 0,
        last: None,
        last_time: session.metadata().created_at,
    };
    if let Some(restored) = restored
        && writer.go_on_behind(restored, &head, &ending, last_seq)?
    {
        return writer.finish();
    }
    writer.anew(scope, &old, &head, &ending, last_seq)?;
    writer.finish()
}

/// The branch that the file opens at.
pub(super) struct Head {
    /// None in a session without branches.
    pub(super) branch: Option<BranchName>,
    pub(super) tip: Option<String>,
}

impl Head {
    fn of(session: &Session, scope: &ExportScope, ctx: &Context) -> Result<Self> {
        let name = match scope {
            ExportScope::Branch(name) => Some(name.clone()),
            ExportScope::Tree if session.branch(MAIN, ctx)?.is_some() => Some(MAIN.to_owned()),
            ExportScope::Tree => session.branches(ctx)?.into_iter().next().map(|branch| branch.name),
        };
        let Some(name) = name else { return Ok(Self { branch: None, tip: None }) };
        let unknown = || {
            Error::new(ErrorKind::UnknownBranch, format!("there is no branch '{name}'"))
                .with_id(&name)
                .with_hint("`branches` gives the names of all")
        };
        let branch = BranchName::new(&name).map_err(|_| unknown())?;
        let tip = branch_tip(session.reads()?, &branch, ctx)?.ok_or_else(unknown)?;
        if let Some(tip) = &tip
            && session.get_entry(tip, ctx)?.is_none()
        {
            return Err(Error::new(
                ErrorKind::UnknownEntry,
                format!("the tip of the branch '{name}' is no entry of the session"),
            )
            .with_id(tip)
            .with_hint("pisession doctor names all such damage"));
        }
        Ok(Self { branch: Some(branch), tip })
    }
}

/// Writes lines and knows what stands in the file.
pub(super) struct Writer<'a> {
    session: &'a Session,
    ctx: &'a Context,
    out: &'a mut dyn Out,
    names: Names,
    losses: Losses,
    entries: u64,
    lines: u64,
    bytes: u64,
    /// The entry at or above the last line, by its id here; none where no entry is.
    last: Option<String>,
    last_time: i64,
}

impl Writer<'_> {
    /// Writes the old file's lines and what came since; false, with nothing written, if lines behind it would
    /// not be understood.
    fn go_on_behind(
        &mut self,
        mut restored: Restored,
        head: &Head,
        ending: &Ending,
        last_seq: u64,
    ) -> Result<bool> {
        self.names = Names::behind(self.session.id(), &restored);
        let imported = restored.tree.order.len() as u64;
        let nodes: HashMap<Uuid, u32> = restored.entries().collect();
        let node_of = |id: &str| Uuid::try_parse(id).ok().and_then(|id| nodes.get(&id).copied());
        let selected = restored.scanned.selected;
        let selected_entry = restored.entry_at(selected);
        // What hangs on the selected entry goes on at the selected position, behind what changed there.
        let hang = restored.name(selected).map(str::to_owned);
        let hung = |entry: &Option<String>| hang.as_deref().filter(|_| *entry == selected_entry);

        let has_new = EntryStream::of(self.session, imported + 1, last_seq, self.ctx).next()?.is_some();
        let base = self.nearest(head.tip.as_deref(), &|id| node_of(id).is_some())?;
        let base_node = match &base {
            base if *base == selected_entry => selected,
            Some(id) => node_of(id).unwrap_or(NONE),
            None => NONE,
        };
        let path = self.session.metadata().path.clone().unwrap_or_default();
        restored.scanned.selected = base_node;
        let state = FileState::of(&path, &restored)?;
        let end = ending.lines(&state, &|id| self.is_there(id, imported, last_seq))?;
        let stays = !has_new && end.lines.is_empty() && (head.branch.is_none() || head.tip == selected_entry);
        let has_second_header =
            restored.scanned.warnings.iter().any(|warning| warning.kind == WarningKind::SecondHeader);
        let is_nameless = self.names.has_nameless() || (selected != NONE && hang.is_none());
        if !stays && (is_nameless || has_second_header) {
            return Ok(false);
        }
        self.copy(&restored)?;
        self.entries = imported;
        self.last = selected_entry.clone();
        self.last_time = restored.scanned.nodes.last().map_or(self.last_time, |node| node.time);
        let mut stream = EntryStream::of(self.session, imported + 1, last_seq, self.ctx);
        while let Some(entry) = stream.next()? {
            self.entry(&entry, hung(&entry.parent_id))?;
        }
        if !stays {
            let at = hung(&head.tip).map(str::to_owned);
            self.end(head, ending, end, at)?;
        } else {
            self.count_unsaid(&end);
        }
        Ok(true)
    }

    /// Whether the entry will be in the file.
    fn is_there(&self, id: &str, imported: u64, last_seq: u64) -> Result<bool> {
        if self.names.holds(id) {
            return Ok(true);
        }
        let entry = self.session.get_entry(id, self.ctx)?;
        Ok(entry.is_some_and(|entry| entry.seq > imported && entry.seq <= last_seq))
    }

    /// The first entry from `start` to its root for which `found` holds.
    fn nearest(&self, start: Option<&str>, found: &dyn Fn(&str) -> bool) -> Result<Option<String>> {
        let mut at = start.map(str::to_owned);
        while let Some(id) = at {
            let scan = BranchScan { limit: Some(LOOK), ..BranchScan::default() };
            let page = self.session.scan_branch_structure(&id, &scan, self.ctx)?;
            if let Some(entry) = page.iter().find(|entry| found(&entry.id)) {
                return Ok(Some(entry.id.clone()));
            }
            at = page.last().and_then(|last| last.parent_id.clone());
        }
        Ok(None)
    }

    fn copy(&mut self, restored: &Restored) -> Result<()> {
        let mut reader = restored.read()?;
        let mut chunk = vec![0; 256 << 10];
        loop {
            self.ctx.check()?;
            let length = reader.read(&mut chunk).map_err(|error| restored.unread(error))?;
            if length == 0 {
                break;
            }
            self.out.write_all(&chunk[..length]).map_err(failed)?;
        }
        self.lines = restored.lines;
        self.bytes = restored.size;
        Ok(())
    }

    /// Writes the file without the lines of an older one.
    fn anew(
        &mut self,
        scope: &ExportScope,
        old: &OldIds,
        head: &Head,
        ending: &Ending,
        last_seq: u64,
    ) -> Result<()> {
        self.names = Names::anew(self.session.id(), old);
        for _ in 0..old.lines {
            self.losses.add(LossKind::OldLine, "");
        }
        self.header()?;
        match scope {
            ExportScope::Tree => {
                let mut stream = EntryStream::of(self.session, 1, last_seq, self.ctx);
                while let Some(entry) = stream.next()? {
                    self.entry(&entry, None)?;
                }
            }
            ExportScope::Branch(_) => {
                let mut cursor = None;
                while let Some(tip) = &head.tip {
                    let scan = BranchScan {
                        order: PathOrder::OldestFirst,
                        cursor,
                        limit: Some(PAGE),
                        ..BranchScan::default()
                    };
                    let page = self.session.scan_branch(tip, &scan, self.ctx)?;
                    let Some(last) = page.last() else { break };
                    cursor = Some(last.seq);
                    for entry in &page {
                        self.entry(entry, None)?;
                    }
                }
            }
        }
        let mut end = ending.lines(&FileState::default(), &|id| Ok(self.names.holds(id)))?;
        if *scope != ExportScope::Tree {
            // Labels of entries elsewhere are not of this branch.
            end.dangling.clear();
        }
        self.end(head, ending, end, None)
    }

    fn header(&mut self) -> Result<()> {
        let metadata = self.session.metadata();
        let mut line = format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":{},\"timestamp\":\"{}\",\"cwd\":{}",
            quote(&metadata.id),
            times::write(metadata.created_at),
            quote(metadata.cwd.as_deref().unwrap_or_default()),
        );
        if metadata.cwd.is_none() {
            self.losses.add(LossKind::WorkingFolder, "");
        }
        match (&metadata.legacy_parent_session_path, &metadata.parent_session_id) {
            (Some(path), _) => {
                line.push_str(",\"parentSession\":");
                push_quoted(&mut line, path);
            }
            (None, Some(id)) => {
                self.losses.add(LossKind::Parent, id);
            }
            (None, None) => {}
        }
        line.push('}');
        self.line(&line)
    }

    /// Writes an entry, under the node of that name if there is one.
    fn entry(&mut self, entry: &Entry, hung: Option<&str>) -> Result<()> {
        if self.entries.is_multiple_of(LOOK) {
            self.ctx.check()?;
        }
        let parent = match (&entry.parent_id, hung) {
            (_, Some(name)) => Some(name.to_owned()),
            (Some(parent), None) => Some(self.names.get(parent).map(str::to_owned).ok_or_else(|| {
                Error::new(ErrorKind::Corrupt, "the entry's parent does not come before it")
                    .with_id(&entry.id)
            })?),
            (None, None) => None,
        };
        let named = reference_of(entry);
        let reference = named.as_deref().and_then(|id| self.names.get(id).map(str::to_owned));
        if named.is_some() && reference.is_none() {
            self.losses.of_entry(LossKind::Reference, "", &entry.id);
        }
        let id = self.names.give(&entry.id);
        let first_kept = match entry.entry_type {
            EntryType::Compaction => Some(quote(&self.first_kept(entry, &id)?)),
            _ => None,
        };
        let stored = Stored {
            entry_type: entry.entry_type,
            custom_type: entry.custom_type.as_deref(),
            payload: entry.payload.as_str(),
            timestamp: entry.timestamp,
            id: &id,
            parent_id: parent.as_deref(),
            reference: reference.as_deref(),
            first_kept: first_kept.as_deref(),
        };
        let line = stored.line().ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "the entry is not what an entry of its type must be")
                .with_id(&entry.id)
        })?;
        self.count_fields(entry);
        self.line(&line)?;
        self.entries += 1;
        self.last = Some(entry.id.clone());
        self.last_time = entry.timestamp;
        Ok(())
    }

    fn first_kept(&mut self, entry: &Entry, own: &str) -> Result<String> {
        let (first, is_exact) = match first_kept(self.session, entry, self.ctx)? {
            FirstKept::Nothing => (None, true),
            FirstKept::Entry(id) => (Some(id), true),
            FirstKept::AmongSummaries(id) => (Some(id), false),
            FirstKept::Elsewhere => (None, false),
        };
        if !is_exact {
            self.losses.of_entry(LossKind::RetainedTail, "", &entry.id);
        }
        // One that keeps nothing names itself.
        Ok(first.and_then(|id| self.names.get(&id).map(str::to_owned)).unwrap_or_else(|| own.to_owned()))
    }

    /// Counts the fields for which version 3 has no place.
    fn count_fields(&mut self, entry: &Entry) {
        let held: &[&str] = match entry.entry_type {
            EntryType::Message => &["message"],
            EntryType::Compaction => {
                &["summary", "retainedTail", "tokensBefore", "details", "usage", "fromHook"]
            }
            EntryType::BranchSummary => &["fromId", "summary", "details", "usage", "fromHook"],
            EntryType::Custom => &["data"],
        };
        let fields = Members::of(entry.payload.as_str()).unwrap_or_default();
        let mut seen = HashSet::new();
        for field in &fields.0 {
            if !held.iter().any(|name| field.is(name)) && seen.insert(field.key) {
                self.losses.of_entry(LossKind::EntryField, &field.name(), &entry.id);
            }
        }
    }

    /// Writes the lines that say the rest, one under the other, the first at the tip or at the node named `at`.
    fn end(&mut self, head: &Head, ending: &Ending, end: EndLines, at: Option<String>) -> Result<()> {
        let mut parent = match (&head.tip, at) {
            (_, Some(name)) => Some(name),
            (Some(tip), None) => self.names.get(tip).map(str::to_owned),
            (None, None) => None,
        };
        self.count_unsaid(&end);
        let mut lines: Vec<EndLine> = end.lines;
        if lines.is_empty() && head.branch.is_some() && self.last != head.tip {
            lines.push(ending.name_again());
        }
        for line in lines {
            let id = self.names.mint(&line.key);
            let target = match &line.target {
                Some(target) => match self.names.get(target) {
                    Some(name) => Some(name.to_owned()),
                    None => continue,
                },
                None => None,
            };
            let mut text = format!("{{\"type\":\"{}\",\"id\":{},\"parentId\":", line.type_name, quote(&id));
            match &parent {
                Some(parent) => push_quoted(&mut text, parent),
                None => text.push_str("null"),
            }
            text.push_str(",\"timestamp\":\"");
            text.push_str(&times::write(self.last_time));
            text.push('"');
            if let Some(target) = target {
                text.push_str(",\"targetId\":");
                push_quoted(&mut text, &target);
            }
            text.push_str(&line.fields);
            text.push('}');
            self.line(&text)?;
            parent = Some(id);
        }
        Ok(())
    }

    fn count_unsaid(&mut self, end: &EndLines) {
        for id in &end.dangling {
            self.losses.of_entry(LossKind::Label, "", id);
        }
        if end.has_stale_configuration {
            self.losses.add(LossKind::Configuration, "");
        }
    }

    fn line(&mut self, text: &str) -> Result<()> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.write_all(b"\n")).map_err(failed)?;
        self.lines += 1;
        self.bytes += text.len() as u64 + 1;
        Ok(())
    }

    fn finish(self) -> Result<Export> {
        self.out.flush().map_err(failed)?;
        Ok(Export {
            path: None,
            entries: self.entries,
            lines: self.lines,
            bytes: self.bytes,
            losses: self.losses.into_records(),
        })
    }
}

fn failed(error: io::Error) -> Error {
    Error::io("cannot write the exported session", error)
}
