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
use gitpack::{Kind, Oid};

use crate::directory::{Directory, Entries, Entry, Target, Tree, Walk, entry_len};
use crate::names::Names;
use crate::object::Object;

/// Longest chain of deltas in packs, as `pack.depth` has it by default.
pub(crate) const MAX_DEPTH: u8 = 50;
/// Longest chain of a landmark: what remains of [`MAX_DEPTH`] is for the trees after it.
pub(crate) const MAX_LANDMARK_DEPTH: u8 = 24;

/// Operations, and bytes, of the delta of a tree of which one entry changes, with room to spare.
const USUAL_OPS: usize = 16;
const USUAL_DELTA_LEN: usize = 64;

/// Bytes at the end of an entry that name an object.
const OID_LEN: usize = 20;

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

/// A tree that is kept to compare later ones with; most of its entries are those of later ones.
#[derive(Debug)]
pub(crate) struct Landmark {
    oid: Oid,
    entries: Entries,
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
        entries: &Entries,
        content: Vec<u8>,
        oid: Oid,
    ) -> Storage {
        let before = before.map(|before| (&before.entries, before.tree(view)));
        let (storage, base, payload) = stored(names, view, before, entries, content, oid);
        self.objects.push(Object { kind: Kind::Tree, oid, base, payload, view });
        storage
    }
}

/// How a tree is stored best, given the one before: the base and the payload.
fn stored(
    names: &Names,
    view: View,
    before: Option<(&Entries, &Tree)>,
    entries: &Entries,
    content: Vec<u8>,
    oid: Oid,
) -> (Storage, Option<Oid>, Vec<u8>) {
    let chain = before.and_then(|(before, tree)| Some((before, tree, tree.storage.depth?)));
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
    let base = landmark.filter(|landmark| landmark.depth < MAX_LANDMARK_DEPTH);
    let delta = base
        .as_ref()
        .and_then(|landmark| delta_from(names, view, &landmark.entries, entries, &content));
    let base = base.filter(|_| delta.is_some());
    let depth = base.as_ref().map_or(0, |base| base.depth + 1);
    let landmark = Some(Arc::new(Landmark { oid, entries: entries.clone(), depth }));
    let storage = Storage { depth: Some(depth), landmark };
    (storage, base.map(|base| base.oid), delta.unwrap_or(content))
}

/// The delta between two trees of a directory, entry by entry where they do not share a leaf; `None`
/// if it is not much shorter than the content.
fn delta_from(
    names: &Names,
    view: View,
    before: &Entries,
    after: &Entries,
    content: &[u8],
) -> Option<Vec<u8>> {
    let mut ops = Vec::with_capacity(USUAL_OPS);
    let (mut old, mut new) = (Walk::new(before), Walk::new(after));
    let (mut old_at, mut new_at) = (0, 0);
    while let Some(entry) = new.peek() {
        while let Some(gone) = old.peek().filter(|old| old.order(names, entry).is_lt()) {
            old_at += entry_len(names, view, gone);
            old.step();
        }
        let leaves = old.whole_leaf().zip(new.whole_leaf());
        if let Some((leaf, _)) = leaves.filter(|(old, new)| Arc::ptr_eq(old, new)) {
            let len = leaf.content_len(view);
            ops.push(Op::Copy { offset: old_at as u64, len: len as u64 });
            old_at += len;
            new_at += len;
            old.step_leaf();
            new.step_leaf();
            continue;
        }
        let len = entry_len(names, view, entry);
        let replaced = old.peek().filter(|old| old.order(names, entry).is_eq());
        let same_len = replaced.map_or(0, |replaced| same_len(replaced, entry, view, len));
        ops.push(Op::Copy { offset: old_at as u64, len: same_len as u64 });
        ops.push(Op::Insert(&content[new_at + same_len..new_at + len]));
        if let Some(replaced) = replaced {
            old_at += entry_len(names, view, replaced);
            old.step();
        }
        new_at += len;
        new.step();
    }
    let mut delta = Vec::with_capacity(USUAL_DELTA_LEN);
    encode(before.content_len(view) as u64, content.len() as u64, ops, &mut delta).ok()?;
    (delta.len() < content.len() / 2).then_some(delta)
}

/// How many bytes two entries of one name and kind begin with, of the `len` that the later one has.
fn same_len(before: &Entry, after: &Entry, view: View, len: usize) -> usize {
    match (&before.target, &after.target) {
        (before, after) if before.is_same(after, view) => len,
        (Target::File(_, before), Target::File(_, after)) if before != after => 0,
        _ => len - OID_LEN,
    }
}
