//! A code for many payloads: complete, with a short description, and short for common symbols.
//!
//! Format: RFC 1951, sections 3.2.2 and 3.2.7. Each payload repeats the description of the code. So
//! neighbours get the same length if that saves more bits of the description than it costs.

use std::fmt;

pub const END: usize = 256;
/// Number of literal and length symbols: bytes, end of block, lengths. The last two never occur.
pub const LENGTHS_END: usize = 286;
pub const DISTANCES: usize = 30;
/// Number of all symbols. Distances follow the lengths here.
pub const SYMBOLS: usize = LENGTHS_END + DISTANCES;
/// Maximum lengths of the codes of symbols, and of the code length alphabet.
const LONGEST: u8 = 15;
const LONGEST_TELLING: u8 = 7;
const TELLING: usize = 19;
/// The order in which the lengths of the code length alphabet are written.
const ORDER: [usize; TELLING] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Symbol of a match of `len + 3` bytes, and the number of its extra bits.
pub fn length_symbol(len: u32) -> (usize, u32) {
    if len == 255 {
        return (285, 0);
    }
    let bits = len.max(1).ilog2().saturating_sub(2);
    ((257 + 4 * bits + (len >> bits)) as usize, bits)
}

#[derive(Clone)]
pub struct Code {
    /// By symbol; 0 is no code.
    pub lengths: [u8; SYMBOLS],
    told_with: [u8; TELLING],
    /// Bits before the first symbol.
    pub head_bits: u32,
}

impl Code {
    /// The fixed codes of section 3.2.6.
    pub fn fixed() -> Self {
        let mut lengths = [8; SYMBOLS];
        lengths[144..256].fill(9);
        lengths[256..280].fill(7);
        lengths[LENGTHS_END..].fill(5);
        Self { lengths, told_with: [0; TELLING], head_bits: 3 }
    }

    /// Computes a code for symbols with these counts, whose description is written `times` times.
    pub fn of(counts: &[f64; SYMBOLS], times: f64) -> Self {
        let mut told_with = [4; TELLING];
        let mut best: Option<(f64, Self)> = None;
        for _ in 0..4 {
            let mut lengths = [0; SYMBOLS];
            let (symbols, distances) = lengths.split_at_mut(LENGTHS_END);
            symbols.copy_from_slice(&lengths_for(&counts[..LENGTHS_END], times, &told_with));
            distances.copy_from_slice(&lengths_for(&counts[LENGTHS_END..], times, &told_with));
            complete(&mut lengths, 0..LENGTHS_END, counts, times);
            complete(&mut lengths, LENGTHS_END..SYMBOLS, counts, times);
            let (bits, code) = Self::with(&lengths, counts, times);
            told_with = code.told_with;
            if best.as_ref().is_none_or(|&(least, _)| bits < least) {
                best = Some((bits, code));
            }
        }
        best.map_or_else(Self::fixed, |(_, code)| code)
    }

    /// The code with these lengths, and the bits of all payloads.
    fn with(lengths: &[u8; SYMBOLS], counts: &[f64; SYMBOLS], times: f64) -> (f64, Self) {
        let (told_with, head_bits) = telling(lengths);
        let symbols = counts.iter().zip(lengths).map(|(count, &len)| count * f64::from(len));
        let bits = symbols.sum::<f64>() + times * f64::from(head_bits);
        (bits, Self { lengths: *lengths, told_with, head_bits })
    }
}

/// Lengths for symbols with these counts, if `told_with` describes them. Some codes may remain
/// unused, see [`complete`].
///
/// A short code takes a large share of all codes. This share has a price, found by bisection.
fn lengths_for(counts: &[f64], times: f64, told_with: &[u8; TELLING]) -> Vec<u8> {
    let sum: f64 = counts.iter().sum();
    let (mut low, mut high) = (sum / 8.0, sum * 64.0 + times);
    let mut found = cheapest(counts, times, told_with, high);
    for _ in 0..12 {
        let price = (low * high).sqrt();
        let lengths = cheapest(counts, times, told_with, price);
        if taken(&lengths) <= ALL {
            (found, high) = (lengths, price);
        } else {
            low = price;
        }
    }
    found
}

/// Number of codes of [`LONGEST`] bits.
const ALL: u32 = 1 << LONGEST;

/// Number of codes of [`LONGEST`] bits that these lengths use.
fn taken(lengths: &[u8]) -> u32 {
    lengths.iter().filter(|&&len| len > 0).map(|len| ALL >> len).sum()
}

