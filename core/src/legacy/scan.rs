//! One pass over an old file: its header, its nodes, and what was wrong with it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::legacy::detect::{Detector, Found, Header, Step, is_name};
use crate::legacy::lines::{
    Digests, Line, Lines, NoObjects, Object, is_kept_by_agent, is_string, objects, spelled,
};
use crate::legacy::nodes::{Keys, Kind, NONE, Node, number};
use crate::legacy::print::CONTEXT_EDIT;
use crate::legacy::report::{Warning, WarningDetails, WarningKind};
use crate::legacy::times;
use crate::model::json::{count_of, text_of};
use crate::model::usage::Usage;

/// How many lines are read between two looks at the context.
const LOOK: u64 = 256;

/// Called with the number of bytes that were read.
pub(super) type Progress<'a> = &'a dyn Fn(u64);

/// How a compaction names the first entry it keeps.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kept {
    /// By its id; the nearest earlier one.
    Node(u32),
    /// By an id that no earlier entry has.
    Later(u32),
    /// Counts lines of the file; version 1 only.
    Index(u64),
    /// Something that names nothing.
    Bad,
}

/// A label that was set, or cleared where it has no text.
#[derive(Debug)]
pub(super) struct Label {
    pub(super) node: u32,
    /// The text as JSON.
    pub(super) text: Option<Box<str>>,
}

/// Everything of a file but its payloads.
pub(super) struct Scanned {
    pub(super) header: Header,
    pub(super) header_line: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) keys: Keys,
    pub(super) custom_types: Vec<Box<str>>,
    pub(super) labels: Vec<Label>,
    /// The session's name, as JSON.
    pub(super) name: Option<Box<str>>,
    pub(super) selected: u32,
    pub(super) usage: Usage,
    pub(super) usage_rows: u64,
    pub(super) warnings: Vec<Warning>,
    /// Parents that were not there yet: node and name.
    pub(super) later_parents: Vec<(u32, u32)>,
    pub(super) kept: Vec<(u32, Kept)>,
    /// The nodes of the lines that version 1 counts, the header first.
    pub(super) counted_lines: Vec<u32>,
    pub(super) digests: Option<Digests>,
}

/// A reference that names nothing so far: where it stands, and its node if that shall learn of it.
struct LaterReference {
    node: u32,
    key: u32,
    warning: Warning,
}

struct Scanner<'a> {
    path: &'a Path,
    file: &'a File,
    scanned: Scanned,
    later_references: Vec<LaterReference>,
    type_numbers: HashMap<Box<str>, u32>,
    /// Digests of the entries of each id that occurred more than once.
    contents: HashMap<u32, HashSet<[u8; 32]>>,
    /// How many of the nodes give an entry.
    entries: usize,
}

/// What reading the start of a file gives.
pub(super) enum Opened {
    Legacy(Box<Scanned>),
    Format4,
}

/// Reads the first `size` bytes of `file`.
pub(super) fn scan(
    path: &Path,
    file: &File,
    size: u64,
    hash: bool,
    progress: Progress<'_>,
    ctx: &Context,
) -> Result<Opened> {
    let io = |error| Error::io("cannot read the session file", error).with_path(path);
    let mut lines = Lines::of(file, size, hash).map_err(io)?;
    let mut reading = Reading::new(path, file);
    reading.detector.start(lines.peek().map_err(io)?).map_err(|error| error.with_path(path))?;
    while let Some(line) = lines.next().map_err(io)? {
        if line.number % LOOK == 0 {
            ctx.check()?;
            progress(line.offset);
        }
        if reading.line(&line)?.is_break() {
            return Ok(Opened::Format4);
        }
    }
    progress(lines.offset());
    let mut scanned = reading.finish()?;
    scanned.digests = lines.finish();
    Ok(Opened::Legacy(Box::new(scanned)))
}

/// A file that is read line by line.
pub(super) struct Reading<'a> {
    path: &'a Path,
    file: &'a File,
    detector: Detector,
    /// From the header on.
    scanner: Option<Scanner<'a>>,
    second_header: Option<Warning>,
}

