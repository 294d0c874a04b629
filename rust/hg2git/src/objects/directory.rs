//! Directories of a working tree as persistent values: versions share unchanged parts.
//!
//! Applying the changes of a manifest costs the directories on the changed paths, not the size of
//! the tree. The order is git's, which is also the order of full paths in a manifest: names compare
//! as if directories ended in `/`.
//!
//! A new directory has only places for the ids of its trees. [`crate::objects::trees`] makes the
//! trees of many directories at once, from the bottom up.
//!
//! Old conversions left manifests with `//` in paths, so a directory may have an empty name.

mod entries;
mod parts;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use entries::Edit;
use gitpack::Oid;
use gitpack::tree::{Mode, entry_order};

use crate::objects::trees::{Purpose, Storage};
use crate::read::files::FileId;
use crate::read::names::{NameId, Names};
pub(crate) use entries::{DirectoryEntries, Walk};
pub(crate) use parts::{LARGE, Parts};

/// A file or directory in a directory.
#[derive(Clone, Debug)]
pub(crate) struct DirectoryEntry {
    pub name: NameId,
    /// Bytes of the name.
    name_len: u32,
    pub target: EntryTarget,
}

impl DirectoryEntry {
    /// An entry with this name, which is one of `names`.
    pub fn new(names: &Names, name: &[u8], target: EntryTarget) -> Self {
        let name_len = u32::try_from(name.len()).expect("names are parts of paths");
        Self { name: names.find(name).expect("all names are numbered"), name_len, target }
    }

    /// Bytes of the name.
    pub const fn name_len(&self) -> usize {
        self.name_len as usize
    }

    /// An entry with the same name and another target.
    pub const fn with(&self, target: EntryTarget) -> Self {
        Self { name: self.name, name_len: self.name_len, target }
    }

    /// Whether both have the same name and the same target.
    fn is_identical(&self, other: &Self) -> bool {
        self.name == other.name && self.target.is_identical(&other.target)
    }

    /// The order of this entry against another, in git's order.
    pub fn order(&self, names: &Names, other: &Self) -> Ordering {
        let is_directory = other.target.is_directory();
        if self.name == other.name && self.target.is_directory() == is_directory {
            return Ordering::Equal;
        }
        order(names, self, names.get(other.name), is_directory)
    }
}

/// The target of an entry.
#[derive(Clone, Debug)]
pub(crate) enum EntryTarget {
    File(FileId, Mode),
    TrackedDirectory(Arc<TrackedDirectory>),
    /// An object without a file revision: an edit of the dialect, or a file of an earlier run's
    /// tree.
    Object(Arc<(Oid, Mode)>),
}

impl EntryTarget {
    pub const fn is_directory(&self) -> bool {
        matches!(self, Self::TrackedDirectory(_))
    }

    /// Whether both are the same file, or the same directory in memory.
    fn is_identical(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(a, mode_a), Self::File(b, mode_b)) => (a, mode_a) == (b, mode_b),
            (Self::TrackedDirectory(a), Self::TrackedDirectory(b)) => Arc::ptr_eq(a, b),
            (Self::Object(a), Self::Object(b)) => a == b,
            _ => false,
        }
    }

    /// Whether both have the same id in trees for this purpose, which have been made.
    pub fn is_same(&self, other: &Self, purpose: Purpose) -> bool {
        match (self, other) {
            (Self::TrackedDirectory(a), Self::TrackedDirectory(b)) => {
                Arc::ptr_eq(a, b) || a.tree(purpose).oid == b.tree(purpose).oid
            }
            _ => self.is_identical(other),
        }
    }
}

/// A tree object of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub oid: Oid,
    /// Its storage, see [`crate::objects::trees`].
    pub storage: Storage,
}

/// A directory with at least one entry.
#[derive(Debug)]
pub(crate) struct TrackedDirectory {
    pub entries: DirectoryEntries,
    /// The tree for commits.
    git: OnceLock<Tree>,
    /// The dialect's tree beside it.
    aside: OnceLock<Tree>,
    /// Whether no directory below has an empty name, so that git's tree has the same entries.
    pub is_plain: bool,
}

impl TrackedDirectory {
    fn new(entries: DirectoryEntries) -> Self {
        let is_plain = entries.are_plain();
        Self { entries, git: OnceLock::new(), aside: OnceLock::new(), is_plain }
    }

    /// A directory whose trees an earlier run wrote.
    pub fn stored(entries: DirectoryEntries, git: Oid, aside: Option<Oid>) -> Self {
        let tree = |oid| OnceLock::from(Tree { oid, storage: Storage::ELSEWHERE });
        let is_plain = entries.are_plain();
        Self { entries, git: tree(git), aside: aside.map_or_else(OnceLock::new, tree), is_plain }
    }

    /// A stored directory whose entries are not read. No change may be below it.
    pub fn unread(git: Oid, aside: Option<Oid>) -> Self {
        Self::stored(DirectoryEntries::default(), git, aside)
    }

    /// A directory for git in place of directories with an empty name. Trees of the aside form have
    /// no such directory.
    pub fn shown(entries: DirectoryEntries, git: Tree) -> Self {
        let aside = Tree { oid: Oid::EMPTY_TREE, storage: Storage::ELSEWHERE };
        Self { entries, git: git.into(), aside: aside.into(), is_plain: false }
    }

    /// Its tree for this purpose, which has been made.
    pub fn tree(&self, purpose: Purpose) -> &Tree {
        self.place(purpose).get().expect("trees are made from the bottom up")
    }

    /// Sets its tree for this purpose, once.
    pub fn set_tree(&self, purpose: Purpose, tree: Tree) {
        self.place(purpose).set(tree).expect("trees are made once");
    }

