//! What texts are made of: bytes, in a buffer or loose, and groups of them.
//!
//! Owns how much of the memory that no budget counts is in use.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use parallel::Buffer;

/// Bytes of loose chunks and of groups that are in use, of all texts with this tally.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Tally(Rc<Cell<usize>>);

impl Tally {
    /// How many.
    pub fn bytes(&self) -> usize {
        self.0.get()
    }

    fn count<T>(&self, value: T, bytes: usize) -> Counted<T> {
        self.0.set(self.0.get() + bytes);
        Counted { value, bytes, tally: self.clone() }
    }
}

/// Something that is in a tally until it is dropped.
#[derive(Debug)]
struct Counted<T> {
    value: T,
    bytes: usize,
    tally: Tally,
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.tally.0.set(self.tally.0.get() - self.bytes);
    }
}

/// Whole lines.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    memory: Memory,
    /// Where in the memory it is.
    range: Range<usize>,
}

#[derive(Clone, Debug)]
enum Memory {
    Loose(Rc<Counted<Box<[u8]>>>),
    /// It counts itself.
    Buffer(Rc<Buffer>),
}

impl Chunk {
    pub fn part(buffer: &Rc<Buffer>, range: Range<usize>) -> Self {
        Self { memory: Memory::Buffer(Rc::clone(buffer)), range }
    }

    pub fn loose(bytes: &[u8], tally: &Tally) -> Self {
        let range = 0..bytes.len();
        Self { memory: Memory::Loose(Rc::new(tally.count(bytes.into(), bytes.len()))), range }
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

    /// The buffer that it is a part of, if it is.
    pub const fn buffer(&self) -> Option<&Rc<Buffer>> {
        match &self.memory {
            Memory::Loose(_) => None,
            Memory::Buffer(buffer) => Some(buffer),
        }
    }

    /// Its bytes, if they are in no buffer.
    pub fn loose_bytes(&self) -> usize {
        if self.buffer().is_none() { self.len() } else { 0 }
    }
}

/// Chunks that follow each other; never none.
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

    /// Bytes that are in no buffer.
    pub const fn loose_bytes(&self) -> usize {
        self.loose_bytes
    }
}
