//! Objects of packs, read one by one.
//!
//! For the few objects that an incremental export needs. git may have repacked our packs, so
//! entries may be deltas by offset or by id. Packs are not memory-mapped: if one is truncated while
//! it is read, that is an error and not a signal. Each object is verified against its id.
//!
//! Formats: gitformat-pack(5). `super::idx` has the format of an index.

#![deny(clippy::indexing_slicing)]

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use parallel::Directory;
use sha1::{Digest, Sha1};

use super::entry::{ID_DELTA, OFFSET_DELTA, parse_distance, parse_type_and_size};
use super::idx::{MAGIC, VERSION};
use crate::deflate::inflate;
use crate::delta::apply;
use crate::oid::{ObjectKind, Oid, object_header};

/// Offset of the fanout table.
const FANOUT_AT: u64 = 8;
/// Offset of the ids.
pub(super) const IDS_AT: u64 = FANOUT_AT + 256 * 4;
const ID_LEN: u64 = 20;
/// Flag of an entry whose offset is in the table of 8-byte offsets.
pub(super) const LARGE: u32 = 1 << 31;
/// Maximum overhead of an entry: its header, the id of a base, zlib's header and checksum.
const ENTRY_BYTES: usize = 64;
/// Assumed length of a stored block. Each adds five bytes to incompressible content.
const STORED_BLOCK_BYTES: usize = 16 << 10;
/// Maximum length of a delta chain, git's own limit.
pub(super) const LONGEST_CHAIN: usize = 4095;

/// The objects of all packs in a directory.
#[derive(Debug)]
pub struct Objects {
    packs: Vec<Pack>,
    most_bytes: usize,
}

/// A pack with its index.
#[derive(Debug)]
struct Pack {
    directory: Directory,
    /// File name without extension.
    name: String,
    idx: File,
    count: u32,
}

/// An entry: the content of an object, or a delta.
enum Found {
    Full(u8, Vec<u8>),
    Delta(Base, Vec<u8>),
}

/// The base of a delta: an offset in the same pack, or an id.
enum Base {
    At(u64),
    Id(Oid),
}

impl Objects {
    /// Opens the indexes in `directory`. An object and its delta chain may have `most_bytes`
    /// together.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if the directory or an index cannot be read; of kind `InvalidData` if a file
    /// is not an index of version 2.
    pub fn open(directory: &Directory, most_bytes: usize) -> io::Result<Self> {
        let names = directory.names()?.into_iter().filter_map(pack_name);
        let packs = names.map(|name| Pack::open(directory, name)).collect::<io::Result<_>>()?;
        Ok(Self { packs, most_bytes })
    }

    /// Reads the content of an object; `None` if no pack has it.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if a file cannot be read; of kind `InvalidData` if the object is damaged, too
    /// long, or of another kind.
    pub fn read(&self, kind: ObjectKind, oid: &Oid) -> io::Result<Option<Vec<u8>>> {
        let Some((mut pack, mut at)) = self.find(oid)? else { return Ok(None) };
        let mut deltas = Vec::new();
        let mut left_bytes = self.most_bytes; // for the whole chain, which may be a cycle
        let mut content = loop {
            match pack.entry(at, left_bytes)? {
                Found::Full(found, content) if found == kind as u8 => break content,
                Found::Full(..) => return Err(damaged("an object is of another kind")),
                Found::Delta(..) if deltas.len() == LONGEST_CHAIN => {
                    return Err(damaged("a chain of deltas is too long"));
                }
                Found::Delta(base, delta) => {
                    left_bytes -= delta.len();
                    deltas.push(delta);
                    match base {
                        Base::At(base) => at = base,
                        Base::Id(base) => {
                            let found = self.find(&base)?;
                            (pack, at) = found.ok_or_else(|| damaged("a delta has no base"))?;
                        }
                    }
                }
            }
        };
        while let Some(delta) = deltas.pop() {
            content = apply(&content, &delta, self.most_bytes).map_err(damaged)?;
        }
        let mut sha1 = Sha1::new();
        sha1.update(&*object_header(kind, content.len() as u64));
        sha1.update(&content);
        let is_right = sha1.finalize().as_slice() == oid.as_bytes();
        if is_right { Ok(Some(content)) } else { Err(damaged("an object is not that of its id")) }
    }

    /// Finds the first pack that has an object, and the offset of the entry.
    fn find(&self, oid: &Oid) -> io::Result<Option<(&Pack, u64)>> {
        for pack in &self.packs {
            if let Some(at) = pack.find(oid)? {
                return Ok(Some((pack, at)));
            }
        }
        Ok(None)
    }
}

