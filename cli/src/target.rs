//! What an argument names: a repository, a session in one, or a session file.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use pisession::{
    Context, Error, ErrorKind, Format, ListOptions, OpenMode, OpenOptions, Repository, Session,
    SessionListing, open_file, open_repository,
};

use crate::failure::Failure;

const SCHEMES: [&str; 6] = ["memory:", "jsonl:", "sqlite:", "unix:", "tcp:", "stdio:"];
const SESSION_HINT: &str = "name a session as URI#ID, with the URI jsonl:PATH or sqlite:PATH (pisession ls URI shows the ids), or by the \
     path of its file";

/// What an argument names. A file whose name begins like a URI is written `./sqlite:name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Repository(String),
    Session { uri: String, id: String },
    File(PathBuf),
}

impl Target {
    pub(crate) fn of(argument: &str) -> Self {
        if !SCHEMES.iter().any(|scheme| argument.starts_with(scheme)) {
            return Self::File(argument.into());
        }
        match split_id(argument) {
            Some((uri, id)) => Self::Session { uri: uri.to_owned(), id: id.to_owned() },
            None => Self::Repository(argument.to_owned()),
        }
    }
}

/// Splits `URI#ID`. Both a path and an id may hold `#`: the path is the shortest that is there.
fn split_id(argument: &str) -> Option<(&str, &str)> {
    let cuts = || argument.match_indices('#').map(|(at, _)| (&argument[..at], &argument[at + 1..]));
    let is_there = |uri: &str| uri.split_once(':').is_some_and(|(_, path)| Path::new(path).exists());
    if !cuts().any(|(uri, _)| is_there(uri)) && is_there(argument) {
        return None;
    }
    cuts().find(|(uri, _)| is_there(uri)).or_else(|| cuts().next())
}

/// A session that is open for reading, and how it is kept.
pub(crate) struct Opened {
    pub(crate) session: Session,
    pub(crate) format: Format,
    pub(crate) modified_at: Option<i64>,
    /// Kept open as long as the session.
    _repository: Option<Repository>,
}

/// The repository `uri`.
pub(crate) fn repository(uri: &str) -> Result<Repository, Failure> {
    open_repository(uri, Default::default()).map_err(failure)
}

/// The repository that `argument` names as the place for new sessions.
pub(crate) fn destination(argument: &str) -> Result<Repository, Failure> {
    let hint = "write sqlite:PATH or jsonl:PATH";
    let Target::Repository(uri) = Target::of(argument) else {
        return Err(Failure::usage(format!("'{argument}' names no repository"), hint));
    };
    if uri.starts_with("memory:") {
        return Err(Failure::usage("what is made in memory is gone when the command ends", hint));
    }
    repository(&uri)
}

/// The failure of opening what an argument names.
pub(crate) fn failure(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::InvalidArgument => Failure::Usage(error),
        _ => Failure::Error(error),
    }
}

/// The session `id` of the repository `uri`, for reading.
pub(crate) fn in_repository(
    repository: &Repository,
    uri: &str,
    id: &str,
    ctx: &Context,
) -> pisession::Result<Session> {
    in_repository_with(repository, uri, id, false, ctx)
}

/// The same, with `salvage` past damage.
pub(crate) fn in_repository_with(
    repository: &Repository,
    uri: &str,
    id: &str,
    salvage: bool,
    ctx: &Context,
) -> pisession::Result<Session> {
    let options = OpenOptions { mode: OpenMode::ReadOnly, salvage, ..OpenOptions::default() };
    repository.open_with(id, &options, ctx).map_err(|error| match error.kind() {
        ErrorKind::AmbiguousSession => error.with_hint(format!(
            "name the session by the path of its file; pisession doctor {uri} names the files"
        )),
        _ => error,
    })
}

/// The repository `uri`, for reading: a name that leads nowhere is a mistake and no empty repository.
pub(crate) fn existing_repository(uri: &str) -> Result<Repository, Failure> {
    let repository = repository(uri)?;
    if let Some((_, path)) = uri.split_once(':').filter(|(scheme, _)| matches!(*scheme, "sqlite" | "jsonl")) {
        std::fs::metadata(path).map_err(|error| {
            Error::io("cannot look into the repository", error)
                .with_path(path)
                .with_hint("a repository comes to be with the first session in it")
        })?;
    }
    Ok(repository)
}

/// The session that `argument` names, for reading.
pub(crate) fn session(argument: &str, ctx: &Context) -> Result<Session, Failure> {
    Ok(opened(argument, ctx)?.session)
}

/// The session that `argument` names, for reading, and how it is kept.
pub(crate) fn opened(argument: &str, ctx: &Context) -> Result<Opened, Failure> {
    match Target::of(argument) {
        Target::Repository(uri) => {
            Err(Failure::usage(format!("'{uri}' names a repository and no session"), SESSION_HINT))
        }
        Target::Session { uri, id } => {
            let repository = existing_repository(&uri)?;
            let session = in_repository(&repository, &uri, &id, ctx)?;
            let format = kept_as(&uri, &session, ctx)?;
            let modified_at = modified_at(session.metadata().path.as_deref());
            Ok(Opened { session, format, modified_at, _repository: Some(repository) })
        }
        Target::File(path) => file(&path, ctx).map_err(failure),
    }
}

/// The session in the file `path`, whatever program wrote it.
pub(crate) fn file(path: &Path, ctx: &Context) -> pisession::Result<Opened> {
    file_with(path, false, ctx)
}

