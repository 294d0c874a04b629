//! Trees of a history: each is read once, and passes its reasons on to all trees that contain it.

use std::hash::BuildHasher as _;
use std::io::{Read, Write};

use gitpack::Oid;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use revlog::manifest::MAX_DEPTH;

use crate::error::{Error, Result};
use crate::judge::reasons::{MOST_DETAIL, TreeReasons};
use crate::judge::tree::{LONGEST_PATH, TreeRules, culprit, judge, not_a_tree};
use crate::read::trees::{ASKED_AT_ONCE, EntryKind, GitTrees, entries, kind_of};
use dialect::Reason;

/// Memory of a tree, about: its id, reasons, extent, and its places in the tables.
const TREE_BYTES: usize = 60;
/// Memory of a directory in a tree.
const DIRECTORY_BYTES: usize = 6;

/// Trees, those of commits first, each before the directories that only it and later ones contain.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    oids: Vec<Oid>,
    reasons: Vec<TreeReasons>,
    extents: Vec<Extent>,
    /// Ends of the directories of each tree in `directories`.
    ends: Vec<usize>,
    directories: Vec<u32>,
    /// Reasons of the names of `directories` that have files.
    names: HashMap<usize, TreeReasons>,
    /// Lengths of the names of `directories`, at most [`u16::MAX`].
    name_lens: Vec<u16>,
    numbers: HashTable<u32>,
    hashing: DefaultHashBuilder,
    rules: TreeRules,
}

/// Extent of a tree. Both numbers stop at [`u16::MAX`], far above the limits of Mercurial.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    /// Length of the longest path of a file.
    longest_path: u16,
    /// Levels of directories.
    height: u16,
}

impl Extent {
    /// Extent of a tree that contains itself; only a damaged repository has one.
    const ENDLESS: Self = Self { longest_path: u16::MAX, height: u16::MAX };

    /// Includes a directory of the tree.
    fn include(&mut self, name_len: u16, below: Self) {
        if below.longest_path > 0 {
            let longest = name_len.saturating_add(1).saturating_add(below.longest_path);
            self.longest_path = self.longest_path.max(longest);
        }
        self.height = self.height.max(below.height.saturating_add(1));
    }

    /// Whether Mercurial cannot store the tree, `path_len` bytes and `depth` directories below the
    /// root.
    fn exceeds(self, path_len: usize, depth: usize) -> bool {
        path_len + usize::from(self.longest_path) > LONGEST_PATH
            || depth + usize::from(self.height) > MAX_DEPTH
    }
}

