//! Deltas between texts as hg-git stores them: git's delta format, with the operations of Python's
//! `difflib.SequenceMatcher(None, base, target).get_opcodes()`.
//!
//! Nodes depend on each byte, so the port follows `difflib.py` of `CPython` 3.11, with its heuristic
//! for popular elements.

/// Target length from which frequent bytes are no anchors.
const LEAST_JUNK_LEN: usize = 200;
/// Longest copy of one operation.
const LONGEST_COPY: usize = 0xffff;
/// Longest literal of one operation.
const LONGEST_LITERAL: usize = 127;
/// Comparisons of bytes for one delta: some seconds. The time is quadratic, and hg-git needs minutes
/// for as many. A target that needs more is one literal.
const MOST_STEPS: usize = 1 << 31;

/// Delta that makes `target` of `base`.
pub fn delta(base: &[u8], target: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(target.len() / 4 + 16);
    push_size(&mut out, base.len());
    push_size(&mut out, target.len());
    let mut done = 0;
    let blocks = Matcher::new(base, target, MOST_STEPS).blocks();
    for Block { base: start, target: at, len } in blocks.unwrap_or_default() {
        push_literals(&mut out, &target[done..at]);
        for from in (start..start + len).step_by(LONGEST_COPY) {
            push_copy(&mut out, from, (start + len - from).min(LONGEST_COPY));
        }
        done = at + len;
    }
    push_literals(&mut out, &target[done..]);
    out
}

fn push_size(out: &mut Vec<u8>, mut size: usize) {
    while size > 0x7f {
        out.push(low_byte(size) | 0x80);
        size >>= 7;
    }
    out.push(low_byte(size));
}

fn push_literals(out: &mut Vec<u8>, bytes: &[u8]) {
    for piece in bytes.chunks(LONGEST_LITERAL) {
        out.push(low_byte(piece.len()));
        out.extend_from_slice(piece);
    }
}

fn push_copy(out: &mut Vec<u8>, start: usize, len: usize) {
    let head = out.len();
    out.push(0x80);
    for (bit, byte) in (0..4).map(|at| low_byte(start >> (8 * at))).enumerate().chain(
        (0..2).map(|at| low_byte(len >> (8 * at))).enumerate().map(|(at, byte)| (at + 4, byte)),
    ) {
        if byte != 0 {
            out.push(byte);
            out[head] |= 1 << bit;
        }
    }
}

fn low_byte(number: usize) -> u8 {
    number.to_le_bytes()[0]
}

/// Equal parts of both texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Block {
    base: usize,
    target: usize,
    len: usize,
}

/// Ranges of both texts.
#[derive(Clone, Copy, Debug)]
struct Ranges {
    base: (usize, usize),
    target: (usize, usize),
}

struct Matcher<'a> {
    base: &'a [u8],
    target: &'a [u8],
    /// Places of each byte value in `target`, unless it is popular.
    places: Vec<Vec<usize>>,
    /// Length of the longest match that ends at a place of `target`, for two bytes of `base`.
    lens: [Vec<usize>; 2],
    /// Comparisons that may still be made.
    steps: usize,
}

impl<'a> Matcher<'a> {
    fn new(base: &'a [u8], target: &'a [u8], steps: usize) -> Self {
        let mut places = vec![Vec::new(); 256];
        for (at, byte) in target.iter().enumerate() {
            places[usize::from(*byte)].push(at);
        }
        if target.len() >= LEAST_JUNK_LEN {
            let most = target.len() / 100 + 1;
            for places in &mut places {
                if places.len() > most {
                    places.clear();
                }
            }
        }
        // one more: a match that ends at place 0 follows nothing
        let lens = [vec![0; target.len() + 1], vec![0; target.len() + 1]];
        Self { base, target, places, lens, steps }
    }

    /// Equal parts, ascending, adjacent ones joined; `None` after too many steps.
    fn blocks(&mut self) -> Option<Vec<Block>> {
        let mut pending =
            vec![Ranges { base: (0, self.base.len()), target: (0, self.target.len()) }];
        let mut found = Vec::new();
        while let Some(Ranges { base, target }) = pending.pop() {
            let block = self.longest(Ranges { base, target })?;
            if block.len == 0 {
                continue;
            }
            found.push(block);
            if base.0 < block.base && target.0 < block.target {
                pending
                    .push(Ranges { base: (base.0, block.base), target: (target.0, block.target) });
            }
            let end = (block.base + block.len, block.target + block.len);
            if end.0 < base.1 && end.1 < target.1 {
                pending.push(Ranges { base: (end.0, base.1), target: (end.1, target.1) });
            }
        }
        found.sort_unstable();
        let mut joined: Vec<Block> = Vec::with_capacity(found.len());
        for block in found {
            match joined.last_mut() {
                Some(last)
                    if last.base + last.len == block.base
                        && last.target + last.len == block.target =>
                {
                    last.len += block.len;
                }
                _ => joined.push(block),
            }
        }
        Some(joined)
    }

