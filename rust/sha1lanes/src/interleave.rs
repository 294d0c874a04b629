//! The schedule of kernels of variable width: the assignment of messages to lanes.
//!
//! Every lane that has a message takes part in each step. A step is as long as the shortest run
//! among the lanes. A lane whose message ended takes the next message at once. Steps get narrower
//! only when no message is left. Knows nothing of the rounds of SHA-1: a [`Kernel`] owns those.

use std::array;

use crate::Digest;
use crate::blocks::{Block, Blocks, MessageParts, STAGE, Stage};

/// Maximum number of lanes.
///
/// Messages of 4,000 bytes ran at 4.4 GB/s in three lanes, 5.2 in four, 5.5 in five, 4.9 in six and
/// 5.0 in eight (Zen 5, 2026-11). Four lanes already need more registers than the CPU has.
const WIDTH: usize = 4;

/// A chaining value, `a` to `e`.
pub(crate) type Words = [u32; 5];

/// The chaining value that every message starts from: FIPS 180-4, section 5.3.1.
pub(crate) const START: Words = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

/// Converts the chaining value after the last block to a digest.
pub(crate) fn digest_of(words: Words) -> Digest {
    let mut digest = [0; 20];
    digest.as_chunks_mut().0.copy_from_slice(&words.map(u32::to_be_bytes));
    digest
}

/// The compression function over several states side by side.
pub(crate) trait Kernel {
    /// The chaining value of one message, as the kernel wants it.
    type State: Copy;

    /// Converts a chaining value to a state.
    fn state(&self, words: Words) -> Self::State;

    /// Compresses `runs[i]` into `states[i]`. The runs have equal lengths.
    fn compress<const N: usize>(&self, states: &mut [Self::State; N], runs: [&[Block]; N]);

    /// Converts a state to a chaining value.
    fn words(&self, state: Self::State) -> Words;
}

/// The next message of a lane, new or partly hashed.
pub(crate) enum Next<'a> {
    Message(MessageParts<'a>, &'a mut Digest),
    Begun(Begun<'a>),
}

/// A partly hashed message.
pub(crate) struct Begun<'a> {
    pub words: Words,
    pub blocks: Blocks<'a>,
    pub into: &'a mut Digest,
}

/// Implements [`crate::Lanes::digest`] with `kernel`.
pub(crate) fn digest<'a, K: Kernel>(
    kernel: &K,
    messages: &[impl Copy + Into<MessageParts<'a>>],
    digests: &mut [Digest],
) {
    assert_eq!(messages.len(), digests.len(), "one digest per message");
    let messages = messages.iter().zip(digests);
    run(kernel, messages.map(|(message, into)| Next::Message((*message).into(), into)));
}

/// Hashes all messages of `waiting`.
pub(crate) fn run<'a, K: Kernel>(kernel: &K, waiting: impl Iterator<Item = Next<'a>>) {
    let mut stages = [STAGE; WIDTH];
    let mut lanes = LaneSet::new(kernel, waiting, &mut stages);
    loop {
        match lanes.active {
            0 => return,
            1 => lanes.step::<1>(),
            2 => lanes.step::<2>(),
            3 => lanes.step::<3>(),
            _ => lanes.step::<WIDTH>(),
        }
    }
}

