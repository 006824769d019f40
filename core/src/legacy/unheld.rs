//! What of a session's values, lists and ledger has no place in a file of version 3.

use crate::context::Context;
use crate::error::Result;
use crate::legacy::loss::{LossKind, Losses};
use crate::legacy::values::MAIN;
use crate::legacy::writes::LIST;
use crate::model::address::reserved;
use crate::model::json::{self, Json, text_of};
use crate::model::value::Address;
use crate::session::Session;
use crate::session::reader::SessionReader;
use crate::storage::query::UsageScan;

/// How many addresses or rows are read at a time.
const PAGE: usize = 256;

/// Counts all but the configuration, the name and the labels that the file's end says. `branch` is the
/// exported one.
pub(super) fn count_unheld(
    session: &Session,
    branch: Option<&str>,
    losses: &mut Losses,
    ctx: &Context,
) -> Result<()> {
    values(session, branch, losses, ctx)?;
    lists(session, losses, ctx)?;
    let mut scan = UsageScan { limit: Some(PAGE as u64), ..UsageScan::default() };
    loop {
        let page = session.scan_usage(&scan, ctx)?;
        let Some(last) = page.last() else { return Ok(()) };
        scan.from_seq = Some(last.seq + 1);
        for _ in page.iter().filter(|row| !is_of_import(&row.payload)) {
            losses.add(LossKind::UsageRow, "");
        }
    }
}

/// Whether a row of the ledger stands for the usage of the entries of an old file.
fn is_of_import(row: &Json) -> bool {
    let source = row.get("details").and_then(|details| json::get(details, "source"));
    row.get("adjustment") == Some("true") && source.and_then(text_of).as_deref() == Some("v3-import")
}

fn values(session: &Session, branch: Option<&str>, losses: &mut Losses, ctx: &Context) -> Result<()> {
    let mut after: Option<Address> = None;
    loop {
        let page = session.value_addresses(after.as_ref(), PAGE, ctx)?;
        for address in &page {
            let is_own = Some(address.key()) == branch;
            match address.namespace() {
                reserved::BRANCH_TIP if address.key() == MAIN && is_own => {}
                reserved::BRANCH_TIP => {
                    losses.add(LossKind::Branch, address.key());
                }
                reserved::LANE_CONFIG if !is_own => losses.of_address(LossKind::Lane, address),
                // The end of the file says them, or counts them.
                reserved::LANE_CONFIG | reserved::SESSION_NAME | reserved::ENTRY_LABEL => {}
                reserved::LANE_STATE => {
                    let state = session.get_value(address, ctx)?;
                    if state.is_some_and(|state| !is_idle(&state.value)) {
                        losses.of_address(LossKind::Operation, address);
                    }
                }
                reserved::RESULT => losses.of_address(LossKind::Result, address),
                name if is_of_operation(name) => losses.of_address(LossKind::Operation, address),
                _ => losses.of_address(LossKind::Value, address),
            }
        }
        let is_last = page.len() < PAGE;
        after = page.into_iter().next_back();
        if is_last || after.is_none() {
            return Ok(());
        }
    }
}

fn lists(session: &Session, losses: &mut Losses, ctx: &Context) -> Result<()> {
    let mut after: Option<Address> = None;
    loop {
        let page = session.list_addresses(after.as_ref(), PAGE, ctx)?;
        for address in &page {
            match address.namespace() {
                LIST if address.key().is_empty() => {}
                name if is_of_operation(name) => losses.of_address(LossKind::Operation, address),
                _ => losses.of_address(LossKind::List, address),
            }
        }
        let is_last = page.len() < PAGE;
        after = page.into_iter().next_back();
        if is_last || after.is_none() {
            return Ok(());
        }
    }
}

fn is_of_operation(namespace: &str) -> bool {
    namespace.starts_with("pi.op.") || namespace.starts_with("pi.pending.")
}

/// Whether a lane has nothing under way and nothing in its inbox.
fn is_idle(state: &Json) -> bool {
    let is_none = |name: &str| state.get(name).is_none_or(|value| value == "null");
    is_none("currentOperationId")
        && state.get("inbox").is_none_or(|inbox| inbox.split_whitespace().collect::<String>() == "[]")
}