impl<'a> Reading<'a> {
    /// `file` holds the lines that are given: an id that comes again is compared with what stands there.
    pub(super) fn new(path: &'a Path, file: &'a File) -> Self {
        Self { path, file, detector: Detector::default(), scanner: None, second_header: None }
    }

    /// Takes the next line; breaks at the header of a file of format 4.
    pub(super) fn line(&mut self, line: &Line<'_>) -> Result<ControlFlow<()>> {
        if line.is_blank() {
            return Ok(ControlFlow::Continue(()));
        }
        match (&mut self.scanner, &mut self.second_header) {
            (None, _) => {
                let located = |error: Error| error.with_path(self.path);
                let values = objects(line).map_err(|_| located(self.detector.no_objects(line)))?;
                match self.detector.line(line, &values).map_err(located)? {
                    Step::Next => {}
                    Step::Format4(_) => return Ok(ControlFlow::Break(())),
                    Step::Found(found) => {
                        let behind = found.value + 1;
                        let scanner = Scanner::new(self.path, self.file, line, *found);
                        let scanner = self.scanner.insert(scanner);
                        self.second_header = scanner.values(line, &values, behind)?;
                    }
                }
            }
            (_, Some(Warning { details: WarningDetails::Ignored(ignored), .. })) => *ignored += 1,
            (Some(scanner), second_header) => *second_header = scanner.line(line)?,
        }
        Ok(ControlFlow::Continue(()))
    }

    /// How many entries the lines so far give.
    pub(super) fn entry_count(&self) -> usize {
        self.scanner.as_ref().map_or(0, |scanner| scanner.entries)
    }

    /// What the lines gave.
    pub(super) fn finish(self) -> Result<Scanned> {
        let Some(mut scanner) = self.scanner else {
            return Err(self.detector.nothing_found().with_path(self.path));
        };
        scanner.scanned.warnings.extend(self.second_header);
        scanner.finish_references();
        scanner.scanned.usage = finite(scanner.scanned.usage);
        Ok(scanner.scanned)
    }
}

/// A warning about a value of `line`.
fn warning(kind: WarningKind, line: &Line<'_>, value: usize, details: WarningDetails) -> Warning {
    Warning {
        kind,
        line: line.number,
        value: u32::try_from(value).unwrap_or(u32::MAX),
        offset: line.offset,
        length: line.length(),
        details,
    }
}

impl<'a> Scanner<'a> {
    fn new(path: &'a Path, file: &'a File, line: &Line<'_>, found: Found) -> Self {
        let mut warnings: Vec<Warning> = found.preamble.into_iter().collect();
        if let Some(written) = found.header.version_text.clone().filter(|_| found.header.version > 3) {
            let details = WarningDetails::Version(written);
            warnings.push(warning(WarningKind::NewerVersion, line, found.value, details));
        }
        Self {
            path,
            file,
            scanned: Scanned {
                header: found.header,
                header_line: line.number,
                nodes: Vec::new(),
                keys: Keys::default(),
                custom_types: Vec::new(),
                labels: Vec::new(),
                name: None,
                selected: NONE,
                usage: Usage::default(),
                usage_rows: 0,
                warnings,
                later_parents: Vec::new(),
                kept: Vec::new(),
                counted_lines: vec![NONE],
                digests: None,
            },
            later_references: Vec::new(),
            type_numbers: HashMap::new(),
            contents: HashMap::new(),
            entries: 0,
        }
    }

    fn is_version_1(&self) -> bool {
        self.scanned.header.version == 1
    }

    fn warn(&mut self, kind: WarningKind, line: &Line<'_>, value: usize) {
        self.scanned.warnings.push(warning(kind, line, value, WarningDetails::None));
    }

