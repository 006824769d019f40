//! Mutations.
//!
//! A mutation is one turn of a session's mutation line: reads, at most one commit, end. Ordinary code uses
//! pi_session_mutate, which ends it on every path; whoever calls pi_mutation_begin ends it. Inside a mutation
//! never run a model request, a tool, a timer, another writer of the session, or unbounded work.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use pisession::{CommitResult, Error, ErrorKind, Mutation, Result, SessionReader};

use crate::argument::{Out, UserData, View, address, is_null, text, texts};
use crate::buf::pi_buf;
use crate::context::{self, pi_context};
use crate::entries::{branch_scan, pi_branch_scan, pi_entries};
use crate::error::{PI_INVALID_ARGUMENT, PI_OK, pi_error};
use crate::guard::{guard, guard_object, guard_value};
use crate::handle::{self, Handle};
use crate::session::{self, Entered, pi_session, pi_stats};
use crate::value::{list_read, pi_elements, pi_list_read, pi_values, read_value};
use crate::writes::{collected, pi_writes};

/// A begun mutation. To be ended with pi_mutation_end and freed with pi_mutation_free, unless it was given to
/// the function of pi_session_mutate, which does both.
pub struct pi_mutation {
    mutation: Mutation,
    session: Arc<pi_session>,
    ends: Ends,
}

/// Who ends a mutation.
#[derive(PartialEq)]
enum Ends {
    ByHost,
    ByMutate,
}

impl Handle for pi_mutation {
    const NAME: &'static str = "mutation";
}

impl pi_mutation {
    fn check_end(&self) -> Result<()> {
        match self.ends {
            Ends::ByHost => Ok(()),
            Ends::ByMutate => Err(Error::new(
                ErrorKind::Misuse,
                "a mutation of pi_session_mutate is ended when its function returns",
            )
            .with_hint("return from the function")),
        }
    }
}

/// The mutation of that handle, entered as a call on its session.
fn get(mutation: *const pi_mutation) -> Result<(Arc<pi_mutation>, Entered)> {
    let mutation = handle::get(mutation)?;
    let entered = mutation.session.enter()?;
    Ok((mutation, entered))
}

/// Waits for its turn on the mutation line and begins a mutation. *mutation is the caller's, to be ended and
/// freed on every path. PI_CLOSED, PI_CANCELLED, PI_DEADLINE_EXCEEDED; PI_NESTED_MUTATION if this thread holds
/// the line itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_mutation_begin(
    session: *mut pi_session,
    mutation: *mut *mut pi_mutation,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let mutation = Out::cleared(mutation).required("mutation")?;
            let session = session::get(session)?;
            let begun = session.begin_mutation(&context::get(context)?)?;
            let begun = handle::insert(pi_mutation {
                mutation: begun,
                session: session.handle(),
                ends: Ends::ByHost,
            })?;
            mutation.set(|| begun);
            Ok(())
        })
    }
}

/// Reads those of count ids that exist. As pi_session_get_entries; PI_MUTATION_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_mutation_get_entries(
    mutation: *const pi_mutation,
    ids: *const *const c_char,
    id_lens: *const usize,
    count: usize,
    entries: *mut *mut pi_entries,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let entries = Out::cleared(entries).required("entries")?;
            let ids = texts(ids, id_lens, count, "ids")?;
            let (mutation, _session) = get(mutation)?;
            let found = mutation.mutation.get_entries(&ids, &context::get(context)?)?;
            entries.set(|| pi_entries::give(&found));
            Ok(())
        })
    }
}

/// Reads the entries on the path from the entry start. As pi_session_scan_branch; PI_MUTATION_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_mutation_scan_branch(
    mutation: *const pi_mutation,
    start: *const c_char,
    start_len: usize,
    scan: *const pi_branch_scan,
    entries: *mut *mut pi_entries,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, text and query are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let entries = Out::cleared(entries).required("entries")?;
            let start = text(start, start_len, "start")?;
            let scan = branch_scan(scan)?;
            let (mutation, _session) = get(mutation)?;
            let found = mutation.mutation.scan_branch(start, &scan, &context::get(context)?)?;
            entries.set(|| pi_entries::give(&found));
            Ok(())
        })
    }
}

/// Reads where the entries on the path from the entry start stand. As pi_session_scan_branch_structure;
/// PI_MUTATION_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_mutation_scan_branch_structure(
    mutation: *const pi_mutation,
    start: *const c_char,
    start_len: usize,
    scan: *const pi_branch_scan,
    entries: *mut *mut pi_entries,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, text and query are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let entries = Out::cleared(entries).required("entries")?;
            let start = text(start, start_len, "start")?;
            let scan = branch_scan(scan)?;
            let (mutation, _session) = get(mutation)?;
            let found = mutation.mutation.scan_branch_structure(start, &scan, &context::get(context)?)?;
            entries.set(|| pi_entries::give_structure(&found));
            Ok(())
        })
    }
}

