//! The size of bytes and matches in bits, for each choice of codes.
//!
//! Eight sums of 16 bits fit in a register, and are increased at once. After each piece of the
//! content, they are added to the totals.

use super::codes::{
    BYTES, BackReference, Code, DISTANCE_EXTRA_BITS, DISTANCES, DISTANCES_ROOM, LENGTHS,
};
use super::presets::{CHOICES, CODES};

/// Size in bits, for each choice of codes.
///
/// [`NONE`] if the choice has no code for a byte or a match.
pub(super) type SpentBits = [u16; CODES];
const NONE: u16 = u16::MAX;

/// Maximum bytes of a piece: sums are emptied when matches and bytes reach it.
///
/// As many bytes again may follow the last match. The sums stay below [`NONE`], with 48 bits for a
/// match and 15 for a byte.
pub(super) const PIECE: usize = 1024;

/// Size of each byte.
pub(super) static OF_BYTES: [SpentBits; BYTES] = {
    let mut all = [[0; CODES]; BYTES];
    let (mut which, mut byte) = (0, 0);
    while which < CODES {
        while byte < BYTES {
            all[byte][which] = bits(CHOICES[which].codes.bytes[byte], 0);
            byte += 1;
        }
        byte = 0;
        which += 1;
    }
    all
};

static OF_LENGTHS: [SpentBits; LENGTHS] = {
    let mut all = [[0; CODES]; LENGTHS];
    let (mut which, mut len) = (0, 0);
    while which < CODES {
        while len < LENGTHS {
            all[len][which] = bits(CHOICES[which].codes.lengths[len], 0);
            len += 1;
        }
        len = 0;
        which += 1;
    }
    all
};

static OF_DISTANCES: [SpentBits; DISTANCES_ROOM] = {
    let mut all = [[0; CODES]; DISTANCES_ROOM];
    let (mut which, mut symbol) = (0, 0);
    while which < CODES {
        while symbol < DISTANCES {
            let code = CHOICES[which].codes.distances[symbol];
            all[symbol][which] = bits(code, DISTANCE_EXTRA_BITS[symbol]);
            symbol += 1;
        }
        symbol = 0;
        which += 1;
    }
    all
};

#[expect(clippy::cast_possible_truncation, reason = "up to 28 bits")]
const fn bits(code: Code, extra_bits: u32) -> u16 {
    if code.len() == 0 { NONE } else { (code.len() + extra_bits) as u16 }
}

/// Adds a size to the sums.
#[inline]
pub(super) fn add(sums: &mut SpentBits, more: &SpentBits) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(*more);
    }
}

/// Adds the size of a match to the sums.
#[inline]
pub(super) fn add_match(sums: &mut SpentBits, found: BackReference) {
    add(sums, &OF_LENGTHS[found.length()]);
    add(sums, &OF_DISTANCES[found.distance()]);
}

/// Adds the sums of a piece to the totals, and clears them. In totals, `u32::MAX` means [`NONE`].
pub(super) fn empty(piece: &mut SpentBits, all: &mut [u32; CODES]) {
    for (all, sum) in all.iter_mut().zip(std::mem::take(piece)) {
        *all = all.saturating_add(if sum == NONE { u32::MAX } else { u32::from(sum) });
    }
}
