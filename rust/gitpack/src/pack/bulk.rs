//! Objects of packs that git wrote, read in large numbers and in any order.
//!
//! For conversions of whole histories. The tables of indexes are in memory, if there is enough of
//! it: else only offsets are, and ids are read from the index. Contents that may be bases of deltas
//! are cached. Nothing is an error: objects that are absent, long or damaged are
//! left to git. Contents are not verified against their ids, as git does not verify them either. The
//! caller may do it, and note the numbers of places.
//!
//! Formats: gitformat-pack(5). `super::idx` has the format of an index.

#![deny(clippy::indexing_slicing)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use libdeflater::Decompressor;
use parallel::{Buffer, Cache, Directory};

use super::entry::{ID_DELTA, OFFSET_DELTA, parse_distance, parse_type_and_size};
use super::objects::{IDS_AT, LARGE, LONGEST_CHAIN, damaged, fanout, pack_name};
use crate::deflate::inflate_by;
use crate::delta::apply;
use crate::oid::{ObjectKind, Oid};

/// Length of an id.
const ID_LEN: u64 = 20;
/// Length of the table entries of an object: id, CRC-32 and offset.
const ENTRY_LEN: u64 = 28;
/// Length of an offset in memory.
const OFFSET_LEN: u64 = 4;
/// Length of a large offset in an index.
const LARGE_LEN: u64 = 8;
/// Ids of an index that are read at once.
const BLOCK: usize = 256;
/// Length of the checksum after the last entry of a pack.
const TRAILER_LEN: u64 = 20;
/// Part of the cache that one content may take. Longer ones are left to git.
const LARGEST_PART: usize = 4;

/// The packs of a directory, with tables that take about as much memory as their indexes, or a
/// seventh of it.
#[derive(Debug, Default)]
pub struct PackTables {
    packs: Vec<Pack>,
    is_whole: bool,
}

#[derive(Debug)]
struct Pack {
    file: File,
    /// Numbers of ids that begin with each byte or a lower one.
    fanout: [u32; 256],
    ids: Ids,
    /// All offsets and the end of the last entry, ascending.
    ends: Vec<u32>,
}

/// Ids of an index, ascending, with the offset of each.
#[derive(Debug)]
enum Ids {
    InMemory(Vec<[u8; 20]>, Vec<u32>),
    InFile(File),
}

/// Place of an object. In a pack, the base of a delta has a smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectPlace {
    pack: usize,
    at: u32,
}

/// Content of an entry, or its delta.
enum Found {
    Full(u8, Vec<u8>),
    Delta(u32, Vec<u8>),
}

impl PackTables {
    /// Opens the packs in `directory`. Left out are packs of 4 GiB or more, those that are damaged,
    /// and all whose tables would need more memory than `most_bytes`.
    #[must_use]
    pub fn open(directory: &Directory, most_bytes: u64) -> Self {
        let (mut packs, mut left, mut is_whole) = (Vec::new(), most_bytes, true);
        let names = directory.names().unwrap_or_default();
        for name in names.into_iter().filter_map(pack_name) {
            if let Ok(pack) = Pack::open(directory, &name, left) {
                left -= pack.bytes();
                packs.push(pack);
            } else {
                is_whole = false;
            }
        }
        Self { packs, is_whole }
    }

