//! Trees with entries that manifests do not have, by the rules of [`dialect::exact::tree`].
//!
//! Such a tree needs the tree of the first parent, and the files that changed since. Trees of this
//! run are kept, in files if there is no memory; trees of earlier runs are read from the packs. A
//! run without such trees keeps nothing.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use dialect::exact::tree::{
    DirectoryEdits, HiddenFile, Hides, TrackedFile, TreeEntries, TreeEntryKind, TreeItem,
    TreeProblem, TreeStore, TreeValue, edited, file_at, file_of, first_entry, is_directory,
    kind_of,
};
use gitpack::delta::apply;
use gitpack::pack::Objects;
use gitpack::tree::{Mode, push_entry};
use gitpack::{Differ, ObjectKind, Oid, object_header};
use parallel::{Budget, Buffer};
use revlog::manifest::Flag;
use revlog::{Changeset, Node, Parents, Rev, Scratch, Texts};
use sha1lanes::{Message, digest_one};

use crate::error::{Error, Result};
use crate::map::segment::Table;
use crate::objects::directory::{
    DirectoryEntries, DirectoryEntry, EntryTarget, TrackedDirectory, Walk,
};
use crate::objects::history::{Batch, Sources};
use crate::objects::imported::ImportedCommits;
use crate::objects::inherited::tree_of;
use crate::objects::object::Object;
use crate::objects::storefiles::StoreFiles;
use crate::objects::trees::{Depths, MAX_DEPTH, Purpose, TreeForm};
use crate::read::changelog::parse;
use crate::read::files::FileTable;
use crate::read::manifests::{Base, ChangesetTree};
use crate::read::names::Names;

/// Longest tree that is read, in bytes.
const MOST_TREE_BYTES: usize = 16 << 20;

/// Trees are kept in pieces of this size: each alone would be too short for a budget.
const CHUNK_BYTES: usize = 4 << 20;

/// Contents of the latest trees that are kept, in bytes.
const MOST_LATEST_BYTES: usize = 8 << 20;

/// Most hidden files that are kept.
const MOST_HIDDEN: usize = 1 << 18;

/// A directory of a manifest, as a tree without extras.
#[derive(Clone, Debug)]
enum Plain {
    Empty,
    Tracked(Arc<TrackedDirectory>),
    /// In a pack of an earlier run.
    Stored(Oid),
}

impl Plain {
    fn of(directory: &Arc<TrackedDirectory>) -> Self {
        if directory.entries.is_empty() {
            return Self::Stored(directory.tree(Purpose::Git).oid); // not read by this run
        }
        Self::Tracked(Arc::clone(directory))
    }

    fn oid(&self) -> Oid {
        match self {
            Self::Empty => Oid::EMPTY_TREE,
            Self::Tracked(directory) => directory.tree(Purpose::Git).oid,
            Self::Stored(oid) => *oid,
        }
    }
}

/// Trees of a first parent: with extras, and without.
#[derive(Clone, Debug)]
struct Before {
    tree: Oid,
    plain: Plain,
    /// The hidden files of its manifest.
    hidden: HiddenFiles,
}

/// Changes from one directory to another.
#[derive(Default)]
struct Changes {
    files: Vec<FileChange>,
    /// Submodules; `None` for one that is removed.
    links: Vec<(Vec<u8>, Option<Oid>)>,
}

impl Changes {
    /// Adds the change of an entry that is no directory: its modes and ids, `None` without it.
    fn add(&mut self, path: &[u8], was: Option<(Mode, Oid)>, is: Option<(Mode, Oid)>) {
        if was == is {
            return;
        }
        let is_link = |(mode, _): &(Mode, Oid)| *mode == Mode::GITLINK;
        let [old, new] = [was, is].map(|item| item.filter(|item| !is_link(item)));
        if old.is_some() || new.is_some() {
            self.files.push((path.into(), new.map(|(mode, oid)| (flag_of(mode), oid))));
        }
        let [old, new] = [was, is].map(|item| item.filter(is_link));
        if old.is_some() || new.is_some() {
            self.links.push((path.into(), new.map(|(_, oid)| oid)));
        }
    }
}

/// Hidden files of a manifest, by their paths. Most manifests share one.
type HiddenFiles = Arc<BTreeMap<Box<[u8]>, TrackedFile>>;

/// The files that trees do not have from manifests, in those of the run.
struct HiddenPaths {
    hides: Hides,
    /// Those that the run changes, by the numbers of their paths.
    paths: HashMap<u32, Box<[u8]>>,
    /// By the positions of manifests.
    of_positions: HashMap<usize, HiddenFiles>,
    /// Number of files in all of these that differ.
    kept: usize,
    /// By the nodes of manifests of earlier runs.
    stored: HashMap<Node, HiddenFiles>,
}

/// Changed file with its path; `None` if it is removed.
type FileChange = (Vec<u8>, Option<TrackedFile>);

