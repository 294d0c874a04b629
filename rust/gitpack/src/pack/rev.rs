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

use super::checksum::{Checksum, ChecksumWriter};

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
}
