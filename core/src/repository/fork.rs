//! Forks: a new session that goes on from a point of another one, or from all of it.

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::address::{self as addresses, reserved};
use crate::model::json::{Json, text_of};
use crate::model::value::{Address, StoredValue};
use crate::model::write::Write;
use crate::repository::{CreateOptions, OpenMode, OpenOptions, Repository, SessionRef};
use crate::session::Session;
use crate::storage::commit::MAX_SEQ;
use crate::storage::copy::{Entries, Plan, Record, Values, View};

/// The branch that a fork of a path has when none is named.
const MAIN: &str = "main";
/// The state of a lane that has done nothing yet.
const IDLE: &str = r#"{"currentOperationId":null,"lastOperationId":null,"inbox":[]}"#;

/// What a fork is of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForkOptions {
    /// One path, or the whole tree.
    pub scope: ForkScope,
    /// The id of the new session; none for a new one.
    pub id: Option<String>,
    /// The working folder of the new session; none for the source's.
    pub cwd: Option<String>,
}

/// How much of its source a fork has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkScope {
    /// The path to one entry, as one branch.
    Branch(ForkPoint),
    /// Every entry and every branch, and what applications keep beside them.
    Tree,
}

impl Default for ForkScope {
    fn default() -> Self {
        Self::Branch(ForkPoint::default())
    }
}

/// Where the path of a fork ends. Default: at the tip of `main`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForkPoint {
    /// The branch of the source whose path is taken, and which the new session has. None takes any path of
    /// the tree and makes it `main`.
    pub branch: Option<String>,
    /// The entry on that path; none for the branch's tip.
    pub entry: Option<String>,
    /// Whether the entry is the last of the path, or the first that is not on it.
    pub position: ForkPosition,
}

/// Where a fork stands to the entry it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ForkPosition {
    /// The entry is the new tip.
    #[default]
    At,
    /// Its parent is; before a root the branch is empty.
    Before,
}

/// A new session, and what the source had that was left behind.
#[derive(Debug, Clone)]
pub struct Fork {
    /// The new session, open for writing.
    pub session: Session,
    /// Names of lanes whose configuration was not taken, since the source holds it by half. Only a fork of
    /// the whole tree leaves any out.
    pub left_out: Vec<String>,
}

/// What a fork is made from: a session that is open, in whatever mode, or one in a repository.
#[derive(Debug, Clone, Copy)]
pub enum ForkSource<'a> {
    /// A session that is open here.
    Open(&'a Session),
    /// A session of a repository, open elsewhere or nowhere.
    Stored(&'a Repository, SessionRef<'a>),
}

impl<'a> From<&'a Session> for ForkSource<'a> {
    fn from(session: &'a Session) -> Self {
        Self::Open(session)
    }
}

