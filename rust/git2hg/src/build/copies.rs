//! Exact copies: sources of added files with the same blob.
//!
//! The rules are git's for `-C -C100%`, with every old file as a candidate:
//! `find_identical_files()` in `diffcore-rename.c`.

use std::io::{Read, Write};

use gitpack::Oid;
use hashbrown::{HashMap, HashSet};
use revlog::manifest::Flag;

use crate::error::Result;
use crate::read::diff::{Change, CommitChanges, join};
use crate::read::trees::{ASKED_AT_ONCE, EntryKind, FileEntry, GitTrees, entries, kind_of};

/// Candidates with one blob that are compared.
const MOST_SOURCES: usize = 100;
/// Score of a removed source with the name of the copy.
const BEST_SCORE: u32 = 2;

/// Sources by the paths of their copies.
pub(crate) type CopySources = HashMap<Box<[u8]>, Box<[u8]>>;

/// Blobs in the trees of the commits so far. To find that no file of a large tree has a new blob,
/// each of its directories would be read.
#[derive(Debug, Default)]
pub(crate) struct SeenBlobs {
    /// First bytes of their oids, which others may have, too.
    starts: HashSet<[u8; 4]>,
    /// Trees of parents from before, whose blobs are not among them yet.
    unread: Vec<Oid>,
    /// Whether somebody has asked.
    is_asked: bool,
}

impl SeenBlobs {
    /// Adds the tree of a commit that was known before.
    pub fn add_known(&mut self, tree: Oid) {
        self.unread.push(tree);
    }

    /// Adds the blobs of a commit.
    pub fn add(&mut self, changes: &CommitChanges) {
        let mut add = |file: Option<FileEntry>| {
            self.starts.extend(file.and_then(|(_, blob)| start_of(blob)));
        };
        match changes {
            CommitChanges::One(changes) => changes.iter().for_each(|change| add(change.new)),
            CommitChanges::Two(paths) => paths.iter().for_each(|path| add(path.new)),
            CommitChanges::First(changes) => changes.files.iter().for_each(|file| add(file.new)),
            CommitChanges::Chain(steps) => steps.iter().for_each(|step| self.add(step)),
        }
    }

    /// Whether the tree of a commit so far may have a blob, after [`Self::prepare`].
    fn may_have(&self, blob: Oid) -> bool {
        !self.unread.is_empty() || start_of(blob).is_none_or(|start| self.starts.contains(&start))
    }

    /// Reads the trees from before, unless this is the first time: one search takes as long.
    fn prepare(&mut self, trees: &GitTrees<impl Write, impl Read>) -> Result<()> {
        if !std::mem::replace(&mut self.is_asked, true) {
            return Ok(());
        }
        let mut reached: HashSet<Oid> = self.unread.iter().copied().collect();
        let roots = reached.iter().map(|root| ((), *root)).collect();
        walk(trees, roots, |(), _, oid, kind| match kind {
            EntryKind::Directory => reached.insert(oid).then_some(()),
            EntryKind::File(_) => {
                self.starts.extend(start_of(oid));
                None
            }
            EntryKind::Gitlink => None,
        })?;
        self.unread.clear();
        Ok(())
    }
}

fn start_of(blob: Oid) -> Option<[u8; 4]> {
    blob.as_bytes().first_chunk().copied()
}

