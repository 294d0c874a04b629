//! Storage of trees, as deltas against earlier trees of the same directory.
//!
//! There are two kinds of tree: git's, and the dialect's beside it ([`TreeForm`]).
//!
//! A chain of deltas has at most [`MAX_DEPTH`] links, git's own default. A longer chain is avoided
//! by a delta against a landmark: an earlier tree of the directory whose own chain is short.

mod content;
mod depths;
mod emptynames;
mod form;
mod reading;
mod writer;

use std::sync::Arc;

use gitpack::Oid;
use gitpack::delta::{Op, encode};

use crate::objects::directory::{DirectoryEntries, DirectoryEntry, EntryTarget, Tree, Walk};
use crate::read::names::Names;
pub(crate) use depths::Depths;
pub(crate) use form::{FileIds, Lead, Purpose, TreeForm};
pub(crate) use reading::{StoredEntry, stored_entries};
pub(crate) use writer::{LANES, Refused, TreeWriter};

/// Longest chain of deltas in packs, the default of `pack.depth`.
pub(crate) const MAX_DEPTH: u8 = 50;
/// Longest chain of a landmark. The rest of [`MAX_DEPTH`] is for the trees built on it.
pub(crate) const MAX_LANDMARK_DEPTH: u8 = 24;

/// Bytes of a delta's lengths, and of a copy and an insertion without the inserted bytes. Very long
/// ones take more.
const LENGTHS_LEN: usize = 8;
const PIECE_LEN: usize = 12;

/// Bytes of the oid at the end of an entry.
const OID_LEN: usize = 20;

/// A tree kept as a base for later ones, which share most of its entries.
#[derive(Debug)]
pub(crate) struct Landmark {
    oid: Oid,
    entries: DirectoryEntries,
    depth: u8,
}

/// The storage of a tree.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    /// Number of deltas needed to read it; `None` if it is not in the new pack.
    pub depth: Option<u8>,
    landmark: Option<Arc<Landmark>>,
}

impl Storage {
    /// The storage of a tree that an earlier run wrote.
    pub const ELSEWHERE: Self = Self { depth: None, landmark: None };
}

/// A new tree, to be stored.
struct New<'a> {
    entries: &'a DirectoryEntries,
    content: &'a [u8],
    oid: Oid,
    /// The delta from the tree before, if it was found already.
    pieces: Option<Pieces>,
}

/// The best storage of a tree: its [`Storage`], the base and the payload.
fn stored(
    names: &Names,
    form: &'static TreeForm,
    before: Option<(&DirectoryEntries, &Tree)>,
    New { entries, content, oid, pieces }: New<'_>,
) -> (Storage, Option<Oid>, Vec<u8>) {
    let delta_from = |before: &DirectoryEntries, pieces: Option<Pieces>| {
        let pieces = pieces.unwrap_or_else(|| Pieces::between(names, form, before, entries));
        pieces.delta(before.content_len(form), content)
    };
    let whole = |landmark| (Storage { depth: Some(0), landmark }, None, content.to_vec());
    let chain = before.and_then(|(before, tree)| Some((before, tree, tree.storage.depth?)));
    let Some((before, tree, depth)) = chain else { return whole(None) };
    let landmark = tree.storage.landmark.clone();
    if depth < MAX_DEPTH {
        return match delta_from(before, pieces) {
            Some(delta) => (Storage { depth: Some(depth + 1), landmark }, Some(tree.oid), delta),
            None => whole(None),
        };
    }
    let base = landmark.filter(|landmark| landmark.depth < MAX_LANDMARK_DEPTH);
    let found = base.and_then(|base| Some((delta_from(&base.entries, None)?, base)));
    let depth = found.as_ref().map_or(0, |(_, base)| base.depth + 1);
    let landmark = Some(Arc::new(Landmark { oid, entries: entries.clone(), depth }));
    match found {
        Some((delta, base)) => (Storage { depth: Some(depth), landmark }, Some(base.oid), delta),
        None => whole(landmark),
    }
}

/// A step from an earlier tree to a later one.
enum Step<'e> {
    /// The same bytes as in the earlier tree.
    Same { at: usize, len: usize },
    /// A new entry, and the entry of the same name that it replaces. `at` is the place in the
    /// earlier tree.
    New { at: usize, entry: &'e DirectoryEntry, replaced: Option<&'e DirectoryEntry> },
}

