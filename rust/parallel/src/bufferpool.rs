//! A pool of buffers to reuse.
//!
//! A conversion allocates tens of thousands of texts of a few hundred kilobytes. The system's
//! allocator would map, zero and unmap each of them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::budget::{Budget, Buffer};
use crate::error::Result;

/// Size from which buffers are kept. The allocator is quick with smaller ones.
const SMALLEST: usize = 4096;
/// Maximum number of kept buffers. A walk does not use more at a time.
const MOST: usize = 128;
/// Maximum bytes of kept buffers that are files.
const MOST_FILE_BYTES: usize = 64 << 20;
/// Maximum ratio of a buffer to the wanted length. Large buffers are kept for large texts.
const LARGEST_WASTE: usize = 4;

/// Empty buffers, kept longest first.
#[derive(Debug)]
pub struct BufferPool {
    buffers: VecDeque<Buffer>,
    /// Capacity of the buffers in memory.
    bytes: usize,
    /// Capacity of the buffers in files.
    file_bytes: usize,
    most_bytes: usize,
    budget: Option<Arc<Budget>>,
}

impl BufferPool {
    /// Creates an empty pool that keeps up to `most_bytes` of memory. New buffers are within
    /// `budget`.
    #[must_use]
    pub const fn new(most_bytes: usize, budget: Option<Arc<Budget>>) -> Self {
        Self { buffers: VecDeque::new(), bytes: 0, file_bytes: 0, most_bytes, budget }
    }

    /// Takes an empty buffer with room for `len` bytes: the smallest sufficient one, or a new one.
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
                // the next version of a file is often a little longer
                buffer.reserve_exact(len + len / 8)?;
                Ok(buffer)
            }
        }
    }

    /// Empties a buffer and keeps it. The buffers kept longest are freed to meet the limits.
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

    /// The counter for `buffer`.
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
