//! Entries: the nodes of the conversation tree, placement and payload together, written once.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::error::{Error, ErrorKind, Result};
use crate::model::id::check_id;
use crate::model::json::{
    Json, MAX_DEPTH, Member, Members, end_of_text, push_quoted, scan_value, text_of, walk,
};
use crate::model::usage::{push_inner, rest_object};

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryType {
    /// An agent message: payload `message`, `terminate?`.
    Message,
    /// A compaction: payload `summary`, `retainedTail`, `tokensBefore`, `details?`, `usage?`, `fromHook`.
    Compaction,
    /// A summary of a branch that was left: payload `fromId`, `summary`, `details?`, `usage?`, `fromHook`.
    BranchSummary,
    /// An entry of the application's own: payload `data?`, and a custom type.
    Custom,
}

impl EntryType {
    /// All of them.
    pub const ALL: [EntryType; 4] = [Self::Message, Self::Compaction, Self::BranchSummary, Self::Custom];

    /// The name in the files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Compaction => "compaction",
            Self::BranchSummary => "branch_summary",
            Self::Custom => "custom",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for EntryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An entry to be written. `seq` and timestamp come with the commit.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntry {
    pub(crate) id: String,
    pub(crate) parent_id: Option<String>,
    pub(crate) entry_type: EntryType,
    pub(crate) custom_type: Option<String>,
    pub(crate) payload: Json,
    /// When it was made, for an entry that comes as it is from an older file; else its commit says.
    pub(crate) made_at: Option<i64>,
}

impl NewEntry {
    /// A message under `parent_id` (none for a root). The message is opaque but for `role` and `stopReason`.
    pub fn message(id: impl Into<String>, parent_id: Option<&str>, message: &Json) -> Self {
        Self {
            id: id.into(),
            parent_id: parent_id.map(str::to_owned),
            entry_type: EntryType::Message,
            custom_type: None,
            payload: Json::trusted(["{\"message\":", message.trimmed(), "}"].concat()),
            made_at: None,
        }
    }

    /// An entry of the application's own type, with or without data.
    pub fn custom(
        id: impl Into<String>,
        parent_id: Option<&str>,
        custom_type: &str,
        data: Option<&Json>,
    ) -> Self {
        Self {
            id: id.into(),
            parent_id: parent_id.map(str::to_owned),
            entry_type: EntryType::Custom,
            custom_type: Some(custom_type.to_owned()),
            payload: Json::trusted(
                data.map_or_else(|| "{}".to_owned(), |data| ["{\"data\":", data.trimmed(), "}"].concat()),
            ),
            made_at: None,
        }
    }

    /// An entry of any type from its payload: the object of the type's payload fields (see [`EntryType`]).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming the field that is missing or of the wrong kind.
    pub fn with_payload(
        id: impl Into<String>,
        parent_id: Option<&str>,
        entry_type: EntryType,
        custom_type: Option<&str>,
        payload: Json,
    ) -> Result<Self> {
        // The fields are kept to the letter; what stands between them is the line's, not the payload's.
        let payload = match Members::of(payload.as_str()) {
            Some(fields) => Json::trusted(rest_object(&fields.0, &[])),
            None => payload,
        };
        let entry = Self {
            id: id.into(),
            parent_id: parent_id.map(str::to_owned),
            entry_type,
            custom_type: custom_type.map(str::to_owned),
            payload,
            made_at: None,
        };
        entry.check()?;
        Ok(entry)
    }

