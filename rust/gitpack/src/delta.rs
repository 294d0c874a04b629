//! git deltas: one content as copies from another, the base, and insertions between them.
//!
//! [`encode()`] writes the given operations, and [`apply()`] reads a delta. `crate::diff` finds the
//! copies. Format: gitformat-pack(5), "Deltified representation".
//!
//! ```text
//! delta   = length of base, length of result, *(copy / insert)
//! length  = 7 bits a byte, least significant first, bit 7 set on all but the last
//! copy    = 1sssoooo, then the bytes of offset (4) and size (3) whose bit s or o is set,
//!           least significant first; absent bytes are 0, and a size of 0 means 0x10000
//! insert  = 0nnnnnnn, then n bytes; n is not 0
//! ```
//!
//! Two rules are stricter than the page. git refuses a delta of fewer than [`SHORTEST`] bytes
//! (`delta.h`), so an empty result has no delta. git never makes a delta from an empty base, and
//! go-git would not read it (`PatchDelta`). So empty contents are stored whole.

mod apply;
mod encode;

pub use apply::{DeltaError, apply};
pub(crate) use encode::Encoder;
pub use encode::{EncodeError, Out, encode};

/// Minimum length of a delta, `DELTA_SIZE_MIN` in git's `delta.h`.
pub const SHORTEST: usize = 4;

/// Flag of the first byte of a copy.
const COPY: u8 = 0x80;
/// Flag of each byte of a length, except for the last one.
const MORE: u8 = 0x80;

/// Lowest bit of the flags for offset bytes, in the first byte of a copy.
const OFFSET_BITS: u32 = 0;
/// Lowest bit of the flags for size bytes.
const SIZE_BITS: u32 = 4;

/// Maximum number of offset bytes of a copy.
const OFFSET_BYTES: u32 = 4;
/// Maximum number of size bytes of a copy.
const SIZE_BYTES: u32 = 3;

/// Size of a copy that is written as 0.
const SIZE_FOR_ZERO: u64 = 0x1_0000;

/// One step in making the result; steps follow each other without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Copies a range of the base.
    Copy {
        /// Start of the range in the base, in bytes.
        offset: u64,
        /// Length of the range, in bytes.
        len: u64,
    },
    /// Inserts these bytes.
    Insert(&'a [u8]),
}
