//! Who may write: an operating system lock on a file of its own, beside what it locks.
//!
//! The kernel releases it when its holder dies, whatever the lock file then says. What stands in the file is
//! for the message only. The database file itself is never locked: any other library in this process that
//! opens and closes it would drop such a lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::process::Process;
use crate::repository::descriptors::Listed;

/// How long a lock is looked at again whose holder is not named: it has been taken a moment ago, or is
/// being swept.
const UNNAMED: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(1);

/// A lock that is held. Dropped, its file is removed, then it is released.
#[derive(Debug)]
pub(crate) struct FileLock {
    // Stands before the file, as it ends before the file is closed.
    _listed: Listed,
    file: Arc<File>,
    path: PathBuf,
    process: Process,
}

/// What came of asking for a lock.
#[derive(Debug)]
pub(crate) enum Attempt {
    Taken(FileLock),
    Held(Holder),
}

/// Who holds a lock, as far as its file says so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Holder {
    pid: Option<u32>,
    start_time: Option<u64>,
    host: Option<String>,
}

impl FileLock {
    /// Takes the lock, making its file. Does not wait for a holder.
    pub(crate) fn take(path: &Path) -> Result<Attempt> {
        let failed = |error| failed("lock", path, error);
        let end = Instant::now() + UNNAMED;
        loop {
            let mut file = open(path, true).map_err(failed)?;
            let listed = Listed::new(&file);
            match file.try_lock() {
                Ok(()) if leads_to(path, &file).map_err(failed)? => {
                    let lock = Self::new(listed, file, path);
                    lock.sign();
                    return Ok(Attempt::Taken(lock));
                }
                // Its holder removed it between our two steps: what we have locked is no longer there.
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => {
                    let holder = Holder::named_in(&mut file);
                    if holder.is_alive() || Instant::now() >= end {
                        return Ok(Attempt::Held(holder));
                    }
                    std::thread::sleep(PAUSE);
                }
                Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }

    /// The lock at `path`, if nobody holds it; without `create`, none also if it has no file. It is not
    /// signed: who meets it looks again.
    pub(crate) fn take_abandoned(path: &Path, create: bool) -> io::Result<Option<Self>> {
        let file = match open(path, create) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let listed = Listed::new(&file);
        match file.try_lock() {
            Ok(()) if leads_to(path, &file)? => Ok(Some(Self::new(listed, file, path))),
            Ok(()) | Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn new(listed: Listed, file: File, path: &Path) -> Self {
        Self { _listed: listed, file: Arc::new(file), path: path.to_owned(), process: Process::current() }
    }

    /// Writes who holds it. It is held all the same if that fails.
    fn sign(&self) {
        let text = Holder::current().text();
        // One that was emptied is written to the disk when it is closed, on ext4: only what is not empty is.
        let written = self.file.metadata().and_then(|before| {
            if before.len() > 0 {
                self.file.set_len(0)?;
            }
            (&*self.file).write_all(text.as_bytes())
        });
        if let Err(error) = written {
            tracing::debug!(%error, path = %self.path.display(), "a lock file could not be signed");
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if self.process.check().is_err() {
            // In a forked child it belongs to the parent, and the descriptor may be closed by now.
            std::mem::forget(Arc::clone(&self.file));
            return;
        }
        // Removed while it is held: whoever has it open by now sees that the path leads elsewhere. Unlocked
        // by name, since a forked child may have the descriptor as well.
        let removed = match leads_to(&self.path, &self.file) {
            Ok(true) => fs::remove_file(&self.path),
            other => other.map(drop),
        };
        if let Err(error) = removed.and_then(|()| self.file.unlock()) {
            tracing::debug!(%error, path = %self.path.display(), "a lock file was left behind");
        }
    }
}

/// Opens a lock file, never through a symbolic link.
fn open(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
        .open(path)
}

/// Whether `path` names the very file that `file` is.
fn leads_to(path: &Path, file: &File) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("writing needs a folder that can be written; open the session for reading only")
        }
        _ => None,
    };
    let error = Error::io(format!("cannot {what}"), error).with_path(path);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

impl Holder {
    fn current() -> Self {
        // Found out once; nobody waits for it, since a fork may leave whoever was at it behind.
        static CURRENT: OnceLock<Holder> = OnceLock::new();
        let pid = std::process::id();
        match CURRENT.get() {
            Some(holder) if holder.pid == Some(pid) => holder.clone(),
            _ => {
                let holder = Self { pid: Some(pid), start_time: start_time(pid), host: host() };
                let _ = CURRENT.set(holder.clone());
                holder
            }
        }
    }

    /// `pid start-time host`, with `-` for what is not known.
    fn text(&self) -> String {
        let or_dash = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
        format!(
            "{} {} {}\n",
            or_dash(self.pid.map(u64::from)),
            or_dash(self.start_time),
            self.host.as_deref().unwrap_or("-")
        )
    }

    fn named_in(file: &mut File) -> Self {
        let mut text = String::new();
        let read = file.rewind().and_then(|()| file.take(512).read_to_string(&mut text));
        match read {
            // Without its line end it is still being written.
            Ok(_) if text.ends_with('\n') => Self::parse(&text),
            _ => Self::default(),
        }
    }

    fn parse(text: &str) -> Self {
        let mut parts = text.split_whitespace();
        Self {
            pid: parts.next().and_then(|part| part.parse().ok()),
            start_time: parts.next().and_then(|part| part.parse().ok()),
            host: parts.next().filter(|part| *part != "-").map(str::to_owned),
        }
    }

    /// Whether it may well be who holds the lock now: not one that died and left its name.
    fn is_alive(&self) -> bool {
        match (self.pid, self.start_time) {
            (Some(pid), Some(start)) if self.host == host() => start_time(pid) == Some(start),
            (pid, _) => pid.is_some(),
        }
    }

    /// The error for the session it holds.
    pub(crate) fn busy(&self, id: &str) -> Error {
        let own = std::process::id();
        let (place, hint) = match (self.pid, &self.host) {
            _ if !self.is_alive() => ("elsewhere".to_owned(), "close it there"),
            (Some(pid), _) if pid == own => {
                (format!("in this process ({pid})"), "use the handle that is open, close it")
            }
            (Some(pid), Some(name)) if self.host != host() => {
                (format!("in process {pid} on {name}"), "close it there")
            }
            (Some(pid), _) => (format!("in process {pid}"), "close it there"),
            (None, _) => ("elsewhere".to_owned(), "close it there"),
        };
        Error::new(ErrorKind::SessionBusy, format!("the session '{id}' is open for writing {place}"))
            .with_id(id)
            .with_hint(format!("{hint}, or open the session for reading only"))
    }
}

/// When a process started, in the kernel's ticks since boot: with its pid it names one process.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn host() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    name.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(path: &Path) -> FileLock {
        match FileLock::take(path).unwrap() {
            Attempt::Taken(lock) => lock,
            Attempt::Held(holder) => panic!("held by {holder:?}"),
        }
    }

    fn holder(path: &Path) -> Holder {
        match FileLock::take(path).unwrap() {
            Attempt::Taken(_) => panic!("nobody holds it"),
            Attempt::Held(holder) => holder,
        }
    }

    #[test]
    fn a_second_lock_in_one_process_is_refused_and_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let lock = taken(&path);
        assert_eq!(holder(&path), Holder::current());
        let error = holder(&path).busy("a");
        assert_eq!(error.kind(), ErrorKind::SessionBusy);
        assert!(error.message().contains(&std::process::id().to_string()), "{error}");
        drop(lock);
        assert!(!path.exists());
        drop(taken(&path));
    }

