//! Where the lines of a tree stand: in which order, how far indented.
//!
//! A run of entries with one child each stays on its level, however long it is. Where a run diverges, one
//! child goes on with it and the others stand before that one, a level deeper. The child that goes on is the
//! one that leads to the tip of `main`, else the one with the most entries below it: so the depth follows
//! the logarithm of the number of entries. Nothing recurses.

use std::collections::HashMap;

/// Where the line of an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Which entry it is.
    pub(super) index: usize,
    /// How many levels it is indented.
    pub(super) depth: usize,
    /// Whether it is the first one of a branch that was left.
    pub(super) begins: bool,
}

/// The tree of entries.
pub(super) struct Layout {
    roots: Vec<usize>,
    children: Vec<Vec<usize>>,
    /// How many entries stand below and at each.
    weights: Vec<usize>,
    on_main: Vec<bool>,
}

impl Layout {
    /// The tree of entries given as id and parent's id, parents before children. An entry whose parent is
    /// not there stands as a root.
    pub(super) fn of<'a>(
        entries: impl Iterator<Item = (&'a str, Option<&'a str>)>,
        main_tip: Option<&str>,
    ) -> Self {
        let mut indices = HashMap::new();
        let mut parents: Vec<Option<usize>> = Vec::new();
        for (index, (id, parent)) in entries.enumerate() {
            parents.push(parent.and_then(|parent| indices.get(parent).copied()));
            indices.insert(id, index);
        }
        let mut layout = Self {
            roots: Vec::new(),
            children: vec![Vec::new(); parents.len()],
            weights: vec![1; parents.len()],
            on_main: vec![false; parents.len()],
        };
        for (index, parent) in parents.iter().enumerate() {
            match parent {
                Some(parent) => layout.children[*parent].push(index),
                None => layout.roots.push(index),
            }
        }
        for (index, parent) in parents.iter().enumerate().rev() {
            if let Some(parent) = parent {
                layout.weights[*parent] += layout.weights[index];
            }
        }
        let mut at = main_tip.and_then(|tip| indices.get(tip).copied());
        while let Some(index) = at {
            layout.on_main[index] = true;
            at = parents[index];
        }
        layout
    }

    /// The lines, from the first to the last.
    pub(super) fn places(&self) -> Places<'_> {
        let roots = self.roots.iter().rev();
        Places {
            layout: self,
            waiting: roots.map(|&index| Place { index, depth: 0, begins: false }).collect(),
        }
    }

    /// The child that goes on with the run of `index`.
    fn next_in_run(&self, index: usize) -> Option<usize> {
        self.children[index].iter().copied().max_by_key(|&child| (self.on_main[child], self.weights[child]))
    }
}

/// See [`Layout::places`].
pub(super) struct Places<'a> {
    layout: &'a Layout,
    /// What is still to come, the next one last.
    waiting: Vec<Place>,
}

impl Iterator for Places<'_> {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        let place = self.waiting.pop()?;
        if let Some(next) = self.layout.next_in_run(place.index) {
            self.waiting.push(Place { index: next, depth: place.depth, begins: false });
            let others = self.layout.children[place.index].iter().rev().filter(|&&child| child != next);
            self.waiting.extend(others.map(|&index| Place { index, depth: place.depth + 1, begins: true }));
        }
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(entries: &[(&str, Option<&str>)], main_tip: Option<&str>) -> Vec<String> {
        let layout = Layout::of(entries.iter().copied(), main_tip);
        let line = |place: Place| {
            let begins = if place.begins { "+" } else { "" };
            format!("{}{begins}{}", " ".repeat(place.depth), entries[place.index].0)
        };
        layout.places().map(line).collect()
    }

    #[test]
    fn branches_that_were_left_stand_indented_before_the_run_that_goes_on() {
        let entries = [
            ("a", None),
            ("b", Some("a")),
            ("c", Some("b")),
            ("d", Some("a")),
            ("e", Some("c")),
            ("f", Some("c")),
            ("g", Some("f")),
            ("r", None),
        ];
        assert_eq!(drawn(&entries, None), ["a", " +d", "b", "c", " +e", "f", "g", "r"]);
        assert_eq!(drawn(&entries, Some("d")), ["a", " +b", " c", "  +e", " f", " g", "d", "r"]);
    }

    #[test]
    fn an_entry_without_its_parent_stands_as_a_root() {
        assert_eq!(drawn(&[("a", None), ("b", Some("gone")), ("c", Some("b"))], None), ["a", "b", "c"]);
        assert!(drawn(&[], None).is_empty());
    }

    #[test]
    fn depth_stays_small_where_every_entry_diverges() {
        let ids: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
        let parent = |index: usize| (index > 0).then(|| ids[(index - 1) / 2].as_str());
        let layout = Layout::of((0..ids.len()).map(|index| (ids[index].as_str(), parent(index))), None);
        assert_eq!(layout.places().count(), ids.len());
        assert!(layout.places().all(|place| place.depth <= 15));
    }
}
