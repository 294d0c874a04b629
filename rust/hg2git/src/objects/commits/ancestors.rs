//! The history of a changeset, read from the store on the dialect's request.

use std::cell::OnceCell;

use dialect::{ChangesetHistory, CopySource, ParentCommit, Unreadable};
use gitpack::Oid;
use revlog::{Changeset, Node, Parents, Rev, Scratch, Texts};

use crate::error::{Error, Result};
use crate::map::segment::NO_COMMIT;
use crate::objects::directory::{EntryTarget, TrackedDirectory};
use crate::objects::history::Sources;
use crate::objects::storefiles::{StoreFiles, recorded_copy};
use crate::read::changelog::parse;
use crate::read::files::{FileTable, RecordedCopy};
use crate::read::manifests::ChangesetTree;
use crate::read::names::Names;

/// The history of `changeset`.
pub(super) struct StoreHistory<'a> {
    pub sources: &'a Sources<'a>,
    pub files: &'a FileTable,
    pub names: &'a Names,
    pub rev: Rev,
    pub changeset: &'a Changeset<'a>,
    /// The directory of its files, if it is in memory.
    pub root: Option<&'a TrackedDirectory>,
    /// Whether trees may have something else at a path than the manifest.
    pub is_edited: fn(&[u8]) -> bool,
    /// Commit of a revision; [`NO_COMMIT`] if it has none.
    pub commit_of: &'a dyn Fn(Rev) -> Option<Oid>,
    pub error: OnceCell<Error>,
}

impl StoreHistory<'_> {
    /// Error behind the first [`Unreadable`].
    pub fn into_error(self) -> Error {
        let unknown =
            || self.sources.changelog.corrupt(self.rev, "its history cannot be read").into();
        self.error.into_inner().unwrap_or_else(unknown)
    }

    fn kept<T>(&self, result: Result<T>) -> Result<T, Unreadable> {
        result.map_err(|error| {
            self.error.get_or_init(|| error);
            Unreadable
        })
    }

    fn read_copies(&self) -> Result<Vec<CopySource>> {
        let mut stored = None;
        let mut copies = Vec::new();
        for path in
            self.changeset.files.split(|byte| *byte == b'\n').filter(|path| !path.is_empty())
        {
            let root = self.root.filter(|_| !(self.is_edited)(path));
            let found = match root.map_or(Found::Unknown, |root| self.find(root, path)) {
                Found::Unknown => {
                    let files = match &stored {
                        Some(files) => files,
                        None => stored.insert(self.files_of(self.rev)?),
                    };
                    node_in(files.as_ref(), path)?.map_or(Found::Nothing, Found::Node)
                }
                found => found,
            };
            let (node, copy) = match found {
                Found::Recorded(node, Some(copy)) => (node, Some(copy.clone())),
                Found::Node(node) => (node, recorded_copy(self.sources.store, path, node)?),
                _ => continue,
            };
            if let Some(RecordedCopy { source, link_rev }) = copy
                && (link_rev == self.rev.number() || !self.has_parent_file(path, node)?)
            {
                copies.push(CopySource { path: path.to_vec(), source: source.into() });
            }
        }
        Ok(copies)
    }

    /// Whether a parent has this revision of a file.
    fn has_parent_file(&self, path: &[u8], node: Node) -> Result<bool> {
        let Parents(p1, p2) = self.sources.changelog.index().parents(self.rev);
        for parent in [p1, p2].into_iter().flatten() {
            if node_in(self.files_of(parent)?.as_ref(), path)? == Some(node) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The files of a changeset; `None` if its manifest is the null one.
    fn files_of(&self, rev: Rev) -> Result<Option<StoreFiles<'_>>> {
        let Sources { store, changelog, manifest, directories, revs, trees, plan, .. } =
            self.sources;
        let tree = revs.binary_search(&rev).ok().map(|place| trees.get(place));
        let rev = if let Some(ChangesetTree::Position(position)) = tree {
            plan.revs[position]
        } else {
            let text = Texts::new(changelog, &mut Scratch::new(0), 0).get(rev)?.text;
            let node = parse(changelog, rev, &text)?.manifest;
            if node == Node::NULL {
                return Ok(None);
            }
            manifest.find(&[node])?[0]
        };
        Ok(Some(StoreFiles::new(store, manifest, *directories, rev)))
    }

    fn find(&self, root: &TrackedDirectory, path: &[u8]) -> Found<'_> {
        let (directory, rest) = match memchr::memchr(b'/', path) {
            Some(end) => (&path[..end], Some(&path[end + 1..])),
            None => (path, None),
        };
        let entry = root.entries.find(self.names, directory, rest.is_some());
        match (entry.map(|entry| &entry.target), rest) {
            (Some(EntryTarget::TrackedDirectory(inner)), Some(_)) if inner.entries.is_empty() => {
                Found::Unknown // of the store, not read
            }
            (Some(EntryTarget::TrackedDirectory(inner)), Some(rest)) => self.find(inner, rest),
            (Some(EntryTarget::File(file, _)), None) => {
                let node = self.files.node(*file);
                if self.files.is_copy_read(*file) {
                    Found::Recorded(node, self.files.recorded_copy(*file))
                } else {
                    Found::Node(node)
                }
            }
            (Some(EntryTarget::Object(_)), None) => Found::Unknown,
            _ => Found::Nothing,
        }
    }

    fn read_ancestor(&self, node: &Node) -> Result<(Vec<u8>, Vec<ParentCommit>)> {
        let changelog = self.sources.changelog;
        let rev = changelog.find(&[*node])?[0];
        let text = Texts::new(changelog, &mut Scratch::new(0), 0).get(rev)?.text;
        let Parents(p1, p2) = changelog.index().parents(rev);
        let parent = |rev: Rev| ParentCommit {
            node: changelog.index().node(rev),
            commit: (self.commit_of)(rev).filter(|commit| *commit != NO_COMMIT),
        };
        Ok((text.to_vec(), [p1, p2].into_iter().flatten().map(parent).collect()))
    }
}

impl ChangesetHistory for StoreHistory<'_> {
    fn copies(&self) -> Result<Vec<CopySource>, Unreadable> {
        self.kept(self.read_copies())
    }

    fn ancestor(&self, node: &Node) -> Result<(Vec<u8>, Vec<ParentCommit>), Unreadable> {
        self.kept(self.read_ancestor(node))
    }
}

/// The node of a file; `None` for a missing file, and without files.
fn node_in(files: Option<&StoreFiles<'_>>, path: &[u8]) -> Result<Option<Node>> {
    let found = files.map(|files| files.find(path)).transpose()?;
    Ok(found.flatten().map(|(node, _)| node))
}

/// The result of a search for a file in memory.
enum Found<'a> {
    /// Not in the manifest.
    Nothing,
    /// Converted by this run, with the copy that it records.
    Recorded(Node, Option<&'a RecordedCopy>),
    /// Converted by an earlier run.
    Node(Node),
    /// In a tree of the store, which has no nodes.
    Unknown,
}
