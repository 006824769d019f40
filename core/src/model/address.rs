//! The library's own addresses: what stands where in the reserved namespaces.
//!
//! One function for each of them, which checks what its key is made of. What an agent keeps is opaque here
//! and has a plain [`Address`]; strings have a typed one.
//!
//! ```
//! use pisession::{Context, SessionReader, addresses, open_repository};
//!
//! let ctx = Context::background();
//! let session = open_repository("memory:", Default::default())?.create(&Default::default(), &ctx)?;
//! session.create_branch("main", None, &ctx)?;
//!
//! // Two branches and a name in one commit.
//! let (main, other) = (addresses::branch_tip("main")?, addresses::branch_tip("other")?);
//! session.mutate(|mutator, ctx| {
//!     let tip = main.get(mutator, ctx)?.flatten();
//!     let name = addresses::session_name().set(&"two ways".to_owned())?;
//!     mutator.commit(&[other.set(&tip)?, name], ctx)
//! }, &ctx)?;
//! let tips = session.scan_values(&addresses::branch_tip_inventory_prefix(), &ctx)?;
//! assert_eq!(tips.iter().map(|tip| tip.address.key()).collect::<Vec<_>>(), ["main", "other"]);
//! # Ok::<(), pisession::Error>(())
//! ```

use crate::error::{Error, ErrorKind, Result};
use crate::model::id::check_id;
use crate::model::value::{Address, Value, ValueList};

/// The reserved namespaces.
pub(crate) mod reserved {
    /// Tip of a branch: value, key = branch name.
    pub(crate) const BRANCH_TIP: &str = "pi.branch.tip";
    /// Configuration of a lane: value, key = lane.
    pub(crate) const LANE_CONFIG: &str = "pi.lane.config";
    /// State of a lane: value, key = lane.
    pub(crate) const LANE_STATE: &str = "pi.lane.state";
    /// Name of the session: value, key empty.
    pub(crate) const SESSION_NAME: &str = "pi.session.name";
    /// Label of an entry: value, key = entry id.
    pub(crate) const ENTRY_LABEL: &str = "pi.entry.label";
    /// Result of an operation: value, key = operation.
    pub(crate) const RESULT: &str = "pi.result";
    /// What an operation was accepted with: value, key = operation.
    pub(crate) const OPERATION_META: &str = "pi.op.meta";
    /// Where an operation goes on from: value, key = operation.
    pub(crate) const OPERATION_STATE: &str = "pi.op.state";
    /// Arguments of a tool call: value, key = operation, step and index.
    pub(crate) const TOOL_ARGS: &str = "pi.op.tool_args";
    /// What a tool noted for itself: value, key = operation, invocation and name.
    pub(crate) const TOOL_MEMO: &str = "pi.op.tool_memo";
    /// Preparation of a summary: value, key = operation and task.
    pub(crate) const PREPARATION: &str = "pi.op.preparation";
    /// Content that waits for its place: value, key = entry id.
    pub(crate) const PENDING_ENTRY: &str = "pi.pending.entry";
    /// Newest progress of a tool: value, key = operation and invocation.
    pub(crate) const TOOL_OUTPUT: &str = "pi.pending.tool_output";
    /// Streamed frames of a response: list, key = operation and entry.
    pub(crate) const ASSISTANT_FRAME: &str = "pi.pending.assistant_frame";

    /// Every namespace that holds values.
    pub(crate) const VALUES: [&str; 13] = [
        BRANCH_TIP,
        LANE_CONFIG,
        LANE_STATE,
        SESSION_NAME,
        ENTRY_LABEL,
        RESULT,
        OPERATION_META,
        OPERATION_STATE,
        TOOL_ARGS,
        TOOL_MEMO,
        PREPARATION,
        PENDING_ENTRY,
        TOOL_OUTPUT,
    ];
    /// Every namespace that holds lists.
    pub(crate) const LISTS: [&str; 1] = [ASSISTANT_FRAME];
}

/// Checks the name of a branch or lane: not empty, without U+0000.
pub(crate) fn check_branch_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::new(ErrorKind::InvalidBranch, "a branch name must not be empty"));
    }
    if name.contains('\0') {
        return Err(Error::new(ErrorKind::InvalidBranch, "a branch name must not contain U+0000"));
    }
    Ok(())
}

/// The tip of a branch: an entry id, or none for an empty branch. The branch exists exactly when this does.
///
/// # Errors
/// [`InvalidBranch`](ErrorKind::InvalidBranch).
pub fn branch_tip(name: &str) -> Result<Value<Option<String>>> {
    check_branch_name(name)?;
    Ok(Value::of(Address::known(reserved::BRANCH_TIP, name)))
}

