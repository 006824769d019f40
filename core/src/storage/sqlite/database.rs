//! One database file of this process: its guard, its one writing connection and its reading ones.

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::connection::{Connection, Purpose, Transaction};
use super::create;
use super::fault::{Latch, is_uncertain};
use super::guard::{Guard, Identity, Seen, beside, identity, is_guarded};
use super::header;
use super::{Access, Schema};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::folder::sync_name;
use crate::repository::Durability;
use crate::sync::lock;
use crate::wait::wait;

/// How many reading connections wait for the next read.
const IDLE_READERS: usize = 4;
/// How often a read of a file that nobody should write is begun again because somebody does.
const ATTEMPTS: usize = 16;
/// How often a waiter for the writing connection looks at its context.
const LOOK: Duration = Duration::from_millis(10);

/// One SQLite file. Cheap to clone; clones share its connections.
///
/// [`close`](Self::close) checkpoints. A database that is dropped without it closes without a checkpoint, as
/// a crash would, without loss.
#[derive(Clone)]
pub(crate) struct Database(Arc<Shared>);

pub(super) struct Shared {
    /// Absolute and without links: side files lie beside it.
    path: PathBuf,
    schema: Schema,
    access: Access,
    durability: Durability,
    busy_timeout: Duration,
    state: Mutex<State>,
    returned: Condvar,
    /// Tells who closes that a connection came back.
    idle: Notify,
    latch: AtomicU8,
}

struct State {
    mode: Mode,
    /// The writing connection, while nobody uses it.
    writer: Option<Connection>,
    idle: Vec<Connection>,
    /// Counts the changes of mode: a connection of an earlier one is not used again.
    generation: u64,
    in_use: usize,
    /// How many wait for a connection to come back.
    waiting: usize,
    /// Nothing new is begun.
    closed: bool,
    /// The connections were closed.
    released: bool,
}

/// How the file is read.
enum Mode {
    /// With SQLite's locks, under a guard. With the WAL that was there when the writer was opened. A file that
    /// has no WAL needs neither.
    Guarded { guard: Option<Guard>, wal: Option<Identity> },
    /// Without locks, as long as it stays as it was seen.
    Immutable(Seen),
}

impl Database {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// `UnknownSession` if there is none, `NotASession`, `UnsupportedVersion`, `Corrupt`, `Busy`.
    pub(crate) fn open(
        path: &Path,
        access: Access,
        durability: Durability,
        busy_timeout: Duration,
        ctx: &Context,
    ) -> Result<Database> {
        ctx.check()?;
        if access != Access::Read {
            header::check_library(path)?;
        }
        if access == Access::Create && !path.exists() {
            match create::create(path, None, durability, ctx) {
                // Somebody else was faster, and theirs is as good.
                Err(error) if error.kind() == ErrorKind::SessionExists => {}
                made => made?,
            }
        }
        let path = path.canonicalize().map_err(|error| not_found(path, error))?;
        let metadata = std::fs::metadata(&path).map_err(|error| not_found(&path, error))?;
        if !metadata.is_file() {
            return Err(header::not_a_session(&path, "it is no file"));
        }
        let opened = match access {
            Access::Read if !is_guarded(identity(&metadata)) => {
                open_to_read(&path, durability, busy_timeout, ctx)?
            }
            _ => open_guarded(&path, access, durability, busy_timeout, ctx)?,
        };
        let Opened { mode, schema, connection } = opened;
        let (writer, idle) = match access {
            Access::Read => (None, vec![connection]),
            Access::Create | Access::Write => (Some(connection), Vec::new()),
        };
        let state = State {
            mode,
            writer,
            idle,
            generation: 0,
            in_use: 0,
            waiting: 0,
            closed: false,
            released: false,
        };
        let database = Database(Arc::new(Shared {
            path,
            schema,
            access,
            durability,
            busy_timeout,
            state: Mutex::new(state),
            returned: Condvar::new(),
            idle: Notify::new(),
            latch: AtomicU8::new(0),
        }));
        if access != Access::Read {
            super::sessions::sweep(&database, ctx)?;
        }
        Ok(database)
    }