impl<'a, T: Into<SessionRef<'a>>> From<(&'a Repository, T)> for ForkSource<'a> {
    fn from((repository, session): (&'a Repository, T)) -> Self {
        Self::Stored(repository, session.into())
    }
}

impl Repository {
    /// Makes a new session from another one, here or in any other repository, whatever keeps the two.
    ///
    /// The fork has one coherent snapshot of its source: the commits that were made before, none that is made
    /// later. It waits for nobody who writes, and nobody waits for it; it may be made inside an open mutation.
    /// Entries keep ids, `seq`s and timestamps; the next `seq` is the source's; the ledger starts empty. The
    /// new session appears whole or not at all.
    ///
    /// | | a path ([`ForkScope::Branch`]) | the tree ([`ForkScope::Tree`]) |
    /// |---|---|---|
    /// | entries | from the root to the point | all |
    /// | branches | one | every one |
    /// | lanes | configured as the branch is, and idle | the same for each |
    /// | name, labels | the name, labels of its entries | all |
    /// | values and lists of applications | none | all |
    /// | usage, results, operations | none | none |
    ///
    /// ```
    /// use pisession::{Context, ForkOptions, ForkPoint, ForkScope, Json, SessionReader, open_repository};
    ///
    /// let ctx = Context::background();
    /// let repository = open_repository("memory:", Default::default())?;
    /// let session = repository.create(&Default::default(), &ctx)?;
    /// let main = session.create_branch("main", None, &ctx)?;
    /// let question = main.append_message(&Json::parse(r#"{"role":"user","content":"hello"}"#)?, &ctx)?;
    /// main.append_message(&Json::parse(r#"{"role":"assistant","content":"hi","stopReason":"stop"}"#)?, &ctx)?;
    ///
    /// // Go on from the question, in a session of its own.
    /// let point = ForkPoint { entry: Some(question.clone()), ..ForkPoint::default() };
    /// let options = ForkOptions { scope: ForkScope::Branch(point), ..ForkOptions::default() };
    /// let fork = repository.fork(&session, &options, &ctx)?.session;
    /// assert_eq!(fork.metadata().parent_session_id.as_deref(), Some(session.id()));
    /// assert_eq!(fork.stats(&ctx)?.message_count, 1);
    /// # Ok::<(), pisession::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`UnknownBranch`](ErrorKind::UnknownBranch), [`UnknownEntry`](ErrorKind::UnknownEntry),
    /// [`EntryNotOnBranch`](ErrorKind::EntryNotOnBranch) for a point that is not there;
    /// [`Corrupt`](ErrorKind::Corrupt) for a branch whose lane is there by half;
    /// [`ReservedAddress`](ErrorKind::ReservedAddress) for a source with values that a newer library may
    /// understand; what [`create`](Self::create) and opening the source fail with. Nothing is left behind,
    /// and the id can be used at once.
    pub fn fork<'a>(
        &self,
        source: impl Into<ForkSource<'a>>,
        options: &ForkOptions,
        ctx: &Context,
    ) -> Result<Fork> {
        match source.into() {
            ForkSource::Open(session) => self.fork_of(session, options, ctx),
            ForkSource::Stored(repository, session) => {
                let read_only = OpenOptions { mode: OpenMode::ReadOnly, ..OpenOptions::default() };
                let source = repository.open_with(session, &read_only, ctx)?;
                let fork = self.fork_of(&source, options, ctx);
                // It was only read: whatever closing it says, the fork is as it should be.
                if let Err(error) = source.close(&Context::background()) {
                    tracing::debug!(%error, session.id = source.id(), "the source of a fork was not closed");
                }
                fork
            }
        }
    }

    fn fork_of(&self, source: &Session, options: &ForkOptions, ctx: &Context) -> Result<Fork> {
        let span = tracing::debug_span!(
            "pisession.fork",
            session.id = tracing::field::Empty,
            source.id = source.id(),
            scope = match &options.scope {
                ForkScope::Branch(_) => "branch",
                ForkScope::Tree => "tree",
            },
            traceparent = ctx.traceparent(),
        );
        let _entered = span.enter();
        if let ForkScope::Branch(ForkPoint { branch: Some(name), .. }) = &options.scope {
            addresses::check_branch_name(name)?;
        }
        let create = CreateOptions {
            id: options.id.clone(),
            parent_session_id: Some(source.id().to_owned()),
            cwd: options.cwd.clone().or_else(|| source.metadata().cwd.clone()),
            ..CreateOptions::default()
        };
        let mut left_out = Vec::new();
        let mut plan = |view: &dyn View| {
            refuse_undeclared(view)?;
            left_out.clear();
            let plan = match &options.scope {
                ForkScope::Branch(point) => branch(view, point)?,
                ForkScope::Tree => tree(view, &mut left_out)?,
            };
            if plan.next_seq > MAX_SEQ {
                return Err(Error::new(ErrorKind::TooLarge, "the sequence of the source is used up"));
            }
            Ok(plan)
        };
        let session = self.copy(source, &create, &mut plan, ctx)?;
        span.record("session.id", session.id());
        Ok(Fork { session, left_out })
    }
}

/// What is stored of a branch and its lane.
struct Stored {
    tip: Option<StoredValue>,
    config: Option<StoredValue>,
    state: Option<StoredValue>,
}

impl Stored {
    fn of(view: &dyn View, name: &str) -> Result<Self> {
        let get = |namespace| view.get_value(&Address::known(namespace, name));
        Ok(Self {
            tip: get(reserved::BRANCH_TIP)?,
            config: get(reserved::LANE_CONFIG)?,
            state: get(reserved::LANE_STATE)?,
        })
    }

    /// The configuration and the fresh state of the copy, if this is a lane.
    fn lane(self) -> Option<[Record; 2]> {
        let (_, config, state) = (self.tip?, self.config?, self.state?);
        Some(fresh_lane(config, state))
    }

    fn has_lane_values(&self) -> bool {
        self.config.is_some() || self.state.is_some()
    }
}

fn fresh_lane(config: StoredValue, state: StoredValue) -> [Record; 2] {
    [config.into(), StoredValue { value: Json::trusted(IDLE), ..state }.into()]
}

/// The path that ends at a point.
fn branch(view: &dyn View, point: &ForkPoint) -> Result<Plan> {
    let name = point.branch.as_deref().unwrap_or(MAIN);
    let stored = Stored::of(view, name)?;
    let is_of_branch = point.branch.is_some() || point.entry.is_none();
    if is_of_branch
        && stored.has_lane_values()
        && (stored.tip.is_none() || stored.config.is_none() || stored.state.is_none())
    {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "the lane '{name}' is there by half: of its tip, configuration and state something is missing"
            ),
        )
        .with_id(name)
        .with_hint("fork the whole tree, which leaves it out, or name an entry and no branch"));
    }
    let tip = match &stored.tip {
        Some(tip) => tip_of(name, tip)?,
        None if is_of_branch => {
            return Err(Error::new(ErrorKind::UnknownBranch, format!("the source has no branch '{name}'"))
                .with_id(name)
                .with_hint("name one of its branches, or an entry"));
        }
        None => None,
    };
    let unknown =
        |id: &str| Error::new(ErrorKind::UnknownEntry, format!("the source has no entry '{id}'")).with_id(id);
    let last = match (&point.entry, tip) {
        (None, tip) => tip,
        (Some(id), tip) => {
            if view.parent_of(id)?.is_none() {
                return Err(unknown(id));
            }
            let is_on_branch = match tip {
                _ if point.branch.is_none() => true,
                Some(tip) => view.is_on_path(&tip, id)?,
                None => false,
            };
            if !is_on_branch {
                let what = format!("the entry '{id}' is not on the branch '{name}'");
                return Err(Error::new(ErrorKind::EntryNotOnBranch, what).with_id(id));
            }
            Some(id.clone())
        }
    };
    let end = match last {
        Some(id) => {
            let parent = view.parent_of(&id)?.ok_or_else(|| unknown(&id))?;
            match point.position {
                ForkPosition::At => Some(id),
                ForkPosition::Before => parent,
            }
        }
        None => None,
    };
    let mut next_seq = view.next_seq()?;
    // A tip that the source does not have comes after all that it has.
    let seq = stored.tip.as_ref().map_or(next_seq, |tip| tip.seq);
    next_seq = next_seq.max(seq + 1);
    let value = end.as_deref().map_or_else(Json::null, Json::string);
    let tip = Record { seq, write: Write::SetValue(Address::known(reserved::BRANCH_TIP, name), value) };
    let mut added = vec![tip];
    added.extend(stored.lane().into_iter().flatten());
    added.extend(view.get_value(addresses::session_name().address())?.map(Record::from));
    Ok(Plan { next_seq, entries: Entries::Path(end), values: Values::LabelsOfEntries, usage: false, added })
}