/// What the tips of all branches begin with, for [`scan_values`](crate::SessionReader::scan_values).
pub fn branch_tip_inventory_prefix() -> Address {
    Address::known(reserved::BRANCH_TIP, "")
}

/// What the agent of a lane is configured with.
///
/// # Errors
/// [`InvalidBranch`](ErrorKind::InvalidBranch).
pub fn lane_config(lane: &str) -> Result<Address> {
    check_branch_name(lane)?;
    Ok(Address::known(reserved::LANE_CONFIG, lane))
}

/// The state of a lane: its operations and its inbox.
///
/// # Errors
/// [`InvalidBranch`](ErrorKind::InvalidBranch).
pub fn lane_state(lane: &str) -> Result<Address> {
    check_branch_name(lane)?;
    Ok(Address::known(reserved::LANE_STATE, lane))
}

/// The result of an operation, written once.
///
/// # Errors
/// [`InvalidId`](ErrorKind::InvalidId).
pub fn operation_result(operation: &str) -> Result<Address> {
    of_ids(reserved::RESULT, &[operation])
}

/// What an operation was accepted with, written once.
///
/// # Errors
/// [`InvalidId`](ErrorKind::InvalidId).
pub fn operation_meta(operation: &str) -> Result<Address> {
    of_ids(reserved::OPERATION_META, &[operation])
}

/// Where an operation goes on from.
///
/// # Errors
/// [`InvalidId`](ErrorKind::InvalidId).
pub fn operation_state(operation: &str) -> Result<Address> {
    of_ids(reserved::OPERATION_STATE, &[operation])
}

/// The arguments that the tool call of that index in a step runs with.
///
/// # Errors
/// [`InvalidId`](ErrorKind::InvalidId).
pub fn tool_args(operation: &str, step: &str, index: u64) -> Result<Address> {
    of_ids(reserved::TOOL_ARGS, &[operation, step, &index.to_string()])
}

/// What a tool noted for itself under a name, in one invocation.
///
/// # Errors
/// [`InvalidId`](ErrorKind::InvalidId).
pub fn tool_memo(operation: &str, invocation: &str, name: &str) -> Result<Address> {
    of_ids(reserved::TOOL_MEMO, &[operation, invocation, name])
}

/// The preparation of a summary.
///
/// # Errors
/// [`InvalidId`](ErrorKind::InvalidId).
pub fn preparation(operation: &str, task: &str) -> Result<Address> {
    of_ids(reserved::PREPARATION, &[operation, task])
}

/// Content that waits for its place in the tree as the entry `id`.
///
/// # Errors
/// [`InvalidId`](ErrorKind::InvalidId).
pub fn pending_entry(id: &str) -> Result<Address> {
    check_id(id)?;
    Ok(Address::known(reserved::PENDING_ENTRY, id))
}

/// The newest progress of a tool's invocation.
///
/// # Errors
/// [`InvalidId`](ErrorKind::InvalidId).
pub fn tool_output(operation: &str, invocation: &str) -> Result<Address> {
    of_ids(reserved::TOOL_OUTPUT, &[operation, invocation])
}

/// The streamed frames of the response that becomes `entry`: a list, of whatever a frame is to the agent.
///
/// # Errors
/// [`InvalidId`](ErrorKind::InvalidId).
pub fn assistant_frames<T>(operation: &str, entry: &str) -> Result<ValueList<T>> {
    of_ids(reserved::ASSISTANT_FRAME, &[operation, entry]).map(ValueList::of)
}

/// The name of the session.
pub fn session_name() -> Value<String> {
    Value::of(Address::known(reserved::SESSION_NAME, ""))
}

/// The label of an entry.
///
/// # Errors
/// [`InvalidId`](ErrorKind::InvalidId).
pub fn entry_label(id: &str) -> Result<Value<String>> {
    check_id(id)?;
    Ok(Value::of(Address::known(reserved::ENTRY_LABEL, id)))
}

/// The address whose key is `parts` joined by colons. A colon inside any but the last would make two keys one.
fn of_ids(namespace: &str, parts: &[&str]) -> Result<Address> {
    for (at, part) in (1..).zip(parts) {
        check_id(part)?;
        if at < parts.len() && part.contains(':') {
            return Err(Error::new(ErrorKind::InvalidId, "this id must not contain a colon").with_id(*part));
        }
    }
    Ok(Address::known(namespace, &parts.join(":")))
}
