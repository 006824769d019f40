//! The tree of an old file put right: parents found, circles broken, entries in stored order.
//!
//! Nothing here recurses, and everything is linear in the number of nodes.

use crate::legacy::nodes::{NONE, Node};
use crate::legacy::report::{Warning, WarningDetails, WarningKind};
use crate::legacy::scan::{Kept, Scanned};

/// What the nodes become.
pub(super) struct Tree {
    /// The nodes that become entries, in stored order: file order, except that ancestors which are not stored
    /// yet come directly before the entry that needs them.
    pub(super) order: Vec<u32>,
    /// For each node the position in that order of its nearest kept ancestor, itself included.
    pub(super) kept: Vec<u32>,
    /// The kept ranges of compactions: node, and the position at which the range ends, walking to the root.
    pub(super) ranges: Vec<(u32, u32)>,
    /// Whether stored order is file order.
    pub(super) in_file_order: bool,
}

/// Finds the parents that stood later, breaks circles, orders the entries and finds what compactions keep.
pub(super) fn resolve(scanned: &mut Scanned) -> Tree {
    find_later_parents(scanned);
    let mut marks = vec![0_u32; scanned.nodes.len()];
    break_cycles(scanned, &mut marks);
    warn_of_forward_parents(scanned);
    let (order, kept) = order(&scanned.nodes, marks);
    let ranges = ranges(scanned, &kept);
    let in_file_order = order.is_sorted();
    scanned.warnings.sort_by_key(|warning| (warning.line, warning.value, warning.kind));
    Tree { order, kept, ranges, in_file_order }
}

fn warning(kind: WarningKind, node: &Node) -> Warning {
    Warning {
        kind,
        line: node.line,
        value: node.value,
        offset: node.line_offset,
        length: node.line_length,
        details: WarningDetails::None,
    }
}

fn find_later_parents(scanned: &mut Scanned) {
    for (node, key) in &scanned.later_parents {
        match scanned.keys.first(*key) {
            Some(parent) => scanned.nodes[*node as usize].parent = parent,
            None => {
                let node = &scanned.nodes[*node as usize];
                scanned.warnings.push(warning(WarningKind::MissingParent, node));
            }
        }
    }
}

/// Breaks every circle at its first entry in the file, which becomes a root.
fn break_cycles(scanned: &mut Scanned, marks: &mut [u32]) {
    let mut walk = 0;
    // Only a parent that stood later can close a circle.
    for (start, _) in &scanned.later_parents {
        walk += 1;
        let mut at = *start;
        while at != NONE && marks[at as usize] == 0 {
            marks[at as usize] = walk;
            at = scanned.nodes[at as usize].parent;
        }
        if at == NONE || marks[at as usize] != walk {
            continue;
        }
        let mut first = at;
        let mut around = scanned.nodes[at as usize].parent;
        while around != at {
            first = first.min(around);
            around = scanned.nodes[around as usize].parent;
        }
        let node = &mut scanned.nodes[first as usize];
        node.parent = NONE;
        scanned.warnings.push(warning(WarningKind::Cycle, node));
    }
}

fn warn_of_forward_parents(scanned: &mut Scanned) {
    for (node, _) in &scanned.later_parents {
        let found = &scanned.nodes[*node as usize];
        if found.parent != NONE && found.parent > *node {
            scanned.warnings.push(warning(WarningKind::ForwardParent, found));
        }
    }
}

/// Stored order and nearest kept ancestors. `seen` is a vector to be used again.
fn order(nodes: &[Node], mut seen: Vec<u32>) -> (Vec<u32>, Vec<u32>) {
    let mut order = Vec::with_capacity(nodes.len());
    let mut kept = vec![NONE; nodes.len()];
    seen.fill(0);
    let mut chain = Vec::new();
    // Entries first, in file order; then the dropped nodes that no entry hangs on.
    for only_entries in [true, false] {
        for (start, node) in nodes.iter().enumerate() {
            if only_entries && node.kind.dropped().is_some() {
                continue;
            }
            let mut at = start as u32;
            while at != NONE && seen[at as usize] == 0 {
                seen[at as usize] = 1;
                chain.push(at);
                at = nodes[at as usize].parent;
            }
            while let Some(at) = chain.pop() {
                let node = &nodes[at as usize];
                kept[at as usize] = match (node.kind.dropped(), node.parent) {
                    (None, _) => {
                        order.push(at);
                        order.len() as u32 - 1
                    }
                    (Some(_), NONE) => NONE,
                    (Some(_), parent) => kept[parent as usize],
                };
            }
        }
    }
    (order, kept)
}

/// The ranges that compactions keep; warns of first kept entries that are not on the path.
fn ranges(scanned: &mut Scanned, kept: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges = Vec::new();
    if scanned.kept.is_empty() {
        return ranges;
    }
    let spans = spans(&scanned.nodes);
    let is_on_path = |ancestor: u32, node: u32| {
        let (ancestor, node) = (spans[ancestor as usize], spans[node as usize]);
        ancestor.0 <= node.0 && node.1 <= ancestor.1
    };
    for (compaction, first) in std::mem::take(&mut scanned.kept) {
        let node = &scanned.nodes[compaction as usize];
        let target = match first {
            Kept::Bad => None,
            Kept::Node(target) => Some(target),
            Kept::Later(key) => scanned.keys.first(key),
            Kept::Index(0) => continue,
            Kept::Index(index) => {
                match usize::try_from(index).ok().and_then(|index| scanned.counted_lines.get(index)) {
                    Some(target) if *target == compaction => continue,
                    Some(target) => Some(*target).filter(|target| *target != NONE),
                    None => continue,
                }
            }
        };
        match target.filter(|target| *target != compaction && is_on_path(*target, compaction)) {
            Some(target) => {
                let above = scanned.nodes[target as usize].parent;
                ranges.push((compaction, if above == NONE { NONE } else { kept[above as usize] }));
            }
            None => scanned.warnings.push(warning(WarningKind::BadKeptEntry, node)),
        }
    }
    ranges
}

/// For each node the interval of a walk through the whole tree that its descendants fall into.
fn spans(nodes: &[Node]) -> Vec<(u32, u32)> {
    let count = nodes.len();
    let (mut first_child, mut next_sibling) = (vec![NONE; count], vec![NONE; count]);
    for (at, node) in nodes.iter().enumerate().rev() {
        if node.parent != NONE {
            next_sibling[at] = std::mem::replace(&mut first_child[node.parent as usize], at as u32);
        }
    }
    let mut spans = vec![(0, 0); count];
    let mut clock = 0;
    for (root, _) in nodes.iter().enumerate().filter(|(_, node)| node.parent == NONE) {
        let mut at = root as u32;
        spans[root].0 = clock;
        loop {
            clock += 1;
            let child = first_child[at as usize];
            if child != NONE {
                at = child;
                spans[at as usize].0 = clock;
                continue;
            }
            // No more below: close nodes upwards until one has a sibling.
            loop {
                spans[at as usize].1 = clock;
                if at as usize == root {
                    break;
                }
                let sibling = next_sibling[at as usize];
                if sibling != NONE {
                    at = sibling;
                    spans[at as usize].0 = clock;
                    break;
                }
                at = nodes[at as usize].parent;
            }
            if at as usize == root {
                break;
            }
        }
    }
    spans
}
