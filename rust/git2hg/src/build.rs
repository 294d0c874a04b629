//! The rules of manifests and file revisions: which node each path has, and what a changeset lists.
//!
//! They are git-cinnabar's: `create_simple_manifest` and `create_merge_changeset` in its `main.rs`. Only
//! content that begins with the marker of metadata is stored as Mercurial does.

pub(crate) mod ancestry;
pub(crate) mod between;
pub(crate) mod copies;
pub(crate) mod files;
pub(crate) mod lookups;
pub(crate) mod manifestlines;
pub(crate) mod manifests;
mod merges;
pub(crate) mod spool;

use std::cmp::Ordering;
use std::io::{Read, Write};

use gitpack::Oid;
use parallel::Buffer;
use parallel::hex::hex;
use revlog::Node;

use crate::build::copies::{CopySources, copies};
use crate::build::files::{NewText, nodes_of};
use crate::build::manifestlines::{LineEdit, entry};
use crate::build::manifests::Number;
use crate::convert::{ChangesetBuilder, Converted};
use crate::error::{Error, Result};
use crate::read::diff::Change;
use crate::read::trees::FileEntry;

/// What precedes and follows the metadata of a file revision.
const MARK: &[u8] = b"\x01\n";
/// Bytes of texts that wait until all are hashed at once.
const MOST_HASHED: usize = 1 << 20;

/// What a commit changes of each of its parents.
#[derive(Debug)]
pub(crate) enum CommitChanges {
    /// Of its only parent, or of nothing.
    One(Vec<Change>),
    /// Of two; paths ascending.
    Two(Vec<MergedPath>),
}

/// A path that differs from at least one of two parents.
#[derive(Debug)]
pub(crate) struct MergedPath {
    path: Box<[u8]>,
    new: Option<FileEntry>,
    olds: [Option<FileEntry>; 2],
}

impl MergedPath {
    /// The blob that neither parent has.
    fn own_blob(&self) -> Option<Oid> {
        let (_, blob) = self.new?;
        let is_old = |old: &Option<FileEntry>| old.is_some_and(|(_, other)| other == blob);
        (!self.olds.iter().any(is_old)).then_some(blob)
    }
}

impl CommitChanges {
    /// Of one list for each parent, or one for none.
    pub fn new(mut lists: Vec<Vec<Change>>) -> Self {
        let second = if lists.len() > 1 { lists.pop() } else { None };
        let first = lists.pop().unwrap_or_default();
        let Some(second) = second else { return Self::One(first) };
        let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
        let mut merged = Vec::new();
        loop {
            let order = match (first.peek(), second.peek()) {
                (None, None) => return Self::Two(merged),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(two)) => one.path.cmp(&two.path),
            };
            let one = if order.is_le() { first.next() } else { None };
            let two = if order.is_ge() { second.next() } else { None };
            // a path that is not in a list is as in that parent
            let new = one.as_ref().or(two.as_ref()).and_then(|change| change.new);
            let olds = [&one, &two].map(|side| side.as_ref().map_or(new, |change| change.old));
            if let Some(Change { path, .. }) = one.or(two) {
                merged.push(MergedPath { path, new, olds });
            }
        }
    }

    /// The blobs that are needed in any case, with their paths, in the order in which they are.
    pub fn blobs(&self) -> Vec<(&[u8], Oid)> {
        match self {
            Self::One(changes) => {
                changes.iter().filter_map(|it| Some((&*it.path, own_blob(it)?))).collect()
            }
            Self::Two(paths) => {
                paths.iter().filter_map(|it| Some((&*it.path, it.own_blob()?))).collect()
            }
        }
    }
}

fn own_blob(change: &Change) -> Option<Oid> {
    let (_, blob) = change.new?;
    change.old.is_none_or(|(_, old)| old != blob).then_some(blob)
}

/// What became of a tree.
pub(crate) enum Applied {
    Made(MadeManifest),
    /// The content at a path is too long.
    TooLong(Box<[u8]>),
}

/// The manifest of a changeset, and the paths that it lists.
pub(crate) struct MadeManifest {
    pub manifest: Number,
    pub files: Vec<Box<[u8]>>,
}

/// Texts of a commit that are not hashed yet, and which edits get their nodes.
#[derive(Default)]
struct TextsOfCommit<'a> {
    edits: Vec<usize>,
    texts: Vec<NewText<'a>>,
    bytes: usize,
}

impl<'a> TextsOfCommit<'a> {
    fn add(&mut self, edit: usize, new: NewText<'a>) {
        self.bytes += new.text.len();
        self.edits.push(edit);
        self.texts.push(new);
    }
}

