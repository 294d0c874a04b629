//! The schedule of a kernel of sixteen columns: the assignment of messages to columns.
//!
//! Such a kernel always computes all columns. A step is as long as the shortest run among the
//! columns. A column whose message ended takes the next message at once; if no message is left, it
//! repeats another column. When few messages remain, a narrow kernel is faster and continues them.

use std::array;
use std::cmp::Reverse;
use std::vec;

use crate::Digest;
use crate::blocks::{Block, Blocks, MessageParts, STAGE, Stage};
use crate::interleave::{self, Begun, Kernel, Next, START, Words, digest_of};

/// Messages side by side.
pub(crate) const WIDTH: usize = 16;

/// Minimum number of messages for which the wide kernel is faster than the narrow one.
///
/// A step of one block takes 350 cycles for all columns; the narrow kernel takes 47 cycles a block
/// (Zen 5; on Zen 4, 142 ns and 13.6 ns; 2026-11).
const ENOUGH: usize = 9;

/// Chaining values: a row per word, a column per message.
pub(crate) type WideWords = [[u32; WIDTH]; 5];

/// The compression function over all columns.
pub(crate) trait WideKernel {
    /// Compresses `runs[i]` into column `i` of `words`. The runs have equal lengths.
    fn compress(&self, words: &mut WideWords, runs: [&[Block]; WIDTH]);
}

