//! From pieces to a session that is sound: each thing once, parents before children, no branch, label or lane
//! that leads nowhere. What has to be changed or left out for that is named.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::error::Result;
use crate::legacy::writes::LIST as LEGACY_LIST;
use crate::model::address::reserved;
use crate::model::entry::EntryType;
use crate::model::json::Json;
use crate::model::value::Address;
use crate::repair::found::{Found, Payloads, Piece, What};
use crate::repair::order::settle;
use crate::session::check::{Finding, FindingKind};

/// What the new session holds.
pub(crate) struct Mended<P> {
    pub(crate) next_seq: u64,
    /// In order of their `seq`s, deletions done.
    pub(crate) pieces: Vec<Kept<P>>,
    pub(crate) counts: RepairCounts,
}

/// One thing that the new session holds.
pub(crate) struct Kept<P> {
    pub(crate) seq: u64,
    pub(crate) what: What,
    pub(crate) payload: Payload<P>,
}

pub(crate) enum Payload<P> {
    /// As it was found.
    Found(P),
    /// Of what had to be changed.
    Made(Json),
}

/// How much a repair kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RepairCounts {
    /// Entries of every type.
    pub entries: u64,
    /// Of these, messages.
    pub messages: u64,
    /// Values, the tips of branches included.
    pub values: u64,
    /// Elements of lists.
    pub elements: u64,
    /// Rows of the ledger.
    pub usage: u64,
}

/// A value as it stands in the end, or a tip that it had.
struct Stored<P> {
    seq: u64,
    payload: P,
}

/// Makes a session of what was found; what that costs is added to the findings.
pub(crate) fn mend<P: Clone>(
    found: Found<P>,
    payloads: &dyn Payloads<P>,
) -> Result<(Mended<P>, Vec<Finding>)> {
    let mut findings = found.findings;
    let pieces = settle(found.pieces, &mut findings);
    let highest = pieces.last().map_or(0, |piece| piece.seq);
    let next_seq = found.next_seq.unwrap_or(1).max(highest + 1);
    let mut mend = Mend {
        payloads,
        findings,
        entries: HashSet::new(),
        parents: HashSet::new(),
        ids: HashSet::new(),
        kept: Vec::new(),
        values: BTreeMap::new(),
        lists: BTreeMap::new(),
        tips: BTreeMap::new(),
        newest: None,
        next_seq,
    };
    for piece in pieces {
        mend.take(piece);
    }
    mend.end_branches()?;
    mend.end_lanes();
    mend.end_values()?;
    mend.end_lists()?;
    let Mend { mut kept, findings, next_seq, .. } = mend;
    kept.sort_by_key(|kept| kept.seq);
    let counts = count(&kept);
    Ok((Mended { next_seq, pieces: kept, counts }, findings))
}

fn count<P>(kept: &[Kept<P>]) -> RepairCounts {
    let mut counts = RepairCounts::default();
    for kept in kept {
        match &kept.what {
            What::Entry(entry) => {
                counts.entries += 1;
                counts.messages += u64::from(entry.entry_type == EntryType::Message);
            }
            What::Usage(_) => counts.usage += 1,
            What::AppendList(_) => counts.elements += 1,
            What::SetValue(_) => counts.values += 1,
            What::DeleteValue(_) | What::DeleteList(_) => {}
        }
    }
    counts
}

struct Mend<'a, P> {
    payloads: &'a dyn Payloads<P>,
    findings: Vec<Finding>,
    entries: HashSet<String>,
    /// Entries on which others hang.
    parents: HashSet<String>,
    ids: HashSet<String>,
    kept: Vec<Kept<P>>,
    values: BTreeMap<Address, Stored<P>>,
    lists: BTreeMap<Address, Vec<Stored<P>>>,
    /// What each branch pointed at in its life, newest last.
    tips: BTreeMap<Address, Vec<Stored<P>>>,
    /// The last entry.
    newest: Option<String>,
    next_seq: u64,
}

