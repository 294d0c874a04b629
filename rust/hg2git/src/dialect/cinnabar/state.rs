//! What the next run has to know of the metadata of the last: heads, and the notes trees' upper
//! directories.
//!
//! Format (docs/formats/map.rst), integers big-endian:
//!
//! ```text
//! header     8 bytes "AMALGMET", u32 version 1, u32 zero
//! commit     20 bytes, the metadata commit
//! changesets u32 number of heads, ascending by revision; each: u32 revision, 20 bytes node,
//!            u32 length of the branch, branch
//! manifests  u32 number of heads, ascending; each: 20 bytes oid of its commit
//! notes      three times, of hg2git, git2hg and files-meta: u32 length, that of `super::notes`
//! trailer    20 bytes SHA-1 of all before
//! ```
//!
//! A state is written whole and renamed into place, and never changed.

use std::io::{Read, Write};

use gitpack::staged::Whole;
use gitpack::tree::Mode;
use gitpack::{Oid, Readers};
use revlog::{Node, Revlog};
use sha1lanes::{Message, digest_one};
use workshop::Directory;

use crate::dialect::cinnabar::heads::{ChangesetHeads, ManifestHeads};
use crate::dialect::cinnabar::notes;
use crate::error::{Error, Result};
use crate::map::segment::{UNFINISHED, io_or_map};

const MAGIC: &[u8] = b"AMALGMET";
const VERSION: u32 = 1;

/// Bytes of a state, at most: that of some ten million heads.
const MOST_BYTES: u64 = 0x4000_0000;

/// Modes of the leaves of hg2git, git2hg and files-meta.
pub(crate) const LEAVES: [Mode; 3] = [Mode::GITLINK, Mode::FILE, Mode::FILE];

/// A head of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BranchHead {
    /// Its number when the state was written.
    pub rev: u32,
    pub node: Node,
    pub branch: Vec<u8>,
}

/// The state after a run; that of nothing exported has no entries anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetadataState {
    /// The metadata commit.
    pub commit: Oid,
    /// Ascending by revision.
    pub heads: Vec<BranchHead>,
    pub manifest_heads: ManifestHeads,
    /// hg2git, git2hg and files-meta.
    pub notes: [notes::NotesTree; 3],
}

impl Default for MetadataState {
    fn default() -> Self {
        Self {
            commit: Oid::from_bytes([0; 20]),
            heads: Vec::new(),
            manifest_heads: ManifestHeads::default(),
            notes: LEAVES.map(notes::NotesTree::empty),
        }
    }
}

impl MetadataState {
    /// Reads the state in the file `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be read, [`Error::Map`] if it is damaged or something else.
    pub fn open(directory: &Directory, name: &str) -> Result<Self> {
        let path = directory.join(name);
        let failed = |source| io_or_map(&path, source);
        let damaged = |what: &str| Error::Map { path: path.clone(), what: what.to_owned() };
        let file = directory.read(name).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() > MOST_BYTES {
            return Err(damaged("it is too large"));
        }
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        Self::from_bytes(&bytes).map_err(damaged)
    }

    /// Writes the state into `directory`. Its file name is to be
    /// `PREFIX-<16 digits of the checksum>.state`.
    ///
    /// # Errors
    ///
    /// [`Error::Write`] if it cannot be written.
    pub fn create(&self, directory: &Directory, readers: Readers, prefix: &str) -> Result<Whole> {
        let bytes = self.to_bytes();
        let sum = Oid::from_bytes(*bytes.last_chunk().expect("it ends with its checksum"));
        let name = format!("{prefix}-{}.state", &sum.to_string()[..16]);
        let whole = Whole::create(directory, UNFINISHED, readers, |out| {
            out.write_all(&bytes)?;
            Ok(name)
        })?;
        Ok(whole)
    }

