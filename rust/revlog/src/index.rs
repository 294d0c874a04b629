//! Entries of a revlog index: a file `*.i` of version 1, or the `*.idx` of a docket.
//!
//! Fields: `hg help internals.revlogs`, `mercurial/revlogutils/constants.py`, integers big-endian.
//! Entries are kept in the layout of version 1, which has all fields needed here. [`Index::parse`]
//! checks all entries at once; a mapped index checks them on use, see [`Index::mapped`]. A [`Rev`]
//! returned by an index exists in it. Does not know the file of the bytes.

pub(crate) mod docket;
mod entries;

use std::sync::Arc;

use crate::index::docket::Version;
use crate::index::entries::Entries;
use crate::mapping::Mapping;
use crate::node::Node;

/// Length of an entry.
pub(crate) const ENTRY_LEN: usize = 64;
/// Offset of the node in an entry.
pub(crate) const NODE_AT: usize = 32;
/// Length of an entry of version 2.
const ENTRY_2_LEN: usize = 96;
/// Offset of the compression of a chunk, in entries converted from version 2; padding in version 1.
const COMPRESSION_AT: usize = 52;
/// The chunk is not compressed, and has no type byte.
const COMPRESSION_PLAIN: u8 = 0;

const VERSION_MASK: u32 = 0xffff;
pub(crate) const VERSION_1: u32 = 1;
pub(crate) const FLAG_INLINE: u32 = 1 << 16;
pub(crate) const FLAG_GENERALDELTA: u32 = 1 << 17;
/// File revisions with copy metadata are flagged; texts are not affected.
const FLAG_FILELOG_META: u32 = 1 << 18;
/// Snapshots and delta quality are flagged; texts are not affected.
const FLAG_DELTA_INFO: u32 = 1 << 19;
const KNOWN_FLAGS: u32 = FLAG_INLINE | FLAG_GENERALDELTA | FLAG_FILELOG_META | FLAG_DELTA_INFO;

/// Revision flags that affect neither text nor node: copy tracing hints, "has metadata", and delta
/// quality (`REVIDX_NEUTRAL_FLAGS`).
const NEUTRAL_FLAGS: u16 = 0b0001_1111_1100_0000;

/// Censored: a note replaces the text. The node is the hash of the original text.
pub const FLAG_CENSORED: u16 = 1 << 15;
/// External: the text is a pointer (LFS). The node is the hash of the content elsewhere.
pub const FLAG_EXTERNAL: u16 = 1 << 13;

/// Whether an index with this header is of version 1 without inline data.
pub(crate) const fn is_plain(header: u32) -> bool {
    header & VERSION_MASK == VERSION_1 && header & FLAG_INLINE == 0
}

/// Revision that exists in the [`Index`] that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rev(pub(crate) u32);

impl Rev {
    /// Position in the revlog, from 0.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    pub(crate) const fn at(self) -> usize {
        self.0 as usize
    }
}

/// Parents of a revision, as stored; `None` is the null revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parents(pub Option<Rev>, pub Option<Rev>);

/// Problem of an index file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MalformedIndex {
    #[error("revision {0}: its index entry is cut after {1} bytes")]
    Truncated(usize, usize),
    #[error("index has {0} entries, more than a revlog can number")]
    TooLong(usize),
    #[error("unknown revlog version {0}")]
    Version(u32),
    #[error("unknown revlog flags {0:#06x}")]
    Flags(u32),
    #[error("revision {rev}: its {field} {value} is out of range")]
    Field { rev: usize, field: &'static str, value: i64 },
    #[error("revision {0}: its inline data ends after the file")]
    InlineData(usize),
    #[error("its docket is damaged")]
    Docket,
    #[error("index has more than {0} bytes")]
    TooManyBytes(u64),
    #[error("its path leads out of the store")]
    Elsewhere,
    #[error("index has {0} bytes, its docket says {1}")]
    Short(u64, u64),
}

/// Valid entries of an index: their references exist.
#[derive(Debug, Default)]
pub struct Index {
    bytes: Entries,
    /// Starts of the entries if data lies between them; otherwise empty.
    inline_starts: Vec<u32>,
    general_delta: bool,
    /// Whether entries have a compression field and the first one has no header.
    is_version_2: bool,
    len: u32,
}