    /// The file, absolute and without links.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Whose tables it has.
    pub(crate) fn schema(&self) -> Schema {
        self.0.schema
    }

    pub(super) fn busy_timeout(&self) -> Duration {
        self.0.busy_timeout
    }

    /// Reads a few rows: on the writing connection while nobody uses it. It has the newest pages at hand, and
    /// whoever reads and writes by turns needs no other. A commit that comes meanwhile waits.
    pub(super) fn look<T>(&self, ctx: &Context, mut read: impl FnMut(&Connection) -> Result<T>) -> Result<T> {
        ctx.check()?;
        match self.0.idle_writer(ctx)? {
            Some(writer) => read(&writer),
            None => self.read(ctx, read),
        }
    }

    /// Runs `read` on a reading connection. `read` must change nothing: it runs again if the file was
    /// changed under it.
    pub(super) fn read<T>(&self, ctx: &Context, mut read: impl FnMut(&Connection) -> Result<T>) -> Result<T> {
        self.read_with(ctx, Place::Pooled, |connection| read(connection))
    }

    /// The same on a connection of its own, which may be set up at will and is closed afterwards.
    pub(super) fn read_apart<T>(
        &self,
        ctx: &Context,
        read: impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        self.read_with(ctx, Place::Apart, read)
    }

    /// The same over one boundary between commits: those that wait for the writing connection before us are
    /// made first, and none is until `read` calls what it is given, which it does once it sees the file.
    pub(super) fn read_at_boundary<T>(
        &self,
        ctx: &Context,
        mut read: impl FnMut(&Connection, &mut dyn FnMut()) -> Result<T>,
    ) -> Result<T> {
        ctx.check()?;
        let mut queued = match self.0.access {
            Access::Read => None,
            Access::Create | Access::Write => {
                Some(self.0.wait_for_writer(lock(&self.0.state), WhenLatched::Allow, ctx)?)
            }
        };
        self.read_with(ctx, Place::Apart, |reader| read(reader, &mut || drop(queued.take())))
    }

    fn read_with<T>(
        &self,
        ctx: &Context,
        place: Place,
        mut read: impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        ctx.check()?;
        for _ in 0..ATTEMPTS {
            let mut lease = self.0.reader(place, ctx)?;
            let result = read(lease.connection_mut()?);
            if lease.has_seen_the_truth()? {
                return result;
            }
        }
        Err(Error::new(ErrorKind::Busy, "the database is being written and closed all the time")
            .with_path(&self.0.path)
            .with_hint("try again"))
    }

