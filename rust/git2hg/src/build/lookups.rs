//! Entries of manifests that were looked up: merges of long-lived branches ask for the same ones again.

use hashbrown::HashMap;
use revlog::Node;

/// What an entry takes beside its path, about.
const OVERHEAD_BYTES: usize = 100;

/// Nodes by the number of a manifest and by path, of so many bytes together.
#[derive(Debug)]
pub(crate) struct ManifestLookups {
    known: HashMap<u32, HashMap<Box<[u8]>, Node>>,
    bytes: usize,
    most_bytes: usize,
}

impl ManifestLookups {
    /// None yet.
    pub fn new(most_bytes: usize) -> Self {
        Self { known: HashMap::new(), bytes: 0, most_bytes }
    }

    /// What a manifest has at a path, if that was looked up; null is nothing.
    pub fn get(&self, number: u32, path: &[u8]) -> Option<Node> {
        self.known.get(&number)?.get(path).copied()
    }

    /// Notes what a manifest has at a path. If there is no room, all others are forgotten.
    pub fn put(&mut self, number: u32, path: &[u8], node: Node) {
        let bytes = path.len() + OVERHEAD_BYTES;
        if self.bytes + bytes > self.most_bytes {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.known.entry(number).or_default().insert(path.into(), node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fills_the_room_is_forgotten_together() {
        let node = |byte| Node::from_bytes([byte; 20]);
        let mut lookups = ManifestLookups::new(3 * (OVERHEAD_BYTES + 1));
        assert_eq!(lookups.get(1, b"a"), None);
        lookups.put(1, b"a", node(1));
        lookups.put(2, b"a", Node::NULL);
        lookups.put(2, b"b", node(2));
        assert_eq!(lookups.get(1, b"a"), Some(node(1)));
        assert_eq!(lookups.get(2, b"a"), Some(Node::NULL));
        assert_eq!(lookups.get(2, b"b"), Some(node(2)));
        lookups.put(3, b"a", node(3));
        assert_eq!(lookups.get(2, b"b"), None);
        assert_eq!(lookups.get(3, b"a"), Some(node(3)));
    }
}
