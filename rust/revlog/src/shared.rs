//! A text in chunks, which shares most chunks with the text that it was made from.
//!
//! A chunk begins and ends with whole lines, except that the last may end anywhere. Chunks are in
//! groups, which are shared, too. So a delta costs the chunks that it touches, a pointer for each
//! other chunk of their groups, and a pointer for each other group. Knows nothing of the content of
//! a line.

mod chunks;
mod cursor;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use parallel::Buffer;

pub use self::chunks::Tally;
use self::chunks::{Chunk, Group};
pub use self::cursor::Cursor;
use crate::patch::Delta;

/// Approximate length of a chunk, in bytes: half to twice as long, unless a line is longer or the
/// text ends.
const CHUNK_LEN: usize = 4 << 10;
/// Most new bytes that wait to become chunks, unless a line is longer.
const LONGEST_PENDING: usize = 32 * CHUNK_LEN;
/// Number of chunks in a group, about. A text with a single group may have fewer.
const LONGEST_GROUP: usize = 32;
const SHORTEST_GROUP: usize = 8;

/// A text in shared chunks.
#[derive(Clone, Debug, Default)]
pub struct SharedText {
    groups: Vec<Arc<Group>>,
    len: usize,
    /// Bytes outside buffers, shared or not.
    loose_bytes: usize,
    /// Bytes of the buffers that were taken when the text was made.
    made_bytes: usize,
}

impl SharedText {
    /// The text in `buffer`.
    #[must_use]
    pub fn new(buffer: Buffer, tally: &Tally) -> Self {
        let made_bytes = buffer.capacity();
        let buffer = Arc::new(buffer);
        let mut made = Made::new(tally);
        let mut start = 0;
        while start < buffer.len() {
            let end = start + first_len(&buffer[start..]);
            made.push(Chunk::part(&buffer, start..end));
            start = end;
        }
        Self { made_bytes, ..made.text() }
    }

    /// The text `bytes`, copied. All its memory counts in `tally`.
    #[must_use]
    pub fn copied(bytes: &[u8], tally: &Tally) -> Self {
        let mut made = Made::new(tally);
        made.add(bytes);
        made.text()
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the buffers that were taken when the text was made.
    #[must_use]
    pub const fn made_bytes(&self) -> usize {
        self.made_bytes
    }

    fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.groups.iter().flat_map(|group| group.chunks())
    }

