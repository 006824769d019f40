//! Branches.
//!
//! A branch is one named path through the entry tree: its tip, queries along it, direct appends. It is a name
//! and holds no state; two handles of one name are equal.

use std::ffi::c_char;
use std::sync::Arc;

use pisession::{Branch, BranchInfo, Result};

use crate::argument::{Out, Plain, View, json, optional_json, optional_text, text};
use crate::buf::{Text, pi_buf};
use crate::context::{self, pi_context};
use crate::entries::{branch_scan, pi_branch_scan, pi_cursor, pi_entries};
use crate::error::{PI_INVALID_ARGUMENT, PI_OK, pi_error};
use crate::guard::{guard, guard_value};
use crate::handle::{self, Handle};
use crate::nodes::{self, pi_ids, pi_nodes};
use crate::session::{self, Entered, pi_session};

/// A branch of an open session. To be freed with pi_branch_free.
pub struct pi_branch {
    branch: Branch,
    name: Text,
    session: Arc<pi_session>,
}

impl Handle for pi_branch {
    const NAME: &'static str = "branch";
}

impl pi_branch {
    fn give(session: &Entered, branch: Branch) -> Result<*mut pi_branch> {
        let name = Text::new(branch.name());
        handle::insert(pi_branch { branch, name, session: session.handle() })
    }
}

/// Makes a branch at an entry (at NULL: an empty branch). *branch is the caller's, to be freed with
/// pi_branch_free. Waits for its turn on the mutation line. PI_INVALID_BRANCH, PI_BRANCH_EXISTS,
/// PI_UNKNOWN_TARGET; what a commit fails with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_branch_create(
    session: *mut pi_session,
    name: *const c_char,
    name_len: usize,
    at: *const c_char,
    at_len: usize,
    branch: *mut *mut pi_branch,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let branch = Out::cleared(branch).required("branch")?;
            let name = text(name, name_len, "name")?;
            let at = optional_text(at, at_len, "at")?;
            let session = session::get(session)?;
            let made = session.create_branch(name, at, &context::get(context)?)?;
            let made = pi_branch::give(&session, made)?;
            branch.set(|| made);
            Ok(())
        })
    }
}

/// Gets the branch of that name. *branch is the caller's, to be freed with pi_branch_free; NULL when there is
/// none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_branch_get(
    session: *const pi_session,
    name: *const c_char,
    name_len: usize,
    branch: *mut *mut pi_branch,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and text are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let branch = Out::cleared(branch).required("branch")?;
            let name = text(name, name_len, "name")?;
            let session = session::get(session)?;
            if let Some(found) = session.branch(name, &context::get(context)?)? {
                let found = pi_branch::give(&session, found)?;
                branch.set(|| found);
            }
            Ok(())
        })
    }
}

/// Frees the branch handle; the branch stays. Nothing for NULL. PI_MISUSE if it is no live one.
#[unsafe(no_mangle)]
pub extern "C" fn pi_branch_free(branch: *mut pi_branch) -> i32 {
    guard_value(|| handle::free(branch))
}

/// The name of the branch. Borrowed: valid until the branch is freed. NULL for what is no live branch.
#[unsafe(no_mangle)]
pub extern "C" fn pi_branch_name(branch: *const pi_branch) -> *const c_char {
    guard_value(|| handle::get(branch).map_or(std::ptr::null(), |branch| branch.name.data()))
}

/// Reads the tip of the branch. *id is the caller's, to be freed with pi_buf_free; NULL for an empty branch.
/// PI_UNKNOWN_BRANCH if the branch was deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_branch_tip_id(
    branch: *const pi_branch,
    id: *mut *mut pi_buf,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let id = Out::cleared(id).required("id")?;
            let branch = handle::get(branch)?;
            let _session = branch.session.enter()?;
            if let Some(tip) = branch.branch.tip_id(&context::get(context)?)? {
                id.set(|| pi_buf::give(tip));
            }
            Ok(())
        })
    }
}

/// Appends a message (a JSON object) under the tip and moves the tip, in one commit. *id is the new entry's id,
/// the caller's, to be freed with pi_buf_free; id may be NULL. Waits for its turn on the mutation line.
/// PI_INVALID_JSON, PI_PENDING_ASSISTANT, PI_UNKNOWN_BRANCH if the branch was deleted; what a commit fails with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_branch_append_message(
    branch: *mut pi_branch,
    message: *const c_char,
    message_len: usize,
    id: *mut *mut pi_buf,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and text are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let id = Out::cleared(id);
            let message = json(message, message_len, "message")?;
            let branch = handle::get(branch)?;
            let _session = branch.session.enter()?;
            let made = branch.branch.append_message(&message, &context::get(context)?)?;
            id.set(|| pi_buf::give(made));
            Ok(())
        })
    }
}

