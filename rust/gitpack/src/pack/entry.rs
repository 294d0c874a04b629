//! The header of a pack entry, which precedes the compressed bytes.
//!
//! Format: gitformat-pack(5), "pack-*.pack files have the following format".
//!
//! ```text
//! header   = type and size, [distance]
//! size     = bit 7: more follows, bits 4-6: type, bits 0-3: lowest bits of the size; then bytes of
//!            7 bits, least significant first, bit 7 set on all but the last
//! distance = bytes back to the base's start; 7 bits a byte, most significant first, bit 7 set on
//!            all but the last; each byte but the last stands for one more than its bits
//! ```

use crate::oid::ObjectKind;
use crate::stackbytes::StackBytes;

/// Offset of an entry, in bytes from the start of the pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub(super) u64);

impl Offset {
    /// The offset as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The type of an entry: a full object or a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The content of an object.
    Full(ObjectKind),
    /// A delta of an earlier entry of the same pack, see [`crate::delta`].
    Delta {
        /// Offset of the base. The object is of the same kind.
        base: Offset,
    },
}

/// `OBJ_OFS_DELTA`.
pub(super) const OFFSET_DELTA: u8 = 6;
/// `OBJ_REF_DELTA`, which only git writes: the id of the base takes the place of the distance.
pub(super) const ID_DELTA: u8 = 7;

/// Flag of a byte after which the number continues.
const MORE: u8 = 0x80;

/// A header: up to ten bytes for a type and a size of 64 bits, up to ten for a distance.
pub(super) type Header = StackBytes<20>;

/// Makes the header of an entry at `at` that inflates to `len` bytes.
///
/// `None` if the base is not before the entry.
pub(super) fn header(at: Offset, entry: Entry, len: u64) -> Option<Header> {
    let mut header = Header::new();
    match entry {
        Entry::Full(kind) => push_type_and_size(&mut header, kind as u8, len),
        Entry::Delta { base } => {
            let distance = at.0.checked_sub(base.0).filter(|&distance| distance > 0)?;
            push_type_and_size(&mut header, OFFSET_DELTA, len);
            push_distance(&mut header, distance);
        }
    }
    Some(header)
}

fn push_type_and_size(header: &mut Header, kind: u8, len: u64) {
    let mut byte = kind << 4 | (len & 0x0f) as u8;
    let mut left = len >> 4;
    while left > 0 {
        header.push(byte | MORE);
        byte = (left & 0x7f) as u8;
        left >>= 7;
    }
    header.push(byte);
}

fn push_distance(header: &mut Header, distance: u64) {
    let mut reversed = StackBytes::<10>::new();
    reversed.push((distance & 0x7f) as u8);
    let mut left = distance >> 7;
    while left > 0 {
        left -= 1;
        reversed.push((left & 0x7f) as u8 | MORE);
        left >>= 7;
    }
    for &byte in reversed.iter().rev() {
        header.push(byte);
    }
}

/// Parses the type and the size at the beginning of `bytes`.
///
/// Also returns the rest of the bytes. `None` if they are not a type and a size.
pub(super) fn parse_type_and_size(bytes: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (&first, mut rest) = bytes.split_first()?;
    let (mut size, mut shift, mut more) = (u64::from(first & 0x0f), 4, first & MORE > 0);
    while more {
        let (&byte, after) = rest.split_first()?;
        let bits = u64::from(byte & 0x7f);
        let shifted = bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits)?;
        (size, shift, more, rest) = (size | shifted, shift + 7, byte & MORE > 0, after);
    }
    Some((first >> 4 & 7, size, rest))
}

/// Parses the distance at the beginning of `bytes`.
///
/// Also returns the rest of the bytes. `None` if they are not a distance.
pub(super) fn parse_distance(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, mut rest) = bytes.split_first()?;
    let (mut distance, mut more) = (u64::from(first & 0x7f), first & MORE > 0);
    while more {
        let (&byte, after) = rest.split_first()?;
        let before = distance.checked_add(1)?.checked_mul(0x80)?;
        (distance, more, rest) = (before | u64::from(byte & 0x7f), byte & MORE > 0, after);
    }
    Some((distance, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full(len: u64) -> Vec<u8> {
        header(Offset(12), Entry::Full(ObjectKind::Blob), len).expect("has no base").to_vec()
    }

    fn delta(distance: u64) -> Vec<u8> {
        let entry = Entry::Delta { base: Offset(12) };
        header(Offset(12 + distance), entry, 0).expect("base is before").to_vec()
    }

    #[test]
    fn the_size_begins_with_four_bits() {
        assert_eq!(full(0), [0x30]);
        assert_eq!(full(15), [0x3f]);
        assert_eq!(full(16), [0xb0, 0x01]);
        assert_eq!(full(0x7ff), [0xbf, 0x7f]);
        assert_eq!(full(0x800), [0xb0, 0x80, 0x01]);
        assert_eq!(full(u64::MAX).len(), 10);
    }

    #[test]
    fn each_longer_distance_begins_where_the_shorter_ends() {
        assert_eq!(delta(1), [0x60, 0x01]);
        assert_eq!(delta(127), [0x60, 0x7f]);
        assert_eq!(delta(128), [0x60, 0x80, 0x00]);
        assert_eq!(delta(128 + 0x3fff), [0x60, 0xff, 0x7f]);
        assert_eq!(delta(128 + 0x4000), [0x60, 0x80, 0x80, 0x00]);
    }

    #[test]
    fn a_base_that_is_not_before_is_refused() {
        let entry = Entry::Delta { base: Offset(12) };
        assert!(header(Offset(12), entry, 5).is_none());
        assert!(header(Offset(11), entry, 5).is_none());
    }

    proptest! {
        #[test]
        fn a_header_reads_back_as_git_reads_it(len: u64, distance in 1..=u64::MAX - 12) {
            // `unpack_object_header_buffer()` and `get_delta_base()` of git's packfile.c.
            let bytes = full(len);
            let mut size = u64::from(bytes[0] & 0x0f);
            for (place, byte) in bytes[1..].iter().enumerate() {
                size |= u64::from(byte & 0x7f) << (4 + 7 * place);
            }
            prop_assert_eq!(size, len);

            let bytes = delta(distance);
            let mut back = u64::from(bytes[1] & 0x7f);
            for byte in &bytes[2..] {
                back = (back + 1) << 7 | u64::from(byte & 0x7f);
            }
            prop_assert_eq!(back, distance);
        }

        #[test]
        fn a_header_is_parsed(len: u64, distance in 1..=u64::MAX - 12, rest: Vec<u8>) {
            let bytes = [full(len), rest.clone()].concat();
            let kind = ObjectKind::Blob as u8;
            prop_assert_eq!(parse_type_and_size(&bytes), Some((kind, len, &rest[..])));
            let bytes = [delta(distance), rest.clone()].concat();
            let (kind, len, after) = parse_type_and_size(&bytes).expect("is one");
            prop_assert_eq!((kind, len), (OFFSET_DELTA, 0));
            prop_assert_eq!(parse_distance(after), Some((distance, &rest[..])));
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes: Vec<u8>) {
            let _ = (parse_type_and_size(&bytes), parse_distance(&bytes));
        }
    }
}
