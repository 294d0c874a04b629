//! Single files of a manifest, read from the store on the dialect's request.

use std::cell::OnceCell;
use std::sync::Arc;

use dialect::{Files, Unreadable};
use gitpack::tree::Mode;
use memchr::memmem;
use parallel::Buffer;
use revlog::{
    Flag, Line, Lines, Node, Rev, Revlog, RevlogKind, Scratch, Store, Texts, split_metadata,
};

use crate::error::{Error, Result};
use crate::objects::history::mode_of;
use crate::read::files::RecordedCopy;
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

    /// The same files, without a second reading, and without an error.
    pub fn again(&self) -> Self {
        let Self { store, manifest, directories, rev, .. } = *self;
        Self { text: self.text.clone(), ..Self::new(store, manifest, directories, rev) }
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

    /// The node of a file, and its flag, if the manifest has it.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the manifest cannot be read.
    pub fn find(&self, path: &[u8]) -> Result<Option<(Node, Flag)>> {
        let text = self.text()?;
        let begun = [path, b"\0"].concat();
        let at = match memmem::find(text, &[b"\n", &*begun].concat()) {
            _ if text.starts_with(&begun) => 0,
            Some(before) => before + 1,
            None => return Ok(None),
        };
        let line = Lines::new(&text[at..]).next().transpose();
        let line = line.map_err(|problem| self.manifest.corrupt(self.rev, problem))?;
        Ok(line.map(|line| (line.node, line.flag)))
    }

    /// The lines whose paths are wanted.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the manifest cannot be read.
    pub fn all(&self, is_wanted: impl Fn(&[u8]) -> bool) -> Result<Vec<Line<'_>>> {
        let mut found = Vec::new();
        for line in Lines::new(self.text()?) {
            let line = line.map_err(|problem| self.manifest.corrupt(self.rev, problem))?;
            if is_wanted(line.path) {
                found.push(line);
            }
        }
        Ok(found)
    }

    /// The first line whose path is wanted.
    fn line(&self, is_wanted: impl Fn(&[u8]) -> bool) -> Result<Option<Line<'_>>> {
        for line in Lines::new(self.text()?) {
            let line = line.map_err(|problem| self.manifest.corrupt(self.rev, problem))?;
            if is_wanted(line.path) {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    fn kept<T>(&self, result: Result<T>) -> Result<T, Unreadable> {
        result.map_err(|error| {
            self.error.get_or_init(|| error);
            Unreadable
        })
    }

    fn content_of(&self, path: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some((node, _)) = self.find(path)? else { return Ok(None) };
        let (_, _, text) = file_text(self.store, path, node)?;
        Ok(Some(split_metadata(&text).content.to_vec()))
    }
}

impl Files for StoreFiles<'_> {
    fn content(&self, path: &[u8]) -> Result<Option<Vec<u8>>, Unreadable> {
        self.kept(self.content_of(path))
    }

    fn mode(&self, path: &[u8]) -> Result<Option<Mode>, Unreadable> {
        Ok(self.kept(self.find(path))?.map(|(_, flag)| mode_of(flag)))
    }

    fn has(&self, path: &[u8]) -> Result<bool, Unreadable> {
        let is_there = |found: &[u8]| {
            found.strip_prefix(path).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        };
        Ok(self.kept(self.line(is_there))?.is_some())
    }
}

/// Copy that a file revision records.
///
/// # Errors
///
/// [`Error::Store`] if the revision cannot be read.
pub(crate) fn recorded_copy(
    store: &Store,
    path: &[u8],
    node: Node,
) -> Result<Option<RecordedCopy>> {
    let (filelog, rev, text) = file_text(store, path, node)?;
    Ok(RecordedCopy::of(&filelog, rev, &text))
}

fn file_text(store: &Store, path: &[u8], node: Node) -> Result<(Revlog, Rev, Arc<Buffer>)> {
    let filelog = store.open(RevlogKind::Filelog(path))?;
    let rev = filelog.find(&[node])?[0];
    let text = Texts::new(&filelog, &mut Scratch::new(0), 0).get(rev)?.text;
    Ok((filelog, rev, text))
}