/// Appends an entry of the application's own type, with JSON data or without (data NULL), under the tip and
/// moves the tip, in one commit. *id as for pi_branch_append_message, and so the errors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_branch_append_custom_entry(
    branch: *mut pi_branch,
    custom_type: *const c_char,
    custom_type_len: usize,
    data: *const c_char,
    data_len: usize,
    id: *mut *mut pi_buf,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let id = Out::cleared(id);
            let custom_type = text(custom_type, custom_type_len, "custom_type")?;
            let data = optional_json(data, data_len, "data")?;
            let branch = handle::get(branch)?;
            let _session = branch.session.enter()?;
            let made =
                branch.branch.append_custom_entry(custom_type, data.as_ref(), &context::get(context)?)?;
            id.set(|| pi_buf::give(made));
            Ok(())
        })
    }
}

/// Appends the nodes, each under the one before and the first under the tip, and moves the tip, in one commit.
/// Nothing for no nodes, which NULL is too. *ids has the id of each, in their order; it is the caller's, to be
/// freed with pi_ids_free; ids may be NULL. The nodes are as they were. Waits for its turn on the mutation line.
/// Errors as pi_branch_append_message; then none of the nodes is appended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_branch_append_many(
    branch: *mut pi_branch,
    nodes: *const pi_nodes,
    ids: *mut *mut pi_ids,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and batch are as the contract says (rules 2 and 3).
    unsafe {
        guard(error, || {
            let ids = Out::cleared(ids);
            let nodes = nodes::collected(nodes)?;
            let branch = handle::get(branch)?;
            let _session = branch.session.enter()?;
            let made = branch.branch.append_many(&nodes, &context::get(context)?)?;
            ids.set(|| pi_ids::give(&made));
            Ok(())
        })
    }
}

/// Finds entries on the branch's path, from its tip, newest first unless asked otherwise. scan may be NULL.
/// *entries is the caller's, to be freed with pi_entries_free. PI_UNKNOWN_BRANCH if the branch was deleted,
/// PI_UNKNOWN_ENTRY if its tip names no entry (a damaged file).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_branch_find_entries(
    branch: *const pi_branch,
    scan: *const pi_branch_scan,
    entries: *mut *mut pi_entries,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and query are as the contract says (rules 2 and 7).
    unsafe {
        guard(error, || {
            let entries = Out::cleared(entries).required("entries")?;
            let scan = branch_scan(scan)?;
            let branch = handle::get(branch)?;
            let _session = branch.session.enter()?;
            let found = branch.branch.find_entries(&scan, &context::get(context)?)?;
            entries.set(|| pi_entries::give(&found));
            Ok(())
        })
    }
}

/// The entries of pi_branch_find_entries one by one, read in pages along the path of the tip the branch has
/// now, which does not change. *cursor is the caller's, to be freed with pi_cursor_free. The context is looked
/// at once per page. Errors as pi_branch_find_entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_branch_entries(
    branch: *const pi_branch,
    scan: *const pi_branch_scan,
    cursor: *mut *mut pi_cursor,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and query are as the contract says (rules 2 and 7).
    unsafe {
        guard(error, || {
            let cursor = Out::cleared(cursor).required("cursor")?;
            let scan = branch_scan(scan)?;
            let branch = handle::get(branch)?;
            let session = branch.session.enter()?;
            let entries = branch.branch.entries(&scan, &context::get(context)?)?;
            let made = pi_cursor::give(session.handle(), entries)?;
            cursor.set(|| made);
            Ok(())
        })
    }
}

/// The branches of a session. To be freed with pi_branches_free.
pub struct pi_branches(Vec<(Text, Option<Text>)>);

/// One branch of a set: views that are valid until the set is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_branch_info {
    /// Its name.
    pub name: *const c_char,
    /// Bytes of name.
    pub name_len: usize,
    /// The id of its tip; NULL for an empty branch.
    pub tip_id: *const c_char,
    /// Bytes of tip_id.
    pub tip_id_len: usize,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_branch_info {}

/// Reads all branches with their tips, names ascending. *branches is the caller's, to be freed with
/// pi_branches_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_branches(
    session: *const pi_session,
    branches: *mut *mut pi_branches,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let branches = Out::cleared(branches).required("branches")?;
            let found = session::get(session)?.branches(&context::get(context)?)?;
            let text = |info: &BranchInfo| (Text::new(&info.name), info.tip_id.as_ref().map(Text::new));
            branches.set(|| handle::give(pi_branches(found.iter().map(text).collect())));
            Ok(())
        })
    }
}

/// How many branches there are. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_branches_count(branches: *const pi_branches) -> usize {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| unsafe { branches.as_ref() }.map_or(0, |branches| branches.0.len()))
}

/// Fills *view with the branch at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_branches_get(
    branches: *const pi_branches,
    index: usize,
    view: *mut pi_branch_info,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: the set is NULL or was not freed, the view NULL or writable for `size` bytes (rules 2, 3).
        let (view, branches) = unsafe { (View::cleared(view, size), branches.as_ref()) };
        match (view.required("view"), branches.and_then(|branches| branches.0.get(index))) {
            (Ok(view), Some((name, tip))) => {
                let (tip_id, tip_id_len) = Text::view(tip.as_ref());
                view.set(&pi_branch_info { name: name.data(), name_len: name.len(), tip_id, tip_id_len });
                PI_OK
            }
            _ => PI_INVALID_ARGUMENT,
        }
    })
}

/// Frees the set and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_branches_free(branches: *mut pi_branches) {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(branches) }));
}
