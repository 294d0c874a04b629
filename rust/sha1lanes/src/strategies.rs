//! Random messages for the tests of this crate, with lengths around the ends of blocks and padding.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::Message;

const POOL_BYTES: usize = 8192;

/// Bytes to cut messages from.
pub(crate) fn pool() -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(POOL_BYTES).collect()
}

/// The place of a message in the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: usize,
    head_len: usize,
    body_len: usize,
}

impl Span {
    /// The message, usually unaligned.
    pub(crate) fn of(self, pool: &[u8]) -> Message<'_> {
        let (head, rest) = pool[self.start..].split_at(self.head_len);
        Message { head, body: &rest[..self.body_len] }
    }
}

/// Up to eighty messages: several rounds of the widest kernel, and a rest.
pub(crate) fn spans() -> impl Strategy<Value = Vec<Span>> {
    let span = || {
        (0..64_usize, head_len(), body_len()).prop_map(|(start, head_len, body_len)| Span {
            start,
            head_len,
            body_len,
        })
    };
    prop_oneof![vec(span(), 0..20), vec(span(), 10..80)]
}

fn head_len() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0..48_usize,
        2 => turn(),
        1 => 0..1000_usize,
    ]
}

fn body_len() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => turn(),
        2 => 0..600_usize,
        1 => 0..6000_usize,
    ]
}

/// Lengths around the end of a block, and around the last length whose padding fits in its block.
fn turn() -> impl Strategy<Value = usize> {
    let near = vec![0, 1, 54, 55, 56, 57, 63, 64, 65, 118, 119, 120, 127, 128, 129];
    (select(near), select(vec![0, 128, 320, 384, 448, 512, 1024])).prop_map(|(a, b)| a + b)
}
