//! Making a database file: complete under its final name, or not there at all.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use rusqlite::OpenFlags;

use super::connection::Connection;
use super::fault::{fault, is_room, listen};
use super::guard::beside;
use super::schema::{APPLICATION_ID, TABLES, USER_VERSION, WHOLE, views};
use super::sessions;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::folder::sync_name;
use crate::repository::Durability;
use crate::session::backend::SessionMetadata;

/// How the names of files under construction end: `<final name>.<random>.new`, beside the final one.
pub(crate) const TEMPORARY_SUFFIX: &str = ".new";

/// A file under construction; removed unless it was published, and its temporary name in any case.
pub(super) struct Draft {
    path: PathBuf,
    target: PathBuf,
    durability: Durability,
    /// Locked, as long as it is being made: who sweeps a folder lets it be.
    _held: File,
}

impl Draft {
    /// A name beside `target`, which must not exist.
    pub(super) fn beside(target: &Path, durability: Durability) -> Result<Self> {
        if target.symlink_metadata().is_ok() {
            return Err(exists(target));
        }
        // The end of such an id is random.
        let random = uuid::Uuid::now_v7().simple().to_string();
        let path = beside(target, &format!(".{}{TEMPORARY_SUFFIX}", &random[20..]));
        // Absolute, so that SQLite takes no name for a URI.
        let path = std::path::absolute(path)
            .map_err(|error| Error::io("cannot find the folder of", error).with_path(target))?;
        let failed = |error| Error::io("cannot make a file beside", error).with_path(target);
        let held = File::create_new(&path).map_err(failed)?;
        held.lock().map_err(failed)?;
        Ok(Self { path, target: target.to_owned(), durability, _held: held })
    }

    /// An empty database of our schema under the temporary name, with the journal off: nobody else sees it.
    pub(super) fn database(&self) -> Result<rusqlite::Connection> {
        listen();
        let failed = |error| fault("make the database", &self.target, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let sql = rusqlite::Connection::open_with_flags(&self.path, flags).map_err(failed)?;
        sql.execute_batch(&format!(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY;
             PRAGMA page_size = 4096; PRAGMA application_id = {APPLICATION_ID};
             PRAGMA user_version = {USER_VERSION}; BEGIN; {TABLES} {} COMMIT;",
            views()
        ))
        .map_err(failed)?;
        Ok(sql)
    }

    /// Syncs the closed file and gives it its final name, unless that is taken. The file is synced at both
    /// levels: a power loss must not leave a name without a session.
    pub(super) fn publish(self, sql: rusqlite::Connection) -> Result<()> {
        listen();
        let failed = |error| fault("make the database", &self.target, error);
        sql.execute_batch("PRAGMA journal_mode = WAL").map_err(failed)?;
        sql.close().map_err(|(_, error)| failed(error))?;
        let said = Errno::last();
        let failed = |error| Error::io("cannot sync the new file", error).with_path(&self.path);
        let file = File::open(&self.path).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        // SQLite says nothing when it cannot write the journal mode into the header.
        let mut modes = [0; 2];
        file.read_exact_at(&mut modes, 18).map_err(failed)?;
        if modes != [2, 2] {
            let kind = if is_room(said) { ErrorKind::Full } else { ErrorKind::Io };
            return Err(Error::new(kind, "the new database's journal mode could not be written")
                .with_path(&self.target)
                .with_hint("nothing was made; look at the disk, which may be full"));
        }
        std::fs::hard_link(&self.path, &self.target).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => exists(&self.target),
            _ => Error::io("cannot name the new file", error).with_path(&self.target),
        })?;
        // Where that does not work, the next create sweeps.
        let _ = std::fs::remove_file(&self.path);
        if self.durability == Durability::Process {
            return Ok(());
        }
        sync_name(&self.target).inspect_err(|_| {
            // Nobody was told of it: an attempt that failed leaves nothing.
            let _ = std::fs::remove_file(&self.target);
        })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            // Mostly there is none any more; what stays is swept by the next create.
            let _ = std::fs::remove_file(beside(&self.path, suffix));
        }
    }
}

/// Makes a new file, with `session` in it if one is given. It appears under its name complete (temporary
/// file, sync, link); its folder must exist. Nothing stays open.
pub(super) fn create(
    path: &Path,
    session: Option<&SessionMetadata>,
    durability: Durability,
    ctx: &Context,
) -> Result<()> {
    ctx.check()?;
    super::header::check_library(path)?;
    let draft = Draft::beside(path, durability)?;
    let sql = draft.database()?;
    let connection = Connection::of(sql, path);
    if let Some(session) = session {
        sessions::insert(&connection, session, WHOLE)?;
    }
    draft.publish(connection.into_sql())
}

fn exists(path: &Path) -> Error {
    Error::new(ErrorKind::SessionExists, "there is a file of that name already")
        .with_path(path)
        .with_hint("it was left as it is; open it, or choose another name")
}
