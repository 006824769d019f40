//! The values that an old file gives: name, labels, tip, configuration and state of `main`.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::legacy::detect::is_name;
use crate::legacy::lines::Object;
use crate::legacy::nodes::{Kind, NONE, Node};
use crate::legacy::payload::is_list_of_strings;
use crate::legacy::scan::{Scanned, read_at};
use crate::legacy::tree::Tree;
use crate::model::address::reserved;
use crate::model::json::{Json, compact_lines};
use crate::model::value::Address;
use crate::storage::tables::Tables;

/// The branch that an old file's selected position becomes.
pub(super) const MAIN: &str = "main";

/// What was found for the values of a session.
pub(super) struct Values {
    /// As JSON.
    pub(super) name: Option<Json>,
    /// Positions of the entries and their labels, as JSON, in the order in which they were first set.
    pub(super) labels: Vec<(u32, Json)>,
    pub(super) tip: u32,
    pub(super) configuration: Option<Json>,
}

impl Values {
    pub(super) fn find(path: &Path, file: &File, scanned: &Scanned, tree: &Tree) -> Result<Self> {
        let kept = |node: u32| if node == NONE { NONE } else { tree.kept[node as usize] };
        let json = |text: &str| Json::trusted(text);
        let mut labels: HashMap<u32, (usize, &str)> = HashMap::new();
        for (order, label) in scanned.labels.iter().enumerate() {
            let target = kept(scanned.nodes[label.node as usize].reference);
            match &label.text {
                _ if target == NONE => {}
                Some(text) => labels.entry(target).or_insert((order, text)).1 = text,
                None => {
                    labels.remove(&target);
                }
            }
        }
        let mut labels: Vec<_> = labels.into_iter().collect();
        labels.sort_unstable_by_key(|(_, (order, _))| *order);
        Ok(Self {
            name: scanned.name.as_deref().map(json),
            labels: labels.into_iter().map(|(position, (_, text))| (position, json(text))).collect(),
            tip: kept(scanned.selected),
            configuration: configuration(path, file, scanned)?,
        })
    }
}

/// Sets the values in their order from `first_seq` on; their addresses.
pub(super) fn set_values(
    tables: &mut Tables,
    found: Values,
    first_seq: u64,
    id_at: &dyn Fn(u32) -> Option<String>,
) -> Vec<Address> {
    let mut values = Vec::new();
    let known = |namespace, key: &str| Address::known(namespace, key);
    values.extend(found.name.map(|name| (known(reserved::SESSION_NAME, ""), name)));
    for (position, label) in found.labels {
        values.extend(id_at(position).map(|id| (known(reserved::ENTRY_LABEL, &id), label)));
    }
    let tip = id_at(found.tip).map_or_else(Json::null, |id| Json::string(&id));
    values.push((known(reserved::BRANCH_TIP, MAIN), tip));
    if let Some(configuration) = found.configuration {
        values.push((known(reserved::LANE_CONFIG, MAIN), configuration));
        let idle = "{\"currentOperationId\":null,\"lastOperationId\":null,\"inbox\":[]}";
        values.push((known(reserved::LANE_STATE, MAIN), Json::trusted(idle)));
    }
    let mut addresses = Vec::with_capacity(values.len());
    for (seq, (address, value)) in (first_seq..).zip(values) {
        tables.set_value(&address, value, seq);
        addresses.push(address);
    }
    addresses
}

/// The configuration of `main`: what the nearest changes on the selected path say. None unless both model
/// and thinking level are there and valid.
fn configuration(path: &Path, file: &File, scanned: &Scanned) -> Result<Option<Json>> {
    let (mut model, mut thinking_level, mut tools) = (None, None, None);
    let mut at = scanned.selected;
    while let Some(node) = scanned.nodes.get(at as usize) {
        let nearest = match node.kind {
            Kind::ModelChange => Some(&mut model),
            Kind::ThinkingLevelChange => Some(&mut thinking_level),
            Kind::ActiveToolsChange => Some(&mut tools),
            _ => None,
        };
        if let Some(nearest) = nearest {
            nearest.get_or_insert(node);
        }
        at = node.parent;
    }
    let fields = |node: Option<&Node>, names: [&str; 2]| {
        node.map(|node| read_fields(path, file, node, names)).transpose()
    };
    let header = &scanned.header;
    let [provider, model_id] = fields(model, ["provider", "modelId"])?
        .unwrap_or_else(|| [header.provider.clone(), header.model_id.clone()]);
    let [thinking_level, _] = fields(thinking_level, ["thinkingLevel", ""])?
        .unwrap_or_else(|| [header.thinking_level.clone(), None]);
    let tools = fields(tools, ["activeToolNames", ""])?.and_then(|[names, _]| names);
    let name = |value: Option<Box<str>>| value.filter(|value| is_name(Some(value)));
    let (Some(provider), Some(model_id), Some(thinking_level)) =
        (name(provider), name(model_id), name(thinking_level))
    else {
        return Ok(None);
    };
    let tools = tools.filter(|names| is_list_of_strings(names));
    let tools = tools.as_deref().unwrap_or("[]");
    let text = format!(
        "{{\"model\":{{\"provider\":{provider},\"modelId\":{model_id}}},\"thinkingLevel\":{thinking_level},\
         \"activeToolNames\":{tools}}}"
    );
    Ok(Some(Json::trusted(&*compact_lines(&text))))
}

/// Two fields of a node, as they stand in the file.
fn read_fields(path: &Path, file: &File, node: &Node, names: [&str; 2]) -> Result<[Option<Box<str>>; 2]> {
    let changed = || {
        Error::new(ErrorKind::FileChanged, "another program changed the session file while it was read")
            .with_path(path)
            .with_hint("open it again")
    };
    let bytes = read_at(path, file, node.offset, node.length)?;
    let text = String::from_utf8(bytes).map_err(|_| changed())?;
    let object = Object::scan(&text, 0).map_err(|_| changed())?;
    Ok(names.map(|name| object.get(name).map(Box::from)))
}
