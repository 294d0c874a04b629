//! Encoding of deltas.

use std::ops::DerefMut;

use super::{COPY, MORE, OFFSET_BITS, Op, SHORTEST, SIZE_BITS, SIZE_FOR_ZERO};

/// Maximum length of a copy.
///
/// A third size byte would allow 2^24 - 1. All checked readers accept it (git since 1.2, libgit2,
/// `JGit`, go-git, dulwich), but git has never written one: its `diff-delta.c` uses two, as "pack
/// v2" demands. Two size bytes cost about 0.01 % of a large text.
const LONGEST_COPY: u64 = SIZE_FOR_ZERO;

/// Maximum length of an insertion.
const LONGEST_INSERT: u8 = 0x7f;

/// The reason why a result cannot be written as a delta of its base.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Empty contents have no delta, see the module.
    #[error("no delta from {base_len} bytes to {result_len}")]
    Empty {
        /// Length of the base.
        base_len: u64,
        /// Length of the result.
        result_len: u64,
    },
    /// A copy begins 4 GiB or more into the base. The caller stores the whole content.
    #[error("copy at {offset} begins past the 4 GiB that a delta can address")]
    TooFar {
        /// Start of the copy that cannot be written.
        offset: u64,
    },
    /// A copy takes bytes that the base does not have.
    #[error("copy of {len} bytes at {offset} from a base of {base_len}")]
    OutsideBase {
        /// Start of the copy in the base.
        offset: u64,
        /// Length of the copy.
        len: u64,
        /// Length of the base.
        base_len: u64,
    },
    /// The operations make a result of another length than stated.
    #[error("operations make {made} bytes, the result has {result_len}")]
    ResultLen {
        /// Bytes that the operations make.
        made: u64,
        /// Stated length of the result.
        result_len: u64,
    },
}

/// The output of an encoder: a vector or a similar buffer.
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

/// Replaces the content of `out` by the delta of `ops`.
///
/// Adjacent copies are merged, and so are insertions. Empty operations are dropped, and long ones
/// are split for the format. Different operations with equal results may give different deltas.
/// The time is linear in the inserted bytes and the number of operations.
///
/// # Errors
///
/// [`EncodeError`], with `out` empty. [`EncodeError::Empty`] and [`EncodeError::TooFar`] are
/// limits of the format, the others are mistakes in `ops`.
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

/// A writer of one delta. Does not check that copies are within the base, or the result's length.
pub(crate) struct Encoder<'o, O> {
    out: &'o mut O,
    /// Offset and length of a pending copy, which the next copy may extend.
    copy: (u64, u64),
    /// Position of the length byte of the last insertion, if the next insertion may extend it.
    insert: Option<usize>,
}

impl<'o, O: Out> Encoder<'o, O> {
    /// Replaces the content of `out` by the two lengths.
    pub(crate) fn new(base_len: u64, result_len: u64, out: &'o mut O) -> Result<Self, EncodeError> {
        out.clear();
        if base_len == 0 || result_len == 0 {
            return Err(EncodeError::Empty { base_len, result_len });
        }
        push_length(out, base_len);
        push_length(out, result_len);
        Ok(Self { out, copy: (0, 0), insert: None })
    }

    /// Number of bytes written, without the pending copy.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Appends a copy of a range of the base.
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

    /// Appends an insertion of `bytes`.
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

    /// Writes the pending copy, which completes the delta.
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

/// Writes a copy of 1 to [`LONGEST_COPY`] bytes.
fn push_copy(out: &mut impl Out, offset: u32, len: u64) {
    let [low, high, ..] = len.to_le_bytes(); // both 0 for the longest, as the format demands
    let at = out.len();
    out.extend(&[COPY]);
    for (bit, byte) in (OFFSET_BITS..).zip(offset.to_le_bytes()) {
        push_present(out, at, bit, byte);
    }
    for (bit, byte) in (SIZE_BITS..).zip([low, high]) {
        push_present(out, at, bit, byte);
    }
}

/// Writes a byte of the copy that begins at `at`, and sets its flag, unless the byte is 0.
fn push_present(out: &mut impl Out, at: usize, bit: u32, byte: u8) {
    if byte != 0 {
        out[at] |= 1 << bit;
        out.extend(&[byte]);
    }
}

#[cfg(test)]
mod tests;
