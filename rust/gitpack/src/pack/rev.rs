//! The reverse index of a pack, from pack order to index order.
//!
//! Format: gitformat-pack(5), "pack-*.rev files". Numbers are big-endian.
//!
//! ```text
//! rev = "RIDX", version 1, hash function 1 (SHA-1),
//!       n * position in the idx, in the order of the pack,
//!       checksum of the pack, checksum of the rev
//! ```

use std::io::{self, Write};

use sha1::{Digest, Sha1};

use super::checksum::Checksum;

const MAGIC: [u8; 4] = *b"RIDX";
const VERSION: u32 = 1;
const SHA1: u32 = 1;

/// Writes the reverse index. `places` has the position in the idx of each entry, in pack order.
pub(super) fn write(out: impl Write, places: &[u32], pack: Checksum) -> io::Result<()> {
    let mut out = ChecksumWriter::new(out);
    out.put(&MAGIC)?;
    out.put(&VERSION.to_be_bytes())?;
    out.put(&SHA1.to_be_bytes())?;
    for place in places {
        out.put(&place.to_be_bytes())?;
    }
    out.put(pack.as_bytes())?;
    out.finish()
}

/// Size of the write buffer.
const BUFFER_BYTES: usize = 0x1_0000;

/// A writer of a file that ends with its checksum.
struct ChecksumWriter<W> {
    out: W,
    buffer: Vec<u8>,
    sha1: Sha1,
}

impl<W: Write> ChecksumWriter<W> {
    /// Starts an empty file.
    fn new(out: W) -> Self {
        Self { out, buffer: Vec::with_capacity(BUFFER_BYTES), sha1: Sha1::new() }
    }

    /// Appends a few bytes.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.write_buffer()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the checksum, which completes the file.
    fn finish(mut self) -> io::Result<()> {
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
    fn places_stand_between_header_and_checksums() {
        let mut rev = Vec::new();
        write(&mut rev, &[2, 0, 0x0102_0304], Checksum([7; 20])).expect("memory takes all");
        assert_eq!(rev[..12], *b"RIDX\0\0\0\x01\0\0\0\x01");
        assert_eq!(rev[12..24], *b"\0\0\0\x02\0\0\0\0\x01\x02\x03\x04");
        assert_eq!(rev[24..44], [7; 20]);
        assert_eq!(rev.len(), 64);
    }

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
