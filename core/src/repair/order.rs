//! Which `seq` each piece has: its own wherever that can be, for what stands out of order the place where it
//! was written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::repair::found::{Piece, What};
use crate::session::check::{Finding, FindingKind};
use crate::storage::commit::MAX_SEQ;

/// Puts the pieces, which come in the order in which they were written, in the order of their `seq`s; what
/// stands there twice is dropped. Those that have no place any more are named and dropped, but for entries and
/// usage rows, which get one behind all others.
pub(crate) fn settle<P>(pieces: Vec<Piece<P>>, findings: &mut Vec<Finding>) -> Vec<Piece<P>> {
    let pieces = without_copies(pieces, findings);
    let is_possible = |piece: &Piece<P>| (1..=MAX_SEQ).contains(&piece.seq);
    if pieces.is_sorted_by(|one, next| one.seq < next.seq) && pieces.iter().all(is_possible) {
        return pieces;
    }
    let mut in_order = in_order(&pieces);
    for (kept, piece) in in_order.iter_mut().zip(&pieces) {
        *kept &= is_possible(piece);
    }
    let placed = place(&pieces, &in_order, findings);
    let mut settled: Vec<(u64, Piece<P>)> =
        pieces.into_iter().zip(placed).filter_map(|(piece, seq)| Some((seq?, piece))).collect();
    settled.sort_by_key(|(seq, _)| *seq);
    let with_seq = |(seq, piece): (u64, Piece<P>)| {
        let what = match piece.what {
            What::Entry(mut entry) => {
                entry.seq = seq;
                What::Entry(entry)
            }
            other => other,
        };
        Piece { seq, what, ..piece }
    };
    settled.into_iter().map(with_seq).collect()
}

fn without_copies<P>(pieces: Vec<Piece<P>>, findings: &mut Vec<Finding>) -> Vec<Piece<P>> {
    let mut seen = HashSet::new();
    let mut lines = BTreeMap::new();
    let kept = pieces
        .into_iter()
        .filter(|piece| {
            let is_new = seen.insert((piece.seq, piece.hash));
            if !is_new && let Some((line, offset)) = piece.place {
                *lines.entry((line, offset)).or_insert(0) += 1;
            }
            is_new
        })
        .collect();
    findings.extend(lines.into_iter().map(|((line, offset), count)| {
        let message = format!("{count} of what the line holds stands in the file before, and is kept once");
        Finding::of_file(FindingKind::Copy, message).at_line(line, offset)
    }));
    kept
}

