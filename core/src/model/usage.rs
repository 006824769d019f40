//! The cost ledger: one row per request, and sums over rows.

use std::fmt::Write as _;

use crate::error::{Error, ErrorKind, Result};
use crate::model::id::check_id;
use crate::model::json::{Json, Member, Members, each_field, number_of, push_number, push_quoted, text_of};

/// Costs of a request, in the currency of its provider.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// For input tokens.
    pub input: f64,
    /// For output tokens.
    pub output: f64,
    /// For tokens read from the provider's cache.
    pub cache_read: f64,
    /// For tokens written to the provider's cache.
    pub cache_write: f64,
    /// All of it.
    pub total: f64,
}

impl Cost {
    fn lenient(text: &str) -> Self {
        let mut cost = Self::default();
        let whole = each_field(text, |name, value| {
            let counter = match name {
                "input" => &mut cost.input,
                "output" => &mut cost.output,
                "cacheRead" => &mut cost.cache_read,
                "cacheWrite" => &mut cost.cache_write,
                "total" => &mut cost.total,
                _ => return,
            };
            *counter = number_of(value).unwrap_or(0.0);
        });
        whole.map_or_else(Self::default, |()| cost)
    }
}

/// Tokens and costs of a request, or the sums of many. Counters are doubles, as in the files.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Tokens read from the provider's cache.
    pub cache_read: f64,
    /// Tokens written to the provider's cache.
    pub cache_write: f64,
    /// Of these, tokens written for an hour; in a sum once any row had it.
    pub cache_write_1h: Option<f64>,
    /// Reasoning tokens; in a sum once any row had it.
    pub reasoning: Option<f64>,
    /// All tokens.
    pub total_tokens: f64,
    /// What it cost.
    pub cost: Cost,
}

impl Usage {
    /// Adds `other`, field by field.
    pub fn add(&mut self, other: &Usage) {
        let sum = |own: &mut Option<f64>, other: Option<f64>| {
            if let Some(other) = other {
                *own = Some(own.unwrap_or(0.0) + other);
            }
        };
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        sum(&mut self.cache_write_1h, other.cache_write_1h);
        sum(&mut self.reasoning, other.reasoning);
        self.total_tokens += other.total_tokens;
        self.cost.input += other.cost.input;
        self.cost.output += other.cost.output;
        self.cost.cache_read += other.cost.cache_read;
        self.cost.cache_write += other.cost.cache_write;
        self.cost.total += other.cost.total;
    }

    /// The usage object in `text`; what is absent or no number counts 0. None if `text` is no object.
    pub(crate) fn lenient(text: &str) -> Option<Self> {
        // One pass: old files hold one such object in every second line. Of equal keys the last one counts.
        let mut usage = Self::default();
        each_field(text, |name, value| {
            let number = || number_of(value);
            match name {
                "input" => usage.input = number().unwrap_or(0.0),
                "output" => usage.output = number().unwrap_or(0.0),
                "cacheRead" => usage.cache_read = number().unwrap_or(0.0),
                "cacheWrite" => usage.cache_write = number().unwrap_or(0.0),
                "cacheWrite1h" => usage.cache_write_1h = number(),
                "reasoning" => usage.reasoning = number(),
                "totalTokens" => usage.total_tokens = number().unwrap_or(0.0),
                "cost" => usage.cost = Cost::lenient(value),
                _ => {}
            }
        })?;
        Some(usage)
    }

    /// The usage object in `text`, whole: every counter that is not optional must be a number.
    fn strict(text: &str) -> Result<Self> {
        let missing = |name: &str| {
            Error::new(ErrorKind::InvalidArgument, format!("the usage has no number '{name}'")).with_hint(
                "a usage is {input, output, cacheRead, cacheWrite, totalTokens, cost: {input, output, cacheRead, cacheWrite, total}}",
            )
        };
        let fields = Members::of(text).ok_or_else(|| missing("input"))?;
        let cost = fields.get("cost").and_then(Members::of).ok_or_else(|| missing("cost"))?;
        for name in ["input", "output", "cacheRead", "cacheWrite", "totalTokens"] {
            fields.get(name).and_then(number_of).ok_or_else(|| missing(name))?;
        }
        for name in ["cacheWrite1h", "reasoning"] {
            if fields.get(name).is_some_and(|text| number_of(text).is_none()) {
                return Err(missing(name));
            }
        }
        for name in ["input", "output", "cacheRead", "cacheWrite", "total"] {
            cost.get(name).and_then(number_of).ok_or_else(|| missing(&format!("cost.{name}")))?;
        }
        Self::lenient(text).ok_or_else(|| missing("input"))
    }