impl<P: Clone> Mend<'_, P> {
    fn found(&mut self, kind: FindingKind, id: &str, message: String, place: Option<(u64, u64)>) {
        let finding = Finding::about(kind, id, message);
        self.findings.push(match place {
            Some((line, offset)) => finding.at_line(line, offset),
            None => finding,
        });
    }

    /// Applies a piece; they come in order of their `seq`s.
    fn take(&mut self, piece: Piece<P>) {
        let Piece { seq, what, payload, place, .. } = piece;
        if let Some(id) = what.id()
            && !self.ids.insert(id.to_owned())
        {
            let message = format!("{} has an id that was used before, and is left out", what.name());
            return self.found(FindingKind::DuplicateId, id, message, place);
        }
        match (what, payload) {
            (What::Entry(mut entry), Some(payload)) => {
                if let Some(parent) =
                    entry.parent_id.take_if(|parent| !self.entries.contains(parent.as_str()))
                {
                    let message =
                        format!("entry '{}' hangs on '{parent}', which is lost: it is a root now", entry.id);
                    self.found(FindingKind::ParentOfNothing, &entry.id, message, place);
                }
                self.parents.extend(entry.parent_id.clone());
                self.entries.insert(entry.id.clone());
                self.newest = Some(entry.id.clone());
                self.kept.push(Kept { seq, what: What::Entry(entry), payload: Payload::Found(payload) });
            }
            (what @ What::Usage(_), Some(payload)) => {
                self.kept.push(Kept { seq, what, payload: Payload::Found(payload) });
            }
            (What::SetValue(address), Some(payload)) if address.namespace() == reserved::BRANCH_TIP => {
                self.tips.entry(address).or_default().push(Stored { seq, payload });
            }
            (What::SetValue(address), Some(payload)) => {
                self.values.insert(address, Stored { seq, payload });
            }
            (What::DeleteValue(address), _) => {
                self.values.remove(&address);
                self.tips.remove(&address);
            }
            (What::AppendList(address), Some(payload)) => {
                self.lists.entry(address).or_default().push(Stored { seq, payload });
            }
            (What::DeleteList(address), _) => {
                self.lists.remove(&address);
            }
            // Only deletions have no payload.
            (_, None) => {}
        }
    }

    fn keep_value(&mut self, address: Address, seq: u64, payload: Payload<P>) {
        self.kept.push(Kept { seq, what: What::SetValue(address), payload });
    }

    fn read(&self, address: &Address, payload: &P) -> Result<Json> {
        self.payloads.read(&What::SetValue(address.clone()), payload)
    }

    /// A branch whose tip is lost points at the newest entry it pointed at before that is there; if there is none,
    /// at the one entry that nothing hangs on and no other branch leads to, if there is one and no other.
    fn end_branches(&mut self) -> Result<()> {
        let mut lost = Vec::new();
        let mut led_to = HashSet::new();
        for (address, history) in std::mem::take(&mut self.tips) {
            let mut wrong = None;
            let mut tip = None;
            for stored in history.into_iter().rev() {
                let json = self.read(&address, &stored.payload)?;
                let is_there = match json.as_text() {
                    Some(id) => self.entries.contains(id.as_ref()),
                    // That it was empty once says nothing of where it was last.
                    None => json.is_null() && wrong.is_none(),
                };
                if is_there {
                    led_to.extend(json.as_text().map(|id| id.into_owned()));
                    tip = Some((json, stored));
                    break;
                }
                wrong.get_or_insert((stored.seq, json));
            }
            match (wrong, tip) {
                (Some(wrong), tip) => lost.push((address, wrong, tip.map(|(json, _)| json))),
                (None, Some((_, stored))) => {
                    self.keep_value(address, stored.seq, Payload::Found(stored.payload))
                }
                (None, None) => {}
            }
        }
        for (address, (seq, was), before) in lost {
            let name = address.key().to_owned();
            let now = before.or_else(|| {
                let mut ends =
                    self.entries.iter().filter(|id| !self.parents.contains(*id) && !led_to.contains(*id));
                let end = ends.next().map(|id| Json::string(id));
                end.filter(|_| ends.next().is_none())
            });
            led_to.extend(now.as_ref().and_then(Json::as_text).map(|id| id.into_owned()));
            let (kind, what) = match was.as_text() {
                Some(id) => {
                    (FindingKind::TipOfNothing, format!("the tip of branch '{name}' is lost: '{id}'"))
                }
                None => (
                    FindingKind::BadValue,
                    format!("the tip of branch '{name}' is neither an entry id nor null"),
                ),
            };
            let message = match now.as_ref().and_then(Json::as_text) {
                Some(id) => format!("{what}; it is at '{id}' now, the last of it that is there"),
                None => format!("{what}; it is empty now"),
            };
            self.found(kind, &name, message, None);
            self.keep_value(address, seq, Payload::Made(now.unwrap_or_else(Json::null)));
        }
        if !self.kept.iter().any(|kept| is_tip(&kept.what))
            && let Some(newest) = self.newest.clone()
        {
            let message =
                format!("no branch leads to the entries; 'main' is made, at the newest: '{newest}'");
            self.found(FindingKind::NoBranch, "main", message, None);
            let seq = self.next_seq;
            self.next_seq += 1;
            self.keep_value(
                Address::known(reserved::BRANCH_TIP, "main"),
                seq,
                Payload::Made(Json::string(&newest)),
            );
        }
        Ok(())
    }

    /// A lane that misses a part holds data only.
    fn end_lanes(&mut self) {
        let tips: BTreeSet<String> = self
            .kept
            .iter()
            .filter_map(|kept| match &kept.what {
                What::SetValue(address) if is_tip(&kept.what) => Some(address.key().to_owned()),
                _ => None,
            })
            .collect();
        let part = |namespace: &str, lane: &str| Address::known(namespace, lane);
        let parts = [reserved::LANE_CONFIG, reserved::LANE_STATE];
        let lanes: BTreeSet<String> = self
            .values
            .keys()
            .filter(|address| parts.contains(&address.namespace()))
            .map(|address| address.key().to_owned())
            .collect();
        for lane in lanes {
            let has = |namespace| self.values.contains_key(&part(namespace, &lane));
            let missing: Vec<&str> = [
                ("branch", tips.contains(&lane)),
                ("configuration", has(reserved::LANE_CONFIG)),
                ("state", has(reserved::LANE_STATE)),
            ]
            .iter()
            .filter_map(|(name, is_there)| (!is_there).then_some(*name))
            .collect();
            if missing.is_empty() {
                continue;
            }
            for namespace in parts {
                self.values.remove(&part(namespace, &lane));
            }
            let message =
                format!("lane '{lane}' has no {}; what is left of it is left out", missing.join(" and no "));
            self.found(FindingKind::IncompleteLane, &lane, message, None);
        }
    }

    fn end_values(&mut self) -> Result<()> {
        for (address, Stored { seq, payload }) in std::mem::take(&mut self.values) {
            if address.namespace() == reserved::ENTRY_LABEL {
                let json = self.read(&address, &payload)?;
                let id = address.key();
                let Some(text) = json.as_text() else {
                    let message = format!("the label of entry '{id}' is no text, and is left out");
                    self.found(FindingKind::BadValue, id, message, None);
                    continue;
                };
                if !self.entries.contains(id) {
                    let message = format!("the label '{text}' is on no entry, and is left out: '{id}'");
                    self.found(FindingKind::LabelOfNothing, id, message, None);
                    continue;
                }
            }
            self.keep_value(address, seq, Payload::Found(payload));
        }
        Ok(())
    }

    /// The list that an import ends with its source record is kept under another key if that is lost: nothing
    /// then takes it for whole.
    fn end_lists(&mut self) -> Result<()> {
        for (address, elements) in std::mem::take(&mut self.lists) {
            let mut address = address;
            if address.namespace() == LEGACY_LIST
                && address.key().is_empty()
                && let Some(last) = elements.last()
                && !crate::legacy::same::is_source(&self.read(&address, &last.payload)?)
            {
                let kept_as = Address::known(LEGACY_LIST, "incomplete");
                let message =
                    format!("the list of the import at {address} has lost its end; it is kept at {kept_as}");
                self.found(FindingKind::UnfinishedImport, "", message, None);
                address = kept_as;
            }
            for Stored { seq, payload } in elements {
                let what = What::AppendList(address.clone());
                self.kept.push(Kept { seq, what, payload: Payload::Found(payload) });
            }
        }
        Ok(())
    }
}

fn is_tip(what: &What) -> bool {
    matches!(what, What::SetValue(address) if address.namespace() == reserved::BRANCH_TIP)
}
