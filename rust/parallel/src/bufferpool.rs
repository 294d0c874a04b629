//! A pool of buffers to reuse.
//!
//! Tens of thousands of texts of a few hundred kilobytes come and go. The system's allocator would
//! map, zero and unmap each of them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::budget::{Budget, Buffer};
use crate::error::Result;

/// Smaller buffers are left to the allocator, which is quick with them.
const SMALLEST: usize = 4096;
/// Buffers kept; more than a walk has in hand at a time is waste.
const MOST: usize = 128;
/// Bytes of buffers kept that are no memory.
const MOST_FILE_BYTES: usize = 64 << 20;
/// A buffer is not used for something so many times smaller: it would be missing for its like.
const LARGEST_WASTE: usize = 4;

/// Empty buffers, kept longest first.
#[derive(Debug)]
pub struct BufferPool {
    buffers: VecDeque<Buffer>,
    /// Memory of those that are memory, and the length of the others.
    bytes: usize,
    file_bytes: usize,
    most_bytes: usize,
    budget: Option<Arc<Budget>>,
}

impl BufferPool {
    /// Keeps buffers of up to `most_bytes` together; new ones are within `budget`.
    #[must_use]
    pub const fn new(most_bytes: usize, budget: Option<Arc<Budget>>) -> Self {
        Self { buffers: VecDeque::new(), bytes: 0, file_bytes: 0, most_bytes, budget }
    }

    /// An empty buffer with room for about `len` bytes: the smallest kept that has it.
    ///
    /// # Errors
    ///
    /// As [`Buffer::reserve`].
    pub fn take(&mut self, len: usize) -> Result<Buffer> {
        if len < SMALLEST {
            return Ok(Buffer::new(self.budget.clone()));
        }
        let usable = len..=len.saturating_mul(LARGEST_WASTE);
        let room = self.buffers.iter().map(Buffer::capacity).enumerate();
        let smallest = room.filter(|(_, room)| usable.contains(room)).min_by_key(|(_, room)| *room);
        let found = smallest.and_then(|(position, _)| self.buffers.swap_remove_back(position));
        match found {
            Some(buffer) => {
                *self.bytes_of(&buffer) -= buffer.capacity();
                Ok(buffer)
            }
            None => {
                let mut buffer = Buffer::new(self.budget.clone());
                // files grow
                buffer.reserve_exact(len + len / 8)?;
                Ok(buffer)
            }
        }
    }

    /// Keeps a buffer, whatever is in it; those kept longest make room.
    pub fn put(&mut self, mut buffer: Buffer) {
        let most = if buffer.is_memory() { self.most_bytes } else { MOST_FILE_BYTES };
        if buffer.capacity() < SMALLEST || buffer.capacity() > most {
            return;
        }
        buffer.clear();
        *self.bytes_of(&buffer) += buffer.capacity();
        self.buffers.push_back(buffer);
        while self.buffers.len() > MOST
            || self.bytes > self.most_bytes
            || self.file_bytes > MOST_FILE_BYTES
        {
            let Some(oldest) = self.buffers.pop_front() else { break };
            *self.bytes_of(&oldest) -= oldest.capacity();
        }
    }

    /// What `buffer` is counted in.
    const fn bytes_of(&mut self, buffer: &Buffer) -> &mut usize {
        if buffer.is_memory() { &mut self.bytes } else { &mut self.file_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pool: &mut BufferPool) -> usize {
        pool.take(15 << 10).expect("is memory").capacity()
    }

    #[test]
    fn the_smallest_that_suffices_is_taken() {
        let mut pool = BufferPool::new(1 << 20, None);
        for kilobytes in [40, 10, 20, 100] {
            pool.put(Vec::with_capacity(kilobytes << 10).into());
        }
        assert_eq!(taken(&mut pool), 20 << 10);
        assert_eq!(taken(&mut pool), 40 << 10);
        assert_eq!(taken(&mut pool), (15 << 10) * 9 / 8, "100 is too large");
        assert_eq!(pool.bytes, 110 << 10);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut pool = BufferPool::new(100_000, None);
        for _ in 0..20 {
            pool.put(Vec::with_capacity(10_000).into());
            pool.put(Vec::with_capacity(200_000).into());
            pool.put(Vec::with_capacity(100).into());
        }
        assert_eq!((pool.buffers.len(), pool.bytes), (10, 100_000));
    }
}
