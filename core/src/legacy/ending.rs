//! What the lines at the end of an exported file say: configuration, name and labels, as far as the lines
//! before do not say them.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::context::Context;
use crate::error::Result;
use crate::legacy::detect::is_name;
use crate::legacy::loss::{LossKind, Losses};
use crate::legacy::payload::is_list_of_strings;
use crate::legacy::restore::Restored;
use crate::legacy::values::Values;
use crate::legacy::writer::Head;
use crate::model::address::{self as addresses, reserved};
use crate::model::json::{self, Json, text_of};
use crate::model::value::{Address, StoredValue};
use crate::session::Session;
use crate::session::reader::SessionReader;

/// One line at the end: what stands in it beside its place.
pub(super) struct EndLine {
    pub(super) type_name: &'static str,
    /// What its id is made of.
    pub(super) key: String,
    /// The entry it is about.
    pub(super) target: Option<String>,
    /// More fields, each behind a comma.
    pub(super) fields: String,
}

impl EndLine {
    fn of(type_name: &'static str, target: Option<&str>, fields: String) -> Self {
        let key = format!("\0{type_name}\0{}", target.unwrap_or_default());
        Self { type_name, key, target: target.map(str::to_owned), fields }
    }
}

/// All lines at the end, and what they cannot say.
pub(super) struct EndLines {
    pub(super) lines: Vec<EndLine>,
    /// Labelled entries that are not in the file.
    pub(super) dangling: Vec<String>,
    /// Whether the file says a configuration that the branch no longer has.
    pub(super) has_stale_configuration: bool,
}

/// The configuration of a lane, each part as JSON.
#[derive(Debug, Clone)]
struct Configuration {
    provider: String,
    model_id: String,
    thinking_level: String,
    tools: String,
}

impl Configuration {
    /// None if it is not one that version 3 can say.
    fn of(value: &Json) -> Option<Self> {
        let name = |text: Option<&str>| text.filter(|text| is_name(Some(text))).map(str::to_owned);
        let model = value.get("model")?;
        Some(Self {
            provider: name(json::get(model, "provider"))?,
            model_id: name(json::get(model, "modelId"))?,
            thinking_level: name(value.get("thinkingLevel"))?,
            tools: value.get("activeToolNames").filter(|tools| is_list_of_strings(tools))?.to_owned(),
        })
    }
}

/// What a reader of the lines before the end knows.
#[derive(Default)]
pub(super) struct FileState {
    name: Option<Json>,
    labels: HashMap<String, Json>,
    configuration: Option<Configuration>,
    /// Whether the lines may say something of the configuration although they do not say all.
    is_partly_configured: bool,
}

impl FileState {
    /// What the old file says, at the position that is selected in it.
    pub(super) fn of(path: &Path, restored: &Restored) -> Result<Self> {
        let values = Values::find(path, &restored.file, &restored.scanned, &restored.tree)?;
        let configuration = values.configuration.as_ref().and_then(Configuration::of);
        let labels = values.labels.into_iter();
        Ok(Self {
            name: values.name,
            labels: labels
                .filter_map(|(position, text)| Some((restored.entry_id(position)?, text)))
                .collect(),
            is_partly_configured: configuration.is_none(),
            configuration,
        })
    }
}

/// What the file shall say in the end.
pub(super) struct Ending {
    name: Option<Json>,
    /// Entries and their labels, in the order in which they were set.
    labels: Vec<(String, Json)>,
    configuration: Option<Configuration>,
}