    /// Waits for the writing connection. Refused once the database is latched.
    pub(super) fn writer(&self, ctx: &Context) -> Result<Lease<'_>> {
        ctx.check()?;
        if self.0.access == Access::Read {
            return Err(crate::storage::read_only().with_path(&self.0.path));
        }
        self.0.wait_for_writer(lock(&self.0.state), WhenLatched::Refuse, ctx)
    }

    /// Refuses what can commit nothing any more.
    pub(crate) fn check_latch(&self) -> Result<()> {
        self.0.latched().map_or(Ok(()), |latch| Err(latch.error(&self.0.path)))
    }

    /// Refuses commits from now on.
    pub(super) fn latch(&self, latch: Latch) -> Error {
        self.0.latch.store(latch as u8, Ordering::Release);
        latch.error(&self.0.path)
    }

    /// Commits a transaction of the writing connection, and answers for it.
    pub(super) fn finish(&self, transaction: Transaction<'_>, writer: &Connection, what: &str) -> Result<()> {
        self.check_file()?;
        let committed = transaction.commit();
        if let Err(error) = committed {
            // Rolled back by now. Where the last frame may be on the disk, or no rollback worked, the state is
            // unknown.
            let uncertain = is_uncertain(&error) || !writer.sql().is_autocommit();
            let error = writer.fault(what, error);
            if uncertain {
                return Err(self.latch(Latch::Fault).with_source(error));
            }
            return Err(error);
        }
        if !self.has_its_wal() {
            return Err(self.latch(Latch::Foreign));
        }
        Ok(())
    }

    /// Refuses to commit into a file that was deleted or replaced: nobody would find it there.
    fn check_file(&self) -> Result<()> {
        let opened = match &lock(&self.0.state).mode {
            Mode::Guarded { guard, .. } => guard.as_ref().map(Guard::identity),
            Mode::Immutable(_) => None,
        };
        let there = std::fs::metadata(&self.0.path).map_err(|error| not_found(&self.0.path, error))?;
        if Some(identity(&there)) == opened {
            return Ok(());
        }
        Err(Error::new(ErrorKind::FileChanged, "the file was replaced while it was open")
            .with_path(&self.0.path)
            .with_hint("nothing was written; reopen the session to see what is there now"))
    }

    /// Whether the WAL is the one that the writing connection opened.
    pub(super) fn has_its_wal(&self) -> bool {
        let state = lock(&self.0.state);
        self.0.has_its_wal(&state)
    }

    /// Checkpoints and closes the connections, once those in use are back. Idempotent; everything else fails
    /// with `Closed` afterwards.
    pub(crate) fn close(&self) -> Result<()> {
        self.close_within(&Context::background())
    }

    /// The same, waiting for the connections in use no longer than `ctx` lets it. After `DeadlineExceeded`
    /// or `Cancelled` it is to be closed again.
    pub(crate) fn close_within(&self, ctx: &Context) -> Result<()> {
        lock(&self.0.state).closed = true;
        let all_idle = async {
            loop {
                let mut idle = pin!(self.0.idle.notified());
                // From here on none is missed.
                idle.as_mut().enable();
                if lock(&self.0.state).in_use == 0 {
                    return;
                }
                idle.await;
            }
        };
        wait(all_idle, ctx)?;
        let mut state = lock(&self.0.state);
        if std::mem::replace(&mut state.released, true) {
            return Ok(());
        }
        let checkpoints = self.0.latched().is_none();
        self.0.close_all(&mut state, checkpoints)
    }
}

impl Shared {
    fn latched(&self) -> Option<Latch> {
        [Latch::Fault, Latch::Foreign]
            .into_iter()
            .find(|latch| *latch as u8 == self.latch.load(Ordering::Acquire))
    }

