//! Writing deltas.

use std::ops::DerefMut;

use super::{COPY, MORE, OFFSET_BITS, Op, SHORTEST, SIZE_BITS, SIZE_FOR_ZERO};

/// Bytes of one copy. A third size byte would allow 2^24 - 1, and all readers looked at (git since
/// 1.2, libgit2, `JGit`, go-git, dulwich) take it, but git has never written one: its `diff-delta.c`
/// keeps to two, as "pack v2" demands. Keeping to them too costs about 0.01 % of a large text.
const LONGEST_COPY: u64 = SIZE_FOR_ZERO;

/// Bytes of one insertion.
const LONGEST_INSERT: u8 = 0x7f;

/// Why a result cannot be written as a delta of its base.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Contents without bytes have no delta, see the module.
    #[error("no delta from {base_len} bytes to {result_len}")]
    Empty {
        /// Bytes of the base.
        base_len: u64,
        /// Bytes of the result.
        result_len: u64,
    },
    /// A copy begins 4 GiB or more into the base. The caller stores the whole content.
    #[error("copy at {offset} begins past the 4 GiB that a delta can address")]
    TooFar {
        /// Where the piece that cannot be written begins.
        offset: u64,
    },
    /// A copy takes bytes that the base does not have.
    #[error("copy of {len} bytes at {offset} from a base of {base_len}")]
    OutsideBase {
        /// Where the copy begins.
        offset: u64,
        /// Its bytes.
        len: u64,
        /// Bytes of the base.
        base_len: u64,
    },
    /// The operations do not make the promised result.
    #[error("operations make {made} bytes, the result has {result_len}")]
    ResultLen {
        /// Bytes that the operations make.
        made: u64,
        /// Bytes promised.
        result_len: u64,
    },
}

/// Where a delta goes: a vector, or what is used like one.
pub trait Out: DerefMut<Target = [u8]> {
    /// Removes all bytes.
    fn clear(&mut self);

    /// Appends `bytes`.
    fn extend(&mut self, bytes: &[u8]);
}

impl Out for Vec<u8> {
    fn clear(&mut self) {
        self.clear();
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Replaces the contents of `out` by the delta that makes `result_len` bytes from `base_len`.
///
/// Copies that continue each other become one, and so do insertions; empty operations vanish, and
/// long ones are split as the format asks. Equal results of operations need not give equal
/// deltas. Linear in the bytes inserted and the number of operations.
///
/// # Errors
///
/// [`EncodeError`], with `out` empty. [`EncodeError::Empty`] and [`EncodeError::TooFar`] are
/// limits of the format, the others mistakes in `ops`.
pub fn encode<'a>(
    base_len: u64,
    result_len: u64,
    ops: impl IntoIterator<Item = Op<'a>>,
    out: &mut impl Out,
) -> Result<(), EncodeError> {
    let encoded = encode_ops(base_len, result_len, ops, out);
    if encoded.is_err() {
        out.clear();
    }
    encoded
}

fn encode_ops<'a>(
    base_len: u64,
    result_len: u64,
    ops: impl IntoIterator<Item = Op<'a>>,
    out: &mut impl Out,
) -> Result<(), EncodeError> {
    let mut encoder = Encoder::new(base_len, result_len, out)?;
    let mut made = 0_u64;
    for op in ops {
        match op {
            Op::Copy { offset, len } => {
                if offset.checked_add(len).is_none_or(|end| end > base_len) {
                    return Err(EncodeError::OutsideBase { offset, len, base_len });
                }
                encoder.copy(offset, len)?;
                made = made.saturating_add(len);
            }
            Op::Insert(bytes) => {
                encoder.insert(bytes)?;
                made = made.saturating_add(bytes.len() as u64);
            }
        }
    }
    if made != result_len {
        return Err(EncodeError::ResultLen { made, result_len });
    }
    encoder.finish()
}

/// A delta being written; trusts that copies are within the base and all make up the result.
pub(crate) struct Encoder<'o, O> {
    out: &'o mut O,
    /// Offset and length of a copy not written yet, since the next may continue it.
    copy: (u64, u64),
    /// Where the length of the last insertion stands, if that may still grow.
    insert: Option<usize>,
}

impl<'o, O: Out> Encoder<'o, O> {
    /// Replaces the contents of `out` by the two lengths.
    pub(crate) fn new(base_len: u64, result_len: u64, out: &'o mut O) -> Result<Self, EncodeError> {
        out.clear();
        if base_len == 0 || result_len == 0 {
            return Err(EncodeError::Empty { base_len, result_len });
        }
        push_length(out, base_len);
        push_length(out, result_len);
        Ok(Self { out, copy: (0, 0), insert: None })
    }

