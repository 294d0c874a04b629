//! Lengths of the preset codes.
//!
//! Written by `examples/deflate_presets`: do not edit. The comment of a preset lists its payloads,
//! by their bytes. `docs/decisions/compression.rst` names the packs that the presets are made from.

use super::Preset;

#[rustfmt::skip]
pub(super) const PRESETS: [Preset; 7] = [
    // commits 99 %
    Preset {
        symbols: "0x10 5 0x21 4 11x7 8x7 11 5x10 8x11 11x28 5x4 4 5 6x13 5 8x6 0x133 10x30",
        distances: "4x2 5x28",
        told_with: [0, 0, 0, 0, 3, 3, 5, 0, 4, 0, 5, 4, 0, 0, 0, 0, 1, 5, 5],
    },
    // deltas of commits 100 %
    Preset {
        symbols: "0 6 8x7 0x31 6 10x7 4x10 0x9 6 0x25 7 0x3 4 5x5 0x38 7x5 0x54 6 0x47 10x13",
        distances: "4x16",
        told_with: [4, 0, 0, 0, 3, 4, 3, 4, 4, 0, 4, 0, 0, 0, 0, 0, 2, 4, 3],
    },
    // trees 100 %
    Preset {
        symbols: "6 9x47 5x10 9x39 5x6 9x162",
        distances: "6x11 1 4 6x17",
        told_with: [0, 5, 0, 0, 5, 4, 3, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0],
    },
    // blobs 81 %, commits 19 %
    Preset {
        symbols: "8 0x9 5 0x21 5 0x10 8x5 5x10 11x37 8 0 4x6 7x13 4 8x6 0x133 7 11x19",
        distances: "4x16",
        told_with: [5, 0, 0, 0, 4, 4, 0, 4, 3, 0, 0, 4, 0, 0, 0, 0, 1, 4, 5],
    },
    // blobs 82 %, deltas of blobs 14 %
    Preset {
        symbols: "12x10 6 14x21 4 9x7 7x11 8x37 10x7 7 14 5 7 6x2 4 6 7x2 5 10 8 6 7 5x2 6 10 5x3 6 8x4 10x6 14x130 4 5x2 6 7x7 8x5 12x12",
        distances: "5 9x4 8 5x4 4x11 5x4 8x5",
        told_with: [0, 0, 0, 0, 5, 3, 4, 4, 4, 5, 5, 0, 5, 0, 4, 0, 1, 0, 0],
    },
    // deltas of blobs 54 %, commits 28 %, blobs 18 %
    Preset {
        symbols: "10x10 6 10x14 12x7 3 9x7 7x13 8x7 9x37 5x4 4 6x11 7 5x4 8x7 12x133 7x7 10x13",
        distances: "4 6x4 5x2 4x13",
        told_with: [0, 0, 0, 5, 4, 4, 4, 4, 4, 4, 4, 0, 5, 0, 0, 0, 1, 0, 0],
    },
    // deltas of blobs 99 %
    Preset {
        symbols: "9x10 6 10x21 4 8x7 7x11 10x7 8x6 9x31 6 10 6x4 5 6x4 10 8 6x5 9 6x4 8x10 11x19 6 11x31 8 11x78 4 5 6x7 8x7 11x12",
        distances: "4 8x5 6x2 4x13 6x4 8 9x4",
        told_with: [0, 0, 0, 0, 4, 6, 3, 6, 3, 4, 4, 5, 0, 0, 0, 0, 1, 0, 0],
    },
];
