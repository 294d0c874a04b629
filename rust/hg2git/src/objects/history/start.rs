//! The start trees, converted by earlier runs: the bases of the first changes of each line.
//!
//! For few changes, only the stored trees of the changed directories are read. If that does not
//! pay, or the store lacks a tree, the tree is made from the manifest again. Both ways make the
//! same objects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dialect::{Dialect, FileChange};
use gitpack::pack::Objects;
use gitpack::{ObjectKind, Oid};
use parallel::Directory;
use revlog::{Lines, Node, Rev, Scratch, Texts};

use super::states::{RootDirectory, StartTrees};
use super::{Sources, mode_of};
use crate::error::Result;
use crate::map::segment::Table;
use crate::objects::directory::{
    DirectoryEntries, DirectoryEntry, EntryTarget, Replay, TrackedDirectory, TreeChange,
};
use crate::objects::storefiles::StoreFiles;
use crate::objects::treeedits::{PathEdit, edits_of};
use crate::objects::trees::{Refused, TreeForm, TreeWriter, stored_entries};
use crate::read::files::FileTable;
use crate::read::manifests::Base;
use crate::read::names::Names;

/// Bytes of a manifest whose trees are made in the time of reading the trees of one directory.
const BYTES_PER_DIRECTORY: usize = 2048;
/// Number of directories that are always read.
const FEW_DIRECTORIES: usize = 16;
/// Most directories to read for tree manifests, since a flat text is made from all of them.
const MOST_DIRECTORIES: usize = 1024;
/// Longest tree that is read, in bytes: some 400,000 files.
const MOST_TREE_BYTES: usize = 16 << 20;

/// The start trees in the store.
#[derive(Debug)]
pub(crate) struct StoredStarts<'a> {
    /// The directory of all packs.
    pub packs: &'a Directory,
    pub trees: HashMap<Rev, StoredStart>,
}

/// A start tree in the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredStart {
    /// The root tree of git.
    pub root: Oid,
    /// The commit of the manifest, if metadata is kept.
    pub aside_commit: Option<Oid>,
}

/// The start trees, from the store or from the manifests.
///
/// # Errors
///
/// [`crate::Error::Store`] if a manifest cannot be read.
pub(crate) fn starts<D: Dialect>(
    sources: &Sources<'_>,
    dialect: &mut D,
    scratch: &mut Scratch,
    names: &mut Names,
    files: &mut FileTable,
) -> Result<StartTrees> {
    let mut trees = StartTrees::new();
    let mut changed = changed_from(sources);
    let mut objects = None;
    for rev in sources.changes.starts() {
        let changed = changed.remove(&rev).unwrap_or_default();
        let stored = match objects.take() {
            None => Objects::open(sources.stored_starts.packs, MOST_TREE_BYTES).ok(),
            opened => opened,
        };
        let tree = stored.and_then(|stored| {
            let aside_form = sources.aside_trees.unwrap_or(&TreeForm::GIT);
            let mut stored = StoredTrees { objects: stored, aside_form, names, files };
            let tree = of_store(sources, rev, changed, &mut stored);
            objects = Some(stored.objects);
            tree
        });
        let tree = match tree {
            Some(tree) => Some(tree),
            None => of_manifest(sources, dialect, rev, scratch, names, files)?,
        };
        trees.insert(rev, tree);
    }
    Ok(trees)
}

/// The paths that change in the lines from each start manifest, unsorted.
fn changed_from<'a>(sources: &Sources<'a>) -> HashMap<Rev, HashSet<&'a [u8]>> {
    let Sources { plan, changes, edits, .. } = *sources;
    let mut changed: HashMap<Rev, HashSet<&[u8]>> = HashMap::new();
    // bases come before
    let mut starts: Vec<Option<Rev>> = Vec::with_capacity(plan.revs.len());
    for position in 0..plan.revs.len() {
        let start = match changes.base(position) {
            Base::Empty => None,
            Base::Position(base) => starts[base],
            Base::Known(rev) => Some(rev),
        };
        starts.push(start);
        let Some(start) = start else { continue };
        let paths = changed.entry(start).or_default();
        paths.extend(super::changes_at(changes, edits, position).map(|change| change.path));
    }
    changed
}

