//! The fixed codes of RFC 1951, sections 3.2.5 and 3.2.6, as bits ready to be written.

/// Bits in the order in which they are written, the first one lowest, and above 16 of them their
/// number. Of lengths, the bits that follow a symbol are among them.
pub(super) type Code = u32;

/// What ends a block.
pub(super) const END: Code = 7 << 16;

/// By byte.
pub(super) const LITERALS: [Code; 256] = {
    let mut codes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        codes[byte as usize] =
            if byte < 144 { code(0x30 + byte, 8) } else { code(0x190 + byte - 144, 9) };
        byte += 1;
    }
    codes
};

/// The shortest match of the format, and the longest.
pub(super) const MATCH_LENS: std::ops::RangeInclusive<usize> = 3..=258;

/// By how much longer a match is than the shortest.
const LENGTHS: [Code; 256] = {
    let mut codes = [0; 256];
    // of each symbol, the lengths that it stands for are told apart by the bits after it
    let (mut symbol, mut len) = (257, 0);
    while symbol < 285 {
        let extra_bits = if symbol < 265 { 0 } else { (symbol - 261) / 4 };
        let mut extra = 0;
        while extra < 1 << extra_bits {
            let code = if symbol < 280 { code(symbol - 256, 7) } else { code(symbol - 88, 8) };
            let bits = code >> 16;
            codes[len] = code & 0xffff | extra << bits | (bits + extra_bits) << 16;
            len += 1;
            extra += 1;
        }
        symbol += 1;
    }
    // the longest match has a symbol of its own
    codes[255] = code(285 - 88, 8);
    codes
};

/// The code of a number, whose highest bit goes first.
const fn code(number: u32, bits: u32) -> Code {
    number.reverse_bits() >> (32 - bits) | bits << 16
}

/// A match of so many bytes.
#[inline]
pub(super) fn length(len: usize) -> Code {
    LENGTHS[len - MATCH_LENS.start()]
}

/// So many bytes back: the bits to be written, and their number.
#[inline]
pub(super) fn distance(distance: usize) -> (u64, u32) {
    const SYMBOL_BITS: u32 = 5;
    let less_one = distance as u64 - 1;
    // two symbols for each power of two, told apart by the second bit; the others follow
    let extra_bits = (less_one | 1).ilog2().saturating_sub(1);
    let symbol = 2 * u64::from(extra_bits) + (less_one >> extra_bits);
    let extra = less_one & ((1 << extra_bits) - 1);
    let code = symbol.reverse_bits() >> (u64::BITS - SYMBOL_BITS);
    (code | extra << SYMBOL_BITS, SYMBOL_BITS + extra_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of a code in the order in which they are written.
    fn shown(bits: u64, count: u32) -> String {
        (0..count).map(|bit| if bits >> bit & 1 == 1 { '1' } else { '0' }).collect()
    }

    fn shown_code(code: Code) -> String {
        shown(u64::from(code & 0xffff), code >> 16)
    }

    #[test]
    fn literals_and_lengths_are_those_of_the_standard() {
        // RFC 1951: the codes of section 3.2.6, bits after them by section 3.2.5, lowest first
        for (byte, code) in
            [(0, "00110000"), (143, "10111111"), (144, "110010000"), (255, "111111111")]
        {
            assert_eq!(shown_code(LITERALS[byte]), code, "{byte}");
        }
        assert_eq!(shown_code(END), "0000000");
        for (len, code, extra) in [
            (3, "0000001", ""),
            (10, "0001000", ""),
            (11, "0001001", "0"),
            (12, "0001001", "1"),
            (114, "0010111", "1111"),
            (115, "11000000", "0000"),
            (131, "11000001", "00000"),
            (257, "11000100", "01111"),
            (258, "11000101", ""),
        ] {
            let code = format!("{code}{extra}");
            assert_eq!(shown_code(length(len)), code, "{len}");
        }
    }

    #[test]
    fn distances_are_those_of_the_standard() {
        for (back, symbol, extra) in [
            (1, "00000", ""),
            (4, "00011", ""),
            (5, "00100", "0"),
            (6, "00100", "1"),
            (7, "00101", "0"),
            (32, "01001", "111"),
            (33, "01010", "0000"),
            (24_576, "11100", "1111111111111"),
            (24_577, "11101", "0000000000000"),
            (32_768, "11101", "1111111111111"),
        ] {
            let (bits, count) = distance(back);
            assert_eq!(shown(bits, count), format!("{symbol}{extra}"), "{back}");
        }
    }
}
