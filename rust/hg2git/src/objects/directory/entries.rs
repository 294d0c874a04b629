//! The entries of a directory, in leaves that its versions share.
//!
//! One change in a directory of a hundred thousand files makes a new list of leaves, with one new
//! leaf. Sums over the entries of a leaf (length, special names) are computed once.

use std::sync::Arc;

use super::DirectoryEntry;
use super::EntryTarget;
use super::order;
use crate::objects::trees::TreeForm;
use crate::read::names::Names;

/// Number of entries in a leaf, about. A directory with a single leaf may have fewer.
const LONGEST: usize = 64;
const SHORTEST: usize = 16;

/// Bytes of an entry in the content of git's tree, without mode and name: space, NUL, oid.
const FRAME_LEN: usize = 22;

/// Entries in git's order.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirectoryEntries(Vec<Arc<Leaf>>);

/// Consecutive entries, at least one.
#[derive(Debug)]
pub(crate) struct Leaf {
    entries: Vec<DirectoryEntry>,
    content_len: usize,
    is_plain: bool,
}

impl Leaf {
    fn new(entries: Vec<DirectoryEntry>) -> Self {
        let content_len = entries.iter().map(|entry| entry.len(&TreeForm::GIT)).sum();
        let is_plain = entries.iter().all(|entry| match &entry.target {
            EntryTarget::TrackedDirectory(inner) => inner.is_plain && entry.name_len > 0,
            EntryTarget::File(..) | EntryTarget::Object(_) => true,
        });
        Self { entries, content_len, is_plain }
    }

    /// Bytes of the entries in a tree of this form.
    pub fn content_len(&self, form: &TreeForm) -> usize {
        self.content_len + form.prefix_len * self.entries.len()
    }

    fn last(&self) -> &DirectoryEntry {
        &self.entries[self.entries.len() - 1]
    }
}

impl DirectoryEntries {
    /// Entries from a sorted list.
    pub fn from_vec(entries: Vec<DirectoryEntry>) -> Self {
        let mut edit = Edit::new(&[]);
        edit.open = entries;
        edit.finish().0
    }

    /// The leaves, in order.
    pub const fn leaves(&self) -> &[Arc<Leaf>] {
        self.0.as_slice()
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = &DirectoryEntry> {
        self.0.iter().flat_map(|leaf| &leaf.entries)
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of the entries in a tree of this form.
    pub fn content_len(&self, form: &TreeForm) -> usize {
        self.0.iter().map(|leaf| leaf.content_len(form)).sum()
    }

    /// Whether neither these directories nor directories below them have an empty name.
    pub fn are_plain(&self) -> bool {
        self.0.iter().all(|leaf| leaf.is_plain)
    }

    /// Whether a file and a directory have one name.
    pub fn have_shared_name(&self, names: &Names) -> bool {
        let mut places = (0..).zip(&self.0).flat_map(|(number, leaf)| {
            (0..).zip(&leaf.entries).map(move |(at, entry)| (number, at, entry))
        });
        places.any(|(number, at, entry)| {
            let name = names.get(entry.name);
            let here = self.0[number].entries[..at].iter().rev();
            let before = self.0[..number].iter().rev().flat_map(|leaf| leaf.entries.iter().rev());
            // all entries between the two begin with the name
            entry.target.is_directory()
                && here
                    .chain(before)
                    .take_while(|entry| names.get(entry.name).starts_with(name))
                    .any(|other| other.name == entry.name && !other.target.is_directory())
        })
    }

    /// The entry with this name and kind.
    pub fn find(&self, names: &Names, name: &[u8], is_directory: bool) -> Option<&DirectoryEntry> {
        let is_before = |entry: &DirectoryEntry| order(names, entry, name, is_directory).is_lt();
        let leaf = self.0.get(self.0.partition_point(|leaf| is_before(leaf.last())))?;
        let found = &leaf.entries[leaf.entries.partition_point(is_before)];
        order(names, found, name, is_directory).is_eq().then_some(found)
    }
}

impl DirectoryEntry {
    /// Bytes of the entry in a tree of this form: mode, space, name, NUL, oid.
    pub const fn len(&self, form: &TreeForm) -> usize {
        let mode_len = if self.target.is_directory() { 5 } else { 6 };
        mode_len + form.prefix_len + self.name_len as usize + FRAME_LEN
    }
}

/// A walk over entries that can take whole leaves.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'e> {
    leaves: &'e [Arc<Leaf>],
    /// Number of entries of the first leaf that are passed.
    behind: usize,
}

impl<'e> Walk<'e> {
    pub const fn new(entries: &'e DirectoryEntries) -> Self {
        Self { leaves: entries.leaves(), behind: 0 }
    }

    /// The next entry.
    pub fn peek(&self) -> Option<&'e DirectoryEntry> {
        self.leaves.first().map(|leaf| &leaf.entries[self.behind])
    }

