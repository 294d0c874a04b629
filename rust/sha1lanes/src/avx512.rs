//! AVX-512 of `x86_64`: sixteen messages side by side, one in each 32-bit column.
//!
//! Owns the intrinsics of that width. The rounds are those of FIPS 180-4, section 6.1.2. Each
//! three-way function and each sum of the message schedule is one `vpternlogd`, each rotation one
//! `vprold`. A round takes ten instructions for sixteen blocks; the SHA extensions take five for
//! four rounds of one block. The input has one row per message, and is transposed first. The last
//! messages of a call, too few for all columns, go to [`crate::shani`].
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{
    __m512i, _mm_set_epi64x, _mm512_add_epi32, _mm512_broadcast_i32x4, _mm512_loadu_si512,
    _mm512_rol_epi32, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_shuffle_epi8,
    _mm512_shuffle_i32x4, _mm512_storeu_si512, _mm512_ternarylogic_epi32, _mm512_unpackhi_epi32,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use crate::blocks::Block;
use crate::shani::{self, ShaNi};
use crate::wide::{self, WIDTH, WideKernel, WideWords};
use crate::{Digest, Lanes, Message, Pieced};

/// Truth tables of the round functions, and of the exclusive or of three words.
///
/// `vpternlogd` takes its first operand as the highest bit of the row.
const CHOOSE: i32 = 0xca;
const MAJORITY: i32 = 0xe8;
const PARITY: i32 = 0x96;

/// Proof that this CPU has AVX-512 F and BW: only [`detect`] makes one.
#[derive(Debug)]
struct Kernel(());

/// The implementation behind [`detect`].
#[derive(Debug)]
pub(crate) struct Avx512 {
    kernel: Kernel,
    narrow: &'static ShaNi,
}

/// This implementation, if the CPU can run both it and the SHA extensions for the last messages.
pub(crate) fn detect() -> Option<&'static Avx512> {
    static FOUND: std::sync::OnceLock<Option<Avx512>> = std::sync::OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let narrow = shani::detect()?;
        let all = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        all.then_some(Avx512 { kernel: Kernel(()), narrow })
    });
    found.as_ref()
}

