//! git deltas: one content as copies from another, the base, and insertions between them.
//!
//! [`encode()`] writes what its caller knows, [`apply()`] reads back; finding the copies is
//! `crate::diff`'s. Format: gitformat-pack(5), "Deltified representation".
//!
//! ```text
//! delta   = length of base, length of result, *(copy / insert)
//! length  = 7 bits a byte, least significant first, bit 7 set on all but the last
//! copy    = 1sssoooo, then the bytes of offset (4) and size (3) whose bit s or o is set,
//!           least significant first; absent bytes are 0, and a size of 0 means 0x10000
//! insert  = 0nnnnnnn, then n bytes; n is not 0
//! ```
//!
//! Two rules are stricter than the page. git takes no delta of fewer than [`SHORTEST`] bytes
//! (`delta.h`), so an empty result has none; and it never makes one from an empty base, which
//! go-git would not read (`PatchDelta`). Contents without bytes are stored whole.

mod apply;
mod encode;

pub use apply::{DeltaError, apply};
pub(crate) use encode::Encoder;
pub use encode::{EncodeError, Out, encode};

/// Length in bytes below which git takes a delta for damaged, `DELTA_SIZE_MIN` in its `delta.h`.
pub const SHORTEST: usize = 4;

/// Set on the first byte of a copy, and on each byte of a length but the last.
const COPY: u8 = 0x80;
const MORE: u8 = 0x80;

/// Where the bits for offset and size bytes begin in the first byte of a copy.
const OFFSET_BITS: u32 = 0;
const SIZE_BITS: u32 = 4;

/// How many bytes of each a copy may have.
const OFFSET_BYTES: u32 = 4;
const SIZE_BYTES: u32 = 3;

/// Bytes copied where the size is written as 0.
const SIZE_FOR_ZERO: u64 = 0x1_0000;

/// One step in making the result; steps follow each other without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Copies a range of the base.
    Copy {
        /// Where the range begins in the base, in bytes.
        offset: u64,
        /// How many bytes it has.
        len: u64,
    },
    /// Inserts these bytes.
    Insert(&'a [u8]),
}
