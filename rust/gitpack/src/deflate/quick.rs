//! A quick compressor of short contents to zlib streams.
//!
//! It needs no set-up per stream, neither of tables to find matches ([`super::runs`]) nor of codes.
//! It computes the size of the stream with each of the preset codes ([`super::presets`]), and
//! chooses the shortest. Content that would not shrink is stored.

use std::hint::select_unpredictable;

use super::bits::Bits;
use super::codes::{BYTES, BackReference, Code, Codes, DISTANCES_ROOM, LENGTHS};
use super::costs::CODES;
use super::head::{BlockHead, ZLIB_HEADER};
use super::presets::{CHOICES, Choice};
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

#[cfg(test)]
mod tests;