    /// Passes the next entries as long as both walks have the same. Returns their bytes in a tree
    /// of this form.
    pub fn skip_identical(&mut self, other: &mut Self, form: &TreeForm) -> usize {
        let mut len = 0;
        while let ([leaf, ..], [other_leaf, ..]) = (self.leaves, other.leaves) {
            if (self.behind, other.behind) == (0, 0) && Arc::ptr_eq(leaf, other_leaf) {
                len += leaf.content_len(form);
                self.step_leaf();
                other.step_leaf();
                continue;
            }
            let entries = &leaf.entries[self.behind..];
            let other_entries = &other_leaf.entries[other.behind..];
            let both = entries.iter().zip(other_entries);
            let same = both.take_while(|(entry, other)| entry.is_identical(other));
            let (count, same_len) =
                same.fold((0, 0), |(count, len), (entry, _)| (count + 1, len + entry.len(form)));
            len += same_len;
            self.step(count);
            other.step(count);
            if count < entries.len() && count < other_entries.len() {
                break;
            }
        }
        len
    }

    /// Passes `count` entries, all in the next leaf.
    pub fn step(&mut self, count: usize) {
        self.behind += count;
        if self.leaves.first().is_some_and(|leaf| leaf.entries.len() == self.behind) {
            self.step_leaf();
        }
    }

    fn step_leaf(&mut self) {
        self.behind = 0;
        self.leaves = &self.leaves[1..];
    }
}

/// An edit: new entries made from old ones, in order.
pub(super) struct Edit<'e> {
    rest: Walk<'e>,
    made: Vec<Arc<Leaf>>,
    /// Entries behind the new leaves, in no leaf yet.
    open: Vec<DirectoryEntry>,
    /// Bytes of the entries of new leaves in git's tree.
    new_len: usize,
}

impl<'e> Edit<'e> {
    pub fn new(old: &'e [Arc<Leaf>]) -> Self {
        let rest = Walk { leaves: old, behind: 0 };
        // most directories have one leaf, and get at most one more entry
        let room = old.first().map_or(0, |first| first.entries.len() + 1);
        let (made, open) = (Vec::with_capacity(old.len() + 1), Vec::with_capacity(room));
        Self { rest, made, open, new_len: 0 }
    }

    /// Takes all old entries before this name and kind. Returns the old entry of this name and
    /// kind, or `None`.
    pub fn seek(
        &mut self,
        names: &Names,
        name: &[u8],
        is_directory: bool,
    ) -> Option<&'e DirectoryEntry> {
        let is_before = |entry: &DirectoryEntry| order(names, entry, name, is_directory).is_lt();
        let whole = self.rest.leaves.partition_point(|leaf| is_before(leaf.last()));
        self.take_leaves(whole);
        let leaf = self.rest.leaves.first()?;
        let behind = self.rest.behind;
        let count = leaf.entries[behind..].partition_point(is_before);
        self.open.extend_from_slice(&leaf.entries[behind..behind + count]);
        self.rest.behind += count;
        self.rest.peek().filter(|found| order(names, found, name, is_directory).is_eq())
    }

    /// Leaves out the next old entry.
    pub fn skip(&mut self) {
        self.rest.step(1);
    }

    /// Adds a new entry.
    pub fn push(&mut self, entry: DirectoryEntry) {
        self.open.push(entry);
        if self.open.len() >= 2 * LONGEST {
            self.close();
        }
    }

    /// Takes all remaining old entries. Returns also the bytes in git's tree of the entries outside
    /// old leaves.
    pub fn finish(mut self) -> (DirectoryEntries, usize) {
        self.take_leaves(self.rest.leaves.len());
        if (1..SHORTEST).contains(&self.open.len())
            && let Some(last) = self.made.pop()
        {
            self.open.splice(..0, last.entries.iter().cloned());
        }
        self.close();
        (DirectoryEntries(self.made), self.new_len)
    }

    /// Takes the remaining entries of the next `count` leaves.
    fn take_leaves(&mut self, count: usize) {
        let (mut taken, rest) = self.rest.leaves.split_at(count);
        if let [first, after @ ..] = taken
            && self.rest.behind > 0
        {
            self.open.extend_from_slice(&first.entries[self.rest.behind..]);
            taken = after;
        }
        // few entries join the next leaf, otherwise leaves would get shorter and shorter
        if let [first, after @ ..] = taken
            && !self.open.is_empty()
            && self.open.len().min(first.entries.len()) < SHORTEST
        {
            self.open.extend_from_slice(&first.entries);
            taken = after;
        }
        if !taken.is_empty() {
            self.close();
            self.made.extend_from_slice(taken);
        }
        if count > 0 {
            self.rest = Walk { leaves: rest, behind: 0 };
        }
    }

    /// Makes leaves of about equal length from the open entries.
    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        if (1..=LONGEST).contains(&open.len()) {
            return self.add(Leaf::new(open));
        }
        let mut open = open.into_iter();
        for parts in (1..=open.len().div_ceil(LONGEST)).rev() {
            let len = open.len().div_ceil(parts);
            let entries = open.by_ref().take(len).collect();
            self.add(Leaf::new(entries));
        }
    }

    fn add(&mut self, leaf: Leaf) {
        self.new_len += leaf.content_len;
        self.made.push(Arc::new(leaf));
    }
}

#[cfg(test)]
mod tests;