/// Maker of the trees of a run's changesets.
pub(super) struct ExactTrees<'a> {
    sources: &'a Sources<'a>,
    names: &'a Names,
    files: &'a FileTable,
    packs: OnceCell<Objects>,
    /// Number of changesets that still need the directory of a manifest, by its position.
    uses: HashMap<usize, u32>,
    roots: HashMap<usize, Plain>,
    /// Trees of this run's changesets, if they differ from those of their manifests.
    shown: HashMap<Rev, Oid>,
    /// First parents of earlier runs.
    earlier: HashMap<Rev, Before>,
    written: WrittenTrees,
    differ: Differ,
    /// Imported trees whose objects were added.
    copied: HashSet<Oid>,
    hidden: Option<HiddenPaths>,
}

impl<'a> ExactTrees<'a> {
    /// `None` if no changeset can have such a tree.
    pub fn of(
        sources: &'a Sources<'a>,
        names: &'a Names,
        files: &'a FileTable,
        hides: Option<Hides>,
    ) -> Option<Self> {
        sources.exact_trees.as_ref()?;
        let hidden = hides.map(|hides| HiddenPaths {
            hides,
            paths: (0..)
                .zip(sources.changes.paths())
                .filter(|(_, path)| hides(path))
                .map(|(number, path)| (number, path.into()))
                .collect(),
            of_positions: HashMap::new(),
            kept: 0,
            stored: HashMap::new(),
        });
        let mut uses = HashMap::new();
        let index = sources.changelog.index();
        for (at, rev) in sources.revs.iter().enumerate() {
            let parent = index.parents(*rev).0.and_then(|p1| sources.revs.binary_search(&p1).ok());
            for at in [Some(at), parent].into_iter().flatten() {
                if let ChangesetTree::Position(position) = sources.trees.get(at) {
                    *uses.entry(position).or_insert(0) += 1;
                }
            }
        }
        Some(Self {
            sources,
            names,
            files,
            packs: OnceCell::new(),
            uses,
            roots: HashMap::new(),
            shown: HashMap::new(),
            earlier: HashMap::new(),
            written: WrittenTrees::default(),
            differ: Differ::default(),
            copied: HashSet::new(),
            hidden,
        })
    }

    /// Keeps the directories of a batch that its changesets or later ones need.
    pub fn keep(&mut self, batch: &Batch) {
        for (at, manifest) in batch.manifests.iter().enumerate() {
            let position = batch.first_manifest + at;
            if self.uses.contains_key(&position) {
                let root = manifest.root.as_ref().map_or(Plain::Empty, Plain::of);
                self.roots.insert(position, root);
            }
        }
    }

    /// The tree of a changeset, whose manifest has the tree `plain`. New trees go to `out`, with
    /// their depths.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if a tree of an earlier run or a changeset cannot be read.
    pub fn tree(
        &mut self,
        rev: Rev,
        (drawn, plain): (ChangesetTree, Oid),
        changeset: &Changeset<'_>,
        out: (&mut Vec<Object>, &mut Depths),
    ) -> Result<Oid> {
        let value = TreeValue::of(changeset);
        let Parents(p1, _) = self.sources.changelog.index().parents(rev);
        let before = match p1 {
            Some(p1) => self.before(p1)?,
            None => Before {
                tree: Oid::EMPTY_TREE,
                plain: Plain::Empty,
                hidden: HiddenFiles::default(),
            },
        };
        let hidden = self.hidden_files(drawn, changeset.manifest)?;
        let followed = self.followed(rev, &before, &hidden)?;
        let follows = !followed.is_empty();
        let tree = if value.is_none() && !follows && before.tree == before.plain.oid() {
            plain
        } else if value.is_none() && !follows && before.plain.oid() == plain {
            before.tree
        } else {
            let after = self.plain(drawn);
            let hidden = (&hidden, followed);
            self.made(rev, &before, (&after, plain), (value.as_ref(), hidden), out)?
        };
        if tree != plain {
            self.shown.insert(rev, tree);
        }
        Ok(tree)
    }

