//! A quick compressor of short contents to zlib streams.
//!
//! It needs no set-up per stream, neither of tables to find matches ([`super::runs`]) nor of codes.
//! It computes the size of the stream with each of the preset codes ([`super::presets`]), and
//! chooses the shortest. Content that would not shrink is stored.

use std::hint::select_unpredictable;

use super::codes::{BYTES, BackReference, Code, Codes, DISTANCES_ROOM, LENGTHS};
use super::head::{BlockHead, ZLIB_HEADER};
use super::presets::{CHOICES, CODES, Choice};
use super::runs::{LONGEST, Run, Runs};

/// Bytes of the header of a zlib stream.
const HEADER_LEN: usize = 2;
/// Bytes of the checksum of a zlib stream.
const CHECKSUM_LEN: usize = 4;
/// Bytes of a stored block before its content.
const STORED_HEAD_LEN: usize = 5;
/// First bits of a stored block: the last block, type 0.
const STORED: u64 = 0b001;

/// A compressor of short buffers, for one thread.
#[derive(Default)]
pub struct QuickDeflater {
    runs: Runs,
}

/// Counts of the bytes, lengths and distances in the stream of a payload.
#[derive(Clone, Debug)]
pub struct SymbolCounts {
    /// By byte.
    pub bytes: [u32; BYTES],
    /// By length of a match, less 3, the shortest length.
    pub lengths: [u32; LENGTHS],
    /// By distance symbol of RFC 1951, section 3.2.5. The last two are unused.
    pub distances: [u32; DISTANCES_ROOM],
}

impl QuickDeflater {
    /// Counts the symbols of `data`, for the program that makes presets.
    ///
    /// # Panics
    ///
    /// If `data` has 64 KiB or more.
    pub fn count(&mut self, data: &[u8]) -> SymbolCounts {
        assert!(data.len() <= LONGEST, "what is long is not for this compressor");
        let (bytes, lengths, distances) = ([0; BYTES], [0; LENGTHS], [0; DISTANCES_ROOM]);
        let mut counts = SymbolCounts { bytes, lengths, distances };
        let mut at = 0;
        for run in self.runs.of(data).0 {
            let end = at + run.bytes as usize;
            for &byte in &data[at..end] {
                counts.bytes[usize::from(byte)] += 1;
            }
            at = end;
            if run.then != BackReference::NONE {
                counts.lengths[run.then.length()] += 1;
                counts.distances[run.then.distance()] += 1;
                at += run.then.len();
            }
        }
        counts
    }

    /// Length of the output buffer for `len` bytes. The stream itself has at most 11 bytes more
    /// than the content.
    #[must_use]
    pub const fn bound(len: usize) -> usize {
        BlockHead::MOST_BYTES + STORED_HEAD_LEN + len + CHECKSUM_LEN + Bits::ROOM
    }

    /// Compresses `data` to the beginning of `out`, and returns the length of the stream.
    ///
    /// Equal input gives equal bytes, independent of earlier calls.
    ///
    /// # Panics
    ///
    /// If `data` has 64 KiB or more, or `out` is shorter than [`Self::bound`].
    pub fn deflate_to(&mut self, data: &[u8], out: &mut [u8]) -> usize {
        assert!(data.len() <= LONGEST, "what is long is not for this compressor");
        let (runs, bits) = self.runs.of(data);
        let written = match cheapest(bits, data.len()) {
            Some(choice) => {
                write_runs(&choice.codes, data, runs, Bits::after(out, choice.head.bits()))
            }
            None => {
                let mut bits = Bits::new(out);
                bits.add(u64::from(ZLIB_HEADER), 16);
                bits.add(STORED, 3);
                bits.add_stored(data);
                bits
            }
        };
        let end = written.finish();
        out[end..end + CHECKSUM_LEN].copy_from_slice(&libdeflater::adler32(data).to_be_bytes());
        end + CHECKSUM_LEN
    }
}

/// Chooses the codes with the shortest stream; `None` if a stored block is shorter.
///
/// `bits` has the size of the runs for each choice, `len` is the length of the content.
fn cheapest(bits: [u32; CODES], len: usize) -> Option<&'static Choice> {
    let all = bits.into_iter().zip(&CHOICES);
    let all = all.map(|(bits, choice)| (bits.saturating_add(choice.bits()), choice));
    let (bits, choice) = all.min_by_key(|&(bits, _)| bits)?;
    (bits.div_ceil(8) as usize <= HEADER_LEN + STORED_HEAD_LEN + len).then_some(choice)
}