    /// Takes a line behind the header's; a warning if a second header is on it.
    fn line(&mut self, line: &Line<'_>) -> Result<Option<Warning>> {
        let values = objects(line);
        let values = match &values {
            Ok(values) if values.iter().all(|value| value.type_name.is_some_and(is_string)) => Ok(values),
            Ok(_) => Err(NoObjects::OtherJson),
            Err(why) => Err(*why),
        };
        let (second_header, counts) = match values {
            Ok(values) => {
                let before = self.scanned.nodes.len();
                let second_header = self.values(line, values, 0)?;
                let node = if self.scanned.nodes.len() > before { before } else { NONE as usize };
                (second_header, (values.len() == 1).then_some(node as u32))
            }
            Err(why) => {
                let torn = !line.terminated && why == NoObjects::NoJson;
                self.warn(if torn { WarningKind::TornTail } else { WarningKind::BadLine }, line, 0);
                (None, (self.is_version_1() && is_kept_by_agent(line)).then_some(NONE))
            }
        };
        if let Some(node) = counts.filter(|_| self.is_version_1()) {
            self.scanned.counted_lines.push(node);
        }
        Ok(second_header)
    }

    /// Takes the values of a line from number `first` on.
    fn values(&mut self, line: &Line<'_>, values: &[Object<'_>], first: usize) -> Result<Option<Warning>> {
        if values.len() > 1 {
            let details = WarningDetails::Values(values.len() as u64);
            self.scanned.warnings.push(warning(WarningKind::Glued, line, 0, details));
        }
        for (number, object) in values.iter().enumerate().skip(first) {
            let Some(type_name) = object.type_name.filter(|name| is_string(name)).map(spelled) else {
                // Only behind a header on its own line: other lines were looked at before.
                self.warn(WarningKind::BadLine, line, number);
                return Ok(None);
            };
            if type_name == "session" {
                let details = WarningDetails::Ignored(1);
                return Ok(Some(warning(WarningKind::SecondHeader, line, number, details)));
            }
            self.entry(line, number, object, &type_name)?;
        }
        Ok(None)
    }

    fn entry(&mut self, line: &Line<'_>, value: usize, object: &Object<'_>, type_name: &str) -> Result<()> {
        let id = object.id.filter(|id| is_string(id)).map(spelled);
        let mut kind = Kind::from_name(type_name);
        if kind == Kind::Leaf && id.is_none() {
            return self.select_target(line, value, object);
        }
        let node = number(self.scanned.nodes.len())?;
        let key = match &id {
            Some(id) => self.scanned.keys.get(id)?,
            None => self.scanned.keys.get(&line.number.to_string())?,
        };
        match &id {
            Some(_) if self.scanned.keys.last(key).is_some() => {
                if self.is_known_content(key, line, object)? {
                    self.warn(WarningKind::Duplicate, line, value);
                    return Ok(());
                }
                self.warn(WarningKind::DuplicateId, line, value);
            }
            None if !self.is_version_1() => self.warn(WarningKind::MissingId, line, value),
            _ => {}
        }
        if !has_what_it_must(kind, object) {
            kind = Kind::Other;
        }
        let parent = self.parent(line, value, object, node)?;
        let reference = match kind {
            Kind::BranchSummary => self.reference(line, value, object, "fromId", node)?,
            Kind::ContextEdit | Kind::Label => self.reference(line, value, object, "targetId", node)?,
            _ => NONE,
        };
        let time = object.timestamp.and_then(times::read).unwrap_or_else(|| {
            let before = self.scanned.nodes.last().map(|node| node.time);
            before.or(self.scanned.header.created_at).unwrap_or(0)
        });
        let custom_type = match kind {
            Kind::Custom => {
                self.type_number(&object.string("customType").map(spelled).unwrap_or_default())?
            }
            Kind::ContextEdit => self.type_number(CONTEXT_EDIT)?,
            Kind::Other => self.type_number(&format!("pi.legacy.{}", type_name.replace('\0', "\u{fffd}")))?,
            _ => NONE,
        };
        let occurrence = self.scanned.keys.occurs(key, node, id.is_some());
        self.scanned.nodes.push(Node {
            offset: line.text_offset + object.start as u64,
            length: (object.end - object.start) as u64,
            line: line.number,
            line_offset: line.offset,
            line_length: line.length(),
            time,
            value: u32::try_from(value).unwrap_or(u32::MAX),
            key,
            occurrence,
            parent,
            reference,
            custom_type,
            kind,
            has_id: id.is_some(),
        });
        self.entries += usize::from(kind.dropped().is_none());
        if kind != Kind::Leaf {
            self.scanned.selected = node;
        }
        self.note(line, value, object, kind, node)
    }

    /// What an entry of its kind says beside being a node.
    fn note(
        &mut self,
        line: &Line<'_>,
        value: usize,
        object: &Object<'_>,
        kind: Kind,
        node: u32,
    ) -> Result<()> {
        let text = |name| object.get(name).filter(|text| is_name(Some(text))).map(Box::from);
        let mut usage = None;
        match kind {
            Kind::Message => {
                let message = object.message.unwrap_or_default();
                let role = message.role.and_then(text_of).unwrap_or_default();
                if matches!(&*role, "assistant" | "toolResult") {
                    usage = message.usage;
                }
                let stop_reason = message.stop_reason.and_then(text_of).unwrap_or_default();
                if role == "assistant" && stop_reason == "pending" {
                    self.warn(WarningKind::PendingAssistant, line, value);
                }
            }
            Kind::Compaction => {
                usage = object.get("usage");
                if let Some(kept) = self.first_kept(object, node)? {
                    self.scanned.kept.push((node, kept));
                }
            }
            Kind::BranchSummary | Kind::Usage => usage = object.get("usage"),
            Kind::Label => self.scanned.labels.push(Label { node, text: text("label") }),
            Kind::SessionInfo => self.scanned.name = text("name"),
            Kind::Leaf => self.select_target(line, value, object)?,
            _ => {}
        }
        if let Some(usage) = usage.and_then(Usage::lenient) {
            self.scanned.usage.add(&usage);
            self.scanned.usage_rows += 1;
        }
        Ok(())
    }

    /// What a compaction says it keeps first; none if that is nothing or itself.
    fn first_kept(&mut self, object: &Object<'_>, node: u32) -> Result<Option<Kept>> {
        match object.get("firstKeptEntryId") {
            None | Some("null") => {}
            Some(id) if is_string(id) => {
                let key = self.scanned.keys.get(&spelled(id))?;
                let own = self.scanned.nodes[node as usize];
                if own.has_id && own.key == key {
                    return Ok(None);
                }
                return Ok(Some(self.scanned.keys.last(key).map_or(Kept::Later(key), Kept::Node)));
            }
            Some(_) => return Ok(Some(Kept::Bad)),
        }
        let index = object.get("firstKeptEntryIndex").filter(|_| self.is_version_1());
        Ok(index.and_then(count_of).map(Kept::Index))
    }

    /// Moves the selected position as a `leaf` says.
    fn select_target(&mut self, line: &Line<'_>, value: usize, object: &Object<'_>) -> Result<()> {
        if object.get("targetId") == Some("null") {
            self.scanned.selected = NONE;
            return Ok(());
        }
        let target = self.reference(line, value, object, "targetId", NONE)?;
        if target != NONE {
            self.scanned.selected = target;
        }
        Ok(())
    }

    fn parent(&mut self, line: &Line<'_>, value: usize, object: &Object<'_>, node: u32) -> Result<u32> {
        match object.parent_id {
            Some("null") => Ok(NONE),
            Some(id) if is_string(id) => {
                let id = spelled(id);
                // Nearly always it is the entry before.
                if let Some(before) = self.scanned.nodes.last()
                    && before.has_id
                    && self.scanned.keys.text(before.key) == id
                {
                    return Ok(node - 1);
                }
                let key = self.scanned.keys.get(&id)?;
                Ok(self.scanned.keys.last(key).unwrap_or_else(|| {
                    self.scanned.later_parents.push((node, key));
                    NONE
                }))
            }
            Some(_) => {
                self.warn(WarningKind::MissingParent, line, value);
                Ok(NONE)
            }
            None => {
                if !self.is_version_1() {
                    self.warn(WarningKind::MissingParentId, line, value);
                }
                Ok(node.checked_sub(1).unwrap_or(NONE))
            }
        }
    }

    /// The node that a field names. One that is not there yet is looked for again at the end, for `node`.
    fn reference(
        &mut self,
        line: &Line<'_>,
        value: usize,
        object: &Object<'_>,
        field: &'static str,
        node: u32,
    ) -> Result<u32> {
        let warning = || warning(WarningKind::MissingReference, line, value, WarningDetails::Field(field));
        match object.get(field) {
            None | Some("null" | "\"root\"") if field == "fromId" => Ok(NONE),
            Some(id) if is_string(id) => {
                let key = self.scanned.keys.get(&spelled(id))?;
                Ok(self.scanned.keys.last(key).unwrap_or_else(|| {
                    self.later_references.push(LaterReference { node, key, warning: warning() });
                    NONE
                }))
            }
            _ => {
                self.scanned.warnings.push(warning());
                Ok(NONE)
            }
        }
    }

    fn finish_references(&mut self) {
        for later in self.later_references.drain(..) {
            match self.scanned.keys.first(later.key) {
                Some(target) => {
                    if let Some(node) = self.scanned.nodes.get_mut(later.node as usize) {
                        node.reference = target;
                    }
                }
                None => self.scanned.warnings.push(later.warning),
            }
        }
    }

    fn type_number(&mut self, name: &str) -> Result<u32> {
        if let Some(found) = self.type_numbers.get(name) {
            return Ok(*found);
        }
        let found = number(self.scanned.custom_types.len())?;
        self.scanned.custom_types.push(name.into());
        self.type_numbers.insert(name.into(), found);
        Ok(found)
    }

    /// Whether an entry of that id with the same bytes was there before. Notes this one.
    fn is_known_content(&mut self, key: u32, line: &Line<'_>, object: &Object<'_>) -> Result<bool> {
        if !self.contents.contains_key(&key)
            && let Some(first) = self.scanned.keys.first(key)
        {
            let Node { offset, length, .. } = self.scanned.nodes[first as usize];
            let bytes = read_at(self.path, self.file, offset, length)?;
            self.contents.insert(key, HashSet::from([Sha256::digest(bytes).into()]));
        }
        let digest = Sha256::digest(&line.bytes[object.start..object.end]).into();
        Ok(!self.contents.entry(key).or_default().insert(digest))
    }
}