    /// Lets a changeset have the tree of its imported commit, with the objects that the tree of its
    /// manifest lacks. `plain` as for [`Self::tree`].
    ///
    /// # Errors
    ///
    /// [`Error::Imported`] if an object is missing, [`Error::Store`] as for [`Self::tree`].
    pub fn import(
        &mut self,
        rev: Rev,
        (drawn, plain): (ChangesetTree, Oid),
        (tree, imported): (Oid, &ImportedCommits<'_>),
        objects: &mut Vec<Object>,
    ) -> Result<()> {
        if tree == plain {
            self.shown.remove(&rev);
        } else {
            self.shown.insert(rev, tree);
        }
        let of_manifest = self.plain(drawn);
        self.copy(rev, tree, &of_manifest, imported, objects)
    }

    /// Copies all objects of an imported tree. `rev` is named in errors.
    ///
    /// # Errors
    ///
    /// As [`Self::import`].
    pub fn copy_whole(
        &mut self,
        rev: Rev,
        (tree, imported): (Oid, &ImportedCommits<'_>),
        objects: &mut Vec<Object>,
    ) -> Result<()> {
        self.copy(rev, tree, &Plain::Empty, imported, objects)
    }

    /// Copies the objects of an imported tree that `plain` lacks.
    fn copy(
        &mut self,
        rev: Rev,
        tree: Oid,
        plain: &Plain,
        imported: &ImportedCommits<'_>,
        objects: &mut Vec<Object>,
    ) -> Result<()> {
        // a tree that this run has made may lack blobs
        if tree == plain.oid() || tree == Oid::EMPTY_TREE || !self.copied.insert(tree) {
            return Ok(());
        }
        let content = imported.read(ObjectKind::Tree, tree)?;
        let of_manifest = self.content(rev, plain)?;
        let known = TreeEntries::parse(&of_manifest).unwrap_or_default();
        let mut rest = &*content;
        while let Some((mode, name, oid, after)) = first_entry(rest) {
            rest = after;
            let entry = known.get(name);
            if entry.is_some_and(|(_, known)| *known == oid) {
                continue;
            }
            match kind_of(mode, &oid) {
                Some(TreeEntryKind::Directory) => {
                    let below = match entry.filter(|(mode, _)| is_directory(mode)) {
                        Some((_, known)) => self.below(plain, name, *known),
                        None => Plain::Empty,
                    };
                    self.copy(rev, oid, &below, imported, objects)?;
                }
                Some(TreeEntryKind::File(_)) => {
                    let payload = imported.read(ObjectKind::Blob, oid)?;
                    objects.push(Object::whole(ObjectKind::Blob, oid, payload));
                }
                Some(TreeEntryKind::Other) | None => {}
            }
        }
        objects.push(Object::whole(ObjectKind::Tree, tree, content.clone()));
        self.keep_tree((tree, 0), content, None)?;
        Ok(())
    }

    /// Forgets the directories that only this changeset needed.
    pub fn done(&mut self, rev: Rev, drawn: ChangesetTree) {
        let Parents(p1, _) = self.sources.changelog.index().parents(rev);
        self.release(drawn);
        if let Some(at) = p1.and_then(|p1| self.sources.revs.binary_search(&p1).ok()) {
            self.release(self.sources.trees.get(at));
        }
    }

    fn release(&mut self, tree: ChangesetTree) {
        let ChangesetTree::Position(position) = tree else { return };
        if let Some(left) = self.uses.get_mut(&position) {
            *left -= 1;
            if *left == 0 {
                self.uses.remove(&position);
                self.roots.remove(&position);
            }
        }
    }

    /// The hidden files of a manifest.
    fn hidden_files(&mut self, tree: ChangesetTree, manifest: Node) -> Result<HiddenFiles> {
        let Some(hidden) = &self.hidden else { return Ok(HiddenFiles::default()) };
        let ChangesetTree::Position(position) = tree else { return self.stored_hidden(manifest) };
        // bases come before
        let (mut chain, mut at) = (Vec::new(), position);
        let mut found = loop {
            if let Some(found) = hidden.of_positions.get(&at) {
                break Arc::clone(found);
            }
            chain.push(at);
            match self.sources.changes.base(at) {
                Base::Empty => break HiddenFiles::default(),
                Base::Position(base) => at = base,
                Base::Known(rev) => {
                    break self.stored_hidden(self.sources.manifest.index().node(rev))?;
                }
            }
        };
        let Some(hidden) = &mut self.hidden else { return Ok(found) };
        for at in chain.into_iter().rev() {
            let (is_changed, before) = (!hidden.paths.is_empty(), Arc::as_ptr(&found));
            for (path, file) in self.sources.changes.of(at).filter(|_| is_changed) {
                let Some(path) = hidden.paths.get(&path.0) else { continue };
                let of = |(file, mode)| Some((flag_of(mode), self.files.oid(file)?));
                match file.and_then(of) {
                    Some(file) => Arc::make_mut(&mut found).insert(path.clone(), file),
                    None => Arc::make_mut(&mut found).remove(path),
                };
            }
            if Arc::as_ptr(&found) != before {
                hidden.kept += found.len();
            }
            if hidden.kept > MOST_HIDDEN {
                hidden.of_positions.clear(); // later ones are made from their bases again
                hidden.kept = 0;
            }
            hidden.of_positions.insert(at, Arc::clone(&found));
        }
        Ok(found)
    }

    /// The hidden files of a manifest of an earlier run.
    fn stored_hidden(&mut self, node: Node) -> Result<HiddenFiles> {
        let Some(hidden) = &mut self.hidden else { return Ok(HiddenFiles::default()) };
        if let Some(found) = hidden.stored.get(&node) {
            return Ok(Arc::clone(found));
        }
        let mut found = BTreeMap::new();
        if node != Node::NULL {
            let Sources { store, manifest, directories, map, .. } = self.sources;
            let rev = manifest.find(&[node])?[0];
            let files = StoreFiles::new(store, manifest, *directories, rev);
            for line in files.all(hidden.hides)? {
                if let Some(oid) = map.oid(Table::Files, &line.node) {
                    found.insert(line.path.into(), (line.flag, oid));
                }
            }
        }
        let found = Arc::new(found);
        hidden.stored.insert(node, Arc::clone(&found));
        Ok(found)
    }

    /// Changes of hidden files that the tree of the first parent shows.
    fn followed(&self, rev: Rev, before: &Before, now: &HiddenFiles) -> Result<Vec<FileChange>> {
        let mut found = Vec::new();
        if Arc::ptr_eq(&before.hidden, now) {
            return Ok(found);
        }
        let mut trees = RunTrees { trees: self, rev, before, plain: None, now, made: Vec::new() };
        // a file that the first parent's manifest does not have is not shown
        for (path, file) in before.hidden.iter() {
            let new = now.get(path).copied();
            if new != Some(*file) && file_at(&mut trees, Some(before.tree), path)? == Some(*file) {
                found.push((path.to_vec(), new));
            }
        }
        Ok(found)
    }

    fn plain(&self, tree: ChangesetTree) -> Plain {
        match tree {
            ChangesetTree::Empty => Plain::Empty,
            ChangesetTree::Known(oid) => Plain::Stored(oid),
            ChangesetTree::Position(position) => {
                self.roots.get(&position).cloned().unwrap_or(Plain::Empty)
            }
        }
    }

    fn before(&mut self, p1: Rev) -> Result<Before> {
        let Sources { revs, trees, changelog, map, .. } = *self.sources;
        if let Ok(at) = revs.binary_search(&p1) {
            let plain = self.plain(trees.get(at));
            let tree = self.shown.get(&p1).copied().unwrap_or_else(|| plain.oid());
            let mut manifest = Node::NULL;
            if self.hidden.is_some() && matches!(trees.get(at), ChangesetTree::Known(_)) {
                let text = Texts::new(changelog, &mut Scratch::default(), 0).get(p1)?.text;
                manifest = parse(changelog, p1, &text)?.manifest;
            }
            let hidden = self.hidden_files(trees.get(at), manifest)?;
            return Ok(Before { tree, plain, hidden });
        }
        if let Some(before) = self.earlier.get(&p1) {
            return Ok(before.clone());
        }
        let mut scratch = Scratch::default();
        let text = Texts::new(changelog, &mut scratch, 0).get(p1)?.text;
        let manifest: Node = parse(changelog, p1, &text)?.manifest;
        let plain = match map.oid(Table::Manifests, &manifest) {
            Some(oid) => Plain::Stored(oid),
            None => Plain::Empty,
        };
        let mut tree = plain.oid();
        if self.sources.exact_trees.as_ref().is_some_and(|exact| exact.has_earlier) {
            let commit = map.oid(Table::Changesets, &changelog.index().node(p1));
            let content = match commit {
                Some(oid) => self.stored(p1, ObjectKind::Commit, oid)?,
                None => Vec::new(),
            };
            tree = tree_of(&content).unwrap_or(tree);
        }
        let hidden = self.stored_hidden(manifest)?;
        let before = Before { tree, plain, hidden };
        self.earlier.insert(p1, before.clone());
        Ok(before)
    }

    /// An object of an earlier run.
    fn stored(&self, rev: Rev, kind: ObjectKind, oid: Oid) -> Result<Vec<u8>> {
        let missing = |problem: &dyn std::fmt::Display| {
            let what = format!("git object {oid} of its first parent: {problem}");
            Error::from(self.sources.changelog.corrupt(rev, what))
        };
        let exact = self.sources.exact_trees.as_ref();
        let packs = exact.map(|exact| exact.packs).ok_or_else(|| missing(&"no packs"))?;
        let objects = match self.packs.get() {
            Some(objects) => objects,
            None => {
                let opened = Objects::open(packs, MOST_TREE_BYTES).map_err(|it| missing(&it))?;
                self.packs.get_or_init(|| opened)
            }
        };
        let found = objects.read(kind, &oid).map_err(|problem| missing(&problem))?;
        found.ok_or_else(|| missing(&"no pack has it"))
    }

    /// Content of a tree without extras.
    fn content(&self, rev: Rev, plain: &Plain) -> Result<Vec<u8>> {
        let directory = match plain {
            Plain::Empty => return Ok(Vec::new()),
            Plain::Stored(oid) if *oid == Oid::EMPTY_TREE => return Ok(Vec::new()),
            Plain::Stored(oid) => return self.stored(rev, ObjectKind::Tree, *oid),
            Plain::Tracked(directory) => directory,
        };
        let mut content = Vec::new();
        for entry in directory.entries.iter() {
            let (mode, oid) = self.item(rev, &entry.target)?;
            push_entry(&mut content, mode, self.names.get(entry.name), &oid);
        }
        Ok(content)
    }

    /// Mode and id of an entry without extras.
    fn item(&self, rev: Rev, target: &EntryTarget) -> Result<(Mode, Oid)> {
        let (mode, oid) = match target {
            EntryTarget::File(file, mode) => (*mode, self.files.oid(*file)),
            EntryTarget::TrackedDirectory(below) => {
                (Mode::DIRECTORY, Some(below.tree(Purpose::Git).oid))
            }
            EntryTarget::Object(id) => (id.1, Some(id.0)),
        };
        let unconverted = || self.sources.changelog.corrupt(rev, "a file is not converted");
        Ok((mode, oid.ok_or_else(unconverted)?))
    }

    /// The directory in another one with this name and id.
    fn below(&self, plain: &Plain, name: &[u8], oid: Oid) -> Plain {
        if let Plain::Tracked(directory) = plain
            && let Some(entry) = directory.entries.find(self.names, name, true)
            && let EntryTarget::TrackedDirectory(below) = &entry.target
        {
            return Plain::of(below);
        }
        Plain::Stored(oid)
    }

    /// The entries of a directory, if they can be compared in order: all of them are in its tree,
    /// and no file has the name of a directory.
    fn ordered<'p>(
        &self,
        plain: &'p Plain,
        none: &'p DirectoryEntries,
    ) -> Option<&'p DirectoryEntries> {
        let directory = match plain {
            Plain::Empty => return Some(none),
            Plain::Tracked(directory) if directory.is_plain => directory,
            Plain::Tracked(_) | Plain::Stored(_) => return None,
        };
        (!directory.entries.have_shared_name(self.names)).then_some(&directory.entries)
    }

