//! Trees with entries that manifests do not have, by the rules of [`dialect::exact::tree`].
//!
//! Such a tree needs the tree of the first parent, and the files that changed since. Trees of this
//! run are kept ([`written`]), in files if there is no memory; trees of earlier runs are read from
//! the packs. A run without such trees keeps nothing.

mod changes;
mod hidden;
mod plain;
mod written;

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dialect::exact::tree::{
    DirectoryEdits, HiddenFile, Hides, TrackedFile, TreeEntries, TreeEntryKind, TreeProblem,
    TreeStore, TreeValue, edited, first_entry, is_directory, kind_of,
};
use gitpack::pack::Objects;
use gitpack::tree::Mode;
use gitpack::{Differ, ObjectKind, Oid, object_header};
use parallel::Budget;
use revlog::manifest::Flag;
use revlog::{Changeset, Node, Parents, Rev, Scratch, Texts};
use sha1lanes::{Message, digest_one};

use self::changes::{DirectoryChanges, PathChange};
use self::hidden::{HiddenFiles, HiddenPaths};
use self::plain::{Plain, tree_at};
use self::written::WrittenTrees;
use crate::error::{Error, Result};
use crate::map::segment::Table;
use crate::objects::history::{Batch, Sources};
use crate::objects::imported::ImportedCommits;
use crate::objects::inherited::{file_in, tree_of};
use crate::objects::object::Object;
use crate::objects::trees::Depths;
use crate::read::changelog::parse;
use crate::read::files::FileTable;
use crate::read::manifests::ChangesetTree;
use crate::read::names::Names;

/// Longest tree that is read, in bytes.
const MOST_TREE_BYTES: usize = 16 << 20;

/// Trees of a first parent: with extras, and without.
#[derive(Clone, Debug)]
struct Before {
    tree: Oid,
    plain: Plain,
    /// The hidden files of its manifest.
    hidden: HiddenFiles,
}

/// Maker of the trees of a run's changesets.
pub(super) struct ExactTrees<'a> {
    sources: &'a Sources<'a>,
    exact: &'a ExactSources<'a>,
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
        let exact = sources.exact_trees.as_ref()?;
        let hidden = hides.map(|hides| HiddenPaths::of(hides, sources.changes.paths()));
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
            exact,
            names,
            files,
            packs: OnceCell::new(),
            uses,
            roots: HashMap::new(),
            shown: HashMap::new(),
            earlier: HashMap::new(),
            written: WrittenTrees::new(Arc::clone(&exact.budget)),
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
        self.written.keep((tree, 0), content, None)
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
        if self.exact.has_earlier {
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
        let objects = match self.packs.get() {
            Some(objects) => objects,
            None => {
                let opened = Objects::open(self.exact.packs, MOST_TREE_BYTES);
                let opened = opened.map_err(|it| missing(&it))?;
                self.packs.get_or_init(|| opened)
            }
        };
        let found = objects.read(kind, &oid).map_err(|problem| missing(&problem))?;
        found.ok_or_else(|| missing(&"no pack has it"))
    }

    fn made(
        &mut self,
        rev: Rev,
        before: &Before,
        (after, plain): (&Plain, Oid),
        (value, (hidden, followed)): (Option<&TreeValue>, (&HiddenFiles, Vec<PathChange>)),
        (objects, depths): (&mut Vec<Object>, &mut Depths),
    ) -> Result<Oid> {
        let Some(found) = self.changes(rev, &before.plain, after)? else { return Ok(plain) };
        let DirectoryChanges { files: mut changes, links } = found;
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
                Some(file) => file,
                None => file_in(&self.content(rev, after)?, inherited.name),
            };
            if followed.iter().all(|(path, _)| **path != *inherited.name) {
                let file = file.map(|(oid, mode)| (flag_of(mode), oid));
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
            for tree in made {
                self.written.write(tree, &mut self.differ, (objects, depths))?;
            }
            return Ok(root);
        }
        Ok(plain)
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

const fn flag_of(mode: Mode) -> Flag {
    match mode {
        Mode::EXECUTABLE => Flag::Executable,
        Mode::SYMLINK => Flag::Symlink,
        _ => Flag::Regular,
    }
}
