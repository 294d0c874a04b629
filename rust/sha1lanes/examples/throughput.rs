//! Times SHA-1 here: `cargo run --release -p sha1lanes --example throughput [POOL_MIB]`.
//!
//! Sides: each implementation that this CPU has, with some messages a call; the first side again
//! (the A/A run: a ratio inside its band is no result); `checked` for collision detection; and
//! `ascii`, the scan for bytes from 0x80 up. Messages are printable ASCII behind a git header, cut
//! from a pool of 4 MiB, so they come from the second or third cache. A pool of 256 MiB makes them
//! come from memory. In the `mix`, lengths are spread evenly by logarithm from 300 to 30,000, and
//! each text is hashed behind two heads, as an export does. One round runs every side once; the
//! first round is dropped. Speeds count head and body in GB/s: 10^9 bytes a second of processor
//! time on Linux, of elapsed time elsewhere.

use std::fs;
use std::hint::black_box;
use std::sync::LazyLock;
use std::thread;
use std::time::Instant;

use sha1lanes::{Digest, Lanes, Message, digest_checked, implementations, portable};

const BYTES_A_SAMPLE: usize = 32 << 20;
/// Lengths of messages; `None` for the mix.
const LENGTHS: [Option<usize>; 5] = [Some(300), Some(4 << 10), Some(64 << 10), Some(1 << 20), None];
const ROUNDS: usize = 15;

type Work = dyn Fn(&[Message<'_>], &mut [Digest]);

/// A line of the table.
struct Side {
    name: &'static str,
    /// Messages a call.
    messages: usize,
    work: Box<Work>,
    /// Whether the work leaves digests.
    digests: bool,
}

fn main() {
    let pool_mib = std::env::args().nth(1).map_or(4, |size| size.parse().expect("a number"));
    let pool = text(pool_mib << 20);
    println!("pool of {pool_mib} MiB, {ROUNDS} rounds");
    println!("{:<9} {:>8} {:>9}  {:>23}", "name", "messages", "bytes", "GB/s: median (min max)");
    let sides = sides();
    for length in LENGTHS {
        let mut samples = vec![Vec::new(); sides.len()];
        for round in 0..=ROUNDS {
            for (side, samples) in sides.iter().zip(&mut samples) {
                samples.push(speed(side, &pool, length, round));
            }
        }
        let length = length.map_or("mix".to_owned(), |length| length.to_string());
        for (side, samples) in sides.iter().zip(&mut samples) {
            let kept = &mut samples[1..];
            kept.sort_by(f64::total_cmp);
            let [low, median, high] = [0, ROUNDS / 2, ROUNDS - 1].map(|at| kept[at]);
            let Side { name, messages, .. } = side;
            println!("{name:<9} {messages:>8} {length:>9}  {median:>9.2} ({low:.2} {high:.2})");
        }
    }
}

fn sides() -> Vec<Side> {
    let mut sides = Vec::new();
    for lanes in implementations() {
        let widths: &[usize] = match lanes.name() {
            "portable" => &[1],
            "sha-ni" => &[1, 2, 4, 16, 64],
            _ => &[11, 16, 32, 64, 256],
        };
        sides.extend(widths.iter().map(|&messages| side(lanes.name(), messages, lanes)));
    }
    let first = implementations().next().expect("there is one");
    sides.push(side("again", sides[0].messages, first));
    let checked = |messages: &[Message<'_>], digests: &mut [Digest]| {
        for (message, into) in messages.iter().zip(digests) {
            *into = digest_checked(*message).expect("plain text");
        }
    };
    let ascii = |messages: &[Message<'_>], _: &mut [Digest]| {
        assert!(messages.iter().all(|message| black_box(message.body).is_ascii()));
    };
    sides.push(Side { name: "checked", messages: 2, work: Box::new(checked), digests: true });
    sides.push(Side { name: "ascii", messages: 2, work: Box::new(ascii), digests: false });
    sides
}

fn side(name: &'static str, messages: usize, lanes: &'static dyn Lanes) -> Side {
    let work = move |messages: &[Message<'_>], digests: &mut [Digest]| {
        lanes.digest(messages, digests);
    };
    Side { name, messages, work: Box::new(work), digests: true }
}

/// GB/s of one sample, after one call whose answer is checked.
fn speed(side: &Side, pool: &[u8], length: Option<usize>, round: usize) -> f64 {
    let mut random = Random(u32::try_from(round).expect("few rounds"));
    let bodies: Vec<&[u8]> = (0..BYTES_A_SAMPLE.div_ceil(length.unwrap_or(6450)))
        .map(|_| {
            let length = length.unwrap_or_else(|| random.length());
            &pool[random.below(pool.len() - length)..][..length]
        })
        .collect();
    let git_heads: Vec<_> = bodies.iter().map(|body| format!("blob {}\0", body.len())).collect();
    // all object ids of a call, then all nodes, as an export has them
    let is_mix = length.is_none() && side.messages > 1;
    let texts_a_call = if is_mix { side.messages.div_ceil(2) } else { side.messages };
    let calls: Vec<Vec<Message<'_>>> = bodies
        .chunks(texts_a_call)
        .zip(git_heads.chunks(texts_a_call))
        .map(|(bodies, heads)| {
            let git = bodies.iter().zip(heads);
            let git = git.map(|(body, head)| Message { head: head.as_bytes(), body });
            let hg = bodies.iter().map(|body| Message { head: &[0; 40], body });
            git.chain(hg.take(if is_mix { bodies.len() } else { 0 })).collect()
        })
        .collect();

    let mut digests = vec![[0; 20]; calls[0].len()];
    let mut expected = digests.clone();
    portable().digest(&calls[0], &mut expected);
    (side.work)(&calls[0], &mut digests);
    assert!(digests == expected || !side.digests, "{} is wrong: no time for it", side.name);

    let start = now_seconds();
    for call in &calls {
        (side.work)(black_box(call), &mut digests[..call.len()]);
        black_box(&digests);
    }
    let seconds = now_seconds() - start;
    let bytes: usize =
        calls.iter().flatten().map(|message| message.head.len() + message.body.len()).sum();
    f64::from(u32::try_from(bytes).expect("a sample is small")) / seconds / 1e9
}

/// Processor time of this thread, or a clock.
fn now_seconds() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    // the kernel adds up when a thread gives way, and at ticks, which are too far apart
    thread::yield_now();
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = stat.and_then(|stat| stat.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| START.elapsed().as_secs_f64(), |count| count / 1e9)
}

/// The numbers of a linear congruential generator.
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 4
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }

    /// A length of the mix.
    fn length(&mut self) -> usize {
        let share = f64::from(self.next()) / f64::from(1_u32 << 28);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let length = (300.0 * 100_f64.powf(share)) as usize;
        length
    }
}

/// Pseudo-random printable ASCII.
fn text(len: usize) -> Vec<u8> {
    let mut random = Random(1);
    let next = || b' ' + u8::try_from((random.next() >> 8) % 95).expect("below 95");
    std::iter::repeat_with(next).take(len).collect()
}
