//! zlib streams (RFC 1950), one object or delta each, as packs store them.
//!
//! Knows nothing of what it compresses. Uses libdeflate, which works on whole buffers: at level 6 it
//! is 1.5 to 2 times as fast as the zlib git links. What is short has a compressor of its own.

mod bits;
mod codes;
mod costs;
mod head;
mod presets;
mod quick;
mod runs;

pub use quick::{QuickDeflater, SymbolCounts};

use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};

/// libdeflate's slowest level; git's own scale ends at 9.
const SLOWEST: u8 = 12;

/// Room for streams that is kept from one to the next, in bytes.
const KEPT_ROOM: usize = 1 << 20;

/// No deflate stream grows by more than this: 258 bytes from two bits.
const GREATEST_RATIO: usize = 1032;

/// Compresses one buffer after the other; a thread has its own.
///
/// Each stream begins with an empty table of 128 KiB, see [`QuickDeflater`].
pub struct Deflater {
    compressor: Compressor,
    /// Room for a stream of unknown length, if it is not too long to be kept.
    room: Vec<u8>,
}

impl Deflater {
    /// Compresses at `level`: 0 stores, 1 is fast, 6 is git's default, 12 and above the slowest.
    #[must_use]
    pub fn new(level: u8) -> Self {
        let level = CompressionLvl::new(i32::from(level.min(SLOWEST)));
        Self { compressor: Compressor::new(level.unwrap_or_default()), room: Vec::new() }
    }

    /// Appends `data`, compressed, to `out`; equal input gives equal bytes.
    pub fn deflate(&mut self, data: &[u8], out: &mut Vec<u8>) {
        let bound = self.compressor.zlib_compress_bound(data.len());
        if self.room.len() < bound {
            self.room.resize(bound, 0);
        }
        match self.compressor.zlib_compress(data, &mut self.room) {
            Ok(len) => out.extend_from_slice(&self.room[..len]),
            Err(error) => unreachable!("zlib_compress_bound() is what suffices: {error}"),
        }
        if self.room.len() > KEPT_ROOM {
            self.room = Vec::new();
        }
    }
}

impl Deflater {
    /// The longest stream that `len` bytes can become.
    pub fn bound(&mut self, len: usize) -> usize {
        self.compressor.zlib_compress_bound(len)
    }

    /// Compresses `data` to the beginning of `out` and answers the length of the stream; the same
    /// bytes as [`Self::deflate`].
    ///
    /// # Panics
    ///
    /// If `out` has fewer bytes than [`Self::bound`] tells.
    pub fn deflate_to(&mut self, data: &[u8], out: &mut [u8]) -> usize {
        match self.compressor.zlib_compress(data, out) {
            Ok(len) => len,
            Err(error) => panic!("zlib_compress_bound() is what suffices: {error}"),
        }
    }
}

impl std::fmt::Debug for Deflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deflater").finish_non_exhaustive()
    }
}

/// Why bytes could not be inflated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    /// Not a zlib stream, a cut one, or one whose checksum does not match.
    #[error("not a whole zlib stream")]
    Corrupt,
    /// The stream holds less than was promised.
    #[error("zlib stream holds {found} bytes, {expected} expected")]
    TooShort {
        /// How much the stream holds.
        found: usize,
        /// What the caller expected.
        expected: usize,
    },
    /// The stream holds more than was promised, or cannot hold so much.
    #[error("zlib stream does not hold {expected} bytes")]
    NotThatLong {
        /// What the caller expected.
        expected: usize,
    },
}

/// The `expected_len` bytes that the zlib stream at the start of `data` holds.
///
/// What follows the stream is ignored, as in a pack another entry follows. For a few streams: the state
/// is set up anew for each call.
///
/// # Errors
///
/// [`InflateError`] if the stream is damaged or holds another number of bytes. An `expected_len`
/// that so little `data` cannot give is refused before memory is taken for it.
pub fn inflate(data: &[u8], expected_len: usize) -> Result<Vec<u8>, InflateError> {
    let expected = expected_len;
    if expected / GREATEST_RATIO > data.len() {
        return Err(InflateError::NotThatLong { expected });
    }
    let mut out = vec![0; expected];
    match Decompressor::new().zlib_decompress(data, &mut out) {
        Ok(found) if found == expected => Ok(out),
        Ok(found) => Err(InflateError::TooShort { found, expected }),
        Err(DecompressionError::InsufficientSpace) => Err(InflateError::NotThatLong { expected }),
        Err(DecompressionError::BadData) => Err(InflateError::Corrupt),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn deflated(level: u8, data: &[u8]) -> Vec<u8> {
        let mut out = vec![7; 3];
        Deflater::new(level).deflate(data, &mut out);
        out.split_off(3)
    }

    #[test]
    fn a_stream_has_a_zlib_header() {
        let stream = deflated(6, b"");
        assert_eq!(stream[0], 0x78);
        assert_eq!(u16::from_be_bytes([stream[0], stream[1]]) % 31, 0);
    }

    #[test]
    fn a_reused_deflater_gives_the_bytes_of_a_new_one() {
        let mut deflater = Deflater::new(6);
        let mut out = Vec::new();
        for text in [&b"some text, some text"[..], b"", &[b'x'; 5000], b"short"] {
            out.clear();
            deflater.deflate(text, &mut out);
            assert_eq!(out, deflated(6, text));
        }
    }

    #[test]
    fn a_wrong_length_is_refused() {
        let stream = deflated(6, b"twelve bytes");
        let expected = 13;
        assert_eq!(inflate(&stream, 13), Err(InflateError::TooShort { found: 12, expected }));
        assert_eq!(inflate(&stream, 11), Err(InflateError::NotThatLong { expected: 11 }));
        let huge = usize::MAX;
        assert_eq!(inflate(&stream, huge), Err(InflateError::NotThatLong { expected: huge }));
    }

    #[test]
    fn a_damaged_stream_is_refused() {
        let stream = deflated(6, b"twelve bytes");
        assert_eq!(inflate(&stream[..stream.len() - 1], 12), Err(InflateError::Corrupt));
        assert_eq!(inflate(b"", 0), Err(InflateError::Corrupt));
        let mut flipped = stream;
        flipped[8] ^= 1;
        assert_eq!(inflate(&flipped, 12), Err(InflateError::Corrupt));
    }

    proptest! {
        #[test]
        fn what_was_deflated_inflates(data: Vec<u8>, level in 0..=13_u8, rest: Vec<u8>) {
            let mut stream = deflated(level, &data);
            stream.extend_from_slice(&rest);
            prop_assert_eq!(inflate(&stream, data.len()), Ok(data));
        }
    }
}