/// The steps from one tree to another. Entries are compared where the trees do not share a leaf.
struct Comparison<'e> {
    names: &'e Names,
    form: &'static TreeForm,
    old: Walk<'e>,
    new: Walk<'e>,
    /// Bytes of the earlier tree that are passed.
    at: usize,
}

impl<'e> Comparison<'e> {
    const fn new(
        names: &'e Names,
        form: &'static TreeForm,
        old: &'e DirectoryEntries,
        new: &'e DirectoryEntries,
    ) -> Self {
        Self { names, form, old: Walk::new(old), new: Walk::new(new), at: 0 }
    }
}

impl<'e> Iterator for Comparison<'e> {
    type Item = Step<'e>;

    fn next(&mut self) -> Option<Step<'e>> {
        let Self { names, form, old, new, at } = self;
        let len = old.skip_identical(new, form);
        if len > 0 {
            let start = *at;
            *at += len;
            return Some(Step::Same { at: start, len });
        }
        let entry = new.peek()?;
        while let Some(gone) = old.peek().filter(|old| old.order(names, entry).is_lt()) {
            *at += gone.len(form);
            old.step(1);
        }
        let start = *at;
        let replaced = old.peek().filter(|old| old.order(names, entry).is_eq());
        if let Some(replaced) = replaced {
            *at += replaced.len(form);
            old.step(1);
        }
        new.step(1);
        Some(Step::New { at: start, entry, replaced })
    }
}

/// A delta in pieces: ranges of the base, each followed by a range of the result.
#[derive(Debug, Default)]
struct Pieces {
    done: Vec<Piece>,
    last: Piece,
    /// Bytes of the result so far.
    len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    copied_at: usize,
    copied_len: usize,
    inserted_at: usize,
    inserted_len: usize,
}

impl Pieces {
    fn between(
        names: &Names,
        form: &'static TreeForm,
        before: &DirectoryEntries,
        after: &DirectoryEntries,
    ) -> Self {
        let mut pieces = Self::default();
        Comparison::new(names, form, before, after).for_each(|step| pieces.add(&step, form));
        pieces
    }

    /// Adds the next step.
    fn add(&mut self, step: &Step<'_>, form: &'static TreeForm) {
        match *step {
            Step::Same { at, len } => self.copy(at, len),
            Step::New { at, entry, replaced } => {
                let len = entry.len(form);
                let same_len = replaced.map_or(0, |replaced| same_len(replaced, entry, form, len));
                self.copy(at, same_len);
                self.insert(len - same_len);
            }
        }
    }

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
        self.len += len;
    }

    fn insert(&mut self, len: usize) {
        if self.last.inserted_len == 0 {
            self.last.inserted_at = self.len;
        }
        self.last.inserted_len += len;
        self.len += len;
    }

    /// The delta from a base of `base_len` bytes to `content`; `None` if it is longer than half of
    /// the content.
    fn delta(&self, base_len: usize, content: &[u8]) -> Option<Vec<u8>> {
        let pieces = || self.done.iter().chain([&self.last]);
        let len = pieces().map(|piece| piece.inserted_len + PIECE_LEN).sum::<usize>() + LENGTHS_LEN;
        let mut delta = Vec::with_capacity(len);
        let ops = pieces().flat_map(|piece| {
            let copy = Op::Copy { offset: piece.copied_at as u64, len: piece.copied_len as u64 };
            [copy, Op::Insert(&content[piece.inserted_at..][..piece.inserted_len])]
        });
        encode(base_len as u64, content.len() as u64, ops, &mut delta).ok()?;
        (delta.len() < content.len() / 2).then_some(delta)
    }
}

/// Number of equal bytes at the start of two entries of the same name and kind. `len` is the length
/// of the later one.
fn same_len(
    before: &DirectoryEntry,
    after: &DirectoryEntry,
    form: &'static TreeForm,
    len: usize,
) -> usize {
    match (&before.target, &after.target) {
        (before, after) if before.is_same(after, form.purpose) => len,
        (EntryTarget::File(_, before), EntryTarget::File(_, after)) if before != after => 0,
        (EntryTarget::Object(_), _) | (_, EntryTarget::Object(_)) => 0,
        _ => len - OID_LEN,
    }
}
