//! Times SHA-1 here: `cargo run --release -p sha1lanes --example throughput`.
//!
//! Sides: `portable`, the same again (the A/A run: a ratio inside its band is no result), the lanes
//! with 1 to 4 messages a call and with 64, `checked` for collision detection, and `ascii`, the
//! scan for bytes from 0x80 up. Messages are printable ASCII behind a git header, cut from 4 MiB,
//! so they come from the second or third cache. One round runs every side once; the first round
//! is dropped. Speeds count head and body in GB/s (10^9 bytes a second).

use std::hint::black_box;
use std::time::Instant;

use sha1lanes::{Digest, Message, best, digest_checked, portable};

const POOL_BYTES: usize = 4 << 20;
const BYTES_A_SAMPLE: usize = 32 << 20;
const MESSAGE_BYTES: [usize; 4] = [300, 4 << 10, 64 << 10, 1 << 20];
const ROUNDS: usize = 15;

type Work = fn(&[Message<'_>], &mut [Digest]);

/// A line of the table.
struct Side {
    name: &'static str,
    streams: usize,
    work: Work,
    /// Whether the work leaves digests.
    digests: bool,
}

fn main() {
    let pool = text(POOL_BYTES);
    println!("best() is {}, {ROUNDS} rounds", best().name());
    println!("{:<9} {:>7} {:>9}  {:>23}", "name", "streams", "bytes", "GB/s: median (min max)");
    for message_bytes in MESSAGE_BYTES {
        let sides = sides();
        let mut samples = vec![Vec::new(); sides.len()];
        for _round in 0..=ROUNDS {
            for (side, samples) in sides.iter().zip(&mut samples) {
                samples.push(speed(side, &pool, message_bytes));
            }
        }
        for (side, samples) in sides.iter().zip(&mut samples) {
            let kept = &mut samples[1..];
            kept.sort_by(f64::total_cmp);
            let [low, median, high] = [0, ROUNDS / 2, ROUNDS - 1].map(|at| kept[at]);
            let Side { name, streams, .. } = side;
            println!(
                "{name:<9} {streams:>7} {message_bytes:>9}  {median:>9.2} ({low:.2} {high:.2})"
            );
        }
    }
}

fn sides() -> Vec<Side> {
    let one_by_one: Work = |messages, digests| portable().digest(messages, digests);
    let lanes: Work = |messages, digests| best().digest(messages, digests);
    let checked: Work = |messages, digests| {
        for (message, into) in messages.iter().zip(digests) {
            *into = digest_checked(*message).expect("plain text");
        }
    };
    let ascii: Work = |messages, _| {
        assert!(messages.iter().all(|message| black_box(message.body).is_ascii()));
    };
    let mut sides = vec![
        Side { name: "portable", streams: 1, work: one_by_one, digests: true },
        Side { name: "again", streams: 1, work: one_by_one, digests: true },
    ];
    let widths = [1, 2, 3, 4, 64];
    sides.extend(widths.map(|streams| Side { name: "lanes", streams, work: lanes, digests: true }));
    sides.push(Side { name: "checked", streams: 1, work: checked, digests: true });
    sides.push(Side { name: "ascii", streams: 1, work: ascii, digests: false });
    sides
}

/// GB/s of one sample, after one call whose answer is checked.
fn speed(side: &Side, pool: &[u8], message_bytes: usize) -> f64 {
    let head = format!("blob {message_bytes}\0");
    let messages: Vec<_> = (0..side.streams)
        .map(|number| number * 7919 * 13 % (pool.len() - message_bytes))
        .map(|at| Message { head: head.as_bytes(), body: &pool[at..][..message_bytes] })
        .collect();
    let mut digests = vec![[0; 20]; messages.len()];
    let mut expected = digests.clone();
    portable().digest(&messages, &mut expected);
    (side.work)(&messages, &mut digests);
    assert!(digests == expected || !side.digests, "{} is wrong: no time for it", side.name);

    let call_bytes = messages.len() * (head.len() + message_bytes);
    let calls = BYTES_A_SAMPLE.div_ceil(call_bytes);
    let start = Instant::now();
    for _ in 0..calls {
        (side.work)(black_box(&messages), &mut digests);
        black_box(&digests);
    }
    let seconds = start.elapsed().as_secs_f64();
    let bytes = u32::try_from(calls * call_bytes).expect("a sample is small");
    f64::from(bytes) / seconds / 1e9
}

/// Pseudo-random printable ASCII.
fn text(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b' ' + state.to_be_bytes()[0] % 95
    };
    std::iter::repeat_with(next).take(len).collect()
}