    /// The text in pieces of whole lines.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.chunks().map(Chunk::bytes)
    }

    /// The last chunk that is not `later`, and its place in the text. Chunks that are later follow
    /// all others. If all are, the first chunk; `None` for the empty text.
    pub fn last_chunk(&self, later: impl Fn(&[u8]) -> bool) -> Option<(usize, &[u8])> {
        let is_later = |chunk: &Chunk| later(chunk.bytes());
        let group = self.groups.partition_point(|group| !is_later(&group.chunks()[0]));
        let group = group.saturating_sub(1);
        let chunks = self.groups.get(group)?.chunks();
        let chunk = chunks.partition_point(|chunk| !is_later(chunk)).saturating_sub(1);
        let before = self.groups[..group].iter().map(|group| group.len()).sum::<usize>();
        let start = before + chunks[..chunk].iter().map(Chunk::len).sum::<usize>();
        Some((start, chunks[chunk].bytes()))
    }

    /// Applies `delta` to this text.
    ///
    /// # Panics
    ///
    /// If the delta was not checked against the length of this text.
    #[must_use]
    pub fn apply(&self, delta: &Delta<'_>, tally: &Tally) -> Self {
        let mut made = Made::new(tally);
        made.text.groups.reserve(self.groups.len() + 4);
        let mut cursor = Cursor::new(self);
        let mut kept_from = 0;
        for hunk in delta.hunks() {
            made.keep(&mut cursor, kept_from..hunk.start);
            made.add(hunk.data);
            kept_from = hunk.end;
        }
        made.keep(&mut cursor, kept_from..self.len);
        made.text()
    }

    /// Moves the bytes outside buffers into one buffer, if they exceed `most_bytes`. If the buffers
    /// in use would take more than twice the text, moves all of the text.
    ///
    /// # Errors
    ///
    /// Errors of `room`, which returns an empty buffer of at least the requested size.
    pub fn gather<E>(
        &mut self,
        most_bytes: usize,
        tally: &Tally,
        room: impl FnOnce(usize) -> Result<Buffer, E>,
    ) -> Result<(), E>
    where
        E: From<parallel::Error>,
    {
        if self.loose_bytes <= most_bytes {
            return Ok(());
        }
        let mut held: Vec<_> = self.chunks().filter_map(Chunk::buffer).collect();
        held.sort_unstable_by_key(|buffer| Arc::as_ptr(buffer));
        held.dedup_by_key(|buffer| Arc::as_ptr(buffer));
        let held_bytes: usize = held.iter().map(|buffer| buffer.len()).sum();
        let is_all = held_bytes + self.loose_bytes > 2 * self.len;
        let moves = |chunk: &Chunk| is_all || chunk.buffer().is_none();
        let mut buffer = room(if is_all { self.len } else { self.loose_bytes })?;
        for chunk in self.chunks().filter(|chunk| moves(chunk)) {
            buffer.extend_from_slice(chunk.bytes())?;
        }
        let made_bytes = self.made_bytes + buffer.capacity();
        let buffer = Arc::new(buffer);
        let mut made = Made::new(tally);
        let mut start = 0;
        for chunk in self.chunks() {
            if moves(chunk) {
                let end = start + chunk.len();
                made.push(Chunk::part(&buffer, start..end));
                start = end;
            } else {
                made.push(chunk.clone());
            }
        }
        *self = Self { made_bytes, ..made.text() };
        Ok(())
    }

    /// The differences between this text and `other`: lines of this text and the lines of `other`
    /// that replace them, as ascending ranges of bytes. All bytes outside these ranges are shared
    /// memory.
    #[must_use]
    pub fn unshared(&self, other: &Self) -> Vec<(Range<usize>, Range<usize>)> {
        let ours: HashSet<_> = self.groups.iter().map(Arc::as_ptr).collect();
        let shared = other.groups.iter().map(Arc::as_ptr);
        let shared = shared.filter(|group| ours.contains(group)).collect();
        let mut places = HashMap::new();
        let mut start = 0;
        for (at, part) in self.parts(&shared).enumerate() {
            places.insert(part, (at, start));
            start += part.1;
        }
        let mut differing = Vec::new();
        let mut add = |ours: Range<usize>, theirs: Range<usize>| {
            if !ours.is_empty() || !theirs.is_empty() {
                differing.push((ours, theirs));
            }
        };
        // start of the next lines that may differ: part and bytes
        let (mut next, mut ours, mut theirs) = (0, 0, 0);
        let mut start = 0;
        for part in other.parts(&shared) {
            let len = part.1;
            if let Some(&(at, place)) = places.get(&part)
                && at >= next
            {
                add(ours..place, theirs..start);
                (next, ours, theirs) = (at + 1, place + len, start + len);
            }
            start += len;
        }
        add(ours..self.len, theirs..other.len);
        differing
    }

    /// Groups that are among `shared`, and the chunks of all other groups, each by address and
    /// length.
    fn parts(&self, shared: &HashSet<*const Group>) -> impl Iterator<Item = (*const u8, usize)> {
        self.groups.iter().flat_map(|group| {
            let is_shared = shared.contains(&Arc::as_ptr(group));
            let whole = is_shared.then(|| (Arc::as_ptr(group).cast(), group.len()));
            let chunks = if is_shared { &[] } else { group.chunks() };
            whole
                .into_iter()
                .chain(chunks.iter().map(|chunk| (chunk.bytes().as_ptr(), chunk.len())))
        })
    }
}

/// The length of the first chunk of `bytes`.
fn first_len(bytes: &[u8]) -> usize {
    if bytes.len() <= 2 * CHUNK_LEN {
        return bytes.len();
    }
    let line_end = memchr::memchr(b'\n', &bytes[CHUNK_LEN - 1..]);
    line_end.map_or(bytes.len(), |at| CHUNK_LEN + at)
}

/// A text in the making.
struct Made<'t> {
    tally: &'t Tally,
    text: SharedText,
    /// Chunks behind the last group.
    open: Vec<Chunk>,
    /// Bytes behind the last chunk.
    pending: Vec<u8>,
}

impl<'t> Made<'t> {
    fn new(tally: &'t Tally) -> Self {
        let (open, pending) = (Vec::with_capacity(2 * LONGEST_GROUP), Vec::new());
        Self { tally, text: SharedText::default(), open, pending }
    }

