//! `tree`: all entries of a session as a tree.

mod layout;

use std::collections::HashMap;

use clap::Args;
use pisession::{Context, EntryQuery, EntryType, Order, Session};
use serde::Serialize;

use self::layout::{Layout, Place};
use super::{labels, old_ids, tips};
use crate::failure::{Failure, Verdict};
use crate::output::progress::Progress;
use crate::output::text::{clean_line, columns, padded};
use crate::output::{Output, Role};
use crate::target;
use crate::transcript::message::Said;

/// How many characters of each entry's text are kept.
const EXCERPT: usize = 200;
/// How many columns the type of an entry fills.
const KIND_WIDTH: usize = 15;
/// How short the end of an id may be cut.
const SHORTEST_ID: usize = 8;

/// Print the entries of a session as a tree, one line each
///
/// Oldest first. Where the session diverged, the branches that were left stand indented before the one that
/// goes on: the one of main, else the largest. Ids are those in the file where it is of version 1 to 3; long
/// ones are else cut to an end that no other entry has; show takes both. Tips of branches are marked [name], labels #label.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pisession tree session.jsonl
  pisession tree sqlite:sessions#ID | less
  pisession tree session.jsonl --json | jq '.entries | length'

With --json: {\"id\", \"branches\": [{\"name\", \"tipId\"}], \"entries\": [{\"id\", \"oldId\"?, \"parentId\", \"seq\", \"timestamp\", \
\"type\", \"kind\", \"excerpt\", \"label\"?, \"tipOf\"?}]}, entries by seq. kind is the role of a message, the custom type \
of a custom entry, else the type; excerpt is the beginning of its text.")]
pub(super) struct Tree {
    /// The session: URI#ID, or the path of its file
    session: String,
}

/// What is kept of an entry: never its payload.
struct Node {
    id: String,
    parent_id: Option<String>,
    seq: u64,
    timestamp: i64,
    entry_type: EntryType,
    kind: String,
    excerpt: String,
    failed: bool,
    /// The id in the file, where that is one of version 1 to 3.
    old_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryLine<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_id: Option<&'a str>,
    parent_id: Option<&'a str>,
    seq: u64,
    timestamp: i64,
    r#type: &'static str,
    kind: &'a str,
    excerpt: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tip_of: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    id: &'a str,
    branches: Vec<BranchLine>,
    entries: Vec<EntryLine<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BranchLine {
    name: String,
    tip_id: Option<String>,
}

/// Marks on entries, by their ids.
struct Marks {
    labels: HashMap<String, String>,
    tips: HashMap<String, Vec<String>>,
}

impl Marks {
    fn label(&self, node: &Node) -> Option<&str> {
        self.labels.get(&node.id).map(String::as_str)
    }