    fn lease(&self, state: &mut State, connection: Connection, place: Place, ctx: &Context) -> Lease<'_> {
        connection.use_context(ctx);
        state.in_use += 1;
        Lease { shared: self, connection: Some(connection), generation: state.generation, place }
    }

    /// The writing connection, if nobody uses it or waits for it.
    fn idle_writer(&self, ctx: &Context) -> Result<Option<Lease<'_>>> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(crate::storage::closed());
        }
        // After a commit of unknown fate it may see what is not there.
        if state.waiting > 0 || self.latched() == Some(Latch::Fault) {
            return Ok(None);
        }
        let writer = state.writer.take();
        Ok(writer.map(|connection| self.lease(&mut state, connection, Place::Writer, ctx)))
    }

    fn wait_for_writer(
        &self,
        mut state: MutexGuard<'_, State>,
        when_latched: WhenLatched,
        ctx: &Context,
    ) -> Result<Lease<'_>> {
        loop {
            if state.closed {
                return Err(crate::storage::closed());
            }
            if when_latched == WhenLatched::Refuse
                && let Some(latch) = self.latched()
            {
                return Err(latch.error(&self.path));
            }
            if let Some(connection) = state.writer.take() {
                return Ok(self.lease(&mut state, connection, Place::Writer, ctx));
            }
            ctx.check()?;
            state.waiting += 1;
            let wait = self.returned.wait_timeout(state, LOOK);
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
    }

    fn reader(&self, place: Place, ctx: &Context) -> Result<Lease<'_>> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(crate::storage::closed());
        }
        if let Mode::Immutable(seen) = &state.mode
            && (has_log(&self.path)? || *seen != self.seen()?)
        {
            self.look_again(&mut state, ctx)?;
        }
        let pooled = if place == Place::Pooled { state.idle.pop() } else { None };
        let connection = match pooled {
            Some(connection) => connection,
            // One more would open another WAL: what was committed is seen by the connections that are there.
            None if self.access != Access::Read && !self.has_its_wal(&state) => {
                let _ =
                    self.latch.compare_exchange(0, Latch::Foreign as u8, Ordering::AcqRel, Ordering::Acquire);
                return match place {
                    Place::Apart => Err(Latch::Foreign.error(&self.path)),
                    Place::Pooled | Place::Writer => self.wait_for_writer(state, WhenLatched::Allow, ctx),
                };
            }
            None => self.open_reader(&state)?,
        };
        Ok(self.lease(&mut state, connection, place, ctx))
    }

    /// Whether the WAL is the one that the first connection opened.
    fn has_its_wal(&self, state: &State) -> bool {
        let expected = match &state.mode {
            Mode::Guarded { wal, .. } => *wal,
            Mode::Immutable(_) => None,
        };
        std::fs::metadata(beside(&self.path, "-wal")).ok().map(|metadata| identity(&metadata)) == expected
    }

    fn seen(&self) -> Result<Seen> {
        let metadata = std::fs::metadata(&self.path).map_err(|error| not_found(&self.path, error))?;
        Ok(Seen::of(&metadata))
    }

    /// The file was changed since it was found to be written by nobody.
    fn look_again(&self, state: &mut State, ctx: &Context) -> Result<()> {
        let Opened { mode, schema, connection } =
            open_to_read(&self.path, self.durability, self.busy_timeout, ctx)?;
        if schema != self.schema {
            return Err(Error::new(ErrorKind::FileChanged, "the file was replaced by one of another kind")
                .with_path(&self.path)
                .with_hint("open the session again"));
        }
        state.idle.clear();
        state.mode = mode;
        state.generation += 1;
        state.idle.push(connection);
        Ok(())
    }

    fn open_reader(&self, state: &State) -> Result<Connection> {
        let purpose = match state.mode {
            Mode::Guarded { .. } => Purpose::Read,
            Mode::Immutable(_) => Purpose::ReadImmutable,
        };
        Connection::open(&self.path, purpose, self.busy_timeout)
    }

    /// Closes every connection and then the guard. The writer last: only it can checkpoint.
    fn close_all(&self, state: &mut State, checkpoints: bool) -> Result<()> {
        let readers = std::mem::take(&mut state.idle);
        let writer = state.writer.take();
        let close = || {
            for reader in readers {
                reader.close()?;
            }
            let Some(writer) = writer else { return Ok(()) };
            writer.use_context(&Context::background());
            if checkpoints {
                // Not the last connection to the file: then this is all there is to do, as far as readers let it.
                writer.first("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
            } else {
                writer.without_checkpoint();
            }
            writer.close()
        };
        match &mut state.mode {
            Mode::Guarded { guard, .. } => match guard.take() {
                Some(guard) => guard.release(close),
                None => close(),
            },
            Mode::Immutable(_) => close(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if !state.released {
            // Like after a crash: whatever goes wrong here, the next open reads the WAL.
            let state: &mut State = &mut state;
            let (readers, writer) = (std::mem::take(&mut state.idle), state.writer.take());
            let close = || {
                drop(readers);
                if let Some(writer) = writer {
                    writer.without_checkpoint();
                }
            };
            match &mut state.mode {
                Mode::Guarded { guard: Some(_), .. } => {
                    if let Mode::Guarded { guard, .. } = &mut state.mode
                        && let Some(guard) = guard.take()
                    {
                        guard.release(close);
                    }
                }
                _ => close(),
            }
        }
    }
}

/// A connection in use; it goes back when this is dropped.
pub(super) struct Lease<'a> {
    shared: &'a Shared,
    connection: Option<Connection>,
    generation: u64,
    place: Place,
}

/// What a latch means to who wants the writing connection: it refuses commits, not reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhenLatched {
    Refuse,
    Allow,
}

