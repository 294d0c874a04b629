//! The index that finds an object of a pack by its id, version 2.
//!
//! Format: gitformat-pack(5), "Version 2 pack-*.idx files". Numbers are big-endian.
//!
//! ```text
//! idx = "\377tOc", version 2,
//!       256 * (entries whose id begins with this byte or a lower one),
//!       n * id, in order, n * CRC-32 of the entry as it stands in the pack,
//!       n * offset, or 2^31 + place in the next table if that needs 32 bits or more,
//!       offsets of 8 bytes,
//!       checksum of the pack, checksum of the idx
//! ```

use std::io::{self, Write};

use super::checksum::{Checksum, ChecksumWriter};
use super::entry::Offset;
use crate::oid::Oid;

pub(super) const MAGIC: [u8; 4] = *b"\xfftOc";
pub(super) const VERSION: u32 = 2;

/// Marks an offset that stands in the table of 8 bytes.
const LARGE: u32 = 1 << 31;

/// What the indexes say of one entry: 32 bytes, kept for each until the pack is sealed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) oid: Oid,
    /// CRC-32 of the entry as it stands in the pack, header and compressed bytes.
    pub(super) crc32: u32,
    pub(super) offset: Offset,
}

/// Writes the index over `sorted`, records in the order of their ids, up to 2^31.
///
/// Goes over the records four times.
pub(super) fn write<'a>(
    out: impl Write,
    sorted: impl Iterator<Item = &'a Record> + Clone,
    pack: Checksum,
) -> io::Result<()> {
    let mut out = ChecksumWriter::new(out);
    out.put(&MAGIC)?;
    out.put(&VERSION.to_be_bytes())?;

    let mut starting_with = [0_u32; 256];
    for record in sorted.clone() {
        starting_with[usize::from(record.oid.as_bytes()[0])] += 1;
    }
    let mut up_to = 0_u32;
    for count in starting_with {
        up_to += count;
        out.put(&up_to.to_be_bytes())?;
    }

    for record in sorted.clone() {
        out.put(record.oid.as_bytes())?;
    }
    for record in sorted.clone() {
        out.put(&record.crc32.to_be_bytes())?;
    }
    let mut large = Vec::new();
    let mut next_large = LARGE;
    for record in sorted {
        let offset = record.offset.get();
        let small = u32::try_from(offset).ok().filter(|&small| small < LARGE);
        let word = small.unwrap_or_else(|| {
            large.push(offset);
            next_large += 1;
            next_large - 1
        });
        out.put(&word.to_be_bytes())?;
    }
    for offset in large {
        out.put(&offset.to_be_bytes())?;
    }

    out.put(pack.as_bytes())?;
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(first_byte: u8, offset: u64) -> Record {
        let mut bytes = [9; 20];
        bytes[0] = first_byte;
        Record { oid: Oid::from_bytes(bytes), crc32: u32::from(first_byte), offset: Offset(offset) }
    }

    fn written(records: &[Record]) -> Vec<u8> {
        let mut idx = Vec::new();
        write(&mut idx, records.iter(), Checksum([7; 20])).expect("memory takes all");
        idx
    }

    fn word(bytes: &[u8], place: usize) -> u32 {
        u32::from_be_bytes(bytes.as_chunks().0[place])
    }

    const FANOUT: usize = 8;
    const IDS: usize = FANOUT + 4 * 256;

    #[test]
    fn an_index_of_nothing_has_no_tables() {
        let idx = written(&[]);
        assert_eq!(idx[..FANOUT], *b"\xfftOc\0\0\0\x02");
        assert!(idx[FANOUT..IDS].iter().all(|&byte| byte == 0));
        assert_eq!(idx[IDS..IDS + 20], [7; 20]);
        assert_eq!(idx.len(), IDS + 40);
    }

    #[test]
    fn the_fanout_counts_ids_up_to_each_byte() {
        let idx = written(&[record(0, 12), record(3, 99), record(3, 50), record(255, 200)]);
        let fanout = &idx[FANOUT..IDS];
        for (byte, count) in [(0, 1), (1, 1), (2, 1), (3, 3), (4, 3), (254, 3), (255, 4)] {
            assert_eq!(word(fanout, byte), count, "at {byte}");
        }
        assert_eq!(idx[IDS..IDS + 20], *record(0, 12).oid.as_bytes());
        let crcs = &idx[IDS + 4 * 20..];
        assert_eq!([word(crcs, 0), word(crcs, 1), word(crcs, 3)], [0, 3, 255]);
        let offsets = &crcs[4 * 4..];
        assert_eq!([word(offsets, 0), word(offsets, 1), word(offsets, 3)], [12, 99, 200]);
    }

    #[test]
    fn offsets_of_2_gib_and_more_go_to_the_large_table() {
        let (last_small, first_large, beyond) = (0x7fff_ffff, 0x8000_0000, 0x12_3456_789a);
        let offsets = [beyond, 12, first_large, last_small];
        let records: Vec<_> = (0..).zip(offsets).map(|(byte, at)| record(byte, at)).collect();
        let idx = written(&records);
        let small = &idx[IDS + 4 * 24..];
        let expected = [LARGE, 12, LARGE | 1, 0x7fff_ffff];
        assert_eq!([word(small, 0), word(small, 1), word(small, 2), word(small, 3)], expected);
        let large = small[4 * 4..].as_chunks().0;
        assert_eq!([large[0], large[1]].map(u64::from_be_bytes), [beyond, first_large]);
        assert_eq!(idx.len(), IDS + 4 * 28 + 2 * 8 + 40);
    }
}