    /// Bytes written so far; a copy that may still grow is not among them.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Takes a range of the base next.
    pub(crate) fn copy(&mut self, offset: u64, len: u64) -> Result<(), EncodeError> {
        let (begun, so_far) = self.copy;
        if so_far > 0 && begun + so_far == offset {
            self.copy.1 += len;
        } else if len > 0 {
            self.end_copy()?;
            self.copy = (offset, len);
        }
        Ok(())
    }

    /// Takes `bytes` next.
    pub(crate) fn insert(&mut self, mut bytes: &[u8]) -> Result<(), EncodeError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.end_copy()?;
        while !bytes.is_empty() {
            let at = *self.insert.get_or_insert_with(|| {
                self.out.extend(&[0]);
                self.out.len() - 1
            });
            let room = LONGEST_INSERT - self.out[at];
            let fits = u8::try_from(bytes.len()).unwrap_or(room).min(room);
            let (piece, rest) = bytes.split_at(usize::from(fits));
            self.out.extend(piece);
            self.out[at] += fits;
            bytes = rest;
            if fits == room {
                self.insert = None;
            }
        }
        Ok(())
    }

    /// Writes what is left; the delta is whole then.
    pub(crate) fn finish(mut self) -> Result<(), EncodeError> {
        self.end_copy()?;
        debug_assert!(self.out.len() >= SHORTEST);
        Ok(())
    }

    fn end_copy(&mut self) -> Result<(), EncodeError> {
        let (mut offset, mut left) = std::mem::take(&mut self.copy);
        while left > 0 {
            let piece = left.min(LONGEST_COPY);
            let Ok(offset_32) = u32::try_from(offset) else {
                return Err(EncodeError::TooFar { offset });
            };
            push_copy(self.out, offset_32, piece);
            self.insert = None;
            offset += piece;
            left -= piece;
        }
        Ok(())
    }
}

fn push_length(out: &mut impl Out, mut len: u64) {
    loop {
        let [byte, ..] = len.to_le_bytes();
        if len < u64::from(MORE) {
            out.extend(&[byte]);
            break;
        }
        out.extend(&[byte | MORE]);
        len >>= 7;
    }
}

/// One copy of 1 to [`LONGEST_COPY`] bytes.
fn push_copy(out: &mut impl Out, offset: u32, len: u64) {
    let [low, high, ..] = len.to_le_bytes(); // both 0 for the longest, as they should be
    let at = out.len();
    out.extend(&[COPY]);
    for (bit, byte) in (OFFSET_BITS..).zip(offset.to_le_bytes()) {
        push_present(out, at, bit, byte);
    }
    for (bit, byte) in (SIZE_BITS..).zip([low, high]) {
        push_present(out, at, bit, byte);
    }
}