    /// Adds the bytes at `range` of another text, whose cursor is not beyond it.
    fn keep(&mut self, cursor: &mut Cursor<'_>, range: Range<usize>) {
        let mut start = range.start;
        while start < range.end {
            let left = range.end - start;
            if let Some(group) = cursor.group_at(start).filter(|group| group.len() <= left) {
                self.share_group(group);
                start += group.len();
                continue;
            }
            let (chunk, from) = cursor.chunk_of(start).expect("the range is in the text");
            let to = chunk.len().min(from + left);
            if to - from == chunk.len() {
                self.share(chunk);
            } else {
                self.add(&chunk.bytes()[from..to]);
            }
            start += to - from;
        }
    }

    fn share_group(&mut self, group: &Arc<Group>) {
        self.cut_whole();
        let is_short = (1..SHORTEST_GROUP).contains(&self.open.len());
        if is_short || !self.pending.is_empty() {
            return group.chunks().iter().for_each(|chunk| self.share(chunk));
        }
        self.close();
        self.text.len += group.len();
        self.text.loose_bytes += group.loose_bytes();
        self.text.groups.push(Arc::clone(group));
    }

    fn share(&mut self, chunk: &Chunk) {
        self.cut_whole();
        if self.pending.is_empty() {
            self.push(chunk.clone());
        } else {
            self.add(chunk.bytes());
        }
    }

    /// Makes chunks of the pending bytes if they are whole lines and long enough.
    fn cut_whole(&mut self) {
        if self.pending.len() >= CHUNK_LEN / 2 && self.pending.last() == Some(&b'\n') {
            self.cut(self.pending.len());
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.pending.is_empty() {
            self.pending.reserve(2 * CHUNK_LEN);
            self.reopen();
        }
        for part in bytes.chunks(LONGEST_PENDING) {
            // of a longer line, the bytes searched already have no end
            let searched = self.pending.len();
            let searched = if searched < LONGEST_PENDING { 0 } else { searched };
            self.pending.extend_from_slice(part);
            if self.pending.len() >= LONGEST_PENDING {
                let line_end = memchr::memrchr(b'\n', &self.pending[searched..]);
                self.cut(line_end.map_or(0, |at| searched + at + 1));
            }
        }
    }

    /// Takes back the last chunk if it ends within a line, which may continue.
    fn reopen(&mut self) {
        let is_cut = |chunk: &Chunk| !chunk.bytes().ends_with(b"\n");
        if self.open.is_empty()
            && let Some(group) = self.text.groups.pop_if(|group| is_cut(group.last()))
        {
            self.open.extend_from_slice(group.chunks());
        }
        if let Some(last) = self.open.pop_if(|last| is_cut(last)) {
            self.text.len -= last.len();
            self.text.loose_bytes -= last.loose_bytes();
            self.pending.extend_from_slice(last.bytes());
        }
    }

    /// Makes chunks of the first `len` pending bytes.
    fn cut(&mut self, len: usize) {
        let mut pending = std::mem::take(&mut self.pending);
        let mut rest = &pending[..len];
        while !rest.is_empty() {
            let (first, after) = rest.split_at(first_len(rest));
            self.push(Chunk::loose(first, self.tally));
            rest = after;
        }
        pending.drain(..len);
        self.pending = pending;
    }

    fn push(&mut self, chunk: Chunk) {
        self.text.len += chunk.len();
        self.text.loose_bytes += chunk.loose_bytes();
        self.open.push(chunk);
        if self.open.len() >= 2 * LONGEST_GROUP {
            self.close();
        }
    }

    /// Makes groups of about equal length from the open chunks.
    fn close(&mut self) {
        let groups = self.open.len().div_ceil(LONGEST_GROUP);
        for groups in (1..=groups).rev() {
            let chunks = self.open.drain(..self.open.len().div_ceil(groups)).collect();
            self.text.groups.push(Arc::new(Group::new(chunks, self.tally)));
        }
    }

    fn text(mut self) -> SharedText {
        self.cut(self.pending.len());
        if (1..SHORTEST_GROUP).contains(&self.open.len())
            && let Some(last) = self.text.groups.pop()
        {
            self.open.splice(..0, last.chunks().iter().cloned());
        }
        self.close();
        self.text
    }
}

#[cfg(test)]
mod tests;
