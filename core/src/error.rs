//! The one error type: what failed, where, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! kinds {
    ($( $(#[$doc:meta])* $name:ident = $number:literal, )*) => {
        /// What kind of failure an [`Error`] is. C and Python mirror it one to one.
        ///
        /// Numbers are stable: a kind keeps its number for ever, and new kinds are appended.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(i32)]
        pub enum ErrorKind { $( $(#[$doc])* $name = $number, )* }

        impl ErrorKind {
            /// Every kind, in the order of its number.
            pub const ALL: &'static [ErrorKind] = &[ $( ErrorKind::$name, )* ];

            /// The name as it stands in the documentation, for example `SessionBusy`.
            pub fn name(self) -> &'static str {
                match self { $( ErrorKind::$name => stringify!($name), )* }
            }
        }
    };
}

kinds! {
    /// The operating system refused an operation; the source tells how.
    Io = 1,
    /// The disk is full or a size limit was reached. Nothing was written.
    Full = 2,
    /// Another process holds the database's lock past the busy timeout.
    Busy = 3,
    /// The session is open for writing elsewhere.
    SessionBusy = 4,
    /// The call's context was cancelled.
    Cancelled = 5,
    /// The call's deadline passed.
    DeadlineExceeded = 6,
    /// The session or repository is closed.
    Closed = 7,
    /// The session was opened for reading only.
    ReadOnly = 8,
    /// The session is a file of version 1 to 3, and no policy says where a commit of it goes.
    LegacyReadOnly = 9,
    /// This backend cannot do that.
    Unsupported = 10,
    /// No session of that id, or its file is gone.
    UnknownSession = 11,
    /// A session of that id exists already.
    SessionExists = 12,
    /// Two files claim that session id.
    AmbiguousSession = 13,
    /// No branch of that name.
    UnknownBranch = 14,
    /// No entry of that id.
    UnknownEntry = 15,
    /// A tip or branch point names an entry that does not exist.
    UnknownTarget = 16,
    /// An entry names a parent that does not exist.
    MissingParent = 17,
    /// A branch of that name exists already.
    BranchExists = 18,
    /// An entry or usage row of that id exists already.
    DuplicateId = 19,
    /// The entry is not on the path of that branch.
    EntryNotOnBranch = 20,
    /// An id is empty, too long, or holds characters ids cannot have.
    InvalidId = 21,
    /// A namespace is empty, or a part of an address holds characters it cannot have.
    InvalidAddress = 22,
    /// A branch name is empty or holds characters it cannot have.
    InvalidBranch = 23,
    /// A lane name is empty or holds characters it cannot have.
    InvalidLane = 24,
    /// A payload is not JSON as this library takes it.
    InvalidJson = 25,
    /// An argument has a value the call does not take.
    InvalidArgument = 26,
    /// A payload, a commit or a count is over its limit.
    TooLarge = 27,
    /// The address belongs to the library and is not declared.
    ReservedAddress = 28,
    /// An assistant message that is still pending cannot be stored.
    PendingAssistant = 29,
    /// The mutation has used its one commit.
    CommitAttempted = 30,
    /// The mutation has ended.
    MutationEnded = 31,
    /// A writer was called from inside a mutation of the same session and would wait for itself.
    NestedMutation = 32,
    /// The file is not a session.
    NotASession = 33,
    /// The file was written by a newer version of the format.
    UnsupportedVersion = 34,
    /// The file is damaged.
    Corrupt = 35,
    /// Another program changed the file behind an open session.
    FileChanged = 36,
    /// Storage cannot prove its state after a failure; reopen the session.
    StorageFault = 37,
    /// Another SQLite library in this process interfered with the database file.
    ForeignSqlite = 38,
    /// The handle was made before a `fork` and is used in the child.
    Forked = 39,
    /// A handle was misused (freed, of another type, used concurrently where that is not allowed).
    Misuse = 40,
    /// A panic was caught at the boundary of the library. Please report it.
    Panic = 41,
}

impl ErrorKind {
    /// The stable number of this kind; C returns it negated.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// Whether the same call may succeed later without anything else being changed.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Full | Self::Busy | Self::SessionBusy | Self::DeadlineExceeded)
    }
}

/// A failure: its [kind](ErrorKind), a message, and where it happened.
///
/// The message says what failed; [`hint`](Error::hint) says what to do where that is known.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    path: Option<PathBuf>,
    line: Option<u64>,
    offset: Option<u64>,
    id: Option<String>,
    errno: Option<i32>,
    source: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            hint: None,
            path: None,
            line: None,
            offset: None,
            id: None,
            errno: None,
            source: None,
        }))
    }

    /// An operating system error met while doing `what` (for example "read the header of").
    pub fn io(what: impl Into<String>, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                ErrorKind::Full
            }
            _ => ErrorKind::Io,
        };
        let mut error = Self::new(kind, format!("{}: {source}", what.into()));
        error.0.errno = source.raw_os_error();
        error.0.source = Some(std::sync::Arc::new(source));
        error
    }

    /// The same error in other words.
    #[must_use]
    pub(crate) fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Names the file it is about.
    #[must_use]
    pub fn with_path(mut self, path: impl AsRef<Path>) -> Self {
        self.0.path = Some(path.as_ref().to_owned());
        self
    }

    /// Names the line (from 1) and the byte offset of the line's start.
    #[must_use]
    pub fn with_line(mut self, line: u64, offset: u64) -> Self {
        self.0.line = Some(line);
        self.0.offset = Some(offset);
        self
    }

    /// Names the byte offset it is about.
    #[must_use]
    pub fn with_offset(mut self, offset: u64) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// Names the session, entry or other id it is about.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.0.id = Some(id.into());
        self
    }

    /// Keeps the error underneath.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(std::sync::Arc::new(source));
        self
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What failed, in a sentence, without path, line and hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The file it is about.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The line (from 1) it is about.
    pub fn line(&self) -> Option<u64> {
        self.0.line
    }

    /// The byte offset in the file (with a line: that of the line's first byte).
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The session, entry or other id it is about.
    pub fn id(&self) -> Option<&str> {
        self.0.id.as_deref()
    }

    /// The operating system's error number, for [`ErrorKind::Io`] and [`ErrorKind::Full`].
    pub fn errno(&self) -> Option<i32> {
        self.0.errno
    }

    /// Whether the same call may succeed later without anything else being changed.
    pub fn is_retryable(&self) -> bool {
        self.0.kind.is_retryable()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        let place = [
            self.0.path.as_ref().map(|p| p.display().to_string()),
            self.0.line.map(|l| format!("line {l}")),
            self.0.offset.map(|o| format!("byte {o}")),
        ];
        let place: Vec<String> = place.into_iter().flatten().collect();
        if !place.is_empty() {
            write!(f, " ({})", place.join(", "))?;
        }
        if let Some(hint) = &self.0.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.0.kind.name())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as &(dyn std::error::Error + 'static))
    }
}

impl PartialEq<ErrorKind> for Error {
    fn eq(&self, other: &ErrorKind) -> bool {
        self.0.kind == *other
    }
}