/// The tree of `rev` from the store; `None` if it has to be made from the manifest.
fn of_store(
    sources: &Sources<'_>,
    rev: Rev,
    changed: HashSet<&[u8]>,
    trees: &mut StoredTrees<'_>,
) -> Option<Arc<TrackedDirectory>> {
    let stored = sources.stored_starts.trees.get(&rev)?;
    let most = match sources.directories {
        Some(_) => MOST_DIRECTORIES,
        None => sources.manifest.index().text_len_hint(rev) as usize / BYTES_PER_DIRECTORY,
    };
    let changed = changed_paths(changed, most.max(FEW_DIRECTORIES))?;
    let objects = &trees.objects;
    let aside = match stored.aside_commit {
        None => None,
        Some(commit) => {
            let commit = objects.read(ObjectKind::Commit, &commit).ok()??;
            let digits = commit.strip_prefix(b"tree ")?.get(..40)?;
            Some(Oid::from_bytes(*Node::from_hex(digits)?.as_bytes()))
        }
    };
    trees.directory(stored.root, aside, &changed)
}

/// All changed paths, ascending; `None` if they are in more than `most` directories, or in a
/// directory with an empty name, which git's trees do not show.
fn changed_paths<'a>(
    all: impl IntoIterator<Item = &'a [u8]>,
    most: usize,
) -> Option<Vec<&'a [u8]>> {
    let mut directories = HashSet::from([&b""[..]]);
    let mut paths = Vec::new();
    for path in all {
        for end in memchr::memrchr_iter(b'/', path) {
            if !directories.insert(&path[..end]) {
                break;
            }
        }
        let has_empty_name = path.starts_with(b"/") || memchr::memmem::find(path, b"//").is_some();
        if has_empty_name || directories.len() > most {
            return None;
        }
        paths.push(path);
    }
    paths.sort_unstable();
    paths.dedup();
    Some(paths)
}

/// A reader of stored trees in both forms.
struct StoredTrees<'a> {
    objects: Objects,
    aside_form: &'static TreeForm,
    names: &'a mut Names,
    files: &'a mut FileTable,
}

impl StoredTrees<'_> {
    /// The directory with these trees, with the subdirectories of `changed` paths, which are
    /// relative to it. Other subdirectories are not read. `None` if a tree is missing, or the two
    /// trees have different files.
    fn directory(
        &mut self,
        git: Oid,
        aside: Option<Oid>,
        changed: &[&[u8]],
    ) -> Option<Arc<TrackedDirectory>> {
        let of_git = self.objects.read(ObjectKind::Tree, &git).ok()??;
        let of_aside = match &aside {
            Some(aside) => self.objects.read(ObjectKind::Tree, aside).ok()??,
            None => Vec::new(),
        };
        let of_git = stored_entries(&TreeForm::GIT, &of_git)?;
        let of_aside = stored_entries(self.aside_form, &of_aside)?;
        if aside.is_some() && of_git.len() != of_aside.len() {
            return None;
        }
        let mut entries = Vec::with_capacity(of_git.len());
        let mut of_aside = of_aside.into_iter();
        for in_git in of_git {
            let in_aside = of_aside.next();
            if in_aside.is_some_and(|aside| (in_git.mode, in_git.name) != (aside.mode, aside.name))
            {
                return None;
            }
            let name = self.names.number(in_git.name);
            let target = if in_git.mode.is_directory() {
                let below = below(changed, in_git.name);
                let in_aside = in_aside.map(|aside| aside.id);
                EntryTarget::TrackedDirectory(if below.is_empty() {
                    Arc::new(TrackedDirectory::unread(in_git.id, in_aside))
                } else {
                    self.directory(in_git.id, in_aside, &below)?
                })
            } else if let Some(in_aside) = in_aside {
                let node = Node::from_bytes(*in_aside.id.as_bytes());
                let file = self.files.number(node, name, |_| Some(in_git.id));
                if self.files.oid(file) != Some(in_git.id) {
                    return None;
                }
                EntryTarget::File(file, in_git.mode)
            } else {
                EntryTarget::Object(Arc::new((in_git.id, in_git.mode)))
            };
            entries.push(DirectoryEntry::new(self.names, in_git.name, target));
        }
        let names = &*self.names;
        let is_sound =
            !entries.is_empty() && entries.is_sorted_by(|a, b| a.order(names, b).is_lt());
        let entries = is_sound.then(|| DirectoryEntries::from_vec(entries))?;
        Some(Arc::new(TrackedDirectory::stored(entries, git, aside)))
    }
}

