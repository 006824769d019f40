//! Export: a branch or the tree of a session as a file of version 3, which coding agents open.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as Out};
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::legacy::loss::Loss;
use crate::legacy::writer::write;
use crate::model::json::{Json, quote};
use crate::session::Session;

/// What of a session is exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ExportScope {
    /// All entries. The file opens at `main`, or at the first branch by name where there is no `main`.
    #[default]
    Tree,
    /// The path to the tip of this branch.
    Branch(String),
}

/// How a session is exported. Default: the tree, and never over a file that is there.
#[derive(Debug, Clone, Default)]
pub struct ExportOptions {
    /// What is exported.
    pub scope: ExportScope,
    /// Whether [`Session::export_to`] may replace a file.
    pub overwrite: bool,
}

/// What an export did.
#[derive(Debug, Clone)]
pub struct Export {
    /// The file, where it went to one.
    pub path: Option<PathBuf>,
    /// How many entries of the session are in it.
    pub entries: u64,
    /// How many lines it has, the header included.
    pub lines: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// What the session has and version 3 cannot hold, by kind and name.
    pub losses: Vec<Loss>,
}

impl Export {
    /// The report as JSON: `path` where there is one, `entries`, `lines`, `bytes`, and `losses`, each with
    /// `kind`, `count`, `message` and, where it has them, `name`, `namespace`, `key` and `entryId`.
    pub fn to_json(&self) -> Json {
        let mut out = String::from("{");
        if let Some(path) = &self.path {
            out.push_str(&format!("\"path\":{},", quote(&path.to_string_lossy())));
        }
        let (entries, lines, bytes) = (self.entries, self.lines, self.bytes);
        out.push_str(&format!("\"entries\":{entries},\"lines\":{lines},\"bytes\":{bytes},\"losses\":["));
        for (at, loss) in self.losses.iter().enumerate() {
            out.push_str(if at > 0 { "," } else { "" });
            loss.push_json(&mut out);
        }
        out.push_str("]}");
        Json::trusted(out)
    }
}

impl Session {
    /// Writes the session as a session file of version 3 to `out`.
    ///
    /// A session that was imported or copied from a file of version 3 and did not change gives that file's
    /// bytes, but for line ends other than `\n`; what came to it since follows as lines of its own. Entries
    /// have their old ids where they had some, else eight hex digits, the same at every export.
    /// [`Export::losses`] tells what version 3 has no place for. Memory follows the number of entries, not
    /// their size. It is read in pages: entries that are added meanwhile are not in it.
    ///
    /// ```
    /// use pisession::{Context, Json, LossKind, open_repository};
    ///
    /// let ctx = Context::background();
    /// let session = open_repository("memory:", Default::default())?.create(&Default::default(), &ctx)?;
    /// let main = session.create_branch("main", None, &ctx)?;
    /// main.append_message(&Json::parse(r#"{"role":"user","content":"hello"}"#)?, &ctx)?;
    /// session.create_branch("other", None, &ctx)?;
    /// let mut text = Vec::new();
    /// let export = session.export(&mut text, &Default::default(), &ctx)?;
    /// assert!(String::from_utf8_lossy(&text).starts_with(r#"{"type":"session","version":3,"#));
    /// assert!(export.losses.iter().any(|loss| loss.kind == LossKind::Branch));
    /// # Ok::<(), pisession::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`UnknownBranch`](ErrorKind::UnknownBranch); [`Corrupt`](ErrorKind::Corrupt) for a session whose import
    /// was cut off; [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) for a file of a version above 3;
    /// [`Io`](ErrorKind::Io) or [`Full`](ErrorKind::Full) if `out` or a temporary file fails; see
    /// [`SessionReader`](crate::SessionReader). What was written to `out` before is no whole file.
    pub fn export(&self, out: &mut dyn Out, options: &ExportOptions, ctx: &Context) -> Result<Export> {
        let span =
            tracing::debug_span!("pisession.export", session.id = self.id(), traceparent = ctx.traceparent());
        let _entered = span.enter();
        write(self, out, &options.scope, &std::env::temp_dir(), ctx)
    }

    /// [`export`](Self::export) to a file at `path`, which appears whole, and durably, or not at all.
    ///
    /// # Errors
    /// As [`export`](Self::export); [`SessionExists`](ErrorKind::SessionExists) if there is a file and `options`
    /// do not say `overwrite`; [`InvalidArgument`](ErrorKind::InvalidArgument) if it is the session's own.
    pub fn export_to(
        &self,
        path: impl AsRef<Path>,
        options: &ExportOptions,
        ctx: &Context,
    ) -> Result<Export> {
        let span =
            tracing::debug_span!("pisession.export", session.id = self.id(), traceparent = ctx.traceparent());
        let _entered = span.enter();
        to_file(self, path.as_ref(), options, ctx)
    }
}

fn to_file(session: &Session, path: &Path, options: &ExportOptions, ctx: &Context) -> Result<Export> {
    let located = |what: &str, error| Error::io(what, error).with_path(path);
    if let Some(own) = &session.metadata().path
        && let (Ok(own), Ok(other)) = (fs::canonicalize(own), fs::canonicalize(path))
        && own == other
    {
        return Err(Error::new(ErrorKind::InvalidArgument, "a session is not exported over its own file")
            .with_path(path)
            .with_hint("export it to another path"));
    }
    let exists = || {
        Error::new(ErrorKind::SessionExists, "there is a file at that path already")
            .with_path(path)
            .with_hint("export to another path, or ask for `overwrite`")
    };
    // Looked at before the work; decided again when the file gets its name.
    if !options.overwrite && fs::symlink_metadata(path).is_ok() {
        return Err(exists());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".pisession-export-")
        .tempfile_in(folder)
        .map_err(|error| located("cannot make a file in the folder", error))?;
    let mut export = {
        let mut out = BufWriter::with_capacity(1 << 20, file.as_file_mut());
        let export = write(session, &mut out, &options.scope, folder, ctx)
            .map_err(|error| if error.path().is_none() { error.with_path(path) } else { error })?;
        out.flush().map_err(|error| located("cannot write the file", error))?;
        export
    };
    file.as_file().sync_all().map_err(|error| located("cannot sync the file", error))?;
    let named = if options.overwrite { file.persist(path) } else { file.persist_noclobber(path) };
    named.map_err(|failed| match failed.error.kind() {
        io::ErrorKind::AlreadyExists => exists(),
        _ => located("cannot give the file its name", failed.error),
    })?;
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        let error = located("cannot sync the folder of", error);
        return Err(if options.overwrite {
            error.with_hint("the new file is there, but may be gone after a power loss: export it again")
        } else {
            // Nobody was told of it: an attempt that failed leaves nothing.
            let _ = fs::remove_file(path);
            error
        });
    }
    export.path = Some(path.to_owned());
    Ok(export)
}