impl Ending {
    pub(super) fn of(session: &Session, head: &Head, losses: &mut Losses, ctx: &Context) -> Result<Self> {
        let configuration = match &head.branch {
            Some(branch) => session.get_value(&addresses::lane_config(branch.as_str())?, ctx)?,
            None => None,
        };
        let known = configuration.as_ref().and_then(|stored| Configuration::of(&stored.value));
        if let Some(stored) = configuration.filter(|_| known.is_none()) {
            losses.of_address(LossKind::Configuration, &stored.address);
        }
        let mut text = |stored: StoredValue| {
            let is_text = is_name(Some(stored.value.trimmed()));
            if !is_text {
                losses.of_address(LossKind::Value, &stored.address);
            }
            is_text.then_some(stored)
        };
        let name = session.get_value(addresses::session_name().address(), ctx)?.and_then(&mut text);
        let labels = session.scan_values(&Address::known(reserved::ENTRY_LABEL, ""), ctx)?;
        let mut labels: Vec<StoredValue> = labels.into_iter().filter_map(&mut text).collect();
        labels.sort_unstable_by_key(|label| label.seq);
        Ok(Self {
            name: name.map(|stored| stored.value),
            labels: labels.into_iter().map(|label| (label.address.key().to_owned(), label.value)).collect(),
            configuration: known,
        })
    }

    /// The lines that say what `state` does not. Labels count where `is_there` holds.
    pub(super) fn lines(
        &self,
        state: &FileState,
        is_there: &dyn Fn(&str) -> Result<bool>,
    ) -> Result<EndLines> {
        let mut lines = Vec::new();
        let mut dangling = Vec::new();
        if let Some(wanted) = &self.configuration {
            self.configure(wanted, state, &mut lines);
        }
        match (&self.name, &state.name) {
            (None, None) => {}
            (Some(wanted), Some(said)) if is_same_text(wanted, said) => {}
            _ => lines.push(self.name_again()),
        }
        let mut wanted: HashSet<&str> = HashSet::new();
        for (id, text) in &self.labels {
            wanted.insert(id);
            if state.labels.get(id).is_some_and(|said| is_same_text(text, said)) {
                continue;
            }
            if is_there(id)? {
                lines.push(EndLine::of("label", Some(id), format!(",\"label\":{}", text.trimmed())));
            } else {
                dangling.push(id.clone());
            }
        }
        let mut cleared: Vec<&String> =
            state.labels.keys().filter(|id| !wanted.contains(id.as_str())).collect();
        cleared.sort_unstable();
        lines.extend(cleared.into_iter().map(|id| EndLine::of("label", Some(id), String::new())));
        let has_stale_configuration = self.configuration.is_none() && state.configuration.is_some();
        Ok(EndLines { lines, dangling, has_stale_configuration })
    }

    /// The line that says the session's name, an empty one if it has none.
    pub(super) fn name_again(&self) -> EndLine {
        let name = self.name.as_ref().map_or("\"\"", |name| name.trimmed());
        EndLine::of("session_info", None, format!(",\"name\":{name}"))
    }

    fn configure(&self, wanted: &Configuration, state: &FileState, lines: &mut Vec<EndLine>) {
        let said = state.configuration.as_ref();
        let is_said =
            |part: fn(&Configuration) -> &str| said.is_some_and(|said| is_same(part(said), part(wanted)));
        if !is_said(|part| &part.provider) || !is_said(|part| &part.model_id) {
            let model = format!(",\"provider\":{},\"modelId\":{}", wanted.provider, wanted.model_id);
            lines.push(EndLine::of("model_change", None, model));
        }
        if !is_said(|part| &part.thinking_level) {
            let level = format!(",\"thinkingLevel\":{}", wanted.thinking_level);
            lines.push(EndLine::of("thinking_level_change", None, level));
        }
        let has_tools = wanted.tools.contains('"');
        let tools_differ = if said.is_some() {
            !is_said(|part| &part.tools)
        } else {
            has_tools || state.is_partly_configured
        };
        if tools_differ {
            let tools = format!(",\"activeToolNames\":{}", wanted.tools);
            lines.push(EndLine::of("active_tools_change", None, tools));
        }
    }
}

fn is_same_text(one: &Json, other: &Json) -> bool {
    is_same(one.trimmed(), other.trimmed())
}

/// Whether two JSON texts are one, or spell one string.
fn is_same(one: &str, other: &str) -> bool {
    one == other || text_of(one).is_some_and(|text| text_of(other).as_ref() == Some(&text))
}
