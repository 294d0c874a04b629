//! Chunks: the stored form of a text or delta. The first byte is its type.
//!
//! `hg help internals.revlogs`, "Revision Data": `x` is zlib, `(` zstd, `u` and NUL are
//! uncompressed.

use parallel::{Buffer, Error};
use zstd_safe::DCtx;

/// Length limit of an unpacked text or delta, in bytes, as of Mercurial's own fields.
const MAX_LEN: usize = i32::MAX as usize;

/// Message of zstd for a buffer that is too small.
const TOO_SMALL: &str = "Destination buffer is too small";

/// Length from which on a buffer is not enlarged on suspicion: a retry costs time, a large buffer
/// costs memory.
const LONG: usize = 1 << 20;

/// Decompressors, kept from chunk to chunk.
pub(crate) struct Unpacker {
    zlib: libdeflater::Decompressor,
    zstd: DCtx<'static>,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Unpacker")
    }
}

impl Default for Unpacker {
    fn default() -> Self {
        Self { zlib: libdeflater::Decompressor::new(), zstd: DCtx::create() }
    }
}

/// Damaged chunk.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// Type of a chunk that no version of Mercurial writes.
    #[error("unknown compression {0:#04x}")]
    Compression(u8),
    /// Damaged zlib data.
    #[error("zlib data is damaged")]
    Zlib,
    /// Damaged zstd data, with the message of zstd.
    #[error("zstd data is damaged ({0})")]
    Zstd(&'static str),
    /// More than Mercurial stores.
    #[error("unpacks to more than 2 GiB")]
    TooLong,
}