/// Fills *stats with the totals of the session. As pi_session_stats; PI_MUTATION_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_mutation_stats(
    mutation: *const pi_mutation,
    stats: *mut pi_stats,
    size: usize,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the outputs are NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            let view = View::cleared(stats, size).required("stats")?;
            let (mutation, _session) = get(mutation)?;
            view.set(&pi_stats::new(&mutation.mutation.stats(&context::get(context)?)?));
            Ok(())
        })
    }
}

/// Reads the value at an address. As pi_session_get_value; PI_MUTATION_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_mutation_get_value(
    mutation: *const pi_mutation,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    value: *mut *mut pi_buf,
    seq: *mut u64,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let (value, seq) = (Out::cleared(value), Out::cleared(seq));
            let value = value.required("value")?;
            let address = address(name_space, name_space_len, key, key_len)?;
            let (mutation, _session) = get(mutation)?;
            read_value(&*mutation.mutation, &address, value, seq, &context::get(context)?)
        })
    }
}

/// Reads the values of a namespace whose key starts with key_prefix. As pi_session_scan_values;
/// PI_MUTATION_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_mutation_scan_values(
    mutation: *const pi_mutation,
    name_space: *const c_char,
    name_space_len: usize,
    key_prefix: *const c_char,
    key_prefix_len: usize,
    values: *mut *mut pi_values,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and texts are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let values = Out::cleared(values).required("values")?;
            let prefix = address(name_space, name_space_len, key_prefix, key_prefix_len)?;
            let (mutation, _session) = get(mutation)?;
            let found = mutation.mutation.scan_values(&prefix, &context::get(context)?)?;
            values.set(|| pi_values::give(&found));
            Ok(())
        })
    }
}

/// Reads elements of a list. As pi_session_read_list; PI_MUTATION_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_mutation_read_list(
    mutation: *const pi_mutation,
    name_space: *const c_char,
    name_space_len: usize,
    key: *const c_char,
    key_len: usize,
    read: *const pi_list_read,
    elements: *mut *mut pi_elements,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, texts and query are as the contract says (rules 2, 5 and 7).
    unsafe {
        guard(error, || {
            let elements = Out::cleared(elements).required("elements")?;
            let address = address(name_space, name_space_len, key, key_len)?;
            let read = list_read(read)?;
            let (mutation, _session) = get(mutation)?;
            let found = mutation.mutation.read_list(&address, &read, &context::get(context)?)?;
            elements.set(|| pi_elements::give(&found));
            Ok(())
        })
    }
}

/// Applies writes (NULL: none), all or nothing. Legal once; the line stays held until the mutation ends. *result
/// is the caller's, to be freed with pi_commit_result_free; result may be NULL. PI_COMMIT_ATTEMPTED the second
/// time, also after a failed first; PI_MUTATION_ENDED; PI_DUPLICATE_ID, PI_MISSING_PARENT, PI_UNKNOWN_TARGET,
/// PI_PENDING_ASSISTANT, PI_RESERVED_ADDRESS, PI_INVALID_ID, PI_TOO_LARGE, PI_READ_ONLY, ... with nothing
/// written. Returns when the commit is durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_mutation_commit(
    mutation: *mut pi_mutation,
    writes: *const pi_writes,
    result: *mut *mut pi_commit_result,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and batch are as the contract says (rules 2 and 3).
    unsafe {
        guard(error, || {
            let result = Out::cleared(result);
            let writes = collected(writes)?;
            let (mutation, _session) = get(mutation)?;
            let committed = mutation.mutation.commit(&writes, &context::get(context)?)?;
            result.set(|| handle::give(pi_commit_result(committed)));
            Ok(())
        })
    }
}

/// Waits for an admitted commit, ends the mutation and releases the line. May be called again, and without a
/// commit before. The mutation is still to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_mutation_end(mutation: *mut pi_mutation, error: *mut *mut pi_error) -> i32 {
    // SAFETY: the output is NULL or writable (rule 2).
    unsafe {
        guard(error, || {
            // Ending is for latched sessions too.
            let mutation = handle::get(mutation)?;
            mutation.check_end()?;
            mutation.mutation.end();
            Ok(())
        })
    }
}

/// Ends the mutation if need be, and frees it. Nothing for NULL. PI_MISUSE if it is no live one, or belongs to
/// pi_session_mutate.
#[unsafe(no_mangle)]
pub extern "C" fn pi_mutation_free(mutation: *mut pi_mutation) -> i32 {
    guard_value(|| {
        let end = || {
            if !mutation.is_null() {
                handle::get(mutation)?.check_end()?;
            }
            handle::remove(mutation)
        };
        match end() {
            Ok(Some(mutation)) => {
                // Not left to the last reference: another thread may still be reading.
                mutation.mutation.end();
                PI_OK
            }
            Ok(None) => PI_OK,
            Err(error) => -error.kind().number(),
        }
    })
}

/// A function that runs inside a mutation. It returns 0, or a negative number; error, which is not NULL and holds
/// NULL, may be handed on to the library's functions, so that what they fail with reaches the caller of
/// pi_session_mutate. Each of them overwrites *error: to go on after a failure, free *error and set it to NULL
/// before it is passed to another call.
pub type pi_mutate_function = Option<
    unsafe extern "C" fn(
        mutation: *mut pi_mutation,
        context: *const pi_context,
        user_data: *mut c_void,
        error: *mut *mut pi_error,
    ) -> i32,