    /// The heads of branches, by their revision numbers now; `None` if the changelog has lost one.
    pub fn changeset_heads(&self, changelog: &Revlog) -> Option<ChangesetHeads> {
        let index = changelog.index();
        let is_at =
            |head: &&BranchHead| index.rev(head.rev).map(|rev| index.node(rev)) == Some(head.node);
        // a strip may have moved them
        let (stayed, moved): (Vec<&BranchHead>, Vec<&BranchHead>) =
            self.heads.iter().partition(is_at);
        let nodes: Vec<Node> = moved.iter().map(|head| head.node).collect();
        let revs = changelog.find(&nodes).ok()?;
        let mut heads = ChangesetHeads::default();
        for head in stayed {
            heads.add(head.rev, [], &head.branch);
        }
        for (head, rev) in moved.into_iter().zip(revs) {
            heads.add(rev.number(), [], &head.branch);
        }
        Some(heads)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(self.commit.as_bytes());
        push_len(&mut bytes, self.heads.len());
        for BranchHead { rev, node, branch } in &self.heads {
            bytes.extend_from_slice(&rev.to_be_bytes());
            bytes.extend_from_slice(node.as_bytes());
            push_len(&mut bytes, branch.len());
            bytes.extend_from_slice(branch);
        }
        push_len(&mut bytes, self.manifest_heads.0.len());
        for oid in &self.manifest_heads.0 {
            bytes.extend_from_slice(oid.as_bytes());
        }
        for tree in &self.notes {
            let tree = tree.to_bytes();
            push_len(&mut bytes, tree.len());
            bytes.extend_from_slice(&tree);
        }
        let sum = digest_one(Message { head: &[], body: &bytes });
        bytes.extend_from_slice(&sum);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, &'static str> {
        let (body, sum) = bytes.split_last_chunk::<20>().ok_or("it is cut")?;
        let rest = body.strip_prefix(MAGIC).ok_or("it is no state of metadata")?;
        if digest_one(Message { head: &[], body }) != *sum {
            return Err("its checksum is not that of its content");
        }
        let mut rest = Rest(rest);
        if rest.number()? != VERSION {
            return Err("its version is not known");
        }
        rest.number()?;
        let mut state = Self { commit: Oid::from_bytes(rest.id()?), ..Self::default() };
        for _ in 0..rest.number()? {
            let (rev, node) = (rest.number()?, Node::from_bytes(rest.id()?));
            state.heads.push(BranchHead { rev, node, branch: rest.bytes()?.to_vec() });
        }
        for _ in 0..rest.number()? {
            state.manifest_heads.0.insert(Oid::from_bytes(rest.id()?));
        }
        for (tree, leaf) in state.notes.iter_mut().zip(LEAVES) {
            *tree = notes::NotesTree::from_bytes(rest.bytes()?, leaf)?;
        }
        if rest.0.is_empty() { Ok(state) } else { Err("it goes on after its end") }
    }
}

fn push_len(bytes: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("a state is shorter than 4 GB");
    bytes.extend_from_slice(&len.to_be_bytes());
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or("it is cut")?;
        self.0 = rest;
        Ok(*chunk)
    }

    fn number(&mut self) -> Result<u32, &'static str> {
        self.chunk().map(u32::from_be_bytes)
    }

    fn id(&mut self) -> Result<[u8; 20], &'static str> {
        self.chunk()
    }

    fn bytes(&mut self) -> Result<&'a [u8], &'static str> {
        let len = self.number()? as usize;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or("it is cut")?;
        self.0 = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> MetadataState {
        let oid = |byte| Oid::from_bytes([byte; 20]);
        MetadataState {
            commit: oid(1),
            heads: vec![
                BranchHead { rev: 3, node: Node::from_bytes([3; 20]), branch: b"a b".to_vec() },
                BranchHead { rev: 9, node: Node::from_bytes([2; 20]), branch: Vec::new() },
            ],
            manifest_heads: ManifestHeads([oid(7), oid(8)].into()),
            ..MetadataState::default()
        }
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for state in [MetadataState::default(), state()] {
            assert_eq!(MetadataState::from_bytes(&state.to_bytes()), Ok(state));
        }
    }

    #[test]
    fn damage_anywhere_is_noticed() {
        let bytes = state().to_bytes();
        for at in 0..bytes.len() {
            assert!(MetadataState::from_bytes(&bytes[..at]).is_err());
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(MetadataState::from_bytes(&changed).is_err());
        }
    }

    #[test]
    fn a_cut_state_with_the_right_checksum_is_refused() {
        let bytes = state().to_bytes();
        for at in MAGIC.len()..bytes.len() - 20 {
            let mut cut = bytes[..at].to_vec();
            let sum = digest_one(Message { head: &[], body: &cut });
            cut.extend_from_slice(&sum);
            assert!(MetadataState::from_bytes(&cut).is_err());
        }
    }
}
