//! A text as chunks, most of which it shares with the text that it was made from.
//!
//! A chunk begins and ends with whole lines, except that the last may end anywhere. So a delta costs
//! the chunks that it touches and a pointer for each of the others. Knows nothing of what a line says.

use std::ops::Range;
use std::rc::Rc;

use revlog::{Buffer, Delta};

/// Length of a chunk, in bytes, about: half of it to twice of it, unless a line is longer or the text
/// ends.
const CHUNK_LEN: usize = 16 << 10;
/// New bytes that are not in chunks yet, at most, unless a line is longer.
const LONGEST_PENDING: usize = 8 * CHUNK_LEN;

/// Whole lines.
#[derive(Clone, Debug)]
enum Chunk {
    /// Bytes for themselves, which no budget counts.
    Loose(Rc<[u8]>),
    /// A part of a buffer, which counts itself.
    Part(Rc<Buffer>, Range<usize>),
}

impl Chunk {
    fn len(&self) -> usize {
        match self {
            Self::Loose(bytes) => bytes.len(),
            Self::Part(_, range) => range.len(),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Loose(bytes) => bytes,
            Self::Part(buffer, range) => &buffer[range.clone()],
        }
    }

    /// Whether both are the same memory.
    fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.bytes(), other.bytes())
    }
}

/// A text.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedText {
    chunks: Vec<Chunk>,
    len: usize,
    /// Bytes of it that no budget counts, whether others share them or not.
    loose_bytes: usize,
    /// Bytes of memory that were taken when it was made.
    made_bytes: usize,
}

impl From<Buffer> for SharedText {
    fn from(buffer: Buffer) -> Self {
        let buffer = Rc::new(buffer);
        let mut chunks = Vec::with_capacity(buffer.len() / CHUNK_LEN + 1);
        let mut start = 0;
        while start < buffer.len() {
            let end = start + first_len(&buffer[start..]);
            chunks.push(Chunk::Part(Rc::clone(&buffer), start..end));
            start = end;
        }
        let made_bytes = buffer.capacity() + chunks.capacity() * size_of::<Chunk>();
        Self { chunks, len: buffer.len(), loose_bytes: 0, made_bytes }
    }
}

impl SharedText {
    /// Length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that were taken when it was made.
    pub const fn made_bytes(&self) -> usize {
        self.made_bytes
    }

    /// Counts all of it as made: nobody else has what it shares.
    pub fn count_all(&mut self) {
        self.made_bytes = self.len + self.chunks.capacity() * size_of::<Chunk>();
    }

    /// The text in pieces of whole lines.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.chunks.iter().map(Chunk::bytes)
    }

    /// The text that `delta` makes of this one.
    ///
    /// # Panics
    ///
    /// If the delta was not checked against the length of this text.
    pub fn apply(&self, delta: &Delta<'_>) -> Self {
        let mut made = Made::like(self);
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

    /// Moves the bytes that no budget counts to a buffer, if they are more than `most_bytes`. If
    /// buffers with the text of former chunks would take more than the text does, all of it.
    ///
    /// # Errors
    ///
    /// Those of `room`, which gives an empty buffer for as many bytes as it is asked for.
    pub fn gather<E>(
        &mut self,
        most_bytes: usize,
        room: impl FnOnce(usize) -> Result<Buffer, E>,
    ) -> Result<(), E>
    where
        E: From<revlog::Error>,
    {
        if self.loose_bytes <= most_bytes {
            return Ok(());
        }
        let mut held: Vec<(*const Buffer, usize)> = Vec::new();
        for chunk in &self.chunks {
            if let Chunk::Part(buffer, _) = chunk {
                held.push((Rc::as_ptr(buffer), buffer.len()));
            }
        }
        held.sort_unstable();
        held.dedup();
        let held_bytes: usize = held.iter().map(|(_, len)| len).sum();
        let is_all = held_bytes + self.loose_bytes > 2 * self.len;
        let moves = |chunk: &Chunk| is_all || matches!(chunk, Chunk::Loose(_));
        let mut buffer = room(if is_all { self.len } else { self.loose_bytes })?;
        for chunk in self.chunks.iter().filter(|chunk| moves(chunk)) {
            buffer.extend_from_slice(chunk.bytes())?;
        }
        self.made_bytes += buffer.capacity();
        let buffer = Rc::new(buffer);
        let mut start = 0;
        for chunk in self.chunks.iter_mut().filter(|chunk| moves(chunk)) {
            let end = start + chunk.len();
            *chunk = Chunk::Part(Rc::clone(&buffer), start..end);
            start = end;
        }
        self.loose_bytes = 0;
        Ok(())
    }

    /// Where this text and `other` differ: lines of this one, and lines of the other which come in
    /// their place, as ranges of bytes, ascending. What is not in them is the same memory in both.
    pub fn unshared(&self, other: &Self) -> Vec<(Range<usize>, Range<usize>)> {
        let mut places = std::collections::HashMap::with_capacity(self.chunks.len());
        let mut start = 0;
        for (at, chunk) in self.chunks.iter().enumerate() {
            places.insert(chunk.bytes().as_ptr(), (at, start));
            start += chunk.len();
        }
        let mut differing = Vec::new();
        let mut add = |ours: Range<usize>, theirs: Range<usize>| {
            if !ours.is_empty() || !theirs.is_empty() {
                differing.push((ours, theirs));
            }
        };
        // where the next lines begin that are not known to be the same: chunk and bytes
        let (mut next, mut ours, mut theirs) = (0, 0, 0);
        let mut start = 0;
        for chunk in &other.chunks {
            if let Some(&(at, place)) = places.get(&chunk.bytes().as_ptr())
                && at >= next
                && self.chunks[at].is(chunk)
            {
                add(ours..place, theirs..start);
                (next, ours, theirs) = (at + 1, place + chunk.len(), start + chunk.len());
            }
            start += chunk.len();
        }
        add(ours..self.len, theirs..other.len);
        differing
    }
}

