//! The search for matches in short contents.
//!
//! Other compressors clear their tables for each stream. That takes longer than to compress a few
//! hundred bytes. Here, the table is not cleared: positions continue from stream to stream, so
//! positions of an earlier stream are recognised as too low. The match is the latest position with
//! equal bytes.

use std::hint::select_unpredictable;

use super::codes::{BackReference, MATCH_LENS, WINDOW, short};
use super::costs::{self, OF_BYTES, PIECE, SpentBits};
use super::presets::CODES;

const WORD: usize = size_of::<u64>();

/// Longest input, in bytes.
pub(super) const LONGEST: usize = 0xffff;

/// Slots of the table of recent places: 32 KiB, which fit in the L1 cache beside the input.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 13;

/// Minimum length of a match. A match of three bytes hardly saves bits.
const SHORTEST_MATCH: u32 = 4;

/// Literal bytes, then a match. The last run has no match.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub bytes: u32,
    pub then: BackReference,
}

/// A finder of the runs of short inputs.
pub(super) struct Runs {
    /// By hash of the bytes, the place where they last occurred: `base` plus position.
    recent: Box<[u32; SLOTS]>,
    /// The first place of the input. All places of earlier inputs are lower.
    pub(super) base: u32,
    /// Buffer for the runs, long enough for the longest input.
    found: Box<[Run]>,
}

impl Default for Runs {
    fn default() -> Self {
        let recent = vec![0; SLOTS].into_boxed_slice();
        let recent = recent.try_into().expect("so many slots");
        let most = LONGEST / SHORTEST_MATCH as usize + 1;
        Self {
            recent,
            base: 1,
            found: vec![Run { bytes: 0, then: BackReference::NONE }; most].into(),
        }
    }
}

impl Runs {
    /// Finds the runs of `data`, and their size in bits with each choice of codes.
    ///
    /// The size is `u32::MAX` if a byte or match has no code. `data` has at most [`LONGEST`] bytes.
    pub(super) fn of(&mut self, data: &[u8]) -> (&[Run], [u32; CODES]) {
        let base = self.take_places(data.len());
        let recent = &mut self.recent;
        let (mut start, mut from, mut count) = (0, 0, 0);
        let (mut bits, mut piece, mut added) = ([0; CODES], [0; CODES], 0);
        loop {
            let end = data.len().min(from + PIECE + WORD - 1);
            let found = next_match(data, from..end, recent, base, &mut piece);
            let Some(Found { at, back, differing }) = found else {
                if end == data.len() {
                    break;
                }
                costs::empty(&mut piece, &mut bits);
                (from, added) = (end + 1 - WORD, 0);
                continue;
            };
            let len = match_len(data, differing, back, at);
            let then = BackReference::new(len, back);
            costs::add_match(&mut piece, then);
            added += at - from + 1;
            if added >= PIECE {
                costs::empty(&mut piece, &mut bits);
                added = 0;
            }
            self.found[count] = Run { bytes: short(at - start), then };
            count += 1;
            for place in [at + 1, at + len - 3, at + len - 1] {
                if let Some(bytes) = word(data, place) {
                    recent[slot(bytes)] = base.wrapping_add(short(place));
                }
            }
            start = at + len;
            from = start;
        }
        // the last bytes, too few to be searched for
        for &byte in &data[from.max(data.len().saturating_sub(WORD - 1))..] {
            costs::add(&mut piece, &OF_BYTES[usize::from(byte)]);
        }
        costs::empty(&mut piece, &mut bits);
        self.found[count] = Run { bytes: short(data.len() - start), then: BackReference::NONE };
        (&self.found[..=count], bits)
    }

    /// Reserves unused places for the next `len` bytes.
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

/// A match whose length is not known yet.
struct Found {
    at: usize,
    /// Distance of the earlier bytes.
    back: usize,
    /// Exclusive or of the first eight bytes of both.
    differing: u64,
}

/// Finds the first match in `range`. Adds the size of the bytes before it to `sums`.
///
/// Not inlined, so that its loop has all registers.
#[inline(never)]
fn next_match(
    data: &[u8],
    range: std::ops::Range<usize>,
    recent: &mut [u32; SLOTS],
    base: u32,
    sums: &mut SpentBits,
) -> Option<Found> {
    let mut piece = *sums;
    let mut place = base.wrapping_add(short(range.start));
    for here in data[range].windows(WORD) {
        let byte = here[0];
        let here = u64::from_le_bytes(here.try_into().expect("eight bytes"));
        let before = std::mem::replace(&mut recent[slot(here)], place);
        // places of earlier streams are before this one's first byte
        if before >= base {
            let there = data[before.wrapping_sub(base) as usize..].first_chunk();
            let differing = here ^ u64::from_le_bytes(*there?);
            let back = place.wrapping_sub(before) as usize;
            if differing.trailing_zeros() >= 8 * SHORTEST_MATCH && back <= WINDOW {
                *sums = piece;
                return Some(Found { at: place.wrapping_sub(base) as usize, back, differing });
            }
        }
        costs::add(&mut piece, &OF_BYTES[usize::from(byte)]);
        place = place.wrapping_add(1);
    }
    *sums = piece;
    None
}

/// The eight bytes from `at` on.
#[inline]
fn word(data: &[u8], at: usize) -> Option<u64> {
    let bytes = data.get(at..at.wrapping_add(8))?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

/// Length of the match of the bytes at `at` with those at `at - back`.
///
/// `differing` is the exclusive or of the first eight bytes of both.
#[inline]
fn match_len(data: &[u8], differing: u64, back: usize, at: usize) -> usize {
    // the first two words without a branch between them, since the end of a match is unpredictable
    if let Some(next) = word(data, at + WORD) {
        let next = next ^ word(data, at + WORD - back).unwrap_or(next);
        if differing | next != 0 {
            let bits = select_unpredictable(
                differing != 0,
                differing.trailing_zeros(),
                next.trailing_zeros() + u64::BITS,
            );
            return bits as usize / 8;
        }
    }
    let most = MATCH_LENS.end().min(&(data.len() - at)).to_owned();
    let from = at - back;
    let mut len = 0;
    while len < most {
        match (word(data, from + len), word(data, at + len)) {
            (Some(one), Some(other)) if one == other => len += WORD,
            (Some(one), Some(other)) => {
                return most.min(len + (one ^ other).trailing_zeros() as usize / 8);
            }
            _ => {
                let rest = data[from + len..].iter().zip(&data[at + len..]);
                return most.min(len + rest.take_while(|(one, other)| one == other).count());
            }
        }
    }
    most
}

/// The slot for a position with these bytes: a hash of the first [`SHORTEST_MATCH`].
#[inline]
fn slot(bytes: u64) -> usize {
    // the fraction of the golden ratio
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    const UNUSED_BITS: u32 = u64::BITS - 8 * SHORTEST_MATCH;
    let hash = (bytes << UNUSED_BITS).wrapping_mul(FACTOR);
    (hash >> (u64::BITS - SLOT_BITS)) as usize
}
