//! Read-only SQL of a host over the documented views, limited to one session.
//!
//! The connection is made for one call. TEMP views of the documented names shadow those of the file and show
//! the one session. Only they may read tables: an authorizer lets a table be read from inside their inner
//! views, whose names nobody can guess, and from nowhere else.

use std::fmt::Write as _;

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::{ToSqlOutput, Value as Cell, ValueRef};

use super::connection::Connection;
use super::database::Database;
use super::schema::VIEWS;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::sql::{Rows, SqlValue};

/// How many steps of SQLite's machine lie between two looks at the context.
const STEPS: i32 = 4000;

/// Table-valued functions that read nothing but their arguments.
const FUNCTION_TABLES: [&str; 4] = ["json_each", "json_tree", "jsonb_each", "jsonb_tree"];

/// Functions that reach beyond the views.
const FORBIDDEN_FUNCTIONS: [&str; 3] = ["load_extension", "fts3_tokenizer", "fts5"];

pub(super) fn run(
    database: &Database,
    sid: i64,
    sql: &str,
    parameters: &[SqlValue],
    ctx: &Context,
) -> Result<Rows> {
    if sql.contains('\0') {
        return Err(wrong("the SQL holds U+0000".to_owned()));
    }
    database.read_apart(ctx, |connection| {
        limit(connection, sid, ctx)?;
        let result = select(connection, sql, parameters, ctx);
        // Whatever an interrupted statement says, the context says why.
        match result {
            Err(error) => Err(ctx.check().err().unwrap_or(error)),
            done => done,
        }
    })
}

/// Limits the connection to reading the session's views.
fn limit(connection: &mut Connection, sid: i64, ctx: &Context) -> Result<()> {
    let secret = uuid::Uuid::now_v7().simple().to_string();
    let mut views = String::new();
    for (name, select) in VIEWS {
        // Writing to a String cannot fail.
        let _ = write!(
            views,
            "CREATE TEMP VIEW \"{name}#{secret}\" AS {select}s.sid = {sid} AND s.state = 0;
             CREATE TEMP VIEW \"{name}\" AS SELECT * FROM temp.\"{name}#{secret}\";"
        );
    }
    views.push_str("PRAGMA query_only = ON;");
    let made = connection.sql().execute_batch(&views);
    made.map_err(|error| connection.fault("prepare the session's views in the database", error))?;
    let authorizer = move |action: AuthContext<'_>| {
        if is_allowed(&action, &secret) { Authorization::Allow } else { Authorization::Deny }
    };
    let watched = ctx.clone();
    let interrupt = move || watched.check().is_err();
    let sql = connection.sql_mut();
    let set = sql.authorizer(Some(authorizer)).and_then(|()| sql.progress_handler(STEPS, Some(interrupt)));
    set.map_err(|error| connection.fault("limit the connection to the database", error))
}

fn is_allowed(context: &AuthContext<'_>, secret: &str) -> bool {
    let of_us = |name: &str| name.strip_suffix(secret).is_some_and(|name| name.ends_with('#'));
    match context.action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => {
            !FORBIDDEN_FUNCTIONS.iter().any(|name| name.eq_ignore_ascii_case(function_name))
        }
        AuthAction::Read { table_name, column_name } => {
            let is = |name: &&str| name.eq_ignore_ascii_case(table_name);
            if context.accessor.is_some_and(of_us) || FUNCTION_TABLES.iter().any(is) {
                return true;
            }
            match context.database_name {
                Some(database) => {
                    database.eq_ignore_ascii_case("temp")
                        && (of_us(table_name) || VIEWS.iter().any(|(name, _)| is(name)))
                }
                // A subquery, a common table expression or a view none of whose columns is used: what is
                // inside is judged by itself. The tables of the file must not pass for one.
                None => column_name.is_empty() && !is_table(table_name),
            }
        }
        _ => false,
    }
}

fn is_table(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("_row") || name == "dbstat" || name.starts_with("sqlite_") || name.starts_with("pragma_")
}

fn select(connection: &Connection, sql: &str, parameters: &[SqlValue], ctx: &Context) -> Result<Rows> {
    let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::AuthorizationForStatementDenied) => {
            wrong(format!("the SQL does more than read the views of this session: {error}"))
                .with_hint("select from session, entry, branch, value, list_element and usage")
        }
        // The statement itself is wrong: unknown names, syntax, types, arguments of functions.
        Some(rusqlite::ErrorCode::Unknown) | None => wrong(format!("the SQL is wrong: {error}")),
        _ => connection.fault("run the query on the database", error),
    };
    let mut statement = connection.sql().prepare(sql).map_err(failed)?;
    if statement.parameter_count() != parameters.len() {
        return Err(wrong(format!(
            "the SQL takes {} parameters and {} were given",
            statement.parameter_count(),
            parameters.len()
        )));
    }
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    for (at, parameter) in (1..).zip(parameters) {
        statement.raw_bind_parameter(at, Bound(parameter)).map_err(failed)?;
    }
    let mut found = Vec::new();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(failed)? {
        let cells = (0..columns.len()).map(|at| Ok(cell(row.get::<_, Cell>(at)?)));
        found.push(cells.collect::<rusqlite::Result<Vec<SqlValue>>>().map_err(failed)?);
        if found.len().is_multiple_of(256) {
            ctx.check()?;
        }
    }
    Ok(Rows { columns, rows: found })
}

struct Bound<'a>(&'a SqlValue);

impl rusqlite::ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Integer(number) => ValueRef::Integer(*number),
            SqlValue::Real(number) => ValueRef::Real(*number),
            SqlValue::Text(text) => ValueRef::Text(text.as_bytes()),
            SqlValue::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn cell(cell: Cell) -> SqlValue {
    match cell {
        Cell::Null => SqlValue::Null,
        Cell::Integer(number) => SqlValue::Integer(number),
        Cell::Real(number) => SqlValue::Real(number),
        Cell::Text(text) => SqlValue::Text(text),
        Cell::Blob(bytes) => SqlValue::Blob(bytes),
    }
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, what)
}
