//! Differences of two manifest texts, from the stored delta or by comparison.
//!
//! Checks the lines that it reads: each new line is well-formed, and its path is between the paths
//! of its neighbours. Lines that both texts have were checked when they were new, and are taken to
//! be in order.

use revlog::manifest::MalformedManifest;
use revlog::{Cursor, Delta, Flag, Line, Lines, SharedText};

use super::changes::{Changes, ManifestChange, Unusable};

/// Hexadecimal digits of a node.
const NODE_DIGITS: usize = 40;

/// Returns whether each hunk replaces whole lines by whole lines.
pub(super) fn is_aligned(base: &SharedText, delta: &Delta<'_>) -> bool {
    let mut cursor = Cursor::new(base);
    delta.hunks().all(|hunk| {
        cursor.is_line_start(hunk.start)
            && cursor.is_line_start(hunk.end)
            && hunk.data.last().is_none_or(|&last| last == b'\n')
    })
}

/// Adds the changes of a delta that [`is_aligned`].
pub(super) fn of_delta(
    base: &SharedText,
    delta: &Delta<'_>,
    changes: &mut Changes,
) -> Result<(), Unusable> {
    // one hunk may remove a path and the next add it: all hunks are merged as one run of lines
    let mut gone = Vec::new();
    let mut new = Vec::new();
    let mut cursor = Cursor::new(base);
    let mut order = Order::default();
    let mut kept_from = 0;
    for hunk in delta.hunks() {
        if hunk.start > kept_from {
            order.next(path_of(cursor.from(kept_from)))?;
            order.last = cursor.line_before(hunk.start).map(path_of);
        }
        gone.extend(cursor.pieces(hunk.start..hunk.end).flat_map(raw_lines));
        for line in raw_lines(hunk.data) {
            order.next(path_of(line))?;
            new.push(line);
        }
        kept_from = hunk.end;
    }
    if kept_from < base.len() {
        order.next(path_of(cursor.from(kept_from)))?;
    }
    merge(gone.into_iter(), new.into_iter(), changes)
}

/// Adds the changes from one text to another. Shared parts are not read.
pub(super) fn between(
    base: &SharedText,
    text: &SharedText,
    changes: &mut Changes,
) -> Result<(), Unusable> {
    let (mut base_cursor, mut cursor) = (Cursor::new(base), Cursor::new(text));
    for (gone, new) in base.unshared(text) {
        let mut order = Order { last: cursor.line_before(new.start).map(path_of) };
        let (start, end) = (new.start, new.end);
        for line in cursor.clone().pieces(start..end).flat_map(raw_lines) {
            order.next(path_of(line))?;
        }
        let gone = base_cursor.pieces(gone).flat_map(raw_lines);
        merge(gone, cursor.pieces(new).flat_map(raw_lines), changes)?;
        if end < text.len() {
            order.next(path_of(cursor.from(end)))?;
        }
    }
    Ok(())
}

/// Paths that have to ascend.
#[derive(Default)]
struct Order<'a> {
    last: Option<&'a [u8]>,
}

impl<'a> Order<'a> {
    fn next(&mut self, path: &'a [u8]) -> Result<(), Unusable> {
        if self.last.is_some_and(|last| path <= last) {
            return Err(Unusable::Order(revlog::readable(path)));
        }
        self.last = Some(path);
        Ok(())
    }
}

/// Splits bytes into lines, well-formed or not. The last one may be cut.
fn raw_lines(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // the path comes first and may not have a line feed, which the parser of the line checks
        let digits = memchr::memchr(0, rest).map_or(rest.len(), |at| at + 1);
        let flag = rest.len().min(digits + NODE_DIGITS);
        let end = memchr::memchr(b'\n', &rest[flag..]).map_or(rest.len(), |at| flag + at + 1);
        let (line, after) = rest.split_at(end);
        rest = after;
        Some(line)
    })
}

/// The path of the first line of `lines`.
fn path_of(lines: &[u8]) -> &[u8] {
    &lines[..memchr::memchr(0, lines).unwrap_or(lines.len())]
}

fn parsed(line: &[u8]) -> Result<Line<'_>, MalformedManifest> {
    Lines::new(line).next().unwrap_or(Err(MalformedManifest::Cut))
}

/// Adds the changes from the lines `gone` to the lines `new`, both ascending by path.
fn merge<'a>(
    gone: impl Iterator<Item = &'a [u8]>,
    new: impl Iterator<Item = &'a [u8]>,
    changes: &mut Changes,
) -> Result<(), Unusable> {
    let mut gone = gone.peekable();
    for line in new {
        if gone.next_if_eq(&line).is_some() {
            continue; // most lines of two long texts
        }
        let path = path_of(line);
        let mut replaced = None;
        while let Some(old) = gone.next_if(|old| path_of(old) <= path) {
            if path_of(old) < path {
                changes.push(ManifestChange::Remove(path_of(old)))?;
            } else {
                replaced = Some(old);
            }
        }
        if replaced == Some(line) {
            continue;
        }
        let line = parsed(line)?;
        let flag = replaced.map(parsed).transpose()?.map_or(Flag::Regular, |old| old.flag);
        changes.has_new_flags |= line.flag != flag;
        changes.push(ManifestChange::Set(line))?;
    }
    for old in gone {
        changes.push(ManifestChange::Remove(path_of(old)))?;
    }
    Ok(())
}
