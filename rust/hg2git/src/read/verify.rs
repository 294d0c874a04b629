//! Verification of texts by their nodes, several at a time.
//!
//! Callers: `objects/blobs` for files, `read/manifests/proof` for manifests, `read/changelog` for
//! changesets.

use revlog::node::{nodes_of_pieces, parents_prefix};
use revlog::{Node, Parents, Rev, Revlog};
use sha1lanes::{Lanes, Message};

use crate::error::{Error, Result};

/// A comparison of texts with their nodes.
pub(crate) struct Check<'a> {
    revlog: &'a Revlog,
    lanes: &'static dyn Lanes,
}

impl<'a> Check<'a> {
    pub fn new(revlog: &'a Revlog) -> Self {
        Self { revlog, lanes: sha1lanes::best() }
    }

    /// Compares each text with the node of its revision.
    ///
    /// # Errors
    ///
    /// [`revlog::Error::Corrupt`] with the first revision whose text does not match its node.
    pub fn texts(&self, revisions: &[(Rev, &[u8])]) -> Result<()> {
        self.first_wrong(revisions).map_or(Ok(()), |rev| Err(self.mismatch(rev)))
    }

    /// The first revision whose text does not match its node.
    pub fn first_wrong(&self, revisions: &[(Rev, &[u8])]) -> Option<Rev> {
        let heads: Vec<_> = revisions.iter().map(|(rev, _)| self.head(*rev)).collect();
        let messages = heads.iter().zip(revisions);
        let messages: Vec<_> = messages.map(|(head, (_, body))| Message { head, body }).collect();
        let mut digests = vec![[0; 20]; messages.len()];
        self.lanes.digest(&messages, &mut digests);
        let mut all = revisions.iter().zip(digests);
        all.find(|((rev, _), digest)| !self.is_node(*rev, *digest)).map(|((rev, _), _)| *rev)
    }

    /// As [`Self::first_wrong`], for texts in pieces.
    pub fn first_wrong_pieced(&self, revisions: &[(Rev, Vec<&[u8]>)]) -> Option<Rev> {
        let nodes = nodes_of_pieces(revisions.iter().map(|(rev, text)| (self.parents(*rev), text)));
        let mut all = revisions.iter().map(|(rev, _)| *rev).zip(nodes);
        all.find(|(rev, node)| *node != self.revlog.index().node(*rev)).map(|(rev, _)| rev)
    }

    /// The bytes hashed before the text of `rev`: its sorted parents.
    pub fn head(&self, rev: Rev) -> [u8; 40] {
        let [p1, p2] = self.parents(rev);
        parents_prefix(p1, p2)
    }

    fn parents(&self, rev: Rev) -> [Node; 2] {
        let index = self.revlog.index();
        let Parents(p1, p2) = index.parents(rev);
        [index.node_or_null(p1), index.node_or_null(p2)]
    }

    /// Compares the digest of a text with the node of `rev`.
    pub fn digest(&self, rev: Rev, digest: [u8; 20]) -> Result<()> {
        if self.is_node(rev, digest) { Ok(()) } else { Err(self.mismatch(rev)) }
    }

    /// The error for a text that does not match the node of `rev`.
    pub fn mismatch(&self, rev: Rev) -> Error {
        let node = self.revlog.index().node(rev).to_string();
        let what = format_args!("text does not match its node {}", &node[..12]);
        self.revlog.corrupt(rev, what).into()
    }

    fn is_node(&self, rev: Rev, digest: [u8; 20]) -> bool {
        Node::from_bytes(digest) == self.revlog.index().node(rev)
    }
}