    /// The usage as JSON, in the field order of the files.
    pub fn to_json(&self) -> Json {
        let mut out = String::from("{\"input\":");
        let mut field = |name: &str, number: f64| {
            out.push_str(name);
            push_number(&mut out, number);
        };
        field("", self.input);
        field(",\"output\":", self.output);
        field(",\"cacheRead\":", self.cache_read);
        field(",\"cacheWrite\":", self.cache_write);
        if let Some(number) = self.cache_write_1h {
            field(",\"cacheWrite1h\":", number);
        }
        if let Some(number) = self.reasoning {
            field(",\"reasoning\":", number);
        }
        field(",\"totalTokens\":", self.total_tokens);
        field(",\"cost\":{\"input\":", self.cost.input);
        field(",\"output\":", self.cost.output);
        field(",\"cacheRead\":", self.cost.cache_read);
        field(",\"cacheWrite\":", self.cost.cache_write);
        field(",\"total\":", self.cost.total);
        out.push_str("}}");
        Json::trusted(out)
    }
}

/// A ledger row to be written.
///
/// `payload` holds the fields `usage`, `adjustment`, `entryId?`, `details?` and any others, in the caller's
/// order; unknown ones are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct NewUsage {
    pub(crate) id: String,
    pub(crate) usage: Usage,
    pub(crate) payload: Json,
}

impl NewUsage {
    /// A row with `usage`, about the entry `entry_id` where there is one. Counters that are not finite are
    /// stored as `null` and count 0.
    pub fn new(id: impl Into<String>, usage: &Usage, entry_id: Option<&str>) -> Self {
        let mut payload = format!("{{\"usage\":{},\"adjustment\":false", usage.to_json());
        if let Some(entry_id) = entry_id {
            payload.push_str(",\"entryId\":");
            push_quoted(&mut payload, entry_id);
        }
        payload.push('}');
        let payload = Json::trusted(payload);
        // What will be read again: JSON has neither infinite numbers nor a negative zero of its own.
        let usage = payload.get("usage").and_then(Usage::lenient).unwrap_or_default();
        Self { id: id.into(), usage, payload }
    }