/// Implements [`crate::Lanes::digest`] with `wide`, and with `narrow` for few messages.
pub(crate) fn digest<'a, W: WideKernel, N: Kernel>(
    wide: &W,
    narrow: &N,
    messages: &[impl Copy + Into<MessageParts<'a>>],
    digests: &mut [Digest],
) {
    if messages.len() < ENOUGH {
        return interleave::digest(narrow, messages, digests);
    }
    assert_eq!(messages.len(), digests.len(), "one digest per message");
    let mut stages = [STAGE; WIDTH];
    let messages = messages.iter().map(|message| (*message).into());
    let mut waiting: Vec<(MessageParts<'_>, _)> = messages.zip(digests).collect();
    // the longest first, so that the messages that begin last end in about the same step
    waiting.sort_unstable_by_key(|(message, _)| Reverse(message.len()));
    let mut columns = Columns::new(waiting.into_iter(), &mut stages);
    while columns.active >= ENOUGH {
        columns.step(wide);
    }
    let mut begun = columns.into_begun();
    // the longest first, so that it shares steps with others as long as possible
    begun.sort_unstable_by_key(|begun| Reverse(begun.blocks.len()));
    interleave::run(narrow, begun.into_iter().map(Next::Begun));
}

type Waiting<'a> = vec::IntoIter<(MessageParts<'a>, &'a mut Digest)>;

/// The columns, active ones first, and the messages that wait for a column.
struct Columns<'a> {
    waiting: Waiting<'a>,
    active: usize,
    words: WideWords,
    blocks: [Blocks<'a>; WIDTH],
    digests: [Option<&'a mut Digest>; WIDTH],
}

impl<'a> Columns<'a> {
    fn new(waiting: Waiting<'a>, stages: &'a mut [Stage; WIDTH]) -> Self {
        let mut columns = Self {
            waiting,
            active: 0,
            words: START.map(|word| [word; WIDTH]),
            blocks: stages.each_mut().map(Blocks::ended),
            digests: [const { None }; WIDTH],
        };
        while columns.active < WIDTH && columns.refill(columns.active) {
            columns.active += 1;
        }
        columns
    }

    /// Starts the next message in `column`; false if no message waits.
    fn refill(&mut self, column: usize) -> bool {
        let Some((message, into)) = self.waiting.next() else { return false };
        self.set_words(column, START);
        self.blocks[column].restart(message);
        self.digests[column] = Some(into);
        true
    }

    /// Advances all active columns to the end of the shortest run.
    fn step(&mut self, kernel: &impl WideKernel) {
        let runs: [&[Block]; WIDTH] = array::from_fn(|column| {
            self.blocks[if column < self.active { column } else { 0 }].run()
        });
        let count = runs.iter().map(|run| run.len()).min().unwrap_or(0);
        kernel.compress(&mut self.words, runs.map(|run| &run[..count]));
        // Backwards: a column that moves into the gap of another has been advanced already.
        for column in (0..self.active).rev() {
            self.blocks[column].advance(count);
            if self.blocks[column].run().is_empty() {
                self.end(column);
            }
        }
    }

    /// Stores the digest of `column`, and starts its next message or retires the column.
    fn end(&mut self, column: usize) {
        if let Some(into) = self.digests[column].take() {
            *into = digest_of(self.words_of(column));
        }
        if !self.refill(column) {
            self.active -= 1;
            self.set_words(column, self.words_of(self.active));
            self.blocks.swap(column, self.active);
            self.digests.swap(column, self.active);
        }
    }

    fn words_of(&self, column: usize) -> Words {
        self.words.map(|words| words[column])
    }

    fn set_words(&mut self, column: usize, words: Words) {
        for (into, word) in self.words.iter_mut().zip(words) {
            into[column] = word;
        }
    }

    /// The partly hashed messages. No message may be waiting.
    fn into_begun(self) -> Vec<Begun<'a>> {
        let words: [Words; WIDTH] = array::from_fn(|column| self.words_of(column));
        let columns = words.into_iter().zip(self.blocks).zip(self.digests);
        let begun = columns
            .filter_map(|((words, blocks), into)| Some(Begun { words, blocks, into: into? }));
        begun.collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::recorder::Recorder;
    use crate::strategies::{pool, spans};
    use crate::{Message, portable};

    /// Widths and blocks of the steps that bodies of these lengths take.
    fn steps(body_lengths: &[usize]) -> Vec<(usize, usize)> {
        let zeros = vec![0; body_lengths.iter().copied().max().unwrap_or(0)];
        let messages: Vec<_> =
            body_lengths.iter().map(|&end| Message { head: &[], body: &zeros[..end] }).collect();
        let recorder = Recorder::default();
        digest(&recorder, &recorder, &messages, &mut vec![[0; 20]; messages.len()]);
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
            let recorder = Recorder::default();
            digest(&recorder, &recorder, &messages, &mut found);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn no_message_takes_no_step() {
        assert_eq!(steps(&[]), []);
    }

    #[test]
    fn messages_of_equal_length_fill_all_columns() {
        assert_eq!(steps(&[100; 2 * WIDTH]), [(WIDTH, 2); 2]);
    }

    #[test]
    fn a_column_without_a_message_is_carried_along() {
        assert_eq!(steps(&[100; ENOUGH]), [(WIDTH, 2)]);
        assert_eq!(steps(&[100; WIDTH + 1]), [(WIDTH, 2), (1, 2)]);
    }

    #[test]
    fn few_messages_are_left_to_the_narrow_kernel() {
        let widths = steps(&[100; ENOUGH - 1]).into_iter().map(|(width, _)| width);
        assert!(widths.max() < Some(WIDTH));
    }

    #[test]
    fn messages_that_lose_their_company_are_taken_over_where_they_are() {
        // 8, 7 and 2 blocks, of which 2 are done beside the short ones
        let lengths = [[500; 4].as_slice(), &[400; 8], &[100; 4]].concat();
        assert_eq!(steps(&lengths), [(WIDTH, 2), (WIDTH, 5), (4, 1)]);
    }

    #[test]
    fn the_longest_begin_first() {
        // 2, 5 and 7 blocks, last come first: the short ones take the columns of the middle ones
        let lengths = [[100; 8].as_slice(), &[300; 8], &[400; 8]].concat();
        assert_eq!(steps(&lengths), [(WIDTH, 5), (WIDTH, 2)]);
    }

    #[test]
    #[should_panic(expected = "one digest per message")]
    fn a_missing_digest_is_refused() {
        let recorder = Recorder::default();
        let messages = [Message { head: &[], body: &[] }; ENOUGH];
        digest(&recorder, &recorder, &messages, &mut [[0; 20]; ENOUGH - 1]);
    }
}