    fn tips(&self, node: &Node) -> &[String] {
        self.tips.get(&node.id).map_or(&[], Vec::as_slice)
    }
}

impl Tree {
    pub(super) fn run(&self, out: &mut Output, ctx: &Context) -> Result<Verdict, Failure> {
        let session = target::session(&self.session, ctx)?;
        let nodes = read(&session, ctx)?;
        let marks = Marks { labels: labels(&session, ctx)?, tips: tips(&session, ctx)? };
        if out.is_json() {
            let branches = session.branches(ctx)?.into_iter();
            out.object(&Object {
                id: session.id(),
                branches: branches.map(|b| BranchLine { name: b.name, tip_id: b.tip_id }).collect(),
                entries: nodes.iter().map(|node| entry_line(node, &marks)).collect(),
            })?;
            return Ok(Verdict::Fine);
        }
        let main_tip = session.branch("main", ctx)?.map(|main| main.tip_id(ctx)).transpose()?.flatten();
        let parents = nodes.iter().map(|node| (node.id.as_str(), node.parent_id.as_deref()));
        let layout = Layout::of(parents, main_tip.as_deref());
        let id_width = distinct_end(nodes.iter().map(|node| node.id.as_str()));
        for place in layout.places() {
            ctx.check()?;
            print(&nodes[place.index], place, id_width, &marks, out)?;
        }
        Ok(Verdict::Fine)
    }
}

fn read(session: &Session, ctx: &Context) -> Result<Vec<Node>, Failure> {
    let progress = Progress::new("entries read");
    let query = EntryQuery { order: Order::Ascending, ..EntryQuery::default() };
    let mut nodes = Vec::new();
    let mut old_ids = old_ids(session);
    for entry in session.entries(&query, ctx) {
        let entry = entry?;
        let said = Said::by_entry(&entry);
        nodes.push(Node {
            kind: said.kind(),
            excerpt: said.excerpt(EXCERPT),
            failed: said.failed,
            old_id: old_ids.remove(&entry.id),
            id: entry.id,
            parent_id: entry.parent_id,
            seq: entry.seq,
            timestamp: entry.timestamp,
            entry_type: entry.entry_type,
        });
        progress.at(nodes.len() as u64);
    }
    Ok(nodes)
}

fn entry_line<'a>(node: &'a Node, marks: &'a Marks) -> EntryLine<'a> {
    EntryLine {
        id: &node.id,
        old_id: node.old_id.as_deref(),
        parent_id: node.parent_id.as_deref(),
        seq: node.seq,
        timestamp: node.timestamp,
        r#type: node.entry_type.name(),
        kind: &node.kind,
        excerpt: &node.excerpt,
        label: marks.label(node),
        tip_of: marks.tips(node),
    }
}

fn print(node: &Node, place: Place, id_width: usize, marks: &Marks, out: &mut Output) -> Result<(), Failure> {
    // Beyond some depth a line would hold nothing but its branches.
    let most = out.width() / 4;
    let rails = match place.depth {
        0 => String::new(),
        depth if depth > most => format!("{}{depth}│ ", "│ ".repeat(most)),
        depth if place.begins => format!("{}├─", "│ ".repeat(depth - 1)),
        depth => "│ ".repeat(depth),
    };
    let id = node.old_id.as_deref().unwrap_or_else(|| shortened(&node.id, id_width));
    let id = clean_line(id, 64);
    let kind = padded(&clean_line(&node.kind, 30), KIND_WIDTH);
    let tips = marks.tips(node).iter().map(|name| format!("[{}]", clean_line(name, 40)));
    let tips = tips.collect::<Vec<_>>().join(" ");
    let label = marks.label(node).map_or(String::new(), |label| format!("#{}", clean_line(label, 40)));
    let kind_role = match node.entry_type {
        _ if node.failed => Role::Problem,
        EntryType::Message if node.kind == "user" => Role::Heading,
        EntryType::Compaction | EntryType::BranchSummary => Role::Label,
        EntryType::Custom => Role::Faint,
        EntryType::Message => Role::Plain,
    };
    let mut line = format!("{rails}{} {}", out.paint(Role::Id, &id), out.paint(kind_role, &kind));
    let mut used = columns(&rails) + columns(&id) + 1 + columns(&kind);
    for (role, mark) in [(Role::Tip, tips), (Role::Label, label)] {
        if !mark.is_empty() {
            used += 1 + columns(&mark);
            line.push(' ');
            line.push_str(&out.paint(role, &mark));
        }
    }
    let left = out.width().saturating_sub(used + 1);
    if left > 1 {
        line.push(' ');
        line.push_str(&clean_line(&node.excerpt, left));
    }
    out.line(line.trim_end())
}

/// The end of `id` that is shown.
fn shortened(id: &str, width: usize) -> &str {
    match id.char_indices().rev().nth(width.saturating_sub(1)) {
        Some((at, _)) if width < SHORTEST_ID * 3 && id.len() > SHORTEST_ID * 2 => &id[at..],
        _ => id,
    }
}

/// How many characters at the end tell all `ids` apart.
fn distinct_end<'a>(ids: impl Iterator<Item = &'a str>) -> usize {
    let mut backwards: Vec<String> = ids.map(|id| id.chars().rev().collect()).collect();
    backwards.sort_unstable();
    let common = |pair: &[String]| pair[0].chars().zip(pair[1].chars()).take_while(|(a, b)| a == b).count();
    backwards.windows(2).map(|pair| common(pair) + 1).max().unwrap_or(0).max(SHORTEST_ID)
}
