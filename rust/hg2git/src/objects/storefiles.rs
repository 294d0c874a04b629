//! Single files of a manifest, read from the store on the dialect's request.

use std::cell::OnceCell;
use std::sync::Arc;

use dialect::{Files, Unreadable};
use parallel::Buffer;
use revlog::{
    Lines, Node, Rev, Revlog, RevlogKind, Scratch, Store, Texts, copy_source, split_metadata,
};

use crate::error::{Error, Result};
use crate::read::treemanifests::Directories;

/// Files of the manifest `rev`.
pub(crate) struct StoreFiles<'a> {
    pub store: &'a Store,
    pub manifest: &'a Revlog,
    pub directories: Option<&'a Directories<'a>>,
    pub rev: Rev,
    text: OnceCell<Arc<Buffer>>,
    error: OnceCell<Error>,
}

impl<'a> StoreFiles<'a> {
    pub const fn new(
        store: &'a Store,
        manifest: &'a Revlog,
        directories: Option<&'a Directories<'a>>,
        rev: Rev,
    ) -> Self {
        Self { store, manifest, directories, rev, text: OnceCell::new(), error: OnceCell::new() }
    }

    /// Error behind the first [`Unreadable`].
    pub fn into_error(self) -> Option<Error> {
        self.error.into_inner()
    }

    /// The flat text of the manifest.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the manifest cannot be read.
    pub fn text(&self) -> Result<&Arc<Buffer>> {
        if let Some(text) = self.text.get() {
            return Ok(text);
        }
        let scratch = &mut Scratch::new(0);
        let text = match self.directories {
            Some(directories) => Arc::new(directories.flat_text(self.rev, scratch)?),
            None => Texts::new(self.manifest, scratch, 0).get(self.rev)?.text,
        };
        Ok(self.text.get_or_init(|| text))
    }

    /// The node of a file, if the manifest has it.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the manifest cannot be read.
    pub fn node(&self, path: &[u8]) -> Result<Option<Node>> {
        for line in Lines::new(self.text()?) {
            let line = line.map_err(|problem| self.manifest.corrupt(self.rev, problem))?;
            if line.path == path {
                return Ok(Some(line.node));
            }
        }
        Ok(None)
    }

    fn content_of(&self, path: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(node) = self.node(path)? else { return Ok(None) };
        let text = file_text(self.store, path, node)?;
        Ok(Some(split_metadata(&text).content.to_vec()))
    }
}

impl Files for StoreFiles<'_> {
    fn content(&self, path: &[u8]) -> Result<Option<Vec<u8>>, Unreadable> {
        self.content_of(path).map_err(|error| {
            self.error.get_or_init(|| error);
            Unreadable
        })
    }
}

/// Copy source that a file revision records.
///
/// # Errors
///
/// [`Error::Store`] if the revision cannot be read.
pub(crate) fn recorded_copy(store: &Store, path: &[u8], node: Node) -> Result<Option<Vec<u8>>> {
    let text = file_text(store, path, node)?;
    let metadata = split_metadata(&text).metadata;
    Ok(metadata.and_then(copy_source).map(<[u8]>::to_vec))
}

fn file_text(store: &Store, path: &[u8], node: Node) -> Result<Arc<Buffer>> {
    let filelog = store.open(RevlogKind::Filelog(path))?;
    let rev = filelog.find(&[node])?[0];
    Ok(Texts::new(&filelog, &mut Scratch::new(0), 0).get(rev)?.text)
}
