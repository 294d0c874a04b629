//! A complete pack: its trailer, its two indexes, and their publication.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use parallel::{Directory, Records};

use super::checksum::{self, Checksum};
use super::idx::{self, RECORD_LEN};
use super::rev;
use crate::staged::{Error, Readers, Staged, sync_dir};

/// Offset of the number of objects in a pack.
const COUNT_AT: u64 = 8;

/// Prefix of temporary names.
///
/// git's own temporary names begin with `tmp_pack_` and similar prefixes. So a cleanup removes only
/// our files.
pub(super) const UNFINISHED: &str = "tmp_amalgam_";

/// The directory of the files of a pack, and how to write them.
#[derive(Debug)]
pub(super) struct PackPlace {
    pub(super) dir: Directory,
    pub(super) readers: Readers,
    /// Whether to fsync the files.
    pub(super) sync: bool,
}

/// A complete pack with its indexes, on disk under temporary names.
///
/// The files are removed if it is dropped before publication.
#[derive(Debug)]
pub struct SealedPack {
    place: PackPlace,
    pack: Staged,
    rev: Staged,
    idx: Staged,
    checksum: Checksum,
    objects: u32,
    bytes: u64,
}

/// A pack that git can see, with the paths of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// `pack-` and the checksum in hex, the name of all three files without extension.
    pub name: String,
    /// The checksum at the end of the pack.
    pub checksum: Checksum,
    /// Path of the pack.
    pub pack: PathBuf,
    /// Path of the index.
    pub idx: PathBuf,
    /// Path of the reverse index.
    pub rev: PathBuf,
    /// Number of objects in the pack.
    pub objects: u32,
    /// Length of the pack in bytes.
    pub bytes: u64,
}

impl SealedPack {
    /// Completes the pack in `file`, which has `bytes` bytes. `records` are in pack order.
    pub(super) fn new(
        place: PackPlace,
        pack: Staged,
        file: &File,
        records: &Records<RECORD_LEN>,
        bytes: u64,
    ) -> Result<Self, Error> {
        let objects = u32::try_from(records.len()).map_err(io::Error::other);
        let objects = objects.map_err(Error::at(pack.path()))?;
        let complete = complete(file, objects, bytes);
        let checksum = complete.map_err(Error::at(pack.path()))?;
        finish(file, &pack, place.sync)?;

        let (idx, file) = Staged::create(&place.dir, UNFINISHED, place.readers)?;
        let places = idx::write(&file, records, checksum).map_err(Error::at(idx.path()))?;
        finish(&file, &idx, place.sync)?;

        let (rev, mut file) = Staged::create(&place.dir, UNFINISHED, place.readers)?;
        rev::write(&mut file, &places, checksum).map_err(Error::at(rev.path()))?;
        finish(&file, &rev, place.sync)?;

        let bytes = bytes + checksum.as_bytes().len() as u64;
        Ok(Self { place, pack, rev, idx, checksum, objects, bytes })
    }

    /// `pack-` and the checksum in hex, git's name of a pack.
    #[must_use]
    pub fn name(&self) -> String {
        format!("pack-{}", self.checksum)
    }

    /// The checksum at the end of the pack.
    #[must_use]
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// Number of objects in the pack.
    #[must_use]
    pub fn objects(&self) -> u32 {
        self.objects
    }

    /// Length of the pack in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the files their final names, as [`Self::place`] does, and fsyncs the directory.
    ///
    /// # Errors
    ///
    /// As [`Self::place`]; or if the directory cannot be fsynced.
    pub fn publish(self) -> Result<Published, Error> {
        let dir = self.place.sync.then(|| self.place.dir.clone());
        let published = self.place()?;
        dir.map_or(Ok(()), |dir| sync_dir(&dir))?;
        Ok(published)
    }

    /// Creates the `.keep` file, so that git neither removes nor repacks the pack.
    ///
    /// Call it before [`Self::place`], so that no git process sees the pack without the file.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be created.
    pub fn keep(&self) -> Result<(), Error> {
        let PackPlace { dir, readers, .. } = &self.place;
        let (staged, _) = Staged::create(dir, UNFINISHED, *readers)?;
        staged.place(&format!("{}.keep", self.name()))
    }

    /// Gives the files their final names: first the pack, then the reverse index, then the index.
    ///
    /// git finds a pack by its index. An existing pack of that name has the same bytes, and is
    /// replaced. The names survive a crash after the directory was fsynced, see [`sync_dir`].
    ///
    /// # Errors
    ///
    /// [`Error`] if a file cannot be renamed. Renamed files stay: git ignores a pack without an
    /// index, and the pack may have existed before.
    pub fn place(self) -> Result<Published, Error> {
        let (name, checksum) = (self.name(), self.checksum);
        let files = ["pack", "rev", "idx"].map(|extension| format!("{name}.{extension}"));
        let [pack, rev, idx] = files.each_ref().map(|file| self.place.dir.join(file));
        self.pack.place(&files[0])?;
        self.rev.place(&files[1])?;
        self.idx.place(&files[2])?;
        let (objects, bytes) = (self.objects, self.bytes);
        Ok(Published { name, checksum, pack, idx, rev, objects, bytes })
    }
}