    /// Whether no pack was left out.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packs.iter().map(Pack::len).sum()
    }

    /// Returns true if no pack has an object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Places of all objects, ascending: each has the number of those before it.
    pub fn places(&self) -> impl Iterator<Item = ObjectPlace> {
        self.packs.iter().enumerate().flat_map(|(pack, it)| {
            it.ends.iter().take(it.len()).map(move |at| ObjectPlace { pack, at: *at })
        })
    }

    /// Returns true if an index has this id at this place.
    #[must_use]
    pub fn is_at(&self, oid: &Oid, place: ObjectPlace) -> bool {
        self.packs.get(place.pack).is_some_and(|pack| pack.find(oid) == Some(place.at))
    }

    /// Ids of the objects at `places`, which ascend, by pack and id. Reads all indexes.
    ///
    /// # Errors
    ///
    /// An index cannot be read.
    pub fn ids(&self, places: &[ObjectPlace]) -> io::Result<Vec<Oid>> {
        let mut found = Vec::new();
        for (pack, it) in self.packs.iter().enumerate() {
            let read;
            let offsets = match &it.ids {
                Ids::InMemory(_, offsets) => offsets,
                Ids::InFile(idx) => {
                    read = offsets(idx, it.count())?;
                    &read
                }
            };
            for (number, at) in offsets.iter().enumerate() {
                if places.binary_search(&ObjectPlace { pack, at: *at }).is_ok() {
                    found.push(Oid::from_bytes(it.id(number)?));
                }
            }
        }
        Ok(found)
    }

    /// Number of a place: from 0, in the order of places.
    #[must_use]
    pub fn number(&self, ObjectPlace { pack, at }: ObjectPlace) -> usize {
        let before = self.packs.iter().take(pack).map(Pack::len).sum::<usize>();
        let ends = self.packs.get(pack).map_or(&[][..], |pack| &pack.ends);
        before + ends.partition_point(|end| *end < at)
    }

    /// Finds an object.
    #[must_use]
    pub fn find(&self, oid: &Oid) -> Option<ObjectPlace> {
        let mut packs = self.packs.iter().enumerate();
        packs.find_map(|(pack, it)| Some(ObjectPlace { pack, at: it.find(oid)? }))
    }
}

impl Pack {
    fn open(directory: &Directory, name: &str, most_bytes: u64) -> io::Result<Self> {
        let idx = directory.read(format!("{name}.idx"))?;
        let fanout = fanout(&idx)?;
        let [.., count] = fanout;
        let len = u64::from(count);
        let is_long = OFFSET_LEN * len > most_bytes;
        if is_long || !fanout.is_sorted() || idx.metadata()?.len() < IDS_AT + ENTRY_LEN * len {
            return Err(damaged("not an index, or a long one"));
        }
        let offsets = offsets(&idx, count)?;
        let file = directory.read(format!("{name}.pack"))?;
        let end = u32::try_from(file.metadata()?.len().saturating_sub(TRAILER_LEN));
        let end = end.map_err(|_| damaged("a long pack"))?;
        let (ids, mut ends) = if ENTRY_LEN * len > most_bytes {
            (Ids::InFile(idx), offsets)
        } else {
            let mut ids = vec![[0; 20]; count as usize];
            idx.read_exact_at(ids.as_flattened_mut(), IDS_AT)?;
            let ends = offsets.clone();
            (Ids::InMemory(ids, offsets), ends)
        };
        ends.push(end);
        ends.sort_unstable();
        let is_apart = ends.is_sorted_by(|one, other| one < other);
        if !is_apart || ends.last() != Some(&end) {
            return Err(damaged("an index with two ids for an offset, or one past the end"));
        }
        Ok(Self { file, fanout, ids, ends })
    }

    /// Number of objects, as the index has it.
    const fn count(&self) -> u32 {
        let [.., count] = self.fanout;
        count
    }

    /// Number of objects.
    const fn len(&self) -> usize {
        self.count() as usize
    }

    /// Memory of the tables.
    fn bytes(&self) -> u64 {
        let entry = if matches!(self.ids, Ids::InFile(_)) { OFFSET_LEN } else { ENTRY_LEN };
        entry * self.len() as u64
    }

    fn find(&self, oid: &Oid) -> Option<u32> {
        let [first, ..] = *oid.as_bytes();
        let start = first.checked_sub(1).map_or(Some(&0), |at| self.fanout.get(usize::from(at)))?;
        let (start, end) = (*start as usize, *self.fanout.get(usize::from(first))? as usize);
        let number = match &self.ids {
            Ids::InMemory(ids, _) => {
                start + ids.get(start..end)?.binary_search(oid.as_bytes()).ok()?
            }
            Ids::InFile(idx) => find_in(idx, oid.as_bytes(), start, end)?,
        };
        self.offset(number).ok()
    }

