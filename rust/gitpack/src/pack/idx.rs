//! The index of a pack, from ids to offsets, version 2.
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

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use parallel::Records;

use super::checksum::{self, Checksum};
use super::entry::Offset;
use crate::oid::Oid;

pub(super) const MAGIC: [u8; 4] = *b"\xfftOc";
pub(super) const VERSION: u32 = 2;

/// Length of the part before the ids.
const HEADER_LEN: u64 = 8 + 256 * 4;
/// Flag of an entry whose offset is in the table of 8-byte offsets.
const LARGE: u32 = 1 << 31;
/// Size of the write buffer of each table.
const BUFFER_BYTES: usize = 64 << 10;

/// Length of a [`Record`] in bytes. It begins with the id.
pub(super) const RECORD_LEN: usize = 32;

/// The index data of one entry, kept until the pack is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) oid: Oid,
    /// CRC-32 of the entry in the pack: header and compressed bytes.
    pub(super) crc32: u32,
    pub(super) offset: Offset,
}

impl Record {
    /// Reads a record from the bytes of [`Self::to_bytes`].
    pub(super) fn from_bytes(bytes: &[u8; RECORD_LEN]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let word = |at: usize| u32::from_be_bytes(words[at]);
        let mut oid = [0; 20];
        oid.copy_from_slice(&bytes[..20]);
        let offset = u64::from(word(6)) << 32 | u64::from(word(7));
        Self { oid: Oid::from_bytes(oid), crc32: word(5), offset: Offset(offset) }
    }

    /// The record in the form of the temporary file.
    pub(super) fn to_bytes(self) -> [u8; RECORD_LEN] {
        let mut bytes = [0; RECORD_LEN];
        bytes[..20].copy_from_slice(self.oid.as_bytes());
        bytes[20..24].copy_from_slice(&self.crc32.to_be_bytes());
        bytes[24..].copy_from_slice(&self.offset.get().to_be_bytes());
        bytes
    }
}

/// Writes the index of `records` to the empty file `out`.
///
/// Returns the position in the index of each record. Reads the records three times, and takes 4
/// bytes of memory for each.
pub(super) fn write(
    out: &File,
    records: &Records<RECORD_LEN>,
    pack: Checksum,
) -> io::Result<Vec<u32>> {
    let mut starting_with = [0_u32; 256];
    records.for_each(|record| {
        starting_with[usize::from(record[0])] += 1;
        Ok(())
    })?;
    let mut head = Table::new(out, 0);
    head.put(&MAGIC)?;
    head.put(&VERSION.to_be_bytes())?;
    let mut up_to = 0_u32;
    for count in starting_with {
        up_to += count;
        head.put(&up_to.to_be_bytes())?;
    }
    head.write()?;

    let count = records.len() as u64;
    let mut ids = Table::new(out, HEADER_LEN);
    let mut crcs = Table::new(out, HEADER_LEN + 20 * count);
    let mut offsets = Table::new(out, HEADER_LEN + 24 * count);
    let mut large = Table::new(out, HEADER_LEN + 28 * count);
    let mut next_large = LARGE;
    let mut places = vec![0; records.len()];
    let mut place = 0;
    records.for_each_sorted(&starting_with, |record, number| {
        let Record { oid, crc32, offset } = Record::from_bytes(record);
        ids.put(oid.as_bytes())?;
        crcs.put(&crc32.to_be_bytes())?;
        let offset = offset.get();
        let word = match u32::try_from(offset).ok().filter(|&small| small < LARGE) {
            Some(small) => small,
            None => {
                large.put(&offset.to_be_bytes())?;
                next_large += 1;
                next_large - 1
            }
        };
        offsets.put(&word.to_be_bytes())?;
        places[number as usize] = place;
        place += 1;
        Ok(())
    })?;
    for mut table in [ids, crcs, offsets] {
        table.write()?;
    }
    large.put(pack.as_bytes())?;
    large.write()?;
    let end = large.at;
    out.write_all_at(&checksum::of_file(out, end)?.0, end)?;
    Ok(places)
}

