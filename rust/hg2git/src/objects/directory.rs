//! Directories of a working tree as persistent values: a changed tree shares what did not change.
//!
//! Applying the changes of a manifest costs the directories on the changed paths, not the size of
//! the tree. Order is git's, which is also the order of full paths in a manifest: names compare as
//! if directories ended in `/`.
//!
//! The ids of a directory's trees are not known when it is made, only the place for them is there:
//! [`crate::objects::trees`] makes the trees of many directories at once, from the bottom up.
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
    /// The entry of that name, which is one of `names`.
    pub fn new(names: &Names, name: &[u8], target: EntryTarget) -> Self {
        let name_len = u32::try_from(name.len()).expect("names are parts of paths");
        Self { name: names.find(name).expect("all names are numbered"), name_len, target }
    }

    /// Bytes of the name.
    pub const fn name_len(&self) -> usize {
        self.name_len as usize
    }

    /// One of the same name that leads elsewhere.
    pub const fn with(&self, target: EntryTarget) -> Self {
        Self { name: self.name, name_len: self.name_len, target }
    }

    /// Whether both have the same name, and lead to the same file or one directory.
    fn is_identical(&self, other: &Self) -> bool {
        self.name == other.name && self.target.is_identical(&other.target)
    }

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
pub(crate) enum EntryTarget {
    File(FileId, Mode),
    TrackedDirectory(Arc<TrackedDirectory>),
    /// An object that is no file revision: an edit of the dialect, or a file of an earlier run's tree.
    Object(Arc<(Oid, Mode)>),
}

impl EntryTarget {
    pub const fn is_directory(&self) -> bool {
        matches!(self, Self::TrackedDirectory(_))
    }

    /// Whether both are the same file, or one directory.
    fn is_identical(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(a, mode_a), Self::File(b, mode_b)) => (a, mode_a) == (b, mode_b),
            (Self::TrackedDirectory(a), Self::TrackedDirectory(b)) => Arc::ptr_eq(a, b),
            (Self::Object(a), Self::Object(b)) => a == b,
            _ => false,
        }
    }

    /// Whether both lead to the same in trees of that kind, which have been made.
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
    /// How it is stored; see [`crate::objects::trees`].
    pub storage: Storage,
}

/// One directory with at least one entry.
#[derive(Debug)]
pub(crate) struct TrackedDirectory {
    pub entries: DirectoryEntries,
    /// What a commit has.
    git: OnceLock<Tree>,
    /// What the dialect has beside it.
    aside: OnceLock<Tree>,
    /// Whether no directory in it has an empty name, so that the entries are those of git's tree.
    pub is_plain: bool,
}

impl TrackedDirectory {
    fn new(entries: DirectoryEntries) -> Self {
        let is_plain = entries.are_plain();
        Self { entries, git: OnceLock::new(), aside: OnceLock::new(), is_plain }
    }

    /// One whose trees an earlier run wrote.
    pub fn stored(entries: DirectoryEntries, git: Oid, aside: Option<Oid>) -> Self {
        let tree = |oid| OnceLock::from(Tree { oid, storage: Storage::ELSEWHERE });
        let is_plain = entries.are_plain();
        Self { entries, git: tree(git), aside: aside.map_or_else(OnceLock::new, tree), is_plain }
    }

    /// The same, of which only the trees are known. No change may lead into it.
    pub fn unread(git: Oid, aside: Option<Oid>) -> Self {
        Self::stored(DirectoryEntries::default(), git, aside)
    }

    /// What git is shown instead of directories with an empty name; the aside has no such directory.
    pub fn shown(entries: DirectoryEntries, git: Tree) -> Self {
        let aside = Tree { oid: Oid::EMPTY_TREE, storage: Storage::ELSEWHERE };
        Self { entries, git: git.into(), aside: aside.into(), is_plain: false }
    }

    /// Its tree of that kind, which has been made.
    pub fn tree(&self, purpose: Purpose) -> &Tree {
        self.place(purpose).get().expect("trees are made from the bottom up")
    }

    /// Notes its tree of that kind, once.
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

/// The oid of the tree of that kind, also of no directory.
pub(crate) fn oid_of(directory: Option<&Arc<TrackedDirectory>>, purpose: Purpose) -> Oid {
    directory.map_or(Oid::EMPTY_TREE, |directory| directory.tree(purpose).oid)
}

/// A directory whose trees are still to be made.
#[derive(Debug)]
pub(crate) struct NewDirectory {
    pub directory: Arc<TrackedDirectory>,
    /// What it was before.
    pub before: Option<Arc<TrackedDirectory>>,
    /// How many directories it is in. Those that are in it have more.
    pub level: usize,
    /// Bytes that those of its entries take in a tree which it shares with no other directory, about.
    pub new_len: usize,
    /// Whether its trees were made before, and only have to be known again.
    pub is_again: bool,
}

/// One file that a changed tree has or has not; or a directory, where none was.
#[derive(Clone, Debug)]
pub(crate) struct TreeChange<'a> {
    /// Path from the root.
    pub path: &'a [u8],
    /// `None` if the file is gone.
    pub target: Option<EntryTarget>,
}

/// Makes directories of changes.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    /// All names of files and directories.
    pub names: &'a Names,
    /// Those made and not taken yet; what is in one comes before it, and what it was before, too.
    pub made: Vec<NewDirectory>,
    is_again: bool,
}

/// Where in the tree a directory is.
#[derive(Clone, Copy)]
struct At {
    /// Bytes of its path, its slash included.
    depth: usize,
    level: usize,
}

impl<'a> Replay<'a> {
    /// Nothing made yet.
    pub const fn new(names: &'a Names) -> Self {
        Self { names, made: Vec::new(), is_again: false }
    }

    /// The tree `before` with `changes`, which ascend by path; `None` is the empty tree.
    ///
    /// Removing what is not there changes nothing.
    pub fn apply(
        &mut self,
        before: Option<&Arc<TrackedDirectory>>,
        changes: &[TreeChange<'_>],
    ) -> Option<Arc<TrackedDirectory>> {
        self.apply_at(before, changes, At { depth: 0, level: 0 })
    }

    /// As [`Self::apply`], of a tree that was made before and is not there any more.
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

    /// As [`Self::apply`], in a directory of the tree.
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

/// Where `entry` stands to one of this name and kind, in git's order.
fn order(names: &Names, entry: &DirectoryEntry, name: &[u8], is_directory: bool) -> Ordering {
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
