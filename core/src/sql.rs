//! Values and rows of read-only SQL.

/// A parameter of a query, or a cell of its result.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlValue {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A double.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// The result of a query, whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<SqlValue>>,
}

/// The version of the SQLite inside this library.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}