/// Writes the count and the trailer of a pack that has all its entries.
///
/// The count is in the first bytes, so SHA-1 cannot be computed while entries are written. The
/// whole file is read again. At 2 GB/s, mostly from the page cache, that takes little time compared
/// with making the entries. The alternatives are a count known in advance, or all entries in
/// memory.
fn complete(file: &File, objects: u32, bytes: u64) -> io::Result<Checksum> {
    let found = file.metadata()?.len();
    if found != bytes {
        // After a failed write, the file may have a part of an entry without its record.
        return Err(io::Error::other(format!("pack has {found} bytes, {bytes} were added")));
    }
    file.write_all_at(&objects.to_be_bytes(), COUNT_AT)?;
    let checksum = checksum::of_file(file, bytes)?;
    file.write_all_at(checksum.as_bytes(), bytes)?;
    Ok(checksum)
}

/// Fsyncs a file if `sync` is set.
fn finish(file: &File, staged: &Staged, sync: bool) -> Result<(), Error> {
    if sync { file.sync_all().map_err(Error::at(staged.path())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use sha1::{Digest, Sha1};

    use super::super::entry::Entry;
    use super::super::writer::PackWriter;
    use super::*;
    use crate::oid::{ObjectKind, Oid};

    fn files(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = dir
            .read_dir()
            .expect("directory exists")
            .map(|entry| entry.expect("is read").file_name().into_string().expect("is ASCII"))
            .collect();
        names.sort();
        names
    }

    fn open(dir: &Path) -> Directory {
        Directory::open(dir).expect("is there")
    }

    fn writer(dir: &Path) -> PackWriter {
        let mut writer =
            PackWriter::create(&open(dir), Readers::BY_UMASK).expect("is writable").without_sync();
        let blob = Entry::Full(ObjectKind::Blob);
        writer.add(Oid::EMPTY_BLOB, blob, 0, b"not zlib").expect("is writable");
        writer
    }

    #[test]
    fn a_pack_ends_with_its_checksum() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let sealed = writer(dir.path()).seal().expect("is writable");
        assert_eq!((sealed.objects(), sealed.bytes()), (1, 12 + 9 + 20));
        let checksum = sealed.checksum();
        let published = sealed.publish().expect("is writable");
        let pack = std::fs::read(&published.pack).expect("is readable");
        assert_eq!(pack.len() as u64, published.bytes);
        let (bytes, trailer) = pack.split_at(pack.len() - 20);
        assert_eq!(bytes, b"PACK\0\0\0\x02\0\0\0\x01\x30not zlib");
        assert_eq!(trailer, &*Sha1::digest(bytes));
        assert_eq!(trailer, checksum.as_bytes());
        let name = published.name;
        assert_eq!(name, format!("pack-{checksum}"));
        let names = ["idx", "pack", "rev"].map(|extension| format!("{name}.{extension}"));
        assert_eq!(files(dir.path()), names);
    }

    #[test]
    fn a_pack_of_the_same_name_is_replaced() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let publish =
            || writer(dir.path()).seal().expect("is writable").publish().expect("is writable");
        assert_eq!(publish(), publish());
        assert_eq!(files(dir.path()).len(), 3);
    }

    #[test]
    fn a_pack_is_kept_before_it_is_seen() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let sealed = writer(dir.path()).seal().expect("is writable");
        sealed.keep().expect("is writable");
        let seen = files(dir.path()).into_iter().filter(|name| !name.starts_with(UNFINISHED));
        assert_eq!(seen.collect::<Vec<_>>(), [format!("{}.keep", sealed.name())]);
        sealed.publish().expect("is writable");
        assert_eq!(files(dir.path()).len(), 4);
    }

    #[test]
    fn a_pack_that_is_not_published_leaves_nothing() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let unsealed = writer(dir.path());
        let sealed = writer(dir.path()).seal().expect("is writable");
        assert_eq!(files(dir.path()).len(), 4);
        drop(sealed);
        drop(unsealed);
        assert!(files(dir.path()).is_empty());
    }

    #[test]
    fn a_pack_of_another_length_than_was_added_is_refused() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let readers = Readers::BY_UMASK;
        let (pack, mut file) =
            Staged::create(&open(dir.path()), UNFINISHED, readers).expect("is writable");
        file.write_all(b"PACK\0\0\0\x02\0\0\0\0and half an entry").expect("is writable");
        let place = PackPlace { dir: open(dir.path()), readers, sync: false };
        let error = SealedPack::new(place, pack, &file, &Records::new(&open(dir.path())), 12)
            .expect_err("is longer");
        assert!(error.to_string().ends_with("pack has 29 bytes, 12 were added"), "{error}");
        assert!(files(dir.path()).is_empty());
    }
}
