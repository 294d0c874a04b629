//! zlib streams of what is short, quickly.
//!
//! What compressors set up for each stream, empty tables above all, takes longer than a few hundred
//! bytes do. Here nothing is set up: places in the table count on from stream to stream, so those of
//! an earlier one are seen to be too far back, and the codes are the fixed ones of RFC 1951. So
//! each symbol is written as soon as it is known. The latest place with equal bytes is the match.
//!
//! What becomes no shorter is stored.

use std::hint::select_unpredictable;

use super::bits::Bits;
use super::codes::{END, LITERALS, MATCH_LENS, distance, length};

/// Longest input, in bytes: what a stored block holds.
const LONGEST: usize = 0xffff;

/// Slots of the table of recent places: 32 KiB, which the first cache holds beside the input.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 13;

/// Bytes that a match has at least. One of three or four hardly saves bits.
const SHORTEST_MATCH: u32 = 5;
/// How far back a match may begin, by the format.
const WINDOW: usize = 1 << 15;

/// What a zlib stream has around its block: header, and checksum.
const HEADER: u64 = 0x0178;
const HEADER_LEN: usize = 2;
const CHECKSUM_LEN: usize = 4;
/// What a stored block has before its bytes.
const STORED_HEAD_LEN: usize = 5;
/// First bits of the last block: one with the fixed codes, and one that is stored.
const FIXED: u64 = 0b011;
const STORED: u64 = 0b001;

/// Compresses one short buffer after the other; a thread has its own.
pub struct QuickDeflater {
    /// By hash, where such bytes were last met: `base` and their position.
    recent: Box<[u32; SLOTS]>,
    /// Where the input begins; more than all places of inputs before.
    base: u32,
}

impl Default for QuickDeflater {
    fn default() -> Self {
        let recent = vec![0; SLOTS].into_boxed_slice();
        Self { recent: recent.try_into().expect("so many slots"), base: 1 }
    }
}

impl QuickDeflater {
    /// Room in which to make the stream of `len` bytes, which will have 11 bytes more than them at
    /// most.
    #[must_use]
    pub const fn bound(len: usize) -> usize {
        // a literal has up to 9 bits
        HEADER_LEN + STORED_HEAD_LEN + len + len / 8 + 1 + CHECKSUM_LEN + Bits::ROOM
    }

    /// Compresses `data` to the beginning of `out` and answers the length of the stream. Equal
    /// input gives equal bytes, whatever came before.
    ///
    /// # Panics
    ///
    /// If `data` has 64 KiB or more, or `out` fewer bytes than [`Self::bound`] tells.
    pub fn deflate_to(&mut self, data: &[u8], out: &mut [u8]) -> usize {
        assert!(data.len() <= LONGEST, "what is long is not for this compressor");
        let mut bits = Bits::new(out);
        bits.add(HEADER, 16);
        bits.add(FIXED, 3);
        self.write_symbols(data, &mut bits);
        let mut end = bits.finish();
        if end > HEADER_LEN + STORED_HEAD_LEN + data.len() {
            let mut bits = Bits::new(out);
            bits.add(HEADER, 16);
            bits.add(STORED, 3);
            bits.add_stored(data);
            end = bits.finish();
        }
        out[end..end + CHECKSUM_LEN].copy_from_slice(&libdeflater::adler32(data).to_be_bytes());
        end + CHECKSUM_LEN
    }

