//! Mercurial node: the 20-byte id of a revision.

use std::cmp::Ordering;
use std::fmt;

use sha1lanes::{Message, Pieced, best, portable};

/// SHA-1 of a revision's parents and raw text (`hg help internals.revlogs`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Node([u8; 20]);

impl Node {
    /// Null node, the parent of revisions without one.
    pub const NULL: Self = Self([0; 20]);

    /// Node of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Parses the 40 hexadecimal digits of a node, of either case.
    #[must_use]
    pub fn from_hex(digits: &[u8]) -> Option<Self> {
        let digits: &[u8; 40] = digits.try_into().ok()?;
        let mut bytes = [0; 20];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
            *byte = u8::try_from(high? << 4 | low?).ok()?;
        }
        Some(Self(bytes))
    }

    /// Bytes of the node.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// Integers in the order of the bytes, which a processor compares at once.
    fn order(&self) -> (u64, u64, u32) {
        let (words, rest) = self.0.as_chunks();
        let [first, second] = [words[0], words[1]].map(u64::from_be_bytes);
        (first, second, rest.first_chunk().map_or(0, |rest| u32::from_be_bytes(*rest)))
    }
}

impl Ord for Node {
    /// Order of the bytes. The derived one calls `memcmp`, and sorting takes twice as long.
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// The 40 bytes hashed before a text: both parents, the smaller first.
#[must_use]
pub fn parents_prefix(p1: Node, p2: Node) -> [u8; 40] {
    let (low, high) = if p1 <= p2 { (p1, p2) } else { (p2, p1) };
    let mut prefix = [0; 40];
    prefix[..20].copy_from_slice(low.as_bytes());
    prefix[20..].copy_from_slice(high.as_bytes());
    prefix
}

/// Node of `text` with these parents.
#[must_use]
pub fn node_of(p1: Node, p2: Node, text: &[u8]) -> Node {
    let head = parents_prefix(p1, p2);
    Node(sha1lanes::digest_one(Message { head: &head, body: text }))
}

/// Node of the text in `pieces`, with these parents.
#[must_use]
pub fn node_of_pieces(p1: Node, p2: Node, pieces: &[&[u8]]) -> Node {
    let head = parents_prefix(p1, p2);
    let mut digests = [[0; 20]];
    portable().digest_pieced(&[Pieced { head: &head, pieces }], &mut digests);
    Node(digests[0])
}

/// Nodes of texts in pieces, with their parents. Several cost little more than one.
#[must_use]
pub fn nodes_of_pieces<'a, P: AsRef<[&'a [u8]]>>(
    texts: impl Iterator<Item = ([Node; 2], P)>,
) -> Vec<Node> {
    let texts: Vec<_> = texts.map(|([p1, p2], text)| (parents_prefix(p1, p2), text)).collect();
    let messages = texts.iter().map(|(head, text)| Pieced { head, pieces: text.as_ref() });
    let messages: Vec<Pieced<'_>> = messages.collect();
    let mut digests = vec![[0; 20]; messages.len()];
    best().digest_pieced(&messages, &mut digests);
    digests.into_iter().map(Node).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nodes_are_ordered_as_their_bytes(a: [u8; 20], b: [u8; 20], same in 0..=20_usize) {
            let mut other = b;
            other[..same].copy_from_slice(&a[..same]);
            prop_assert_eq!(Node(a).cmp(&Node(other)), a.cmp(&other));
        }
    }

    #[test]
    fn hex_is_read_and_written() {
        let node = Node::from_hex(b"7cf5203a514b008b1e2996986ea9627b44d287c1").expect("40 digits");
        assert_eq!(node.to_string(), "7cf5203a514b008b1e2996986ea9627b44d287c1");
        assert_eq!(Node::from_hex(b"7cf5"), None);
        assert_eq!(Node::from_hex(&[b'g'; 40]), None);
    }

    #[test]
    fn the_empty_file_has_its_well_known_node() {
        let node = node_of(Node::NULL, Node::NULL, b"");
        assert_eq!(node.to_string(), "b80de5d138758541c5f05265ad144ab9fa86d1db");
    }
}
