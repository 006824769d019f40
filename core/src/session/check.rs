//! Looks a session over and names what is wrong with it. Never repairs, never writes.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::legacy::same::is_cut_off;
use crate::model::address::{self as addresses, reserved};
use crate::model::entry::{EntryType, NewEntry};
use crate::model::json::{Json, text_of};
use crate::model::usage::Usage;
use crate::model::value::Address;
use crate::session::reader::SessionReader;
use crate::session::{EntryQuery, Session};
use crate::storage::query::{ListRead, Order, UsageScan};

/// How many addresses or ledger rows are read at once.
const PAGE: usize = 1_000;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// A part of the session cannot be read; the error says why.
    Unreadable,
    /// An entry's payload is not what its type must have.
    BadPayload,
    /// An entry's parent does not stand before it.
    ParentOfNothing,
    /// A branch's tip names no entry.
    TipOfNothing,
    /// A label is on an entry that does not exist.
    LabelOfNothing,
    /// A lane has only some of branch, configuration and state.
    IncompleteLane,
    /// A value at one of the library's own addresses is not of the kind that stands there.
    BadValue,
    /// The totals are not those of the entries.
    WrongStats,
    /// The database file itself is damaged.
    DamagedFile,
    /// The last line of a file of JSON lines breaks off.
    TornTail,
    /// A line of a file of JSON lines is no commit.
    DamagedLine,
    /// The first line of a file of JSON lines is no header, or lacks a part of one.
    DamagedHeader,
    /// What a line holds stands in the file before.
    Copy,
    /// Two things of a session have one `seq`, or one has a `seq` that was never given.
    WrongSeq,
    /// An entry and another one, or a usage row, have one id.
    DuplicateId,
    /// What an entry's row says of its place in the tree contradicts its parent's row.
    WrongPointer,
    /// A row of a database belongs to no session, or to no list.
    RowOfNothing,
    /// An import of an old file was cut off.
    UnfinishedImport,
    /// There are entries and no branch that leads to them.
    NoBranch,
    /// Several files of a repository hold a session of one id.
    SameId,
}

impl FindingKind {
    /// The name in reports, for example `tip_of_nothing`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::BadPayload => "bad_payload",
            Self::ParentOfNothing => "parent_of_nothing",
            Self::TipOfNothing => "tip_of_nothing",
            Self::LabelOfNothing => "label_of_nothing",
            Self::IncompleteLane => "incomplete_lane",
            Self::BadValue => "bad_value",
            Self::WrongStats => "wrong_stats",
            Self::DamagedFile => "damaged_file",
            Self::TornTail => "torn_tail",
            Self::DamagedLine => "damaged_line",
            Self::DamagedHeader => "damaged_header",
            Self::Copy => "copy",
            Self::WrongSeq => "wrong_seq",
            Self::DuplicateId => "duplicate_id",
            Self::WrongPointer => "wrong_pointer",
            Self::RowOfNothing => "row_of_nothing",
            Self::UnfinishedImport => "unfinished_import",
            Self::NoBranch => "no_branch",
            Self::SameId => "same_id",
        }
    }
}

/// How much of a session is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum CheckDepth {
    /// What costs little: the end of the file, tips, labels, lanes. No entry is read but those they name.
    Brief,
    /// Everything is read once.
    #[default]
    Quick,
    /// Also whether what was read fits together, and what the file says beside it: every line of a file of
    /// JSON lines is read again; of a SQLite file, indexes are held against tables, and places in the tree
    /// against each other.
    Full,
}

/// Whether the file under a session is looked at for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileCheck {
    /// No: it was, for another session in it.
    Skip,
    /// Yes.
    #[default]
    Look,
}

/// How a session is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckOptions {
    /// How much is looked at.
    pub depth: CheckDepth,
    /// Whether its file is.
    pub file: FileCheck,
}

/// One thing that is wrong with a session.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// It in a sentence.
    pub message: String,
    /// The entry, branch or other id it is about.
    pub id: Option<String>,
    /// The line of the file it is in, from 1.
    pub line: Option<u64>,
    /// The offset in the file where it begins.
    pub offset: Option<u64>,
    /// How many bytes of the file it takes.
    pub length: Option<u64>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The error that reading ended with.
    pub error: Option<Error>,
}

impl Finding {
    pub(crate) fn about(kind: FindingKind, id: &str, message: String) -> Self {
        Self { id: Some(id.to_owned()), ..Self::of_file(kind, message) }
    }

