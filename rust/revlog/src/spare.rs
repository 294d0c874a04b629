//! Buffers to be used again.
//!
//! Texts of some hundred kilobytes come and go by the ten thousand. Left to the system's allocator,
//! each would be mapped, filled with zeros page by page, and unmapped.

use std::collections::VecDeque;

/// Smaller buffers are left to the allocator, which is quick with them.
const SMALLEST: usize = 4096;
/// Buffers kept; more than a walk has in hand at a time is waste.
const MOST: usize = 128;
/// A buffer is not used for something so many times smaller: it would be missing for its like.
const LARGEST_WASTE: usize = 4;

/// Empty buffers, kept longest first.
#[derive(Debug)]
pub(crate) struct Spare {
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
    most_bytes: usize,
}

impl Spare {
    /// Keeps buffers of up to `most_bytes` together.
    pub(crate) const fn new(most_bytes: usize) -> Self {
        Self { buffers: VecDeque::new(), bytes: 0, most_bytes }
    }

    /// An empty buffer with room for about `len` bytes: the smallest kept that has it.
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        if len < SMALLEST {
            return Vec::new();
        }
        let usable = len..=len.saturating_mul(LARGEST_WASTE);
        let room = self.buffers.iter().map(Vec::capacity).enumerate();
        let smallest = room.filter(|(_, room)| usable.contains(room)).min_by_key(|(_, room)| *room);
        let found = smallest.and_then(|(position, _)| self.buffers.swap_remove_back(position));
        match found {
            Some(buffer) => {
                self.bytes -= buffer.capacity();
                buffer
            }
            // files grow
            None => Vec::with_capacity(len + len / 8),
        }
    }

    /// Keeps a buffer, whatever is in it; those kept longest make room.
    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() < SMALLEST || buffer.capacity() > self.most_bytes {
            return;
        }
        buffer.clear();
        self.bytes += buffer.capacity();
        self.buffers.push_back(buffer);
        while self.buffers.len() > MOST || self.bytes > self.most_bytes {
            let Some(oldest) = self.buffers.pop_front() else { break };
            self.bytes -= oldest.capacity();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_that_suffices_is_taken() {
        let mut spare = Spare::new(1 << 20);
        for kilobytes in [40, 10, 20, 100] {
            spare.put(Vec::with_capacity(kilobytes << 10));
        }
        assert_eq!(spare.take(15 << 10).capacity(), 20 << 10);
        assert_eq!(spare.take(15 << 10).capacity(), 40 << 10);
        assert_eq!(spare.take(15 << 10).capacity(), (15 << 10) * 9 / 8, "100 is too large");
        assert_eq!(spare.bytes, 110 << 10);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut spare = Spare::new(100_000);
        for _ in 0..20 {
            spare.put(Vec::with_capacity(10_000));
            spare.put(Vec::with_capacity(200_000));
            spare.put(Vec::with_capacity(100));
        }
        assert_eq!((spare.buffers.len(), spare.bytes), (10, 100_000));
    }
}
