//! Makes the preset codes of [`gitpack::QuickDeflater`] from packs that amalgam wrote.
//!
//! `cargo run --release -p gitpack --example deflate_presets GIT_DIR... [-- GIT_DIR...]` prints
//! `src/deflate/presets/table.rs`. Equal packs give an equal table. All directories have the same
//! weight, independent of their number of objects. Directories after `--` are only measured: the
//! sizes of their payloads with the current and with the new presets go to stderr.
//!
//! The method is that of Linde, Buzo and Gray, with one code for each class of payloads at first.
//! Each payload is assigned to the code that makes it shortest, then each code is recomputed for
//! its payloads. That is repeated a few times. `docs/decisions/compression.rst` has the figures.

mod code;
mod packs;

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use code::{Code, END, SYMBOLS};
use gitpack::QuickDeflater;
use packs::{KINDS, Stored};

/// Number of presets, without the fixed codes.
const PRESETS: usize = 7;
/// Number of payloads taken from each directory, at even distances.
const MOST_PAYLOADS: usize = 30_000;
/// Number of iterations.
const ROUNDS: usize = 8;

/// One payload: its symbols and sizes.
struct Payload {
    kind: usize,
    weight: f64,
    /// Symbols with their counts, distances after the others.
    symbols: Vec<(u16, u16)>,
    /// Number of extra bits.
    extra_bits: u32,
    /// Size as a stored block, in bits.
    stored_bits: u32,
}

impl Payload {
    fn new(stored: &Stored, weight: f64, deflater: &mut QuickDeflater) -> Self {
        let counts = deflater.count(&stored.payload);
        let mut all = [0_u32; SYMBOLS];
        let mut extra_bits = 0;
        all[..256].copy_from_slice(&counts.bytes);
        all[END] = 1;
        for (len, &count) in (0_u32..).zip(&counts.lengths) {
            let (symbol, bits) = code::length_symbol(len);
            all[symbol] += count;
            extra_bits += count * bits;
        }
        for (symbol, &count) in (0_u32..).zip(&counts.distances[..code::DISTANCES]) {
            all[code::LENGTHS_END + symbol as usize] += count;
            extra_bits += count * (symbol / 2).saturating_sub(1);
        }
        let symbols = (0..).zip(all).filter(|&(_, count)| count > 0);
        let symbols = symbols.map(|(symbol, count)| (symbol, count.try_into().unwrap_or(u16::MAX)));
        Self {
            kind: stored.kind,
            weight,
            symbols: symbols.collect(),
            extra_bits,
            stored_bits: 40 + 8 * u32::try_from(stored.payload.len()).unwrap_or(u32::MAX / 16),
        }
    }

    /// The initial preset: by kind, and blobs also by length.
    fn class(&self) -> usize {
        let long = usize::from(self.stored_bits > 8 * 512);
        match KINDS[self.kind] {
            "blobs" => 3 + long,
            "deltas of blobs" => 5 + long,
            _ => self.kind,
        }
    }

    /// Size with `code`, in bits; `None` if a symbol has no code.
    fn bits(&self, code: &Code) -> Option<u32> {
        let mut bits = code.head_bits + self.extra_bits;
        for &(symbol, count) in &self.symbols {
            match code.lengths[usize::from(symbol)] {
                0 => return None,
                len => bits += u32::from(len) * u32::from(count),
            }
        }
        Some(bits)
    }

    /// The code that makes it shortest, and the size in bits; `None` if a stored block is shorter.
    fn shortest(&self, codes: &[Code]) -> (Option<usize>, u32) {
        let of =
            codes.iter().enumerate().filter_map(|(at, code)| Some((Some(at), self.bits(code)?)));
        of.chain([(None, self.stored_bits)]).min_by_key(|&(_, bits)| bits).unwrap_or((None, 0))
    }
}

/// Assigns each payload to the code that makes it shortest, and recomputes each code.
///
/// The first code, the fixed one, stays. Returns the bits of all payloads with the old codes.
fn improve(payloads: &[Payload], codes: &mut [Code]) -> f64 {
    let (mut members, mut all_bits) = (vec![Vec::new(); codes.len()], 0.0);
    for payload in payloads {
        let (at, bits) = payload.shortest(codes);
        all_bits += payload.weight * f64::from(bits);
        if let Some(at) = at {
            members[at].push(payload);
        }
    }
    for at in 1..codes.len() {
        if !members[at].is_empty() {
            let others: Vec<Code> = codes
                .iter()
                .enumerate()
                .filter(|&(other, _)| other != at)
                .map(|(_, code)| code.clone())
                .collect();
            let otherwise: Vec<u32> =
                members[at].iter().map(|payload| payload.shortest(&others).1).collect();
            let made = made_for(&members[at], &otherwise);
            codes[at] = made;
        }
    }
    all_bits
}

