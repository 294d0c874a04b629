//! The writer of a pack, entry by entry.
//!
//! The file has a temporary name. The number of objects in its header is zero, since it is not
//! known yet. `crate::pack::sealed` completes it.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use parallel::{Directory, Records};

use super::entry::{self, Entry, Offset};
use super::idx::{RECORD_LEN, Record};
use super::places::Places;
use super::sealed::{PackPlace, SealedPack, UNFINISHED};
use crate::oid::Oid;
use crate::staged::{Error, Readers, Staged};

/// `PACK`, version 2, and no objects yet.
const HEADER: [u8; 12] = *b"PACK\0\0\0\x02\0\0\0\0";

/// Maximum number of entries: an idx numbers its 8-byte offsets with 31 bits.
const MOST_ENTRIES: u32 = 1 << 31;

/// Size of the write buffer.
const BUFFER_BYTES: usize = 0x4_0000;

/// A writer of a pack under a temporary name, which git does not see.
///
/// Takes about eight bytes of memory for each entry, and 32 in a temporary file. The bytes of the
/// pack depend only on the sequence of [`Self::add`]. The file is removed if the pack is dropped
/// before publication, here or as a [`SealedPack`].
#[derive(Debug)]
pub struct PackWriter {
    dir: Directory,
    readers: Readers,
    // Before `staged`, to be closed before the file is removed.
    file: BufWriter<File>,
    staged: Staged,
    /// Offset of the next entry, and the length of the file so far.
    end: Offset,
    /// Index data of the entries, in pack order.
    records: Records<RECORD_LEN>,
    /// Positions in `records`, by id.
    by_oid: Places,
    sync: bool,
}

impl PackWriter {
    /// Begins a pack in `dir`, usually `objects/pack` of a repository.
    ///
    /// `readers` may read the pack and its indexes.
    ///
    /// # Errors
    ///
    /// [`Error`] if no file can be written there.
    pub fn create(dir: &Directory, readers: Readers) -> Result<Self, Error> {
        let (staged, file) = Staged::create(dir, UNFINISHED, readers)?;
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
        file.write_all(&HEADER).map_err(Error::at(staged.path()))?;
        Ok(Self {
            dir: dir.clone(),
            readers,
            file,
            staged,
            end: Offset(HEADER.len() as u64),
            records: Records::new(dir),
            by_oid: Places::default(),
            sync: true,
        })
    }

    /// Disables fsync: a system crash may then damage the pack even after its publication.
    ///
    /// For tests, and for packs that can be made again.
    #[must_use]
    pub fn without_sync(self) -> Self {
        Self { sync: false, ..self }
    }

    /// Finds the entry of `oid`; `None` if the pack has no such entry. Constant time.
    ///
    /// # Errors
    ///
    /// [`Error`] if the temporary file of records cannot be read.
    pub fn position(&self, oid: &Oid) -> Result<Option<Offset>, Error> {
        let mut offset = None;
        let is_it = |place| {
            let record = self.record(place)?;
            offset = Some(record.offset);
            Ok(record.oid == *oid)
        };
        let found = self.by_oid.find(oid.table_hash(), is_it).map_err(self.failed())?;
        Ok(found.and(offset))
    }

    /// Appends the entry of `oid`, and returns its offset.
    ///
    /// `deflated` is a zlib stream that inflates to `inflated_len` bytes: the content or the delta.
    /// The stream, the length and the id are not checked.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be written. The pack is unusable then, and later calls may fail
    /// with other errors. Also for mistakes of the caller: an id that the pack already has, a base
    /// that is not before the entry, or more than 2^31 entries.
    pub fn add(
        &mut self,
        oid: Oid,
        entry: Entry,
        inflated_len: u64,
        deflated: &[u8],
    ) -> Result<Offset, Error> {
        match self.add_new(oid, entry, inflated_len, deflated)? {
            Some(offset) => Ok(offset),
            None => Err(self.refuse(format!("{oid} is in the pack already"))),
        }
    }

    /// Appends the entry of `oid` unless the pack has it; `None` if it does.
    ///
    /// # Errors
    ///
    /// As [`Self::add`].
    pub fn add_new(
        &mut self,
        oid: Oid,
        entry: Entry,
        inflated_len: u64,
        deflated: &[u8],
    ) -> Result<Option<Offset>, Error> {
        let offset = self.end;
        let Some(header) = entry::header(offset, entry, inflated_len) else {
            return Err(self.refuse(format!("{oid} is a delta of what is not before it")));
        };
        let place = u32::try_from(self.records.len()).ok();
        let Some(place) = place.filter(|&place| place < MOST_ENTRIES) else {
            return Err(self.refuse("pack has no room for more objects".to_owned()));
        };
        let hash = oid.table_hash();
        let is_it = |place| Ok(self.record(place)?.oid == oid);
        if self.by_oid.find(hash, is_it).map_err(self.failed())?.is_some() {
            return Ok(None);
        }
        if self.by_oid.is_full() {
            self.make_room().map_err(self.failed())?;
        }

        let written = self.file.write_all(&header).and_then(|()| self.file.write_all(deflated));
        written.map_err(Error::at(self.staged.path()))?;
        let mut crc32 = crc32fast::Hasher::new();
        crc32.update(&header);
        crc32.update(deflated);
        self.end.0 += (header.len() + deflated.len()) as u64;
        let record = Record { oid, crc32: crc32.finalize(), offset };
        self.records.push(record.to_bytes()).map_err(self.failed())?;
        self.by_oid.insert(hash, place);
        Ok(Some(offset))
    }

