//! Preparation of the comparison: lines get numbers, and lines without useful matches are
//! discarded.
//!
//! A port of git's `xdiff/xprepare.c`.
//! After `LibXDiff`, Copyright (C) 2003 Davide Libenzi, as git changed it; LGPL-2.1-or-later.

use std::ops::Range;

use hashbrown::HashMap;

use super::line_ends;

const KPDIS_RUN: usize = 4;
const MAX_EQLIMIT: usize = 1024;
const SIMSCAN_WINDOW: usize = 100;

/// A text, line by line.
#[derive(Debug)]
pub(super) struct File {
    /// Number of each line. Equal lines of both texts have equal numbers.
    pub lines: Vec<u32>,
    /// Whether each line is known to be changed.
    pub changed: Vec<bool>,
    /// The positions of the lines to compare, ascending.
    pub compared: Vec<usize>,
}

/// Two texts to compare.
#[derive(Debug)]
pub(super) struct Prepared {
    pub before: File,
    pub after: File,
}

/// The preliminary decision about a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    /// The other text does not have the line.
    Discard,
    Keep,
    /// The other text has the line very often, so a match means little.
    Investigate,
}

/// Numbers the lines, and discards lines that need not be compared.
pub(super) fn prepare(before: &[u8], after: &[u8]) -> Prepared {
    let mut numbers = HashMap::new();
    let (mut before, mut after) = (file(before, &mut numbers), file(after, &mut numbers));
    let distinct = numbers.len();
    let (old_range, new_range) = trim_ends(&before.lines, &after.lines);
    let old_counts = counts(&before.lines, distinct);
    let new_counts = counts(&after.lines, distinct);
    cleanup(&mut before, old_range, &new_counts);
    cleanup(&mut after, new_range, &old_counts);
    Prepared { before, after }
}

fn file<'t>(text: &'t [u8], numbers: &mut HashMap<&'t [u8], u32>) -> File {
    let mut start = 0;
    let mut lines = Vec::new();
    for end in line_ends(text) {
        // texts of 4 GB of lines are not converted
        let next = u32::try_from(numbers.len()).expect("fewer lines than that");
        lines.push(*numbers.entry(&text[start..end]).or_insert(next));
        start = end;
    }
    let changed = vec![false; lines.len()];
    File { lines, changed, compared: Vec::new() }
}

fn counts(lines: &[u32], distinct: usize) -> Vec<usize> {
    let mut counts = vec![0; distinct];
    for line in lines {
        counts[*line as usize] += 1;
    }
    counts
}

/// Ranges without the equal lines at both ends.
fn trim_ends(a: &[u32], b: &[u32]) -> (Range<usize>, Range<usize>) {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (rest_a, rest_b) = (a[start..].iter().rev(), b[start..].iter().rev());
    let end = rest_a.zip(rest_b).take_while(|(a, b)| a == b).count();
    (start..a.len() - end, start..b.len() - end)
}

/// Chooses the lines of `range` to compare, and marks the others as changed.
fn cleanup(file: &mut File, range: Range<usize>, other_counts: &[usize]) {
    let limit = bogosqrt(file.lines.len()).min(MAX_EQLIMIT);
    let action = |line: &u32| match other_counts[*line as usize] {
        0 => Action::Discard,
        count if count < limit => Action::Keep,
        _ => Action::Investigate,
    };
    let actions: Vec<Action> = file.lines[range.clone()].iter().map(action).collect();
    for (at, action) in actions.iter().enumerate() {
        let is_kept = match action {
            Action::Keep => true,
            Action::Discard => false,
            Action::Investigate => !is_among_discarded(&actions, at),
        };
        if is_kept {
            file.compared.push(range.start + at);
        } else {
            file.changed[range.start + at] = true;
        }
    }
}

/// Returns whether a line with many matches is surrounded by mostly discarded lines.
fn is_among_discarded(actions: &[Action], at: usize) -> bool {
    let start = at.saturating_sub(SIMSCAN_WINDOW);
    let end = actions.len().min(at + SIMSCAN_WINDOW + 1);
    let Some(before) = run(actions[start..at].iter().rev()) else { return false };
    let Some(after) = run(actions[at + 1..end].iter()) else { return false };
    let (discarded, many) = (before.0 + after.0, before.1 + after.1);
    many * KPDIS_RUN < many + discarded
}

/// Counts discarded lines, and lines with many matches, up to the first kept line.
///
/// The second number includes the line in the middle. `None` if no line is discarded.
fn run<'a>(actions: impl Iterator<Item = &'a Action>) -> Option<(usize, usize)> {
    let (mut discarded, mut many) = (0, 1);
    for action in actions {
        match action {
            Action::Discard => discarded += 1,
            Action::Investigate => many += 1,
            Action::Keep => break,
        }
    }
    (discarded > 0).then_some((discarded, many))
}

/// An approximate square root: the power of two above it.
pub(super) const fn bogosqrt(number: usize) -> usize {
    let (mut number, mut root) = (number, 1);
    while number > 0 {
        root <<= 1;
        number >>= 2;
    }
    root
}
