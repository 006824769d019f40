//! What an entry says, read for people. Payloads are the application's: whatever is not of a shape known here
//! is shown as what it is called, never refused.

use pisession::{Entry, EntryType, JsonView};

/// A piece of what an entry says.
pub(crate) enum Block {
    Text(String),
    Thinking(String),
    ToolCall {
        name: String,
        arguments: String,
    },
    /// An image: its type and how many bytes it has.
    Image(String, usize),
    /// JSON of the application's own.
    Data(String),
    /// A part of a kind that is not known here.
    Other(String),
}

/// What an entry says.
pub(crate) struct Said {
    /// Who or what: a role, `compaction`, `branch_summary`, or a custom type.
    pub(crate) by: String,
    /// More about who: the model, the tool, …
    pub(crate) about: Vec<String>,
    /// Whether it says that something failed.
    pub(crate) failed: bool,
    /// Whether it is output of a tool, which is shown in brief.
    pub(crate) output: bool,
    pub(crate) blocks: Vec<Block>,
}

impl Said {
    pub(crate) fn by_entry(entry: &Entry) -> Self {
        let payload = entry.payload.view();
        match entry.entry_type {
            EntryType::Message => payload.get("message").map_or_else(Self::nothing, Self::by_message),
            EntryType::Compaction | EntryType::BranchSummary => Self {
                by: entry.entry_type.name().to_owned(),
                about: about_summary(entry.entry_type, payload),
                failed: false,
                output: false,
                blocks: text(payload, "summary").map(Block::Text).into_iter().collect(),
            },
            EntryType::Custom => Self {
                by: "custom".to_owned(),
                about: entry.custom_type.iter().cloned().collect(),
                failed: false,
                output: true,
                blocks: payload
                    .get("data")
                    .map(|data| Block::Data(data.as_str().to_owned()))
                    .into_iter()
                    .collect(),
            },
        }
    }

    fn nothing() -> Self {
        Self { by: "message".to_owned(), about: Vec::new(), failed: false, output: false, blocks: Vec::new() }
    }

    fn by_message(message: JsonView<'_>) -> Self {
        let by = text(message, "role").unwrap_or_else(|| "message".to_owned());
        let mut said = Self { by, ..Self::nothing() };
        match said.by.as_str() {
            "bashExecution" => said.bash_execution(message),
            "branchSummary" | "compactionSummary" => {
                said.blocks.extend(text(message, "summary").map(Block::Text));
            }
            _ => {
                let content = message.get("content").or_else(|| message.get("output"));
                said.blocks = content.map(blocks).unwrap_or_default();
            }
        }
        match said.by.as_str() {
            "assistant" => {
                said.about.extend(text(message, "model"));
                let stop =
                    text(message, "stopReason").filter(|stop| !matches!(stop.as_str(), "stop" | "toolUse"));
                said.failed = matches!(stop.as_deref(), Some("error" | "aborted"));
                said.about.extend(stop);
                said.blocks.extend(text(message, "errorMessage").map(Block::Text));
            }
            "toolResult" => {
                said.output = true;
                said.about.extend(text(message, "toolName"));
                said.failed = message.get("isError").is_some_and(JsonView::is_true);
                if said.failed {
                    said.about.push("error".to_owned());
                }
            }
            "custom" | "hookMessage" => said.about.extend(text(message, "customType")),
            _ => {}
        }
        said
    }

    fn bash_execution(&mut self, message: JsonView<'_>) {
        self.output = true;
        self.blocks.extend(text(message, "command").map(|command| Block::Text(format!("$ {command}"))));
        self.blocks.extend(text(message, "output").map(Block::Text));
        if let Some(code) = message.get("exitCode").and_then(JsonView::to_number) {
            self.failed = code != 0.0;
            self.about.push(format!("exit {code}"));
        }
    }

