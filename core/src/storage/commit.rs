//! What every commit checks, on every backend, before anything is written.

use hashbrown::HashSet;

use crate::error::{Error, ErrorKind, Result};
use crate::model::address::reserved;
use crate::model::entry::EntryType;
use crate::model::json::{Json, text_of};
use crate::model::usage::Stats;
use crate::model::value::Address;
use crate::model::write::Write;

/// The largest `seq`: every one of them is an exact double.
pub(crate) const MAX_SEQ: u64 = (1 << 53) - 1;
/// How many bytes of payload a commit may have.
pub(crate) const MAX_COMMIT: usize = 1 << 30;

/// What the check needs to know of the session.
pub(crate) trait Known {
    /// Whether an entry of that id exists.
    fn has_entry(&self, id: &str) -> Result<bool>;
    /// Whether a usage row of that id exists.
    fn has_usage(&self, id: &str) -> Result<bool>;
    /// Whether either exists.
    fn is_taken(&self, id: &str) -> Result<bool> {
        Ok(self.has_entry(id)? || self.has_usage(id)?)
    }
}

/// Checks `writes` against the session; `max_payload` bounds each payload.
pub(crate) fn check(writes: &[Write], known: &dyn Known, next_seq: u64, max_payload: usize) -> Result<()> {
    let mut entries: HashSet<&str> = HashSet::new();
    let mut rows: HashSet<&str> = HashSet::new();
    let mut bytes = 0;
    for write in writes {
        let length = payload_length(write);
        crate::model::json::check_size(length, max_payload)?;
        bytes += length;
        match write {
            Write::Entry(entry) => {
                entry.check()?;
                check_new_id(&entry.id, &entries, &rows, known)?;
                if let Some(parent) = &entry.parent_id
                    && !entries.contains(parent.as_str())
                    && !known.has_entry(parent)?
                {
                    return Err(Error::new(
                        ErrorKind::MissingParent,
                        format!("the parent '{parent}' of entry '{}' does not exist", entry.id),
                    )
                    .with_id(parent)
                    .with_hint("write the parent earlier in the same commit, or name one that exists"));
                }
                entries.insert(&entry.id);
            }
            Write::Usage(row) => {
                crate::model::id::check_id(&row.id)?;
                check_new_id(&row.id, &entries, &rows, known)?;
                rows.insert(&row.id);
            }
            Write::SetValue(address, value) => check_set(address, value)?,
            Write::AppendList(address, _) => check_reserved(address, &reserved::LISTS)?,
            Write::DeleteValue(_) | Write::DeleteList(_) => {}
        }
    }
    // Tips may name entries that come later in the same commit, so they are looked at last.
    for write in writes {
        if let Write::SetValue(address, value) = write
            && address.namespace() == reserved::BRANCH_TIP
            && let Some(target) = text_of(value.as_str())
            && !entries.contains(target.as_ref())
            && !known.has_entry(&target)?
        {
            return Err(Error::new(
                ErrorKind::UnknownTarget,
                format!("the tip of branch '{}' cannot be '{target}': no such entry", address.key()),
            )
            .with_id(target));
        }
    }
    if bytes > MAX_COMMIT {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("a commit of {bytes} bytes is over the limit of {MAX_COMMIT}"),
        )
        .with_hint("split it into several commits"));
    }
    if next_seq.checked_add(writes.len() as u64).is_none_or(|end| end > MAX_SEQ + 1) {
        return Err(Error::new(ErrorKind::TooLarge, "the session's sequence is used up")
            .with_hint("copy the session; a copy of what is alive starts again"));
    }
    Ok(())
}

/// How many bytes of payload a write has.
pub(crate) fn payload_length(write: &Write) -> usize {
    match write {
        Write::Entry(entry) => entry.payload.as_str().len(),
        Write::Usage(row) => row.payload.as_str().len(),
        Write::SetValue(_, json) | Write::AppendList(_, json) => json.as_str().len(),
        Write::DeleteValue(_) | Write::DeleteList(_) => 0,
    }
}

fn check_new_id(id: &str, entries: &HashSet<&str>, rows: &HashSet<&str>, known: &dyn Known) -> Result<()> {
    if entries.contains(id) || rows.contains(id) || known.is_taken(id)? {
        return Err(Error::new(
            ErrorKind::DuplicateId,
            format!("an entry or usage row '{id}' exists already"),
        )
        .with_id(id)
        .with_hint("entries are written once; use a new id"));
    }
    Ok(())
}

fn check_set(address: &Address, value: &Json) -> Result<()> {
    check_reserved(address, &reserved::VALUES)?;
    let wrong = |what: &str| {
        Err(Error::new(ErrorKind::InvalidArgument, format!("the value at {address} must be {what}")))
    };
    match address.namespace() {
        reserved::BRANCH_TIP if address.key().is_empty() => {
            Err(Error::new(ErrorKind::InvalidBranch, "a branch name must not be empty"))
        }
        reserved::BRANCH_TIP if value.as_text().is_none() && !value.is_null() => wrong("an entry id or null"),
        reserved::SESSION_NAME if !address.key().is_empty() => Err(undeclared(address)),
        reserved::SESSION_NAME | reserved::ENTRY_LABEL if !value.is_string() => wrong("a string"),
        _ => Ok(()),
    }
}

fn check_reserved(address: &Address, declared: &[&str]) -> Result<()> {
    if address.is_reserved() && !declared.contains(&address.namespace()) {
        return Err(undeclared(address));
    }
    Ok(())
}

fn undeclared(address: &Address) -> Error {
    Error::new(
        ErrorKind::ReservedAddress,
        format!("the address {address} belongs to the library and is not declared"),
    )
    .with_hint("choose a namespace of your own that is neither 'pi' nor starts with 'pi.'")
}

/// The totals after `writes`.
pub(crate) fn stats_after(before: &Stats, writes: &[Write]) -> Stats {
    let mut stats = *before;
    for write in writes {
        match write {
            Write::Entry(entry) if entry.entry_type == EntryType::Message => stats.message_count += 1,
            Write::Usage(row) => stats.usage.add(&row.usage),
            _ => {}
        }
    }
    stats
}
