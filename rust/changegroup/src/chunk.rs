//! Chunks: the bytes around deltas.
//!
//! Format: `hg help internals.changegroups`. A chunk has its length, which counts its own 4 bytes,
//! and data. Length 0 ends a group. The data of a revision are node, parents, base and changeset,
//! 20 bytes each, in version 03 two bytes of flags, and the delta.

use revlog::Node;

use crate::outgoing::GroupVersion;

/// Chunk that ends a group.
pub const END: [u8; 4] = [0; 4];

/// Length limit of a chunk: the length is a signed number.
const MAX_LEN: usize = i32::MAX as usize;
const NODE_LEN: usize = 20;
/// Offset of the changeset's node.
const LINK_AT: usize = END.len() + 4 * NODE_LEN;

/// Delta or text too long for a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is too long for a changegroup")]
pub struct LongChunk;

/// Fields of a revision before its delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevisionChunk {
    /// Node of the revision.
    pub node: Node,
    /// Nodes of its parents.
    pub parents: [Node; 2],
    /// Delta base; the null node for a whole text.
    pub base: Node,
    /// Changeset of the revision.
    pub link: Node,
    /// Flags, absent in version 02.
    pub flags: u16,
}

impl RevisionChunk {
    /// Length of the bytes before a delta, with the length field.
    #[must_use]
    pub const fn head_len(version: GroupVersion) -> usize {
        LINK_AT
            + NODE_LEN
            + match version {
                GroupVersion::V02 => 0,
                GroupVersion::V03 => 2,
            }
    }

    /// Appends all bytes before a delta of `delta_len` bytes.
    ///
    /// # Errors
    ///
    /// [`LongChunk`] if the chunk is too long.
    pub fn push_head(
        &self,
        version: GroupVersion,
        delta_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), LongChunk> {
        let start = out.len();
        self.push_fields(version, out);
        out[start..start + END.len()].copy_from_slice(&len(Self::head_len(version) + delta_len)?);
        Ok(())
    }

    /// Appends the same without a length; [`set_len`] adds it.
    pub(crate) fn push_fields(&self, version: GroupVersion, out: &mut Vec<u8>) {
        out.extend_from_slice(&END);
        let [p1, p2] = self.parents;
        for node in [self.node, p1, p2, self.base, self.link] {
            out.extend_from_slice(node.as_bytes());
        }
        if version == GroupVersion::V03 {
            out.extend_from_slice(&self.flags.to_be_bytes());
        }
    }

    /// Replaces the changeset in bytes made by [`Self::push_head`].
    ///
    /// # Panics
    ///
    /// If `head` is shorter.
    pub fn set_link(head: &mut [u8], link: Node) {
        head[LINK_AT..LINK_AT + NODE_LEN].copy_from_slice(link.as_bytes());
    }

    /// Parses a chunk without its length; returns the delta, too. `None` if it is too short.
    #[must_use]
    pub fn parse(version: GroupVersion, data: &[u8]) -> Option<(Self, &[u8])> {
        let (head, delta) = data.split_at_checked(Self::head_len(version) - END.len())?;
        let (nodes, flags) = head.as_chunks::<NODE_LEN>();
        let &[node, p1, p2, base, link] = nodes else { return None };
        let [node, p1, p2, base, link] = [node, p1, p2, base, link].map(Node::from_bytes);
        let flags = flags.first_chunk().map_or(0, |flags| u16::from_be_bytes(*flags));
        Some((Self { node, parents: [p1, p2], base, link, flags }, delta))
    }
}

/// Writes the length of a chunk into it.
///
/// # Errors
///
/// [`LongChunk`] if it does not fit.
pub(crate) fn set_len(chunk: &mut [u8]) -> Result<(), LongChunk> {
    let len = len(chunk.len())?;
    chunk[..END.len()].copy_from_slice(&len);
    Ok(())
}

fn len(bytes: usize) -> Result<[u8; 4], LongChunk> {
    let len = u32::try_from(bytes).ok().filter(|_| bytes <= MAX_LEN).ok_or(LongChunk)?;
    Ok(len.to_be_bytes())
}

/// Appends the chunk with the name of a file, which starts its group.
///
/// # Panics
///
/// If the name has 4 GiB or more; names come from texts of less than 2 GiB.
pub fn file_header(name: &[u8], out: &mut Vec<u8>) {
    let len = u32::try_from(name.len() + 4).expect("names come from texts of less than 2 GiB");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let [node, p1, p2, base, link] = [1, 2, 3, 4, 5].map(|byte| Node::from_bytes([byte; 20]));
        for (version, flags) in [(GroupVersion::V02, 0), (GroupVersion::V03, 0x1234)] {
            let chunk = RevisionChunk { node, parents: [p1, p2], base, link: Node::NULL, flags };
            let mut out = Vec::new();
            chunk.push_head(version, 3, &mut out).expect("is short");
            assert_eq!(out.len(), RevisionChunk::head_len(version));
            RevisionChunk::set_link(&mut out, link);
            out.extend_from_slice(b"abc");
            assert_eq!(out[..4], u32::try_from(out.len()).expect("is short").to_be_bytes());
            let read = RevisionChunk::parse(version, &out[4..]);
            assert_eq!(read, Some((RevisionChunk { link, ..chunk }, &b"abc"[..])));
            assert_eq!(RevisionChunk::parse(version, &out[4..out.len() - 4]), None);
            assert_eq!(chunk.push_head(version, MAX_LEN, &mut Vec::new()), Err(LongChunk));
        }
    }
}
