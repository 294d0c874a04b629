//! The SHA extensions of `x86_64`, several messages side by side.
//!
//! Owns the intrinsics of these. `sha1rnds4` computes four of the eighty rounds, and its result is
//! ready some cycles later. So the code below issues one step for every message before the next
//! step, and messages fill each other's waits. Instructions: Intel SDM, volume 2. Order of the
//! steps: Intel, "New Instructions Supporting the Secure Hash Algorithm", 2013.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_extract_epi32, _mm_loadu_si128, _mm_set_epi32, _mm_set_epi64x,
    _mm_sha1msg1_epu32, _mm_sha1msg2_epu32, _mm_sha1nexte_epu32, _mm_sha1rnds4_epu32,
    _mm_shuffle_epi8, _mm_xor_si128,
};

use crate::blocks::Block;
use crate::interleave::{self, Kernel, Words};
use crate::{Digest, Lanes, Message, Pieced};

/// Proof that this CPU has SHA, SSSE3 and SSE4.1: only [`detect`] lends one.
#[derive(Debug)]
pub(crate) struct ShaNi(());

static SHA_NI: ShaNi = ShaNi(());

/// This implementation, if the CPU can run it. The standard library caches the answer.
pub(crate) fn detect() -> Option<&'static ShaNi> {
    let all = is_x86_feature_detected!("sha")
        && is_x86_feature_detected!("ssse3")
        && is_x86_feature_detected!("sse4.1");
    all.then_some(&SHA_NI)
}

impl Lanes for ShaNi {
    fn digest(&self, messages: &[Message<'_>], digests: &mut [Digest]) {
        interleave::digest(self, messages, digests);
    }

    fn digest_pieced(&self, messages: &[Pieced<'_>], digests: &mut [Digest]) {
        interleave::digest(self, messages, digests);
    }

    fn name(&self) -> &'static str {
        "sha-ni"
    }
}

/// A chaining value in the layout of the instructions.
///
/// `abcd` has `a` in the highest word, then b, c and d; `e` is the highest word of its register.
#[derive(Clone, Copy)]
pub(crate) struct State {
    abcd: __m128i,
    e: __m128i,
}

impl Kernel for ShaNi {
    type State = State;

    fn state(&self, words: Words) -> State {
        // SAFETY: every `ShaNi` comes from `detect`, and a CPU with SSE4.1 has SSE2.
        unsafe { state(words) }
    }

    fn compress<const N: usize>(&self, states: &mut [State; N], runs: [&[Block]; N]) {
        // SAFETY: every `ShaNi` comes from `detect`, which asked the CPU for the three features
        // that `compress` enables.
        unsafe { compress(states, runs) }
    }

    fn words(&self, state: State) -> Words {
        // SAFETY: every `ShaNi` comes from `detect`, which asked the CPU for SSE4.1.
        unsafe { words(state) }
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn state(words: Words) -> State {
    let [abcd @ .., e] = words.map(u32::cast_signed);
    State { abcd: _mm_set_epi32(abcd[0], abcd[1], abcd[2], abcd[3]), e: _mm_set_epi32(e, 0, 0, 0) }
}

#[target_feature(enable = "sse4.1")]
fn words(State { abcd, e }: State) -> Words {
    [
        _mm_extract_epi32::<3>(abcd),
        _mm_extract_epi32::<2>(abcd),
        _mm_extract_epi32::<1>(abcd),
        _mm_extract_epi32::<0>(abcd),
        _mm_extract_epi32::<3>(e),
    ]
    .map(i32::cast_unsigned)
}

/// One value of every message.
type Each<const N: usize> = [__m128i; N];

/// Compresses `runs[i]` into `states[i]`.
///
/// # Panics
///
/// If a run is shorter than the first.
#[target_feature(enable = "sha,ssse3,sse4.1")]
fn compress<const N: usize>(states: &mut [State; N], runs: [&[Block]; N]) {
    let mut abcd = states.map(|state| state.abcd);
    let mut e = states.map(|state| state.e);
    for at in 0..runs[0].len() {
        let mut rounds = Rounds::begin(abcd, e, runs.map(|run| &run[at]));
        macro_rules! groups {
            ($($group:literal)*) => { $(rounds.four::<$group>();)* };
        }
        groups!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
        for i in 0..N {
            abcd[i] = _mm_add_epi32(abcd[i], rounds.abcd[i]);
            e[i] = _mm_sha1nexte_epu32(rounds.before[i], e[i]);
        }
    }
    for i in 0..N {
        states[i] = State { abcd: abcd[i], e: e[i] };
    }
}

/// One block of every message, some rounds into it.
struct Rounds<const N: usize> {
    abcd: Each<N>,
    /// `abcd` of four rounds ago; its `a`, rotated, is the current `e`.
    before: Each<N>,
    /// The latest sixteen words of the message schedule, four words per entry.
    schedule: [Each<N>; 4],
}

impl<const N: usize> Rounds<N> {
    #[inline]
    #[target_feature(enable = "ssse3")]
    fn begin(abcd: Each<N>, e: Each<N>, blocks: [&Block; N]) -> Self {
        let first = |quarter| blocks.map(|block| load(block, quarter));
        Self { abcd, before: e, schedule: [first(0), first(1), first(2), first(3)] }
    }

    /// Computes rounds `4 * GROUP` to `4 * GROUP + 3`.
    #[inline]
    #[target_feature(enable = "sha,sse2")]
    fn four<const GROUP: usize>(&mut self) {
        if GROUP >= 4 {
            self.expand::<GROUP>();
        }
        for i in 0..N {
            let words = self.schedule[GROUP % 4][i];
            let e_and_words = if GROUP == 0 {
                _mm_add_epi32(self.before[i], words)
            } else {
                _mm_sha1nexte_epu32(self.before[i], words)
            };
            self.before[i] = self.abcd[i];
            self.abcd[i] = match GROUP / 5 {
                0 => _mm_sha1rnds4_epu32::<0>(self.abcd[i], e_and_words),
                1 => _mm_sha1rnds4_epu32::<1>(self.abcd[i], e_and_words),
                2 => _mm_sha1rnds4_epu32::<2>(self.abcd[i], e_and_words),
                _ => _mm_sha1rnds4_epu32::<3>(self.abcd[i], e_and_words),
            };
        }
    }

    /// Replaces the oldest four words of the schedule by the next four.
    #[inline]
    #[target_feature(enable = "sha,sse2")]
    fn expand<const GROUP: usize>(&mut self) {
        for i in 0..N {
            let [oldest, older, newer, newest] =
                [0, 1, 2, 3].map(|age| self.schedule[(GROUP + age) % 4][i]);
            let half = _mm_xor_si128(_mm_sha1msg1_epu32(oldest, older), newer);
            self.schedule[GROUP % 4][i] = _mm_sha1msg2_epu32(half, newest);
        }
    }
}

/// Four words of a block, the first one highest.
#[inline]
#[target_feature(enable = "ssse3")]
fn load(block: &Block, quarter: usize) -> __m128i {
    let bytes = &block.as_chunks::<16>().0[quarter];
    // SAFETY: the reference is valid for reading the 16 bytes that this reads, at any alignment.
    let little_endian = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    _mm_shuffle_epi8(little_endian, _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f))
}