    /// An entry from its JSON object: `id`, `parentId`, `type`, `customType` for custom ones, and the payload
    /// fields; unknown fields are kept.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidJson`], [`ErrorKind::InvalidId`], or [`ErrorKind::InvalidArgument`] naming the field.
    pub fn from_json(text: &str) -> Result<Self> {
        let json = Json::parse_fields(text)?;
        let fields = Members::of(json.as_str())
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "an entry must be a JSON object"))?;
        Self::from_fields(&fields.0)
    }

    /// An entry from the fields of its JSON object.
    pub(crate) fn from_fields(fields: &[Member<'_>]) -> Result<Self> {
        let (place, structure) = Place::of(fields)?;
        let payload = Json::trusted(rest_object(fields, structure));
        let Place { id, parent_id, entry_type, custom_type } = place;
        let entry = Self { id, parent_id, entry_type, custom_type, payload, made_at: None };
        entry.check()?;
        Ok(entry)
    }

    /// Marks a message as one after which the run ends.
    #[must_use]
    pub fn terminate(mut self) -> Self {
        // White space may stand around and inside the braces.
        let text = self.payload.as_str().trim();
        let fields = text[..text.len() - 1].trim_end();
        let comma = if fields == "{" { "" } else { "," };
        self.payload = Json::trusted(format!("{fields}{comma}\"terminate\":true}}"));
        self
    }

    /// What can be judged without the session: structure fields and the shape of the payload.
    pub(crate) fn check(&self) -> Result<()> {
        check_id(&self.id)?;
        if let Some(parent_id) = &self.parent_id {
            check_id(parent_id)?;
        }
        let invalid = |what: String| {
            Error::new(ErrorKind::InvalidArgument, format!("a {} entry {what}", self.entry_type))
                .with_id(&self.id)
        };
        let (fields, is_pending) = fields_of(self.payload.as_str())
            .ok_or_else(|| invalid("must have a JSON object as its payload".to_owned()))?;
        match (self.entry_type, &self.custom_type) {
            (EntryType::Custom, None) => return Err(invalid("must have a custom type".to_owned())),
            (EntryType::Custom, Some(name)) if name.contains('\0') => {
                return Err(invalid("must have a custom type without U+0000".to_owned()));
            }
            (EntryType::Custom, Some(_)) | (_, None) => {}
            (_, Some(_)) => return Err(invalid("cannot have a custom type".to_owned())),
        }
        if let Some(name) = ["id", "parentId", "type", "customType", "seq", "timestamp", "kind"]
            .into_iter()
            .find(|name| fields.get(name).is_some())
        {
            return Err(invalid(format!("cannot have the structural field '{name}' in its payload")));
        }
        check_payload(self.entry_type, &fields.0).map_err(invalid)?;
        // What an older file holds is kept as it is.
        if self.made_at.is_none() && self.entry_type == EntryType::Message && is_pending {
            return Err(Error::new(
                ErrorKind::PendingAssistant,
                "an assistant message whose stopReason is 'pending' cannot be stored",
            )
            .with_id(&self.id)
            .with_hint("append it when the model has answered"));
        }
        Ok(())
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its parent's id; none for a root.
    pub fn parent_id(&self) -> Option<&str> {
        self.parent_id.as_deref()
    }

    /// Its type.
    pub fn entry_type(&self) -> EntryType {
        self.entry_type
    }

    /// Its custom type, for custom entries only.
    pub fn custom_type(&self) -> Option<&str> {
        self.custom_type.as_deref()
    }

    /// Its payload: the object of the type's payload fields.
    pub fn payload(&self) -> &Json {
        &self.payload
    }
}

/// The structure fields of an entry.
pub(crate) struct Place {
    pub(crate) id: String,
    pub(crate) parent_id: Option<String>,
    pub(crate) entry_type: EntryType,
    pub(crate) custom_type: Option<String>,
}

impl Place {
    /// The structure in the fields of an entry's JSON object, and the names of the fields it took.
    pub(crate) fn of(fields: &[Member<'_>]) -> Result<(Self, &'static [&'static str])> {
        let last = |name: &str| fields.iter().rev().find(|member| member.is(name)).map(|member| member.value);
        let id = last("id")
            .and_then(text_of)
            .ok_or_else(|| Error::new(ErrorKind::InvalidId, "the entry has no id of Unicode text"))?
            .into_owned();
        let invalid = |what: &str| {
            Error::new(ErrorKind::InvalidArgument, format!("the entry {what}")).with_id(id.clone())
        };
        let parent_id = match last("parentId") {
            Some("null") => None,
            Some(text) => Some(
                text_of(text).ok_or_else(|| invalid("has a parentId that is no Unicode text"))?.into_owned(),
            ),
            None => return Err(invalid("has no parentId; a root has null")),
        };
        let type_name = last("type").and_then(text_of).ok_or_else(|| invalid("has no type"))?;
        let entry_type = EntryType::from_name(&type_name).ok_or_else(|| {
            invalid(&format!("is of the unknown type '{type_name}'"))
                .with_hint("a type is message, compaction, branch_summary or custom")
        })?;
        let (custom_type, structure): (_, &[&str]) = if entry_type == EntryType::Custom {
            let custom_type =
                last("customType").and_then(text_of).ok_or_else(|| invalid("has no customType"))?;
            (Some(custom_type.into_owned()), &["id", "parentId", "type", "customType"])
        } else {
            (None, &["id", "parentId", "type"])
        };
        Ok((Self { id, parent_id, entry_type, custom_type }, structure))
    }
}

/// Whether `fields` are a payload of that type; if not, what is wrong.
pub(crate) fn check_payload(entry_type: EntryType, fields: &[Member<'_>]) -> Result<(), String> {
    let get = |name: &str| fields.iter().rev().find(|member| member.is(name)).map(|member| member.value);
    let need = |name: &str, right: fn(&str) -> bool, what: &str| match get(name) {
        Some(text) if right(text) => Ok(()),
        _ => Err(format!("must have '{name}', {what}")),
    };
    let is_text: fn(&str) -> bool = |text| text.starts_with('"');
    let is_bool: fn(&str) -> bool = |text| matches!(text, "true" | "false");
    match entry_type {
        EntryType::Message => {
            need("message", |text| text.starts_with('{'), "an object")?;
            if get("terminate").is_some_and(|text| text != "true") {
                return Err("can have 'terminate' only as true".to_owned());
            }
        }
        EntryType::Compaction => {
            need("summary", is_text, "a string")?;
            need("retainedTail", |text| text.starts_with('['), "an array of messages")?;
            need(
                "tokensBefore",
                |text| text.starts_with(|c: char| c == '-' || c.is_ascii_digit()),
                "a number",
            )?;
            need("fromHook", is_bool, "true or false")?;
        }
        EntryType::BranchSummary => {
            need("fromId", |text| text == "null" || text.starts_with('"'), "an entry id or null")?;
            need("summary", is_text, "a string")?;
            need("fromHook", is_bool, "true or false")?;
        }
        EntryType::Custom => {}
    }
    Ok(())
}

/// The fields of a payload, and whether the message in it is an assistant's that is pending. Messages are
/// large: each byte is looked at once.
fn fields_of(payload: &str) -> Option<(Members<'_>, bool)> {
    let mut fields = Members::default();
    let mut is_pending = false;
    let end = walk(payload, 0, |key, name, pos| {
        let end = if name == "message" && payload[pos..].starts_with('{') {
            let (mut role, mut stop_reason) = (None, None);
            let end = walk(payload, pos, |_, name, pos| {
                let end = scan_value(payload, pos, MAX_DEPTH - 1)?;
                match name {
                    "role" => role = text_of(&payload[pos..end]),
                    "stopReason" => stop_reason = text_of(&payload[pos..end]),
                    _ => {}
                }
                Ok(end)
            })?;
            is_pending = role.as_deref() == Some("assistant") && stop_reason.as_deref() == Some("pending");
            end
        } else {
            scan_value(payload, pos, MAX_DEPTH)?
        };
        fields.0.push(Member { key, value: &payload[pos..end] });
        Ok(end)
    });
    end_of_text(payload, end.ok()?).ok()?;
    Some((fields, is_pending))
}

/// An entry as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// Its parent's id; none for a root.
    pub parent_id: Option<String>,
    /// Its place in the session's order.
    pub seq: u64,
    /// When its commit was made, Unix ms.
    pub timestamp: i64,
    /// What it is.
    pub entry_type: EntryType,
    /// Its custom type, for custom entries only.
    pub custom_type: Option<String>,
    /// The object of the type's payload fields (see [`EntryType`]), exactly as stored.
    pub payload: Json,
}

impl Entry {
    /// The message of a `message` entry, as JSON text.
    pub fn message(&self) -> Option<&str> {
        self.field(EntryType::Message, "message")
    }

    /// The role of a message.
    pub fn role(&self) -> Option<Cow<'_, str>> {
        Members::of(self.message()?)?.text("role")
    }

    /// Whether the run ends after this message.
    pub fn terminate(&self) -> bool {
        self.field(EntryType::Message, "terminate") == Some("true")
    }

    /// The data of a `custom` entry, as JSON text.
    pub fn data(&self) -> Option<&str> {
        self.field(EntryType::Custom, "data")
    }

    /// The summary of a `compaction` or `branch_summary`.
    pub fn summary(&self) -> Option<Cow<'_, str>> {
        matches!(self.entry_type, EntryType::Compaction | EntryType::BranchSummary)
            .then(|| self.payload.get("summary").and_then(text_of))
            .flatten()
    }

    fn field(&self, entry_type: EntryType, name: &str) -> Option<&str> {
        if self.entry_type == entry_type { self.payload.get(name) } else { None }
    }

    /// Where it stands, without its payload.
    pub fn structure(&self) -> EntryStructure {
        EntryStructure {
            id: self.id.clone(),
            parent_id: self.parent_id.clone(),
            seq: self.seq,
            timestamp: self.timestamp,
            entry_type: self.entry_type,
            custom_type: self.custom_type.clone(),
        }
    }

    /// The entry as one JSON object: `id`, `parentId`, `type`, `customType`, the payload fields as stored,
    /// `seq`, `timestamp`.
    pub fn to_json(&self) -> Json {
        let mut out = String::with_capacity(self.payload.as_str().len() + 160);
        out.push_str("{\"id\":");
        push_quoted(&mut out, &self.id);
        out.push_str(",\"parentId\":");
        match &self.parent_id {
            Some(id) => push_quoted(&mut out, id),
            None => out.push_str("null"),
        }
        out.push_str(",\"type\":");
        push_quoted(&mut out, self.entry_type.name());
        if let Some(custom_type) = &self.custom_type {
            out.push_str(",\"customType\":");
            push_quoted(&mut out, custom_type);
        }
        push_inner(&mut out, &self.payload);
        // Writing to a String cannot fail.
        let _ = write!(out, ",\"seq\":{},\"timestamp\":{}}}", self.seq, self.timestamp);
        Json::trusted(out)
    }
}

/// Where an entry stands, without its payload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntryStructure {
    /// Its id.
    pub id: String,
    /// Its parent's id; none for a root.
    pub parent_id: Option<String>,
    /// Its place in the session's order.
    pub seq: u64,
    /// When its commit was made, Unix ms.
    pub timestamp: i64,
    /// What it is.
    pub entry_type: EntryType,
    /// Its custom type, for custom entries only.
    pub custom_type: Option<String>,
}