/// Where a connection goes after use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Writer,
    Pooled,
    /// It is closed.
    Apart,
}

impl Lease<'_> {
    fn connection_mut(&mut self) -> Result<&mut Connection> {
        // Taken only when dropped.
        self.connection.as_mut().ok_or_else(crate::storage::closed)
    }

    /// Whether the file was the same before and after what was read through this.
    fn has_seen_the_truth(&self) -> Result<bool> {
        let state = lock(&self.shared.state);
        match &state.mode {
            Mode::Immutable(seen) if state.generation == self.generation => {
                Ok(!has_log(&self.shared.path)? && *seen == self.shared.seen()?)
            }
            _ => Ok(state.generation == self.generation),
        }
    }
}

impl Deref for Lease<'_> {
    type Target = Connection;

    #[allow(clippy::expect_used)]
    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("taken only when dropped")
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.in_use -= 1;
        let connection = self.connection.take();
        if let Some(connection) = &connection {
            // A context is the authority of one call and is kept by none.
            connection.use_context(&Context::background());
        }
        if self.place == Place::Writer {
            if connection.as_ref().is_some_and(|connection| !connection.sql().is_autocommit()) {
                // A transaction that could not even be rolled back.
                self.shared.latch.store(Latch::Fault as u8, Ordering::Release);
            }
            state.writer = connection;
        } else if self.place == Place::Pooled
            && state.generation == self.generation
            && state.idle.len() < IDLE_READERS
        {
            state.idle.extend(connection);
        } else {
            // Closed before the guard can be: it is counted as in use until here.
            drop(connection);
        }
        // Waking costs a system call, and mostly nobody waits.
        let (is_awaited, is_closing) = (state.waiting > 0, state.closed);
        drop(state);
        if is_awaited {
            self.shared.returned.notify_all();
        }
        if is_closing {
            self.shared.idle.notify_waiters();
        }
    }
}

pub(super) fn has_wal(path: &Path) -> Result<bool> {
    let wal = beside(path, "-wal");
    wal.try_exists().map_err(|error| Error::io("cannot look for the write-ahead log", error).with_path(wal))
}

pub(super) fn not_found(path: &Path, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotFound {
        return Error::new(ErrorKind::UnknownSession, "there is no such file")
            .with_path(path)
            .with_hint("it was never made, or was deleted or moved");
    }
    Error::io("cannot look at the file", error).with_path(path)
}

/// A database that was opened: how, whose it is, and its first connection.
struct Opened {
    mode: Mode,
    schema: Schema,
    connection: Connection,
}

/// Opens to read as what lies beside the file asks for.
fn open_to_read(
    path: &Path,
    durability: Durability,
    busy_timeout: Duration,
    ctx: &Context,
) -> Result<Opened> {
    if has_wal(path)? {
        open_guarded(path, Access::Read, durability, busy_timeout, ctx)
    } else if has_journal(path)? {
        open_beside_journal(path, busy_timeout, ctx)
    } else {
        open_immutable(path, busy_timeout, ctx)
    }
}

fn open_immutable(path: &Path, busy_timeout: Duration, ctx: &Context) -> Result<Opened> {
    let metadata = std::fs::metadata(path).map_err(|error| not_found(path, error))?;
    let connection = Connection::open(path, Purpose::ReadImmutable, busy_timeout)?;
    connection.use_context(ctx);
    let schema = header::check_through(&connection)?;
    Ok(Opened { mode: Mode::Immutable(Seen::of(&metadata)), schema, connection })
}