    /// One that is about no id.
    pub(crate) fn of_file(kind: FindingKind, message: String) -> Self {
        Self { kind, message, id: None, line: None, offset: None, length: None, hint: None, error: None }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// One at a place of the file.
    pub(crate) fn at_line(self, line: u64, offset: u64) -> Self {
        Self { line: Some(line), offset: Some(offset), ..self }
    }

    /// The finding that several files of a repository hold a session of this id.
    pub fn same_id(id: &str, paths: &[&Path]) -> Self {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let message = format!("{} files hold a session '{id}': {}", paths.len(), paths.join(", "));
        Self::about(FindingKind::SameId, id, message)
            .with_hint("name the session by the path of its file, or move the others away")
    }

    /// The finding that something cannot be read at all.
    pub fn unreadable(error: Error) -> Self {
        Self {
            kind: FindingKind::Unreadable,
            message: error.message().to_owned(),
            id: error.id().map(str::to_owned),
            line: error.line(),
            offset: error.offset(),
            length: None,
            hint: None,
            error: Some(error),
        }
    }
}

impl Session {
    /// Reads everything structural, every entry, value, list and ledger row, and names what is wrong: entries
    /// that cannot be read or hang on nothing, tips and labels of nothing, incomplete lanes. What a
    /// reader of old files warned of stands in [`legacy`](Self::legacy) and is not repeated.
    ///
    /// `progress` is told how many entries have been read so far. A session that another process writes
    /// meanwhile is judged as it was at the start, with what it grew by left out.
    ///
    /// # Errors
    /// [`Closed`](crate::ErrorKind::Closed), [`Cancelled`](crate::ErrorKind::Cancelled),
    /// [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded). Damage is never an error: it is a finding.
    pub fn check(&self, progress: &mut dyn FnMut(u64), ctx: &Context) -> Result<Vec<Finding>> {
        self.check_with(&CheckOptions::default(), progress, ctx)
    }

    /// [`check`](Self::check) as `options` say.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_with(
        &self,
        options: &CheckOptions,
        progress: &mut dyn FnMut(u64),
        ctx: &Context,
    ) -> Result<Vec<Finding>> {
        let depth = options.depth;
        let mut check = Check {
            session: self,
            ctx,
            depth,
            findings: Vec::new(),
            entries: HashSet::new(),
            seqs: HashSet::new(),
        };
        if options.file == FileCheck::Look {
            check.part(|check| check.extend(check.session.storage()?.check_file(depth, ctx)?))?;
        }
        if depth > CheckDepth::Brief {
            check.part(|check| check.read_entries(progress))?;
        }
        check.part(Check::read_tips)?;
        check.part(Check::read_labels)?;
        check.part(Check::read_lanes)?;
        if depth > CheckDepth::Brief {
            check.part(Check::read_values)?;
            check.part(Check::read_lists)?;
            check.part(Check::read_usage)?;
        }
        check.part(Check::read_import)?;
        check.part(|check| check.extend(check.session.storage()?.check_rows(depth, ctx)?))?;
        Ok(check.findings)
    }
}

struct Check<'a> {
    session: &'a Session,
    ctx: &'a Context,
    depth: CheckDepth,
    findings: Vec<Finding>,
    entries: HashSet<String>,
    /// What has a `seq`; only of a full check.
    seqs: HashSet<u64>,
}

