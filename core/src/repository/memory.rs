//! The memory repository: sessions live as long as its handle.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::address::session_name;
use crate::repository::{
    Backend, CreateOptions, Format, ListOptions, OpenMode, OpenOptions, RepositoryOptions, SessionListing,
    session_busy, session_exists, unknown_session,
};
use crate::session::Session;
use crate::session::backend::{Backend as SessionBackend, LocalSession, SessionMetadata};
use crate::session::reader::stored_text;
use crate::storage::Reads;
use crate::storage::memory::{MemoryState, MemoryStorage};

pub(crate) struct MemoryRepository {
    options: Arc<RepositoryOptions>,
    sessions: Mutex<BTreeMap<String, Kept>>,
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
        Self { options, sessions: Mutex::new(BTreeMap::new()) }
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Backend for MemoryRepository {
    fn create(&self, options: &CreateOptions, _ctx: &Context) -> Result<Session> {
        let metadata = options.metadata(&self.options);
        let id = metadata.id.clone();
        let mut sessions = self.sessions();
        if sessions.contains_key(&id) {
            return Err(session_exists(&id));
        }
        let mut kept = Kept { metadata, state: Arc::default(), writer: Weak::new(), open: Vec::new() };
        let session = self.session(&mut kept, OpenMode::ReadWrite)?;
        sessions.insert(id, kept);
        Ok(session)
    }

    fn open(&self, id: &str, _path: Option<&Path>, options: &OpenOptions, _ctx: &Context) -> Result<Session> {
        let mut sessions = self.sessions();
        let kept = sessions.get_mut(id).ok_or_else(|| unknown_session(id))?;
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
        sessions.values().map(listing).collect()
    }

    fn delete(&self, id: &str, _path: Option<&std::path::Path>, _ctx: &Context) -> Result<()> {
        let mut sessions = self.sessions();
        let kept = sessions.get(id).ok_or_else(|| unknown_session(id))?;
        if kept.writer.strong_count() > 0 {
            return Err(session_busy(id));
        }
        sessions.remove(id);
        Ok(())
    }

    fn close(&self, ctx: &Context) -> Vec<Error> {
        let open: Vec<Arc<LocalSession>> =
            self.sessions().values().flat_map(|kept| kept.open.iter().filter_map(Weak::upgrade)).collect();
        open.iter().filter_map(|session| session.close(ctx).err()).collect()
    }
}
