//! Directories of a working tree as persistent values: a changed tree shares what did not change.
//!
//! Applying the changes of a manifest costs the directories on the changed paths, not the size of
//! the tree. Each directory knows the ids of its trees from the moment it is made: of git's, and of
//! the one that tells git-cinnabar the manifest, see [`crate::trees`]. Order is git's, which is also
//! the order of full paths in a manifest: names compare as if directories ended in `/`.
//!
//! Old conversions left manifests with `//` in paths; `doubled` shows them to git.

mod content;
mod doubled;
mod entries;
mod parts;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::Arc;

use gitpack::Oid;
use gitpack::tree::{Mode, entry_order};

use crate::files::{FileId, FileTable};
use crate::names::{NameId, Names};
use crate::trees::{Storage, TreeWriter, View};
use entries::Edit;
pub(crate) use entries::{Entries, Walk, entry_len};
pub(crate) use parts::{LARGE, Parts};

/// A file or directory in a directory.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: NameId,
    pub target: Target,
}

impl Entry {
    /// Where this entry stands to another, in git's order.
    pub fn order(&self, names: &Names, other: &Self) -> Ordering {
        let is_directory = other.target.is_directory();
        if self.name == other.name && self.target.is_directory() == is_directory {
            return Ordering::Equal;
        }
        order(names, self, names.get(other.name), is_directory)
    }
}

/// What an entry leads to.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    File(FileId, Mode),
    Directory(Arc<Directory>),
}

impl Target {
    pub const fn is_directory(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// Whether both lead to the same in trees of that kind.
    pub fn is_same(&self, other: &Self, view: View) -> bool {
        match (self, other) {
            (Self::File(a, mode_a), Self::File(b, mode_b)) => (a, mode_a) == (b, mode_b),
            (Self::Directory(a), Self::Directory(b)) => {
                Arc::ptr_eq(a, b) || a.tree(view).oid == b.tree(view).oid
            }
            _ => false,
        }
    }
}

/// A tree object of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub oid: Oid,
    /// How it is stored; see [`crate::trees`].
    pub storage: Storage,
}

/// One directory with at least one entry.
#[derive(Debug)]
pub(crate) struct Directory {
    pub entries: Entries,
    /// What a commit has.
    pub git: Tree,
    /// What a manifest commit has. It tells all of the directory.
    pub manifest: Tree,
    /// Whether no directory in it has an empty name, so that the entries are those of git's tree.
    pub is_plain: bool,
}

impl Directory {
    /// Its tree of that kind.
    pub const fn tree(&self, view: View) -> &Tree {
        match view {
            View::Git => &self.git,
            View::Manifest => &self.manifest,
        }
    }
}

/// One file that a changed tree has or has not; or a directory, where none was.
#[derive(Clone, Debug)]
pub(crate) struct Change<'a> {
    /// Path from the root.
    pub path: &'a [u8],
    /// `None` if the file is gone.
    pub target: Option<Target>,
}

/// What making trees needs to know, and where new ones go.
pub(crate) struct Context<'a> {
    pub names: &'a mut Names,
    pub files: &'a FileTable,
    /// Takes each tree that is made; without one, trees are taken to be in the store already.
    pub writer: Option<&'a mut TreeWriter>,
}

/// A file of a tree whose blob is not known: the caller converted too little.
#[derive(Debug)]
pub(crate) struct Unconverted(pub FileId);

impl Context<'_> {
    /// The tree `before` with `changes`, which ascend by path; `None` is the empty tree.
    ///
    /// Removing what is not there changes nothing.
    pub fn apply(
        &mut self,
        before: Option<&Arc<Directory>>,
        changes: &[Change<'_>],
    ) -> Result<Option<Arc<Directory>>, Unconverted> {
        self.apply_at(before, changes, 0)
    }

    /// As [`Self::apply`], in the directory whose path has `depth` bytes, its slash included.
    fn apply_at(
        &mut self,
        before: Option<&Arc<Directory>>,
        changes: &[Change<'_>],
        depth: usize,
    ) -> Result<Option<Arc<Directory>>, Unconverted> {
        let old = before.map_or(&[][..], |directory| directory.entries.leaves());
        let mut edit = Edit::new(old);
        let mut is_same = true;
        let mut remaining = changes;
        while let Some(first) = remaining.first() {
            let (name, slash) = component(first.path, depth);
            let is_below = |change: &Change<'_>| {
                let end = depth + name.len();
                slash
                    && change.path.get(depth..end) == Some(name)
                    && change.path.get(end) == Some(&b'/')
            };
            let count = if slash {
                remaining.iter().take_while(|change| is_below(change)).count()
            } else {
                1
            };
            let (here, after) = remaining.split_at(count);
            remaining = after;

            let is_directory = slash || first.target.as_ref().is_some_and(Target::is_directory);
            let replaced = edit.seek(self.names, name, is_directory);
            if replaced.is_some() {
                edit.skip();
            }
            let target = if slash {
                let inner = match replaced {
                    Some(Entry { target: Target::Directory(inner), .. }) => Some(inner),
                    _ => None,
                };
                self.apply_at(inner, here, depth + name.len() + 1)?.map(Target::Directory)
            } else {
                first.target.clone()
            };
            is_same &= match (replaced, &target) {
                (Some(entry), Some(target)) => entry.target.is_same(target, View::Manifest),
                (None, None) => true,
                _ => false,
            };
            if let Some(target) = target {
                let name = self.names.number(name);
                edit.push(self.names, Entry { name, target });
            }
        }
        if is_same {
            return Ok(before.cloned());
        }
        let entries = edit.finish(self.names);
        if entries.is_empty() {
            return Ok(None);
        }
        self.make(before.map(AsRef::as_ref), entries).map(Arc::new).map(Some)
    }
}

/// Where `entry` stands to one of this name and kind, in git's order.
fn order(names: &Names, entry: &Entry, name: &[u8], is_directory: bool) -> Ordering {
    let (own_name, own_kind) = (names.get(entry.name), entry.target.is_directory());
    match entry_order(own_name, own_kind, name, is_directory) {
        // a file and a directory of one name differ; the file comes first
        Ordering::Equal => own_kind.cmp(&is_directory),
        order => order,
    }
}

/// The component of `path` that begins at `depth`, and whether a slash follows it.
fn component(path: &[u8], depth: usize) -> (&[u8], bool) {
    let rest = &path[depth..];
    match memchr::memchr(b'/', rest) {
        Some(end) => (&rest[..end], true),
        None => (rest, false),
    }
}
