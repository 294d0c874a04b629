//! The ids of a pack, read from its index. git may have written it.
//!
//! Format: `super::idx`. The index is not memory-mapped: if it is truncated while it is read, that
//! is an error and not a signal. Only a buffer is kept in memory.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};

use parallel::Directory;

use super::idx::{MAGIC, VERSION};
use crate::oid::Oid;

/// Length of magic, version and fanout table.
const HEADER_LEN: usize = 8 + 256 * 4;
/// Minimum length of an entry: id, CRC-32 and offset.
const ENTRY_LEN: u64 = 28;
const TRAILER_LEN: u64 = 40;
const BUFFER_BYTES: usize = 1 << 16;

/// The ids of an index, in order.
#[derive(Debug)]
pub struct Ids {
    file: BufReader<File>,
    len: usize,
}

impl Ids {
    /// Opens the index `name` in `directory`, which must be a regular file.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if the file cannot be read; of kind `InvalidData` if it is not a complete
    /// index of version 2, or if it is a symbolic link.
    pub fn open(directory: &Directory, name: &OsStr) -> io::Result<Self> {
        let file = directory.read(name)?;
        let len = file.metadata()?.len();
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "not a pack index");
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut header = [0; HEADER_LEN];
        file.read_exact(&mut header).map_err(|_| malformed())?;
        let (words, _) = header.as_chunks::<4>();
        let [magic, version, counts @ ..] = words else { return Err(malformed()) };
        let mut counts = counts.iter().copied().map(u32::from_be_bytes);
        let is_known = *magic == MAGIC && u32::from_be_bytes(*version) == VERSION;
        let is_sorted = counts.clone().is_sorted();
        let count = counts.next_back().unwrap_or(0);
        let least = HEADER_LEN as u64 + u64::from(count) * ENTRY_LEN + TRAILER_LEN;
        if !is_known || !is_sorted || len < least {
            return Err(malformed());
        }
        Ok(Self { file, len: count as usize })
    }

    /// Number of unread ids.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether all ids were read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Calls `each` with all unread ids. Their order is not checked.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if the file cannot be read to the end of its ids.
    pub fn for_each(&mut self, mut each: impl FnMut(Oid)) -> io::Result<()> {
        while self.len > 0 {
            let mut id = [0; 20];
            self.file.read_exact(&mut id)?;
            self.len -= 1;
            each(Oid::from_bytes(id));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::oid::ObjectKind;
    use crate::pack::{Entry, PackWriter};
    use crate::staged::Readers;

    fn oid(number: u8) -> Oid {
        Oid::from_bytes([number.wrapping_mul(67); 20])
    }

    /// The index of a pack with `count` objects.
    fn index(count: u8) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let directory = Directory::open(dir.path()).expect("is there");
        let pack = PackWriter::create(&directory, Readers::BY_UMASK).expect("is writable");
        let mut pack = pack.without_sync();
        for number in 0..count {
            pack.add(oid(number), Entry::Full(ObjectKind::Blob), 5, b"12345").expect("is writable");
        }
        let published = pack.seal().and_then(crate::SealedPack::publish).expect("is writable");
        (dir, published.idx)
    }

    fn open(path: &Path) -> io::Result<Ids> {
        let directory = Directory::open(path.parent().expect("is in one"))?;
        Ids::open(&directory, path.file_name().expect("has one"))
    }

    fn refused(path: &Path) -> io::ErrorKind {
        open(path).expect_err("not an index").kind()
    }

    #[test]
    fn ids_come_in_order() {
        for count in [0, 1, 7, 200] {
            let (_dir, path) = index(count);
            let mut ids = open(&path).expect("an index");
            assert_eq!((ids.len(), ids.is_empty()), (usize::from(count), count == 0));
            let mut found = Vec::new();
            ids.for_each(|oid| found.push(oid)).expect("is readable");
            let mut expected: Vec<_> = (0..count).map(oid).collect();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_is_no_index_is_refused() {
        let (dir, path) = index(7);
        let whole = std::fs::read(&path).expect("is readable");
        let changed = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            bytes
        };
        let cut = |len: usize| whole[..len].to_vec();
        let odd = dir.path().join("odd");
        // magic, version, a fanout that descends, one that counts too much
        let damaged = [changed(0, 0), changed(7, 3), changed(8, 1), changed(1028, 1)];
        for bytes in damaged.into_iter().chain([0, 7, 1031, 1032, whole.len() - 1].map(cut)) {
            std::fs::write(&odd, bytes).expect("is writable");
            assert_eq!(refused(&odd), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn a_link_is_refused() {
        let (dir, path) = index(1);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("is writable");
        assert_eq!(refused(&link), io::ErrorKind::InvalidData);
    }
}
