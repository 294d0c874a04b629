//! The padded message as runs of 64-byte blocks, copied only where it must be.
//!
//! Owns the layout of FIPS 180-4 section 5.1.1: the bytes, one `0x80`, zeros, and the length in
//! bits, 64 bits wide and big-endian. Whole blocks of head and body are read in place. A small
//! buffer, the stage, takes copies of the rest: the block in which the head ends and the body
//! starts, the last blocks with the padding, short messages as a whole, and a message in pieces
//! up to its last piece. Knows nothing of hashing.

use crate::{Message, Pieced};

/// The input of the compression function.
pub(crate) type Block = [u8; 64];

/// Blocks of a stage. Two would be enough.
///
/// A message that fits in the stage is copied and becomes a single run. Otherwise it has three runs
/// of uneven length, and lanes wait for each other: messages of 100 to 500 bytes took 80 ns each
/// with eight blocks, 86 with two or four, 80 with sixteen (Zen 5, 2026-11).
const STAGE_BLOCKS: usize = 8;

/// Bytes of the shortest padding: the `0x80` and the length.
const PADDING_MIN_BYTES: usize = 1 + size_of::<u64>();

/// The buffer for copied blocks. A walk borrows it, and so stays small enough to move.
pub(crate) type Stage = [Block; STAGE_BLOCKS];

/// A stage to lend; its content does not matter.
pub(crate) const STAGE: Stage = [[0; 64]; STAGE_BLOCKS];

/// The parts of a message, either kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageParts<'a> {
    head: &'a [u8],
    body: &'a [u8],
    more: &'a [&'a [u8]],
    more_bytes: usize,
}

impl<'a> From<Message<'a>> for MessageParts<'a> {
    fn from(Message { head, body }: Message<'a>) -> Self {
        Self { head, body, ..Self::default() }
    }
}

impl<'a> From<Pieced<'a>> for MessageParts<'a> {
    fn from(Pieced { head, pieces }: Pieced<'a>) -> Self {
        let more_bytes = pieces.iter().map(|piece| piece.len()).sum();
        Self { head, more: pieces, more_bytes, ..Self::default() }
    }
}

impl MessageParts<'_> {
    /// Length of all parts in bytes.
    pub(crate) const fn len(&self) -> usize {
        // No overflow: no machine has that much memory.
        self.head.len() + self.body.len() + self.more_bytes
    }

    /// Fills `into` with the first bytes, and removes them from the parts.
    fn fill(&mut self, mut into: &mut [u8]) {
        while !into.is_empty() {
            let from = if self.head.is_empty() { &mut self.body } else { &mut self.head };
            if from.is_empty() {
                let (first, rest) = self.more.split_first().expect("so much is left");
                (self.body, self.more) = (first, rest);
                self.more_bytes -= first.len();
                continue;
            }
            let (now, later) = from.split_at(from.len().min(into.len()));
            let (filled, rest) = std::mem::take(&mut into).split_at_mut(now.len());
            filled.copy_from_slice(now);
            (*from, into) = (later, rest);
        }
    }
}

/// A walk over the blocks of one message, run by run.
#[derive(Debug)]
pub(crate) struct Blocks<'a> {
    /// Parts of the message that no run covers yet.
    parts: MessageParts<'a>,
    message_bits: u64,
    /// The stage holds the padding, so no run comes after this one.
    padded: bool,
    /// The rest of a run that lies in the message; if empty, the run is staged.
    in_place: &'a [Block],
    /// The rest of a staged run, as positions in `stage`.
    staged_from: usize,
    staged_to: usize,
    stage: &'a mut Stage,
}

impl<'a> Blocks<'a> {
    /// A walk that has ended.
    pub(crate) fn ended(stage: &'a mut Stage) -> Self {
        Self {
            parts: MessageParts::default(),
            message_bits: 0,
            padded: true,
            in_place: &[],
            staged_from: 0,
            staged_to: 0,
            stage,
        }
    }

