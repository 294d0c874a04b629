//! The SHA-1 that ends a pack and each of its indexes.
//!
//! The checksum detects damage and names the pack. It does not protect from attacks, so plain SHA-1
//! is enough. Since 2.47, git also omits collision detection here.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use sha1::{Digest, Sha1};

/// The SHA-1 of all bytes of a file before the checksum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum(pub(super) [u8; 20]);

impl Checksum {
    /// The SHA-1 in binary.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Size of the buffer to read a file.
const READ_BYTES: usize = 0x10_0000;

/// Computes the checksum of the first `len` bytes of `file`.
///
/// # Errors
///
/// [`io::Error`] if the file cannot be read, or is shorter.
pub(super) fn of_file(file: &File, len: u64) -> io::Result<Checksum> {
    let mut sha1 = Sha1::new();
    let mut buffer = vec![0; usize::try_from(len).map_or(READ_BYTES, |len| len.min(READ_BYTES))];
    let mut at = 0;
    while at < len {
        let count = usize::try_from(len - at).map_or(READ_BYTES, |left| left.min(READ_BYTES));
        file.read_exact_at(&mut buffer[..count], at)?;
        sha1.update(&buffer[..count]);
        at += count as u64;
    }
    Ok(Checksum(sha1.finalize().into()))
}

/// Size of the write buffer.
const BUFFER_BYTES: usize = 0x1_0000;

/// A writer of a file that ends with its checksum.
pub(super) struct ChecksumWriter<W> {
    out: W,
    buffer: Vec<u8>,
    sha1: Sha1,
}

impl<W: Write> ChecksumWriter<W> {
    /// Starts an empty file.
    pub(super) fn new(out: W) -> Self {
        Self { out, buffer: Vec::with_capacity(BUFFER_BYTES), sha1: Sha1::new() }
    }

    /// Appends a few bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.write_buffer()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the checksum, which completes the file.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.write_buffer()?;
        let checksum = self.sha1.finalize();
        self.out.write_all(&checksum)?;
        self.out.flush()
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        self.sha1.update(&self.buffer);
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_ends_with_the_checksum_of_the_rest() {
        for pieces in [0, 1, 5000] {
            let mut file = Vec::new();
            let mut out = ChecksumWriter::new(&mut file);
            for _ in 0..pieces {
                out.put(b"some more than 16 bytes").expect("memory takes all");
            }
            out.finish().expect("memory takes all");
            let (bytes, checksum) = file.split_at(file.len() - 20);
            assert_eq!(bytes.len(), pieces * 23);
            assert_eq!(checksum, &*Sha1::digest(bytes));
        }
    }
}