/// A table of the index. Several tables are written at the same time.
struct Table<'a> {
    out: &'a File,
    /// File offset of the buffer.
    at: u64,
    buffer: Vec<u8>,
}

impl<'a> Table<'a> {
    fn new(out: &'a File, at: u64) -> Self {
        Self { out, at, buffer: Vec::new() }
    }

    /// Appends a few bytes.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.write()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the buffer.
    fn write(&mut self) -> io::Result<()> {
        self.out.write_all_at(&self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use parallel::Directory;
    use proptest::prelude::*;
    use sha1::{Digest, Sha1};

    use super::*;

    fn record(first_byte: u8, offset: u64) -> Record {
        let mut bytes = [9; 20];
        bytes[0] = first_byte;
        Record { oid: Oid::from_bytes(bytes), crc32: u32::from(first_byte), offset: Offset(offset) }
    }

    /// The index, and the positions of the records in it.
    fn written_with_places(records: &[Record]) -> (Vec<u8>, Vec<u32>) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let dir = Directory::open(dir.path()).expect("is there");
        let mut kept = Records::new(&dir);
        for record in records {
            kept.push(record.to_bytes()).expect("is writable");
        }
        let file = tempfile::tempfile().expect("temporary file");
        let places = write(&file, &kept, Checksum([7; 20])).expect("is writable");
        let mut idx = Vec::new();
        (&file).read_to_end(&mut idx).expect("is readable");
        (idx, places)
    }

    fn written(records: &[Record]) -> Vec<u8> {
        written_with_places(records).0
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
        let idx = written(&[record(0, 12), record(3, 50), record(3, 99), record(255, 200)]);
        let fanout = &idx[FANOUT..IDS];
        for (byte, count) in [(0, 1), (1, 1), (2, 1), (3, 3), (4, 3), (254, 3), (255, 4)] {
            assert_eq!(word(fanout, byte), count, "at {byte}");
        }
        assert_eq!(idx[IDS..IDS + 20], *record(0, 12).oid.as_bytes());
        let crcs = &idx[IDS + 4 * 20..];
        assert_eq!([word(crcs, 0), word(crcs, 1), word(crcs, 3)], [0, 3, 255]);
        let offsets = &crcs[4 * 4..];
        assert_eq!([word(offsets, 0), word(offsets, 1), word(offsets, 3)], [12, 50, 200]);
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

    #[test]
    fn an_index_ends_with_the_checksums() {
        let idx = written(&[record(3, 99), record(0, 12)]);
        let (bytes, checksum) = idx.split_at(idx.len() - 20);
        assert_eq!(bytes[bytes.len() - 20..], [7; 20]);
        assert_eq!(checksum, &*Sha1::digest(bytes));
    }

    proptest! {
        #[test]
        fn ids_are_in_order_and_places_lead_to_them(
            ids in proptest::collection::vec(0..9_u8, 0..200),
        ) {
            let record = |(at, &id): (u8, &u8)| {
                let mut bytes = [0; 20];
                // Equal starts, and order decided by what comes after them.
                (bytes[0], bytes[12], bytes[13]) = (id % 2, id, at);
                Record { oid: Oid::from_bytes(bytes), crc32: 0, offset: Offset(u64::from(at)) }
            };
            let records: Vec<_> = (0..).zip(&ids).map(record).collect();
            let (idx, places) = written_with_places(&records);
            let (found, _) = idx[IDS..][..20 * records.len()].as_chunks::<20>();
            prop_assert!(found.is_sorted());
            prop_assert_eq!(places.len(), records.len());
            for (record, place) in records.iter().zip(places) {
                prop_assert_eq!(record.oid.as_bytes(), &found[place as usize]);
            }
        }

        #[test]
        fn a_record_reads_back(oid: [u8; 20], crc32: u32, offset: u64) {
            let record = Record { oid: Oid::from_bytes(oid), crc32, offset: Offset(offset) };
            prop_assert_eq!(Record::from_bytes(&record.to_bytes()), record);
        }
    }
}
