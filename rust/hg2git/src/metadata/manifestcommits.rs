//! git-cinnabar's side of a manifest: a tree in its form, and a commit.
//!
//! Such a commit has the root tree, parents, and the node as message. Only the ids differ between
//! these commits, so each is stored as a delta of the one before. Needs no blob, tree or commit of
//! git's side.

use gitpack::Oid;
use gitpack::delta::{Op, encode};
use parallel::hex::hex;
use revlog::{Node, Parents, Rev};

use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::map::segment::Table;
use crate::metadata::commit::{IDENTS, commit};
use crate::objects::directory::oid_of;
use crate::objects::history::{Batch, Sources};
use crate::objects::object::Object;
use crate::objects::trees::{FileIds, Lead, MAX_DEPTH, Purpose, Refused, TreeForm, TreeWriter};
use crate::read::files::FileTable;
use crate::read::names::Names;

/// The form of manifest trees: names begin with `_`, and the id of a file is its node.
pub(crate) static MANIFEST_TREES: TreeForm = TreeForm {
    purpose: Purpose::Aside,
    file_ids: FileIds::Nodes,
    prefix_len: 1,
    leads: [
        Lead::new(b"40000 _"),
        Lead::new(b"160644 _"),
        Lead::new(b"160755 _"),
        Lead::new(b"160000 _"),
    ],
};
/// Digits of an id.
const DIGITS: usize = 40;
/// The bytes before the tree's digits, and before each parent's digits.
const TREE: &[u8] = b"tree ";
const PARENT: &[u8] = b"\nparent ";

/// Maker of trees and commits of batches, in order.
pub(crate) struct ManifestCommits<'a> {
    sources: &'a Sources<'a>,
    /// The map of the metadata of earlier runs.
    metadata_map: &'a OidMap,
    writer: TreeWriter<'a>,
    chain: Chain,
    /// Commits of the plan's manifests so far, in its order.
    commits: Vec<Oid>,
}

impl<'a> ManifestCommits<'a> {
    /// A maker for `sources`, before the first batch.
    pub fn new(
        sources: &'a Sources<'a>,
        metadata_map: &'a OidMap,
        names: &'a Names,
        files: &'a FileTable,
    ) -> Self {
        let writer = TreeWriter::new(&MANIFEST_TREES, names, files, sources.collisions);
        Self { sources, metadata_map, writer, chain: Chain::default(), commits: Vec::new() }
    }

    /// The commits of the plan's manifests, in its order.
    pub fn into_commits(self) -> Vec<Oid> {
        self.commits
    }

    /// The objects of the next batch.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] if a tree carries a collision attack.
    pub fn convert(&mut self, batch: &Batch) -> Result<Vec<Object>> {
        let written = self.writer.write(&batch.made);
        let mut objects = written.map_err(|(made, refused)| match refused {
            Refused::Unconverted(_) => unreachable!("each file has its node"),
            Refused::Attack(attack) => {
                let rev = self.sources.plan.revs[batch.position_of(made)];
                self.sources.manifest.corrupt(rev, attack)
            }
        })?;
        objects.reserve(batch.manifests.len());
        for made in &batch.manifests {
            objects.push(self.commit(oid_of(made.root.as_ref(), Purpose::Aside)));
        }
        Ok(objects)
    }

    /// The commit of the next manifest, with this `tree`.
    ///
    /// Leaves out a parent that was never converted, since no converted changeset has it.
    fn commit(&mut self, tree: Oid) -> Object {
        let index = self.sources.manifest.index();
        let rev = self.sources.plan.revs[self.commits.len()];
        let Parents(p1, p2) = index.parents(rev);
        let commit_of = |parent: Rev| match self.sources.plan.position(parent) {
            Some(position) => self.commits.get(position).copied(),
            None => self.metadata_map.oid(Table::Manifests, &index.node(parent)),
        };
        let parents: Vec<Oid> = [p1, p2].into_iter().flatten().filter_map(commit_of).collect();
        let object = self.chain.next(tree, &parents, index.node(rev));
        self.commits.push(object.oid);
        object
    }
}

/// Maker of commits, each as a delta of the one before.
#[derive(Debug, Default)]
struct Chain {
    last: Option<Last>,
}

/// The commit before.
#[derive(Clone, Copy, Debug)]
struct Last {
    oid: Oid,
    parents: usize,
    depth: u8,
}

impl Chain {
    /// The commit of a manifest, with this `tree`. Equal parents stay two.
    fn next(&mut self, tree: Oid, parents: &[Oid], node: Node) -> Object {
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

/// Bytes of the lines of tree and parents, without the last line feed.
const fn lines_len(parents: usize) -> usize {
    TREE.len() + DIGITS + parents * (PARENT.len() + DIGITS)
}

/// The delta between two commits, from one with `parents_before` parents to `content`, which has
/// `parents` parents.
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
        let made = Chain::default().next(tree, &[], node.expect("40 digits"));
        assert_eq!(made.oid.to_string(), "1514efa9847f040422dea9341d804a646b59da30");
        assert_eq!(made.base, None);
    }

    #[test]
    fn deltas_make_the_commits_whatever_their_parents() {
        let ids: Vec<Oid> = (0..100).map(|byte| Oid::from_bytes([byte; 20])).collect();
        let mut commits = Chain::default();
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
                    apply(before, &made.payload, 1 << 20).expect("fits")
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
