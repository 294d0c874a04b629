//! Speed of `Differ`, for contents of 20 KB and 2 MB with a few changed places each.
//!
//! `cargo run --release -p gitpack --example diff_speed [ROUNDS]`. Every delta is applied and
//! compared before it is timed. Prints the size of the deltas, and MB of target a second for each
//! round.

use std::error::Error;
use std::time::Instant;

use gitpack::{Differ, delta};

/// Bytes diffed in a round, so that both sizes take about as long.
const ROUND_BYTES: usize = 400_000_000;

/// Pseudo-random numbers below 2^16 (xorshift64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u16 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 48) as u16
    }

    fn below(&mut self, limit: usize) -> usize {
        (usize::from(self.next()) << 16 | usize::from(self.next())) % limit
    }
}

/// Lines of words, like source code.
fn text(noise: &mut Noise, len: usize) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "let", "return", "entry", "length", "if", "the base", "index", "(", ");", "= 0", "offset",
        "copy",
    ];
    let mut text = Vec::new();
    while text.len() < len {
        for _ in 0..=noise.below(9) {
            text.extend_from_slice(WORDS[noise.below(WORDS.len())].as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(format!("{}\n", noise.below(100_000)).as_bytes());
    }
    text.truncate(len);
    text
}

/// `base` with `edits` places, all within `span` bytes, replaced by other text.
fn edited(noise: &mut Noise, base: &[u8], edits: usize, span: usize) -> Vec<u8> {
    let mut target = base.to_vec();
    let start = noise.below(base.len() - span + 1);
    for _ in 0..edits {
        let at = start + noise.below(span);
        let (removed, inserted) = (noise.below(80), noise.below(80));
        let at = at.min(target.len());
        target.splice(at..target.len().min(at + removed), text(noise, inserted));
    }
    target
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(3), |rounds| rounds.parse::<u32>())?;
    let cases = [
        ("20 KB, 1 edit", 20_000, 1, 20_000),
        ("20 KB, 5 edits in 2 KB", 20_000, 5, 2_000),
        ("20 KB, 10 edits", 20_000, 10, 20_000),
        ("2 MB, 1 edit", 2_000_000, 1, 2_000_000),
        ("2 MB, 5 edits in 20 KB", 2_000_000, 5, 20_000),
        ("2 MB, 50 edits", 2_000_000, 50, 2_000_000),
        ("2 MB, all new", 2_000_000, 0, 0),
    ];
    let mut differ = Differ::new();
    let mut out = Vec::new();
    for (name, len, edits, span) in cases {
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        let pairs: Vec<_> = (0..(4_000_000 / len).max(2))
            .map(|_| {
                let base = text(&mut noise, len);
                let target = if edits == 0 {
                    text(&mut noise, len)
                } else {
                    edited(&mut noise, &base, edits, span)
                };
                (base, target)
            })
            .collect();
        let mut delta_bytes = 0;
        for (base, target) in &pairs {
            assert!(differ.diff(base, target, usize::MAX, &mut out), "{name}: no delta");
            assert!(delta::apply(base, &out, target.len())? == *target, "{name}: wrong delta");
            delta_bytes += out.len();
        }
        let bytes: usize = pairs.iter().map(|(_, target)| target.len()).sum();
        let repeats = if edits == 0 { 2 } else { ROUND_BYTES / bytes };
        let mut speeds = Vec::new();
        for _ in 0..rounds {
            let start = Instant::now();
            for (base, target) in pairs.iter().cycle().take(pairs.len() * repeats) {
                assert!(differ.diff(base, target, usize::MAX, &mut out));
            }
            let microseconds = start.elapsed().as_micros().max(1);
            speeds.push(((bytes * repeats) as u128 / microseconds).to_string());
        }
        let mean = delta_bytes / pairs.len();
        println!("{name}: delta of {mean} bytes, {} MB/s", speeds.join(" "));
    }
    Ok(())
}