>;

/// Takes leave of a host's user_data.
pub type pi_drop_function = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// Runs function on the mutation line, on the calling thread: begin, function, end, whatever function does. A
/// commit made before function failed stays. function reads, decides, commits at most once and returns 0; the
/// mutation it is given is dead when it returns, and not its to end or free. It must not let a C++ exception
/// or a longjmp leave it, nor wait for another writer of the session. drop (may be NULL) is called with
/// user_data exactly once before the call returns, also when it fails.
/// As pi_mutation_begin; if function returns a negative number, that number comes back, with the error it left
/// or one made of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_mutate(
    session: *mut pi_session,
    function: pi_mutate_function,
    user_data: *mut c_void,
    drop: pi_drop_function,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: the output is NULL or writable (rule 2); function and drop take `user_data` (rule 10).
    unsafe {
        guard_object(error, || {
            let _user_data = UserData { data: user_data, drop };
            let (function, mutation) = begin(session, function, context).map_err(pi_error::new)?;
            let mut failure: *mut pi_error = std::ptr::null_mut();
            let code = function(mutation.handle, context, user_data, &raw mut failure);
            std::mem::drop(mutation);
            returned(code, handle::take_back(failure))
        })
    }
}

type MutateFunction =
    unsafe extern "C" fn(*mut pi_mutation, *const pi_context, *mut c_void, *mut *mut pi_error) -> i32;

fn begin(
    session: *mut pi_session,
    function: pi_mutate_function,
    context: *const pi_context,
) -> Result<(MutateFunction, Running)> {
    let function = function.ok_or_else(|| is_null("function"))?;
    let entered = session::get(session)?;
    let mutation = entered.begin_mutation(&context::get(context)?)?;
    let handle = handle::insert(pi_mutation { mutation, session: entered.handle(), ends: Ends::ByMutate })?;
    Ok((function, Running { handle, _session: entered }))
}

/// A mutation whose function runs; dropped, it ends.
struct Running {
    handle: *mut pi_mutation,
    _session: Entered,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only a forked child finds no mutation here, and it must not end its parent's.
        if let Ok(Some(mutation)) = handle::remove(self.handle) {
            mutation.mutation.end();
        }
    }
}

/// What the host's function said.
fn returned(code: i32, failure: Option<Box<pi_error>>) -> Result<(), Box<pi_error>> {
    match (code, failure) {
        (PI_OK, _) => Ok(()),
        (_, Some(failure)) if failure.code() == code => Err(failure),
        (..0, _) => Err(pi_error::of_host(code)),
        _ => Err(pi_error::new(
            Error::new(
                ErrorKind::InvalidArgument,
                format!("the function given to pi_session_mutate returned {code}"),
            )
            .with_hint("return 0 for success and a negative number for failure"),
        )),
    }
}

/// What a commit did. To be freed with pi_commit_result_free.
pub struct pi_commit_result(CommitResult);

/// The first seq of the commit; of an empty commit the next one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_commit_result_first_seq(result: *const pi_commit_result) -> u64 {
    // SAFETY: NULL or a result that was not freed (rule 3).
    guard_value(|| unsafe { result.as_ref() }.map_or(0, |result| result.0.first_seq))
}

/// How many writes the commit had. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_commit_result_count(result: *const pi_commit_result) -> usize {
    // SAFETY: NULL or a result that was not freed (rule 3).
    guard_value(|| unsafe { result.as_ref() }.map_or(0, |result| result.0.seqs.len()))
}

/// The seq of each write, in their order: pi_commit_result_count of them. Borrowed: valid until the result is
/// freed. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_commit_result_seqs(result: *const pi_commit_result) -> *const u64 {
    // SAFETY: NULL or a result that was not freed (rule 3).
    guard_value(|| unsafe { result.as_ref() }.map_or(std::ptr::null(), |result| result.0.seqs.as_ptr()))
}

/// The one timestamp of all entries of the commit, Unix ms.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_commit_result_timestamp(result: *const pi_commit_result) -> i64 {
    // SAFETY: NULL or a result that was not freed (rule 3).
    guard_value(|| unsafe { result.as_ref() }.map_or(0, |result| result.0.timestamp))
}

/// Fills *stats with the session's totals right after the commit; size is sizeof *stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_commit_result_stats(
    result: *const pi_commit_result,
    stats: *mut pi_stats,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: the result is NULL or was not freed, the output NULL or writable (rules 2 and 3).
        let (view, result) = unsafe { (View::cleared(stats, size), result.as_ref()) };
        match (view.required("stats"), result) {
            (Ok(view), Some(result)) => {
                view.set(&pi_stats::new(&result.0.stats));
                PI_OK
            }
            _ => PI_INVALID_ARGUMENT,
        }
    })
}

/// Frees the result and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_commit_result_free(result: *mut pi_commit_result) {
    // SAFETY: NULL or a result that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(result) }));
}
