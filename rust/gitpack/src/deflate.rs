//! zlib streams (RFC 1950), one object or delta each, as packs store them.
//!
//! Does not know the contents. Uses libdeflate, which works on whole buffers: at level 6 it is 1.5
//! to 2 times as fast as the zlib that git links. Short contents have a compressor of their own,
//! [`QuickDeflater`].

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

/// Maximum size of an output buffer that is kept for the next stream.
const KEPT_ROOM: usize = 1 << 20;

/// Maximum ratio of content to deflate stream: 258 bytes from two bits.
const GREATEST_RATIO: usize = 1032;

/// A compressor of buffers at a given level, for one thread.
///
/// Each stream begins with an empty table of 128 KiB. For short contents, [`QuickDeflater`] is
/// faster.
pub struct Deflater {
    compressor: Compressor,
    /// Output buffer of [`Self::deflate`].
    room: Vec<u8>,
}

impl Deflater {
    /// Creates a compressor of `level`: 0 stores, 1 is fast, 6 is git's default, 12 and above the
    /// slowest.
    #[must_use]
    pub fn new(level: u8) -> Self {
        let level = CompressionLvl::new(i32::from(level.min(SLOWEST)));
        Self { compressor: Compressor::new(level.unwrap_or_default()), room: Vec::new() }
    }

    /// Compresses `data`, and appends the stream to `out`. Equal input gives equal bytes.
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
    /// Maximum length of the stream of `len` bytes.
    pub fn bound(&mut self, len: usize) -> usize {
        self.compressor.zlib_compress_bound(len)
    }

    /// Compresses `data` to the beginning of `out`, and returns the length of the stream.
    ///
    /// The bytes are the same as those of [`Self::deflate`].
    ///
    /// # Panics
    ///
    /// If `out` is shorter than [`Self::bound`].
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

/// The reason why bytes could not be inflated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    /// Not a zlib stream, a truncated stream, or a wrong checksum.
    #[error("not a whole zlib stream")]
    Corrupt,
    /// The stream has fewer bytes than expected.
    #[error("zlib stream holds {found} bytes, {expected} expected")]
    TooShort {
        /// Bytes of the inflated stream.
        found: usize,
        /// Bytes that the caller expected.
        expected: usize,
    },
    /// The stream has more bytes than expected, or is too short to have as many.
    #[error("zlib stream does not hold {expected} bytes")]
    NotThatLong {
        /// Bytes that the caller expected.
        expected: usize,
    },
}

/// Inflates the zlib stream at the start of `data` to `expected_len` bytes.
///
/// Bytes after the stream are ignored, since in a pack the next entry follows. For few streams:
/// each call allocates a new decompressor.
///
/// # Errors
///
/// [`InflateError`] if the stream is damaged or has another number of bytes. An impossible
/// `expected_len` is refused before memory is allocated.
pub fn inflate(data: &[u8], expected_len: usize) -> Result<Vec<u8>, InflateError> {
    inflate_by(&mut Decompressor::new(), data, expected_len)
}

/// As [`inflate`], for many streams.
pub(crate) fn inflate_by(
    decompressor: &mut Decompressor,
    data: &[u8],
    expected_len: usize,
) -> Result<Vec<u8>, InflateError> {
    let expected = expected_len;
    if expected / GREATEST_RATIO > data.len() {
        return Err(InflateError::NotThatLong { expected });
    }
    let mut out = vec![0; expected];
    match decompressor.zlib_decompress(data, &mut out) {
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
