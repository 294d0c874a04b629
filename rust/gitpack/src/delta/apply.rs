//! Application of deltas from untrusted sources.

#![deny(clippy::indexing_slicing)]

use super::{
    COPY, MORE, OFFSET_BITS, OFFSET_BYTES, Op, SHORTEST, SIZE_BITS, SIZE_BYTES, SIZE_FOR_ZERO,
};

/// A defect of a delta.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// The delta has fewer bytes than git accepts.
    #[error("delta has {0} bytes, the shortest has {SHORTEST}")]
    TooShort(usize),
    /// The delta ends within a length or an operation.
    #[error("delta ends within a length or an operation")]
    Cut,
    /// A length in front does not fit 64 bits.
    #[error("length in front of delta does not fit 64 bits")]
    LengthOverflow,
    /// The delta was made for another base.
    #[error("delta is for a base of {expected} bytes, this one has {found}")]
    BaseLen {
        /// Length of the base in the delta.
        expected: u64,
        /// Length of the given base.
        found: u64,
    },
    /// A copy takes bytes that the base does not have.
    #[error("delta copies {len} bytes at {offset} from a base of {base_len}")]
    OutsideBase {
        /// Start of the copy in the base.
        offset: u64,
        /// Length of the copy.
        len: u64,
        /// Length of the base.
        base_len: u64,
    },
    /// An operation has the reserved value 0.
    #[error("delta has the reserved operation 0")]
    Reserved,
    /// The operations make a result of another length than the delta states.
    #[error("delta makes {made} bytes, its result has {result_len}")]
    ResultLen {
        /// Bytes that the operations make; may be a lower bound.
        made: u64,
        /// Length of the result in the delta.
        result_len: u64,
    },
    /// The result is longer than the caller's limit.
    #[error("delta makes {result_len} bytes, more than {most_len}")]
    TooLong {
        /// Length of the result in the delta.
        result_len: u64,
        /// Limit of the caller.
        most_len: usize,
    },
    /// The memory for the result cannot be allocated.
    #[error("no memory for the {0} bytes that delta makes")]
    NoMemory(u64),
}

/// Applies `delta` to `base`, and returns the result.
///
/// All operations are checked before memory is allocated. The result can be thousands of times as
/// long as the delta, so `most_len` limits it, in bytes.
///
/// # Errors
///
/// [`DeltaError`] for the first defect. git refuses such deltas, too.
pub fn apply(base: &[u8], delta: &[u8], most_len: usize) -> Result<Vec<u8>, DeltaError> {
    if delta.len() < SHORTEST {
        return Err(DeltaError::TooShort(delta.len()));
    }
    let mut front = Reader(delta);
    let (expected, found) = (front.length()?, base.len() as u64);
    if expected != found {
        return Err(DeltaError::BaseLen { expected, found });
    }
    let result_len = front.length()?;
    if result_len > most_len as u64 {
        return Err(DeltaError::TooLong { result_len, most_len });
    }
    let mut made = 0;
    let mut ops = Reader(front.0);
    while let Some(op) = ops.op()? {
        made += piece(base, op)?.len() as u64;
        if made > result_len {
            break;
        }
    }
    if made != result_len {
        return Err(DeltaError::ResultLen { made, result_len });
    }

    let mut result = Vec::new();
    let reserved = usize::try_from(result_len).map(|len| result.try_reserve_exact(len));
    if !matches!(reserved, Ok(Ok(()))) {
        return Err(DeltaError::NoMemory(result_len));
    }
    let mut ops = Reader(front.0);
    while let Some(op) = ops.op()? {
        result.extend_from_slice(piece(base, op)?);
    }
    Ok(result)
}

/// Returns the bytes that `op` adds to the result.
fn piece<'a>(base: &'a [u8], op: Op<'a>) -> Result<&'a [u8], DeltaError> {
    match op {
        Op::Insert(bytes) => Ok(bytes),
        Op::Copy { offset, len } => {
            let start = usize::try_from(offset).ok();
            let rest = start.and_then(|start| base.get(start..));
            let range = usize::try_from(len).ok().and_then(|len| rest?.get(..len));
            range.ok_or(DeltaError::OutsideBase { offset, len, base_len: base.len() as u64 })
        }
    }
}

