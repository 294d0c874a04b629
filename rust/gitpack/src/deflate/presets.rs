//! Codes that are told in a few bytes, made once for kinds of content that packs are full of.
//!
//! A block with codes of its own tells them first: RFC 1951, section 3.2.7. What tells these is
//! the same bits each time, and written at once. They are as good as equal codes for neighbours
//! allow, since runs of equal lengths are told briefly, and byte values that such content does not
//! have get none. How they were found: `docs/decisions/compression.rst`.

use super::codes::{Codes, Lengths};
use super::costs::CODES;
use super::head::{BlockHead, TELLING};

/// Lengths of codes, by symbol. `5x3 9` is 5, 5, 5, 9; the rest is 0, which is no code.
struct Preset {
    symbols: &'static str,
    distances: &'static str,
    /// By symbol of what tells the lengths, the length of its own code.
    told_with: [u8; TELLING],
}

/// Commits: ids in hexadecimal, names, and words.
const COMMIT: Preset = Preset {
    symbols: "0x10 5 0x21 4 11x2 9x13 5x10 9x5 10x34 5x6 6x7 5x2 6x7 8x4 0x133 8x6 10x17",
    distances: "4x11 5x10",
    told_with: [0, 0, 0, 0, 5, 3, 5, 0, 5, 4, 4, 4, 0, 0, 0, 0, 1, 5, 4],
};

/// Deltas of git-cinnabar's commits of manifests: ids in hexadecimal, and few other bytes.
const MANIFEST_COMMIT: Preset = Preset {
    symbols: "0 6 0x3 7 0x2 6 0x31 6 0x4 6 0x2 4x10 0x9 6 0x25 6 0x3 5x6 0x41 6x2 0x54 6 0x55 6x2 7",
    distances: "4x16",
    told_with: [3, 0, 0, 0, 5, 5, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 3],
};

/// Trees whose names are ids: as much in hexadecimal as of any bytes.
const NOTES: Preset = Preset {
    symbols: "6 9x47 5x10 9x39 5x6 9x162",
    distances: "5x5 4x12 6x6",
    told_with: [0, 0, 0, 0, 4, 3, 4, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0],
};

/// What git-cinnabar keeps of a changeset: ids in hexadecimal, and a path or two.
const CHANGESET: Preset = Preset {
    symbols: "10 0x9 7 0x21 7 0x12 7x2 5x11 8 0x36 7x2 4x6 7x6 6x7 5 8x6 0x133 10x19",
    distances: "4x16",
    told_with: [0, 0, 0, 0, 4, 4, 4, 2, 4, 0, 4, 0, 0, 0, 0, 0, 2, 4, 3],
};

/// Likewise, with many paths.
const PATHS: Preset = Preset {
    symbols: "10x10 6 0x21 6 0x12 5x13 11x34 10x5 5x9 6x13 9x4 0x133 9x20",
    distances: "5x6 4x13",
    told_with: [0, 0, 0, 0, 5, 3, 4, 0, 0, 4, 4, 5, 0, 0, 0, 0, 1, 0, 3],
};

/// Sources, and deltas of them.
const SOURCE: Preset = Preset {
    symbols: "9x10 6 11x19 10x2 4 9x7 7x11 9x7 8x12 9x25 6 12 6x4 5 6x4 9x2 6x5 9 5x4 8x10 12x19 7 \
              12x110 4 5 6x4 7x7 10x11 12x4",
    distances: "7 5 7x6 4x13 5x2 7x5",
    told_with: [0, 0, 0, 0, 5, 4, 4, 4, 5, 3, 5, 5, 4, 0, 0, 0, 1, 0, 0],
};

/// Lines of sources in short deltas: told in few bytes.
const INSERTED: Preset = Preset {
    symbols: "9x10 5 10x21 4 8x55 10x7 6x6 4 6x11 10 5x4 8x7 9 11x132 6x4 8x7 10x7",
    distances: "5x7 4x12 5",
    told_with: [0, 0, 0, 0, 4, 3, 4, 0, 4, 5, 3, 5, 0, 0, 0, 0, 1, 0, 0],
};

/// All codes that a block may have: the fixed ones, which are told in 3 bits, and the presets.
pub(super) static CHOICES: [Choice; CODES] = [
    Choice { head: BlockHead::FIXED, codes: Codes::of(&Lengths::FIXED) },
    COMMIT.choice(),
    MANIFEST_COMMIT.choice(),
    NOTES.choice(),
    CHANGESET.choice(),
    PATHS.choice(),
    SOURCE.choice(),
    INSERTED.choice(),
];

/// One of the codes that a block may have.
#[derive(Debug)]
pub(super) struct Choice {
    pub head: BlockHead,
    pub codes: Codes,
}

impl Choice {
    /// Bits of a stream up to its checksum without its runs.
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

/// The lengths that a preset names.
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

/// The number that begins there, and where it ends.
const fn number(text: &[u8], mut at: usize) -> (u8, usize) {
    let mut number = 0;
    while at < text.len() && text[at].is_ascii_digit() {
        number = 10 * number + text[at] - b'0';
        at += 1;
    }
    (number, at)
}
