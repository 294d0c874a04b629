//! Texts against their nodes, several at a time.

use revlog::node::parents_prefix;
use revlog::{Node, Parents, Rev, Revlog};
use sha1lanes::{Lanes, Message};

use crate::error::Result;

/// What the texts of some revisions hash to, beside the nodes that they should have.
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
    /// [`revlog::Error::Corrupt`] that names the first revision whose text is not its own.
    pub fn texts(&self, revisions: &[(Rev, &[u8])]) -> Result<()> {
        let heads: Vec<_> = revisions.iter().map(|(rev, _)| self.head(*rev)).collect();
        let messages = heads.iter().zip(revisions);
        let messages: Vec<_> = messages.map(|(head, (_, body))| Message { head, body }).collect();
        let mut digests = vec![[0; 20]; messages.len()];
        self.lanes.digest(&messages, &mut digests);
        for ((rev, _), digest) in revisions.iter().zip(digests) {
            self.digest(*rev, digest)?;
        }
        Ok(())
    }

    /// The bytes that are hashed before the text of `rev`.
    pub fn head(&self, rev: Rev) -> [u8; 40] {
        let index = self.revlog.index();
        let Parents(p1, p2) = index.parents(rev);
        parents_prefix(index.node_or_null(p1), index.node_or_null(p2))
    }

    /// Compares what a text of `rev` hashed to with the node of `rev`.
    pub fn digest(&self, rev: Rev, digest: [u8; 20]) -> Result<()> {
        let node = self.revlog.index().node(rev);
        if Node::from_bytes(digest) == node {
            Ok(())
        } else {
            let short = &node.to_string()[..12];
            Err(self
                .revlog
                .corrupt(rev, format_args!("text does not match its node {short}"))
                .into())
        }
    }
}