    /// Adds the files that differ between two directories of manifests.
    fn compare_ordered(
        &self,
        rev: Rev,
        (one, two): (&DirectoryEntries, &DirectoryEntries),
        path: &mut Vec<u8>,
        changes: &mut Changes,
    ) -> Result<(), TreeProblem<Error>> {
        let (mut old, mut new) = (Walk::new(one), Walk::new(two));
        loop {
            old.skip_identical(&mut new, &TreeForm::GIT);
            let (was, is) = match (old.peek(), new.peek()) {
                (Some(was), Some(is)) => match was.order(self.names, is) {
                    Ordering::Less => (Some(was), None),
                    Ordering::Equal => (Some(was), Some(is)),
                    Ordering::Greater => (None, Some(is)),
                },
                one => one,
            };
            let Some(entry) = was.or(is) else { return Ok(()) };
            old.step(usize::from(was.is_some()));
            new.step(usize::from(is.is_some()));
            let len = path.len();
            if len > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(self.names.get(entry.name));
            if entry.target.is_directory() {
                let of = |entry: Option<&DirectoryEntry>| match entry.map(|entry| &entry.target) {
                    Some(EntryTarget::TrackedDirectory(below)) => Plain::of(below),
                    _ => Plain::Empty,
                };
                self.compare(rev, (&of(was), &of(is)), path, changes)?;
            } else {
                let item = |entry: Option<&DirectoryEntry>| {
                    let item = entry.map(|entry| self.item(rev, &entry.target)).transpose();
                    item.map_err(TreeProblem::Unreadable)
                };
                changes.add(path, item(was)?, item(is)?);
            }
            path.truncate(len);
        }
    }

