//! Mercurial's own persistent node map: read, and made where Mercurial would make it in Python.
//!
//! Format: `mercurial/revlogutils/nodemap.py`. A file is a sequence of blocks of 64 bytes, each 16 signed
//! big-endian words, one for each value of the next digit of a node: the number of another block
//! (0 or more), nothing (-1), or the revision `-(word + 2)`. The root is the last block of those
//! that the docket counts. The docket is the caller's to read.

use std::ops::ControlFlow;
use std::path::Path;

use super::file::Bytes;
use super::{DIGITS, Entries, Error};
use crate::prefix::Prefix;

const BLOCK_LEN: usize = 64;
const NOTHING: i32 = -1;

/// A map of Mercurial's.
#[derive(Debug)]
pub(super) struct Trie(Bytes);

/// The content of a file with the nodes of all `entries`, as Mercurial writes it.
///
/// # Errors
///
/// [`Error::Damaged`] if two revisions have one node.
pub fn content(entries: Entries<'_>) -> Result<Vec<u8>, Error> {
    let mut sorted = Vec::with_capacity(entries.len() as usize);
    for rev in 0..entries.len() {
        sorted.push((entries.node(rev).ok_or(Error::Damaged("an entry is missing"))?, rev));
    }
    sorted.sort_unstable();
    let mut out = Vec::new();
    append(&mut out, &sorted, 0)?;
    Ok(out)
}

/// Appends the block of nodes that have their first `level` digits in common, after those below
/// it, and answers its number.
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

/// What a block has for a digit.
enum Child {
    Nothing,
    Block(usize),
    Leaf(u32),
}

impl Trie {
    pub(super) fn open(path: &Path, len: u64, mapped: bool) -> Result<Self, Error> {
        if !len.is_multiple_of(BLOCK_LEN as u64) {
            return Err(Error::Damaged("it is not made of whole blocks"));
        }
        let bytes = if mapped { Bytes::map(path, len)? } else { Bytes::read(path, len)? };
        bytes.map(Self).ok_or(Error::Damaged("it is cut"))
    }

    pub(super) fn visit(
        &self,
        entries: Entries<'_>,
        limit: u32,
        prefix: Prefix,
        visit: &mut dyn FnMut(u32, &[u8; 20]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let Some(mut block) = self.blocks().len().checked_sub(1) else { return Ok(()) };
        for level in 0..prefix.digits() {
            match self.child(block, digit(prefix.least(), level))? {
                Child::Nothing => return Ok(()),
                Child::Block(next) => block = next,
                Child::Leaf(rev) => {
                    if let Some(node) = leaf(entries, limit, rev, prefix, level + 1)?
                        && prefix.begins(node)
                    {
                        let _last = visit(rev, node);
                    }
                    return Ok(());
                }
            }
        }
        // a tree has each block once: this many, and it is none
        let mut budget = self.blocks().len();
        let mut waiting = vec![(block, prefix.digits())];
        while let Some((block, level)) = waiting.pop() {
            budget = budget.checked_sub(1).ok_or(Error::Damaged("its blocks are no tree"))?;
            if level >= DIGITS {
                return Err(Error::Damaged("it is deeper than nodes are long"));
            }
            for value in 0..16 {
                match self.child(block, value)? {
                    Child::Nothing => {}
                    Child::Block(next) => waiting.push((next, level + 1)),
                    Child::Leaf(rev) => {
                        let found = leaf(entries, limit, rev, prefix, prefix.digits())?;
                        if found.is_some_and(|node| visit(rev, node).is_break()) {
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
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

/// The node of a leaf, `None` if it does not count, after comparing the digits that lead to it.
fn leaf(
    entries: Entries<'_>,
    limit: u32,
    rev: u32,
    prefix: Prefix,
    digits: usize,
) -> Result<Option<&[u8; 20]>, Error> {
    if rev >= limit {
        return Ok(None);
    }
    let node = entries.node(rev).ok_or(Error::Damaged("a revision is missing"))?;
    let path = Prefix::new(*prefix.least(), digits).ok_or(Error::Damaged("1 to 40 digits"))?;
    if path.begins(node) { Ok(Some(node)) } else { Err(Error::Damaged("it is of another history")) }
}

fn digit(node: &[u8; 20], level: usize) -> usize {
    let byte = usize::from(node[level / 2]);
    if level.is_multiple_of(2) { byte >> 4 } else { byte & 15 }
}