/// Computes a code for these payloads. `otherwise` has the bits of each with another code.
///
/// A symbol of few payloads may get no code. Four limits for that are tried.
fn made_for(payloads: &[&Payload], otherwise: &[u32]) -> Code {
    let (mut counts, mut having, mut sum) = ([0.0; SYMBOLS], [0.0; SYMBOLS], 0.0);
    for payload in payloads {
        sum += payload.weight;
        for &(symbol, count) in &payload.symbols {
            counts[usize::from(symbol)] += payload.weight * f64::from(count);
            having[usize::from(symbol)] += payload.weight;
        }
    }
    let mut best: Option<(f64, Code)> = None;
    for limit in [0.0, 0.001, 0.005, 0.02] {
        let mut counts = counts;
        for (count, having) in counts.iter_mut().zip(having) {
            if having < limit * sum {
                *count = 0.0;
            }
        }
        let code = Code::of(&counts, sum);
        let bits = |(payload, &otherwise): (&&Payload, &u32)| {
            payload.weight * f64::from(payload.bits(&code).unwrap_or(u32::MAX).min(otherwise))
        };
        let bits = payloads.iter().zip(otherwise).map(bits).sum();
        if best.as_ref().is_none_or(|&(least, _)| bits < least) {
            best = Some((bits, code));
        }
    }
    best.map_or_else(Code::fixed, |(_, code)| code)
}

/// The fixed code, and the presets for these payloads.
fn presets(payloads: &[Payload]) -> Vec<Code> {
    let mut codes = vec![Code::fixed()];
    for class in 0..PRESETS {
        let members: Vec<&Payload> =
            payloads.iter().filter(|payload| payload.class() == class).collect();
        codes.push(made_for(&members, &vec![u32::MAX; members.len()]));
    }
    let mut best = (f64::MAX, codes.clone());
    for round in 0..ROUNDS {
        let before = codes.clone();
        let bits = improve(payloads, &mut codes);
        eprintln!("round {round}: {bits:.5}");
        if bits < best.0 {
            best = (bits, before);
        }
    }
    best.1
}

/// The kinds of payloads of a preset, most bytes first.
fn users(payloads: &[Payload], codes: &[Code], at: usize) -> String {
    let mut weights = [0.0; KINDS.len()];
    for payload in payloads.iter().filter(|payload| payload.shortest(codes).0 == Some(at)) {
        weights[payload.kind] += payload.weight * f64::from(payload.stored_bits);
    }
    let sum: f64 = weights.iter().sum();
    let mut kinds: Vec<(f64, &str)> = weights.into_iter().zip(KINDS).collect();
    kinds.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let kinds = kinds.iter().filter(|(weight, _)| weight / sum > 0.05);
    kinds
        .map(|(weight, kind)| format!("{kind} {:.0} %", 100.0 * weight / sum))
        .collect::<Vec<_>>()
        .join(", ")
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directories = arguments.iter().filter(|&argument| argument != "--");
    let made_from = arguments.iter().position(|argument| argument == "--");
    let made_from = made_from.unwrap_or(arguments.len());
    let mut deflater = QuickDeflater::default();
    let (mut payloads, mut ends) = (Vec::new(), Vec::new());
    for directory in directories {
        let stored = packs::payloads(Path::new(directory))?;
        let step = stored.len().div_ceil(MOST_PAYLOADS).max(1);
        let taken = stored.iter().step_by(step);
        let bytes: usize = taken.clone().map(|stored| stored.payload.len()).sum();
        #[expect(clippy::cast_precision_loss, reason = "a weight")]
        let weight = 1.0 / (8 * bytes) as f64;
        let mut room = vec![0; QuickDeflater::bound(packs::LONGEST)];
        let now: usize =
            taken.clone().map(|one| deflater.deflate_to(&one.payload, &mut room)).sum();
        payloads.extend(taken.map(|stored| Payload::new(stored, weight, &mut deflater)));
        ends.push((directory, payloads.len(), bytes, now));
    }
    let made_from = made_from.checked_sub(1).and_then(|last| ends.get(last));
    let made_from = made_from.map_or(0, |&(_, end, ..)| end);
    if made_from == 0 {
        return Err("no payloads: name git directories that amalgam wrote".into());
    }
    let codes = presets(&payloads[..made_from]);
    let mut start = 0;
    for (directory, end, bytes, now) in ends {
        // each has two bytes of header and four of checksum
        let bytes_of = |payload: &Payload| payload.shortest(&codes).1.div_ceil(8) as usize + 6;
        let then: usize = payloads[start..end].iter().map(bytes_of).sum();
        eprintln!("{directory}: {} payloads, {bytes} bytes, {now} now, {then} then", end - start);
        start = end;
    }
    let mut table = String::from(HEAD);
    for (at, code) in codes.iter().enumerate().skip(1) {
        writeln!(table, "    // {}", users(&payloads[..made_from], &codes, at))?;
        write!(table, "{code}")?;
    }
    println!("{table}];");
    Ok(())
}

const HEAD: &str = "\
//! Lengths of the preset codes.
//!
//! Written by `examples/deflate_presets`: do not edit. The comment of a preset lists its payloads,
//! by their bytes. `docs/decisions/compression.rst` names the packs that the presets are made from.

use super::Preset;

#[rustfmt::skip]
pub(super) const PRESETS: [Preset; 7] = [
";