    /// Number of entries so far.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether the pack has no entries yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Length of the pack so far, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.end.0
    }

    /// Completes the pack, writes its indexes and fsyncs all. They keep temporary names.
    ///
    /// Reads the pack back once. A pack without entries is legal, but useless for git.
    ///
    /// # Errors
    ///
    /// [`Error`] if a file cannot be read or written, or if an earlier [`Self::add`] failed.
    pub fn seal(self) -> Result<SealedPack, Error> {
        drop(self.by_oid);
        let path = self.staged.path();
        let file = self.file.into_inner().map_err(|error| Error::at(path)(error.into_error()))?;
        let place = PackPlace { dir: self.dir, readers: self.readers, sync: self.sync };
        SealedPack::new(place, self.staged, &file, &self.records, self.end.0)
    }

    fn record(&self, place: u32) -> io::Result<Record> {
        self.records.get(place as usize).map(|bytes| Record::from_bytes(&bytes))
    }

    /// Enlarges the table of ids, and fills it again.
    fn make_room(&mut self) -> io::Result<()> {
        let Self { by_oid, records, .. } = self;
        by_oid.grow();
        let mut place = 0;
        records.for_each(|record| {
            by_oid.insert(Record::from_bytes(record).oid.table_hash(), place);
            place += 1;
            Ok(())
        })
    }

    /// For `map_err`: an error about the temporary file of records.
    fn failed(&self) -> impl Fn(io::Error) -> Error {
        Error::at(self.dir.path())
    }

    fn refuse(&self, why: String) -> Error {
        let source = io::Error::new(io::ErrorKind::InvalidInput, why);
        Error { path: self.staged.path().to_owned(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oid::ObjectKind;

    fn oid(number: u32) -> Oid {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        Oid::from_bytes(bytes)
    }

    fn writer() -> (tempfile::TempDir, PackWriter) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let directory = Directory::open(dir.path()).expect("is there");
        let writer =
            PackWriter::create(&directory, Readers::BY_UMASK).expect("is writable").without_sync();
        (dir, writer)
    }

    const BLOB: Entry = Entry::Full(ObjectKind::Blob);

    #[test]
    fn entries_are_found_where_they_were_put() {
        let (_dir, mut writer) = writer();
        assert!(writer.is_empty());
        let mut offsets = Vec::new();
        for number in 0..1000 {
            offsets.push(writer.add(oid(number), BLOB, 5, b"12345").expect("is writable"));
        }
        assert_eq!(offsets[..2], [Offset(12), Offset(18)]);
        for (number, &offset) in (0..).zip(&offsets) {
            assert_eq!(writer.position(&oid(number)).expect("is readable"), Some(offset));
        }
        assert_eq!(writer.position(&oid(1000)).expect("is readable"), None);
        assert_eq!((writer.len(), writer.bytes()), (1000, 12 + 6 * 1000));
    }

    #[test]
    fn an_id_is_taken_once() {
        let (_dir, mut writer) = writer();
        writer.add(oid(1), BLOB, 5, b"12345").expect("is writable");
        let error = writer.add(oid(1), BLOB, 5, b"12345").expect_err("is there");
        assert_eq!(error.source.kind(), io::ErrorKind::InvalidInput);
        assert_eq!((writer.len(), writer.bytes()), (1, 18));
    }

    #[test]
    fn a_base_from_further_on_is_refused() {
        let (_dir, mut writer) = writer();
        let entry = Entry::Delta { base: Offset(12) };
        let error = writer.add(oid(1), entry, 5, b"12345").expect_err("nothing is before it");
        assert_eq!(error.source.kind(), io::ErrorKind::InvalidInput);
        assert!(writer.is_empty());
    }

    #[test]
    fn a_writer_can_go_to_another_thread() {
        fn is_send<T: Send>() {}
        is_send::<PackWriter>();
        is_send::<SealedPack>();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_with_the_file() {
        let (dir, mut writer) = writer();
        let full = File::options().read(true).write(true).open("/dev/full").expect("is there");
        let dropped = std::mem::replace(&mut writer.file, BufWriter::with_capacity(9, full));
        drop(dropped);
        let error = writer.add(oid(1), BLOB, 5, b"1234567890").expect_err("nothing fits");
        assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains(UNFINISHED), "{error}");
        drop(writer);
        assert_eq!(dir.path().read_dir().expect("is there").count(), 0);
    }
}