/// Source of each added path that is a copy, where `old` is the tree before.
///
/// # Errors
///
/// The errors of [`GitTrees::get_some`].
pub(crate) fn copies(
    trees: &GitTrees<impl Write, impl Read>,
    (old, seen): (Oid, &mut SeenBlobs),
    changes: &[Change],
) -> Result<CopySources> {
    let mut found = CopySources::new();
    let mut added: Vec<(&[u8], FileEntry)> = changes
        .iter()
        .filter(|change| change.old.is_none())
        .filter_map(|change| Some((&*change.path, change.new?)))
        .filter(|(_, (_, blob))| *blob != Oid::EMPTY_BLOB)
        .collect();
    if !added.is_empty() {
        seen.prepare(trees)?;
        added.retain(|(_, (_, blob))| seen.may_have(*blob));
    }
    if added.is_empty() {
        return Ok(found);
    }
    let wanted: HashSet<Oid> = added.iter().map(|(_, (_, blob))| *blob).collect();
    let mut sources = having(trees, old, &wanted)?;
    for paths in sources.values_mut() {
        paths.sort_unstable();
    }
    let gone: HashSet<&[u8]> =
        changes.iter().filter(|change| change.new.is_none()).map(|change| &*change.path).collect();
    let mut used: HashSet<&[u8]> = HashSet::new();
    for (path, (flag, blob)) in added {
        let Some(sources) = sources.get(&blob) else { continue };
        let mut best: Option<(&[u8], u32)> = None;
        // a symbolic link is not a copy of a file, and does not count as a candidate
        let is_like = |other: Flag| other == flag || ![other, flag].contains(&Flag::Symlink);
        let sources = sources.iter().filter(|(_, other)| is_like(*other));
        for (source, _) in sources.take(MOST_SOURCES) {
            let is_free = gone.contains(&**source) && !used.contains(&**source);
            let score = u32::from(is_free) + u32::from(name_of(source) == name_of(path));
            if best.is_none_or(|(_, before)| score > before) {
                best = Some((source, score));
            }
            if score == BEST_SCORE {
                break;
            }
        }
        if let Some((source, _)) = best {
            used.insert(source);
            found.insert(path.into(), source.into());
        }
    }
    Ok(found)
}

fn name_of(path: &[u8]) -> &[u8] {
    memchr::memrchr(b'/', path).map_or(path, |at| &path[at + 1..])
}

type Sources = HashMap<Oid, Vec<(Box<[u8]>, Flag)>>;

/// Files below a root that have one of the `wanted` blobs.
fn having(
    trees: &GitTrees<impl Write, impl Read>,
    root: Oid,
    wanted: &HashSet<Oid>,
) -> Result<Sources> {
    let mut sources = Sources::new();
    walk(trees, vec![(Vec::new(), root)], |path, name, blob, kind| match kind {
        EntryKind::Directory => Some(join(path, name)),
        EntryKind::File(flag) if wanted.contains(&blob) => {
            let path = join(path, name).into_boxed_slice();
            sources.entry(blob).or_default().push((path, flag));
            None
        }
        _ => None,
    })?;
    Ok(sources)
}

/// Visits each entry below the `pending` trees, with the place of its tree.
///
/// `visit` returns the place of a tree whose entries are to be visited, too.
fn walk<Place>(
    trees: &GitTrees<impl Write, impl Read>,
    mut pending: Vec<(Place, Oid)>,
    mut visit: impl FnMut(&Place, &[u8], Oid, EntryKind) -> Option<Place>,
) -> Result<()> {
    while !pending.is_empty() {
        let from = pending.len().saturating_sub(ASKED_AT_ONCE);
        let mut directories = pending.split_off(from);
        let oids: Vec<Oid> = directories.iter().map(|(_, oid)| *oid).collect();
        let found = trees.get_some(&oids)?;
        pending.extend(directories.drain(found.len()..));
        for ((place, _), tree) in directories.iter().zip(found) {
            for entry in entries(&tree.content) {
                let inner =
                    kind_of(entry.mode).and_then(|kind| visit(place, entry.name, entry.oid, kind));
                pending.extend(inner.map(|inner| (inner, entry.oid)));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::diff::MergedPath;

    fn file(byte: u8) -> FileEntry {
        (Flag::Regular, Oid::from_bytes([byte; 20]))
    }

    #[test]
    fn blobs_of_all_commits_are_seen() {
        let path = Box::from(&b"a"[..]);
        let one = CommitChanges::One(vec![Change { path, old: Some(file(1)), new: Some(file(2)) }]);
        let path = Box::from(&b"a"[..]);
        let two = MergedPath { path, new: Some(file(3)), olds: [Some(file(2)), None] };
        let merged = CommitChanges::Chain(vec![one, CommitChanges::Two(vec![two])]);
        let may_have = |seen: &SeenBlobs| {
            let has = |byte| seen.may_have(Oid::from_bytes([byte; 20]));
            [1, 2, 3, 4].map(has)
        };
        let mut seen = SeenBlobs::default();
        assert_eq!(may_have(&seen), [false; 4]);
        seen.add(&merged);
        assert_eq!(may_have(&seen), [false, true, true, false]);
        seen.add_known(Oid::EMPTY_TREE);
        assert_eq!(may_have(&seen), [true; 4]);
    }
}
