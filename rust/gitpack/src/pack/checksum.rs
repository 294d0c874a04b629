//! The SHA-1 that ends a pack and each of its indexes.
//!
//! The checksum detects damage and names the pack. It does not protect from attacks, so plain SHA-1
//! is enough. Since 2.47, git also omits collision detection here.

use std::fmt;
use std::fs::File;
use std::io;
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