    /// Role or type, as a listing shows it.
    pub(crate) fn kind(&self) -> String {
        match (self.by.as_str(), self.about.first()) {
            ("custom", Some(custom_type)) => custom_type.clone(),
            ("toolResult", Some(tool)) => format!("{}:{tool}", self.by),
            _ => self.by.clone(),
        }
    }

    /// The beginning of what it says, of about `length` characters: text if there is any, else the first
    /// block.
    pub(crate) fn excerpt(&self, length: usize) -> String {
        let is_text = |block: &&Block| matches!(block, Block::Text(text) if !text.trim().is_empty());
        let first = self.blocks.iter().find(is_text);
        let calls = self.blocks.iter().filter(|block| matches!(block, Block::ToolCall { .. }));
        let shown = match first {
            Some(first) => std::iter::once(first).chain(calls.take(4)).collect::<Vec<_>>(),
            None => self.blocks.iter().filter(|block| !matches!(block, Block::Thinking(_))).take(4).collect(),
        };
        let shown = if shown.is_empty() { self.blocks.iter().take(1).collect() } else { shown };
        let mut out = String::new();
        for block in shown {
            if !out.is_empty() {
                out.push(' ');
            }
            match block {
                Block::Text(text) | Block::Thinking(text) | Block::Data(text) => {
                    out.extend(text.trim_start().chars().take(length));
                }
                Block::ToolCall { name, arguments } => {
                    out.push_str("→ ");
                    out.push_str(name);
                    out.push(' ');
                    out.extend(arguments.chars().take(length));
                }
                Block::Image(kind, bytes) => out.push_str(&image(kind, *bytes)),
                Block::Other(kind) => out.push_str(&format!("[{kind}]")),
            }
            if out.len() > length * 4 {
                break;
            }
        }
        out
    }
}

/// An image as a word.
pub(crate) fn image(kind: &str, bytes: usize) -> String {
    format!("[image {kind}, {}]", crate::output::text::size(bytes))
}

fn about_summary(entry_type: EntryType, payload: JsonView<'_>) -> Vec<String> {
    let mut about = Vec::new();
    if entry_type == EntryType::Compaction {
        let tokens = payload.get("tokensBefore").and_then(JsonView::to_number);
        about
            .extend(tokens.map(|tokens| format!("{} tokens before", crate::output::text::thousands(tokens))));
        let kept = payload.get("retainedTail").and_then(JsonView::elements).map_or(0, |tail| tail.len());
        about.push(format!("{kept} {} kept", if kept == 1 { "message" } else { "messages" }));
    }
    about
}

/// Message content: text, or an array of blocks.
fn blocks(content: JsonView<'_>) -> Vec<Block> {
    if let Some(text) = content.to_text() {
        return vec![Block::Text(text.into_owned())];
    }
    match content.elements() {
        Some(elements) => elements.into_iter().map(block).collect(),
        None => vec![Block::Data(content.as_str().to_owned())],
    }
}

fn block(block: JsonView<'_>) -> Block {
    let kind = text(block, "type").unwrap_or_else(|| "block without a type".to_owned());
    let found = match kind.as_str() {
        "text" => text(block, "text").map(Block::Text),
        "thinking" => text(block, "thinking").map(Block::Thinking),
        "toolCall" => text(block, "name").map(|name| Block::ToolCall {
            name,
            arguments: block
                .get("arguments")
                .map_or_else(String::new, |arguments| arguments.as_str().to_owned()),
        }),
        "image" => {
            let data = block.get("data").map_or("", JsonView::as_str);
            let kind = text(block, "mimeType").unwrap_or_else(|| "of unknown type".to_owned());
            Some(Block::Image(kind, decoded_length(data)))
        }
        _ => None,
    };
    found.unwrap_or(Block::Other(kind))
}

/// How many bytes a JSON string of base64 stands for.
fn decoded_length(json: &str) -> usize {
    json.trim().trim_matches('"').trim_end_matches('=').len() * 3 / 4
}

fn text(view: JsonView<'_>, name: &str) -> Option<String> {
    view.get(name)?.to_text().map(|text| text.into_owned())
}