    /// Offset of an object by the number of its id.
    fn offset(&self, number: usize) -> io::Result<u32> {
        match &self.ids {
            Ids::InMemory(_, offsets) => offsets.get(number).copied().ok_or_else(|| absent(number)),
            Ids::InFile(idx) => {
                let mut offset = [0; 4];
                let (at, len) = (OFFSET_LEN * number as u64, self.len() as u64);
                idx.read_exact_at(&mut offset, IDS_AT + 24 * len + at)?;
                match u32::from_be_bytes(offset) {
                    small if small < LARGE => Ok(small),
                    word => {
                        let mut large = [0; 8];
                        let at = LARGE_LEN * u64::from(word - LARGE);
                        idx.read_exact_at(&mut large, IDS_AT + ENTRY_LEN * len + at)?;
                        short(large)
                    }
                }
            }
        }
    }

    /// Id of an object by its number.
    fn id(&self, number: usize) -> io::Result<[u8; 20]> {
        match &self.ids {
            Ids::InMemory(ids, _) => ids.get(number).copied().ok_or_else(|| absent(number)),
            Ids::InFile(idx) => {
                let mut id = [0; 20];
                idx.read_exact_at(&mut id, IDS_AT + ID_LEN * number as u64)?;
                Ok(id)
            }
        }
    }

    /// Range of the entry at an offset.
    fn range(&self, at: u32) -> Option<(u64, usize)> {
        let end = self.ends.get(self.ends.partition_point(|end| *end <= at))?;
        Some((u64::from(at), (end - at) as usize))
    }
}

/// Offsets of an index of `count` objects, by the numbers of their ids.
fn offsets(idx: &File, count: u32) -> io::Result<Vec<u32>> {
    let mut offsets = vec![[0; 4]; count as usize];
    idx.read_exact_at(offsets.as_flattened_mut(), IDS_AT + 24 * u64::from(count))?;
    let mut offsets: Vec<u32> = offsets.into_iter().map(u32::from_be_bytes).collect();
    // large ones are in a table of their own, at most one for each object
    let mut large = vec![[0; 8]; offsets.iter().filter(|word| **word >= LARGE).count()];
    idx.read_exact_at(large.as_flattened_mut(), IDS_AT + ENTRY_LEN * u64::from(count))?;
    for word in offsets.iter_mut().filter(|word| **word >= LARGE) {
        let offset = large.get((*word - LARGE) as usize);
        *word = short(*offset.ok_or_else(|| damaged("an index without a large offset"))?)?;
    }
    Ok(offsets)
}

/// Large offset in a pack of less than 4 GiB.
fn short(offset: [u8; 8]) -> io::Result<u32> {
    u32::try_from(u64::from_be_bytes(offset)).map_err(|_| damaged("an offset past the end"))
}

fn absent(number: usize) -> io::Error {
    damaged(format!("object {number} is not in the index"))
}

/// Finds the number of an id among those from `start` to `end`, which begin with the same byte.
///
/// Ids are as good as random, so the first block that is read most often has it.
fn find_in(idx: &File, id: &[u8; 20], start: usize, end: usize) -> Option<usize> {
    let (mut low, mut high) = (start, end);
    let [_, part @ ..] = id.first_chunk::<5>()?;
    let part = u64::from(u32::from_be_bytes(*part));
    let mut guess = low + (((high - low) as u64 * part) >> 32) as usize;
    let mut block = [[0; 20]; BLOCK];
    while low < high {
        let from = guess.saturating_sub(BLOCK / 2).clamp(low, high.saturating_sub(BLOCK).max(low));
        let ids = block.get_mut(..(high - from).min(BLOCK))?;
        idx.read_exact_at(ids.as_flattened_mut(), IDS_AT + ID_LEN * from as u64).ok()?;
        match ids.binary_search(id) {
            Ok(at) => return Some(from + at),
            Err(0) => high = from,
            Err(at) if at == ids.len() => low = from + at,
            Err(_) => return None,
        }
        guess = low.midpoint(high);
    }
    None
}

/// Kind of an object, as packs number it, and its content.
pub type Kept = (u8, Arc<Buffer>);

/// Reader of objects, for one thread.
pub struct PackReader {
    packs: Arc<PackTables>,
    kept: Cache<ObjectPlace, Kept>,
    /// Whether contents between an object and a cached base are cached, too.
    keeps_all: bool,
    most_bytes: usize,
    decompressor: Decompressor,
    entry: Vec<u8>,
}

