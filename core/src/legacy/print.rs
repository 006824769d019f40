//! Entries as lines of version 3 again, as the coding agent writes them.

use crate::legacy::lines::Object;
use crate::legacy::nodes::Kind;
use crate::legacy::scan::has_what_it_must;
use crate::legacy::times;
use crate::model::entry::{Entry, EntryType};
use crate::model::json::{self, MAX_DEPTH, Member, Members, push_quoted, text_of};

/// An entry as it is stored, and what it was called in its file.
pub(super) struct Stored<'a> {
    pub(super) entry_type: EntryType,
    pub(super) custom_type: Option<&'a str>,
    pub(super) payload: &'a str,
    pub(super) timestamp: i64,
    pub(super) id: &'a str,
    pub(super) parent_id: Option<&'a str>,
    /// Old id of the entry that `fromId` or `targetId` names.
    pub(super) reference: Option<&'a str>,
    /// The `firstKeptEntryId` of a compaction, as JSON.
    pub(super) first_kept: Option<&'a str>,
}

/// The id of the entry that the `fromId` or `targetId` of `entry` names.
pub(super) fn reference_of(entry: &Entry) -> Option<String> {
    let text = match (entry.entry_type, entry.custom_type.as_deref()) {
        (EntryType::BranchSummary, _) => entry.payload.get("fromId")?,
        (EntryType::Custom, Some(CONTEXT_EDIT)) => json::get(entry.payload.get("data")?, "targetId")?,
        _ => return None,
    };
    text_of(text).map(|id| id.into_owned())
}

/// The custom type that context edits have here.
pub(super) const CONTEXT_EDIT: &str = "pi.context_edit";

impl Stored<'_> {
    /// The line without its end; none if version 3 has no form for it.
    pub(super) fn line(&self) -> Option<String> {
        let payload = Object::scan_within(self.payload, 0, MAX_DEPTH).ok()?;
        let mut out = String::with_capacity(self.payload.len() + 160);
        match (self.entry_type, self.custom_type) {
            (EntryType::Message, _) => {
                let role = payload.message.and_then(|message| message.role).and_then(text_of);
                let message = payload.get("message")?;
                match Members::of(message).filter(|_| role.as_deref() == Some("custom")) {
                    Some(custom) if self.is_custom_message(&custom.0) => {
                        self.start(&mut out, "custom_message");
                        for name in ["customType", "content", "display", "details"] {
                            push_field(&mut out, name, custom.get(name));
                        }
                        self.place(&mut out);
                    }
                    _ => {
                        self.start(&mut out, "message");
                        self.place(&mut out);
                        push_field(&mut out, "message", Some(message));
                    }
                }
            }
            (EntryType::Compaction, _) => {
                self.start(&mut out, "compaction");
                self.place(&mut out);
                push_field(&mut out, "summary", payload.get("summary"));
                push_field(&mut out, "firstKeptEntryId", self.first_kept);
                for name in ["tokensBefore", "details", "usage", "fromHook"] {
                    push_field(&mut out, name, payload.get(name));
                }
            }
            (EntryType::BranchSummary, _) => {
                self.start(&mut out, "branch_summary");
                self.place(&mut out);
                out.push_str(",\"fromId\":");
                push_quoted(&mut out, self.reference.unwrap_or("root"));
                for name in ["summary", "details", "usage", "fromHook"] {
                    push_field(&mut out, name, payload.get(name));
                }
            }
            (EntryType::Custom, Some(name)) => match self.old_type(name, payload.get("data")) {
                Some(line) => return Some(line),
                None => {
                    self.start(&mut out, "custom");
                    out.push_str(",\"customType\":");
                    push_quoted(&mut out, name);
                    push_field(&mut out, "data", payload.get("data"));
                    self.place(&mut out);
                }
            },
            (EntryType::Custom, None) => return None,
        }
        out.push('}');
        Some(out)
    }

    /// The line of a custom entry that stands for a type which only old files have; none if it is not one
    /// that reading such a line gives.
    fn old_type(&self, name: &str, data: Option<&str>) -> Option<String> {
        let type_name = match name {
            CONTEXT_EDIT => "context_edit",
            _ => name.strip_prefix("pi.legacy.")?,
        };
        let data = Members::of(data?)?;
        let places = ["type", "id", "parentId", "timestamp"];
        if data.0.iter().any(|member| places.iter().any(|name| member.is(name))) {
            return None;
        }
        let mut out = String::with_capacity(self.payload.len() + 160);
        self.start(&mut out, type_name);
        self.place(&mut out);
        self.push_data(&mut out, &data);
        out.push('}');
        let kind = Kind::from_name(type_name);
        let is_read_so = type_name != "session"
            && match kind {
                Kind::ContextEdit => name == CONTEXT_EDIT,
                Kind::Other => true,
                _ => kind.dropped().is_none() && !has_what_it_must(kind, &Object::scan(&out, 0).ok()?),
            };
        is_read_so.then_some(out)
    }

    /// Whether a message of role `custom` has exactly the form that reading a `custom_message` gives.
    fn is_custom_message(&self, members: &[Member<'_>]) -> bool {
        let mut rest = members.iter().map(|member| member.key).peekable();
        let mut next = |name: &str, must: bool| rest.next_if_eq(&name).is_some() || !must;
        let in_order = next("role", true)
            && next("customType", true)
            && next("content", false)
            && next("details", false)
            && next("display", false)
            && next("timestamp", true)
            && rest.peek().is_none();
        // A custom type that is no text would not be read so again.
        let has_type = members.get(1).is_some_and(|member| member.value.starts_with('"'));
        in_order
            && has_type
            && members.last().is_some_and(|member| member.value == self.timestamp.to_string())
    }

    fn start(&self, out: &mut String, name: &str) {
        out.push_str("{\"type\":");
        push_quoted(out, name);
    }

    fn place(&self, out: &mut String) {
        out.push_str(",\"id\":");
        push_quoted(out, self.id);
        out.push_str(",\"parentId\":");
        match self.parent_id {
            Some(id) => push_quoted(out, id),
            None => out.push_str("null"),
        }
        out.push_str(",\"timestamp\":\"");
        out.push_str(&times::write(self.timestamp));
        out.push('"');
    }

    /// The fields of `data`, its `targetId` by the old id.
    fn push_data(&self, out: &mut String, data: &Members<'_>) {
        for member in &data.0 {
            out.push_str(",\"");
            out.push_str(member.key);
            out.push_str("\":");
            match self.reference {
                Some(id) if self.custom_type == Some(CONTEXT_EDIT) && member.is("targetId") => {
                    push_quoted(out, id);
                }
                _ => out.push_str(member.value),
            }
        }
    }
}

fn push_field(out: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        out.push_str(",\"");
        out.push_str(name);
        out.push_str("\":");
        out.push_str(value);
    }
}