/// The lanes, active ones first, and the messages that wait for a lane.
struct LaneSet<'a, 'k, K: Kernel, W> {
    kernel: &'k K,
    waiting: W,
    active: usize,
    states: [K::State; WIDTH],
    blocks: [Blocks<'a>; WIDTH],
    digests: [Option<&'a mut Digest>; WIDTH],
}

impl<'s, 'a: 's, 'k, K: Kernel, W: Iterator<Item = Next<'a>>> LaneSet<'s, 'k, K, W> {
    fn new(kernel: &'k K, waiting: W, stages: &'s mut [Stage; WIDTH]) -> Self {
        let mut lanes = Self {
            kernel,
            waiting,
            active: 0,
            states: [kernel.state(START); WIDTH],
            blocks: stages.each_mut().map(Blocks::ended),
            digests: [const { None }; WIDTH],
        };
        while lanes.active < WIDTH && lanes.refill(lanes.active) {
            lanes.active += 1;
        }
        lanes
    }

    /// Starts the next message in `lane`; false if no message waits.
    fn refill(&mut self, lane: usize) -> bool {
        let (words, into) = match self.waiting.next() {
            None => return false,
            Some(Next::Message(message, into)) => {
                self.blocks[lane].restart(message);
                (START, into)
            }
            Some(Next::Begun(Begun { words, blocks, into })) => {
                self.blocks[lane] = blocks;
                (words, into)
            }
        };
        self.states[lane] = self.kernel.state(words);
        self.digests[lane] = Some(into);
        true
    }

    /// Advances the first `N` lanes to the end of the shortest run. They must be the active ones.
    fn step<const N: usize>(&mut self) {
        let runs: [&[Block]; N] = array::from_fn(|lane| self.blocks[lane].run());
        let count = runs.iter().map(|run| run.len()).min().unwrap_or(0);
        let states = self.states.first_chunk_mut().expect("N is at most WIDTH");
        self.kernel.compress::<N>(states, runs.map(|run| &run[..count]));
        // Backwards: a lane that moves into the gap of another has been advanced already.
        for lane in (0..N).rev() {
            self.blocks[lane].advance(count);
            if self.blocks[lane].run().is_empty() {
                self.end(lane);
            }
        }
    }

    /// Stores the digest of `lane`, and starts its next message or retires the lane.
    fn end(&mut self, lane: usize) {
        if let Some(into) = self.digests[lane].take() {
            *into = digest_of(self.kernel.words(self.states[lane]));
        }
        if !self.refill(lane) {
            self.active -= 1;
            self.states.swap(lane, self.active);
            self.blocks.swap(lane, self.active);
            self.digests.swap(lane, self.active);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Message;
    use crate::portable;
    use crate::recorder::Recorder;
    use crate::strategies::{pool, spans};

    /// Widths and blocks of the steps that bodies of these lengths take.
    fn steps(body_lengths: &[usize]) -> Vec<(usize, usize)> {
        let zeros = vec![0; body_lengths.iter().copied().max().unwrap_or(0)];
        let messages: Vec<_> =
            body_lengths.iter().map(|&end| Message { head: &[], body: &zeros[..end] }).collect();
        let recorder = Recorder::default();
        digest(&recorder, &messages, &mut vec![[0; 20]; messages.len()]);
        recorder.steps()
    }

    proptest! {
        #[test]
        fn every_digest_is_at_its_message(spans in spans()) {
            let pool = pool();
            let messages: Vec<_> = spans.iter().map(|span| span.of(&pool)).collect();
            let mut expected = vec![[0; 20]; messages.len()];
            let mut found = expected.clone();
            portable().digest(&messages, &mut expected);
            digest(&Recorder::default(), &messages, &mut found);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn no_message_takes_no_step() {
        assert_eq!(steps(&[]), []);
    }

    #[test]
    fn messages_of_equal_length_fill_all_lanes() {
        assert_eq!(steps(&[100; 8]), [(WIDTH, 2); 2]);
    }

    #[test]
    fn fewer_messages_than_lanes_take_narrow_steps() {
        for width in 1..WIDTH {
            assert_eq!(steps(&vec![100; width]), [(width, 2)]);
        }
    }

    #[test]
    fn a_lane_that_ends_is_refilled() {
        let long = 55 + 8 * 64; // too long for a stage: 8 blocks in place, one with the padding
        let lengths = [[long].as_slice(), &[55; 27]].concat(); // 9 blocks beside 3 times 9
        assert_eq!(steps(&lengths), [(WIDTH, 1); 9]);
    }

    #[test]
    fn steps_get_narrower_when_no_message_waits() {
        let lengths = [400, 300, 200, 100]; // 7, 5, 4 and 2 blocks
        assert_eq!(steps(&lengths), [(4, 2), (3, 2), (2, 1), (1, 2)]);
    }

    #[test]
    #[should_panic(expected = "one digest per message")]
    fn a_missing_digest_is_refused() {
        digest(&Recorder::default(), &[Message { head: &[], body: &[] }], &mut []);
    }
}
