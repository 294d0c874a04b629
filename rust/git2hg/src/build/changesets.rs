//! New changesets: texts, nodes and chunks for the changegroup.
//!
//! A text begins with the node of its manifest, which is computed last (`manifestnodes`). Until
//! then a changeset has a number, and its text the null node.

use std::collections::VecDeque;
use std::io::Write;

use changegroup::{GroupVersion, RevisionChunk, hunk_head};
use hashbrown::HashMap;
use parallel::{Directory, hex::hex};
use revlog::{Node, node::node_of};
use sha1lanes::{Digest, Message, digest_one};

use crate::build::manifests::{Number, PushedManifests};
use crate::build::spool::Spool;
use crate::error::{Error, Result};

/// Length of the node that a text begins with.
const NODE_LEN: usize = 40;

/// A changeset: its node in the store, or its number among the new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChangesetId {
    Stored(Node),
    New(u32),
}

/// Changeset with the null node in the place of its manifest.
#[derive(Debug)]
pub(crate) struct NewChangeset {
    pub text: Vec<u8>,
    pub parents: [Option<ChangesetId>; 2],
    pub manifest: Number,
}

/// All new changesets.
#[derive(Debug)]
pub(crate) struct NewChangesets {
    version: GroupVersion,
    spool: Spool,
    /// Of the changesets up to the first that waits.
    nodes: Vec<Node>,
    waiting: VecDeque<NewChangeset>,
    /// Numbers of those that others may be equal to.
    numbers: HashMap<Digest, u32>,
}

impl NewChangesets {
    /// Starts with none.
    ///
    /// # Errors
    ///
    /// [`Error::Scratch`].
    pub fn new(version: GroupVersion, dir: &Directory) -> Result<Self> {
        let spool = Spool::new(dir, "changesets")?;
        let (nodes, waiting, numbers) = (Vec::new(), VecDeque::new(), HashMap::new());
        Ok(Self { version, spool, nodes, waiting, numbers })
    }

    /// Number of the next one.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`].
    pub fn next_number(&self) -> Result<u32> {
        u32::try_from(self.nodes.len() + self.waiting.len()).map_err(|_| Error::TooMany)
    }

    /// Adds a changeset, and returns its number.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`].
    pub fn add(&mut self, new: NewChangeset) -> Result<u32> {
        let number = self.next_number()?;
        self.waiting.push_back(new);
        Ok(number)
    }

    /// Adds a changeset, unless one that was added here has the same node. Returns its number, and
    /// whether it is new.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`].
    pub fn add_once(&mut self, new: NewChangeset) -> Result<(u32, bool)> {
        let digest = new.digest();
        if let Some(number) = self.numbers.get(&digest) {
            return Ok((*number, false));
        }
        let number = self.add(new)?;
        self.numbers.insert(digest, number);
        Ok((number, true))
    }

    /// Writes the changesets whose manifests have nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Scratch`].
    pub fn write_known(&mut self, manifests: &PushedManifests<'_>) -> Result<()> {
        while let Some(first) = self.waiting.front()
            && let Some(manifest) = manifests.known_node(first.manifest)
        {
            self.write_first(manifest)?;
        }
        Ok(())
    }

    /// Writes all changesets.
    ///
    /// # Errors
    ///
    /// [`Error::Scratch`].
    pub fn write_all(&mut self, manifests: &PushedManifests<'_>) -> Result<()> {
        while let Some(first) = self.waiting.front() {
            self.write_first(manifests.node(first.manifest)?)?;
        }
        Ok(())
    }

    fn write_first(&mut self, manifest: Node) -> Result<()> {
        let Some(NewChangeset { mut text, parents, .. }) = self.waiting.pop_front() else {
            return Ok(());
        };
        let head = text.get_mut(..NODE_LEN);
        let head = head.ok_or_else(|| Error::Wrong("a changeset has no manifest".to_owned()))?;
        head.copy_from_slice(&hex(manifest.as_bytes()));
        let [p1, p2] = parents.map(|parent| parent.map_or(Node::NULL, |parent| self.node(parent)));
        let (node, parents) = (node_of(p1, p2, &text), [p1, p2]);
        let chunk = RevisionChunk { node, parents, base: Node::NULL, link: node, flags: 0 };
        let mut bytes = Vec::with_capacity(text.len() + 200);
        chunk.push_head(self.version, text.len() + 12, &mut bytes)?;
        hunk_head(0, 0, text.len(), &mut bytes);
        bytes.extend_from_slice(&text);
        self.spool.push(&bytes)?;
        self.nodes.push(node);
        Ok(())
    }

    /// Node of a changeset that was written.
    pub fn node(&self, changeset: ChangesetId) -> Node {
        match changeset {
            ChangesetId::Stored(node) => node,
            ChangesetId::New(number) => self.nodes[number as usize],
        }
    }

    /// Copies the chunks of all that were written to `out`, and returns their nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Scratch`] and [`Error::Output`].
    pub fn copy(mut self, out: &mut impl Write) -> Result<Vec<Node>> {
        let len = self.spool.len();
        self.spool.copy(0, len, out)?;
        Ok(self.nodes)
    }
}

impl NewChangeset {
    /// Digest of the parts of the node: equal for equal nodes, and only for these.
    fn digest(&self) -> Digest {
        let mut parents = self.parents;
        parents.sort_unstable();
        let mut head = Vec::with_capacity(50);
        for parent in parents {
            match parent {
                None => head.push(0),
                Some(ChangesetId::Stored(node)) => {
                    head.push(1);
                    head.extend_from_slice(node.as_bytes());
                }
                Some(ChangesetId::New(number)) => {
                    head.push(2);
                    head.extend_from_slice(&number.to_be_bytes());
                }
            }
        }
        head.push(u8::from(self.manifest.is_some()));
        head.extend_from_slice(&self.manifest.unwrap_or_default().to_be_bytes());
        digest_one(Message { head: &head, body: &self.text })
    }
}