/// The same, with `salvage` past damage.
pub(crate) fn file_with(path: &Path, salvage: bool, ctx: &Context) -> pisession::Result<Opened> {
    if is_sqlite(path)? {
        return sqlite_file(path, ctx);
    }
    let options = OpenOptions { mode: OpenMode::ReadOnly, salvage, ..OpenOptions::default() };
    let session = open_file(path, &options, ctx)?;
    Ok(Opened { format: jsonl(&session), session, modified_at: modified_at(Some(path)), _repository: None })
}

fn is_sqlite(path: &Path) -> pisession::Result<bool> {
    let failed = |what: &str, error| Error::io(what, error).with_path(path);
    let not_opened = |error| {
        failed("cannot open the session file", error)
            .with_hint("name a file that is there, or a session as URI#ID, for example sqlite:sessions#ID")
    };
    // Looked at before it is opened: opening a pipe would wait for its writer.
    let there = std::fs::metadata(path).map_err(not_opened)?;
    if there.is_dir() {
        let folder = path.display();
        return Err(Error::new(ErrorKind::InvalidArgument, "the path names a folder and no session file")
            .with_path(path)
            .with_hint(format!(
                "a folder of sessions is a repository: try pisession ls jsonl:{folder} or pisession ls \
                 sqlite:{folder}"
            )));
    }
    if !there.is_file() {
        return Err(Error::new(
            ErrorKind::NotASession,
            "a session is kept in a regular file, and this is none",
        )
        .with_path(path));
    }
    let file = File::open(path).map_err(not_opened)?;
    let mut head = Vec::new();
    file.take(16).read_to_end(&mut head).map_err(|error| failed("cannot read the session file", error))?;
    Ok(head == b"SQLite format 3\0")
}

/// The one session of a database file.
fn sqlite_file(path: &Path, ctx: &Context) -> pisession::Result<Opened> {
    let uri = format!("sqlite:{}", path.display());
    let repository = open_repository(&uri, Default::default())?;
    let mut listed = repository.list(&ListOptions::default(), ctx)?;
    let listing = match (listed.pop(), listed.len()) {
        (Some(SessionListing { problem: Some(problem), .. }), 0) => return Err(problem),
        (Some(listing), 0) => listing,
        (None, _) => {
            return Err(
                Error::new(ErrorKind::UnknownSession, "the database holds no session").with_path(path)
            );
        }
        (Some(_), others) => {
            return Err(Error::new(
                ErrorKind::AmbiguousSession,
                format!("the database holds {} sessions", others + 1),
            )
            .with_path(path)
            .with_hint(format!("name one as {uri}#ID; pisession ls {uri} shows the ids")));
        }
    };
    let Some(metadata) = &listing.metadata else {
        return Err(Error::new(ErrorKind::Corrupt, "the session says nothing of itself").with_path(path));
    };
    let session = repository.open_read_only(metadata, ctx)?;
    let modified_at = listing.modified_at;
    // A file that is named after its session is one of a folder.
    let own = path.file_stem().is_some_and(|stem| stem == metadata.id.as_str());
    let format = match listing.format {
        Format::SqliteContainer if own => Format::SqliteFile,
        format => format,
    };
    Ok(Opened { session, format, modified_at, _repository: Some(repository) })
}

/// How a session of the repository `uri` is kept.
fn kept_as(uri: &str, session: &Session, ctx: &Context) -> pisession::Result<Format> {
    let (scheme, path) = uri.split_once(':').unwrap_or((uri, ""));
    Ok(match scheme {
        "memory" => Format::Memory,
        "sqlite" if is_of_the_reference(session, ctx)? => Format::ReferenceSqlite,
        "sqlite" if Path::new(path).is_dir() => Format::SqliteFile,
        "sqlite" => Format::SqliteContainer,
        _ => jsonl(session),
    })
}

/// Whether the database file of a session is one of the reference implementation.
fn is_of_the_reference(session: &Session, ctx: &Context) -> pisession::Result<bool> {
    let Some(path) = &session.metadata().path else { return Ok(false) };
    let file = open_repository(&format!("sqlite:{}", path.display()), Default::default())?;
    let listed = file.list(&ListOptions::default(), ctx)?;
    Ok(listed.first().is_some_and(|listing| listing.format == Format::ReferenceSqlite))
}

fn jsonl(session: &Session) -> Format {
    Format::Jsonl(session.legacy().map_or(4, |legacy| u32::try_from(legacy.version).unwrap_or(u32::MAX)))
}

fn modified_at(path: Option<&Path>) -> Option<i64> {
    let modified = std::fs::metadata(path?).ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_names_a_repository_a_session_or_a_file() {
        let session = |uri: &str, id: &str| Target::Session { uri: uri.to_owned(), id: id.to_owned() };
        for (argument, target) in [
            ("memory:", Target::Repository("memory:".to_owned())),
            ("sqlite:no/such", Target::Repository("sqlite:no/such".to_owned())),
            ("sqlite:no/such#a", session("sqlite:no/such", "a")),
            ("sqlite:no/such#a#b", session("sqlite:no/such", "a#b")),
            ("a.jsonl", Target::File("a.jsonl".into())),
            ("./sqlite:a#b", Target::File("./sqlite:a#b".into())),
        ] {
            assert_eq!(Target::of(argument), target, "{argument}");
        }
    }

    #[test]
    fn a_folder_with_a_number_sign_in_its_name_is_found() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a#b");
        std::fs::create_dir(&folder).unwrap();
        let uri = format!("sqlite:{}", folder.display());
        assert_eq!(Target::of(&uri), Target::Repository(uri.clone()));
        let target = Target::Session { uri: uri.clone(), id: "x#y".to_owned() };
        assert_eq!(Target::of(&format!("{uri}#x#y")), target);
    }
}
