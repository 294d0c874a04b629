//! Bits packed into bytes, least significant first (RFC 1951, section 3.1.1).

use super::codes::Code;
use super::head::BlockHead;

/// A writer of bits to the beginning of a buffer.
pub(super) struct Bits<'o> {
    out: &'o mut [u8],
    /// Number of whole bytes written.
    at: usize,
    /// Bits not yet written; their number is `count`.
    waiting: u64,
    count: u32,
}

impl<'o> Bits<'o> {
    /// Bytes that the buffer must have after the last written byte.
    pub(super) const ROOM: usize = size_of::<u64>();

    pub(super) const fn new(out: &'o mut [u8]) -> Self {
        Self { out, at: 0, waiting: 0, count: 0 }
    }

    /// Begins with the first `count` bits of `first`.
    pub(super) fn after(
        out: &'o mut [u8],
        (first, count): (&[u8; BlockHead::MOST_BYTES], u32),
    ) -> Self {
        let at = (count / 8) as usize;
        let room = out.first_chunk_mut().expect("bound() tells what suffices");
        *room = *first;
        Self { out, at, waiting: u64::from(first[at]), count: count % 8 }
    }

    /// Adds the lowest `count` bits of `bits`. The other bits must be 0.
    ///
    /// At most 57 bits may be added before the next [`Self::flush`].
    #[inline]
    pub(super) fn add(&mut self, bits: u64, count: u32) {
        debug_assert!(self.count + count <= u64::BITS, "no room for {count} bits");
        self.waiting |= bits << (self.count & 63);
        self.count = self.count.wrapping_add(count);
    }

    #[inline]
    pub(super) fn add_code(&mut self, code: Code) {
        self.add(u64::from(code.bits()), code.len());
    }

    /// Writes all whole bytes.
    ///
    /// # Panics
    ///
    /// If the buffer has fewer than [`Self::ROOM`] bytes left.
    #[inline]
    pub(super) fn flush(&mut self) {
        let room = self.out[self.at..].first_chunk_mut().expect("bound() tells what suffices");
        *room = self.waiting.to_le_bytes();
        self.at = self.at.wrapping_add((self.count >> 3) as usize);
        self.waiting = self.waiting.wrapping_shr(self.count & !7);
        self.count &= 7;
    }

    /// Adds the length and the bytes of a stored block, after its first bits.
    pub(super) fn add_stored(&mut self, bytes: &[u8]) {
        let len = u16::try_from(bytes.len()).expect("fits in a block");
        self.align();
        self.add(u64::from(len) | u64::from(!len) << 16, 32);
        self.flush();
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// Fills the last byte with zeros, and returns the number of bytes.
    pub(super) fn finish(mut self) -> usize {
        self.align();
        self.at
    }

    fn align(&mut self) {
        self.count = self.count.next_multiple_of(8);
        self.flush();
    }
}