/// A byte of a copy, if it is not 0; `at` is where the copy begins.
fn push_present(out: &mut impl Out, at: usize, bit: u32, byte: u8) {
    if byte != 0 {
        out[at] |= 1 << bit;
        out.extend(&[byte]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::apply;
    use super::*;

    fn encoded(base_len: u64, result_len: u64, ops: &[Op]) -> Result<Vec<u8>, EncodeError> {
        let mut out = b"old".to_vec();
        let encoded = encode(base_len, result_len, ops.iter().copied(), &mut out);
        encoded.map(|()| out)
    }

    #[test]
    fn lengths_come_in_seven_bits_least_first() {
        let copy = |len| encoded(0x1_2345, len, &[Op::Copy { offset: 0, len }]);
        assert_eq!(copy(1), Ok(vec![0xc5, 0xc6, 0x04, 1, 0x90, 1]));
        assert_eq!(copy(0x80), Ok(vec![0xc5, 0xc6, 0x04, 0x80, 1, 0x90, 0x80]));
    }

    #[test]
    fn zero_bytes_of_a_copy_are_left_out() {
        let ops = [Op::Copy { offset: 0x0100_0002, len: 0x300 }];
        let delta = encoded(1 << 31, 0x300, &ops).expect("within the format");
        assert_eq!(delta[7..], [0x80 | 0x01 | 0x08 | 0x20, 2, 1, 3]);
    }

    #[test]
    fn a_copy_is_split_as_git_splits_it() {
        let len = 0x2_0001;
        let delta = encoded(1 << 20, len, &[Op::Copy { offset: 1, len }]).expect("is legal");
        assert_eq!(delta[6..], [0x81, 1, 0x85, 1, 1, 0x95, 1, 2, 1]);
    }

    #[test]
    fn operations_that_continue_each_other_become_one() {
        let ops = [
            Op::Insert(b""),
            Op::Copy { offset: 1, len: 2 },
            Op::Insert(b""),
            Op::Copy { offset: 9, len: 0 },
            Op::Copy { offset: 3, len: 4 },
            Op::Insert(b"ab"),
            Op::Copy { offset: 2, len: 0 },
            Op::Insert(b"c"),
        ];
        assert_eq!(encoded(9, 9, &ops), Ok(b"\x09\x09\x91\x01\x06\x03abc".to_vec()));
    }

    #[test]
    fn an_insertion_after_a_copy_is_a_new_one() {
        let ops = [Op::Insert(b"a"), Op::Copy { offset: 0, len: 1 }, Op::Insert(b"b")];
        assert_eq!(encoded(1, 3, &ops), Ok(b"\x01\x03\x01a\x90\x01\x01b".to_vec()));
    }

    #[test]
    fn long_insertions_are_cut_to_full_pieces() {
        let text = [b'x'; 300];
        let delta = encoded(1, 300, &[Op::Insert(&text[..100]), Op::Insert(&text[100..])]);
        let delta = delta.expect("is legal");
        assert_eq!(delta.len(), 3 + 300 + 3);
        assert_eq!([delta[3], delta[3 + 128], delta[3 + 256]], [127, 127, 46]);
    }

    #[test]
    fn copies_from_beyond_4_gib_are_refused() {
        let limit = 1_u64 << 32;
        let last = Op::Copy { offset: limit - 1, len: 5 };
        assert!(encoded(limit + 9, 5, &[last]).is_ok());
        let far = Op::Copy { offset: limit, len: 5 };
        assert_eq!(encoded(limit + 9, 5, &[far]), Err(EncodeError::TooFar { offset: limit }));
        let len = 2 * LONGEST_COPY;
        let across = Op::Copy { offset: limit - LONGEST_COPY, len };
        assert_eq!(encoded(2 * limit, len, &[across]), Err(EncodeError::TooFar { offset: limit }));
    }

    #[test]
    fn contents_without_bytes_have_no_delta() {
        assert_eq!(encoded(5, 0, &[]), Err(EncodeError::Empty { base_len: 5, result_len: 0 }));
        let insert = [Op::Insert(b"a")];
        let empty = EncodeError::Empty { base_len: 0, result_len: 1 };
        assert_eq!(encoded(0, 1, &insert), Err(empty));
    }

    #[test]
    fn operations_that_do_not_fit_are_refused_and_leave_nothing() {
        let mut out = b"old".to_vec();
        let copy = |offset, len| [Op::Copy { offset, len }];
        let outside = EncodeError::OutsideBase { offset: 1, len: 9, base_len: 9 };
        assert_eq!(encode(9, 9, copy(1, 9), &mut out), Err(outside));
        assert!(out.is_empty());
        let far = u64::MAX;
        let outside = EncodeError::OutsideBase { offset: far, len: 1, base_len: 9 };
        assert_eq!(encode(9, 9, copy(far, 1), &mut out), Err(outside));
        let short = EncodeError::ResultLen { made: 8, result_len: 9 };
        assert_eq!(encode(9, 9, copy(1, 8), &mut out), Err(short));
        assert!(out.is_empty());
    }

    proptest! {
        #[test]
        fn an_encoded_delta_makes_what_its_operations_say(
            base in proptest::collection::vec(any::<u8>(), 1..300),
            steps in proptest::collection::vec((any::<bool>(), 0..300_usize, 0..300_usize), 0..20),
        ) {
            let base = base.repeat(300); // so that copies are split
            let mut expected = Vec::new();
            let mut ops = Vec::new();
            for (is_copy, at, len) in steps {
                let (start, len) = if is_copy { (at * 200, len * 300) } else { (at, len) };
                let start = start.min(base.len());
                let range = &base[start..base.len().min(start + len)];
                expected.extend_from_slice(range);
                ops.push(if is_copy {
                    Op::Copy { offset: start as u64, len: range.len() as u64 }
                } else {
                    Op::Insert(range)
                });
            }
            let delta = encoded(base.len() as u64, expected.len() as u64, &ops);
            if expected.is_empty() {
                prop_assert!(delta.is_err());
            } else {
                let delta = delta.expect("operations are within the base");
                prop_assert_eq!(apply(&base, &delta, 1 << 20), Ok(expected));
            }
        }
    }
}
