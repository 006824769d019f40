//! The sessions of a container: what each says of itself.

use rusqlite::Row;

use super::super::connection::Connection;
use super::super::{Schema, StoredSession};
use crate::context::Context;
use crate::error::Result;
use crate::model::json::{Json, text_of};
use crate::session::backend::SessionMetadata;

macro_rules! session {
    ($name:literal) => {
        concat!(
            "SELECT s.id, s.created_at, s.storage_version, s.parent_session_id, s.metadata, s.message_count,
  (SELECT timestamp FROM entries WHERE session_id = s.id ORDER BY seq DESC LIMIT 1), ",
            $name,
            " FROM sessions s"
        )
    };
}

const LIST: &str = session!("NULL");
const LIST_WITH_NAMES: &str = session!(
    "(SELECT value FROM scalar_values WHERE session_id = s.id AND namespace = 'pi.session.name' AND key = '')"
);
const ONE: &str = concat!(session!("NULL"), " WHERE s.id = ?1");

/// Every statement of this file that must not read more than it gives.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 1] = [ONE];

/// Its sessions, in any order; names only with `details`.
pub(in super::super) fn sessions(
    connection: &Connection,
    details: bool,
    ctx: &Context,
) -> Result<Vec<StoredSession>> {
    connection.all(if details { LIST_WITH_NAMES } else { LIST }, [], ctx, stored)
}

/// The session of that id, without its name.
pub(in super::super) fn session(connection: &Connection, id: &str) -> Result<Option<StoredSession>> {
    connection.first(ONE, [id], stored)
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredSession> {
    let text = |column| row.get::<_, Option<String>>(column);
    let created_at: i64 = row.get(1)?;
    let metadata = text(4)?.and_then(|text| Json::parse(text).ok());
    let cwd = metadata.as_ref().and_then(|metadata| metadata.get("cwd")).and_then(text_of);
    Ok(StoredSession {
        metadata: SessionMetadata {
            id: row.get(0)?,
            created_at,
            storage_version: row.get(2)?,
            cwd: cwd.map(|cwd| cwd.into_owned()),
            parent_session_id: row.get(3)?,
            legacy_parent_session_path: None,
            path: None,
        },
        // It notes no time but those of entries.
        modified_at: row.get::<_, Option<i64>>(6)?.unwrap_or(created_at),
        name: text(7)?.and_then(|name| text_of(&name).map(|name| name.into_owned())),
        message_count: row.get::<_, i64>(5)?.max(0).cast_unsigned(),
        schema: Schema::Reference,
    })
}
