//! The first line of a format-4 file.

use crate::error::{Error, ErrorKind, Result};
use crate::model::id::check_id;
use crate::model::json::{Json, Members, count_of, end_of_text, push_quoted, scan_object, text_of};
use crate::model::usage::rest_object;
use crate::session::backend::SessionMetadata;
use crate::storage::commit::MAX_SEQ;

/// The version of the format that this library writes, and the newest it reads.
pub(crate) const FORMAT: u64 = 4;
/// The version of the stored form inside it.
pub(crate) const STORAGE_VERSION: u32 = 1;

/// What the first line says.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) metadata: SessionMetadata,
    /// The next commit starts here at the earliest.
    pub(crate) next_seq: Option<u64>,
    /// Fields unknown here, kept when the file is rewritten: an object.
    extra: Json,
}

const KNOWN: [&str; 9] = [
    "v",
    "kind",
    "id",
    "storageVersion",
    "createdAt",
    "cwd",
    "parentSessionId",
    "legacyParentSessionPath",
    "nextSeq",
];

impl Header {
    pub(crate) fn new(metadata: SessionMetadata) -> Self {
        Self { metadata, next_seq: None, extra: Json::trusted("{}") }
    }

    /// Reads the first line of a file, without its line end.
    ///
    /// # Errors
    /// `NotASession`, `UnsupportedVersion`, `Corrupt` for a header of format 4 that is malformed; the path
    /// is the caller's to add.
    pub(crate) fn parse(line: &str) -> Result<Self> {
        let line = line.strip_prefix('\u{feff}').unwrap_or(line);
        let mut members = Members::default();
        scan_object(line, 0, crate::model::json::MAX_DEPTH, &mut members.0)
            .and_then(|end| end_of_text(line, end))
            .map_err(|_| not_a_session("its first line is no JSON object"))?;
        if members.text("kind").as_deref() != Some("header") {
            return Err(not_a_session("its first line is no header"));
        }
        match members.get("v").and_then(count_of) {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => {
                return Err(Error::new(
                    ErrorKind::UnsupportedVersion,
                    format!("the file is of format {newer}; this library reads up to {FORMAT}"),
                )
                .with_hint("open it with a newer version of this library"));
            }
            _ if members.get("version").is_some() => {
                return Err(not_a_session(
                    "its header has `version` in place of `v`: another dialect that calls itself version 4",
                ));
            }
            _ => return Err(not_a_session("its header names no format")),
        }
        let corrupt =
            |what: &str| Error::new(ErrorKind::Corrupt, format!("the header {what}")).with_line(1, 0);
        let id = members.text("id").ok_or_else(|| corrupt("has no id"))?.into_owned();
        check_id(&id).map_err(|error| corrupt(&format!("has an id that is none: {}", error.message())))?;
        let version = members
            .get("storageVersion")
            .and_then(count_of)
            .ok_or_else(|| corrupt("has no storageVersion"))?;
        if version > u64::from(STORAGE_VERSION) {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!(
                    "the file is of storage version {version}; this library reads up to {STORAGE_VERSION}"
                ),
            )
            .with_id(id)
            .with_hint("open it with a newer version of this library"));
        }
        let created_at =
            members.get("createdAt").and_then(count_of).ok_or_else(|| corrupt("has no createdAt"))?;
        let cwd = members.text("cwd").ok_or_else(|| corrupt("has no cwd"))?.into_owned();
        let optional = |name: &str| match members.get(name) {
            None => Ok(None),
            Some(text) => text_of(text)
                .map(|text| Some(text.into_owned()))
                .ok_or_else(|| corrupt(&format!("has a {name} that is no text"))),
        };
        let next_seq = match members.get("nextSeq") {
            None => None,
            Some(text) => Some(
                count_of(text)
                    .filter(|seq| (1..=MAX_SEQ).contains(seq))
                    .ok_or_else(|| corrupt("has a nextSeq that is no sequence number"))?,
            ),
        };
        Ok(Self {
            metadata: SessionMetadata {
                id,
                created_at: i64::try_from(created_at).map_err(|_| corrupt("has no createdAt"))?,
                storage_version: STORAGE_VERSION,
                cwd: Some(cwd),
                parent_session_id: optional("parentSessionId")?,
                legacy_parent_session_path: optional("legacyParentSessionPath")?,
                path: None,
            },
            next_seq,
            extra: Json::trusted(rest_object(&members.0, &KNOWN)),
        })
    }

    /// The line, with its line end.
    pub(crate) fn to_line(&self) -> String {
        use std::fmt::Write as _;
        let metadata = &self.metadata;
        let mut out = format!("{{\"v\":{FORMAT},\"kind\":\"header\",\"id\":");
        push_quoted(&mut out, &metadata.id);
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            ",\"storageVersion\":{STORAGE_VERSION},\"createdAt\":{},\"cwd\":",
            metadata.created_at
        );
        push_quoted(&mut out, metadata.cwd.as_deref().unwrap_or_default());
        if let Some(id) = &metadata.parent_session_id {
            out.push_str(",\"parentSessionId\":");
            push_quoted(&mut out, id);
        }
        if let Some(path) = &metadata.legacy_parent_session_path {
            out.push_str(",\"legacyParentSessionPath\":");
            push_quoted(&mut out, path);
        }
        if let Some(seq) = self.next_seq {
            let _ = write!(out, ",\"nextSeq\":{seq}");
        }
        crate::model::usage::push_inner(&mut out, &self.extra);
        out.push_str("}\n");
        out
    }
}

pub(crate) fn not_a_session(why: &str) -> Error {
    Error::new(ErrorKind::NotASession, format!("the file is no session: {why}"))
        .with_hint("nothing was changed; check that this is the file you mean")
}
