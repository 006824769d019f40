//! Paths through the entry tree: the same walk on every backend.
//!
//! Each entry carries its depth and one jump to a farther ancestor (E. Myers, "An applicative random-access
//! stack", 1983), so that an ancestor at a depth or below a `seq` is found in logarithmic time, a divergence
//! copies nothing, and a page of a path costs what it returns. Nothing here recurses.

use std::ops::ControlFlow;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::model::entry::EntryType;
use crate::storage::query::{BranchScan, PathOrder};

/// How many entries are walked between two looks at the context, and the largest chunk of a walk from the root.
const CHUNK: u32 = 256;

/// Place of an entry in the tree. `at` is how the backend finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) at: u64,
    pub(crate) seq: u64,
    /// `at` of the parent; none for a root.
    pub(crate) parent: Option<u64>,
    /// `at` of the jump's target; its own for a root.
    pub(crate) jump: u64,
    pub(crate) depth: u32,
    pub(crate) entry_type: EntryType,
}

/// One entry met on a walk.
pub(crate) struct Step<'a, R> {
    pub(crate) node: Node,
    pub(crate) custom_type: Option<&'a str>,
    /// Loads what the scan collects of it.
    pub(crate) load: &'a mut dyn FnMut() -> Result<R>,
}

/// What a walk calls at each entry; it ends when this breaks.
pub(crate) type Visit<'a, R> = dyn FnMut(Step<'_, R>) -> Result<ControlFlow<()>> + 'a;

