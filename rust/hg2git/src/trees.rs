//! How trees are stored: as what changed since the tree of the same directory before.
//!
//! There are two kinds: git's, and those of git-cinnabar's manifest commits, in which each name
//! has `_` before it, and what a file leads to is its node in Mercurial, with a mode of its own.
//!
//! A chain of such deltas is at most [`MAX_DEPTH`] long, git's own default. Where it would be longer
//! the tree is compared with a landmark: an earlier tree of the directory whose own chain is short.

use std::sync::Arc;

use gitpack::delta::{Op, encode};
use gitpack::tree::Mode;
use gitpack::{Differ, Kind, Oid};

use crate::directory::{Directory, Entry};
use crate::names::Names;
use crate::object::Object;

/// Longest chain of deltas in packs, as `pack.depth` has it by default.
pub(crate) const MAX_DEPTH: u8 = 50;
/// Longest chain of a landmark: what remains of [`MAX_DEPTH`] is for the trees after it.
pub(crate) const MAX_LANDMARK_DEPTH: u8 = 24;

/// What is before each name in a manifest's tree.
pub(crate) const MANIFEST_PREFIX: u8 = b'_';

/// The mode that a file has in a manifest's tree.
pub(crate) const fn manifest_mode(mode: Mode) -> Mode {
    match mode {
        Mode::EXECUTABLE => Mode(0o160_755),
        Mode::SYMLINK => Mode(0o160_000),
        _ => Mode(0o160_644),
    }
}

/// Which trees of a directory are meant, or who needs an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Those of commits: all that git clients are shown.
    Git,
    /// Those of manifest commits, which only git-cinnabar needs, as notes.
    Manifest,
}

/// A tree whose content is kept to compare later ones with.
#[derive(Debug)]
pub(crate) struct Landmark {
    oid: Oid,
    content: Vec<u8>,
    depth: u8,
}

/// How a tree is stored.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    /// Deltas to follow to read it; `None` if it is not in the pack that is written.
    pub depth: Option<u8>,
    landmark: Option<Arc<Landmark>>,
}

impl Storage {
    /// That of a tree which an earlier run wrote.
    pub const ELSEWHERE: Self = Self { depth: None, landmark: None };
}

/// Makes objects of trees, each stored the shortest way.
#[derive(Debug, Default)]
pub(crate) struct TreeWriter {
    differ: Differ,
    objects: Vec<Object>,
}

impl TreeWriter {
    /// The objects made since the last call, bases before what builds on them.
    pub fn take(&mut self) -> Vec<Object> {
        std::mem::take(&mut self.objects)
    }

    /// Makes the object of a tree, given what the directory was before.
    pub fn write(
        &mut self,
        names: &Names,
        view: View,
        before: Option<&Directory>,
        entries: &[Entry],
        content: Vec<u8>,
        oid: Oid,
    ) -> Storage {
        let (storage, base, payload) = self.store(names, view, before, entries, content, oid);
        self.objects.push(Object { kind: Kind::Tree, oid, base, payload, view });
        storage
    }

    fn store(
        &mut self,
        names: &Names,
        view: View,
        before: Option<&Directory>,
        entries: &[Entry],
        content: Vec<u8>,
        oid: Oid,
    ) -> (Storage, Option<Oid>, Vec<u8>) {
        let tree = before.map(|before| before.tree(view));
        let chain = tree.and_then(|tree| Some((before?, tree, tree.storage.depth?)));
        let Some((before, tree, depth)) = chain else {
            return (Storage { depth: Some(0), landmark: None }, None, content);
        };
        let landmark = tree.storage.landmark.clone();
        if depth < MAX_DEPTH {
            if let Some(delta) = delta_from(names, view, before, entries, &content) {
                return (Storage { depth: Some(depth + 1), landmark }, Some(tree.oid), delta);
            }
            return (Storage { depth: Some(0), landmark }, None, content);
        }
        // a directory that has had a long chain may have more: content to compare them with is kept
        let mut delta = Vec::new();
        let base = landmark.filter(|landmark| {
            landmark.depth < MAX_LANDMARK_DEPTH
                && self.differ.diff(&landmark.content, &content, content.len() / 2, &mut delta)
        });
        let depth = base.as_ref().map_or(0, |base| base.depth + 1);
        let landmark = Some(Arc::new(Landmark { oid, content: content.clone(), depth }));
        let storage = Storage { depth: Some(depth), landmark };
        match base {
            Some(base) => (storage, Some(base.oid), delta),
            None => (storage, None, content),
        }
    }
}

/// The delta between two trees of a directory, entry by entry; `None` if it is not much shorter
/// than the content.
fn delta_from(
    names: &Names,
    view: View,
    before: &Directory,
    entries: &[Entry],
    content: &[u8],
) -> Option<Vec<u8>> {
    let mut ops = Vec::new();
    let mut old = before.entries.iter().peekable();
    let (mut old_at, mut new_at) = (0, 0);
    for entry in entries {
        let len = entry_len(names, view, entry);
        while let Some(gone) = old.next_if(|old| old.order(names, entry).is_lt()) {
            old_at += entry_len(names, view, gone);
        }
        let replaced = old.next_if(|old| old.order(names, entry).is_eq());
        ops.push(match replaced {
            Some(same) if same.target.is_same(&entry.target, view) => {
                Op::Copy { offset: old_at as u64, len: len as u64 }
            }
            _ => Op::Insert(&content[new_at..new_at + len]),
        });
        old_at += replaced.map_or(0, |replaced| entry_len(names, view, replaced));
        new_at += len;
    }
    let old_len = old_at + old.map(|entry| entry_len(names, view, entry)).sum::<usize>();
    let mut delta = Vec::new();
    encode(old_len as u64, content.len() as u64, ops, &mut delta).ok()?;
    (delta.len() < content.len() / 2).then_some(delta)
}

/// Bytes of an entry in the tree's content: mode, space, name, NUL, oid.
fn entry_len(names: &Names, view: View, entry: &Entry) -> usize {
    let mode_len = if entry.target.is_directory() { 5 } else { 6 };
    let prefix_len = usize::from(view == View::Manifest);
    mode_len + 1 + prefix_len + names.get(entry.name).len() + 1 + 20
}