/// Writes `data`, given as `runs`, and the end of the block.
fn write_runs<'o>(codes: &Codes, data: &[u8], runs: &[Run], mut bits: Bits<'o>) -> Bits<'o> {
    let mut at = 0;
    for run in runs {
        let end = at + run.bytes as usize;
        let mut fours = data[at..end].chunks_exact(4);
        for four in &mut fours {
            bits.flush();
            for &byte in four {
                bits.add_code(codes.bytes[usize::from(byte)]);
            }
        }
        bits.flush();
        let rest = fours.remainder().len();
        if let Some([one, two, three, _]) = data[end - rest..].first_chunk() {
            // without a branch, since the number of bytes is unpredictable
            for (which, byte) in [one, two, three].into_iter().enumerate() {
                let code = codes.bytes[usize::from(*byte)];
                bits.add_code(select_unpredictable(which < rest, code, Code::NONE));
            }
        } else {
            for &byte in fours.remainder() {
                bits.add_code(codes.bytes[usize::from(byte)]);
            }
        }
        if run.then != BackReference::NONE {
            bits.flush();
            let (piece, count) = codes.bits(run.then);
            bits.add(piece, count);
            at = end + run.then.len();
        }
    }
    bits.flush();
    bits.add_code(codes.end);
    bits
}

/// A writer of bits to the beginning of a buffer, least significant first (RFC 1951, section
/// 3.1.1).
struct Bits<'o> {
    out: &'o mut [u8],
    /// Number of whole bytes written.
    at: usize,
    /// Bits not yet written; their number is `count`.
    waiting: u64,
    count: u32,
}

impl<'o> Bits<'o> {
    /// Bytes that the buffer must have after the last written byte.
    const ROOM: usize = size_of::<u64>();

    const fn new(out: &'o mut [u8]) -> Self {
        Self { out, at: 0, waiting: 0, count: 0 }
    }

    /// Begins with the first `count` bits of `first`.
    fn after(out: &'o mut [u8], (first, count): (&[u8; BlockHead::MOST_BYTES], u32)) -> Self {
        let at = (count / 8) as usize;
        let room = out.first_chunk_mut().expect("bound() tells what suffices");
        *room = *first;
        Self { out, at, waiting: u64::from(first[at]), count: count % 8 }
    }

    /// Adds the lowest `count` bits of `bits`. The other bits must be 0.
    ///
    /// At most 57 bits may be added before the next [`Self::flush`].
    #[inline]
    fn add(&mut self, bits: u64, count: u32) {
        debug_assert!(self.count + count <= u64::BITS, "no room for {count} bits");
        self.waiting |= bits << (self.count & 63);
        self.count = self.count.wrapping_add(count);
    }

    #[inline]
    fn add_code(&mut self, code: Code) {
        self.add(u64::from(code.bits()), code.len());
    }

    /// Writes all whole bytes.
    ///
    /// # Panics
    ///
    /// If the buffer has fewer than [`Self::ROOM`] bytes left.
    #[inline]
    fn flush(&mut self) {
        let room = self.out[self.at..].first_chunk_mut().expect("bound() tells what suffices");
        *room = self.waiting.to_le_bytes();
        self.at = self.at.wrapping_add((self.count >> 3) as usize);
        self.waiting = self.waiting.wrapping_shr(self.count & !7);
        self.count &= 7;
    }

    /// Adds the length and the bytes of a stored block, after its first bits.
    fn add_stored(&mut self, bytes: &[u8]) {
        let len = u16::try_from(bytes.len()).expect("fits in a block");
        self.align();
        self.add(u64::from(len) | u64::from(!len) << 16, 32);
        self.flush();
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// Fills the last byte with zeros, and returns the number of bytes.
    fn finish(mut self) -> usize {
        self.align();
        self.at
    }

    fn align(&mut self) {
        self.count = self.count.next_multiple_of(8);
        self.flush();
    }
}

#[cfg(test)]
mod tests;