/// Which pieces keep their `seq`: as many as can, so that there is room between them for all others.
///
/// Room for `n` pieces between two that are kept means that `seq - number` does not fall from one to the
/// other: the longest subsequence that never falls (M. L. Fredman, 1975).
fn in_order<P>(pieces: &[Piece<P>]) -> Vec<bool> {
    let height = |at: usize| pieces[at].seq.min(MAX_SEQ).cast_signed() - at as i64;
    // The last piece of the best subsequence of each length, and the piece before each.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = Vec::with_capacity(pieces.len());
    for at in 0..pieces.len() {
        let length = ends.partition_point(|end| height(*end) <= height(at));
        before.push(length.checked_sub(1).map(|last| ends[last]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut kept = vec![false; pieces.len()];
    let mut at = ends.last().copied();
    while let Some(piece) = at {
        kept[piece] = true;
        at = before[piece];
    }
    kept
}

/// The `seq` of each piece; none for what is dropped.
fn place<P>(pieces: &[Piece<P>], in_order: &[bool], findings: &mut Vec<Finding>) -> Vec<Option<u64>> {
    let mut placed: Vec<Option<u64>> =
        pieces.iter().zip(in_order).map(|(piece, kept)| kept.then_some(piece.seq)).collect();
    let mut taken: BTreeSet<u64> = placed.iter().flatten().copied().collect();
    let out_of_order: Vec<usize> = (0..pieces.len()).filter(|at| !in_order[*at]).collect();
    let highest = taken.last().copied().unwrap_or(0);
    let end = highest.saturating_add(out_of_order.len() as u64).min(MAX_SEQ);
    let tree = Tree::of(pieces, &placed);
    // First whatever can keep its own, which nothing else may take then.
    let keeps_own = |piece: &Piece<P>, taken: &BTreeSet<u64>| {
        // A value far behind all others would win over those that were written after it.
        let is_near = piece.what.id().is_some() || piece.seq <= end;
        (1..=MAX_SEQ).contains(&piece.seq)
            && is_near
            && !taken.contains(&piece.seq)
            && tree.allows(&piece.what, piece.seq)
    };
    let (keeping, moving): (Vec<usize>, Vec<usize>) = out_of_order.into_iter().partition(|at| {
        let keeps = keeps_own(&pieces[*at], &taken);
        if keeps {
            taken.insert(pieces[*at].seq);
        }
        keeps
    });
    for at in keeping {
        placed[at] = Some(pieces[at].seq);
        findings.push(moved(&pieces[at], placed[at]));
    }
    // What is moved comes in order: behind it stand only pieces that are placed by now.
    let mut followed_by = vec![end + 1; placed.len() + 1];
    for at in (0..placed.len()).rev() {
        followed_by[at] = placed[at].unwrap_or(followed_by[at + 1]);
    }
    let (mut after, mut passed) = (0, 0);
    for at in moving {
        let piece = &pieces[at];
        after = placed[passed..at].iter().rev().flatten().next().copied().unwrap_or(after);
        passed = at;
        let until = followed_by[at + 1];
        let free = (after + 1..until.max(after + 1)).find(|seq| !taken.contains(seq));
        let seq = free.or_else(|| piece.what.id().and_then(|_| taken.last()?.checked_add(1)));
        placed[at] = seq.filter(|seq| *seq <= MAX_SEQ);
        findings.push(moved(piece, placed[at]));
        taken.extend(placed[at]);
    }
    placed
}

fn moved<P>(piece: &Piece<P>, now: Option<u64>) -> Finding {
    let what = piece.what.name();
    let message = match now {
        Some(now) if now == piece.seq => {
            format!("{what} stands out of order; it is put back to its seq, {now}")
        }
        Some(now) => format!("{what} has the seq {}, out of order; it gets {now}", piece.seq),
        None => format!("{what} has the seq {}, out of order, and is left out", piece.seq),
    };
    let finding = Finding {
        id: piece.what.id().map(str::to_owned),
        ..Finding::of_file(FindingKind::WrongSeq, message)
    };
    match piece.place {
        Some((line, offset)) => finding.at_line(line, offset),
        None => finding,
    }
}

/// The entries that kept their `seq`: what hangs on them comes behind them.
struct Tree<'a> {
    seqs: HashMap<&'a str, u64>,
    first_child: HashMap<&'a str, u64>,
}

impl<'a> Tree<'a> {
    fn of<P>(pieces: &'a [Piece<P>], placed: &[Option<u64>]) -> Self {
        let mut tree = Self { seqs: HashMap::new(), first_child: HashMap::new() };
        for (piece, seq) in pieces.iter().zip(placed) {
            let (What::Entry(entry), Some(seq)) = (&piece.what, seq) else { continue };
            tree.seqs.entry(&entry.id).or_insert(*seq);
            if let Some(parent) = &entry.parent_id {
                tree.first_child.entry(parent).or_insert(*seq);
            }
        }
        tree
    }

    /// Whether an entry may have that `seq`.
    fn allows(&self, what: &What, seq: u64) -> bool {
        let What::Entry(entry) = what else { return true };
        let parent = entry.parent_id.as_deref().and_then(|parent| self.seqs.get(parent));
        let child = self.first_child.get(entry.id.as_str());
        parent.is_none_or(|parent| *parent < seq) && child.is_none_or(|child| seq < *child)
    }
}