/// The bytes at a place of the file.
pub(super) fn read_at(path: &Path, file: &File, offset: u64, length: u64) -> Result<Vec<u8>> {
    let length = usize::try_from(length).map_err(|_| {
        Error::new(ErrorKind::TooLarge, "an entry of the file is too large for this machine").with_path(path)
    })?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)
        .map_err(|error| Error::io("cannot read an entry of the session file", error).with_path(path))?;
    Ok(bytes)
}

/// Whether an entry of a known type has what that must have.
pub(super) fn has_what_it_must(kind: Kind, object: &Object<'_>) -> bool {
    let custom_type = || object.string("customType");
    match kind {
        Kind::Message => object.message.is_some_and(|message| message.role.is_some_and(is_string)),
        Kind::CustomMessage => custom_type().is_some(),
        // The custom type becomes a structural field, which is Unicode text without U+0000.
        Kind::Custom => custom_type().and_then(text_of).is_some_and(|name| !name.contains('\0')),
        Kind::Compaction | Kind::BranchSummary => object.string("summary").is_some(),
        _ => true,
    }
}

/// Sums too large for a double are the largest one: JSON has no other numbers.
fn finite(mut usage: Usage) -> Usage {
    let largest = |number: &mut f64| {
        *number = if number.is_nan() { 0.0 } else { number.clamp(f64::MIN, f64::MAX) };
    };
    for number in [
        &mut usage.input,
        &mut usage.output,
        &mut usage.cache_read,
        &mut usage.cache_write,
        &mut usage.total_tokens,
        &mut usage.cost.input,
        &mut usage.cost.output,
        &mut usage.cost.cache_read,
        &mut usage.cost.cache_write,
        &mut usage.cost.total,
    ] {
        largest(number);
    }
    usage.cache_write_1h.iter_mut().chain(usage.reasoning.iter_mut()).for_each(largest);
    usage
}
