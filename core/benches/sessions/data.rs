//! Sessions and files to measure on, made once per machine and kept for the sides of a case.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

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

pub(crate) fn repository(folder: &Path, durability: Durability) -> Result<Repository, Failure> {
    Ok(open_repository(
        &format!("sqlite:{}", folder.display()),
        RepositoryOptions { durability, ..RepositoryOptions::default() },
    )?)
}

/// Name of the session in the folders made here.
pub(crate) const SESSION: &str = "bench";

/// A folder with one session of `size` messages in one chain on branch `main`. Made once, then copied.
pub(crate) fn session_of(size: u64, copy: &str) -> Result<PathBuf, Failure> {
    let made = folder()?.join(format!("made-{size}"));
    if !made.join("done").exists() {
        let making = fresh(&format!("made-{size}"))?;
        let repository = repository(&making, Durability::Process)?;
        let ctx = Context::background();
        let session =
            repository.create(&CreateOptions { id: Some(SESSION.to_owned()), ..Default::default() }, &ctx)?;
        let branch = session.create_branch("main", None, &ctx)?;
        let numbers: Vec<u64> = (0..size).collect();
        for numbers in numbers.chunks(1_000) {
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
    let target = fresh(copy)?;
    for file in fs::read_dir(&made)? {
        let file = file?;
        fs::copy(file.path(), target.join(file.file_name()))?;
    }
    Ok(target)
}

/// A folder or container with `size` small sessions. Made once.
pub(crate) fn many_sessions(size: u64, container: bool) -> Result<PathBuf, Failure> {
    let made = folder()?.join(format!("many-{size}-{container}"));
    let place = if container { made.join("all.sqlite") } else { made.clone() };
    if !made.join("done").exists() {
        fresh(&format!("many-{size}-{container}"))?;
        let repository = repository(&place, Durability::Process)?;
        let ctx = Context::background();
        for number in 0..size {
            let id = Some(format!("session-{number}"));
            let session = repository.create(&CreateOptions { id, ..Default::default() }, &ctx)?;
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