    /// Goes to the first run of `message`, from any state of the walk.
    pub(crate) fn restart(&mut self, message: MessageParts<'a>) {
        self.message_bits = 8 * message.len() as u64;
        self.parts = message;
        self.padded = false;
        self.in_place = &[];
        self.staged_from = self.staged_to;
        self.next_run();
    }

    /// The rest of the current run, empty only after the last block.
    #[inline]
    pub(crate) fn run(&self) -> &[Block] {
        if self.in_place.is_empty() {
            &self.stage[self.staged_from..self.staged_to]
        } else {
            self.in_place
        }
    }

    /// Blocks that remain.
    pub(crate) fn len(&self) -> usize {
        let padded = if self.padded { 0 } else { self.parts.len() + PADDING_MIN_BYTES };
        self.run().len() + padded.div_ceil(size_of::<Block>())
    }

    /// Skips the first `count` blocks of [`Blocks::run`].
    ///
    /// # Panics
    ///
    /// If the run is shorter than that.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        if count < self.in_place.len() {
            self.in_place = &self.in_place[count..];
        } else {
            self.advance_over_an_end(count);
        }
    }

    fn advance_over_an_end(&mut self, count: usize) {
        if self.in_place.is_empty() {
            self.staged_from += count;
            assert!(self.staged_from <= self.staged_to, "a run ends before its blocks do");
        } else {
            self.in_place = &self.in_place[count..];
        }
        if self.run().is_empty() && !self.padded {
            self.next_run();
        }
    }

    fn next_run(&mut self) {
        let left_bytes = self.parts.len();
        let stage_bytes = self.stage.as_flattened().len();
        if left_bytes + PADDING_MIN_BYTES <= stage_bytes {
            self.stage_to_the_end(left_bytes);
        } else if self.parts.more_bytes > 0 {
            // whole stages: runs that end with pieces would make lanes wait for each other
            self.stage_blocks(STAGE_BLOCKS.min(left_bytes / size_of::<Block>()));
        } else if self.parts.head.len() >= size_of::<Block>() {
            (self.in_place, self.parts.head) = self.parts.head.as_chunks();
        } else if self.parts.head.is_empty() {
            (self.in_place, self.parts.body) = self.parts.body.as_chunks();
        } else {
            // the joint of head and body: the block ends in the body, since shorter rests were
            // staged above
            self.stage_blocks(1);
        }
    }

    /// Stages the rest of the message, and the padding.
    fn stage_to_the_end(&mut self, left_bytes: usize) {
        self.staged_from = 0;
        self.staged_to = (left_bytes + PADDING_MIN_BYTES).div_ceil(size_of::<Block>());
        let stage = self.stage[..self.staged_to].as_flattened_mut();
        let (bytes, padding) = stage.split_at_mut(left_bytes);
        self.parts.fill(bytes);
        let (zeros, length) = padding.split_at_mut(padding.len() - size_of::<u64>());
        zeros.fill(0);
        zeros[0] = 0x80;
        length.copy_from_slice(&self.message_bits.to_be_bytes());
        self.padded = true;
    }

    /// Stages `count` blocks. The message must have as many left.
    fn stage_blocks(&mut self, count: usize) {
        (self.staged_from, self.staged_to) = (0, count);
        self.parts.fill(self.stage[..count].as_flattened_mut());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::strategies::{pool, spans};

    /// The definition: FIPS 180-4, section 5.1.1.
    fn padded(Message { head, body }: Message<'_>) -> Vec<u8> {
        let mut bytes = [head, body].concat();
        let bits = bytes.len() as u64 * 8;
        bytes.push(0x80);
        while bytes.len() % 64 != 56 {
            bytes.push(0);
        }
        bytes.extend(bits.to_be_bytes());
        bytes
    }

    /// The bytes of a walk, read at most `step` blocks at a time.
    fn walked(walk: &mut Blocks<'_>, step: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let blocks = walk.len();
        while !walk.run().is_empty() {
            assert_eq!(walk.len(), blocks - bytes.len() / 64);
            let count = step.min(walk.run().len());
            bytes.extend(walk.run()[..count].as_flattened());
            walk.advance(count);
        }
        bytes
    }

    proptest! {
        #[test]
        fn a_walk_gives_the_padded_message(spans in spans(), step in 1..40_usize) {
            let pool = pool();
            let mut stage = STAGE;
            let mut walk = Blocks::ended(&mut stage);
            for span in spans {
                let message = span.of(&pool);
                walk.restart(message.into());
                prop_assert_eq!(walked(&mut walk, step), padded(message));
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_give_the_padded_message(
            head in 0..100_usize,
            lens in proptest::collection::vec(0..700_usize, 0..9),
            step in 1..40_usize,
        ) {
            let pool = pool();
            let mut ends = lens.iter().scan(head, |end, len| { *end += len; Some(*end) });
            let pieces: Vec<_> = std::iter::zip(&lens, &mut ends)
                .map(|(len, end)| &pool[end - len..end])
                .collect();
            let mut stage = STAGE;
            let mut walk = Blocks::ended(&mut stage);
            walk.restart(Pieced { head: &pool[..head], pieces: &pieces }.into());
            let whole = Message { head: &[], body: &pool[..head + lens.iter().sum::<usize>()] };
            prop_assert_eq!(walked(&mut walk, step), padded(whole));
        }
    }

    #[test]
    fn an_ended_walk_has_no_blocks() {
        let mut stage = STAGE;
        let walk = Blocks::ended(&mut stage);
        assert!(walk.run().is_empty());
        assert_eq!(walk.len(), 0);
    }

    #[test]
    fn a_short_message_is_one_run() {
        let mut stage = STAGE;
        let mut walk = Blocks::ended(&mut stage);
        let bytes = [7; STAGE_BLOCKS * 64];
        let longest = bytes.len() - PADDING_MIN_BYTES;
        walk.restart(Message { head: &bytes[..10], body: &bytes[10..longest] }.into());
        assert_eq!(walk.run().len(), STAGE_BLOCKS);
        walk.restart(Message { head: &bytes[..10], body: &bytes[10..=longest] }.into());
        assert_eq!(walk.run().len(), 1, "the joint");
    }

    #[test]
    fn whole_blocks_of_a_long_body_are_not_copied() {
        let body = vec![7; 1000];
        let mut stage = STAGE;
        let mut walk = Blocks::ended(&mut stage);
        walk.restart(Message { head: b"blob 1000\0", body: &body }.into());
        assert_eq!(walk.run().len(), 1, "the joint");
        walk.advance(1);
        let run = walk.run().as_flattened();
        assert_eq!(run.as_ptr_range(), body[54..54 + 14 * 64].as_ptr_range());
        walk.advance(14);
        assert_eq!(walk.run().len(), 1, "50 bytes of the body, and padding");
        walk.advance(1);
        assert!(walk.run().is_empty());
    }

    #[test]
    fn the_length_is_wider_than_32_bits() {
        let body = vec![0; 1 << 29]; // never written, so it takes no memory
        let mut stage = STAGE;
        let mut walk = Blocks::ended(&mut stage);
        walk.restart(Message { head: &[], body: &body }.into());
        walk.advance(body.len() / 64);
        let last = walk.run().as_flattened();
        assert_eq!(last[56..], (1_u64 << 32).to_be_bytes());
    }

    #[test]
    fn a_restart_forgets_the_rest_of_a_message() {
        let long = vec![7; 1000];
        let others = [(&b""[..], &long[..]), (b"head", &long), (b"short", b"")];
        for (head, body) in others {
            for (next_head, next_body) in others {
                let mut stage = STAGE;
                let mut walk = Blocks::ended(&mut stage);
                walk.restart(Message { head, body }.into());
                let next = Message { head: next_head, body: next_body };
                walk.restart(next.into());
                assert_eq!(walked(&mut walk, 3), padded(next));
            }
        }
    }

    #[test]
    #[should_panic(expected = "a run ends before its blocks do")]
    fn advancing_past_a_staged_run_is_refused() {
        let mut stage = STAGE;
        let mut walk = Blocks::ended(&mut stage);
        walk.restart(Message { head: b"one", body: b"block" }.into());
        walk.advance(2);
    }
}