/// The cheapest lengths, if each code costs `price` times its share of all codes.
///
/// By dynamic programming over runs of symbols with equal lengths.
fn cheapest(counts: &[f64], times: f64, told_with: &[u8; TELLING], price: f64) -> Vec<u8> {
    let told = |symbol: usize| match told_with[symbol] {
        0 => f64::from(LONGEST_TELLING),
        len => f64::from(len),
    };
    // bits that tell a run, by how long it is and by the length that its symbols have
    let most = counts.len();
    let mut runs = vec![[0.0; LONGEST as usize + 1]; most + 1];
    for run in 1..=most {
        runs[run][0] = match run {
            0..3 => runs[run - 1][0] + told(0),
            3..11 => told(17) + 3.0,
            11..=138 => told(18) + 7.0,
            _ => runs[run - 138][0] + told(18) + 7.0,
        };
        for len in 1..=LONGEST {
            let len = usize::from(len);
            runs[run][len] = match run {
                0..4 => runs[run - 1][len] + told(len),
                4..8 => told(len) + told(16) + 2.0,
                _ => runs[run - 6][len] + told(16) + 2.0,
            };
        }
    }
    // the least up to each symbol, and the last run of it
    let mut best = vec![(0.0, 0, 0_u8)];
    for end in 1..=most {
        let (mut least, mut count) = ((f64::MAX, 0, 0), 0.0);
        for start in (0..end).rev() {
            count += counts[start];
            let before = best[start].0;
            if before + count > least.0 {
                break;
            }
            #[expect(clippy::cast_precision_loss, reason = "at most 286")]
            let run = (end - start) as f64;
            for len in u8::from(count > 0.0)..=LONGEST {
                let pays = if len == 0 { 0.0 } else { run * price * 0.5_f64.powi(i32::from(len)) };
                let bits = count * f64::from(len) + times * runs[end - start][usize::from(len)];
                if before + bits + pays < least.0 {
                    least = (before + bits + pays, start, len);
                }
            }
        }
        best.push(least);
    }
    let (mut lengths, mut end) = (vec![0; most], most);
    while end > 0 {
        let (_, start, len) = best[end];
        lengths[start..end].fill(len);
        end = start;
    }
    lengths
}

/// Shortens codes at the ends of runs until all codes are used, which the format requires.
fn complete(
    lengths: &mut [u8; SYMBOLS],
    range: std::ops::Range<usize>,
    counts: &[f64; SYMBOLS],
    times: f64,
) {
    // at least two symbols have codes
    for at in range.clone() {
        if lengths[range.clone()].iter().filter(|&&len| len > 0).count() < 2 && lengths[at] == 0 {
            lengths[at] = LONGEST;
        }
    }
    loop {
        let left = ALL - taken(&lengths[range.clone()]);
        let mut best: Option<(f64, [u8; SYMBOLS])> = None;
        for start in range.clone() {
            let len = lengths[start];
            let same = |&at: &usize| at >= range.start && at < range.end && lengths[at] == len;
            let (first, last) = (!same(&start.wrapping_sub(1)), !same(&(start + 1)));
            if len < 2 || ALL >> len > left || !(first || last) {
                continue;
            }
            let run = (start..range.end).take_while(|at| same(at)).count();
            for run in [1, run] {
                let takes = (ALL >> len).saturating_mul(u32::try_from(run).unwrap_or(u32::MAX));
                if takes <= left && (run == 1 || first) {
                    let mut shorter = *lengths;
                    shorter[start..start + run].fill(len - 1);
                    let (bits, _) = Code::with(&shorter, counts, times);
                    if best.as_ref().is_none_or(|&(least, _)| bits < least) {
                        best = Some((bits, shorter));
                    }
                }
            }
        }
        match best {
            Some((_, shorter)) => *lengths = shorter,
            None => return assert_eq!(left, 0, "a code of the greatest length can be shortened"),
        }
    }
}

/// Lengths of a complete Huffman code, at most `longest`.
///
/// Of two symbols with equal counts, the later one has no shorter code. Fewer than two symbols get
/// a code for two.
fn huffman(counts: &[f64], longest: u8, lengths: &mut [u8]) {
    let mut order: Vec<usize> = (0..counts.len()).filter(|&at| counts[at] > 0.0).collect();
    for at in 0..counts.len() {
        if order.len() < 2 && !order.contains(&at) {
            order.push(at);
        }
    }
    order.sort_by(|&one, &other| counts[one].total_cmp(&counts[other]).then(other.cmp(&one)));
    let mut least = 0.0;
    loop {
        let depths = depths(order.iter().map(|&at| counts[at].max(least)));
        if depths.iter().all(|&depth| depth <= longest) {
            lengths.fill(0);
            for (&at, depth) in order.iter().zip(depths) {
                lengths[at] = depth;
            }
            return;
        }
        let sum: f64 = counts.iter().sum();
        least = if least == 0.0 { sum / f64::from(1 << longest) / 4.0 } else { least * 1.5 };
    }
}

