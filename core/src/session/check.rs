//! Looks a session over and names what is wrong with it. Never repairs, never writes.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::legacy::same::is_cut_off;
use crate::model::address::{self as addresses, reserved};
use crate::model::entry::{EntryType, NewEntry};
use crate::model::json::{Json, text_of};
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
            Self::UnfinishedImport => "unfinished_import",
            Self::NoBranch => "no_branch",
            Self::SameId => "same_id",
        }
    }
}

/// How the file under a session is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileCheck {
    /// Not at all: it was, for another session in it.
    Skip,
    /// For what is damaged in itself.
    #[default]
    Quick,
    /// Also whether indexes and tables of a SQLite file agree, which takes longer.
    Full,
}

/// How a session is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckOptions {
    /// How its file is looked at.
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
    /// What to do about it.
    pub hint: Option<String>,
    /// The error that reading ended with.
    pub error: Option<Error>,
}

impl Finding {
    fn new(kind: FindingKind, id: &str, message: String) -> Self {
        Self { id: Some(id.to_owned()), ..Self::of_file(kind, message) }
    }

    /// One that is about no id.
    pub(crate) fn of_file(kind: FindingKind, message: String) -> Self {
        Self { kind, message, id: None, line: None, offset: None, hint: None, error: None }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The finding that several files of a repository hold a session of this id.
    pub fn same_id(id: &str, paths: &[&Path]) -> Self {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let message = format!("{} files hold a session '{id}': {}", paths.len(), paths.join(", "));
        Self::new(FindingKind::SameId, id, message)
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
        let mut check = Check { session: self, ctx, findings: Vec::new(), entries: HashSet::new() };
        check.part(|check| {
            check.findings.extend(check.session.check_file(options.file, ctx)?);
            Ok(())
        })?;
        check.part(|check| check.read_entries(progress))?;
        check.part(Check::read_tips)?;
        check.part(Check::read_labels)?;
        check.part(Check::read_lanes)?;
        check.part(Check::read_values)?;
        check.part(Check::read_lists)?;
        check.part(Check::read_usage)?;
        check.part(Check::read_import)?;
        Ok(check.findings)
    }
}

struct Check<'a> {
    session: &'a Session,
    ctx: &'a Context,
    findings: Vec<Finding>,
    entries: HashSet<String>,
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
        self.findings.push(Finding::new(kind, id, message));
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
            self.entries.insert(entry.id);
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
                self.findings.push(Finding::new(FindingKind::IncompleteLane, lane, message));
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
                let stored = self.session.get_value(address, self.ctx)?;
                if let Some(error) = stored.and_then(|stored| Json::parse(&stored.value).err()) {
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
                    for error in elements.iter().filter_map(|element| Json::parse(&element.value).err()) {
                        let message = format!("an element of the list at {address}: {}", error.message());
                        self.found(FindingKind::BadValue, address.key(), message);
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
        if !self.entries.is_empty() && self.session.branches(self.ctx)?.is_empty() {
            let message = format!("there are {} entries and no branch leads to them", self.entries.len());
            self.findings.push(Finding::of_file(FindingKind::NoBranch, message).with_hint(hint));
        }
        Ok(())
    }

    fn read_usage(&mut self) -> Result<()> {
        let mut scan = UsageScan { limit: Some(PAGE as u64), ..UsageScan::default() };
        loop {
            self.ctx.check()?;
            match self.session.scan_usage(&scan, self.ctx)?.last() {
                Some(last) => scan.from_seq = Some(last.seq + 1),
                None => return Ok(()),
            }
        }
    }
}