impl Pack {
    fn open(directory: &Directory, name: String) -> io::Result<Self> {
        let idx = directory.read(format!("{name}.idx"))?;
        let [.., count] = fanout(&idx)?;
        Ok(Self { directory: directory.clone(), name, idx, count })
    }

    /// Finds the offset of an object.
    fn find(&self, oid: &Oid) -> io::Result<Option<u64>> {
        let [first, ..] = *oid.as_bytes();
        let fanout_at = FANOUT_AT + 4 * u64::from(first);
        let (mut start, mut end) = match first {
            0 => (0, words::<1>(&self.idx, fanout_at)?[0]),
            _ => words::<2>(&self.idx, fanout_at - 4)?.into(),
        };
        while start < end {
            let middle = start + (end - start) / 2;
            let mut id = [0; 20];
            self.idx.read_exact_at(&mut id, IDS_AT + ID_LEN * u64::from(middle))?;
            match id.cmp(oid.as_bytes()) {
                std::cmp::Ordering::Less => start = middle + 1,
                std::cmp::Ordering::Greater => end = middle,
                std::cmp::Ordering::Equal => return self.offset(middle).map(Some),
            }
        }
        Ok(None)
    }

    /// Reads the offset at a position of the index.
    fn offset(&self, place: u32) -> io::Result<u64> {
        let count = u64::from(self.count);
        let [word] = words(&self.idx, IDS_AT + 24 * count + 4 * u64::from(place))?;
        if word < LARGE {
            return Ok(u64::from(word));
        }
        let at = IDS_AT + 28 * count + 8 * u64::from(word - LARGE);
        let [high, low] = words(&self.idx, at)?;
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    /// Reads the entry at an offset.
    fn entry(&self, at: u64, most_bytes: usize) -> io::Result<Found> {
        let file = self.directory.read(format!("{}.pack", self.name))?;
        let start = bytes_at(&file, at, ENTRY_BYTES)?;
        let (kind, len, rest) = parse_type_and_size(&start).ok_or_else(|| damaged("no entry"))?;
        let len = usize::try_from(len).ok().filter(|&len| len <= most_bytes);
        let len = len.ok_or_else(|| damaged("an object is too long"))?;
        let (base, rest) = match kind {
            OFFSET_DELTA => {
                let parsed = parse_distance(rest);
                let (distance, rest) = parsed.ok_or_else(|| damaged("no distance"))?;
                let base = at.checked_sub(distance).filter(|_| distance > 0);
                (Some(Base::At(base.ok_or_else(|| damaged("no base"))?)), rest)
            }
            ID_DELTA => {
                let (id, rest) = rest.split_first_chunk().ok_or_else(|| damaged("no base"))?;
                (Some(Base::Id(Oid::from_bytes(*id))), rest)
            }
            _ => (None, rest),
        };
        let before = (start.len() - rest.len()) as u64;
        let stream_len = len + len / STORED_BLOCK_BYTES * 5 + ENTRY_BYTES;
        let stream = bytes_at(&file, at.saturating_add(before), stream_len)?;
        let bytes = inflate(&stream, len).map_err(damaged)?;
        Ok(match base {
            Some(base) => Found::Delta(base, bytes),
            None => Found::Full(kind, bytes),
        })
    }
}

/// Name of a pack without extension, from the file name of its index; `None` for other files.
pub(super) fn pack_name(name: OsString) -> Option<String> {
    let is_index = Path::new(&name).extension().is_some_and(|end| end == "idx");
    let name = name.into_string().ok().filter(|_| is_index)?;
    let name = name.strip_suffix(".idx")?;
    name.starts_with("pack-").then(|| name.to_owned())
}

/// Reads up to `most` bytes from `at` on; fewer at the end of the file.
fn bytes_at(file: &File, at: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let mut len = 0;
    while let Some(room) = bytes.get_mut(len..).filter(|room| !room.is_empty()) {
        match file.read_at(room, at.saturating_add(len as u64)) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
            Err(problem) => return Err(problem),
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

/// Reads the numbers of ids that begin with each byte or a lower one.
pub(super) fn fanout(idx: &File) -> io::Result<[u32; 256]> {
    let [magic, version] = words(idx, 0)?;
    if magic != u32::from_be_bytes(MAGIC) || version != VERSION {
        return Err(damaged("not a pack index"));
    }
    words(idx, FANOUT_AT)
}

/// Reads big-endian numbers from `at` on.
fn words<const COUNT: usize>(file: &File, at: u64) -> io::Result<[u32; COUNT]> {
    let mut words = [[0; 4]; COUNT];
    file.read_exact_at(words.as_flattened_mut(), at)?;
    Ok(words.map(u32::from_be_bytes))
}

pub(super) fn damaged(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