impl std::fmt::Debug for PackReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackReader").finish_non_exhaustive()
    }
}

impl PackReader {
    /// Reads from `packs`, with a cache of about `cache_bytes`. With `keeps_all`, objects may come in
    /// any order; else those that have others as bases should come later than these.
    #[must_use]
    pub fn new(packs: Arc<PackTables>, cache_bytes: usize, keeps_all: bool) -> Self {
        Self {
            packs,
            kept: Cache::new(cache_bytes),
            keeps_all,
            most_bytes: cache_bytes / LARGEST_PART,
            decompressor: Decompressor::new(),
            entry: Vec::new(),
        }
    }

    /// Content of an object; `None` if git has to read it.
    pub fn read(&mut self, kind: ObjectKind, oid: &Oid) -> Option<Arc<Buffer>> {
        let place = self.packs.find(oid)?;
        self.read_at(kind, place)
    }

    /// Content of the object at a place; `None` if git has to read it.
    pub fn read_at(&mut self, kind: ObjectKind, place: ObjectPlace) -> Option<Arc<Buffer>> {
        let (found, content) = self.read_any(place)?;
        (found == kind as u8).then_some(content)
    }

    /// Kind, as packs number it, and content of the object at a place; `None` if git has to read it.
    pub fn read_any(&mut self, ObjectPlace { pack, mut at }: ObjectPlace) -> Option<Kept> {
        let (mut deltas, mut left) = (Vec::new(), self.most_bytes);
        let (kind, mut content) = loop {
            if let Some(kept) = self.kept.get(&ObjectPlace { pack, at }) {
                break kept;
            }
            match self.entry(pack, at, left)? {
                Found::Full(kind, bytes) => {
                    let content = Arc::new(Buffer::from(bytes));
                    if self.keeps_all || deltas.is_empty() {
                        self.keep(ObjectPlace { pack, at }, kind, &content);
                    }
                    break (kind, content);
                }
                // a damaged chain may be a cycle
                Found::Delta(..) if deltas.len() == LONGEST_CHAIN => return None,
                Found::Delta(base, delta) => {
                    left -= delta.len();
                    deltas.push((at, delta));
                    at = base;
                }
            }
        };
        while let Some((at, delta)) = deltas.pop() {
            let made = apply(&content, &delta, self.most_bytes).ok()?;
            content = Arc::new(Buffer::from(made));
            if self.keeps_all || deltas.is_empty() {
                self.keep(ObjectPlace { pack, at }, kind, &content);
            }
        }
        Some((kind, content))
    }

    fn keep(&mut self, place: ObjectPlace, kind: u8, content: &Arc<Buffer>) {
        self.kept.put(place, (kind, Arc::clone(content)), content.len());
    }

    /// Reads an entry that inflates to `most_bytes` at most.
    fn entry(&mut self, number: usize, at: u32, most_bytes: usize) -> Option<Found> {
        let pack = self.packs.packs.get(number)?;
        let (start, len) = pack.range(at).filter(|(_, len)| len / 2 <= self.most_bytes)?;
        self.entry.resize(len, 0);
        pack.file.read_exact_at(&mut self.entry, start).ok()?;
        let (kind, len, rest) = parse_type_and_size(&self.entry)?;
        let len = usize::try_from(len).ok().filter(|len| *len <= most_bytes)?;
        let (base, stream) = match kind {
            OFFSET_DELTA => {
                let (distance, rest) = parse_distance(rest)?;
                let base = at.checked_sub(u32::try_from(distance).ok()?)?;
                (Some(base), rest)
            }
            ID_DELTA => {
                let (id, rest) = rest.split_first_chunk()?;
                (Some(pack.find(&Oid::from_bytes(*id))?), rest)
            }
            _ => (None, rest),
        };
        let bytes = inflate_by(&mut self.decompressor, stream, len).ok()?;
        Some(match base {
            Some(base) => Found::Delta(base, bytes),
            None => Found::Full(kind, bytes),
        })
    }
}
