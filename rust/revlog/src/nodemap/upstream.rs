//! Mercurial's own persistent node map: reader, and writer for repositories where Mercurial would
//! write it in Python.
//!
//! Format: `mercurial/revlogutils/nodemap.py`. A file is a sequence of blocks of 64 bytes, each
//! with 16 signed big-endian words, one for each value of the next digit of a node: the number of
//! another block (0 or more), nothing (-1), or the revision `-(word + 2)`. The root is the last
//! block within the length in the docket. The caller reads the docket.
//!
//! The file has no checksum, and the docket names only the last revision. So a hit is right once
//! compared with the index, and a miss may be wrong.

use std::fs::File;

use super::bytes::NodeBytes;
use super::{DIGITS, Error, IndexEntries};

const BLOCK_LEN: usize = 64;
const NOTHING: i32 = -1;

/// Node map of Mercurial.
#[derive(Debug)]
pub(super) struct Trie(NodeBytes);

/// Content of a file with the nodes of all `entries`, as Mercurial writes it.
///
/// # Errors
///
/// [`Error::Damaged`] if two revisions have the same node.
pub fn content(entries: IndexEntries<'_>) -> Result<Vec<u8>, Error> {
    let mut sorted = Vec::with_capacity(entries.len() as usize);
    for rev in 0..entries.len() {
        sorted.push((entries.node(rev).ok_or(Error::Damaged("an entry is missing"))?, rev));
    }
    sorted.sort_unstable();
    let mut out = Vec::new();
    append(&mut out, &sorted, 0)?;
    Ok(out)
}

/// Appends the block of nodes with their first `level` digits in common, after the blocks below it;
/// returns its number.
fn append(out: &mut Vec<u8>, sorted: &[(&[u8; 20], u32)], level: usize) -> Result<i32, Error> {
    if level == DIGITS {
        return Err(Error::Damaged("two revisions have one node"));
    }
    let mut block = [0; BLOCK_LEN];
    let (slots, _none) = block.as_chunks_mut::<4>();
    let mut rest = sorted;
    for (value, slot) in slots.iter_mut().enumerate() {
        let count = rest.partition_point(|(node, _rev)| digit(node, level) <= value);
        let (below, after) = rest.split_at(count);
        rest = after;
        *slot = match below {
            [] => NOTHING,
            [(_node, rev)] => -(rev.cast_signed()) - 2,
            _ => append(out, below, level + 1)?,
        }
        .to_be_bytes();
    }
    let number = i32::try_from(out.len() / BLOCK_LEN);
    out.extend_from_slice(&block);
    number.map_err(|_| Error::Damaged("it would be too long"))
}

/// Child of a block.
enum Child {
    Nothing,
    Block(usize),
    Leaf(u32),
}

impl Trie {
    pub(super) fn open(file: &File, len: u64, mapped: bool) -> Result<Self, Error> {
        if !len.is_multiple_of(BLOCK_LEN as u64) {
            return Err(Error::Damaged("it is not made of whole blocks"));
        }
        let bytes = if mapped { NodeBytes::map(file, len)? } else { NodeBytes::read(file, len)? };
        bytes.map(Self).ok_or(Error::Damaged("it is cut"))
    }

    /// Revision below `limit` with `node`.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] for a miss, [`Error::Damaged`] if the file is malformed.
    pub(super) fn rev(
        &self,
        entries: IndexEntries<'_>,
        limit: u32,
        node: &[u8; 20],
    ) -> Result<u32, Error> {
        let mut block = self.blocks().len().checked_sub(1).ok_or(Error::Unknown)?;
        for level in 0..DIGITS {
            match self.child(block, digit(node, level))? {
                Child::Nothing => return Err(Error::Unknown),
                Child::Block(next) => block = next,
                Child::Leaf(rev) if rev < limit && entries.node(rev) == Some(node) => {
                    return Ok(rev);
                }
                Child::Leaf(_other) => return Err(Error::Unknown),
            }
        }
        Err(Error::Damaged("it is deeper than nodes are long"))
    }

    fn blocks(&self) -> &[[u8; BLOCK_LEN]] {
        self.0.as_chunks().0
    }

    fn child(&self, block: usize, value: usize) -> Result<Child, Error> {
        let block = self.blocks().get(block).ok_or(Error::Damaged("a block is missing"))?;
        let mut word = [0; 4];
        word.copy_from_slice(&block[value * 4..value * 4 + 4]);
        Ok(match i32::from_be_bytes(word) {
            NOTHING => Child::Nothing,
            word @ 0.. => Child::Block(word.cast_unsigned() as usize),
            word => Child::Leaf((-(word + 2)).cast_unsigned()),
        })
    }
}

fn digit(node: &[u8; 20], level: usize) -> usize {
    let byte = usize::from(node[level / 2]);
    if level.is_multiple_of(2) { byte >> 4 } else { byte & 15 }
}