    fn write_symbols(&mut self, data: &[u8], bits: &mut Bits<'_>) {
        let base = self.take_places(data.len());
        let mut at = 0;
        while let Some(here) = data.get(at..).and_then(<[u8]>::first_chunk) {
            let place = base + short(at);
            let before = std::mem::replace(&mut self.recent[slot(*here)], place);
            let back = place.wrapping_sub(before) as usize;
            // places of earlier streams are before this one's first byte
            if back <= at.min(WINDOW) {
                let len = match_len(data, at - back, at);
                if len >= SHORTEST_MATCH as usize {
                    bits.flush();
                    bits.add_code(length(len));
                    let (code, code_bits) = distance(back);
                    bits.add(code, code_bits);
                    bits.flush();
                    for place in [at + 1, at + len - 2] {
                        if let Some(bytes) = data[place..].first_chunk() {
                            self.recent[slot(*bytes)] = base + short(place);
                        }
                    }
                    at += len;
                    continue;
                }
            }
            bits.add_code(LITERALS[usize::from(here[0])]);
            bits.flush();
            at += 1;
        }
        for &byte in &data[at.min(data.len())..] {
            bits.add_code(LITERALS[usize::from(byte)]);
            bits.flush();
        }
        bits.add_code(END);
    }

    /// Places for the next `len` bytes, which no other bytes have had.
    fn take_places(&mut self, len: usize) -> u32 {
        match self.base.checked_add(short(len)) {
            Some(next) => std::mem::replace(&mut self.base, next),
            None => {
                self.recent.fill(0);
                self.base = 1 + short(len);
                1
            }
        }
    }
}

/// How many bytes from `from` on are those from `at` on, as far as a match may be long.
#[inline]
fn match_len(data: &[u8], from: usize, at: usize) -> usize {
    const WORD: usize = size_of::<u64>();
    let differing = |offset: usize| -> Option<u64> {
        let [one, other] = [from, at].map(|start| data.get(start + offset..)?.first_chunk());
        Some(u64::from_le_bytes(*one?) ^ u64::from_le_bytes(*other?))
    };
    // the first two words without a branch between them: where a match ends is not foreseeable
    if let (Some(first), Some(second)) = (differing(0), differing(WORD))
        && first | second != 0
    {
        let bits = select_unpredictable(
            first != 0,
            first.trailing_zeros(),
            second.trailing_zeros() + u64::BITS,
        );
        return bits as usize / 8;
    }
    let most = MATCH_LENS.end().min(&(data.len() - at)).to_owned();
    let mut len = 0;
    while len < most {
        match differing(len) {
            Some(0) => len += WORD,
            Some(bits) => return most.min(len + bits.trailing_zeros() as usize / 8),
            None => {
                let rest = data[from + len..].iter().zip(&data[at + len..]);
                return most.min(len + rest.take_while(|(one, other)| one == other).count());
            }
        }
    }
    most
}

/// Where a position with these bytes is kept: by as many of them as a match has at least.
#[inline]
fn slot(bytes: [u8; 8]) -> usize {
    // the fraction of the golden ratio
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    const UNUSED_BITS: u32 = u64::BITS - 8 * SHORTEST_MATCH;
    let hash = (u64::from_le_bytes(bytes) << UNUSED_BITS).wrapping_mul(FACTOR);
    (hash >> (u64::BITS - SLOT_BITS)) as usize
}