    /// Adds the files that differ between two directories.
    fn compare(
        &self,
        rev: Rev,
        (one, two): (&Plain, &Plain),
        path: &mut Vec<u8>,
        changes: &mut Changes,
    ) -> Result<(), TreeProblem<Error>> {
        if one.oid() == two.oid() {
            return Ok(());
        }
        let none = DirectoryEntries::default();
        if let (Some(one), Some(two)) = (self.ordered(one, &none), self.ordered(two, &none)) {
            return self.compare_ordered(rev, (one, two), path, changes);
        }
        let of = |plain| self.content(rev, plain).map_err(TreeProblem::Unreadable);
        let (before, after) = (of(one)?, of(two)?);
        // a file and a directory may have one name, as in the manifests of changesets between the
        // parents of a commit
        let entries = |content| TreeEntries::parse(content).ok_or(TreeProblem::Unfit);
        let (before, after) = (entries(&before)?, entries(&after)?);
        let mut names: Vec<_> = before.names().chain(after.names()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let entries = [before.get(name), after.get(name)];
            if entries[0] == entries[1] {
                continue;
            }
            let len = path.len();
            if len > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            let [was, is] = entries.map(|entry| entry.and_then(file_of));
            if was.is_some() || is.is_some() {
                changes.files.push((path.clone(), is));
            }
            let [was, is] = entries.map(|entry| entry.and_then(link_of));
            if was.is_some() || is.is_some() {
                changes.links.push((path.clone(), is));
            }
            let [old, new] = entries.map(|entry| entry.filter(|(mode, _)| is_directory(mode)));
            if old.is_some() || new.is_some() {
                let of = |plain, entry: Option<&TreeItem<'_>>| {
                    entry.map_or(Plain::Empty, |(_, oid)| self.below(plain, name, *oid))
                };
                self.compare(rev, (&of(one, old), &of(two, new)), path, changes)?;
            }
            path.truncate(len);
        }
        Ok(())
    }

    fn made(
        &mut self,
        rev: Rev,
        before: &Before,
        (after, plain): (&Plain, Oid),
        (value, (hidden, followed)): (Option<&TreeValue>, (&HiddenFiles, Vec<FileChange>)),
        (objects, depths): (&mut Vec<Object>, &mut Depths),
    ) -> Result<Oid> {
        let mut found = Changes::default();
        let compared = self.compare(rev, (&before.plain, after), &mut Vec::new(), &mut found);
        if fitting(compared)?.is_none() {
            return Ok(plain);
        }
        let Changes { files: mut changes, links } = found;
        if let Some(HiddenPaths { hides, .. }) = &self.hidden {
            changes.retain(|(path, _)| !hides(path));
        }
        let follows = !followed.is_empty();
        // without extras, submodules are those of the manifest
        let mut edits_of_links = None;
        if let Some(inherited) = self.sources.inherited.filter(|_| self.sources.imported.is_some())
        {
            let links = links.iter().map(|(path, link)| (&**path, *link));
            edits_of_links = Some(DirectoryEdits::of_links(links));
            let place = self.sources.revs.binary_search(&rev).ok();
            let file = match place.and_then(|place| inherited.file(place)) {
                Some(file) => file.map(|(oid, mode)| (flag_of(mode), oid)),
                None => {
                    let content = self.content(rev, after)?;
                    TreeEntries::parse(&content).and_then(|all| file_of(all.get(inherited.name)?))
                }
            };
            if followed.iter().all(|(path, _)| **path != *inherited.name) {
                changes.push((inherited.name.to_vec(), file));
            }
        }
        changes.extend(followed);
        changes.sort();
        let changes: Vec<(&[u8], Option<TrackedFile>)> =
            changes.iter().map(|(path, file)| (&**path, *file)).collect();
        for edits in [value.map(|value| &value.edits), None] {
            if edits.is_none() && !follows && before.tree == before.plain.oid() {
                return Ok(plain);
            }
            let is_of_extra = edits.is_some();
            let kept = (!follows && links.is_empty()).then_some(after);
            let mut run =
                RunTrees { trees: self, rev, before, plain: kept, now: hidden, made: Vec::new() };
            let edits = edits.or(edits_of_links.as_ref());
            let found = edited(&mut run, Some(before.tree), &changes, edits);
            let made = run.made;
            let root = match found {
                Ok(root) => root.unwrap_or(Oid::EMPTY_TREE),
                Err(TreeProblem::Unfit) if is_of_extra => continue,
                Err(TreeProblem::Unfit) => return Ok(plain),
                Err(TreeProblem::Unreadable(error)) => return Err(error),
            };
            if is_of_extra && value.is_none_or(|value| value.root != root) {
                continue;
            }
            for Made { oid, base, content } in made {
                let delta = base.and_then(|base| self.delta(base, &content));
                let known = depths.get(&oid);
                if known.is_none() {
                    let whole = Object::whole(ObjectKind::Tree, oid, Vec::new());
                    objects.push(match &delta {
                        Some((base, payload)) => {
                            Object { base: Some(*base), payload: payload.clone(), ..whole }
                        }
                        None => Object { payload: content.clone(), ..whole },
                    });
                }
                let base = delta.as_ref().and_then(|(base, _)| self.written.depth(base));
                let depth = base.map_or(0, |depth| depth + 1).max(known.unwrap_or(0));
                depths.insert(&oid, depth);
                self.keep_tree((oid, depth), content, delta.as_ref())?;
            }
            return Ok(root);
        }
        Ok(plain)
    }

    /// The delta of a tree from `base`, if this run has written that.
    fn delta(&mut self, base: Oid, content: &[u8]) -> Option<TreeDelta> {
        self.written.depth(&base).filter(|depth| *depth < MAX_DEPTH)?;
        if content.len() > MOST_TREE_BYTES {
            return None; // it could not be read from a delta
        }
        let mut delta = Vec::new();
        let before = self.written.get(&base)?;
        let is_found = self.differ.diff(&before, content, content.len() / 2, &mut delta);
        is_found.then_some((base, delta))
    }

    fn keep_tree(
        &mut self,
        tree: (Oid, u8),
        content: Vec<u8>,
        delta: Option<&TreeDelta>,
    ) -> Result<()> {
        let budget = self.sources.exact_trees.as_ref().map(|exact| &exact.budget);
        self.written.insert(tree, content, delta, budget)
    }
}

