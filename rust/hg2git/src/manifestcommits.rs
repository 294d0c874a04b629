//! The commits of manifests: a tree that tells the files, parents, and the node as message.
//!
//! All but their ids is the same in all of them, so each is stored as a delta of the one before.

use gitpack::Oid;
use gitpack::delta::{Op, encode};
use revlog::Node;

use crate::hex::hex;
use crate::metadata::{IDENTS, commit};
use crate::object::Object;
use crate::trees::MAX_DEPTH;

/// Digits of an id.
const DIGITS: usize = 40;
/// What is before the tree's digits, and before those of each parent.
const TREE: &[u8] = b"tree ";
const PARENT: &[u8] = b"\nparent ";

/// Makes them, in order.
#[derive(Debug, Default)]
pub(crate) struct ManifestCommits {
    last: Option<Last>,
}

/// The commit before.
#[derive(Clone, Copy, Debug)]
struct Last {
    oid: Oid,
    parents: usize,
    depth: u8,
}

impl ManifestCommits {
    /// The commit of a manifest, of which `tree` tells the files; parents as the manifest has them,
    /// even if they are the same.
    pub fn next(&mut self, tree: Oid, parents: &[Oid], node: Node) -> Object {
        let mut object = commit(tree, parents, &hex(node.as_bytes()));
        let base = self.last.filter(|last| last.depth < MAX_DEPTH && last.oid != object.oid);
        if let Some(base) = base {
            object.base = Some(base.oid);
            object.payload = delta(base.parents, parents.len(), &object.payload);
        }
        let depth = base.map_or(0, |base| base.depth + 1);
        self.last = Some(Last { oid: object.oid, parents: parents.len(), depth });
        object
    }
}

/// Bytes before the line feed that ends the lines of tree and parents.
const fn lines_len(parents: usize) -> usize {
    TREE.len() + DIGITS + parents * (PARENT.len() + DIGITS)
}

/// The delta that makes `content`, which has so many parents, of a commit with others.
fn delta(parents_before: usize, parents: usize, content: &[u8]) -> Vec<u8> {
    let rest_len = 1 + IDENTS.len();
    let len = lines_len(parents_before) + rest_len + DIGITS;
    let copy = |offset: usize, len: usize| Op::Copy { offset: offset as u64, len: len as u64 };
    let insert = |start: usize, len: usize| Op::Insert(&content[start..start + len]);
    let mut ops = vec![copy(0, TREE.len()), insert(TREE.len(), DIGITS)];
    for parent in 0..parents {
        let start = lines_len(parent);
        if parents_before > 0 {
            ops.push(copy(lines_len(0), PARENT.len()));
        } else {
            ops.push(insert(start, PARENT.len()));
        }
        ops.push(insert(start + PARENT.len(), DIGITS));
    }
    ops.push(copy(lines_len(parents_before), rest_len));
    ops.push(insert(lines_len(parents) + rest_len, DIGITS));
    let mut delta = Vec::with_capacity(content.len());
    let encoded = encode(len as u64, content.len() as u64, ops, &mut delta);
    encoded.expect("both are made of the same parts");
    delta
}

#[cfg(test)]
mod tests {
    use gitpack::delta::apply;

    use super::*;

    fn oid(hex: &[u8]) -> Oid {
        Oid::from_bytes(*Node::from_hex(hex).expect("40 digits").as_bytes())
    }

    #[test]
    fn the_first_manifest_of_the_tiny_vector() {
        let tree = oid(b"e6e9e2898826541c80226524aa19471490a36be7");
        let node = Node::from_hex(b"b371960ec604e7eed7420846f7b1171091f92cab");
        let made = ManifestCommits::default().next(tree, &[], node.expect("40 digits"));
        assert_eq!(made.oid.to_string(), "1514efa9847f040422dea9341d804a646b59da30");
        assert_eq!(made.base, None);
    }

    #[test]
    fn deltas_make_the_commits_whatever_their_parents() {
        let ids: Vec<Oid> = (0..100).map(|byte| Oid::from_bytes([byte; 20])).collect();
        let mut commits = ManifestCommits::default();
        let mut before: Option<(Oid, Vec<u8>)> = None;
        let (mut full, mut chain) = (0, 0);
        for (at, count) in [0, 1, 2, 0, 2, 1, 1, 0, 0].into_iter().cycle().take(90).enumerate() {
            let node = Node::from_bytes(*ids[at].as_bytes());
            let parents = &ids[at..at + count];
            let content = commit(ids[at], parents, &hex(node.as_bytes()));
            let made = commits.next(ids[at], parents, node);
            assert_eq!(made.oid, content.oid);
            let made = match (made.base, &before) {
                (Some(base), Some((oid, before))) if base == *oid => {
                    chain += 1;
                    apply(before, &made.payload).expect("fits")
                }
                _ => {
                    (full, chain) = (full + 1, 0);
                    made.payload
                }
            };
            assert!(chain <= MAX_DEPTH);
            assert_eq!(made, content.payload);
            before = Some((content.oid, made));
        }
        assert_eq!(full, 2);
    }
}