/// How long the first chunk of `bytes` is.
fn first_len(bytes: &[u8]) -> usize {
    if bytes.len() <= 2 * CHUNK_LEN {
        return bytes.len();
    }
    let line_end = memchr::memchr(b'\n', &bytes[CHUNK_LEN - 1..]);
    line_end.map_or(bytes.len(), |at| CHUNK_LEN + at)
}

/// A text that is being made.
struct Made {
    text: SharedText,
    /// What follows the chunks.
    pending: Vec<u8>,
}

impl Made {
    fn like(base: &SharedText) -> Self {
        let chunks = Vec::with_capacity(base.chunks.len() + 4);
        let made_bytes = chunks.capacity() * size_of::<Chunk>();
        let text = SharedText { chunks, len: 0, loose_bytes: 0, made_bytes };
        Self { text, pending: Vec::new() }
    }

    /// Adds what is at `range` of a text, which its cursor has not passed.
    fn keep(&mut self, cursor: &mut Cursor<'_>, range: Range<usize>) {
        let mut start = range.start;
        while start < range.end {
            let (chunk, from) = cursor.chunk_of(start).expect("the range is in the text");
            let to = chunk.len().min(from + range.end - start);
            if to - from == chunk.len() {
                self.share(chunk);
            } else {
                self.add(&chunk.bytes()[from..to]);
            }
            start += to - from;
        }
    }

    fn share(&mut self, chunk: &Chunk) {
        let is_long = self.pending.len() >= CHUNK_LEN / 2;
        let is_whole = is_long && self.pending.last() == Some(&b'\n');
        if is_whole {
            self.cut(self.pending.len());
        }
        if self.pending.is_empty() {
            self.push(chunk.clone());
        } else {
            self.add(chunk.bytes());
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.pending.is_empty() {
            self.reopen();
        }
        for part in bytes.chunks(LONGEST_PENDING) {
            // of a line that is longer, what was looked at has no end
            let searched = self.pending.len();
            let searched = if searched < LONGEST_PENDING { 0 } else { searched };
            self.pending.extend_from_slice(part);
            if self.pending.len() >= LONGEST_PENDING {
                let line_end = memchr::memrchr(b'\n', &self.pending[searched..]);
                self.cut(line_end.map_or(0, |at| searched + at + 1));
            }
        }
    }

    /// Takes back the last chunk if it ends within a line, which then may go on.
    fn reopen(&mut self) {
        if let Some(last) = self.text.chunks.pop_if(|last| !last.bytes().ends_with(b"\n")) {
            self.text.len -= last.len();
            if matches!(last, Chunk::Loose(_)) {
                self.text.loose_bytes -= last.len();
            }
            self.pending.extend_from_slice(last.bytes());
        }
    }

    /// Makes chunks of the first `len` bytes that are pending.
    fn cut(&mut self, len: usize) {
        let mut pending = std::mem::take(&mut self.pending);
        let mut rest = &pending[..len];
        while !rest.is_empty() {
            let (first, after) = rest.split_at(first_len(rest));
            self.text.made_bytes += first.len();
            self.push(Chunk::Loose(first.into()));
            rest = after;
        }
        pending.drain(..len);
        self.pending = pending;
    }

    fn push(&mut self, chunk: Chunk) {
        self.text.len += chunk.len();
        if matches!(chunk, Chunk::Loose(_)) {
            self.text.loose_bytes += chunk.len();
        }
        self.text.chunks.push(chunk);
    }

    fn text(mut self) -> SharedText {
        self.cut(self.pending.len());
        self.text
    }
}

/// A place in a text that moves forward.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    text: &'a SharedText,
    /// A chunk, and where it begins.
    at: usize,
    start: usize,
}

impl<'a> Cursor<'a> {
    /// At the beginning.
    pub const fn new(text: &'a SharedText) -> Self {
        Self { text, at: 0, start: 0 }
    }

    /// The chunk with the byte at `position`, and where in it; `None` at the end of the text.
    fn chunk_of(&mut self, position: usize) -> Option<(&'a Chunk, usize)> {
        while let Some(chunk) = self.text.chunks.get(self.at) {
            if position < self.start + chunk.len() {
                return Some((chunk, position - self.start));
            }
            self.start += chunk.len();
            self.at += 1;
        }
        None
    }

    /// Whether a line begins at `position`, or the text ends there and does not end within a line.
    pub fn is_line_start(&mut self, position: usize) -> bool {
        match self.chunk_of(position) {
            Some((_, 0)) => true,
            Some((chunk, from)) => chunk.bytes()[from - 1] == b'\n',
            None => self.text.chunks.last().is_none_or(|last| last.bytes().ends_with(b"\n")),
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
            _ => self.text.chunks[..self.at].last()?.bytes(),
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
