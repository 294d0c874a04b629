//! Entries of a pack as they are stored, in their order. git may have written it.
//!
//! For a pack of the same objects. Formats: gitformat-pack(5); `super::idx` has that of the index,
//! which has a CRC-32 of each entry.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use parallel::Directory;

use super::entry::{ID_DELTA, OFFSET_DELTA, parse_distance, parse_type_and_size};
use super::ids::Ids;
use crate::oid::{ObjectKind, Oid};

/// Offset of the ids in an index, and the length of a pack's trailer.
const IDS_AT: u64 = 8 + 256 * 4;
const TRAILER_LEN: u64 = 20;
/// Flag of an entry whose offset is in the table of 8-byte offsets.
const LARGE: u32 = 1 << 31;
/// Longest entry that is read, in bytes.
const MOST_ENTRY_BYTES: u64 = 64 << 20;

/// A stored entry.
#[derive(Debug)]
pub struct BlobEntry<'a> {
    /// The object.
    pub oid: Oid,
    /// Base of the delta in the stream; if `None`, the stream is the content.
    pub base: Option<Oid>,
    /// Length of the inflated stream, in bytes.
    pub inflated_len: u64,
    /// The zlib stream.
    pub stream: &'a [u8],
}

/// The entries of wanted blobs.
#[derive(Debug)]
pub struct StoredBlobs {
    pack: File,
    /// Ascending by offset.
    entries: Vec<Place>,
    next: usize,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Place {
    at: u64,
    end: u64,
    crc32: u32,
    oid: Oid,
}

impl StoredBlobs {
    /// The entries of the pack `name`, without suffix, whose ids are `wanted`.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if the pack or its index cannot be read; of kind `InvalidData` if the index is
    /// malformed.
    pub fn open(
        directory: &Directory,
        name: &str,
        wanted: impl Fn(&Oid) -> bool,
    ) -> io::Result<Self> {
        let idx_name = format!("{name}.idx");
        let mut ids = Ids::open(directory, idx_name.as_ref())?;
        let count = ids.len() as u64;
        let mut places = Vec::new();
        let mut place = 0;
        ids.for_each(|oid| {
            if wanted(&oid) {
                places.push((place, oid));
            }
            place += 1;
        })?;
        let pack = directory.read(format!("{name}.pack"))?;
        if places.is_empty() {
            return Ok(Self { pack, entries: Vec::new(), next: 0, buffer: Vec::new() });
        }
        let idx = directory.read(idx_name)?;
        let crcs = words(&idx, IDS_AT + 20 * count, count)?;
        let short = words(&idx, IDS_AT + 24 * count, count)?;
        let offset = |word: u32| {
            if word < LARGE {
                return Ok(u64::from(word));
            }
            let at = IDS_AT + 28 * count + 8 * u64::from(word - LARGE);
            let mut bytes = [0; 8];
            idx.read_exact_at(&mut bytes, at)?;
            Ok::<_, io::Error>(u64::from_be_bytes(bytes))
        };
        let offsets = short.into_iter().map(offset).collect::<io::Result<Vec<u64>>>()?;
        let mut ends = offsets.clone();
        ends.push(pack.metadata()?.len().saturating_sub(TRAILER_LEN));
        ends.sort_unstable();
        let mut entries: Vec<Place> = places
            .into_iter()
            .map(|(place, oid)| {
                let at = offsets[place];
                let end = ends.partition_point(|end| *end <= at);
                let end = ends.get(end).copied().unwrap_or(at);
                Place { at, end, crc32: crcs[place], oid }
            })
            .collect();
        entries.sort_unstable_by_key(|entry| entry.at);
        Ok(Self { pack, entries, next: 0, buffer: Vec::new() })
    }

