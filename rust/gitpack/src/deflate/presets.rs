//! Preset codes for the most frequent kinds of content in packs.
//!
//! A block with codes of its own begins with their description (RFC 1951, section 3.2.7). The
//! description of a preset is made at compile time and copied. It is short, because neighbouring
//! symbols have equal lengths. Bytes that such content never has get no code.
//! `examples/deflate_presets` makes the table, see `docs/decisions/compression.rst`.

mod table;

use super::codes::{Codes, Lengths};
use super::head::{BlockHead, TELLING};
use table::PRESETS;

/// Number of choices: the fixed codes and seven presets.
pub(super) const CODES: usize = 8;

/// Lengths of codes, by symbol. `5x3 9` is 5, 5, 5, 9; all further symbols have no code.
struct Preset {
    symbols: &'static str,
    distances: &'static str,
    /// Lengths of the codes of the code length alphabet, by symbol.
    told_with: [u8; TELLING],
}

/// All choices of codes for a block: the fixed codes, which need no description, and the presets.
pub(super) static CHOICES: [Choice; CODES] = {
    let [a, b, c, d, e, f, g] = PRESETS;
    let fixed = Choice { head: BlockHead::FIXED, codes: Codes::of(&Lengths::FIXED) };
    [fixed, a.choice(), b.choice(), c.choice(), d.choice(), e.choice(), f.choice(), g.choice()]
};

/// One choice of codes for a block.
#[derive(Debug)]
pub(super) struct Choice {
    pub head: BlockHead,
    pub codes: Codes,
}

impl Choice {
    /// Bits of a stream before its checksum, except for its runs.
    #[inline]
    pub(super) const fn bits(&self) -> u32 {
        self.head.len() + self.codes.end.len()
    }
}

impl Preset {
    const fn choice(&self) -> Choice {
        let lengths =
            Lengths { symbols: unfolded(self.symbols), distances: unfolded(self.distances) };
        Choice { head: BlockHead::of(&lengths, &self.told_with), codes: Codes::of(&lengths) }
    }
}

/// Parses the lengths of a preset.
const fn unfolded<const N: usize>(runs: &str) -> [u8; N] {
    let (runs, mut all) = (runs.as_bytes(), [0; N]);
    let (mut at, mut symbol) = (0, 0);
    while at < runs.len() {
        let (len, end) = number(runs, at);
        let (mut times, end) =
            if end < runs.len() && runs[end] == b'x' { number(runs, end + 1) } else { (1, end) };
        while times > 0 {
            all[symbol] = len;
            symbol += 1;
            times -= 1;
        }
        at = end + 1;
    }
    all
}

/// Parses the number at `at`. Returns it and the position after it.
const fn number(text: &[u8], mut at: usize) -> (u8, usize) {
    let mut number = 0;
    while at < text.len() && text[at].is_ascii_digit() {
        number = 10 * number + text[at] - b'0';
        at += 1;
    }
    (number, at)
}