    /// Longest equal part within ranges: the first in `base`, and of these the first in `target`.
    fn longest(
        &mut self,
        Ranges { base: (base_from, base_to), target: (from, to) }: Ranges,
    ) -> Option<Block> {
        let (base, target) = (self.base, self.target);
        let mut best = Block { base: base_from, target: from, len: 0 };
        let [before, now] = &mut self.lens;
        let mut set_before: &[usize] = &[];
        for (at, byte) in base.iter().enumerate().take(base_to).skip(base_from) {
            let places = &self.places[usize::from(*byte)];
            let start = places.partition_point(|place| *place < from);
            let end = places.partition_point(|place| *place < to);
            let places = &places[start..end];
            self.steps = self.steps.checked_sub(1 + places.len())?;
            for place in places {
                let len = before[*place] + 1;
                now[place + 1] = len;
                if len > best.len {
                    best = Block { base: at + 1 - len, target: place + 1 - len, len };
                }
            }
            for place in set_before {
                before[place + 1] = 0;
            }
            set_before = places;
            std::mem::swap(before, now);
        }
        for place in set_before {
            before[place + 1] = 0;
        }
        // popular bytes extend a match
        while best.base > base_from
            && best.target > from
            && base[best.base - 1] == target[best.target - 1]
        {
            best = Block { base: best.base - 1, target: best.target - 1, len: best.len + 1 };
        }
        while best.base + best.len < base_to
            && best.target + best.len < to
            && base[best.base + best.len] == target[best.target + best.len]
        {
            best.len += 1;
        }
        Some(best)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn applied(base: &[u8], delta: &[u8]) -> Vec<u8> {
        let (_, rest) = size(delta);
        let (_, mut rest) = size(rest);
        let mut out = Vec::new();
        while let Some((op, after)) = rest.split_first() {
            rest = after;
            if op & 0x80 == 0 {
                let (literal, after) = rest.split_at(usize::from(*op));
                out.extend_from_slice(literal);
                rest = after;
                continue;
            }
            let mut word = |bits: std::ops::Range<u32>| {
                let mut number = 0;
                for (at, bit) in bits.enumerate() {
                    if op & 1 << bit != 0 {
                        number |= usize::from(rest[0]) << (8 * at);
                        rest = &rest[1..];
                    }
                }
                number
            };
            let (start, len) = (word(0..4), word(4..6));
            out.extend_from_slice(&base[start..start + len]);
        }
        out
    }

    fn size(delta: &[u8]) -> (usize, &[u8]) {
        let len = delta.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
        let bytes = delta[..len].iter().rev();
        (bytes.fold(0, |size, byte| size << 7 | usize::from(byte & 0x7f)), &delta[len..])
    }

    #[test]
    fn operations_are_those_of_difflib() {
        // made by difflib of CPython 3.11
        assert_eq!(delta(b"qabxcd", b"abycdf"), b"\x06\x06\x91\x01\x02\x01y\x91\x04\x02\x01f");
        assert_eq!(delta(b"\n", b""), b"\x01\x00");
        assert_eq!(delta(b"message\n", b"message"), b"\x08\x07\x90\x07");
        // the first of equally long matches
        assert_eq!(delta(b"ab-ab", b"ab"), b"\x05\x02\x90\x02");
    }

    #[test]
    fn frequent_bytes_of_a_long_target_are_no_anchors() {
        let (base, target) = (vec![b'a'; 300], vec![b'a'; 250]);
        let made = delta(&base, &target);
        // no anchor at all, so nothing is extended from one but the beginning
        assert_eq!(applied(&base, &made), target);
        assert_eq!(made, [&b"\xac\x02\xfa\x01"[..], b"\x90\xfa"].concat());
    }

    #[test]
    fn long_texts_are_compared_for_some_time_only() {
        let base: Vec<u8> = (0..5000_u32).map(|at| (at * at % 251) as u8).collect();
        let target = [&base[..], b"x"].concat();
        assert!(Matcher::new(&base, &target, 1 << 20).blocks().is_some());
        assert_eq!(Matcher::new(&base, &target, 1000).blocks(), None);
    }

    proptest! {
        #[test]
        fn a_delta_makes_the_target(base in "[ab\n]{0,300}", target in "[ab\r\n]{0,300}") {
            let made = delta(base.as_bytes(), target.as_bytes());
            prop_assert_eq!(applied(base.as_bytes(), &made), target.as_bytes());
        }
    }
}