/// A delta, and the id of its base.
type TreeDelta = (Oid, Vec<u8>);

/// Contents of the trees of a run: the latest as they are, all as they are stored, in memory or in
/// files.
#[derive(Default)]
struct WrittenTrees {
    chunks: Vec<Buffer>,
    places: HashMap<Oid, WrittenTree>,
    /// Contents of the latest trees, oldest first in `order`.
    latest: HashMap<Oid, Vec<u8>>,
    order: VecDeque<Oid>,
    latest_bytes: usize,
}

/// Place of a tree.
struct WrittenTree {
    chunk: usize,
    start: usize,
    len: usize,
    /// The base, if a delta is at the place.
    base: Option<Oid>,
    /// Number of deltas needed to read it, here or from the pack.
    depth: u8,
}

impl WrittenTrees {
    fn depth(&self, oid: &Oid) -> Option<u8> {
        self.places.get(oid).map(|tree| tree.depth)
    }

    /// The content of a tree.
    fn get(&self, oid: &Oid) -> Option<Cow<'_, [u8]>> {
        let (mut deltas, mut at) = (Vec::new(), *oid);
        let whole: &[u8] = loop {
            if let Some(content) = self.latest.get(&at) {
                break content;
            }
            let &WrittenTree { chunk, start, len, base, .. } = self.places.get(&at)?;
            let stored = self.chunks.get(chunk)?.get(start..start + len)?;
            let Some(base) = base else { break stored };
            deltas.push(stored);
            at = base;
        };
        let all = deltas.into_iter().rev();
        let mut all = all.map(|delta| move |base: &[u8]| apply(base, delta, MOST_TREE_BYTES).ok());
        let Some(first) = all.next() else { return Some(Cow::Borrowed(whole)) };
        let content = all.try_fold(first(whole)?, |content, next| next(&content));
        content.map(Cow::Owned)
    }

    fn insert(
        &mut self,
        (oid, depth): (Oid, u8),
        content: Vec<u8>,
        delta: Option<&TreeDelta>,
        budget: Option<&Arc<Budget>>,
    ) -> Result<()> {
        if self.places.contains_key(&oid) {
            return Ok(());
        }
        let base = delta.map(|(base, _)| *base);
        let stored = delta.map_or(&content, |(_, delta)| delta);
        let has_room = |chunk: &Buffer| chunk.len() + stored.len() <= chunk.capacity();
        if !self.chunks.last().is_some_and(has_room) {
            let mut chunk = Buffer::new(budget.map(Arc::clone));
            chunk.reserve_exact(stored.len().max(CHUNK_BYTES))?;
            self.chunks.push(chunk);
        }
        let number = self.chunks.len() - 1;
        if let Some(chunk) = self.chunks.last_mut() {
            let (start, len) = (chunk.len(), stored.len());
            self.places.insert(oid, WrittenTree { chunk: number, start, len, base, depth });
            chunk.extend_from_slice(stored)?;
        }
        self.latest_bytes += content.len();
        self.latest.insert(oid, content);
        self.order.push_back(oid);
        while self.latest_bytes > MOST_LATEST_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            let content = self.latest.remove(&oldest);
            self.latest_bytes -= content.map_or(0, |content| content.len());
        }
        Ok(())
    }
}