impl Index {
    /// Parses `bytes`, the part of an index file that its docket covers.
    pub(crate) fn parse_version_2(version: Version, bytes: &[u8]) -> Result<Self, MalformedIndex> {
        let (entries, rest) = bytes.as_chunks::<ENTRY_2_LEN>();
        if !rest.is_empty() {
            return Err(MalformedIndex::Truncated(entries.len(), rest.len()));
        }
        let count = entries.len();
        let len = i32::try_from(count).map_err(|_| MalformedIndex::TooLong(count))?.cast_unsigned();
        let mut bytes = Vec::with_capacity(count * ENTRY_LEN);
        for (rev, entry) in (0..len).zip(entries) {
            let compression = match version {
                Version::Revlog2 => {
                    bytes.extend_from_slice(&entry[..COMPRESSION_AT]);
                    entry[76]
                }
                Version::Changelog2 => {
                    bytes.extend_from_slice(&entry[..16]);
                    let no_delta_and_link = [rev.to_be_bytes(), rev.to_be_bytes()];
                    bytes.extend_from_slice(no_delta_and_link.as_flattened());
                    bytes.extend_from_slice(&entry[16..44]);
                    entry[68]
                }
            };
            bytes.push(compression & 3);
            bytes.resize((rev as usize + 1) * ENTRY_LEN, 0);
        }
        let general_delta = version == Version::Revlog2;
        let inline_starts = Vec::new();
        let bytes = Entries::Read(bytes);
        let index = Self { bytes, inline_starts, general_delta, is_version_2: true, len };
        index.check_entries()?;
        Ok(index)
    }

