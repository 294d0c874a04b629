//! How trees are stored: as what changed since the tree of the same directory before.
//!
//! There are two kinds: git's, and those of git-cinnabar's manifest commits, in which each name
//! has `_` before it, and what a file leads to is its node in Mercurial, with a mode of its own.
//!
//! A chain of such deltas is at most [`MAX_DEPTH`] long, git's own default. Where it would be longer
//! the tree is compared with a landmark: an earlier tree of the directory whose own chain is short.

mod content;
mod doubled;
mod writer;

use std::sync::Arc;

use gitpack::Oid;
use gitpack::delta::{Op, encode};

use crate::directory::{Entries, Entry, Target, Tree, Walk};
use crate::names::Names;
pub(crate) use writer::TreeWriter;

/// Longest chain of deltas in packs, as `pack.depth` has it by default.
pub(crate) const MAX_DEPTH: u8 = 50;
/// Longest chain of a landmark: what remains of [`MAX_DEPTH`] is for the trees after it.
pub(crate) const MAX_LANDMARK_DEPTH: u8 = 24;

/// Bytes of the delta of a tree of which one entry changes, with room to spare.
const USUAL_DELTA_LEN: usize = 64;

/// Bytes at the end of an entry that name an object.
const OID_LEN: usize = 20;

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

/// How a tree is stored best, given the one before: the base and the payload.
fn stored(
    names: &Names,
    view: View,
    before: Option<(&Entries, &Tree)>,
    entries: &Entries,
    content: &[u8],
    oid: Oid,
) -> (Storage, Option<Oid>, Vec<u8>) {
    let whole = |landmark| (Storage { depth: Some(0), landmark }, None, content.to_vec());
    let chain = before.and_then(|(before, tree)| Some((before, tree, tree.storage.depth?)));
    let Some((before, tree, depth)) = chain else { return whole(None) };
    let landmark = tree.storage.landmark.clone();
    if depth < MAX_DEPTH {
        return match delta_from(names, view, before, entries, content) {
            Some(delta) => (Storage { depth: Some(depth + 1), landmark }, Some(tree.oid), delta),
            None => whole(None),
        };
    }
    let base = landmark.filter(|landmark| landmark.depth < MAX_LANDMARK_DEPTH);
    let found = base
        .and_then(|base| Some((delta_from(names, view, &base.entries, entries, content)?, base)));
    let depth = found.as_ref().map_or(0, |(_, base)| base.depth + 1);
    let landmark = Some(Arc::new(Landmark { oid, entries: entries.clone(), depth }));
    match found {
        Some((delta, base)) => (Storage { depth: Some(depth), landmark }, Some(base.oid), delta),
        None => whole(landmark),
    }
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
    let mut pieces = Pieces::default();
    let (mut old, mut new) = (Walk::new(before), Walk::new(after));
    let (mut old_at, mut new_at) = (0, 0);
    loop {
        let len = old.skip_identical(&mut new, view);
        pieces.copy(old_at, len);
        old_at += len;
        new_at += len;
        let Some(entry) = new.peek() else { break };
        while let Some(gone) = old.peek().filter(|old| old.order(names, entry).is_lt()) {
            old_at += gone.len(view);
            old.step(1);
        }
        let len = entry.len(view);
        let replaced = old.peek().filter(|old| old.order(names, entry).is_eq());
        let same_len = replaced.map_or(0, |replaced| same_len(replaced, entry, view, len));
        pieces.copy(old_at, same_len);
        pieces.insert(new_at + same_len, len - same_len);
        if let Some(replaced) = replaced {
            old_at += replaced.len(view);
            old.step(1);
        }
        new_at += len;
        new.step(1);
    }
    let mut delta = Vec::with_capacity(USUAL_DELTA_LEN);
    let ops = pieces.ops(content);
    encode(before.content_len(view) as u64, content.len() as u64, ops, &mut delta).ok()?;
    (delta.len() < content.len() / 2).then_some(delta)
}

/// What a delta consists of: ranges of the base, each with a range of the result after it.
#[derive(Default)]
struct Pieces {
    done: Vec<Piece>,
    last: Piece,
}

#[derive(Clone, Copy, Default)]
struct Piece {
    copied_at: usize,
    copied_len: usize,
    inserted_at: usize,
    inserted_len: usize,
}

impl Pieces {
    fn copy(&mut self, at: usize, len: usize) {
        let last = &mut self.last;
        if len == 0 {
            return;
        }
        if last.inserted_len > 0 || last.copied_at + last.copied_len != at {
            let next = Piece { copied_at: at, ..Piece::default() };
            self.done.push(std::mem::replace(last, next));
        }
        self.last.copied_len += len;
    }

    /// That from the result which follows what came before.
    fn insert(&mut self, at: usize, len: usize) {
        if self.last.inserted_len == 0 {
            self.last.inserted_at = at;
        }
        self.last.inserted_len += len;
    }

    fn ops<'c>(&self, content: &'c [u8]) -> impl Iterator<Item = Op<'c>> {
        self.done.iter().chain([&self.last]).flat_map(|piece| {
            let copy = Op::Copy { offset: piece.copied_at as u64, len: piece.copied_len as u64 };
            [copy, Op::Insert(&content[piece.inserted_at..][..piece.inserted_len])]
        })
    }
}

/// How many bytes two entries of one name and kind begin with, of the `len` that the later one has.
fn same_len(before: &Entry, after: &Entry, view: View, len: usize) -> usize {
    match (&before.target, &after.target) {
        (before, after) if before.is_same(after, view) => len,
        (Target::File(_, before), Target::File(_, after)) if before != after => 0,
        _ => len - OID_LEN,
    }
}