impl Lanes for Avx512 {
    fn digest(&self, messages: &[Message<'_>], digests: &mut [Digest]) {
        wide::digest(&self.kernel, self.narrow, messages, digests);
    }

    fn digest_pieced(&self, messages: &[Pieced<'_>], digests: &mut [Digest]) {
        wide::digest(&self.kernel, self.narrow, messages, digests);
    }

    fn name(&self) -> &'static str {
        "avx-512"
    }
}

impl WideKernel for Kernel {
    fn compress(&self, words: &mut WideWords, runs: [&[Block]; WIDTH]) {
        // SAFETY: every `Kernel` comes from `detect`, which asked the CPU for the two features
        // that `compress` enables.
        unsafe { compress(words, runs) }
    }
}

/// One word of every message.
type Each = __m512i;

/// Compresses `runs[i]` into column `i` of `chained`.
///
/// # Panics
///
/// If a run is shorter than the first.
#[target_feature(enable = "avx512f,avx512bw")]
fn compress(chained: &mut WideWords, runs: [&[Block]; WIDTH]) {
    let mut words = chained.each_ref().map(|words| load(words));
    for at in 0..runs[0].len() {
        let schedule = transposed(runs.map(|run| &run[at]));
        let mut rounds = Rounds { words, schedule };
        // the constants of FIPS 180-4, section 4.2.1
        macro_rules! rounds {
            ($constant:literal: $($round:literal)*) => {
                let constant = _mm512_set1_epi32(u32::cast_signed($constant));
                $(rounds.one::<$round>(constant);)*
            };
        }
        rounds!(0x5a82_7999: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
        rounds!(0x6ed9_eba1: 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39);
        rounds!(0x8f1b_bcdc: 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59);
        rounds!(0xca62_c1d6: 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79);
        for (word, new) in words.iter_mut().zip(rounds.words) {
            *word = _mm512_add_epi32(*word, new);
        }
    }
    for (into, word) in chained.iter_mut().zip(words) {
        // SAFETY: the reference is valid for writing the 64 bytes that this writes, at any
        // alignment.
        unsafe { _mm512_storeu_si512(into.as_mut_ptr().cast(), word) }
    }
}

/// One block of every message, some rounds into it.
struct Rounds {
    /// `a` to `e`.
    words: [Each; 5],
    /// The latest sixteen words of the message schedule.
    schedule: [Each; 16],
}

impl Rounds {
    /// Computes one round.
    #[inline]
    #[target_feature(enable = "avx512f")]
    #[expect(clippy::many_single_char_names, reason = "the standard's")]
    fn one<const ROUND: usize>(&mut self, constant: Each) {
        let Self { words, schedule } = self;
        if ROUND >= 16 {
            let latest = |age: usize| schedule[(ROUND + 16 - age) % 16];
            let three = _mm512_ternarylogic_epi32::<PARITY>(latest(16), latest(14), latest(8));
            let all = _mm512_xor_si512(three, latest(3));
            schedule[ROUND % 16] = _mm512_rol_epi32::<1>(all);
        }
        let [a, b, c, d, e] = *words;
        let mixed = match ROUND / 20 {
            0 => _mm512_ternarylogic_epi32::<CHOOSE>(b, c, d),
            2 => _mm512_ternarylogic_epi32::<MAJORITY>(b, c, d),
            _ => _mm512_ternarylogic_epi32::<PARITY>(b, c, d),
        };
        let known = _mm512_add_epi32(_mm512_add_epi32(e, constant), schedule[ROUND % 16]);
        let known = opaque(_mm512_add_epi32(known, mixed));
        let new = _mm512_add_epi32(known, _mm512_rol_epi32::<5>(a));
        *words = [new, a, _mm512_rol_epi32::<30>(b), c, d];
    }
}

/// Returns the argument unchanged, hidden from the optimiser.
///
/// The compiler would reorder the terms of the sum and begin with the term that is known last, so
/// that the next round would wait for the whole sum.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(mut words: Each) -> Each {
    // SAFETY: no instruction.
    unsafe {
        asm!("/* {0} */", inout(zmm_reg) words, options(pure, nomem, nostack, preserves_flags));
    }
    words
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u32; WIDTH]) -> Each {
    // SAFETY: the reference is valid for reading the 64 bytes that this reads, at any alignment.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// Word `i` of every block in entry `i`.
///
/// The first pass transposes within quarters of a register, four rows at a time. The second pass
/// moves the quarters.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn transposed(blocks: [&Block; WIDTH]) -> [Each; 16] {
    let big_endian = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    let big_endian = _mm512_broadcast_i32x4(big_endian);
    let rows = blocks.map(|block| {
        // SAFETY: the reference is valid for reading the 64 bytes that this reads, at any
        // alignment.
        let row = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
        _mm512_shuffle_epi8(row, big_endian)
    });
    // entry 4 * i + k: word 4 * j + k of rows 4 * i to 4 * i + 3, in quarter j
    let mut quarters = [_mm512_setzero_si512(); 16];
    for (into, rows) in quarters.as_chunks_mut::<4>().0.iter_mut().zip(rows.as_chunks::<4>().0) {
        let low = [0, 2].map(|i| _mm512_unpacklo_epi32(rows[i], rows[i + 1]));
        let high = [0, 2].map(|i| _mm512_unpackhi_epi32(rows[i], rows[i + 1]));
        *into = [
            _mm512_unpacklo_epi64(low[0], low[1]),
            _mm512_unpackhi_epi64(low[0], low[1]),
            _mm512_unpacklo_epi64(high[0], high[1]),
            _mm512_unpackhi_epi64(high[0], high[1]),
        ];
    }
    let mut words = [_mm512_setzero_si512(); 16];
    for k in 0..4 {
        let rows = [0, 4, 8, 12].map(|i| quarters[i + k]);
        let low = [0, 2].map(|i| _mm512_shuffle_i32x4::<0b01_00_01_00>(rows[i], rows[i + 1]));
        let high = [0, 2].map(|i| _mm512_shuffle_i32x4::<0b11_10_11_10>(rows[i], rows[i + 1]));
        words[k] = _mm512_shuffle_i32x4::<0b10_00_10_00>(low[0], low[1]);
        words[4 + k] = _mm512_shuffle_i32x4::<0b11_01_11_01>(low[0], low[1]);
        words[8 + k] = _mm512_shuffle_i32x4::<0b10_00_10_00>(high[0], high[1]);
        words[12 + k] = _mm512_shuffle_i32x4::<0b11_01_11_01>(high[0], high[1]);
    }
    words
}