/// Opens a file that its writer changes in place, with SQLite's own locks: nothing comes to lie beside it.
fn open_beside_journal(path: &Path, busy_timeout: Duration, ctx: &Context) -> Result<Opened> {
    let connection = Connection::open(path, Purpose::Read, busy_timeout)?;
    connection.use_context(ctx);
    let schema = header::check_through(&connection)?;
    Ok(Opened { mode: Mode::Guarded { guard: None, wal: None }, schema, connection })
}

/// Whether something lies beside the file that says more than the file.
fn has_log(path: &Path) -> Result<bool> {
    Ok(has_wal(path)? || has_journal(path)?)
}

/// Whether a writer changes the file in place. A journal beside a file that has a WAL is nobody's.
fn has_journal(path: &Path) -> Result<bool> {
    let journal = beside(path, "-journal");
    let failed = |error| Error::io("cannot look for the journal", error).with_path(&journal);
    if !journal.try_exists().map_err(failed)? {
        return Ok(false);
    }
    let mut head = [0; 100];
    let file = std::fs::File::open(path).map_err(|error| not_found(path, error))?;
    match std::os::unix::fs::FileExt::read_exact_at(&file, &mut head, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => {
            read.map_err(|error| Error::io("cannot read the file", error).with_path(path))?;
            Ok(header::is_unmarked(&head) && header::is_changed_in_place(&head))
        }
    }
}

fn open_guarded(
    path: &Path,
    access: Access,
    durability: Durability,
    busy_timeout: Duration,
    ctx: &Context,
) -> Result<Opened> {
    let guard = Guard::acquire(path).map_err(|error| not_found(path, error))?;
    let bytes = guard.header().map_err(|error| Error::io("cannot read the file", error).with_path(path))?;
    match (header::is_unmarked(&bytes), access) {
        // Whose it is, its schema tells.
        (true, Access::Read) => {}
        (true, Access::Create | Access::Write) => {
            drop(guard);
            return Err(header::not_ours(path, ctx));
        }
        (false, _) => header::check(&bytes, path)?,
    }
    let until = Instant::now() + busy_timeout;
    take(|| guard.lock_database(), path, until, ctx)?;
    if access == Access::Read && !has_wal(path)? {
        // Its last writer has just closed. Read in the ordinary way, the file would get a WAL again.
        drop(guard);
        return open_to_read(path, durability, busy_timeout, ctx);
    }
    let purpose = match access {
        Access::Read => Purpose::Read,
        Access::Create | Access::Write => Purpose::Write(durability),
    };
    if matches!(purpose, Purpose::Write(Durability::Power)) && has_wal(path)? {
        // SQLite syncs the name of a log that it makes. Whoever made this one may have died before.
        sync_name(path)?;
    }
    let connection = Connection::open(path, purpose, busy_timeout)?;
    connection.use_context(ctx);
    // The first read opens the WAL and `-shm`.
    let schema = header::check_through(&connection)?;
    take(|| guard.lock_shm(), path, until, ctx)?;
    let wal = std::fs::metadata(beside(path, "-wal")).map_err(|error| {
        Error::io("cannot look at the write-ahead log", error).with_path(beside(path, "-wal"))
    })?;
    Ok(Opened { mode: Mode::Guarded { guard: Some(guard), wal: Some(identity(&wal)) }, schema, connection })
}

/// Tries until a lock is taken that others hold for moments only.
fn take(
    mut lock: impl FnMut() -> io::Result<bool>,
    path: &Path,
    until: Instant,
    ctx: &Context,
) -> Result<()> {
    loop {
        if lock().map_err(|error| Error::io("cannot lock the database", error).with_path(path))? {
            return Ok(());
        }
        ctx.check()?;
        if Instant::now() >= until {
            return Err(Error::new(ErrorKind::Busy, "another program holds the database's exclusive lock")
                .with_path(path)
                .with_hint("try again, or raise `busy_timeout`"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