impl Trees {
    /// No trees.
    pub fn new(rules: TreeRules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Number of a tree, which is added unless it is there.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`].
    pub fn add(&mut self, oid: Oid) -> Result<u32> {
        let Self { oids, numbers, hashing, .. } = self;
        let is_same = |number: &u32| oids[*number as usize] == oid;
        if let Some(number) = numbers.find(hashing.hash_one(oid), is_same) {
            return Ok(*number);
        }
        let number = u32::try_from(oids.len()).map_err(|_| Error::TooMany)?;
        oids.push(oid);
        let hash = |number: &u32| hashing.hash_one(oids[*number as usize]);
        numbers.insert_unique(hashing.hash_one(oid), number, hash);
        Ok(number)
    }

    /// Reads all trees that were added, and the directories in them. After each, `tick` gets the
    /// number of trees read and of those known so far, and about the memory they take.
    ///
    /// # Errors
    ///
    /// The errors of [`GitTrees::read_others`] and `tick`.
    pub fn read(
        &mut self,
        git: &GitTrees<impl Write, impl Read>,
        mut tick: impl FnMut(usize, usize, usize) -> Result<()>,
    ) -> Result<()> {
        while self.ends.len() < self.oids.len() {
            let next = &self.oids[self.ends.len()..];
            let next = next[..next.len().min(ASKED_AT_ONCE)].to_vec();
            git.read_others(&next, |_, kind, content| {
                if kind == b"tree" {
                    self.push(content)?;
                } else {
                    self.reasons.push(not_a_tree());
                    self.extents.push(Extent::default());
                }
                self.ends.push(self.directories.len());
                let bytes = self.oids.len() * TREE_BYTES + self.directories.len() * DIRECTORY_BYTES;
                tick(self.ends.len(), self.oids.len(), bytes)
            })?;
        }
        self.inherit();
        Ok(())
    }

    /// Adds the content of the next tree.
    fn push(&mut self, content: &[u8]) -> Result<()> {
        let short = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
        let judged = judge(content, self.rules);
        for (name, oid) in &judged.directories {
            let number = self.add(*oid)?;
            let of_name = TreeReasons::of_name(name, self.rules);
            if !of_name.is_empty() {
                self.names.insert(self.directories.len(), of_name);
            }
            self.directories.push(number);
            self.name_lens.push(short(name.len()));
        }
        self.reasons.push(judged.reasons);
        self.extents.push(Extent { longest_path: short(judged.longest_file), height: 0 });
        Ok(())
    }

    /// Gives each tree the reasons and the extents of its directories: depth first, directories
    /// before the trees that contain them.
    fn inherit(&mut self) {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let mut states = vec![State::New; self.oids.len()];
        let mut open: Vec<(usize, usize)> = Vec::new();
        for root in 0..self.oids.len() {
            if states[root] == State::New {
                states[root] = State::Open;
                open.push((root, self.start(root)));
            }
            while let Some((number, at)) = open.pop() {
                if at == self.ends[number] {
                    states[number] = State::Done;
                    continue;
                }
                let below = self.directories[at] as usize;
                if states[below] == State::New {
                    states[below] = State::Open;
                    open.push((number, at));
                    open.push((below, self.start(below)));
                    continue;
                }
                let is_done = states[below] == State::Done;
                let extent = if is_done { self.extents[below] } else { Extent::ENDLESS };
                let reasons = self.reasons[below];
                self.reasons[number].inherit(reasons);
                if let Some(of_name) = self.names.get(&at).filter(|_| reasons.has_file()) {
                    self.reasons[number].add_all(*of_name);
                }
                self.extents[number].include(self.name_lens[at], extent);
                open.push((number, at + 1));
            }
        }
    }

    /// Start of the directories of a tree.
    fn start(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Number of trees.
    pub fn len(&self) -> usize {
        self.oids.len()
    }

    fn find(&self, oid: &Oid) -> Option<usize> {
        let is_same = |number: &u32| self.oids[*number as usize] == *oid;
        let number = self.numbers.find(self.hashing.hash_one(oid), is_same);
        number.map(|number| *number as usize)
    }

    /// First reason of a commit whose root is this tree.
    pub fn reason_of_root(&self, oid: &Oid) -> Option<Reason> {
        let number = self.find(oid)?;
        let mut reasons = self.reasons[number];
        if self.extents[number].exceeds(0, 0) {
            reasons.add(Reason::Path);
        }
        reasons.of_root()
    }

    /// Whether a tree has entries that extras keep, at any depth.
    pub fn has_extra(&self, oid: &Oid) -> bool {
        self.find(oid).is_some_and(|number| self.reasons[number].has_extra())
    }

    /// Path of the first entry with `reason` below the root `oid`, cut at [`MOST_DETAIL`].
    ///
    /// # Errors
    ///
    /// The errors of [`GitTrees::get`].
    pub fn path(
        &self,
        git: &GitTrees<impl Write, impl Read>,
        mut oid: Oid,
        reason: Reason,
    ) -> Result<Vec<u8>> {
        let mut path = Vec::new();
        let mut depth = 0;
        while path.len() < MOST_DETAIL {
            let tree = git.get(oid)?;
            if let Some(name) = culprit(&tree.content, reason, path.is_empty(), self.rules) {
                path.extend_from_slice(name);
                break;
            }
            let directories = judge(&tree.content, self.rules).directories;
            let is_named = |(name, oid): &&(&[u8], Oid)| {
                let below = self.find(oid).map(|number| self.reasons[number]);
                let of_name = TreeReasons::of_name(name, self.rules);
                of_name.has_at(path.is_empty(), reason) && below.is_some_and(TreeReasons::has_file)
            };
            if let Some((name, _)) = directories.iter().find(is_named) {
                path.extend_from_slice(name);
                break;
            }
            let has_reason = |(_, oid): &&(&[u8], Oid)| {
                self.find(oid).is_some_and(|number| self.reasons[number].has(reason))
            };
            let is_too_long = |(name, oid): &&(&[u8], Oid)| {
                let extent = self.find(oid).map(|number| self.extents[number]);
                extent.is_some_and(|extent| extent.exceeds(path.len() + name.len() + 1, depth + 1))
            };
            let by_extent =
                || directories.iter().filter(|_| reason == Reason::Path).find(is_too_long);
            let Some((name, below)) = directories.iter().find(has_reason).or_else(by_extent) else {
                let is_file = |mode| matches!(kind_of(mode), Some(EntryKind::File(_)));
                let is_long = |len: usize| path.len() + len > LONGEST_PATH;
                let long_file = entries(&tree.content)
                    .find(|entry| is_file(entry.mode) && is_long(entry.name.len()));
                path.extend_from_slice(long_file.map_or(b"", |entry| entry.name));
                break;
            };
            path.extend_from_slice(name);
            path.push(b'/');
            oid = *below;
            depth += 1;
        }
        path.truncate(MOST_DETAIL);
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(byte: u8) -> Oid {
        Oid::from_bytes([byte; 20])
    }

    /// Answer of git with a tree of directories.
    fn answer(byte: u8, directories: &[(&str, u8)]) -> Vec<u8> {
        let entry =
            |(name, byte): &(&str, u8)| [b"40000 ", name.as_bytes(), b"\0", &[*byte; 20]].concat();
        let content: Vec<u8> = directories.iter().flat_map(entry).collect();
        let head = format!("{} tree {}\n", oid(byte), content.len());
        [head.as_bytes(), &content, b"\n"].concat()
    }

    #[test]
    fn a_tree_that_contains_itself_is_refused() {
        let given =
            [answer(1, &[("a", 2)]), answer(2, &[("b", 1), ("c", 3)]), answer(3, &[])].concat();
        let git = GitTrees::new(Vec::new(), &*given, 0);
        let mut trees = Trees::default();
        trees.add(oid(1)).expect("is the first");
        trees.read(&git, |_, _, _| Ok(())).expect("is read");
        let reasons = [1, 2, 3].map(|byte| trees.reason_of_root(&oid(byte)));
        assert_eq!(reasons, [Some(Reason::Path), Some(Reason::Path), None]);
    }
}