/// The unread part of a delta.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, DeltaError> {
        let (&byte, rest) = self.0.split_first().ok_or(DeltaError::Cut)?;
        self.0 = rest;
        Ok(byte)
    }

    fn length(&mut self) -> Result<u64, DeltaError> {
        let mut len = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & !MORE);
            let placed = bits.checked_shl(shift).filter(|placed| placed >> shift == bits);
            len |= placed.ok_or(DeltaError::LengthOverflow)?;
            if byte & MORE == 0 {
                return Ok(len);
            }
            shift += 7;
        }
    }

    /// Reads the next operation; `None` at the end.
    fn op(&mut self) -> Result<Option<Op<'a>>, DeltaError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let first = self.byte()?;
        if first & COPY != 0 {
            let offset = self.number(first >> OFFSET_BITS, OFFSET_BYTES)?;
            let size = self.number(first >> SIZE_BITS, SIZE_BYTES)?;
            let len = if size == 0 { SIZE_FOR_ZERO } else { size };
            return Ok(Some(Op::Copy { offset, len }));
        }
        if first == 0 {
            return Err(DeltaError::Reserved);
        }
        let (bytes, rest) = self.0.split_at_checked(usize::from(first)).ok_or(DeltaError::Cut)?;
        self.0 = rest;
        Ok(Some(Op::Insert(bytes)))
    }

    /// Reads a number of up to `bytes` bytes. `present` has a bit for each byte that is present;
    /// the others are 0.
    fn number(&mut self, present: u8, bytes: u32) -> Result<u64, DeltaError> {
        let mut number = 0;
        for place in 0..bytes {
            if present & 1 << place != 0 {
                number |= u64::from(self.byte()?) << (8 * place);
            }
        }
        Ok(number)
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test that is wrong may panic")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BASE: &[u8] = b"0123456789";
    const MOST_LEN: usize = 1 << 20;

    fn apply(base: &[u8], delta: &[u8]) -> Result<Vec<u8>, DeltaError> {
        super::apply(base, delta, MOST_LEN)
    }

    #[test]
    fn a_result_beyond_what_the_caller_takes_is_refused() {
        // one byte for 64 KiB of the base, again and again
        let base = vec![b'x'; 0x1_0000];
        let delta = [&b"\x80\x80\x04\x80\x80\x80\x01"[..], &[0x80; 32]].concat();
        let error = DeltaError::TooLong { result_len: 32 << 16, most_len: MOST_LEN };
        assert_eq!(apply(&base, &delta), Err(error));
        assert_eq!(super::apply(&base, &delta, 32 << 16).map(|made| made.len()), Ok(32 << 16));
    }

    #[test]
    fn copies_and_insertions_make_the_result() {
        let delta = b"\x0a\x08\x91\x07\x03\x02ab\x90\x03";
        assert_eq!(apply(BASE, delta), Ok(b"789ab012".to_vec()));
    }

    #[test]
    fn a_third_size_byte_is_read() {
        let base = vec![b'x'; 0x2_0000];
        let delta = [0x80, 0x80, 0x08, 0x80, 0x80, 0x08, 0xc0, 0x02];
        assert_eq!(apply(&base, &delta), Ok(base));
    }

    #[test]
    fn a_cut_delta_is_refused() {
        let delta = b"\x0a\x08\x91\x07\x03\x02ab\x90\x03";
        for len in 0..delta.len() {
            let error = apply(BASE, &delta[..len]).expect_err("the end is missing");
            let expected = match len {
                0..=3 => DeltaError::TooShort(len),
                5 => DeltaError::ResultLen { made: 3, result_len: 8 },
                8 => DeltaError::ResultLen { made: 5, result_len: 8 },
                _ => DeltaError::Cut,
            };
            assert_eq!(error, expected, "cut at {len}");
        }
    }

    #[test]
    fn another_base_is_refused() {
        let error = DeltaError::BaseLen { expected: 11, found: 10 };
        assert_eq!(apply(BASE, b"\x0b\x01\x90\x01"), Err(error));
    }

    #[test]
    fn a_copy_from_outside_the_base_is_refused() {
        let error = DeltaError::OutsideBase { offset: 7, len: 4, base_len: 10 };
        assert_eq!(apply(BASE, b"\x0a\x04\x91\x07\x04"), Err(error));
        let error = DeltaError::OutsideBase { offset: 0xffff_ffff, len: 0x1_0000, base_len: 10 };
        assert_eq!(apply(BASE, b"\x0a\x04\x8f\xff\xff\xff\xff"), Err(error));
    }

    #[test]
    fn the_reserved_operation_is_refused() {
        assert_eq!(apply(BASE, b"\x0a\x01\x00\x01"), Err(DeltaError::Reserved));
    }

    #[test]
    fn a_result_of_another_length_is_refused() {
        let error = DeltaError::ResultLen { made: 3, result_len: 2 };
        assert_eq!(apply(BASE, b"\x0a\x02\x03abc"), Err(error));
        let error = DeltaError::ResultLen { made: 3, result_len: 4 };
        assert_eq!(apply(BASE, b"\x0a\x04\x03abc"), Err(error));
    }

    #[test]
    fn a_length_beyond_64_bits_is_refused() {
        let mut delta = vec![0xff; 9];
        delta.extend_from_slice(b"\x01\x01\x01a");
        assert_eq!(apply(BASE, &delta), Err(DeltaError::BaseLen { expected: u64::MAX, found: 10 }));
        delta[9] = 2;
        assert_eq!(apply(BASE, &delta), Err(DeltaError::LengthOverflow));
        assert_eq!(apply(BASE, &[0x80; 20]), Err(DeltaError::LengthOverflow));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(base: Vec<u8>, delta: Vec<u8>) {
            let _ = apply(&base, &delta);
        }

        #[test]
        fn hostile_operations_never_panic(ops: Vec<u8>, result_len in 0..0x80_u8) {
            let mut delta = vec![10, result_len];
            delta.extend_from_slice(&ops);
            if let Ok(result) = apply(BASE, &delta) {
                prop_assert_eq!(result.len(), usize::from(result_len));
            }
        }
    }
}