/// Sources of trees with extras.
pub(crate) struct ExactSources<'a> {
    /// The directory of all packs.
    pub packs: &'a parallel::Directory,
    /// Whether earlier runs may have written such trees.
    pub has_earlier: bool,
    /// Memory for trees of this run.
    pub budget: Arc<Budget>,
}

/// Trees of the first parent of a changeset, and those made for it.
struct RunTrees<'r, 'a> {
    trees: &'r ExactTrees<'a>,
    rev: Rev,
    before: &'r Before,
    /// The directory of the changeset's manifest, if a directory that is as in the manifest of the
    /// first parent stays so.
    plain: Option<&'r Plain>,
    /// Hidden files of the changeset's manifest.
    now: &'r HiddenFiles,
    made: Vec<Made>,
}

/// A new tree. `base` is the directory in the first parent.
struct Made {
    oid: Oid,
    base: Option<Oid>,
    content: Vec<u8>,
}

/// The tree of the directory at a path of another one; `None` if its entries are not in memory, or
/// its tree has other ones.
fn tree_at(names: &Names, plain: &Plain, path: &[u8]) -> Option<Oid> {
    let mut at = match plain {
        Plain::Empty => return Some(Oid::EMPTY_TREE),
        Plain::Tracked(directory) if directory.is_plain => directory,
        Plain::Tracked(_) | Plain::Stored(_) => return None,
    };
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        if at.entries.is_empty() {
            return None; // an unread one
        }
        match at.entries.find(names, name, true).map(|entry| &entry.target) {
            Some(EntryTarget::TrackedDirectory(below)) => at = below,
            _ => return Some(Oid::EMPTY_TREE),
        }
    }
    Some(at.tree(Purpose::Git).oid)
}

impl TreeStore for RunTrees<'_, '_> {
    type Error = Error;

