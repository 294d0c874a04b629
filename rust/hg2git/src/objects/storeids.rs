//! Sets of ids as Bloom filters, for example the ids in the packs of the git repository.
//!
//! Large exports ask for each object that they write. "Perhaps" costs a needless search for an
//! attack, so a few wrong answers are cheap; "no" is never wrong. An id takes 2 to 4 bytes, and a
//! look-up costs the same for one pack and for ten thousand.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use gitpack::{Oid, pack};
use parallel::Directory;

use crate::error::{Error, Result};

/// Bits per id. With [`PROBES`], 1 in 200 absent ids is taken for present.
const BITS_PER_ID: usize = 16;
/// Most bytes of a filter. Above 32 million ids, wrong answers get more frequent.
const MOST_BYTES: usize = 64 << 20;
/// Offsets of the eight bytes that choose each bit of an id.
const PROBES: [usize; 3] = [0, 6, 12];

/// A filter of ids. The default is empty.
#[derive(Debug, Default)]
pub(crate) struct StoreIds {
    /// Words of bits: a power of two of them, or none.
    words: Vec<u64>,
}

impl StoreIds {
    /// The ids of all packs in the directory `packs`, except `replaced` ones, named without suffix.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the directory or an index cannot be read.
    pub fn of_packs(packs: &Directory, replaced: &[String]) -> Result<Self> {
        let failed = |path: PathBuf| move |source| Error::Io { path, source };
        let mut names = packs.names().map_err(failed(packs.path().to_owned()))?;
        names.retain(|name| {
            let name = Path::new(name);
            let is_replaced =
                || replaced.iter().any(|pack| name.file_stem() == Some(pack.as_ref()));
            name.extension().is_some_and(|end| end == "idx") && !is_replaced()
        });
        let open = |name: &OsStr| pack::Ids::open(packs, name).map_err(failed(packs.join(name)));
        let mut count = 0;
        for name in &names {
            count += open(name)?.len();
        }
        let mut ids = Self::with_room_for(count);
        for name in &names {
            open(name)?.for_each(|oid| ids.add(&oid)).map_err(failed(packs.join(name)))?;
        }
        Ok(ids)
    }

    /// A filter of these ids.
    #[cfg(test)]
    pub fn of<const N: usize>(oids: [Oid; N]) -> Self {
        let mut ids = Self::with_room_for(N);
        for oid in &oids {
            ids.add(oid);
        }
        ids
    }

    /// An empty filter. More than `count` ids make wrong answers more frequent.
    pub fn with_room_for(count: usize) -> Self {
        let bits = count.saturating_mul(BITS_PER_ID).min(MOST_BYTES * 8);
        let words = if count == 0 { 0 } else { bits.div_ceil(64).next_power_of_two() };
        Self { words: vec![0; words] }
    }

    /// Adds an id. The filter must not be empty.
    pub fn add(&mut self, oid: &Oid) {
        let len = self.words.len();
        for (word, bit) in places(oid, len) {
            self.words[word] |= bit;
        }
    }

    /// Whether the set may have this id. `false` is certain.
    pub fn may_have(&self, oid: &Oid) -> bool {
        let len = self.words.len();
        len > 0 && places(oid, len).all(|(word, bit)| self.words[word] & bit != 0)
    }
}

/// The bits of an id, in a filter of `words` words.
fn places(oid: &Oid, words: usize) -> impl Iterator<Item = (usize, u64)> {
    PROBES.into_iter().map(move |at| {
        let (chosen, _) = oid.as_bytes()[at..].split_first_chunk().expect("eight bytes");
        let chosen = u64::from_le_bytes(*chosen);
        let word = usize::try_from(chosen >> 6 & (words as u64 - 1)).expect("is less than words");
        (word, 1 << (chosen & 63))
    })
}

#[cfg(test)]
mod tests {
    use gitpack::{Entry, ObjectKind, PackWriter, Readers};
    use sha1lanes::{Message, digest_one};

    use super::*;

    fn oid(number: u32) -> Oid {
        Oid::from_bytes(digest_one(Message { head: &[], body: &number.to_be_bytes() }))
    }

    fn pack(dir: &Path, numbers: std::ops::Range<u32>) {
        let dir = Directory::open(dir).expect("is there");
        let pack = PackWriter::create(&dir, Readers::BY_UMASK).expect("is writable");
        let mut pack = pack.without_sync();
        for number in numbers {
            pack.add(oid(number), Entry::Full(ObjectKind::Blob), 5, b"12345").expect("is writable");
        }
        pack.seal().and_then(gitpack::SealedPack::publish).expect("is writable");
    }

    fn of_packs(dir: &Path) -> Result<StoreIds> {
        StoreIds::of_packs(&Directory::open(dir).expect("is there"), &[])
    }

    #[test]
    fn no_id_of_a_pack_is_missed_and_few_others_are_taken_for_one() {
        let dir = tempfile::tempdir().expect("temporary directory");
        pack(dir.path(), 0..1000);
        pack(dir.path(), 1000..1003);
        std::fs::write(dir.path().join("pack-1.rev"), b"no index").expect("is writable");
        let ids = of_packs(dir.path()).expect("is readable");
        assert!((0..1003).all(|number| ids.may_have(&oid(number))));
        let wrong = (2000..12_000).filter(|number| ids.may_have(&oid(*number))).count();
        assert!(wrong < 200, "{wrong}");
    }

    #[test]
    fn ids_of_replaced_packs_are_unknown() {
        let dir = tempfile::tempdir().expect("temporary directory");
        pack(dir.path(), 0..1000);
        let packs = Directory::open(dir.path()).expect("is there");
        let names = packs.names().expect("is readable");
        let stem =
            |name: &OsStr| Path::new(name).file_stem().and_then(OsStr::to_str).map(str::to_owned);
        let replaced: Vec<String> = names.iter().filter_map(|name| stem(name)).collect();
        pack(dir.path(), 500..501);
        let ids = StoreIds::of_packs(&packs, &replaced).expect("is readable");
        assert!(ids.may_have(&oid(500)) && !ids.may_have(&oid(1)));
    }

    #[test]
    fn a_store_without_packs_has_no_id() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let ids = of_packs(dir.path()).expect("is readable");
        assert!(!ids.may_have(&oid(1)) && ids.words.is_empty());
    }

    #[test]
    fn a_damaged_index_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::write(dir.path().join("pack-1.idx"), b"no index").expect("is writable");
        let error = of_packs(dir.path()).expect_err("is no index");
        assert!(matches!(error, Error::Io { path, .. } if path.ends_with("pack-1.idx")));
    }

    #[test]
    fn room_is_bounded() {
        assert_eq!(StoreIds::with_room_for(usize::MAX).words.len() * 8, MOST_BYTES);
    }
}
