//! Line diffs equal to those of git's xdiff, and the patches that git-cinnabar makes of them.
//!
//! The `patch` line of a note has hunks that git-cinnabar gets from git's xdiff. So ids depend on
//! the exact diff, including its heuristics: `docs/decisions/linediff.rst`. `prepare`, `myers` and
//! `compact` are xdiff's three steps, with the names and the order of the C code, so that the two
//! can be read side by side. No flags are supported: the algorithm is the default one, without
//! context and without the indent heuristic.
//!
//! Knows nothing of changesets.

mod compact;
mod myers;
mod prepare;
#[cfg(test)]
mod tests;

use std::ops::Range;

use prepare::Prepared;

/// Length of the blocks in which equal ends are trimmed, `trim_common_tail()` of git.
const TAIL_BLOCK: usize = 1024;

/// A hunk of a line diff.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunk {
    /// Removed lines.
    before: Range<usize>,
    /// Added lines.
    after: Range<usize>,
}

/// The patch from `before` to `after`: hunks `START,END,DATA`, joined by NUL; `None` if both are
/// equal.
///
/// Start and end are offsets in `before`. Bytes of the data are written as `%XX`, except for ASCII
/// letters and digits.
pub(crate) fn patch(before: &[u8], after: &[u8]) -> Option<Vec<u8>> {
    if before == after {
        return None;
    }
    let (before_ends, after_ends) = (line_ends(before), line_ends(after));
    let mut patch = Vec::new();
    for hunk in hunks(before, after) {
        let (old, new) = (bytes_of(&before_ends, &hunk.before), bytes_of(&after_ends, &hunk.after));
        if !patch.is_empty() {
            patch.push(0);
        }
        push_hunk(&mut patch, before, old, &after[new]);
    }
    Some(patch)
}

/// Appends the hunk that replaces `old` by `new`, without common beginning and end.
fn push_hunk(patch: &mut Vec<u8>, before: &[u8], old: Range<usize>, new: &[u8]) {
    let old_bytes = &before[old.clone()];
    let prefix = old_bytes.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old_bytes[prefix..], &new[prefix..]);
    let suffix = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b);
    let suffix = suffix.count();
    patch.extend_from_slice(format!("{},{},", old.start + prefix, old.end - suffix).as_bytes());
    for byte in &new_rest[..new_rest.len() - suffix] {
        if byte.is_ascii_alphanumeric() {
            patch.push(*byte);
        } else {
            patch.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

/// The hunks from `before` to `after`, ascending.
fn hunks(before: &[u8], after: &[u8]) -> Vec<Hunk> {
    let (before, after) = trim_common_tail(before, after);
    let Prepared { mut before, mut after } = prepare::prepare(before, after);
    myers::compare(&mut before, &mut after);
    compact::compact(&mut before, &after);
    compact::compact(&mut after, &before);
    build_script(&before.changed, &after.changed)
}

/// Trims equal ends in blocks. A few equal lines may remain.
fn trim_common_tail<'a, 'b>(a: &'a [u8], b: &'b [u8]) -> (&'a [u8], &'b [u8]) {
    let blocks = a.rchunks_exact(TAIL_BLOCK).zip(b.rchunks_exact(TAIL_BLOCK));
    let trimmed = blocks.take_while(|(a, b)| a == b).count() * TAIL_BLOCK;
    let tail = &a[a.len() - trimmed..];
    let line = memchr::memchr(b'\n', tail).map_or(trimmed, |at| at + 1);
    let trimmed = trimmed - line;
    (&a[..a.len() - trimmed], &b[..b.len() - trimmed])
}

fn build_script(before: &[bool], after: &[bool]) -> Vec<Hunk> {
    let run = |changed: &[bool], from: usize| {
        from + changed[from..].iter().take_while(|changed| **changed).count()
    };
    let mut hunks = Vec::new();
    let (mut old, mut new) = (0, 0);
    while old < before.len() || new < after.len() {
        let (old_end, new_end) = (run(before, old), run(after, new));
        if (old, new) != (old_end, new_end) {
            hunks.push(Hunk { before: old..old_end, after: new..new_end });
        }
        (old, new) = (old_end + 1, new_end + 1); // the lines there are equal
    }
    hunks
}

/// Offsets of the ends of lines.
fn line_ends(text: &[u8]) -> Vec<usize> {
    let mut ends: Vec<usize> = memchr::memchr_iter(b'\n', text).map(|at| at + 1).collect();
    if ends.last().copied().unwrap_or(0) < text.len() {
        ends.push(text.len());
    }
    ends
}

fn bytes_of(ends: &[usize], lines: &Range<usize>) -> Range<usize> {
    let start = |line: usize| line.checked_sub(1).map_or(0, |before| ends[before]);
    start(lines.start)..start(lines.end)
}