    fn read(&mut self, path: &[u8], oid: Oid) -> Result<Vec<u8>> {
        if let Some(content) = self.trees.written.get(&oid) {
            return Ok(content.into_owned());
        }
        let mut plain = self.before.plain.clone();
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            plain = match self.trees.below(&plain, name, oid) {
                Plain::Stored(_) => return self.trees.stored(self.rev, ObjectKind::Tree, oid),
                below => below,
            };
        }
        if plain.oid() == oid {
            return self.trees.content(self.rev, &plain);
        }
        self.trees.stored(self.rev, ObjectKind::Tree, oid)
    }

    fn hidden(&mut self, path: &[u8]) -> Result<Option<HiddenFile>> {
        let is_hidden = self.trees.hidden.as_ref().is_some_and(|hidden| (hidden.hides)(path));
        Ok(is_hidden.then(|| HiddenFile(self.now.get(path).copied())))
    }

    fn write(&mut self, base: Option<Oid>, content: Vec<u8>) -> Oid {
        let head = object_header(ObjectKind::Tree, content.len() as u64);
        let oid = Oid::from_bytes(digest_one(Message { head: &head, body: &content }));
        self.made.push(Made { oid, base, content });
        oid
    }

    fn known(&mut self, path: &[u8], base: Option<Oid>) -> Option<Option<Oid>> {
        let of = |plain| tree_at(self.trees.names, plain, path);
        let (before, after) = (of(&self.before.plain)?, of(self.plain?)?);
        let is_as_before = base.unwrap_or(Oid::EMPTY_TREE) == before;
        is_as_before.then(|| Some(after).filter(|oid| *oid != Oid::EMPTY_TREE))
    }
}

/// The value, or `None` if it is unfit.
fn fitting<T>(found: Result<T, TreeProblem<Error>>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(TreeProblem::Unfit) => Ok(None),
        Err(TreeProblem::Unreadable(error)) => Err(error),
    }
}

/// The commit of another repository that an entry is, if it is one.
fn link_of((mode, oid): &TreeItem<'_>) -> Option<Oid> {
    (**mode == *b"160000").then_some(*oid)
}

const fn flag_of(mode: Mode) -> Flag {
    match mode {
        Mode::EXECUTABLE => Flag::Executable,
        Mode::SYMLINK => Flag::Symlink,
        _ => Flag::Regular,
    }
}

#[cfg(test)]
mod tests {
    use parallel::Directory;

    use super::*;

    fn budget(scratch: &tempfile::TempDir) -> Arc<Budget> {
        Budget::new(0, &Directory::open(scratch.path()).expect("is there"))
    }

    #[test]
    fn trees_come_back_from_chunks_of_any_size() {
        let scratch = tempfile::tempdir().expect("is made");
        let budget = budget(&scratch);
        let mut trees = WrittenTrees::default();
        let sizes = [0, 1, CHUNK_BYTES - 1, 1, CHUNK_BYTES + 1, 7];
        let oids = (0..).map(|number| Oid::from_bytes([number; 20]));
        let contents = sizes.iter().zip(1..).map(|(len, byte)| vec![byte; *len]);
        let all: Vec<(Oid, Vec<u8>)> = oids.zip(contents).collect();
        for (oid, content) in &all {
            trees.insert((*oid, 0), content.clone(), None, Some(&budget)).expect("has room");
        }
        assert!(trees.latest.len() < all.len());
        for (oid, content) in &all {
            assert_eq!(trees.get(oid).as_deref(), Some(&**content));
        }
        // small ones share a chunk, which a budget counts
        assert_eq!(trees.chunks.len(), 4);
        assert!(trees.chunks.iter().all(|it| it.capacity() >= CHUNK_BYTES));
    }

    #[test]
    fn trees_that_are_not_the_latest_come_back_from_their_deltas() {
        let scratch = tempfile::tempdir().expect("is made");
        let budget = budget(&scratch);
        let (mut trees, mut differ) = (WrittenTrees::default(), Differ::default());
        let content_of = |number: u8| {
            let mut content: Vec<u8> = (0..=u8::MAX).cycle().take(MOST_LATEST_BYTES / 3).collect();
            content[usize::from(number) * 100_000..][..20].fill(number);
            content
        };
        for number in 0..9 {
            let content = content_of(number);
            let base = number.checked_sub(1).filter(|_| number != 5);
            let delta = base.map(|base| {
                let mut delta = Vec::new();
                assert!(differ.diff(&content_of(base), &content, 1000, &mut delta));
                (Oid::from_bytes([base; 20]), delta)
            });
            let tree = (Oid::from_bytes([number; 20]), number % 5);
            trees.insert(tree, content, delta.as_ref(), Some(&budget)).expect("has room");
        }
        assert_eq!(trees.latest.len(), 3);
        for number in 0..9 {
            let found = trees.get(&Oid::from_bytes([number; 20]));
            assert!(found.as_deref() == Some(&content_of(number)), "{number}");
        }
    }
}
