//! A forward cursor over the groups and chunks of a text.

use std::ops::Range;
use std::sync::Arc;

use super::SharedText;
use super::chunks::{Chunk, Group};

/// A place in a text that only moves forward.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    text: &'a SharedText,
    /// Current group, and its start.
    group: usize,
    group_start: usize,
    /// Current chunk of the group, and its start.
    chunk: usize,
    start: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning.
    #[must_use]
    pub const fn new(text: &'a SharedText) -> Self {
        Self { text, group: 0, group_start: 0, chunk: 0, start: 0 }
    }

    /// The group that begins exactly at `position`.
    pub(super) fn group_at(&mut self, position: usize) -> Option<&'a Arc<Group>> {
        self.group_of(position).filter(|_| self.group_start == position)
    }

    fn group_of(&mut self, position: usize) -> Option<&'a Arc<Group>> {
        while let Some(group) = self.text.groups.get(self.group) {
            let end = self.group_start + group.len();
            if position < end {
                return Some(group);
            }
            self.group += 1;
            (self.group_start, self.chunk, self.start) = (end, 0, end);
        }
        None
    }

    /// The chunk with the byte at `position`, and the offset in it; `None` at the end of the text.
    pub(super) fn chunk_of(&mut self, position: usize) -> Option<(&'a Chunk, usize)> {
        let group = self.group_of(position)?;
        loop {
            let chunk = &group.chunks()[self.chunk];
            if position < self.start + chunk.len() {
                return Some((chunk, position - self.start));
            }
            self.start += chunk.len();
            self.chunk += 1;
        }
    }

    /// The chunk before the one asked for last.
    fn chunk_before(&self) -> Option<&'a Chunk> {
        let Some(before) = self.chunk.checked_sub(1) else {
            return self.text.groups[..self.group].last().map(|group| group.last());
        };
        self.text.groups[self.group].chunks().get(before)
    }

    /// Whether a line begins at `position`. At the end of the text: whether the last line is
    /// complete.
    pub fn is_line_start(&mut self, position: usize) -> bool {
        match self.chunk_of(position) {
            Some((_, 0)) => true,
            Some((chunk, from)) => chunk.bytes()[from - 1] == b'\n',
            None => self.chunk_before().is_none_or(|last| last.bytes().ends_with(b"\n")),
        }
    }

    /// The rest of a chunk from `position` on, the start of a line. Empty at the end.
    pub fn from(&mut self, position: usize) -> &'a [u8] {
        self.chunk_of(position).map_or(&[], |(chunk, from)| &chunk.bytes()[from..])
    }

    /// The line before `position`, the start of a line; `None` at the beginning.
    pub fn line_before(&mut self, position: usize) -> Option<&'a [u8]> {
        let before = match self.chunk_of(position) {
            Some((chunk, from)) if from > 0 => &chunk.bytes()[..from],
            _ => self.chunk_before()?.bytes(),
        };
        let end = before.len() - 1;
        let start = memchr::memrchr(b'\n', &before[..end]).map_or(0, |at| at + 1);
        Some(&before[start..])
    }

    /// The bytes at `range`, in pieces of whole lines if the range has whole lines.
    pub fn pieces(&mut self, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> {
        let mut start = range.start;
        std::iter::from_fn(move || {
            let piece = if start < range.end { self.from(start) } else { return None };
            let piece = &piece[..piece.len().min(range.end - start)];
            start += piece.len();
            (!piece.is_empty()).then_some(piece)
        })
    }
}
