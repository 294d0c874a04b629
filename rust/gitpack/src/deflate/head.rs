//! The beginning of a stream: the header of zlib, and the description of the codes of its one
//! block.
//!
//! RFC 1951, section 3.2.7. Made at compile time, and copied into each stream.

use super::codes::{Code, DISTANCES, Lengths, SYMBOLS, numbered, short};

/// The first bits of a stream, up to the first symbol of its one block.
#[derive(Debug)]
pub(super) struct BlockHead {
    bytes: [u8; Self::MOST_BYTES],
    bits: u32,
}

/// The header of a zlib stream: a window of 32 KiB, compressed by the fastest method.
pub(super) const ZLIB_HEADER: u32 = 0x0178;

/// Size of the code length alphabet: lengths of 0 to 15, and three repetitions.
pub(super) const TELLING: usize = 19;
/// Repeats the previous length 3 to 6 times, with 2 extra bits.
const SAME: usize = 16;
/// Repeats 0 from 3 to 10 times, with 3 extra bits.
const FEW_ZEROS: usize = 17;
/// Repeats 0 from 11 to 138 times, with 7 extra bits.
const MANY_ZEROS: usize = 18;
/// The order in which the lengths of the codes of this alphabet are written.
const ORDER: [usize; TELLING] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

impl BlockHead {
    /// Maximum length of the heads of all choices.
    pub(super) const MOST_BYTES: usize = 64;

    pub(super) const FIXED: Self = Self::of_type(0b01);

    /// Begins a stream whose only block has this type.
    const fn of_type(block: u32) -> Self {
        let mut head = Self { bytes: [0; Self::MOST_BYTES], bits: 0 };
        head.add(ZLIB_HEADER, 16);
        head.add(0b1 | block << 1, 3);
        head
    }

    /// The bytes, and the number of their bits in use.
    #[inline]
    pub(super) const fn bits(&self) -> (&[u8; Self::MOST_BYTES], u32) {
        (&self.bytes, self.bits)
    }

    #[inline]
    pub(super) const fn len(&self) -> u32 {
        self.bits
    }

    const fn add(&mut self, bits: u32, count: u32) {
        let mut bit = 0;
        while bit < count {
            self.bytes[(self.bits / 8) as usize] |= ((bits >> bit & 1) as u8) << (self.bits % 8);
            self.bits += 1;
            bit += 1;
        }
    }

    const fn add_code(&mut self, code: Code) {
        assert!(code.len() > 0, "what is told has a code");
        self.add(code.bits(), code.len());
    }

    /// Writes the head for codes of these lengths. `told_with` has the lengths of the codes of the
    /// code length alphabet.
    pub(super) const fn of(lengths: &Lengths, told_with: &[u8; TELLING]) -> Self {
        let mut head = Self::of_type(0b10);
        // the lengths of both alphabets, without zeros at the end
        let (mut symbols, mut distances) = (SYMBOLS, DISTANCES);
        while lengths.symbols[symbols - 1] == 0 {
            symbols -= 1;
        }
        while distances > 1 && lengths.distances[distances - 1] == 0 {
            distances -= 1;
        }
        let mut told = TELLING;
        while told_with[ORDER[told - 1]] == 0 {
            told -= 1;
        }
        head.add(short(symbols) - 257, 5);
        head.add(short(distances) - 1, 5);
        head.add(short(told) - 4, 4);
        let mut at = 0;
        while at < told {
            head.add(told_with[ORDER[at]] as u32, 3);
            at += 1;
        }
        let codes = numbered(told_with);
        let all = symbols + distances;
        at = 0;
        while at < all {
            let len = lengths.told(symbols, at);
            let mut run = 1;
            while at + run < all && lengths.told(symbols, at + run) == len {
                run += 1;
            }
            at += run;
            head.add_run(len, short(run), &codes);
        }
        head
    }

    /// Writes a length that `run` symbols in succession have.
    const fn add_run(&mut self, len: u8, mut run: u32, codes: &[Code; TELLING]) {
        if len == 0 {
            while run >= 11 {
                let now = if run < 138 { run } else { 138 };
                self.add_code(codes[MANY_ZEROS]);
                self.add(now - 11, 7);
                run -= now;
            }
            if run >= 3 {
                self.add_code(codes[FEW_ZEROS]);
                self.add(run - 3, 3);
                run = 0;
            }
        } else if run >= 4 {
            self.add_code(codes[len as usize]);
            run -= 1;
            while run >= 3 {
                let now = if run < 6 { run } else { 6 };
                self.add_code(codes[SAME]);
                self.add(now - 3, 2);
                run -= now;
            }
        }
        while run > 0 {
            self.add_code(codes[len as usize]);
            run -= 1;
        }
    }
}

impl Lengths {
    /// The length at `at` of the sequence: the first `symbols` lengths, then the distances.
    const fn told(&self, symbols: usize, at: usize) -> u8 {
        if at < symbols { self.symbols[at] } else { self.distances[at - symbols] }
    }
}
