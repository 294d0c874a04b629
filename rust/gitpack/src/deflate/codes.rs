//! The symbols of RFC 1951, section 3.2.5, and codes for them as bits in writing order.

/// Lengths of a match in this format.
pub(super) const MATCH_LENS: std::ops::RangeInclusive<usize> = 3..=258;
/// Maximum distance of a match.
pub(super) const WINDOW: usize = 1 << 15;

/// Number of literal and length symbols: bytes, end of block, lengths. The last two never occur.
pub(super) const SYMBOLS: usize = 288;
pub(super) const DISTANCES: usize = 30;
const END: usize = 256;
const FIRST_LENGTH: usize = END + 1;
const LAST_LENGTH: usize = 285;

/// A match: a length and a distance.
///
/// Bits 0 to 7 are the length less 3, bits 8 to 12 the symbol of the distance. The extra bits of
/// the distance begin at bit 13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BackReference(u32);

/// Number of byte values.
pub(super) const BYTES: usize = 256;
/// Number of match lengths.
pub(super) const LENGTHS: usize = 256;
/// Number of distance symbols, rounded up to a power of two.
pub(super) const DISTANCES_ROOM: usize = 32;

impl BackReference {
    /// No match: a distance symbol that the format does not have.
    pub(super) const NONE: Self = Self(31 << 8);

    /// Creates a match. Length and distance must be within the limits of the format.
    #[inline]
    pub(super) const fn new(len: usize, distance: usize) -> Self {
        let (symbol, extra) = distance_symbol(short(distance));
        Self(short(len - *MATCH_LENS.start()) | symbol << 8 | extra << 13)
    }

    /// Number of bytes.
    #[inline]
    pub(super) const fn len(self) -> usize {
        self.length() + *MATCH_LENS.start()
    }

    /// Number of bytes less 3, as an index of tables.
    #[inline]
    pub(super) const fn length(self) -> usize {
        self.0 as usize % LENGTHS
    }

    #[inline]
    pub(super) const fn distance(self) -> usize {
        (self.0 >> 8) as usize % DISTANCES_ROOM
    }

    #[inline]
    const fn distance_extra(self) -> u32 {
        self.0 >> 13
    }
}

/// Converts a number of this format, or a length or position in a short content.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "has at most 17 bits")]
pub(super) const fn short(number: usize) -> u32 {
    number as u32
}

/// Symbol of a distance, and its extra bits.
#[inline]
const fn distance_symbol(distance: u32) -> (u32, u32) {
    let less_one = distance - 1;
    // each power of two has two symbols, which differ in the second bit
    let extra_bits = (less_one | 1).ilog2().saturating_sub(1);
    (2 * extra_bits + (less_one >> extra_bits), less_one & ((1 << extra_bits) - 1))
}

/// Number of extra bits of a distance symbol.
const fn distance_extra_bits(symbol: usize) -> u32 {
    (short(symbol) / 2).saturating_sub(1)
}

/// Number of extra bits of a length symbol.
const fn length_extra_bits(symbol: usize) -> u32 {
    if symbol < 265 || symbol == LAST_LENGTH { 0 } else { (short(symbol) - 261) / 4 }
}

/// A code as bits in writing order.
///
/// The first bit is the lowest. Bits 24 and above are the number of bits; 0 means that the symbol
/// has no code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Code(u32);

impl Code {
    pub(super) const NONE: Self = Self(0);

    /// Creates a code from a number of `bits` bits, whose highest bit is written first.
    pub(super) const fn of_number(number: u32, bits: u32) -> Self {
        if bits == 0 { Self(0) } else { Self(number.reverse_bits() >> (32 - bits) | bits << 24) }
    }

    /// Appends the lowest `bits` bits of `more`.
    const fn and(self, more: u32, bits: u32) -> Self {
        if self.len() == 0 { self } else { Self(self.0 + (more << self.len()) + (bits << 24)) }
    }

    #[inline]
    pub(super) const fn bits(self) -> u32 {
        self.0 & 0xff_ffff
    }

    #[inline]
    pub(super) const fn len(self) -> u32 {
        self.0 >> 24
    }
}

/// Lengths of codes in bits, by symbol; 0 means no code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    pub symbols: [u8; SYMBOLS],
    pub distances: [u8; DISTANCES],
}

impl Lengths {
    /// The lengths of the fixed codes of section 3.2.6.
    pub(super) const FIXED: Self = {
        let mut symbols = [8; SYMBOLS];
        let mut symbol = 144;
        while symbol < 280 {
            symbols[symbol] = if symbol < END { 9 } else { 7 };
            symbol += 1;
        }
        Self { symbols, distances: [5; DISTANCES] }
    };
}

/// The codes of bytes, match lengths, distances and the end of a block.
#[derive(Debug)]
pub(super) struct Codes {
    pub bytes: [Code; BYTES],
    /// By length less 3, with extra bits.
    pub lengths: [Code; LENGTHS],
    /// By symbol, without extra bits.
    pub distances: [Code; DISTANCES_ROOM],
    pub end: Code,
}

impl Codes {
    pub(super) const fn of(lengths: &Lengths) -> Self {
        let (symbols, short) = (numbered(&lengths.symbols), numbered(&lengths.distances));
        let mut bytes = [Code(0); BYTES];
        let mut byte = 0;
        while byte < BYTES {
            bytes[byte] = symbols[byte];
            byte += 1;
        }
        // extra bits distinguish the lengths of one symbol
        let mut all = [Code(0); LENGTHS];
        let (mut symbol, mut at) = (FIRST_LENGTH, 0);
        while symbol < LAST_LENGTH {
            let (bits, mut extra) = (length_extra_bits(symbol), 0);
            while extra < 1 << bits {
                all[at] = symbols[symbol].and(extra, bits);
                at += 1;
                extra += 1;
            }
            symbol += 1;
        }
        // the longest match has a symbol of its own
        all[LENGTHS - 1] = symbols[LAST_LENGTH];
        let mut distances = [Code(0); DISTANCES_ROOM];
        symbol = 0;
        while symbol < DISTANCES {
            distances[symbol] = short[symbol];
            symbol += 1;
        }
        Self { bytes, lengths: all, distances, end: symbols[END] }
    }

    /// The bits of a match, and their number.
    #[inline]
    pub(super) fn bits(&self, found: BackReference) -> (u64, u32) {
        let (value, distance) = (self.lengths[found.length()], self.distances[found.distance()]);
        let extra_at = value.len() + distance.len();
        let bits = u64::from(value.bits())
            | u64::from(distance.bits()) << value.len()
            | u64::from(found.distance_extra()) << extra_at;
        (bits, extra_at + DISTANCE_EXTRA_BITS[found.distance()])
    }
}

pub(super) const DISTANCE_EXTRA_BITS: [u32; DISTANCES_ROOM] = {
    let mut all = [0; DISTANCES_ROOM];
    let mut symbol = 0;
    while symbol < DISTANCES {
        all[symbol] = distance_extra_bits(symbol);
        symbol += 1;
    }
    all
};

/// Assigns codes to symbols by the rules of section 3.2.2.
pub(super) const fn numbered<const N: usize>(lengths: &[u8; N]) -> [Code; N] {
    let mut codes = [Code(0); N];
    let (mut len, mut next) = (1, 0);
    while len <= 15 {
        let mut symbol = 0;
        while symbol < N {
            if lengths[symbol] as u32 == len {
                codes[symbol] = Code::of_number(next, len);
                next += 1;
            }
            symbol += 1;
        }
        next *= 2;
        len += 1;
    }
    codes
}