    const fn place(&self, purpose: Purpose) -> &OnceLock<Tree> {
        match purpose {
            Purpose::Git => &self.git,
            Purpose::Aside => &self.aside,
        }
    }
}

/// The oid of a directory's tree for this purpose, or of the empty tree.
pub(crate) fn oid_of(directory: Option<&Arc<TrackedDirectory>>, purpose: Purpose) -> Oid {
    directory.map_or(Oid::EMPTY_TREE, |directory| directory.tree(purpose).oid)
}

/// A directory whose trees are still to be made.
#[derive(Debug)]
pub(crate) struct NewDirectory {
    pub directory: Arc<TrackedDirectory>,
    /// The previous version of the directory.
    pub before: Option<Arc<TrackedDirectory>>,
    /// Number of directories above it.
    pub level: usize,
    /// Approximate bytes, in git's tree, of the entries in leaves that no other directory has.
    pub new_len: usize,
    /// Whether its trees were made before, and only their ids are needed again.
    pub is_again: bool,
}

/// A change of a tree: a file that is set or removed, or a directory at a new path.
#[derive(Clone, Debug)]
pub(crate) struct TreeChange<'a> {
    /// Path from the root.
    pub path: &'a [u8],
    /// `None` if the file is removed.
    pub target: Option<EntryTarget>,
}

/// Maker of directories from changes.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    /// All names of files and directories.
    pub names: &'a Names,
    /// New directories, not taken yet. Each comes after the directories in it, and after its
    /// previous version.
    pub made: Vec<NewDirectory>,
    is_again: bool,
}

/// The place of a directory in the tree.
#[derive(Clone, Copy)]
struct At {
    /// Bytes of its path, with the slash at the end.
    depth: usize,
    level: usize,
}

impl<'a> Replay<'a> {
    /// A maker of directories, with these names.
    pub const fn new(names: &'a Names) -> Self {
        Self { names, made: Vec::new(), is_again: false }
    }

    /// Applies `changes`, which ascend by path, to the tree `before`; `None` is the empty tree.
    ///
    /// Removal of a missing file changes nothing.
    pub fn apply(
        &mut self,
        before: Option<&Arc<TrackedDirectory>>,
        changes: &[TreeChange<'_>],
    ) -> Option<Arc<TrackedDirectory>> {
        self.apply_at(before, changes, At { depth: 0, level: 0 })
    }

    /// As [`Self::apply`], for a tree that was made before and then dropped.
    pub fn apply_again(
        &mut self,
        before: Option<&Arc<TrackedDirectory>>,
        changes: &[TreeChange<'_>],
    ) -> Option<Arc<TrackedDirectory>> {
        self.is_again = true;
        let made = self.apply(before, changes);
        self.is_again = false;
        made
    }

    /// As [`Self::apply`], in a subdirectory.
    fn apply_at(
        &mut self,
        before: Option<&Arc<TrackedDirectory>>,
        changes: &[TreeChange<'_>],
        At { depth, level }: At,
    ) -> Option<Arc<TrackedDirectory>> {
        let old = before.map_or(&[][..], |directory| directory.entries.leaves());
        let mut edit = Edit::new(old);
        let mut is_same = true;
        let mut remaining = changes;
        while let Some(first) = remaining.first() {
            let (name, slash) = component(first.path, depth);
            let is_below = |change: &TreeChange<'_>| {
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

            let is_directory =
                slash || first.target.as_ref().is_some_and(EntryTarget::is_directory);
            let replaced = edit.seek(self.names, name, is_directory);
            if replaced.is_some() {
                edit.skip();
            }
            let target = if slash {
                let inner = match replaced {
                    Some(DirectoryEntry {
                        target: EntryTarget::TrackedDirectory(inner), ..
                    }) => Some(inner),
                    _ => None,
                };
                let at = At { depth: depth + name.len() + 1, level: level + 1 };
                self.apply_at(inner, here, at).map(EntryTarget::TrackedDirectory)
            } else {
                first.target.clone()
            };
            is_same &= match (replaced, &target) {
                (Some(entry), Some(target)) => entry.target.is_identical(target),
                (None, None) => true,
                _ => false,
            };
            if let Some(target) = target {
                edit.push(match replaced {
                    Some(entry) => entry.with(target),
                    None => DirectoryEntry::new(self.names, name, target),
                });
            }
        }
        if is_same {
            return before.cloned();
        }
        let (entries, new_len) = edit.finish();
        if entries.is_empty() {
            return None;
        }
        let directory = Arc::new(TrackedDirectory::new(entries));
        let before = before.cloned();
        let (made, is_again) = (Arc::clone(&directory), self.is_again);
        self.made.push(NewDirectory { directory: made, before, level, new_len, is_again });
        Some(directory)
    }
}

/// The order of `entry` against an entry of this name and kind, in git's order.
fn order(names: &Names, entry: &DirectoryEntry, name: &[u8], is_directory: bool) -> Ordering {
    let (own_name, own_kind) = (names.get(entry.name), entry.target.is_directory());
    match entry_order(own_name, own_kind, name, is_directory) {
        // a file and a directory of the same name differ; the file comes first
        Ordering::Equal => own_kind.cmp(&is_directory),
        order => order,
    }
}

/// The component of `path` at `depth`, and whether a slash follows it.
fn component(path: &[u8], depth: usize) -> (&[u8], bool) {
    let rest = &path[depth..];
    match memchr::memchr(b'/', rest) {
        Some(end) => (&rest[..end], true),
        None => (rest, false),
    }
}
