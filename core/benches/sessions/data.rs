//! Sessions and files to measure on, made once per machine and kept for the sides of a case.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use pisession::{
    Context, CreateOptions, Durability, Json, NewNode, Repository, RepositoryOptions, open_repository,
};

use crate::Failure;

/// A message of about 1 KiB, different for each number.
pub(crate) fn message(number: u64) -> Result<Json, Failure> {
    let mut text = String::new();
    for word in 0.. {
        text += &format!("word{} ", number.wrapping_mul(31).wrapping_add(word) % 9973);
        if text.len() >= 960 {
            break;
        }
    }
    Ok(Json::parse(format!(r#"{{"role":"user","content":"{}","timestamp":{number}}}"#, &text[..960]))?)
}

/// The folder that everything is made in.
pub(crate) fn folder() -> Result<PathBuf, Failure> {
    let folder =
        std::env::var_os("BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from).join("pisession-bench");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// An empty folder of that name.
pub(crate) fn fresh(name: &str) -> Result<PathBuf, Failure> {
    let folder = folder()?.join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// How a session is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Jsonl,
}

impl Kind {
    fn scheme(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Jsonl => "jsonl",
        }
    }
}

pub(crate) fn repository(kind: Kind, place: &Path, durability: Durability) -> Result<Repository, Failure> {
    Ok(open_repository(
        &format!("{}:{}", kind.scheme(), place.display()),
        RepositoryOptions { durability, ..RepositoryOptions::default() },
    )?)
}

/// Name of the session in the folders made here.
pub(crate) const SESSION: &str = "bench";

/// A copy of [`made_session`], for a side that writes.
pub(crate) fn session_of(kind: Kind, size: u64, copy: &str) -> Result<PathBuf, Failure> {
    let target = fresh(copy)?;
    copy_folder(&made_session(kind, size)?, &target)?;
    Ok(target)
}

/// A folder with one session of `size` messages in one chain on branch `main`. Made once, for sides that read.
pub(crate) fn made_session(kind: Kind, size: u64) -> Result<PathBuf, Failure> {
    let name = format!("made-{}-{size}", kind.scheme());
    let made = folder()?.join(&name);
    if !made.join("done").exists() {
        let making = fresh(&name)?;
        let repository = repository(kind, &making, Durability::Process)?;
        let ctx = Context::background();
        let session = repository.create(&options(SESSION), &ctx)?;
        let branch = session.create_branch("main", None, &ctx)?;
        let numbers: Vec<u64> = (0..size).collect();
        // A line holds one commit: as agents make them, of one message each.
        let together = if kind == Kind::Jsonl { 1 } else { 1_000 };
        for numbers in numbers.chunks(together) {
            let nodes = numbers
                .iter()
                .map(|n| Ok(NewNode::Message(message(*n)?)))
                .collect::<Result<Vec<_>, Failure>>()?;
            branch.append_many(&nodes, &ctx)?;
        }
        session.close(&ctx)?;
        repository.close(&ctx)?;
        fs::write(making.join("done"), "")?;
    }
    Ok(made)
}

/// The file of the JSONL session of that size.
pub(crate) fn jsonl_file(size: u64) -> Result<PathBuf, Failure> {
    let repository = repository(Kind::Jsonl, &made_session(Kind::Jsonl, size)?, Durability::Process)?;
    let listed = repository.list(&Default::default(), &Context::background())?;
    Ok(listed.into_iter().find_map(|listing| listing.path).ok_or("no session")?)
}

/// Drops a file from the page cache, so that reading it reads the disk.
pub(crate) fn cool(path: &Path) -> Result<(), Failure> {
    let file = fs::File::open(path)?;
    file.sync_all()?;
    Ok(posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?)
}

/// Copies a file onto the disk: what the system has yet to write would slow whatever is measured next.
pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to)?;
    Ok(fs::File::open(to)?.sync_all()?)
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        if file.file_type()?.is_dir() {
            copy_folder(&file.path(), &to.join(file.file_name()))?;
        } else {
            copy_file(&file.path(), &to.join(file.file_name()))?;
        }
    }
    Ok(())
}

fn options(id: &str) -> CreateOptions {
    CreateOptions { id: Some(id.to_owned()), cwd: Some("/bench".to_owned()), ..CreateOptions::default() }
}

/// A place with `size` small sessions. Made once.
pub(crate) fn many_sessions(kind: Kind, size: u64, container: bool) -> Result<PathBuf, Failure> {
    let name = format!("many-{}-{size}-{container}", kind.scheme());
    let made = folder()?.join(&name);
    let place = if container { made.join("all.sqlite") } else { made.clone() };
    if !made.join("done").exists() {
        fresh(&name)?;
        let repository = repository(kind, &place, Durability::Process)?;
        let ctx = Context::background();
        for number in 0..size {
            // Ids of the library's own, as most sessions have.
            let options = CreateOptions { cwd: Some("/bench".to_owned()), ..CreateOptions::default() };
            let session = repository.create(&options, &ctx)?;
            session.create_branch("main", None, &ctx)?.append_message(&message(number)?, &ctx)?;
            session.close(&ctx)?;
        }
        repository.close(&ctx)?;
        fs::write(made.join("done"), "")?;
    }
    Ok(place)
}

/// A version 3 file of `size` messages in one chain. Made once.
pub(crate) fn legacy_file(size: u64) -> Result<PathBuf, Failure> {
    let path = folder()?.join(format!("legacy-{size}.jsonl"));
    if !path.exists() {
        let part = path.with_extension("part");
        let mut out = BufWriter::new(fs::File::create(&part)?);
        writeln!(
            out,
            r#"{{"type":"session","version":3,"id":"bench","timestamp":"2025-06-15T15:06:40.000Z","cwd":"/w"}}"#
        )?;
        let mut parent = "null".to_owned();
        for number in 0..size {
            let message = message(number)?;
            let id = format!("\"{number:08x}\"");
            writeln!(
                out,
                r#"{{"type":"message","id":{id},"parentId":{parent},"timestamp":"2025-06-15T15:06:40.000Z","message":{message}}}"#
            )?;
            parent = id;
        }
        out.into_inner()?.sync_all()?;
        fs::rename(part, &path)?;
    }
    Ok(path)
}