    #[test]
    fn what_a_dead_holder_left_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        for left in ["", "4194304 1 nowhere\n", "not a holder\n", "\u{0}\u{1}"] {
            fs::write(&path, left).unwrap();
            drop(taken(&path));
        }
        fs::write(&path, format!("{} 1 {}\n", std::process::id(), host().unwrap())).unwrap();
        drop(FileLock::take_abandoned(&path, false).unwrap().unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_lock_that_is_held_is_not_abandoned() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let _lock = taken(&path);
        assert!(FileLock::take_abandoned(&path, false).unwrap().is_none());
        assert!(FileLock::take_abandoned(&folder.path().join("b.lock"), false).unwrap().is_none());
    }

    #[test]
    fn a_holder_that_a_stale_name_hides_is_not_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let lock = taken(&path);
        fs::write(&path, format!("{} 1 {}\n", std::process::id(), host().unwrap())).unwrap();
        let error = holder(&path).busy("a");
        assert!(!error.message().contains(&std::process::id().to_string()), "{error}");
        drop(lock);
    }

    #[test]
    fn a_lock_whose_file_was_replaced_does_not_remove_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let lock = taken(&path);
        fs::remove_file(&path).unwrap();
        let other = taken(&path);
        drop(lock);
        assert!(path.exists());
        assert_eq!(holder(&path), Holder::current());
        drop(other);
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let target = folder.path().join("target");
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert_eq!(FileLock::take(&path).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    }

    #[test]
    fn threads_that_race_for_a_lock_hold_it_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let inside = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    let mut had = 0;
                    while had < 50 {
                        if let Attempt::Taken(lock) = FileLock::take(&path).unwrap() {
                            assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                            inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                            drop(lock);
                            had += 1;
                        }
                    }
                });
            }
        });
    }
}