/// The `paths` in the directory `name`, relative to it.
fn below<'p>(paths: &[&'p [u8]], name: &[u8]) -> Vec<&'p [u8]> {
    let prefix = [name, b"/"].concat();
    let first = paths.partition_point(|path| *path < prefix.as_slice());
    paths[first..].iter().map_while(|path| path.strip_prefix(prefix.as_slice())).collect()
}

/// The tree made from the manifest `rev`.
///
/// # Errors
///
/// [`crate::Error::Store`] if the manifest cannot be read.
fn of_manifest<D: Dialect>(
    sources: &Sources<'_>,
    dialect: &mut D,
    rev: Rev,
    scratch: &mut Scratch,
    names: &mut Names,
    files: &mut FileTable,
) -> Result<RootDirectory> {
    let text = match sources.directories {
        Some(directories) => Arc::new(directories.flat_text(rev, scratch)?),
        None => Texts::new(sources.manifest, scratch, 0).get(rev)?.text,
    };
    let mut changes = Vec::new();
    for line in Lines::new(&text) {
        let line = line.map_err(|problem| sources.manifest.corrupt(rev, problem))?;
        let path = names.number(line.path);
        for component in line.path.split(|&byte| byte == b'/') {
            names.number(component);
        }
        let known = |node: &Node| sources.map.oid(Table::Files, node);
        let file = files.number(line.node, path, known);
        changes.push(TreeChange {
            path: line.path,
            target: Some(EntryTarget::File(file, mode_of(line.flag))),
        });
    }
    let edits = edits(sources, dialect, rev, &changes)?;
    for edit in &edits {
        for component in edit.path.split(|&byte| byte == b'/') {
            names.number(component);
        }
        let at = changes.partition_point(|change| change.path < &*edit.path);
        let end = at + usize::from(changes.get(at).is_some_and(|same| same.path == &*edit.path));
        changes.splice(at..end, [edit.change()]);
    }
    let mut replay = Replay::new(names);
    let tree = replay.apply(None, &changes);
    for form in [Some(&TreeForm::GIT), sources.aside_trees].into_iter().flatten() {
        let written = TreeWriter::of_known(form, names, files).write(&replay.made);
        written.map_err(|(_, refused)| match refused {
            Refused::Unconverted(file) => {
                let what = format!("its file revision {} is not in the map", files.node(file));
                sources.manifest.corrupt(rev, what)
            }
            Refused::Attack(attack) => sources.manifest.corrupt(rev, attack),
        })?;
    }
    Ok(tree)
}

/// The dialect's edits of the tree made from the manifest `rev`.
///
/// # Errors
///
/// [`crate::Error::Store`] if a file that the dialect needs cannot be read.
fn edits<D: Dialect>(
    sources: &Sources<'_>,
    dialect: &mut D,
    rev: Rev,
    all: &[TreeChange<'_>],
) -> Result<Vec<PathEdit>> {
    if !D::EDITS_TREES {
        return Ok(Vec::new());
    }
    let edited = all.iter().filter(|file| D::is_edited(file.path));
    let files: Vec<_> = edited.map(|file| FileChange { path: file.path, is_there: true }).collect();
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let Sources { store, manifest, directories, .. } = *sources;
    let files_of_rev = StoreFiles::new(store, manifest, directories, rev);
    Ok(edits_of(dialect, &files, None, &files_of_rev)?.0)
}

#[cfg(test)]
mod tests;
