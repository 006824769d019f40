//! The payload that an old entry has here. What is kept of it is kept byte for byte.

use crate::legacy::lines::{Object, is_string};
use crate::legacy::nodes::Kind;
use crate::model::entry::EntryType;
use crate::model::json::{MAX_DEPTH, push_quoted, scan_value, text_of, walk};

/// One old entry, read from the file.
pub(super) struct Old<'a> {
    pub(super) kind: Kind,
    pub(super) object: Object<'a>,
    /// Version of the file.
    pub(super) version: u64,
    /// The entry's time, Unix ms.
    pub(super) time: i64,
    /// The id here of the entry that its `fromId` or `targetId` names.
    pub(super) reference: Option<String>,
}

/// The type that an entry of that kind has here.
pub(super) fn entry_type(kind: Kind) -> EntryType {
    match kind {
        Kind::Message | Kind::CustomMessage => EntryType::Message,
        Kind::Compaction => EntryType::Compaction,
        Kind::BranchSummary => EntryType::BranchSummary,
        _ => EntryType::Custom,
    }
}

impl Old<'_> {
    /// The payload. `tail` are the messages that a compaction keeps.
    pub(super) fn payload(&self, tail: &[String]) -> String {
        let mut out = String::with_capacity(self.object.end - self.object.start + 64);
        match self.kind {
            Kind::Message | Kind::CustomMessage => {
                out.push_str("{\"message\":");
                self.push_message(&mut out);
            }
            Kind::Compaction => {
                out.push_str("{\"summary\":");
                out.push_str(self.object.get("summary").unwrap_or("\"\""));
                out.push_str(",\"retainedTail\":[");
                for (at, message) in tail.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    out.push_str(message);
                }
                out.push_str("],\"tokensBefore\":");
                out.push_str(self.tokens_before());
                self.push_summary_end(&mut out);
            }
            Kind::BranchSummary => {
                out.push_str("{\"fromId\":");
                self.push_reference(&mut out);
                out.push_str(",\"summary\":");
                out.push_str(self.object.get("summary").unwrap_or("\"\""));
                self.push_summary_end(&mut out);
            }
            Kind::Custom => match self.object.get("data") {
                Some(data) => {
                    out.push_str("{\"data\":");
                    out.push_str(data);
                }
                None => out.push('{'),
            },
            _ => {
                out.push_str("{\"data\":");
                self.push_other_fields(&mut out);
            }
        }
        out.push('}');
        out
    }

    /// The message that the entry gives to a kept range; none for entries that give none.
    pub(super) fn kept_message(&self) -> Option<String> {
        let mut out = String::new();
        match self.kind {
            Kind::Message | Kind::CustomMessage => {
                self.push_message(&mut out);
                return Some(out);
            }
            Kind::Compaction => {
                out.push_str("{\"role\":\"compactionSummary\",\"summary\":");
                out.push_str(self.object.get("summary")?);
                out.push_str(",\"tokensBefore\":");
                out.push_str(self.tokens_before());
            }
            Kind::BranchSummary => {
                let summary = self.object.get("summary").filter(|summary| *summary != "\"\"")?;
                out.push_str("{\"role\":\"branchSummary\",\"summary\":");
                out.push_str(summary);
                out.push_str(",\"fromId\":");
                self.push_reference(&mut out);
            }
            _ => return None,
        }
        self.push_time(&mut out);
        out.push('}');
        Some(out)
    }

    fn push_message(&self, out: &mut String) {
        if self.kind == Kind::Message {
            let message = self.object.get("message").unwrap_or("{}");
            match self.hook_role(message) {
                Some((start, end)) => {
                    out.push_str(&message[..start]);
                    out.push_str("\"custom\"");
                    out.push_str(&message[end..]);
                }
                None => out.push_str(message),
            }
            return;
        }
        out.push_str("{\"role\":\"custom\"");
        for name in ["customType", "content", "details", "display"] {
            self.push_field(out, name);
        }
        self.push_time(out);
        out.push('}');
    }

    /// Where the role of a message stands that has the name which versions 1 and 2 gave to custom ones.
    fn hook_role(&self, message: &str) -> Option<(usize, usize)> {
        let role = self.object.message.and_then(|message| message.role).and_then(text_of);
        if self.version > 2 || role.as_deref() != Some("hookMessage") {
            return None;
        }
        let mut place = None;
        let end = walk(message, 0, |_, name, at| {
            let end = scan_value(message, at, MAX_DEPTH)?;
            if name == "role" {
                place = Some((at, end));
            }
            Ok(end)
        });
        place.filter(|_| end.is_ok())
    }

    fn push_time(&self, out: &mut String) {
        out.push_str(",\"timestamp\":");
        out.push_str(&self.time.to_string());
    }

    fn push_field(&self, out: &mut String, name: &str) {
        if let Some(value) = self.object.get(name) {
            out.push_str(",\"");
            out.push_str(name);
            out.push_str("\":");
            out.push_str(value);
        }
    }

    fn push_reference(&self, out: &mut String) {
        match &self.reference {
            Some(id) => push_quoted(out, id),
            None => out.push_str("null"),
        }
    }

    fn tokens_before(&self) -> &str {
        let is_number = |text: &&str| text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        self.object.get("tokensBefore").filter(is_number).unwrap_or("0")
    }

    fn push_summary_end(&self, out: &mut String) {
        self.push_field(out, "details");
        self.push_field(out, "usage");
        let from_hook = self.object.get("fromHook") == Some("true");
        out.push_str(if from_hook { ",\"fromHook\":true" } else { ",\"fromHook\":false" });
    }

    /// All fields but those that place the entry, in their order.
    fn push_other_fields(&self, out: &mut String) {
        out.push('{');
        let mut first = true;
        let mut has_target = false;
        for member in &self.object.members {
            if ["type", "id", "parentId", "timestamp"].into_iter().any(|name| member.is(name)) {
                continue;
            }
            let is_target = self.kind == Kind::ContextEdit && member.is("targetId");
            if is_target && std::mem::replace(&mut has_target, true) {
                continue;
            }
            if !std::mem::take(&mut first) {
                out.push(',');
            }
            out.push('"');
            out.push_str(member.key);
            out.push_str("\":");
            if is_target {
                self.push_reference(out);
            } else {
                out.push_str(member.value);
            }
        }
        out.push('}');
    }
}

/// Whether a JSON text is an array of strings.
pub(super) fn is_list_of_strings(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else { return false };
    let mut rest = inner.trim();
    while !rest.is_empty() {
        if !is_string(rest) {
            return false;
        }
        let Ok(end) = scan_value(rest, 0, 1) else { return false };
        rest = rest[end..].trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    true
}
