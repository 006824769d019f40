//! Usage.
//!
//! The ledger of a session: one row for every request that was paid for, and for every correction. Rows are
//! written with pi_writes_insert_usage; their sums are in pi_stats.

use std::ffi::c_char;

use pisession::{Order, Result, UsageRow, UsageScan};

use crate::argument::{self, Out, Plain, View, init_options, optional_number, order};
use crate::buf::Text;
use crate::context::{self, pi_context};
use crate::error::{PI_INVALID_ARGUMENT, PI_OK, pi_error};
use crate::guard::{guard, guard_value};
use crate::handle;
use crate::session::{self, pi_session};

/// Which rows of the ledger to read. To be filled by pi_usage_scan_init first; 0 and NULL are defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_usage_scan {
    /// Set by pi_usage_scan_init.
    pub struct_size: usize,
    /// From this seq on, inclusive; NULL for all.
    pub from_seq: *const u64,
    /// Up to this seq, inclusive; NULL for all.
    pub to_seq: *const u64,
    /// At most so many; 0 gives none; NULL for all.
    pub limit: *const u64,
    /// PI_ASCENDING (default) or PI_DESCENDING.
    pub order: i64,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_usage_scan {}

/// Fills scan with defaults; size is sizeof *scan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_usage_scan_init(scan: *mut pi_usage_scan, size: usize) {
    // SAFETY: NULL or writable for `size` bytes (rule 7).
    guard_value(|| unsafe { init_options(scan, size, &[]) });
}

/// The rows asked for.
///
/// # Safety
/// `scan` is as [`argument::options`] asks, its numbers NULL or readable.
unsafe fn usage_scan(scan: *const pi_usage_scan) -> Result<UsageScan> {
    // SAFETY: as asked for.
    unsafe {
        let scan = argument::options(scan)?;
        Ok(UsageScan {
            from_seq: optional_number(scan.from_seq),
            to_seq: optional_number(scan.to_seq),
            order: order(scan.order, Order::Ascending)?,
            limit: optional_number(scan.limit),
        })
    }
}

/// Reads rows of the ledger, oldest first unless asked otherwise. scan may be NULL. *rows is the caller's, to be
/// freed with pi_usage_rows_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_scan_usage(
    session: *const pi_session,
    scan: *const pi_usage_scan,
    rows: *mut *mut pi_usage_rows,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs and query are as the contract says (rules 2 and 7).
    unsafe {
        guard(error, || {
            let rows = Out::cleared(rows).required("rows")?;
            let scan = usage_scan(scan)?;
            let found = session::get(session)?.scan_usage(&scan, &context::get(context)?)?;
            rows.set(|| handle::give(pi_usage_rows(found.iter().map(RowText::new).collect())));
            Ok(())
        })
    }
}

/// Rows of the ledger. To be freed with pi_usage_rows_free.
pub struct pi_usage_rows(Vec<RowText>);

/// A row as C reads it.
struct RowText {
    id: Text,
    seq: u64,
    payload: Text,
}

impl RowText {
    fn new(row: &UsageRow) -> Self {
        Self { id: Text::new(&row.id), seq: row.seq, payload: Text::new(row.payload.as_str()) }
    }
}

/// One row of the ledger: views that are valid until the set is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_usage_row {
    /// Its id.
    pub id: *const c_char,
    /// Bytes of id.
    pub id_len: usize,
    /// Its place in the session's order.
    pub seq: u64,
    /// The JSON object of its other fields, exactly as stored: usage, adjustment, entryId?, details?, others.
    pub payload: *const c_char,
    /// Bytes of payload.
    pub payload_len: usize,
}

// SAFETY: integers, and pointers that may be NULL.
unsafe impl Plain for pi_usage_row {}

/// How many rows were read. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_usage_rows_count(rows: *const pi_usage_rows) -> usize {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| unsafe { rows.as_ref() }.map_or(0, |rows| rows.0.len()))
}

/// Fills *view with the row at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_usage_rows_get(
    rows: *const pi_usage_rows,
    index: usize,
    view: *mut pi_usage_row,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: the set is NULL or was not freed, the view NULL or writable for `size` bytes (rules 2, 3).
        let (view, rows) = unsafe { (View::cleared(view, size), rows.as_ref()) };
        match (view.required("view"), rows.and_then(|rows| rows.0.get(index))) {
            (Ok(view), Some(row)) => {
                view.set(&pi_usage_row {
                    id: row.id.data(),
                    id_len: row.id.len(),
                    seq: row.seq,
                    payload: row.payload.data(),
                    payload_len: row.payload.len(),
                });
                PI_OK
            }
            _ => PI_INVALID_ARGUMENT,
        }
    })
}

/// Frees the set and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_usage_rows_free(rows: *mut pi_usage_rows) {
    // SAFETY: NULL or a set that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(rows) }));
}
