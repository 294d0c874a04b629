//! The blobs of file revisions: those of a changegroup, and those that are in the store.

use gitpack::{ObjectKind, Oid, object_header};
use hashbrown::HashMap;
use revlog::{Node, Parents, RevlogKind, Scratch, Store, Texts, node, split_metadata};
use sha1lanes::{Message, digest_one};

use crate::check::chunks::ChunkTexts;
use crate::check::{Checked, fault};
use crate::error::Result;

/// Blobs by path and node of file revisions.
#[derive(Debug)]
pub(crate) struct FileContents<'a> {
    store: &'a Store,
    scratch: Scratch,
    blobs: HashMap<Box<[u8]>, HashMap<Node, Oid>>,
}

impl<'a> FileContents<'a> {
    /// None yet.
    pub fn new(store: &'a Store, pool_bytes: usize) -> Self {
        let scratch = Scratch::new(pool_bytes);
        Self { store, scratch, blobs: HashMap::new() }
    }

    /// Adds those of a file. `tick` is called for each.
    pub fn add(
        &mut self,
        path: &[u8],
        texts: &mut ChunkTexts<'_>,
        mut tick: impl FnMut() -> Result<()>,
    ) -> Checked<()> {
        if texts.len() == 0 {
            return Err(fault(format!("no revisions of {}", path.escape_ascii())));
        }
        let mut blobs = HashMap::with_capacity(texts.len());
        let nodes: Vec<Node> = texts.nodes().collect();
        for (number, node) in nodes.into_iter().enumerate() {
            let (_, text) = texts.get(number)?;
            blobs.insert(node, blob_of(&text));
            tick()?;
        }
        match self.blobs.insert(path.into(), blobs) {
            None => Ok(()),
            Some(_) => Err(fault(format!("two groups of {}", path.escape_ascii()))),
        }
    }

    /// The blob of a revision of `path`.
    pub fn blob(&mut self, path: &[u8], node: Node) -> Checked<Oid> {
        if let Some(oid) = self.blobs.get(path).and_then(|blobs| blobs.get(&node)) {
            return Ok(*oid);
        }
        let revlog = self.store.open(RevlogKind::Filelog(path))?;
        let index = revlog.index();
        let found = index.revs().rev().find(|rev| index.node(*rev) == node);
        let rev = found.ok_or_else(|| {
            fault(format!("there is no revision {node} of {}", path.escape_ascii()))
        })?;
        let text = Texts::new(&revlog, &mut self.scratch, 0).get(rev)?.text;
        let Parents(p1, p2) = index.parents(rev);
        if node::node_of(index.node_or_null(p1), index.node_or_null(p2), &text) != node {
            let what = "its text does not match its node";
            return Err(revlog.unsupported(rev, what).into());
        }
        let oid = blob_of(&text);
        self.blobs.entry(path.into()).or_default().insert(node, oid);
        self.scratch.recycle(text);
        Ok(oid)
    }
}

/// The blob that an export makes of a text.
fn blob_of(text: &[u8]) -> Oid {
    let content = split_metadata(text).content;
    let head = object_header(ObjectKind::Blob, content.len() as u64);
    Oid::from_bytes(digest_one(Message { head: &head, body: content }))
}