fn tip_of(name: &str, stored: &StoredValue) -> Result<Option<String>> {
    match text_of(stored.value.as_str()) {
        Some(id) => Ok(Some(id.into_owned())),
        None if stored.value.is_null() => Ok(None),
        None => Err(Error::new(
            ErrorKind::Corrupt,
            format!("the tip of the branch '{name}' is neither an entry id nor null"),
        )
        .with_id(name)),
    }
}

/// All of it. Lanes that are there by half are named in `left_out`.
fn tree(view: &dyn View, left_out: &mut Vec<String>) -> Result<Plan> {
    let mut added = Vec::new();
    let mut states = view.values_of(reserved::LANE_STATE)?.into_iter().peekable();
    let configs = view.values_of(reserved::LANE_CONFIG)?;
    // Both are in the order of their names.
    for config in configs {
        let name = config.address.key();
        while let Some(state) = states.next_if(|state| state.address.key() < name) {
            left_out.push(state.address.key().to_owned());
        }
        let state = states.next_if(|state| state.address.key() == name);
        let tip = view.get_value(&Address::known(reserved::BRANCH_TIP, name))?;
        match (tip, state) {
            (Some(_), Some(state)) => added.extend(fresh_lane(config, state)),
            _ => left_out.push(name.to_owned()),
        }
    }
    left_out.extend(states.map(|state| state.address.key().to_owned()));
    let is_copied = |address: &Address| {
        !address.is_reserved()
            || [reserved::BRANCH_TIP, reserved::SESSION_NAME, reserved::ENTRY_LABEL]
                .contains(&address.namespace())
    };
    Ok(Plan {
        next_seq: view.next_seq()?,
        entries: Entries::All,
        values: Values::Where(is_copied),
        usage: false,
        added,
    })
}

/// Refuses a source that holds something of the library's own which is not known here: what it means for a
/// fork cannot be told.
fn refuse_undeclared(view: &dyn View) -> Result<()> {
    let values: [&str; 6] = [
        reserved::BRANCH_TIP,
        reserved::LANE_CONFIG,
        reserved::LANE_STATE,
        reserved::SESSION_NAME,
        reserved::ENTRY_LABEL,
        reserved::RESULT,
    ];
    each_reserved(|after| view.value_addresses(after, 1), &values)?;
    each_reserved(|after| view.list_addresses(after, 1), &[])
}

/// Looks at the first address of each reserved namespace.
fn each_reserved(next: impl Fn(&Address) -> Result<Vec<Address>>, declared: &[&str]) -> Result<()> {
    // "pi" and all that begins with "pi." are reserved; what stands between the two is not.
    const BETWEEN: &str = "pi-\u{10ffff}";
    let mut after = Address::known("ph\u{10ffff}", "");
    while let Some(found) = next(&after)?.pop() {
        let namespace = found.namespace();
        let is_declared = declared.contains(&namespace)
            || namespace.starts_with("pi.op.")
            || namespace.starts_with("pi.pending.");
        if found.is_reserved() && !is_declared {
            return Err(Error::new(
                ErrorKind::ReservedAddress,
                format!("the source holds {found}, which belongs to the library and is not declared"),
            )
            .with_hint("fork it with the release that wrote it, or delete what stands there"));
        }
        if !found.is_reserved() && namespace > "pi." {
            break;
        }
        after = if namespace > "pi" && namespace < BETWEEN {
            Address::known(BETWEEN, "")
        } else {
            // No namespace holds U+0000: this is behind all keys of the one that was found.
            Address::known(&format!("{namespace}\0"), "")
        };
    }
    Ok(())
}
