//! File revisions of the store: contents and parents, read on demand.

use std::sync::Arc;

use gitpack::{ObjectKind, Oid, object_header};
use hashbrown::HashSet;
use parallel::Buffer;
use revlog::{Node, Parents, Rev, Revlog, RevlogKind, Scratch, Store, Texts, split_metadata};
use sha1lanes::{Message, digest_one};

use crate::build::files::{FileRevisions, RevisionContent};
use crate::error::Result;

/// Bytes of buffers for texts.
const SPARE_BYTES: usize = 1 << 16;

/// Reader of filelogs. One is open at a time, since paths come in order.
#[derive(Debug)]
pub(crate) struct StoredFilelogs<'a> {
    store: &'a Store,
    open: Option<(Box<[u8]>, Revlog)>,
    scratch: Scratch,
}

impl<'a> StoredFilelogs<'a> {
    /// Opens no filelog yet.
    pub fn new(store: &'a Store) -> Self {
        Self { store, open: None, scratch: Scratch::new(SPARE_BYTES) }
    }

    fn revlog(&mut self, path: &[u8]) -> Result<&Revlog> {
        if self.open.as_ref().is_none_or(|(other, _)| **other != *path) {
            self.open = None;
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => (path.into(), self.store.open(RevlogKind::Filelog(path))?),
        };
        Ok(&self.open.insert(open).1)
    }

    /// Text of a revision.
    fn text(&mut self, path: &[u8], node: Node) -> Result<Arc<Buffer>> {
        let rev = self.revlog(path)?.find(&[node])?;
        let Some((_, revlog)) = &self.open else { return Ok(Arc::default()) };
        let mut text = Arc::default();
        for rev in rev {
            text = Texts::new(revlog, &mut self.scratch, SPARE_BYTES).get(rev)?.text;
        }
        Ok(text)
    }
}

/// All file revisions: those of the store, and the new ones.
pub(crate) struct FileHistory<'a, 'b> {
    pub stored: &'b mut StoredFilelogs<'a>,
    pub new: &'b mut FileRevisions,
}

impl FileHistory<'_, '_> {
    /// Text of a revision, with metadata.
    ///
    /// # Errors
    ///
    /// [`Error::Store`](crate::Error::Store) or [`Error::Scratch`](crate::Error::Scratch).
    pub fn text(&mut self, path: &[u8], node: Node) -> Result<Arc<Buffer>> {
        match self.new.number_of(path, node) {
            Some(number) => self.new.text(number, node),
            None => self.stored.text(path, node),
        }
    }

    /// Content of a revision.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::text`].
    pub fn content(&mut self, path: &[u8], node: Node) -> Result<RevisionContent> {
        let number = self.new.number_of(path, node);
        if let Some(facts) = number.and_then(|number| self.new.facts(number)) {
            return Ok(facts.content);
        }
        let text = self.text(path, node)?;
        let split = split_metadata(&text);
        let is_copy = split.metadata.is_some_and(|metadata| !metadata.is_empty());
        Ok(RevisionContent { blob: blob_of(split.content), is_copy })
    }

    /// Whether a revision is another one, or an ancestor of it.
    ///
    /// # Errors
    ///
    /// [`Error::Store`](crate::Error::Store) if the filelog cannot be read.
    pub fn is_ancestor(&mut self, path: &[u8], node: Node, of: Node) -> Result<bool> {
        let own = self.new.number_of(path, node);
        let (mut pending, mut stored) = (vec![of], Vec::new());
        let mut seen = HashSet::new();
        while let Some(at) = pending.pop() {
            if at == node {
                return Ok(true);
            }
            let number = self.new.number_of(path, at);
            let Some(facts) = number.and_then(|number| self.new.facts(number)) else {
                stored.push(at);
                continue;
            };
            let is_older = own.is_some_and(|own| number.is_some_and(|number| number < own));
            if !is_older && seen.insert(at) {
                pending.extend(facts.parents.iter().filter(|parent| **parent != Node::NULL));
            }
        }
        if stored.is_empty() {
            return Ok(false);
        }
        let revlog = self.stored.revlog(path)?;
        let index = revlog.index();
        let Some(own) = index.revs().rev().find(|rev| index.node(*rev) == node) else {
            return Ok(false);
        };
        let mut pending = revlog.find(&stored)?;
        let mut seen: HashSet<u32> = HashSet::new();
        while let Some(at) = pending.pop() {
            if at == own {
                return Ok(true);
            }
            if at.number() > own.number() && seen.insert(at.number()) {
                let Parents(p1, p2) = index.parents(at);
                pending.extend([p1, p2].into_iter().flatten().collect::<Vec<Rev>>());
            }
        }
        Ok(false)
    }
}

/// Id of the blob with a content.
pub(crate) fn blob_of(content: &[u8]) -> Oid {
    let head = object_header(ObjectKind::Blob, content.len() as u64);
    Oid::from_bytes(digest_one(Message { head: &head, body: content }))
}
