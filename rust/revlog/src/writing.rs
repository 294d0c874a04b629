//! Entries and chunks of new revlogs of version 1, as Mercurial writes them.
//!
//! Fields: `hg help internals.revlogs`. The choice of delta bases is not made here.

use zstd_safe::CCtx;

use crate::index::{ENTRY_LEN, FLAG_GENERALDELTA, FLAG_INLINE, NODE_AT, VERSION_1};
use crate::node::Node;
use crate::texts::chunk::{Unpacker, Unpacking};
use parallel::Buffer;

/// Shortest texts that Mercurial compresses.
const SHORTEST_ZLIB: usize = 44;
const SHORTEST_ZSTD: usize = 50;

/// Compression of a repository, with its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// zlib.
    Zlib(i32),
    /// zstd.
    Zstd(i32),
}

/// Writer and reader of chunks, with compressors kept from chunk to chunk.
pub struct Chunks {
    compressor: Compressor,
    unpacker: Unpacker,
    room: Vec<u8>,
}

enum Compressor {
    Zlib(libdeflater::Compressor),
    Zstd(CCtx<'static>, i32),
}

impl std::fmt::Debug for Chunks {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Chunks")
    }
}

impl Chunks {
    /// Chunks with this compression.
    #[must_use]
    pub fn new(compression: Compression) -> Self {
        let compressor = match compression {
            Compression::Zlib(level) => {
                let level = libdeflater::CompressionLvl::new(level).unwrap_or_default();
                Compressor::Zlib(libdeflater::Compressor::new(level))
            }
            Compression::Zstd(level) => Compressor::Zstd(CCtx::create(), level),
        };
        Self { compressor, unpacker: Unpacker::default(), room: Vec::new() }
    }

    /// The chunk of a text or delta.
    #[must_use]
    pub fn pack(&mut self, bytes: &[u8]) -> Vec<u8> {
        let packed = match &mut self.compressor {
            Compressor::Zlib(zlib) if bytes.len() >= SHORTEST_ZLIB => {
                let most = zlib.zlib_compress_bound(bytes.len());
                grow(&mut self.room, most);
                zlib.zlib_compress(bytes, &mut self.room).ok()
            }
            Compressor::Zstd(zstd, level) if bytes.len() >= SHORTEST_ZSTD => {
                grow(&mut self.room, zstd_safe::compress_bound(bytes.len()));
                zstd.compress(self.room.as_mut_slice(), bytes, *level).ok()
            }
            _ => None,
        };
        match (packed.filter(|len| *len < bytes.len()), bytes) {
            (Some(len), _) => self.room[..len].to_vec(),
            (None, [] | [0, ..]) => bytes.to_vec(),
            (None, _) => [b"u", bytes].concat(),
        }
    }

    /// Replaces `out` by the content of a chunk, which has about `len_hint` bytes.
    ///
    /// # Errors
    ///
    /// [`Unpacking`].
    pub fn unpack(
        &mut self,
        chunk: &[u8],
        len_hint: usize,
        out: &mut Buffer,
    ) -> Result<(), Unpacking> {
        self.unpacker.unpack(chunk, len_hint, out)
    }
}

fn grow(room: &mut Vec<u8>, len: usize) {
    if room.len() < len {
        room.resize(len, 0);
    }
}

/// Entry of an index.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry {
    /// Offset of the chunk, in all chunks.
    pub offset: u64,
    /// Length of the chunk.
    pub len: u32,
    /// Length of the text.
    pub text_len: u32,
    /// Delta base; the revision itself for a whole text.
    pub base: u32,
    /// Revision of the changeset.
    pub link: u32,
    /// Parents.
    pub parents: [Option<u32>; 2],
    /// Node.
    pub node: Node,
}

impl NewEntry {
    /// Length of an entry.
    pub const LEN: usize = ENTRY_LEN;

    /// The bytes of the entry, without the header of the first one.
    #[must_use]
    pub fn bytes(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        bytes[..8].copy_from_slice(&(self.offset << 16).to_be_bytes());
        let [p1, p2] = self.parents.map(|parent| parent.unwrap_or(u32::MAX));
        let words = [self.len, self.text_len, self.base, self.link, p1, p2];
        for (place, word) in bytes[8..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes[NODE_AT..NODE_AT + 20].copy_from_slice(self.node.as_bytes());
        bytes
    }
}

/// First bytes of an index, in the place of the first offset.
#[must_use]
pub fn header(is_inline: bool, is_general: bool) -> [u8; 4] {
    let inline = if is_inline { FLAG_INLINE } else { 0 };
    let general = if is_general { FLAG_GENERALDELTA } else { 0 };
    (VERSION_1 | inline | general).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;

    #[test]
    fn chunks_come_back() {
        let texts: [&[u8]; 5] = [b"", b"\0a", b"short", &b"a line\n".repeat(99), &vec![7; 1 << 21]];
        for compression in [Compression::Zlib(6), Compression::Zstd(3)] {
            let mut chunks = Chunks::new(compression);
            for text in texts {
                let chunk = chunks.pack(text);
                assert!(chunk.len() <= text.len() + 1);
                let mut out = Buffer::default();
                chunks.unpack(&chunk, text.len(), &mut out).expect("is whole");
                assert!(*out == *text);
            }
        }
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let node = |byte| Node::from_bytes([byte; 20]);
        let first = NewEntry {
            offset: 0,
            len: 3,
            text_len: 2,
            base: 0,
            link: 5,
            parents: [None; 2],
            node: node(1),
        };
        let second = NewEntry {
            offset: 3,
            len: 0,
            link: 7,
            parents: [Some(0), None],
            node: node(2),
            ..first
        };
        let mut bytes = [first.bytes(), second.bytes()].concat();
        bytes[..4].copy_from_slice(&header(false, true));
        let index = Index::parse(bytes).expect("is an index");
        let revs: Vec<_> = index.revs().collect();
        assert_eq!(revs.iter().map(|rev| index.node(*rev)).collect::<Vec<_>>(), [node(1), node(2)]);
        assert_eq!(index.delta_base(revs[1]), Some(revs[0]));
        assert_eq!(index.chunk_range(revs[0]), (0, 3));
        assert_eq!(index.chunk_range(revs[1]), (3, 0));
    }
}
