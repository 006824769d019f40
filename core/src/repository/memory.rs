//! The memory repository: sessions live as long as its handle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};
use std::time::Instant;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::address::session_name;
use crate::repository::files::PAUSE;
use crate::repository::{
    Backend, CreateOptions, Format, ListOptions, OpenMode, OpenOptions, RepositoryOptions, SessionListing,
    session_busy, session_exists, unknown_session,
};
use crate::session::Session;
use crate::session::backend::{Backend as SessionBackend, LocalSession, SessionMetadata};
use crate::session::reader::stored_text;
use crate::storage::Reads;
use crate::storage::copy::{Draft, Record, Sink};
use crate::storage::memory::{MemoryDraft, MemoryState, MemoryStorage};
use crate::sync::lock;

pub(crate) struct MemoryRepository {
    options: Arc<RepositoryOptions>,
    sessions: Mutex<Sessions>,
}

/// The sessions, and the ids of those that are being made.
#[derive(Default)]
struct Sessions {
    kept: BTreeMap<String, Kept>,
    reserved: BTreeSet<String>,
}

struct Kept {
    metadata: SessionMetadata,
    state: Arc<RwLock<MemoryState>>,
    /// Alive while the session is open for writing.
    writer: Weak<Lease>,
    open: Vec<Weak<LocalSession>>,
}

/// Held by a session that is open for writing.
struct Lease;

impl MemoryRepository {
    pub(crate) fn new(options: Arc<RepositoryOptions>) -> Self {
        Self { options, sessions: Mutex::default() }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.sessions)
    }

    /// Waits until nobody is making a session of that id, and refuses one that is there.
    fn free(&self, id: &str, ctx: &Context) -> Result<MutexGuard<'_, Sessions>> {
        let end = Instant::now() + self.options.busy_timeout;
        loop {
            ctx.check()?;
            let sessions = self.sessions();
            if sessions.kept.contains_key(id) {
                return Err(session_exists(id));
            }
            if !sessions.reserved.contains(id) {
                return Ok(sessions);
            }
            drop(sessions);
            if Instant::now() >= end {
                return Err(session_busy(id));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Keeps a new session and opens it. Its id is free.
    fn keep(
        &self,
        sessions: &mut Sessions,
        metadata: SessionMetadata,
        state: MemoryState,
    ) -> Result<Session> {
        let id = metadata.id.clone();
        let state = Arc::new(RwLock::new(state));
        let mut kept = Kept { metadata, state, writer: Weak::new(), open: Vec::new() };
        let session = self.session(&mut kept, OpenMode::ReadWrite)?;
        sessions.kept.insert(id, kept);
        Ok(session)
    }

    fn session(&self, kept: &mut Kept, mode: OpenMode) -> Result<Session> {
        let lease = match mode {
            OpenMode::ReadOnly => None,
            OpenMode::ReadWrite if kept.writer.strong_count() > 0 => {
                return Err(session_busy(&kept.metadata.id));
            }
            OpenMode::ReadWrite => Some(Arc::new(Lease)),
        };
        if let Some(lease) = &lease {
            kept.writer = Arc::downgrade(lease);
        }
        let storage = MemoryStorage::new(
            Arc::clone(&kept.state),
            Arc::clone(&self.options.clock),
            self.options.max_payload,
            mode,
        );
        let local = Arc::new(LocalSession::new(
            kept.metadata.clone(),
            self.options.session_ids(),
            Box::new(storage),
            lease.map(|lease| Box::new(lease) as _),
            None,
        ));
        kept.open.retain(|session| session.strong_count() > 0);
        kept.open.push(Arc::downgrade(&local));
        Ok(Session::new(local))
    }
}

/// A session that is being made; its id is reserved.
struct Making<'a> {
    repository: &'a MemoryRepository,
    metadata: SessionMetadata,
    made: MemoryDraft,
}

impl Sink for Making<'_> {
    fn start(&mut self, next_seq: u64, ctx: &Context) -> Result<()> {
        self.made.start(next_seq, ctx)
    }

    fn put(&mut self, record: Record, ctx: &Context) -> Result<()> {
        self.made.put(record, ctx)
    }
}

impl Draft for Making<'_> {
    fn publish(mut self: Box<Self>, ctx: &Context) -> Result<Session> {
        ctx.check()?;
        let state = std::mem::take(&mut self.made).into_state();
        let mut sessions = self.repository.sessions();
        let made = self.repository.keep(&mut sessions, self.metadata.clone(), state);
        // The reservation ends after this one: nobody finds neither.
        drop(sessions);
        made
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.repository.sessions().reserved.remove(&self.metadata.id);
    }
}

impl Backend for MemoryRepository {
    fn create(&self, options: &CreateOptions, ctx: &Context) -> Result<Session> {
        let metadata = options.metadata(&self.options)?;
        let mut sessions = self.free(&metadata.id, ctx)?;
        self.keep(&mut sessions, metadata, MemoryState::default())
    }

    fn draft(&self, options: &CreateOptions, ctx: &Context) -> Result<Box<dyn Draft + '_>> {
        let metadata = options.metadata(&self.options)?;
        self.free(&metadata.id, ctx)?.reserved.insert(metadata.id.clone());
        Ok(Box::new(Making { repository: self, metadata, made: MemoryDraft::default() }))
    }

    fn open(&self, id: &str, _path: Option<&Path>, options: &OpenOptions, _ctx: &Context) -> Result<Session> {
        let mut sessions = self.sessions();
        let kept = sessions.kept.get_mut(id).ok_or_else(|| unknown_session(id))?;
        self.session(kept, options.mode)
    }

    fn list(&self, options: &ListOptions, ctx: &Context) -> Result<Vec<SessionListing>> {
        let sessions = self.sessions();
        let listing = |kept: &Kept| {
            let mut listing = SessionListing {
                metadata: Some(kept.metadata.clone()),
                path: None,
                modified_at: None,
                format: Format::Memory,
                name: None,
                message_count: None,
                problem: None,
            };
            if options.details {
                let clock = Arc::clone(&self.options.clock);
                let storage = MemoryStorage::new(Arc::clone(&kept.state), clock, 0, OpenMode::ReadOnly);
                listing.name = stored_text(&storage, &session_name(), ctx)?;
                listing.message_count = Some(storage.stats(ctx)?.message_count);
            }
            Ok(listing)
        };
        sessions.kept.values().map(listing).collect()
    }

    fn delete(&self, id: &str, _path: Option<&std::path::Path>, _ctx: &Context) -> Result<()> {
        let mut sessions = self.sessions();
        let kept = sessions.kept.get(id).ok_or_else(|| unknown_session(id))?;
        if kept.writer.strong_count() > 0 {
            return Err(session_busy(id));
        }
        sessions.kept.remove(id);
        Ok(())
    }

    fn close(&self, ctx: &Context) -> Vec<Error> {
        let open: Vec<Arc<LocalSession>> = self
            .sessions()
            .kept
            .values()
            .flat_map(|kept| kept.open.iter().filter_map(Weak::upgrade))
            .collect();
        open.iter().filter_map(|session| session.close(ctx).err()).collect()
    }
}