    /// The next entry, in the order of the pack; `None` after the last. Entries are left out if they
    /// are long, or deltas of an object that is not wanted.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if the pack cannot be read; of kind `InvalidData` if the entry is damaged, or is
    /// no blob.
    pub fn next_blob(&mut self) -> io::Result<Option<BlobEntry<'_>>> {
        let found = loop {
            let Some(place) = self.entries.get(self.next) else { return Ok(None) };
            self.next += 1;
            let len = place.end.saturating_sub(place.at);
            if len > MOST_ENTRY_BYTES {
                continue;
            }
            self.buffer.resize(usize::try_from(len).unwrap_or(0), 0);
            self.pack.read_exact_at(&mut self.buffer, place.at)?;
            if crc32fast::hash(&self.buffer) != place.crc32 {
                return Err(damaged("an entry of a pack is damaged"));
            }
            let (kind, inflated_len, rest) =
                parse_type_and_size(&self.buffer).ok_or_else(|| damaged("no entry"))?;
            let (base, rest) = match kind {
                OFFSET_DELTA => {
                    let parsed = parse_distance(rest);
                    let (distance, rest) = parsed.ok_or_else(|| damaged("no distance"))?;
                    let base = place.at.saturating_sub(distance);
                    let base = self.entries.binary_search_by_key(&base, |entry| entry.at);
                    let Ok(base) = base else { continue };
                    (Some(self.entries[base].oid), rest)
                }
                ID_DELTA => {
                    let (id, rest) = rest.split_first_chunk().ok_or_else(|| damaged("no base"))?;
                    (Some(Oid::from_bytes(*id)), rest)
                }
                kind if kind == ObjectKind::Blob as u8 => (None, rest),
                _ => return Err(damaged("an object is of another kind")),
            };
            break (place.oid, base, inflated_len, self.buffer.len() - rest.len());
        };
        let (oid, base, inflated_len, start) = found;
        Ok(Some(BlobEntry { oid, base, inflated_len, stream: &self.buffer[start..] }))
    }
}

/// `count` big-endian numbers from `at` on.
fn words(file: &File, at: u64, count: u64) -> io::Result<Vec<u32>> {
    let len = usize::try_from(4 * count).map_err(|_| damaged("not a pack index"))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at)?;
    let (words, _) = bytes.as_chunks::<4>();
    Ok(words.iter().copied().map(u32::from_be_bytes).collect())
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{Entry, PackWriter};
    use crate::staged::Readers;

    const FULL: Entry = Entry::Full(ObjectKind::Blob);

    fn oid(number: u8) -> Oid {
        Oid::from_bytes([number; 20])
    }

    type Found = (Oid, Option<Oid>, Vec<u8>);

    fn found(directory: &Directory, name: &str) -> io::Result<Vec<Found>> {
        let mut blobs = StoredBlobs::open(directory, name, |wanted| *wanted != oid(3))?;
        let mut found = Vec::new();
        while let Some(BlobEntry { oid, base, stream, .. }) = blobs.next_blob()? {
            found.push((oid, base, stream.to_vec()));
        }
        Ok(found)
    }

    #[test]
    fn entries_come_as_they_are_stored_and_damage_is_seen() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let directory = Directory::open(dir.path()).expect("is there");
        let pack = PackWriter::create(&directory, Readers::BY_UMASK).expect("is writable");
        let mut pack = pack.without_sync();
        let base = pack.add(oid(9), FULL, 3, b"first").expect("is writable");
        pack.add(oid(1), Entry::Delta { base }, 4, b"delta").expect("is writable");
        let other = pack.add(oid(3), FULL, 3, b"unwanted").expect("is writable");
        pack.add(oid(2), Entry::Delta { base: other }, 4, b"of it").expect("is writable");
        pack.add(oid(5), FULL, 3, b"last").expect("is writable");
        let published = pack.seal().and_then(crate::SealedPack::publish).expect("is writable");
        let name = published.idx.file_stem().and_then(|name| name.to_str()).expect("has one");
        let expected = [
            (oid(9), None, b"first".to_vec()),
            (oid(1), Some(oid(9)), b"delta".to_vec()),
            (oid(5), None, b"last".to_vec()),
        ];
        assert_eq!(found(&directory, name).expect("is readable"), expected);

        let path = dir.path().join(format!("{name}.pack"));
        let mut bytes = std::fs::read(&path).expect("is readable");
        let at = bytes.windows(4).position(|found| found == b"last").expect("is there");
        bytes[at] ^= 1;
        std::fs::remove_file(&path).expect("is there");
        std::fs::write(&path, bytes).expect("is writable");
        let problem = found(&directory, name).expect_err("is damaged");
        assert_eq!(problem.kind(), io::ErrorKind::InvalidData);
    }
}
