//! The guard of a database file against another SQLite library in this process.
//!
//! POSIX locks belong to the process: when a second SQLite library opens and closes our file, the locks of
//! our SQLite are gone, and the stranger may delete or truncate the live WAL under us. A guard holds two read
//! locks of its own that belong to a descriptor (OFD locks): the range in which SQLite takes its SHARED lock,
//! and the byte of `-shm` by which it knows that the WAL index is in use. With both held nobody, in any
//! process, gets the exclusive locks those acts need.
//!
//! Closing any descriptor of a file drops the process's POSIX locks on it, so descriptors live from before
//! the first connection until after the last one. One guard per file serves all connections of the process.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// SQLite's SHARED range and its neighbours in the database file.
const SHARED_RANGE: (i64, i64) = (0x4000_0002, 0x1fe);
/// SQLite's dead-man switch in `-shm`.
const SHM_IN_USE: (i64, i64) = (128, 1);

/// What tells a file from another one of its name.
pub(super) type Identity = (u64, u64);

pub(super) fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// What tells whether a file was changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    file: Identity,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Seen {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            file: identity(metadata),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The guards of this process, by file.
static GUARDS: Mutex<Option<HashMap<Identity, Kept>>> = Mutex::new(None);

struct Kept {
    users: usize,
    files: Arc<Mutex<Files>>,
}

#[derive(Default)]
struct Files {
    database: Option<File>,
    database_locked: bool,
    shm: Option<File>,
    /// Descriptors that must not be closed before the others.
    others: Vec<File>,
}

/// A share in the guard of one file.
pub(super) struct Guard {
    identity: Identity,
    path: PathBuf,
    files: Arc<Mutex<Files>>,
    released: bool,
}

/// Whether this process has the file open through a guard.
pub(super) fn is_guarded(file: Identity) -> bool {
    lock(&GUARDS).as_ref().is_some_and(|guards| guards.contains_key(&file))
}

/// The file beside a database whose name ends in `suffix`.
pub(super) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

impl Guard {
    /// A share in the guard of the file at `path`, made if this is the first one. Nothing is locked yet.
    pub(super) fn acquire(path: &Path) -> io::Result<Self> {
        // Found by a look that opens nothing: a descriptor opened for that would have to stay open.
        let identity = identity(&std::fs::metadata(path)?);
        let files = {
            let mut guards = lock(&GUARDS);
            let kept = guards
                .get_or_insert_default()
                .entry(identity)
                .or_insert_with(|| Kept { users: 0, files: Arc::default() });
            kept.users += 1;
            Arc::clone(&kept.files)
        };
        let guard = Self { identity, path: path.to_owned(), files, released: false };
        guard.open_database()?;
        Ok(guard)
    }

    fn open_database(&self) -> io::Result<()> {
        let mut files = lock(&self.files);
        if files.database.is_some() {
            return Ok(());
        }
        let file = File::open(&self.path)?;
        if identity(&file.metadata()?) == self.identity {
            files.database = Some(file);
            return Ok(());
        }
        files.others.push(file);
        Err(io::Error::new(io::ErrorKind::NotFound, "the file was replaced while it was opened"))
    }

    /// The file it guards.
    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Reads the first 100 bytes of the database, fewer if there are fewer.
    pub(super) fn header(&self) -> io::Result<Vec<u8>> {
        let files = lock(&self.files);
        let Some(file) = &files.database else { return Ok(Vec::new()) };
        read_header(file)
    }

    /// Locks the database's SHARED range. `Ok(false)`: somebody holds an exclusive lock just now.
    pub(super) fn lock_database(&self) -> io::Result<bool> {
        let mut files = lock(&self.files);
        if !files.database_locked
            && let Some(file) = &files.database
        {
            files.database_locked = read_lock(file, SHARED_RANGE)?;
            return Ok(files.database_locked);
        }
        Ok(true)
    }

    /// Locks the dead-man switch of `-shm`, which must exist by now. `Ok(false)`: as for the database.
    pub(super) fn lock_shm(&self) -> io::Result<bool> {
        let mut files = lock(&self.files);
        if files.shm.is_some() {
            return Ok(true);
        }
        let file = File::open(beside(&self.path, "-shm"))?;
        let locked = read_lock(&file, SHM_IN_USE)?;
        if locked {
            files.shm = Some(file);
        } else {
            files.others.push(file);
        }
        Ok(locked)
    }

    /// Runs `close`, which closes the caller's connections, one caller after another. The last share unlocks
    /// before that, so that SQLite may checkpoint and tidy up, and closes the descriptors after it.
    pub(super) fn release<T>(mut self, close: impl FnOnce() -> T) -> T {
        self.give_back(close)
    }

    fn give_back<T>(&mut self, close: impl FnOnce() -> T) -> T {
        self.released = true;
        let mut files = lock(&self.files);
        let is_last = {
            let mut guards = lock(&GUARDS);
            guards.as_mut().and_then(|guards| guards.get_mut(&self.identity)).is_none_or(|kept| {
                kept.users -= 1;
                kept.users == 0
            })
        };
        if !is_last {
            return close();
        }
        if let Some(file) = &files.database {
            unlock(file, SHARED_RANGE);
        }
        if let Some(file) = &files.shm {
            unlock(file, SHM_IN_USE);
        }
        let result = close();
        *files = Files::default();
        if let Some(guards) = lock(&GUARDS).as_mut()
            && guards.get(&self.identity).is_some_and(|kept| kept.users == 0)
        {
            guards.remove(&self.identity);
        }
        result
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.released {
            self.give_back(|| ());
        }
    }
}

/// Reads the first 100 bytes of `file`, fewer if there are fewer.
fn read_header(file: &File) -> io::Result<Vec<u8>> {
    let mut header = vec![0; 100];
    let mut length = 0;
    while length < header.len() {
        match file.read_at(&mut header[length..], length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    header.truncate(length);
    Ok(header)
}

#[cfg(target_os = "linux")]
fn read_lock(file: &File, range: (i64, i64)) -> io::Result<bool> {
    use nix::errno::Errno;
    match set_lock(file, range, nix::libc::F_RDLCK) {
        Ok(()) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        // A filesystem without such locks: what is left is the look at the WAL before each acknowledgement.
        Err(Errno::EINVAL | Errno::ENOLCK | Errno::EOPNOTSUPP) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(target_os = "linux")]
fn unlock(file: &File, range: (i64, i64)) {
    // A lock that cannot be given back goes with its descriptor.
    let _ = set_lock(file, range, nix::libc::F_UNLCK);
}

#[cfg(target_os = "linux")]
fn set_lock(file: &File, (start, length): (i64, i64), kind: i32) -> nix::Result<()> {
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: length,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).map(drop)
}

// Without OFD locks only the look at the WAL before each acknowledgement is left.
#[cfg(not(target_os = "linux"))]
fn read_lock(_file: &File, _range: (i64, i64)) -> io::Result<bool> {
    Ok(true)
}

#[cfg(not(target_os = "linux"))]
fn unlock(_file: &File, _range: (i64, i64)) {}