/// Error of unpacking.
#[derive(Debug, thiserror::Error)]
pub enum Unpacking {
    /// The chunk is damaged.
    #[error(transparent)]
    Chunk(#[from] Undecodable),
    /// The content does not fit into memory.
    #[error(transparent)]
    Room(#[from] Error),
}

impl Unpacker {
    /// Replaces `out` by the unpacked `chunk`, which has about `len_hint` bytes.
    pub(crate) fn unpack(
        &mut self,
        chunk: &[u8],
        len_hint: usize,
        out: &mut Buffer,
    ) -> Result<(), Unpacking> {
        out.clear();
        match chunk {
            [] => {}
            [0, ..] => out.extend_from_slice(chunk)?,
            [b'u', rest @ ..] => out.extend_from_slice(rest)?,
            [b'x', ..] => self.inflate(chunk, len_hint, out)?,
            [b'(', ..] => self.unpack_zstd(chunk, len_hint, out)?,
            [other, ..] => return Err(Undecodable::Compression(*other).into()),
        }
        Ok(())
    }

    fn inflate(
        &mut self,
        chunk: &[u8],
        len_hint: usize,
        out: &mut Buffer,
    ) -> Result<(), Unpacking> {
        // deflate grows by a factor of 1032 at most; a hint above the usual ratio may be damaged
        // and is tried later
        let most = chunk.len().saturating_mul(1032).clamp(64, MAX_LEN);
        let usual = chunk.len().saturating_mul(64);
        let hint = len_hint.min(usual);
        let room = if hint < LONG { hint.max(chunk.len() * 4) } else { hint };
        let mut room = room.clamp(64, most);
        loop {
            out.clear();
            out.resize(room)?;
            match self.zlib.zlib_decompress(chunk, out) {
                Ok(len) => {
                    out.truncate(len);
                    return Ok(());
                }
                Err(libdeflater::DecompressionError::BadData) => {
                    return Err(Undecodable::Zlib.into());
                }
                Err(libdeflater::DecompressionError::InsufficientSpace) => {
                    if room >= most {
                        return Err(Undecodable::TooLong.into());
                    }
                    room = room.saturating_mul(4).min(most);
                }
            }
        }
    }

    fn unpack_zstd(
        &mut self,
        chunk: &[u8],
        len_hint: usize,
        out: &mut Buffer,
    ) -> Result<(), Unpacking> {
        let damaged = |code| Undecodable::Zstd(zstd_safe::get_error_name(code));
        let frame_len = zstd_safe::find_frame_compressed_size(chunk).map_err(damaged)?;
        if frame_len != chunk.len() {
            return Err(Undecodable::Zstd("bytes follow its end").into());
        }
        let declared = zstd_safe::get_frame_content_size(chunk).ok().flatten();
        let declared = declared.map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        // a block of at least 4 bytes holds at most 128 KiB
        let holds = (chunk.len() / 4).saturating_mul(128 << 10);
        let most = declared.unwrap_or(holds).min(holds);
        let longest = most.min(MAX_LEN);
        // a declared length above the usual ratio may be damaged and is tried later
        let usual = chunk.len().saturating_mul(64).max(1 << 16);
        // Mercurial declares no length above a megabyte, but its index has it
        let known = declared.unwrap_or(len_hint);
        let mut room = known.max(chunk.len()).min(usual).min(longest);
        loop {
            out.clear();
            out.resize(room)?;
            // in one pass: a stream would allocate a window, as large as the frame says
            match self.zstd.decompress(&mut out[..], chunk) {
                Ok(len) => {
                    out.truncate(len);
                    return Ok(());
                }
                Err(code) if zstd_safe::get_error_name(code) != TOO_SMALL => {
                    return Err(damaged(code).into());
                }
                Err(_) if room < longest => room = room.saturating_mul(4).min(longest),
                Err(_) if longest < most => return Err(Undecodable::TooLong.into()),
                Err(code) => return Err(damaged(code).into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(chunk: &[u8]) -> Result<Vec<u8>, Undecodable> {
        let mut out = Buffer::default();
        match Unpacker::default().unpack(chunk, 0, &mut out) {
            Ok(()) => Ok(out.to_vec()),
            Err(Unpacking::Chunk(problem)) => Err(problem),
            Err(Unpacking::Room(problem)) => panic!("{problem}"),
        }
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let mut out = vec![0; compressor.zlib_compress_bound(text.len())];
        let len = compressor.zlib_compress(text, &mut out).expect("room");
        out.truncate(len);
        out
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        let mut out = vec![0; zstd_safe::compress_bound(text.len())];
        let len = zstd_safe::compress(out.as_mut_slice(), text, 3).expect("room");
        out.truncate(len);
        out
    }

    #[test]
    fn each_kind_gives_its_text() {
        let text = b"a line\n".repeat(100_000);
        assert_eq!(unpack(b""), Ok(Vec::new()));
        assert_eq!(unpack(b"uabc"), Ok(b"abc".to_vec()));
        assert_eq!(unpack(b"\0abc"), Ok(b"\0abc".to_vec()));
        assert_eq!(unpack(&zlib(&text)), Ok(text.clone()));
        assert_eq!(unpack(&zstd(&text)), Ok(text));
        assert_eq!(unpack(&zlib(b"")), Ok(Vec::new()));
        assert_eq!(unpack(&zstd(b"")), Ok(Vec::new()));
    }

    #[test]
    fn damage_is_an_error() {
        assert_eq!(unpack(b"q"), Err(Undecodable::Compression(b'q')));
        let text = b"something that is compressed".repeat(10);
        for whole in [zlib(&text), zstd(&text)] {
            for cut in 1..whole.len() {
                assert!(unpack(&whole[..cut]).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_zstd_frame_without_a_length_gives_its_text_whatever_the_hint() {
        let mut number = 1_u32;
        let text: Vec<u8> = (0..LONG + 1000)
            .map(|_| {
                number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                b"0123456789abcdef"[(number >> 28) as usize]
            })
            .collect();
        let mut stream = zstd_safe::CCtx::create();
        let mut chunk = vec![0; 2 * LONG];
        let mut output = zstd_safe::OutBuffer::around(&mut chunk[..]);
        let mut input = zstd_safe::InBuffer::around(&text);
        stream.compress_stream(&mut output, &mut input).expect("is room");
        assert_eq!(stream.end_stream(&mut output), Ok(0));
        let len = output.pos();
        chunk.truncate(len);
        assert!(matches!(zstd_safe::get_frame_content_size(&chunk), Ok(None)));
        let trailed = [&chunk[..], &chunk].concat();
        for hint in [0, text.len() - 1, text.len(), text.len() + 1, 8 * text.len()] {
            let mut unpacker = Unpacker::default();
            let mut out = Buffer::default();
            unpacker.unpack(&chunk, hint, &mut out).expect("is whole");
            assert!(*out == text[..]);
            assert!(unpacker.unpack(&chunk[..len - 1], hint, &mut out).is_err());
            assert!(unpacker.unpack(&trailed, hint, &mut out).is_err());
        }
    }

    #[test]
    fn a_zstd_header_that_lies_costs_no_memory() {
        // magic, descriptor "8 byte content size, single segment", 2^40 bytes, nothing
        let mut chunk = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
        chunk.extend_from_slice(&(1u64 << 30).to_le_bytes());
        assert!(unpack(&chunk).is_err());
    }

    #[test]
    fn a_window_of_two_gigabytes_is_not_allocated() {
        // descriptor "no content size, no checksum", window 2^31, one last raw block of 3 bytes
        let chunk = b"\x28\xb5\x2f\xfd\x00\xa8\x19\x00\x00abc";
        assert_eq!(unpack(chunk), Ok(b"abc".to_vec()));
    }
}
