//! Known-answer test: an implementation hashes known messages in all lanes before it is used.
//!
//! A virtual machine, an emulator or microcode may offer instructions that compute a wrong result.
//! Trees, commits and notes have no second hash to compare with, so a wrong kernel would write
//! wrong ids silently. The test takes about 0.2 ms, once a process.
//!
//! Does not know the implementations.

use crate::{Digest, Lanes, Message, Pieced};

/// Bytes of the pool that messages are cut from.
const POOL_BYTES: usize = 1024;
/// Messages, all different: all columns of the widest kernel four times, and one that has to wait.
const MESSAGES: usize = 65;
/// Messages in further calls: each number of narrow lanes, some wide columns, and more than all.
const CALLS: [usize; 7] = [1, 2, 3, 4, 9, 17, 33];
/// Messages in calls with pieces.
const PIECED_CALLS: [usize; 4] = [3, 9, 31, MESSAGES];
/// Limit of the bytes of a head, exclusive: the two parents of a node are 40 bytes.
const HEADS: usize = 41;
/// Lengths of the pieces in turn: less than a block, one block, more than the stage of 512 bytes.
const PIECES: [usize; 5] = [1, 63, 0, 64, 513];

/// The SHA-1 of the digests of the known messages, in order.
const ANSWER: Digest = [
    0x0f, 0xa0, 0x1d, 0x80, 0x7a, 0x11, 0x56, 0xfd, 0x36, 0xcf, 0x46, 0x65, 0x96, 0x1c, 0x63, 0xdb,
    0x50, 0x36, 0xa6, 0xa1,
];

/// Returns whether `lanes` hashes the known messages correctly.
///
/// The test covers every number of lanes, whole messages and messages in pieces.
pub(crate) fn is_passed(lanes: &dyn Lanes) -> bool {
    let pool = pool();
    let messages: Vec<_> = (0..MESSAGES).map(|number| message(&pool, number)).collect();
    let bodies: Vec<_> = messages.iter().map(|message| cut(message.body)).collect();
    let pieced = messages.iter().zip(&bodies);
    let pieced = pieced.map(|(message, pieces)| Pieced { head: message.head, pieces });
    let pieced: Vec<_> = pieced.collect();

    let mut all = [[0; 20]; MESSAGES];
    lanes.digest(&messages, &mut all);
    let mut sum = [[0; 20]];
    lanes.digest(&[Message { head: &[], body: all.as_flattened() }], &mut sum);
    sum == [ANSWER]
        && CALLS.iter().all(|&count| {
            let mut digests = vec![[0; 20]; count];
            lanes.digest(&messages[..count], &mut digests);
            digests == all[..count]
        })
        && PIECED_CALLS.iter().all(|&count| {
            let mut digests = vec![[0; 20]; count];
            lanes.digest_pieced(&pieced[..count], &mut digests);
            digests == all[..count]
        })
}

/// Bytes without a pattern: the upper bytes of a linear congruential generator.
fn pool() -> [u8; POOL_BYTES] {
    let mut state = 1_u32;
    std::array::from_fn(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
}

/// A message of up to eleven blocks.
///
/// The lengths of the first 65 are all different. They include the lengths around the end of a
/// block.
fn message(pool: &[u8; POOL_BYTES], number: usize) -> Message<'_> {
    let (head, rest) = pool[number..].split_at(number % HEADS);
    // the numbers below 65 in another order, ten bytes apart
    let body_len = number * 27 % MESSAGES * 10 + number % 3;
    Message { head, body: &rest[..body_len] }
}

fn cut(mut body: &[u8]) -> Vec<&[u8]> {
    let lens = PIECES.iter().cycle();
    lens.map_while(|&len| {
        let piece = body.split_off(..len.min(body.len()))?;
        (!body.is_empty() || !piece.is_empty()).then_some(piece)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{implementations, portable};

    #[test]
    fn the_answer_is_that_of_another_implementation() {
        let pool = pool();
        let digest = |bytes: &[u8]| sha1dc::digest(bytes).expect("no collision").to_bytes();
        let all: Vec<Digest> = (0..MESSAGES)
            .map(|number| message(&pool, number))
            .map(|message| digest(&[message.head, message.body].concat()))
            .collect();
        assert_eq!(digest(all.as_flattened()), ANSWER);
    }

    #[test]
    fn pieces_are_the_whole() {
        let pool = pool();
        for number in 0..MESSAGES {
            let body = message(&pool, number).body;
            assert_eq!(cut(body).concat(), body);
        }
    }

    #[test]
    fn all_implementations_pass() {
        for lanes in implementations() {
            assert!(is_passed(lanes), "{}", lanes.name());
        }
    }

    /// The fault of an otherwise correct implementation.
    #[derive(Debug)]
    enum Fault {
        /// The message at this position of a call, counted from one, has a wrong digest.
        Lane(usize),
        /// Messages of at least this many bytes have wrong digests.
        Long(usize),
        /// Two digests are swapped, in calls of more than sixteen messages.
        Swapped,
        /// Messages in pieces have wrong digests.
        Pieces,
    }

    impl Lanes for Fault {
        fn digest(&self, messages: &[Message<'_>], digests: &mut [Digest]) {
            portable().digest(messages, digests);
            match self {
                Self::Lane(count) if messages.len() >= *count => digests[count - 1][0] ^= 1,
                Self::Long(len) => {
                    for (message, digest) in messages.iter().zip(digests) {
                        digest[19] ^= u8::from(message.head.len() + message.body.len() >= *len);
                    }
                }
                Self::Swapped if messages.len() > 16 => digests.swap(0, 16),
                _ => {}
            }
        }

        fn digest_pieced(&self, messages: &[Pieced<'_>], digests: &mut [Digest]) {
            portable().digest_pieced(messages, digests);
            if matches!(self, Self::Pieces) {
                digests[0] = [0; 20];
            }
        }

        fn name(&self) -> &'static str {
            "faulty"
        }
    }

    #[test]
    fn a_wrong_kernel_does_not_pass() {
        let lanes = [1, 2, 4, 8, 9, 16, 17, 31, 32, 33, 64, 65].map(Fault::Lane);
        let others = [Fault::Long(600), Fault::Long(64), Fault::Swapped, Fault::Pieces];
        for faulty in lanes.iter().chain(&others) {
            assert!(!is_passed(faulty), "{faulty:?}");
        }
    }

    #[test]
    fn a_wrong_kernel_is_passed_over_and_named() {
        static FAULTY: Fault = Fault::Lane(32);
        let choice = crate::Choice::of([&FAULTY, portable(), &FAULTY].into_iter());
        assert_eq!(choice.best.name(), "portable");
        assert_eq!(choice.refused, ["faulty"]);
    }

    #[test]
    fn where_all_are_wrong_the_last_resort_is_named_too() {
        static FAULTY: Fault = Fault::Pieces;
        let choice = crate::Choice::of(std::iter::once(&FAULTY as &dyn Lanes));
        assert_eq!((choice.best.name(), choice.refused), ("portable", vec!["faulty"]));
    }
}