impl<W: Write, R: Read> ChangesetBuilder<'_, W, R> {
    /// Makes what is new of the manifest and the files of a commit.
    pub(crate) fn apply(
        &mut self,
        tree: Oid,
        parents: &[Converted],
        changes: &CommitChanges,
    ) -> Result<Applied> {
        match (parents, changes) {
            ([one, two], CommitChanges::Two(paths)) if one.manifest == two.manifest => {
                let change = |path: &MergedPath| Change {
                    path: path.path.clone(),
                    old: path.olds[0],
                    new: path.new,
                };
                let changes = paths.iter().map(change).filter(|change| change.old != change.new);
                self.apply_to_one(tree, Some(one), &changes.collect::<Vec<_>>())
            }
            ([one, two], CommitChanges::Two(paths)) => self.apply_to_two(tree, [one, two], paths),
            (parents, CommitChanges::One(changes)) => {
                self.apply_to_one(tree, parents.first(), changes)
            }
            _ => Err(Error::Wrong("a commit has lost its parents".to_owned())),
        }
    }

    fn apply_to_one(
        &mut self,
        tree: Oid,
        parent: Option<&Converted>,
        changes: &[Change],
    ) -> Result<Applied> {
        let before = parent.map(|parent| parent.manifest);
        if let Some(parent) = parent.filter(|parent| parent.tree == tree) {
            let made = MadeManifest { manifest: parent.manifest, files: Vec::new() };
            return Ok(Applied::Made(made));
        }
        let copies = match parent {
            Some(parent) => copies(self.trees, parent.tree, changes)?,
            None => CopySources::new(),
        };
        let text = self.manifests.text(before.flatten())?;
        let node_of = |path: &[u8]| {
            let found = entry(&text, path).map(|(node, _)| node);
            found.ok_or_else(|| Error::Wrong(format!("no entry of {}", path.escape_ascii())))
        };
        let mut edits = Vec::with_capacity(changes.len());
        let mut waiting = TextsOfCommit::default();
        for change in changes {
            let Change { path, old, new } = change;
            let Some((flag, blob)) = new else {
                edits.push(LineEdit { path: path.clone(), entry: None });
                continue;
            };
            let old_node = old.map(|_| node_of(path)).transpose()?;
            let node = match old_node {
                Some(node) if own_blob(change).is_none() => node,
                _ => {
                    let Some(content) = self.next_content(*blob)? else {
                        return Ok(Applied::TooLong(path.clone()));
                    };
                    let text = match copies.get(path) {
                        Some(source) => self.copied(source, node_of(source)?, &content)?,
                        None => self.escaped(content)?,
                    };
                    let parents = [old_node.unwrap_or(Node::NULL), Node::NULL];
                    waiting.add(edits.len(), NewText { path, parents, text });
                    Node::NULL // until it is hashed
                }
            };
            edits.push(LineEdit { path: path.clone(), entry: Some((node, *flag)) });
            if waiting.bytes > MOST_HASHED {
                self.add_texts(&mut waiting, &mut edits)?;
            }
        }
        self.add_texts(&mut waiting, &mut edits)?;
        let manifest = self.manifests.add([before.flatten(), None], &edits, self.link()?)?;
        let files = edits.into_iter().map(|edit| edit.path).collect();
        Ok(Applied::Made(MadeManifest { manifest, files }))
    }

    /// Hashes texts, and adds them as revisions.
    fn add_texts(&mut self, waiting: &mut TextsOfCommit<'_>, edits: &mut [LineEdit]) -> Result<()> {
        let TextsOfCommit { edits: places, texts, .. } = std::mem::take(waiting);
        let link = self.link()?;
        let nodes = nodes_of(&texts);
        for ((place, text), node) in places.into_iter().zip(texts).zip(nodes) {
            self.files.add(text, node, link)?;
            if let Some((own, _)) = &mut edits[place].entry {
                *own = node;
            }
        }
        Ok(())
    }

    /// The number that the changeset will have.
    fn link(&self) -> Result<u32> {
        u32::try_from(self.made.len()).map_err(|_| Error::TooMany)
    }

    /// The text of a revision that is a copy.
    fn copied(&self, source: &[u8], node: Node, content: &Buffer) -> Result<Buffer> {
        let node = hex(node.as_bytes());
        let head = [MARK, b"copy: ", source, b"\ncopyrev: ", &node, b"\n", MARK].concat();
        self.with_head(&head, content)
    }

    /// The text of any other revision.
    fn escaped(&self, content: Buffer) -> Result<Buffer> {
        if content.starts_with(MARK) {
            return self.with_head(&[MARK, MARK].concat(), &content);
        }
        Ok(content)
    }

    fn with_head(&self, head: &[u8], content: &Buffer) -> Result<Buffer> {
        let mut text = self.room();
        text.reserve_exact(head.len() + content.len())?;
        text.extend_from_slice(head)?;
        text.extend_from_slice(content)?;
        Ok(text)
    }
}
