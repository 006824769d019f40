//! SQL.
//!
//! Read-only SQL over the documented views of one session that is kept in SQLite: session, entry, branch, value,
//! list_element and usage. What a query gives is a table of cells.

use std::ffi::c_char;

use pisession::{Error, ErrorKind, Result, Rows, SqlValue};

use crate::argument::{self, Out, Plain, View, text};
use crate::buf::Text;
use crate::context::{self, pi_context};
use crate::error::{PI_INVALID_ARGUMENT, PI_OK, pi_error};
use crate::guard::{guard, guard_value};
use crate::handle;
use crate::session::{self, pi_session};

/// NULL of SQL.
pub const PI_CELL_NULL: i64 = 0;
/// A 64-bit integer.
pub const PI_CELL_INTEGER: i64 = 1;
/// A double.
pub const PI_CELL_REAL: i64 = 2;
/// Text, UTF-8.
pub const PI_CELL_TEXT: i64 = 3;
/// Bytes.
pub const PI_CELL_BLOB: i64 = 4;

/// A cell of a result, or a parameter of a query. A zeroed one is NULL of SQL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pi_cell {
    /// PI_CELL_NULL, PI_CELL_INTEGER, PI_CELL_REAL, PI_CELL_TEXT or PI_CELL_BLOB.
    pub r#type: i64,
    /// The integer.
    pub integer: i64,
    /// The double.
    pub real: f64,
    /// The text, or the bytes.
    pub data: *const c_char,
    /// Bytes of data; in a parameter that is a text, PI_NUL says that it ends with a NUL.
    pub data_len: usize,
}

// SAFETY: numbers, and a pointer that may be NULL.
unsafe impl Plain for pi_cell {}

/// A parameter.
///
/// # Safety
/// Its data is as [`argument::text`] asks.
unsafe fn parameter(cell: &pi_cell) -> Result<SqlValue> {
    Ok(match cell.r#type {
        PI_CELL_NULL => SqlValue::Null,
        PI_CELL_INTEGER => SqlValue::Integer(cell.integer),
        PI_CELL_REAL => SqlValue::Real(cell.real),
        // SAFETY: as asked for.
        PI_CELL_TEXT => SqlValue::Text(unsafe { text(cell.data, cell.data_len, "a parameter") }?.to_owned()),
        PI_CELL_BLOB => {
            // SAFETY: as asked for.
            let bytes = unsafe { argument::blob(cell.data, cell.data_len, "a parameter") }?;
            SqlValue::Blob(bytes.to_vec())
        }
        other => {
            return Err(Error::new(ErrorKind::InvalidArgument, format!("{other} is no type of a cell"))
                .with_hint("use one of the PI_CELL_ constants"));
        }
    })
}

/// Runs one statement that reads the session's views; ?1 stands for parameters[0], and so on. parameters may be
/// NULL when count is 0. *rows is the caller's, to be freed with pi_rows_free. The context interrupts it.
/// PI_UNSUPPORTED where the session is not kept in SQLite, PI_INVALID_ARGUMENT for SQL that is wrong or would
/// write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_session_query(
    session: *const pi_session,
    sql: *const c_char,
    sql_len: usize,
    parameters: *const pi_cell,
    count: usize,
    rows: *mut *mut pi_rows,
    context: *const pi_context,
    error: *mut *mut pi_error,
) -> i32 {
    // SAFETY: outputs, text and parameters are as the contract says (rules 2 and 5).
    unsafe {
        guard(error, || {
            let rows = Out::cleared(rows).required("rows")?;
            let sql = text(sql, sql_len, "sql")?;
            let parameters = argument::array(parameters, count, "parameters")?;
            let parameters = parameters.iter().map(|cell| parameter(cell)).collect::<Result<Vec<_>>>()?;
            let found = session::get(session)?.query(sql, &parameters, &context::get(context)?)?;
            rows.set(|| handle::give(pi_rows::new(&found)));
            Ok(())
        })
    }
}

/// The result of a query. To be freed with pi_rows_free.
pub struct pi_rows {
    columns: Vec<Text>,
    rows: Vec<Vec<Cell>>,
}

/// A cell as C reads it.
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(Text),
    Blob(Text),
}

impl pi_rows {
    fn new(found: &Rows) -> Self {
        let cell = |value: &SqlValue| match value {
            SqlValue::Null => Cell::Null,
            SqlValue::Integer(integer) => Cell::Integer(*integer),
            SqlValue::Real(real) => Cell::Real(*real),
            SqlValue::Text(text) => Cell::Text(Text::new(text)),
            SqlValue::Blob(bytes) => Cell::Blob(Text::new(bytes)),
        };
        Self {
            columns: found.columns.iter().map(Text::new).collect(),
            rows: found.rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
        }
    }
}

impl Cell {
    fn view(&self) -> pi_cell {
        let null =
            pi_cell { r#type: PI_CELL_NULL, integer: 0, real: 0.0, data: std::ptr::null(), data_len: 0 };
        let text = |r#type, text: &Text| pi_cell { r#type, data: text.data(), data_len: text.len(), ..null };
        match self {
            Self::Null => null,
            Self::Integer(integer) => pi_cell { r#type: PI_CELL_INTEGER, integer: *integer, ..null },
            Self::Real(real) => pi_cell { r#type: PI_CELL_REAL, real: *real, ..null },
            Self::Text(data) => text(PI_CELL_TEXT, data),
            Self::Blob(data) => text(PI_CELL_BLOB, data),
        }
    }
}

/// How many rows came. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_rows_count(rows: *const pi_rows) -> usize {
    // SAFETY: NULL or a result that was not freed (rule 3).
    guard_value(|| unsafe { rows.as_ref() }.map_or(0, |rows| rows.rows.len()))
}

/// How many columns each row has. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_rows_column_count(rows: *const pi_rows) -> usize {
    // SAFETY: NULL or a result that was not freed (rule 3).
    guard_value(|| unsafe { rows.as_ref() }.map_or(0, |rows| rows.columns.len()))
}

/// The name of a column. Borrowed from the result. NULL beyond the last one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_rows_column_name(rows: *const pi_rows, column: usize) -> *const c_char {
    guard_value(|| {
        // SAFETY: NULL or a result that was not freed (rule 3).
        let rows = unsafe { rows.as_ref() };
        rows.and_then(|rows| rows.columns.get(column)).map_or(std::ptr::null(), Text::data)
    })
}

/// Fills *view with a cell, whose data is borrowed from the result; size is sizeof *view. PI_INVALID_ARGUMENT
/// beyond the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_rows_get(
    rows: *const pi_rows,
    row: usize,
    column: usize,
    view: *mut pi_cell,
    size: usize,
) -> i32 {
    guard_value(|| {
        // SAFETY: the result is NULL or was not freed, the view NULL or writable for `size` bytes (rules 2, 3).
        let (view, rows) = unsafe { (View::cleared(view, size), rows.as_ref()) };
        let cell = rows.and_then(|rows| rows.rows.get(row)).and_then(|row| row.get(column));
        match (view.required("view"), cell) {
            (Ok(view), Some(cell)) => {
                view.set(&cell.view());
                PI_OK
            }
            _ => PI_INVALID_ARGUMENT,
        }
    })
}

/// Frees the result and what was borrowed from it. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_rows_free(rows: *mut pi_rows) {
    // SAFETY: NULL or a result that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(rows) }));
}