/// A backend's entry tree.
pub(crate) trait Tree {
    /// What a scan collects of an entry.
    type Row;
    /// The entry of that id.
    fn find(&self, id: &str) -> Result<Option<Node>>;
    /// The entry at `at`, which must exist.
    fn node(&self, at: u64) -> Result<Node>;
    /// Visits the entry at `from` and its ancestors, newest first, until `visit` breaks.
    fn climb(&self, from: u64, visit: &mut Visit<'_, Self::Row>) -> Result<()>;
    /// The error that the depths of entries around `node` contradict each other.
    fn damaged(&self, node: &Node) -> Error {
        Error::new(ErrorKind::Corrupt, damage(node))
    }
}

/// What is wrong with the depth of an entry, in words.
pub(crate) fn damage(node: &Node) -> String {
    format!("the entry of seq {} cannot stand at depth {}", node.seq, node.depth)
}

/// The jump of a new child of `parent`.
pub(crate) fn jump_of_child<T: Tree + ?Sized>(tree: &T, parent: &Node) -> Result<u64> {
    let near = tree.node(parent.jump)?;
    let far = tree.node(near.jump)?;
    let lengths = parent.depth.checked_sub(near.depth).zip(near.depth.checked_sub(far.depth));
    let (first, second) = lengths.ok_or_else(|| tree.damaged(parent))?;
    Ok(if first == second { far.at } else { parent.at })
}

/// The entry at `at`, to which `node` leads: it is nearer to the root.
fn nearer<T: Tree + ?Sized>(tree: &T, node: &Node, at: u64) -> Result<Node> {
    let found = tree.node(at)?;
    if found.depth >= node.depth && found.at != node.at { Err(tree.damaged(node)) } else { Ok(found) }
}

/// The ancestor of `node` at `depth`, which is not below it.
pub(crate) fn ancestor_at<T: Tree + ?Sized>(tree: &T, mut node: Node, depth: u32) -> Result<Node> {
    while node.depth > depth {
        let jump = nearer(tree, &node, node.jump)?;
        node = match node.parent {
            _ if jump.depth >= depth => jump,
            Some(parent) => nearer(tree, &node, parent)?,
            None => break,
        };
    }
    Ok(node)
}

/// The newest ancestor of `node` (or itself) with a `seq` below `bound`.
pub(crate) fn newest_below<T: Tree + ?Sized>(tree: &T, mut node: Node, bound: u64) -> Result<Option<Node>> {
    while node.seq >= bound {
        let Some(parent) = node.parent else { return Ok(None) };
        let jump = nearer(tree, &node, node.jump)?;
        node = if jump.seq >= bound { jump } else { nearer(tree, &node, parent)? };
    }
    Ok(Some(node))
}

/// Whether `node` is `tip` or an ancestor of it.
pub(crate) fn is_on_path<T: Tree + ?Sized>(tree: &T, tip: Node, node: &Node) -> Result<bool> {
    Ok(node.depth <= tip.depth && ancestor_at(tree, tip, node.depth)?.at == node.at)
}

/// Entries of the path from `start` to its root, as `scan` says.
pub(crate) fn scan<T: Tree + ?Sized>(
    tree: &T,
    start: &str,
    scan: &BranchScan,
    ctx: &Context,
) -> Result<Vec<T::Row>> {
    let tip = tree.find(start)?.ok_or_else(|| {
        Error::new(ErrorKind::UnknownEntry, format!("no entry '{start}' to start the scan at")).with_id(start)
    })?;
    let stop = match &scan.stop_at_id {
        Some(id) => match tree.find(id)? {
            Some(node) if is_on_path(tree, tip, &node)? => Some(node),
            _ => None,
        },
        None => None,
    };
    if scan.limit == Some(0) {
        return Ok(Vec::new());
    }
    match scan.order {
        PathOrder::NewestFirst => newest_first(tree, tip, stop, scan, ctx),
        PathOrder::OldestFirst => oldest_first(tree, tip, stop, scan, ctx),
    }
}

impl BranchScan {
    fn passes(&self, node: &Node, custom_type: Option<&str>) -> bool {
        self.entry_type.is_none_or(|wanted| wanted == node.entry_type)
            && self.custom_type.as_deref().is_none_or(|wanted| Some(wanted) == custom_type)
    }
}

fn newest_first<T: Tree + ?Sized>(
    tree: &T,
    tip: Node,
    stop: Option<Node>,
    scan: &BranchScan,
    ctx: &Context,
) -> Result<Vec<T::Row>> {
    let mut from = tip;
    if let Some(cursor) = scan.cursor.filter(|cursor| tip.seq >= *cursor) {
        if stop.is_some_and(|stop| stop.seq >= cursor) || stops_by_type_above(tree, tip, cursor, scan, ctx)? {
            return Ok(Vec::new());
        }
        match newest_below(tree, tip, cursor)? {
            Some(node) => from = node,
            None => return Ok(Vec::new()),
        }
    }
    let limit = scan.limit.unwrap_or(u64::MAX);
    let mut rows = Vec::new();
    let mut walked = 0;
    tree.climb(from.at, &mut |step| {
        check_now_and_then(&mut walked, ctx)?;
        if scan.passes(&step.node, step.custom_type) {
            rows.push((step.load)()?);
        }
        let stopped = stop.is_some_and(|stop| stop.at == step.node.at)
            || scan.stop_at_type == Some(step.node.entry_type);
        Ok(if stopped || rows.len() as u64 >= limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    Ok(rows)
}

/// Whether an entry of the stop type stands on the path at or above `cursor`.
fn stops_by_type_above<T: Tree + ?Sized>(
    tree: &T,
    tip: Node,
    cursor: u64,
    scan: &BranchScan,
    ctx: &Context,
) -> Result<bool> {
    let Some(stop_type) = scan.stop_at_type else { return Ok(false) };
    let mut found = false;
    let mut walked = 0;
    tree.climb(tip.at, &mut |step| {
        check_now_and_then(&mut walked, ctx)?;
        if step.node.seq < cursor {
            return Ok(ControlFlow::Break(()));
        }
        found = step.node.entry_type == stop_type;
        Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

fn oldest_first<T: Tree + ?Sized>(
    tree: &T,
    tip: Node,
    stop: Option<Node>,
    scan: &BranchScan,
    ctx: &Context,
) -> Result<Vec<T::Row>> {
    let last = stop.map_or(tip.depth, |stop| stop.depth);
    let cursor = scan.cursor;
    let past = |node: &Node| cursor.is_none_or(|cursor| node.seq > cursor);
    let mut first = 0;
    // With a stop type the walk must begin at the root: the stop may lie before the cursor.
    if let Some(cursor) = cursor.filter(|_| scan.stop_at_type.is_none())
        && let Some(before) = newest_below(tree, tip, cursor.saturating_add(1))?
    {
        first = before.depth.checked_add(1).ok_or_else(|| tree.damaged(&before))?;
    }
    let limit = scan.limit.unwrap_or(u64::MAX);
    let mut rows: Vec<T::Row> = Vec::new();
    while first <= last {
        ctx.check()?;
        let wanted = u32::try_from(limit - rows.len() as u64).unwrap_or(CHUNK).clamp(16, CHUNK);
        let top = ancestor_at(tree, tip, last.min(first.saturating_add(wanted - 1)))?;
        let more = top.depth.checked_sub(first).ok_or_else(|| tree.damaged(&top))?;
        let mut chunk: Vec<(Node, Option<T::Row>)> = Vec::with_capacity(more as usize + 1);
        tree.climb(top.at, &mut |step| {
            let row = if scan.passes(&step.node, step.custom_type) && past(&step.node) {
                Some((step.load)()?)
            } else {
                None
            };
            chunk.push((step.node, row));
            Ok(if step.node.depth == first { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        for (node, row) in chunk.into_iter().rev() {
            rows.extend(row);
            if scan.stop_at_type == Some(node.entry_type) || rows.len() as u64 >= limit {
                return Ok(rows);
            }
        }
        first = top.depth.checked_add(1).ok_or_else(|| tree.damaged(&top))?;
    }
    Ok(rows)
}

fn check_now_and_then(walked: &mut u32, ctx: &Context) -> Result<()> {
    *walked = walked.wrapping_add(1);
    if walked.is_multiple_of(CHUNK) { ctx.check() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A tree that counts the nodes it is asked for and walked over.
    #[derive(Default)]
    struct Counting {
        nodes: Vec<Node>,
        count: Cell<u64>,
    }

    impl Counting {
        fn push(&mut self, parent: Option<u64>) -> u64 {
            let at = self.nodes.len() as u64;
            let (jump, depth) = match parent.map(|parent| self.nodes[parent as usize]) {
                Some(parent) => (jump_of_child(self, &parent).unwrap(), parent.depth + 1),
                None => (at, 0),
            };
            let entry_type = if at.is_multiple_of(1000) { EntryType::Compaction } else { EntryType::Message };
            self.nodes.push(Node { at, seq: at + 1, parent, jump, depth, entry_type });
            at
        }

        fn chain(length: u64) -> Self {
            let mut tree = Self::default();
            (0..length).for_each(|at| {
                tree.push(at.checked_sub(1));
            });
            tree
        }

        /// What `work` gives, and how many nodes it took.
        fn counted<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> (T, u64) {
            self.count.set(0);
            (work(self).unwrap(), self.count.get())
        }
    }

    impl Tree for Counting {
        type Row = u64;

        fn find(&self, id: &str) -> Result<Option<Node>> {
            Ok(id.parse::<usize>().ok().and_then(|at| self.nodes.get(at)).copied())
        }

        fn node(&self, at: u64) -> Result<Node> {
            self.count.set(self.count.get() + 1);
            Ok(self.nodes[at as usize])
        }

        fn climb(&self, from: u64, visit: &mut Visit<'_, u64>) -> Result<()> {
            let mut at = Some(from);
            while let Some(next) = at {
                let node = self.node(next)?;
                if visit(Step { node, custom_type: None, load: &mut || Ok(next) })? == ControlFlow::Break(())
                {
                    break;
                }
                at = node.parent;
            }
            Ok(())
        }
    }

    const LENGTH: u64 = 200_000;
    /// Jumps to any ancestor take at most about three times the logarithm, two lookups each.
    const JUMPS: u64 = 6 * 18;

    #[test]
    fn an_ancestor_is_found_in_logarithmic_time() {
        let tree = Counting::chain(LENGTH);
        let tip = tree.nodes[LENGTH as usize - 1];
        for at in (0..LENGTH).step_by(777).chain([1, 2, LENGTH - 2, LENGTH - 1]) {
            let (found, count) = tree.counted(|tree| ancestor_at(tree, tip, at as u32));
            assert_eq!(found.at, at);
            assert!(count <= JUMPS, "{count} nodes to depth {at}");
            let (found, count) = tree.counted(|tree| newest_below(tree, tip, at + 2));
            assert_eq!(found.map(|node| node.at), Some(at));
            assert!(count <= JUMPS, "{count} nodes to seq {}", at + 2);
        }
        assert_eq!(newest_below(&tree, tip, 1).unwrap(), None);
    }

    #[test]
    fn building_a_chain_takes_a_few_nodes_for_each_entry() {
        let tree = Counting::chain(LENGTH);
        assert!(tree.count.get() <= 2 * LENGTH);
    }

    #[test]
    fn a_page_costs_what_it_returns() {
        let mut tree = Counting::chain(LENGTH);
        let mut side = 1234;
        for _ in 0..10 {
            side = tree.push(Some(side));
        }
        let side = side.to_string();
        let tip = (LENGTH - 1).to_string();
        for order in [PathOrder::NewestFirst, PathOrder::OldestFirst] {
            for cursor in [None, Some(2), Some(1000), Some(LENGTH / 2), Some(LENGTH - 2)] {
                for start in [&tip, &side] {
                    let page = BranchScan { order, cursor, limit: Some(50), ..BranchScan::default() };
                    let (rows, count) = tree.counted(|tree| scan(tree, start, &page, &Context::background()));
                    assert!(rows.len() <= 50);
                    // From the root a page is walked in chunks, the last of which may be longer than it.
                    assert!(count <= 2 * 50 + 3 * JUMPS, "{count} nodes for {page:?} from {start}");
                }
            }
        }
    }

    #[test]
    fn whole_paths_and_stops_cost_what_they_return() {
        let tree = Counting::chain(LENGTH);
        let tip = (LENGTH - 1).to_string();
        for order in [PathOrder::NewestFirst, PathOrder::OldestFirst] {
            for stop in [None, Some(10), Some(LENGTH / 2), Some(LENGTH - 10)] {
                let scan_all = BranchScan {
                    order,
                    stop_at_id: stop.map(|at: u64| at.to_string()),
                    ..BranchScan::default()
                };
                let (rows, count) = tree.counted(|tree| scan(tree, &tip, &scan_all, &Context::background()));
                let chunks = rows.len() as u64 / u64::from(CHUNK) + 3;
                assert!(count <= rows.len() as u64 + chunks * JUMPS, "{count} nodes for {scan_all:?}");
            }
        }
        let stop = BranchScan { stop_at_type: Some(EntryType::Compaction), ..BranchScan::default() };
        let (rows, count) = tree.counted(|tree| scan(tree, &tip, &stop, &Context::background()));
        assert_eq!((rows.len(), count), (1000, 1000));
    }
}