    /// A row from its JSON object: `id`, `usage`, `adjustment?`, `entryId?`, `details?`, and others, which are kept.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidJson`], [`ErrorKind::InvalidId`], or [`ErrorKind::InvalidArgument`] naming the field.
    pub fn from_json(text: &str) -> Result<Self> {
        let json = Json::parse_fields(text)?;
        let fields = Members::of(json.as_str())
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "a usage row must be a JSON object"))?;
        let id = fields
            .text("id")
            .ok_or_else(|| Error::new(ErrorKind::InvalidId, "the usage row has no id of Unicode text"))?
            .into_owned();
        Self::from_fields(id, &fields.0)
    }

    /// A row from its id and its other fields.
    pub(crate) fn from_fields(id: String, fields: &[Member<'_>]) -> Result<Self> {
        // A line of a file has members of these names: a second one would be read in place of the line's.
        if let Some(name) =
            ["kind", "seq"].into_iter().find(|name| fields.iter().any(|member| member.is(name)))
        {
            let what = format!("the usage row cannot have the structural field '{name}'");
            return Err(Error::new(ErrorKind::InvalidArgument, what).with_id(&id));
        }
        Self::with_usage(id, fields, Usage::strict)
    }

    /// A row as a file has it: counters that are no numbers count 0.
    pub(crate) fn stored(id: String, fields: &[Member<'_>]) -> Result<Self> {
        Self::with_usage(id, fields, |text| {
            Usage::lenient(text).ok_or_else(|| {
                Error::new(ErrorKind::InvalidArgument, "the usage row has a 'usage' that is no object")
            })
        })
    }

    fn with_usage(id: String, fields: &[Member<'_>], read: fn(&str) -> Result<Usage>) -> Result<Self> {
        check_id(&id)?;
        let payload = rest_object(fields, &["id"]);
        let invalid =
            |what: &str| Error::new(ErrorKind::InvalidArgument, format!("the usage row {what}")).with_id(&id);
        let kept = Members::of(&payload).unwrap_or_default();
        let usage = read(kept.get("usage").ok_or_else(|| invalid("has no field 'usage'"))?)?;
        if kept.get("adjustment").is_some_and(|text| !matches!(text, "true" | "false")) {
            return Err(invalid("has an 'adjustment' that is neither true nor false"));
        }
        if kept.get("entryId").is_some_and(|text| text_of(text).is_none()) {
            return Err(invalid("has an 'entryId' that is no Unicode text"));
        }
        Ok(Self { id, usage, payload: Json::trusted(payload) })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its fields but the id, as they will be stored.
    pub fn payload(&self) -> &Json {
        &self.payload
    }
}

/// The object text of `fields` without those named in `without`.
pub(crate) fn rest_object(fields: &[Member<'_>], without: &[&str]) -> String {
    let length: usize = fields.iter().map(|member| member.key.len() + member.value.len() + 4).sum();
    let mut out = String::with_capacity(length + 2);
    out.push('{');
    for member in fields.iter().filter(|member| !without.iter().any(|name| member.is(name))) {
        for piece in [if out.len() > 1 { ",\"" } else { "\"" }, member.key, "\":", member.value] {
            out.push_str(piece);
        }
    }
    out.push('}');
    out
}

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageRow {
    /// Its id.
    pub id: String,
    /// Its place in the session's order.
    pub seq: u64,
    /// Its counters.
    pub usage: Usage,
    /// Its fields but id and seq, exactly as stored: `usage`, `adjustment`, `entryId?`, `details?`, others.
    pub payload: Json,
}

impl UsageRow {
    pub(crate) fn stored(id: String, seq: u64, payload: Json) -> Self {
        let usage = payload.get("usage").and_then(Usage::lenient).unwrap_or_default();
        Self { id, seq, usage, payload }
    }

    /// Whether the row corrects the ledger and stands for no request.
    pub fn adjustment(&self) -> bool {
        self.payload.get("adjustment") == Some("true")
    }

    /// The entry it is about.
    pub fn entry_id(&self) -> Option<String> {
        self.payload.get("entryId").and_then(text_of).map(|id| id.into_owned())
    }

    /// What else its writer noted, as JSON text.
    pub fn details(&self) -> Option<&str> {
        self.payload.get("details")
    }

    /// The row as one JSON object: `id`, the fields as stored, `seq`.
    pub fn to_json(&self) -> Json {
        let mut out = String::from("{\"id\":");
        push_quoted(&mut out, &self.id);
        push_inner(&mut out, &self.payload);
        let _ = write!(out, ",\"seq\":{}}}", self.seq);
        Json::trusted(out)
    }
}

/// Appends `,` and the fields of the object `payload`; nothing for an empty one.
pub(crate) fn push_inner(out: &mut String, payload: &Json) {
    let text = payload.as_str().trim();
    let inner = text[1..text.len() - 1].trim();
    if !inner.is_empty() {
        out.push(',');
        out.push_str(inner);
    }
}

/// Totals of a session.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stats {
    /// Entries of type `message`.
    pub message_count: u64,
    /// Sums over the ledger, added in `seq` order.
    pub usage: Usage,
}

impl Stats {
    /// The totals as JSON: `{"messageCount":…,"usage":…}`.
    pub fn to_json(&self) -> Json {
        Json::trusted(format!(
            "{{\"messageCount\":{},\"usage\":{}}}",
            self.message_count,
            self.usage.to_json()
        ))
    }
}
