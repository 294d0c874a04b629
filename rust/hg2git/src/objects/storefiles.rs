//! Single files of a manifest, read from the store on the dialect's request.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use dialect::{Files, Unreadable};
use gitpack::tree::Mode;
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
    /// The text of another manifest, from which this one's may be made.
    near: Option<(Rev, Arc<Buffer>)>,
    filelogs: Rc<OpenedFilelogs>,
    error: Cell<Option<Error>>,
}

impl<'a> StoreFiles<'a> {
    pub fn new(
        store: &'a Store,
        manifest: &'a Revlog,
        directories: Option<&'a Directories<'a>>,
        rev: Rev,
    ) -> Self {
        let filelogs = Rc::default();
        let (text, near, error) = (OnceCell::new(), None, Cell::new(None));
        Self { store, manifest, directories, rev, text, near, filelogs, error }
    }

    /// The files of `rev`. Reads shared parts once, and has no error.
    pub fn beside(&self, rev: Rev) -> Self {
        let Self { store, manifest, directories, .. } = *self;
        let near = self.text.get().map(|text| (self.rev, Arc::clone(text)));
        let text = if rev == self.rev { self.text.clone() } else { OnceCell::new() };
        let filelogs = Rc::clone(&self.filelogs);
        Self { text, near, filelogs, ..Self::new(store, manifest, directories, rev) }
    }

    /// Error behind the first [`Unreadable`].
    pub fn take_error(&self) -> Option<Error> {
        self.error.take()
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
            None => text_beside(self.manifest, scratch, self.near.as_ref(), self.rev)?,
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
        let Some(lines) = lines_from(text, &[path, b"\0"].concat()) else { return Ok(None) };
        let line = Lines::new(lines).next().transpose();
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

    fn kept<T>(&self, result: Result<T>) -> Result<T, Unreadable> {
        result.map_err(|error| {
            let first = self.error.take().unwrap_or(error);
            self.error.set(Some(first));
            Unreadable
        })
    }

    fn content_of(&self, path: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some((node, _)) = self.find(path)? else { return Ok(None) };
        let text = self.filelogs.text(self.store, path, node)?;
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
        let text = self.kept(self.text())?;
        let begins = |end: &[u8]| lines_from(text, &[path, end].concat()).is_some();
        Ok(begins(b"\0") || begins(b"/"))
    }
}

/// The lines of a manifest from the first one on that begins with `start`; `None` if none does.
fn lines_from<'t>(text: &'t [u8], start: &[u8]) -> Option<&'t [u8]> {
    // no name has a NUL, so lines are sorted as their paths are
    let (mut low, mut high) = (0, text.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        let at = memchr::memrchr(b'\n', &text[low..middle]).map_or(low, |at| low + at + 1);
        let end = memchr::memchr(b'\n', &text[middle..]).map_or(text.len(), |at| middle + at + 1);
        if &text[at..end] < start {
            low = end;
        } else {
            high = at;
        }
    }
    text[low..].starts_with(start).then(|| &text[low..])
}

/// Most filelogs that stay open.
const MOST_OPENED: usize = 16;

/// Open filelogs, by path, for those read again and again.
#[derive(Default)]
struct OpenedFilelogs(RefCell<HashMap<Vec<u8>, OpenedFilelog>>);

struct OpenedFilelog {
    filelog: Revlog,
    /// Revisions by nodes, from the second reading on.
    revs: HashMap<Node, Rev>,
    last: (Rev, Arc<Buffer>),
}

impl OpenedFilelogs {
    /// The text of a file revision.
    fn text(&self, store: &Store, path: &[u8], node: Node) -> Result<Arc<Buffer>> {
        let mut opened = self.0.borrow_mut();
        let Some(OpenedFilelog { filelog, revs, last }) = opened.get_mut(path) else {
            let (filelog, rev, text) = file_text(store, path, node)?;
            if opened.len() == MOST_OPENED {
                opened.clear();
            }
            let last = (rev, Arc::clone(&text));
            opened.insert(path.to_vec(), OpenedFilelog { filelog, revs: HashMap::new(), last });
            return Ok(text);
        };
        let index = filelog.index();
        if revs.is_empty() {
            revs.extend(index.revs().map(|rev| (index.node(rev), rev)));
        }
        let rev = *revs.get(&node).ok_or_else(|| filelog.missing(node))?;
        let text = text_beside(filelog, &mut Scratch::new(0), Some(&*last), rev)?;
        *last = (rev, Arc::clone(&text));
        Ok(text)
    }
}

/// The text of a revision. It may be made from the text of another one.
fn text_beside(
    revlog: &Revlog,
    scratch: &mut Scratch,
    near: Option<&(Rev, Arc<Buffer>)>,
    rev: Rev,
) -> Result<Arc<Buffer>> {
    let mut texts = Texts::new(revlog, scratch, 0);
    if let Some((rev, text)) = near {
        texts.learn(*rev, text);
    }
    Ok(texts.get(rev)?.text)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_found_wherever_they_are(
            paths in proptest::collection::btree_set("[a-c/.\x01-]{1,4}", 0..20),
            start in "[a-c/.\x01-]{1,4}[\0/]",
        ) {
            let line = |path: &String| format!("{path}\0{}\n", "7".repeat(40));
            let lines: Vec<String> = paths.iter().map(line).collect();
            let text = lines.concat();
            let first = lines.iter().position(|line| line.starts_with(&start));
            let expected = first.map(|first| lines[first..].concat());
            let found = lines_from(text.as_bytes(), start.as_bytes());
            prop_assert_eq!(found, expected.as_ref().map(String::as_bytes));
        }
    }
}