/// A length or position in what is no longer than [`LONGEST`].
#[inline]
fn short(number: usize) -> u32 {
    u32::try_from(number).expect("is short")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::deflate::inflate;

    fn deflated(deflater: &mut QuickDeflater, data: &[u8]) -> Vec<u8> {
        let mut out = vec![7; QuickDeflater::bound(data.len())];
        let len = deflater.deflate_to(data, &mut out);
        assert!(
            len <= data.len() + HEADER_LEN + STORED_HEAD_LEN + CHECKSUM_LEN,
            "{len} bytes of {}",
            data.len()
        );
        out.truncate(len);
        out
    }

    /// Compresses and compares what libdeflate makes of the stream.
    fn stream(deflater: &mut QuickDeflater, data: &[u8]) -> Vec<u8> {
        let stream = deflated(deflater, data);
        assert_eq!(inflate(&stream, data.len()).as_deref(), Ok(data));
        stream
    }

    /// Bytes without a pattern.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            state.to_be_bytes()[0]
        };
        std::iter::repeat_with(next).take(len).collect()
    }

    fn text(len: usize) -> Vec<u8> {
        let line = |n: usize| format!("    line {n} of {} and {:x}\n", n * n % 97, n * n * n);
        (0..).flat_map(|n| line(n).into_bytes()).take(len).collect()
    }

    /// How the block of a stream is written: its first bits but one.
    fn form(stream: &[u8]) -> u8 {
        assert_eq!((stream[0], stream[1], stream[2] & 1), (0x78, 1, 1), "header, and last block");
        stream[2] >> 1 & 3
    }

    #[test]
    fn all_short_lengths_are_inflated() {
        let mut deflater = QuickDeflater::default();
        for source in [noise(700), text(700), vec![0; 700], b"abcde".repeat(140)] {
            for len in 0..=source.len() {
                stream(&mut deflater, &source[..len]);
            }
        }
    }

    #[test]
    fn lengths_about_the_longest_are_inflated() {
        let mut deflater = QuickDeflater::default();
        for source in [noise(LONGEST), text(LONGEST), vec![0; LONGEST]] {
            for len in LONGEST - 9..=LONGEST {
                stream(&mut deflater, &source[..len]);
            }
        }
    }

    #[test]
    fn noise_is_stored_and_text_is_not() {
        let mut deflater = QuickDeflater::default();
        for len in [1000, LONGEST] {
            let stored = stream(&mut deflater, &noise(len));
            assert_eq!((form(&stored), stored.len()), (0, len + 11));
        }
        for len in [0, 100, 2000] {
            assert_eq!(form(&stream(&mut deflater, &text(len))), 1);
        }
    }

    #[test]
    fn a_match_is_as_far_and_as_long_as_the_format_allows() {
        // of the bytes that take eight bits each
        let mut data: Vec<u8> = noise(WINDOW).iter().map(|byte| byte & 0x7f).collect();
        data.extend_from_within(..300);
        let mut deflater = QuickDeflater::default();
        let found = stream(&mut deflater, &data).len();
        assert!(found < WINDOW + 200, "{found}");
        // one byte more between them, and nothing is found
        data.insert(WINDOW, 0);
        assert!(stream(&mut deflater, &data).len() > data.len());
    }

    #[test]
    fn a_used_compressor_gives_the_bytes_of_a_new_one() {
        let mut deflater = QuickDeflater::default();
        let texts = [text(5000), text(300), noise(3000), text(5000), vec![], text(40)];
        for text in &texts {
            let fresh = deflated(&mut QuickDeflater::default(), text);
            assert_eq!(deflated(&mut deflater, text), fresh);
        }
        // places begin anew where they would no longer fit
        deflater.base = u32::MAX - 7000;
        for text in &texts {
            let fresh = deflated(&mut QuickDeflater::default(), text);
            assert_eq!(deflated(&mut deflater, text), fresh);
        }
        assert!(deflater.base < 70_000);
    }

    #[test]
    #[should_panic(expected = "not for this compressor")]
    fn what_is_long_is_refused() {
        let len = LONGEST + 1;
        QuickDeflater::default().deflate_to(&vec![0; len], &mut vec![0; 2 * len]);
    }

    #[test]
    #[should_panic(expected = "bound() tells")]
    fn too_little_room_is_refused() {
        QuickDeflater::default().deflate_to(&noise(100), &mut [0; 100]);
    }

    proptest! {
        #[test]
        fn what_was_deflated_inflates(data: Vec<u8>) {
            stream(&mut QuickDeflater::default(), &data);
        }

        #[test]
        fn what_repeats_inflates_and_is_shorter(
            parts in proptest::collection::vec(proptest::collection::vec(0..9_u8, 1..80), 1..6),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 0..400),
        ) {
            let data: Vec<u8> = order.iter().flat_map(|part| part.get(&parts).clone()).collect();
            let stream = stream(&mut QuickDeflater::default(), &data);
            prop_assert!(stream.len() < data.len() + 9);
        }
    }
}
