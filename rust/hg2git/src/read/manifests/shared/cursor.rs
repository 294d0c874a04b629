//! A place in a text that moves forward.

use std::ops::Range;
use std::rc::Rc;

use super::SharedText;
use super::chunks::{Chunk, Group};

#[derive(Clone)]
pub(in super::super) struct Cursor<'a> {
    text: &'a SharedText,
    /// A group, and where it begins.
    group: usize,
    group_start: usize,
    /// A chunk of it, and where that begins.
    chunk: usize,
    start: usize,
}

impl<'a> Cursor<'a> {
    /// At the beginning.
    pub const fn new(text: &'a SharedText) -> Self {
        Self { text, group: 0, group_start: 0, chunk: 0, start: 0 }
    }

    /// The group that begins at `position`, if one does.
    pub(super) fn group_at(&mut self, position: usize) -> Option<&'a Rc<Group>> {
        self.group_of(position).filter(|_| self.group_start == position)
    }

    fn group_of(&mut self, position: usize) -> Option<&'a Rc<Group>> {
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

    /// The chunk with the byte at `position`, and where in it; `None` at the end of the text.
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

    /// The chunk before that which was asked for last.
    fn chunk_before(&self) -> Option<&'a Chunk> {
        let Some(before) = self.chunk.checked_sub(1) else {
            return self.text.groups[..self.group].last().map(|group| group.last());
        };
        self.text.groups[self.group].chunks().get(before)
    }

    /// Whether a line begins at `position`, or the text ends there and does not end within a line.
    pub fn is_line_start(&mut self, position: usize) -> bool {
        match self.chunk_of(position) {
            Some((_, 0)) => true,
            Some((chunk, from)) => chunk.bytes()[from - 1] == b'\n',
            None => self.chunk_before().is_none_or(|last| last.bytes().ends_with(b"\n")),
        }
    }

    /// The rest of a chunk from `position` on, which is where a line begins. Empty at the end.
    pub fn from(&mut self, position: usize) -> &'a [u8] {
        self.chunk_of(position).map_or(&[], |(chunk, from)| &chunk.bytes()[from..])
    }

    /// The line that ends before `position`, which is where a line begins; `None` if there is none.
    pub fn line_before(&mut self, position: usize) -> Option<&'a [u8]> {
        let before = match self.chunk_of(position) {
            Some((chunk, from)) if from > 0 => &chunk.bytes()[..from],
            _ => self.chunk_before()?.bytes(),
        };
        let end = before.len() - 1;
        let start = memchr::memrchr(b'\n', &before[..end]).map_or(0, |at| at + 1);
        Some(&before[start..])
    }

    /// What is at `range`, in pieces that end where lines do if the range does.
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