impl Check<'_> {
    /// Runs one part; what it cannot read is a finding, and the next part still runs.
    fn part(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        use crate::error::ErrorKind::{Cancelled, Closed, DeadlineExceeded, Forked};
        match part(self) {
            Err(error) if matches!(error.kind(), Cancelled | Closed | DeadlineExceeded | Forked) => {
                Err(error)
            }
            Err(error) => {
                self.findings.push(Finding::unreadable(error));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn found(&mut self, kind: FindingKind, id: &str, message: String) {
        self.findings.push(Finding::about(kind, id, message));
    }

    fn extend(&mut self, findings: Vec<Finding>) -> Result<()> {
        self.findings.extend(findings);
        Ok(())
    }

    /// Looks at the `seq` of something that is called `what`.
    fn note_seq(&mut self, seq: u64, what: impl FnOnce() -> String) -> Result<()> {
        if self.depth < CheckDepth::Full {
            return Ok(());
        }
        if !self.seqs.insert(seq) {
            let message = format!("{} has the seq {seq}, which something else has, too", what());
            self.findings.push(Finding::of_file(FindingKind::WrongSeq, message));
        } else if seq >= self.session.next_seq(self.ctx)? {
            // Asked each time: what came meanwhile is fine.
            let message = format!("{} has the seq {seq}, which was never given", what());
            self.findings.push(Finding::of_file(FindingKind::WrongSeq, message));
        }
        Ok(())
    }

    fn read_entries(&mut self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let next_seq = self.session.next_seq(self.ctx)?;
        let query = EntryQuery {
            order: Order::Ascending,
            to_seq: Some(next_seq.saturating_sub(1)),
            ..EntryQuery::default()
        };
        let mut messages = 0;
        for (count, entry) in (1..).zip(self.session.entries(&query, self.ctx)) {
            let entry = entry?;
            if count % 256 == 0 {
                self.ctx.check()?;
                progress(count);
            }
            messages += u64::from(entry.entry_type == EntryType::Message);
            if let Some(parent) = entry.parent_id.as_deref().filter(|parent| !self.entries.contains(*parent))
            {
                let message = format!("entry '{}' hangs on '{parent}', which is not before it", entry.id);
                self.found(FindingKind::ParentOfNothing, &entry.id, message);
            }
            let checked = Json::parse_fields(entry.payload.as_str()).and_then(|payload| {
                let custom_type = entry.custom_type.as_deref();
                NewEntry::with_payload(&entry.id, None, entry.entry_type, custom_type, payload)
            });
            // Old files may hold assistant messages that were still pending; they are read as they are.
            if let Err(error) = checked
                && error.kind() != crate::error::ErrorKind::PendingAssistant
            {
                let message = format!("entry '{}': {}", entry.id, error.message());
                self.found(FindingKind::BadPayload, &entry.id, message);
            }
            self.note_seq(entry.seq, || format!("entry '{}'", entry.id))?;
            if let Some(id) = self.entries.replace(entry.id) {
                self.found(FindingKind::DuplicateId, &id, format!("two entries have the id '{id}'"));
            }
        }
        let stats = self.session.stats(self.ctx)?;
        if stats.message_count != messages && self.session.next_seq(self.ctx)? == next_seq {
            let message =
                format!("the totals count {} messages and there are {messages}", stats.message_count);
            self.findings.push(Finding::of_file(FindingKind::WrongStats, message));
        }
        Ok(())
    }

    /// Whether there is an entry `id`: one that was read, or one that was written since.
    fn is_entry(&self, id: &str) -> Result<bool> {
        Ok(self.entries.contains(id) || !self.session.get_entries(&[id], self.ctx)?.is_empty())
    }

    fn read_tips(&mut self) -> Result<()> {
        for tip in self.session.scan_values(&addresses::branch_tip_inventory_prefix(), self.ctx)? {
            let name = tip.address.key();
            match text_of(tip.value.as_str()) {
                // Looked up as readers do: that it was among the entries does not say that its id finds it.
                Some(id) if !self.session.get_entries(&[&id], self.ctx)?.is_empty() => {}
                Some(id) if self.entries.contains(id.as_ref()) => {
                    let message =
                        format!("the tip of branch '{name}' is there, but its id does not find it: '{id}'");
                    self.found(FindingKind::TipOfNothing, name, message);
                }
                Some(id) => {
                    let message = format!("the tip of branch '{name}' names no entry: '{id}'");
                    self.found(FindingKind::TipOfNothing, name, message);
                }
                None if tip.value.is_null() => {}
                None => {
                    let message = format!("the tip of branch '{name}' is neither an entry id nor null");
                    self.found(FindingKind::BadValue, name, message);
                }
            }
        }
        Ok(())
    }

    fn read_labels(&mut self) -> Result<()> {
        for label in self.session.scan_values(&Address::known(reserved::ENTRY_LABEL, ""), self.ctx)? {
            let id = label.address.key();
            let Some(text) = text_of(label.value.as_str()) else {
                let message = format!("the label of entry '{id}' is no text");
                self.found(FindingKind::BadValue, id, message);
                continue;
            };
            if !self.is_entry(id)? {
                let message = format!("the label '{text}' is on no entry: '{id}'");
                self.found(FindingKind::LabelOfNothing, id, message);
            }
        }
        Ok(())
    }

    fn read_lanes(&mut self) -> Result<()> {
        let names = |namespace| -> Result<HashSet<String>> {
            let stored = self.session.scan_values(&Address::known(namespace, ""), self.ctx)?;
            Ok(stored.into_iter().map(|stored| stored.address.key().to_owned()).collect())
        };
        let parts = [
            ("branch", names(reserved::BRANCH_TIP)?),
            ("configuration", names(reserved::LANE_CONFIG)?),
            ("state", names(reserved::LANE_STATE)?),
        ];
        let lanes: BTreeSet<&String> = parts[1..].iter().flat_map(|(_, names)| names).collect();
        for lane in lanes {
            self.ctx.check()?;
            let missing: Vec<&str> =
                parts.iter().filter(|(_, names)| !names.contains(lane)).map(|(part, _)| *part).collect();
            if !missing.is_empty() {
                let message = format!("lane '{lane}' has no {}", missing.join(" and no "));
                self.findings.push(Finding::about(FindingKind::IncompleteLane, lane, message));
            }
        }
        Ok(())
    }

    fn read_values(&mut self) -> Result<()> {
        let mut after: Option<Address> = None;
        loop {
            let page = self.session.value_addresses(after.as_ref(), PAGE, self.ctx)?;
            for address in &page {
                self.ctx.check()?;
                let Some(stored) = self.session.get_value(address, self.ctx)? else { continue };
                self.note_seq(stored.seq, || format!("the value at {address}"))?;
                if let Err(error) = Json::parse(&stored.value) {
                    let message = format!("the value at {address}: {}", error.message());
                    self.found(FindingKind::BadValue, address.key(), message);
                }
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last),
                None => return Ok(()),
            }
        }
    }

    fn read_lists(&mut self) -> Result<()> {
        let mut after: Option<Address> = None;
        loop {
            let page = self.session.list_addresses(after.as_ref(), PAGE, self.ctx)?;
            for address in &page {
                let mut read = ListRead::default();
                loop {
                    self.ctx.check()?;
                    let elements = self.session.read_list(address, &read, self.ctx)?;
                    for element in &elements {
                        self.note_seq(element.seq, || format!("an element of the list at {address}"))?;
                        if let Err(error) = Json::parse(&element.value) {
                            let message = format!("an element of the list at {address}: {}", error.message());
                            self.found(FindingKind::BadValue, address.key(), message);
                        }
                    }
                    match elements.last() {
                        Some(last) => read.cursor = Some(last.seq),
                        None => break,
                    }
                }
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last),
                None => return Ok(()),
            }
        }
    }

    /// An import writes its branch after the entries and its source record last.
    fn read_import(&mut self) -> Result<()> {
        let hint = "if it was being imported, import the same file again: that goes on where it ended";
        if is_cut_off(self.session, self.ctx)? {
            let message =
                "the list of the import does not end with its source record: the import was cut off";
            let finding = Finding::of_file(FindingKind::UnfinishedImport, message.to_owned());
            self.findings.push(finding.with_hint(hint));
        }
        let has_entries = match self.depth {
            CheckDepth::Brief => self.session.find_entry(&EntryQuery::default(), self.ctx)?.is_some(),
            _ => !self.entries.is_empty(),
        };
        if has_entries && self.session.branches(self.ctx)?.is_empty() {
            let message = "there are entries and no branch leads to them".to_owned();
            self.findings.push(Finding::of_file(FindingKind::NoBranch, message).with_hint(hint));
        }
        Ok(())
    }

    fn read_usage(&mut self) -> Result<()> {
        let next_seq = self.session.next_seq(self.ctx)?;
        let mut scan = UsageScan { limit: Some(PAGE as u64), ..UsageScan::default() };
        let mut sum = Usage::default();
        let mut ids = HashSet::new();
        loop {
            self.ctx.check()?;
            let rows = self.session.scan_usage(&scan, self.ctx)?;
            let Some(last) = rows.last() else { break };
            scan.from_seq = Some(last.seq + 1);
            for row in rows {
                sum.add(&row.usage);
                self.note_seq(row.seq, || format!("usage row '{}'", row.id))?;
                if self.entries.contains(&row.id) || !ids.insert(row.id.clone()) {
                    let message =
                        format!("a usage row has the id '{}', which something else has, too", row.id);
                    self.found(FindingKind::DuplicateId, &row.id, message);
                }
            }
        }
        // An old file that is only read has totals and no ledger.
        if ids.is_empty() && self.session.legacy().is_some() {
            return Ok(());
        }
        let stats = self.session.stats(self.ctx)?;
        // As text: a sum that is no number equals no other, and may be stored as none at all.
        if stats.usage.to_json() != sum.to_json() && self.session.next_seq(self.ctx)? == next_seq {
            let message = format!(
                "the totals are {} and the ledger sums up to {}",
                stats.usage.to_json(),
                sum.to_json()
            );
            self.findings.push(Finding::of_file(FindingKind::WrongStats, message));
        }
        Ok(())
    }
}