    /// Parses the whole content of an index file, in time proportional to its length.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, MalformedIndex> {
        let index = Self::with_header(Entries::Read(bytes))?;
        index.check_entries()?;
        Ok(index)
    }

    /// Index in a mapping, in constant time: entries are checked on use.
    ///
    /// An invalid entry counts as a revision without parents, text and node; [`Self::problem`]
    /// returns it.
    pub(crate) fn mapped(mapping: Arc<Mapping>) -> Result<Self, MalformedIndex> {
        let index = Self::with_header(Entries::mapped(mapping))?;
        if !index.inline_starts.is_empty() {
            index.check_entries()?;
        }
        Ok(index)
    }

    /// Releases the touched pages of a mapping, so that they do not count as memory of the process.
    /// The next access maps them again. For walks through a long index.
    pub fn let_go(&self) {
        self.bytes.let_go();
    }

    /// Problem of the first invalid entry that was used.
    pub(crate) fn problem(&self) -> Option<MalformedIndex> {
        self.bytes.problem()
    }

    fn with_header(bytes: Entries) -> Result<Self, MalformedIndex> {
        let Some(header) = bytes.first_chunk::<4>() else {
            if !bytes.is_empty() {
                return Err(MalformedIndex::Truncated(0, bytes.len()));
            }
            return Ok(Self::default());
        };
        let header = u32::from_be_bytes(*header);
        if header & VERSION_MASK != VERSION_1 {
            return Err(MalformedIndex::Version(header & VERSION_MASK));
        }
        if header & !VERSION_MASK & !KNOWN_FLAGS != 0 {
            return Err(MalformedIndex::Flags((header & !VERSION_MASK & !KNOWN_FLAGS) >> 16));
        }
        let inline_starts =
            if header & FLAG_INLINE == 0 { Vec::new() } else { entries::inline_starts(&bytes)? };
        let count = if header & FLAG_INLINE == 0 {
            if !bytes.len().is_multiple_of(ENTRY_LEN) {
                return Err(MalformedIndex::Truncated(
                    bytes.len() / ENTRY_LEN,
                    bytes.len() % ENTRY_LEN,
                ));
            }
            bytes.len() / ENTRY_LEN
        } else {
            inline_starts.len()
        };
        let len = i32::try_from(count).map_err(|_| MalformedIndex::TooLong(count))?.cast_unsigned();
        let general_delta = header & FLAG_GENERALDELTA != 0;
        Ok(Self { bytes, inline_starts, general_delta, is_version_2: false, len })
    }

    fn check_entries(&self) -> Result<(), MalformedIndex> {
        (0..self.len).try_for_each(|rev| entries::check(Rev(rev), self.stored(Rev(rev))))
    }

    /// Number of revisions.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether the index has no revisions.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Revision with this number, if it exists.
    #[must_use]
    pub const fn rev(&self, number: u32) -> Option<Rev> {
        if number < self.len { Some(Rev(number)) } else { None }
    }

    /// All revisions, ascending.
    pub fn revs(&self) -> impl DoubleEndedIterator<Item = Rev> + ExactSizeIterator + use<> {
        (0..self.len).map(Rev)
    }

    /// Node of `rev`.
    #[must_use]
    pub fn node(&self, rev: Rev) -> Node {
        let entry = self.entry(rev);
        let mut node = [0; 20];
        node.copy_from_slice(&entry[32..52]);
        Node::from_bytes(node)
    }

    /// Node of `rev`, or the null node.
    #[must_use]
    pub fn node_or_null(&self, rev: Option<Rev>) -> Node {
        rev.map_or(Node::NULL, |rev| self.node(rev))
    }

    /// Parents of `rev`, in stored order.
    #[must_use]
    pub fn parents(&self, rev: Rev) -> Parents {
        Parents(self.earlier(rev, 24), self.earlier(rev, 28))
    }

    /// Length of the raw text of `rev` as stored, in bytes; 0 if unknown.
    #[must_use]
    pub fn text_len_hint(&self, rev: Rev) -> u32 {
        u32::try_from(self.word(rev, 12).cast_signed()).unwrap_or(0)
    }

    /// Length of the stored chunk of `rev`, in bytes.
    #[must_use]
    pub fn stored_len(&self, rev: Rev) -> u32 {
        self.word(rev, 8)
    }

    /// Delta base of `rev`; `None` if its chunk is a full text.
    #[must_use]
    pub fn delta_base(&self, rev: Rev) -> Option<Rev> {
        let base = self.earlier(rev, 16)?;
        if base == rev {
            None
        } else if self.general_delta {
            Some(base)
        } else {
            // without generaldelta the field has the start of the chain
            Some(Rev(rev.0 - 1))
        }
    }

    /// Flags of `rev` that affect the meaning of its text or node; 0 for an ordinary revision.
    ///
    /// [`FLAG_CENSORED`], [`FLAG_EXTERNAL`], and unknown ones.
    #[must_use]
    pub fn unusual_flags(&self, rev: Rev) -> u16 {
        self.flags(rev) & !NEUTRAL_FLAGS
    }

    /// Flags of `rev` as stored.
    #[must_use]
    pub fn flags(&self, rev: Rev) -> u16 {
        let entry = self.entry(rev);
        u16::from_be_bytes([entry[6], entry[7]])
    }

    /// Number of the changeset that introduced `rev`, as stored; the changelog may lack it.
    #[must_use]
    pub fn link(&self, rev: Rev) -> u32 {
        self.word(rev, 20)
    }

    /// Offset and length of the stored chunk of `rev`, in the index file if the data is inline,
    /// otherwise in the data file.
    pub(crate) fn chunk_range(&self, rev: Rev) -> (u64, usize) {
        let len = self.word(rev, 8) as usize;
        if let Some(&start) = self.inline_starts.get(rev.at()) {
            return (u64::from(start) + ENTRY_LEN as u64, len);
        }
        if rev.0 == 0 && !self.is_version_2 {
            return (0, len); // the header overlays the first offset
        }
        let entry = self.entry(rev);
        let mut offset = [0; 8];
        offset[2..].copy_from_slice(&entry[..6]);
        (u64::from_be_bytes(offset), len)
    }

    /// Whether the chunk of `rev` is uncompressed and has no type byte.
    pub(crate) fn is_plain(&self, rev: Rev) -> bool {
        self.is_version_2 && self.entry(rev)[COMPRESSION_AT] == COMPRESSION_PLAIN
    }

    /// Chunk of `rev` if the data is inline.
    pub(crate) fn inline_chunk(&self, rev: Rev) -> Option<&[u8]> {
        if self.inline_starts.is_empty() {
            return None;
        }
        let start = self.inline_starts[rev.at()] as usize + ENTRY_LEN;
        Some(&self.bytes[start..start + self.word(rev, 8) as usize])
    }

    /// Field with a revision not after `rev`; `None` for the null revision.
    fn earlier(&self, rev: Rev, position: usize) -> Option<Rev> {
        let word = self.word(rev, position);
        if word == u32::MAX { None } else { Some(Rev(word)) }
    }

    fn word(&self, rev: Rev, position: usize) -> u32 {
        let entry = self.entry(rev);
        let mut word = [0; 4];
        word.copy_from_slice(&entry[position..position + 4]);
        u32::from_be_bytes(word)
    }

    fn entry(&self, rev: Rev) -> &[u8] {
        self.bytes.sound(rev, self.stored(rev))
    }

    /// Bytes of an entry, unchecked.
    fn stored(&self, rev: Rev) -> &[u8] {
        let start = match self.inline_starts.get(rev.at()) {
            Some(&start) => start as usize,
            None => rev.at() * ENTRY_LEN,
        };
        &self.bytes[start..start + ENTRY_LEN]
    }
}

#[cfg(test)]
mod tests;