/// Depths of the leaves of a Huffman tree, given by weight, lightest first.
fn depths(leaves: impl Iterator<Item = f64>) -> Vec<u8> {
    let mut weights: Vec<f64> = leaves.collect();
    let count = weights.len();
    let mut parents = vec![0; 2 * count - 1];
    let (mut leaf, mut node) = (0, count);
    for parent in count..2 * count - 1 {
        let mut weight = 0.0;
        for _ in 0..2 {
            let next = if node == parent || leaf < count && weights[leaf] <= weights[node] {
                leaf += 1;
                leaf - 1
            } else {
                node += 1;
                node - 1
            };
            parents[next] = parent;
            weight += weights[next];
        }
        weights.push(weight);
    }
    let mut depths = vec![0_u8; 2 * count - 1];
    for at in (0..2 * count - 2).rev() {
        depths[at] = depths[parents[at]].saturating_add(1);
    }
    depths.truncate(count);
    // of equal weight, an inner node goes after a leaf: depths never rise with the weight
    depths.sort_by(|one, other| other.cmp(one));
    depths
}

/// Lengths of the codes that describe these lengths, and the bits of the whole description.
fn telling(lengths: &[u8; SYMBOLS]) -> ([u8; TELLING], u32) {
    let without_zeros = |lengths: &[u8], least: usize| {
        lengths.iter().rposition(|&len| len > 0).map_or(least, |at| least.max(at + 1))
    };
    let (symbols, distances) = lengths.split_at(LENGTHS_END);
    let mut told = symbols[..without_zeros(symbols, END + 1)].to_vec();
    told.extend_from_slice(&distances[..without_zeros(distances, 1)]);
    let (mut counts, mut extra_bits) = ([0.0; TELLING], 0);
    for run in told.chunk_by(|one, other| one == other) {
        let (symbol, mut left) = (usize::from(run[0]), run.len());
        if symbol == 0 {
            while left >= 11 {
                left -= left.min(138);
                counts[18] += 1.0;
                extra_bits += 7;
            }
            if left >= 3 {
                left = 0;
                counts[17] += 1.0;
                extra_bits += 3;
            }
        } else if left >= 4 {
            counts[symbol] += 1.0;
            left -= 1;
            while left >= 3 {
                left -= left.min(6);
                counts[16] += 1.0;
                extra_bits += 2;
            }
        }
        for _ in 0..left {
            counts[symbol] += 1.0;
        }
    }
    let mut told_with = [0; TELLING];
    huffman(&counts, LONGEST_TELLING, &mut told_with);
    let codes = counts.iter().zip(told_with).map(|(&count, len)| count * f64::from(len));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and small")]
    let codes_bits = codes.sum::<f64>() as u32;
    let last =
        ORDER.iter().rposition(|&symbol| told_with[symbol] > 0).map_or(4, |at| at.max(3) + 1);
    let told_bits = 3 * u32::try_from(last).unwrap_or(0);
    (told_with, 3 + 5 + 5 + 4 + told_bits + codes_bits + extra_bits)
}

/// Writes lengths in the form of `src/deflate/presets/table.rs`.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folded = |lengths: &[u8]| {
            let end = lengths.iter().rposition(|&len| len > 0).map_or(0, |at| at + 1);
            let runs = lengths[..end].chunk_by(|one, other| one == other);
            let run = |run: &[u8]| match run.len() {
                1 => run[0].to_string(),
                times => format!("{}x{times}", run[0]),
            };
            runs.map(run).collect::<Vec<_>>().join(" ")
        };
        let (symbols, distances) = self.lengths.split_at(LENGTHS_END);
        writeln!(f, "    Preset {{")?;
        writeln!(f, "        symbols: \"{}\",", folded(symbols))?;
        writeln!(f, "        distances: \"{}\",", folded(distances))?;
        writeln!(f, "        told_with: {:?},", self.told_with)?;
        writeln!(f, "    }},")
    }
}
