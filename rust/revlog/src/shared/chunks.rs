//! Chunks and groups of shared texts, and their memory.
//!
//! Owns the count of memory in use outside the budget.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parallel::Buffer;

/// Bytes in use by loose chunks and groups, of all texts with this tally.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<AtomicUsize>);

impl Tally {
    /// The bytes in use.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn count<T>(&self, value: T, bytes: usize) -> Counted<T> {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Counted { value, bytes, tally: self.clone() }
    }
}

/// A value that is counted in a tally until it is dropped.
#[derive(Debug)]
struct Counted<T> {
    value: T,
    bytes: usize,
    tally: Tally,
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.tally.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A chunk: whole lines, unless it is the last of a text.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    memory: Memory,
    /// Range of the chunk in the memory.
    range: Range<usize>,
}

#[derive(Clone, Debug)]
enum Memory {
    Loose(Arc<Counted<Box<[u8]>>>),
    /// Counted by the budget.
    Buffer(Arc<Buffer>),
}

impl Chunk {
    pub fn part(buffer: &Arc<Buffer>, range: Range<usize>) -> Self {
        Self { memory: Memory::Buffer(Arc::clone(buffer)), range }
    }

    pub fn loose(bytes: &[u8], tally: &Tally) -> Self {
        let range = 0..bytes.len();
        Self { memory: Memory::Loose(Arc::new(tally.count(bytes.into(), bytes.len()))), range }
    }

    pub fn len(&self) -> usize {
        self.range.len()
    }

    pub fn bytes(&self) -> &[u8] {
        let memory: &[u8] = match &self.memory {
            Memory::Loose(loose) => &loose.value,
            Memory::Buffer(buffer) => buffer,
        };
        &memory[self.range.clone()]
    }

    /// The buffer that the chunk is a part of, if any.
    pub const fn buffer(&self) -> Option<&Arc<Buffer>> {
        match &self.memory {
            Memory::Loose(_) => None,
            Memory::Buffer(buffer) => Some(buffer),
        }
    }

    /// Bytes of the chunk outside buffers.
    pub fn loose_bytes(&self) -> usize {
        if self.buffer().is_none() { self.len() } else { 0 }
    }
}

/// Consecutive chunks, at least one.
#[derive(Debug)]
pub(super) struct Group {
    chunks: Counted<Vec<Chunk>>,
    len: usize,
    loose_bytes: usize,
}

impl Group {
    pub fn new(chunks: Vec<Chunk>, tally: &Tally) -> Self {
        let len = chunks.iter().map(Chunk::len).sum();
        let loose_bytes = chunks.iter().map(Chunk::loose_bytes).sum();
        let bytes = chunks.capacity() * size_of::<Chunk>();
        Self { chunks: tally.count(chunks, bytes), len, loose_bytes }
    }

    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks.value
    }

    pub fn last(&self) -> &Chunk {
        &self.chunks.value[self.chunks.value.len() - 1]
    }

    pub const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the group outside buffers.
    pub const fn loose_bytes(&self) -> usize {
        self.loose_bytes
    }
}
