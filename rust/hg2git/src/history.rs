//! Trees and commits, in the order of the changesets.
//!
//! Replays the changes of the manifests on directory trees, and makes a commit of each changeset and
//! of each manifest. A commit id that another changeset has already is made different by line feeds
//! at its end, as git-cinnabar does it: so ids depend on the order, which is that of the changelog.
//! Counts heads on the way.

use std::collections::VecDeque;
use std::sync::Arc;

use gitpack::tree::Mode;
use gitpack::{Kind, Oid, object_header};
use hashbrown::HashTable;
use revlog::{Flag, Lines, Node, Parents, Rev, Revlog, Texts};
use sha1lanes::{Message, digest_one};

use crate::changelog::parse;
use crate::changes::ChangeLog;
use crate::commit;
use crate::directory::{Change, Context, Directory, LARGE, Parts, Target, Unconverted};
use crate::error::Result;
use crate::files::FileTable;
use crate::heads::{ChangesetHeads, ManifestHeads, branch_of};
use crate::manifestcommits::ManifestCommits;
use crate::manifests::{Base, Plan, REACH};
use crate::names::Names;
use crate::note::Noted;
use crate::object::Object;
use crate::oidmap::OidMap;
use crate::segment::Table;
use crate::treemanifests::Directories;
use crate::trees::{TreeWriter, View};
use crate::verify::Check;

/// Objects are handed over in batches of about so many bytes.
const BATCH_BYTES: u64 = 256 << 10;

/// The manifest of a changeset to convert.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tree {
    /// The null manifest: no file.
    Empty,
    /// Converted by an earlier run.
    Known(Oid),
    /// At this position of the manifests' plan.
    Position(usize),
}

/// What a history is made from.
pub(crate) struct Sources<'a> {
    pub changelog: &'a Revlog,
    pub manifest: &'a Revlog,
    /// Where each directory has a manifest of its own.
    pub directories: Option<&'a Directories<'a>>,
    pub map: &'a OidMap,
    /// The map of what only git-cinnabar needs.
    pub metadata_map: &'a OidMap,
    /// Changesets to convert, ascending, and their trees.
    pub revs: &'a [Rev],
    pub trees: &'a [Tree],
    pub plan: &'a Plan,
    pub changes: &'a ChangeLog,
    /// Whether the manifest to start from is compared with its node.
    pub check_texts: bool,
}

/// What a history has become; grows as batches are drawn.
#[derive(Debug, Default)]
pub(crate) struct Converted {
    /// Commits of the changesets, in their order.
    pub commits: Vec<Oid>,
    /// Root trees of the plan's manifests, in its order, and their commits.
    pub roots: Vec<Oid>,
    pub manifest_commits: Vec<Oid>,
    /// Heads, those of earlier runs included.
    pub heads: ChangesetHeads,
    pub manifest_heads: ManifestHeads,
    /// Earlier runs should have given these other commits.
    pub displaced: Vec<Displaced>,
}

/// A changeset of the map that has the commit of one that comes before it in the changelog.
///
/// Ids are those of an export of everything at once, in the order of the changelog, where the
/// earlier one would have got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Displaced {
    /// The changeset that has the commit.
    pub later: Node,
    /// The one that should have it.
    pub earlier: Node,
}

/// Objects to compress, and changesets whose notes are still to be made.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub objects: Vec<Object>,
    pub noted: Vec<Noted>,
}

/// Makes the objects; an iterator of batches.
pub(crate) struct History<'a> {
    sources: &'a Sources<'a>,
    texts: Texts<'a>,
    names: &'a mut Names,
    files: &'a FileTable,
    writer: TreeWriter,
    manifest_commits: ManifestCommits,
    converted: &'a mut Converted,
    /// The trees of the last manifests: position and tree.
    states: VecDeque<(usize, Option<Arc<Directory>>)>,
    start: Option<Arc<Directory>>,
    /// The next tree, if it is a large one.
    parts: Option<Parts<'a>>,
    /// Positions of the commits, by their oids.
    taken: HashTable<u32>,
    empty_tree_written: bool,
}

impl<'a> History<'a> {
    /// Prepares the first batch: loads the tree that the changes start from, if they do.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] if the manifest to start from cannot be read.
    pub fn new(
        sources: &'a Sources<'a>,
        texts: Texts<'a>,
        manifest_texts: &mut Texts<'_>,
        names: &'a mut Names,
        files: &'a mut FileTable,
        converted: &'a mut Converted,
    ) -> Result<Self> {
        let start = match sources.plan.start {
            Some(rev) => load(sources, manifest_texts, rev, names, files)?,
            None => None,
        };
        Ok(Self {
            sources,
            texts,
            names,
            files,
            writer: TreeWriter::default(),
            manifest_commits: ManifestCommits::default(),
            converted,
            states: VecDeque::with_capacity(REACH + 2),
            start,
            parts: None,
            taken: HashTable::new(),
            empty_tree_written: false,
        })
    }

    /// The next objects, and the bytes that they take.
    fn batch(&mut self) -> Result<(u64, Batch)> {
        let mut batch = Batch::default();
        let mut bytes = 0;
        let mut measured = 0;
        while bytes < BATCH_BYTES && self.converted.commits.len() < self.sources.revs.len() {
            let tree = self.sources.trees[self.converted.commits.len()];
            if let Some(tree) = self.tree(tree, &mut batch.objects)? {
                self.commit(tree, &mut batch)?;
                bytes += batch.noted.last().map_or(0, Noted::bytes);
            }
            bytes += batch.objects[measured..].iter().map(Object::bytes).sum::<u64>();
            measured = batch.objects.len();
        }
        Ok((bytes, batch))
    }

    /// The root tree of a changeset; makes all trees up to it that are not made yet. `None` if more
    /// is to be made, in another call.
    fn tree(&mut self, tree: Tree, objects: &mut Vec<Object>) -> Result<Option<Oid>> {
        let oid = match tree {
            Tree::Known(oid) => return Ok(Some(oid)),
            Tree::Empty => Oid::EMPTY_TREE,
            Tree::Position(position) => {
                while self.converted.roots.len() <= position {
                    if self.next_part(objects)? {
                        return Ok(None);
                    }
                    self.next_root(objects)?;
                }
                self.converted.roots[position]
            }
        };
        if oid == Oid::EMPTY_TREE && !self.empty_tree_written {
            // git knows this tree without having it; other readers of packs may not
            self.empty_tree_written = true;
            objects.push(Object {
                kind: Kind::Tree,
                oid,
                base: None,
                payload: Vec::new(),
                view: View::Git,
            });
        }
        Ok(Some(oid))
    }

    /// Makes a part of the next root, if it has many files and not all parts are made.
    fn next_part(&mut self, objects: &mut Vec<Object>) -> Result<bool> {
        let position = self.converted.roots.len();
        let changes = self.sources.changes;
        if self.parts.is_none() {
            if changes.base(position) != Base::Empty || changes.of(position).count() < LARGE {
                return Ok(false);
            }
            self.parts = Some(Parts::new(changes_at(changes, position)));
        }
        let Some(parts) = &mut self.parts else { return Ok(false) };
        let mut context =
            Context { names: self.names, files: self.files, writer: Some(&mut self.writer) };
        let advanced = parts
            .advance(&mut context)
            .map_err(|problem| self.blame(self.sources.plan.revs[position], &problem))?;
        objects.append(&mut self.writer.take());
        Ok(advanced)
    }

    fn next_root(&mut self, objects: &mut Vec<Object>) -> Result<()> {
        let position = self.converted.roots.len();
        let before = match self.sources.changes.base(position) {
            Base::Empty => None,
            Base::Known(_) => self.start.clone(),
            Base::Position(base) => {
                let kept = self.states.iter().rev().find(|(kept, _)| *kept == base);
                kept.expect("a base is within reach").1.clone()
            }
        };
        let mut context =
            Context { names: self.names, files: self.files, writer: Some(&mut self.writer) };
        let after = match self.parts.take() {
            Some(parts) => parts.finish(&mut context),
            None => context.apply(before.as_ref(), &changes_at(self.sources.changes, position)),
        };
        let after =
            after.map_err(|problem| self.blame(self.sources.plan.revs[position], &problem))?;
        objects.append(&mut self.writer.take());
        let (root, tree) = after.as_ref().map_or((Oid::EMPTY_TREE, Oid::EMPTY_TREE), |after| {
            (after.git.oid, after.manifest.oid)
        });
        self.converted.roots.push(root);
        objects.push(self.manifest_commit(position, tree));
        self.states.push_back((position, after));
        if self.states.len() > REACH + 1 {
            self.states.pop_front();
        }
        Ok(())
    }

    /// The commit of the manifest at `position`, of which `tree` tells the files.
    ///
    /// A parent that no changeset has which is or was converted is left out.
    fn manifest_commit(&mut self, position: usize, tree: Oid) -> Object {
        let index = self.sources.manifest.index();
        let rev = self.sources.plan.revs[position];
        let Parents(p1, p2) = index.parents(rev);
        let commit_of = |parent: Rev| match self.sources.plan.position(parent) {
            Some(position) => self.converted.manifest_commits.get(position).copied(),
            None => self.sources.metadata_map.oid(Table::Manifests, &index.node(parent)),
        };
        let parents: Vec<Oid> = [p1, p2].into_iter().flatten().filter_map(commit_of).collect();
        let object = self.manifest_commits.next(tree, &parents, index.node(rev));
        self.converted.manifest_commits.push(object.oid);
        self.converted.manifest_heads.add(object.oid, &parents);
        object
    }

    fn blame(&self, rev: Rev, Unconverted(file): &Unconverted) -> revlog::Error {
        let what = format!("its file revision {} was not converted", self.files.node(*file));
        self.sources.manifest.corrupt(rev, what)
    }

    fn commit(&mut self, tree: Oid, batch: &mut Batch) -> Result<()> {
        let changelog = self.sources.changelog;
        let rev = self.sources.revs[self.converted.commits.len()];
        let Parents(p1, p2) = changelog.index().parents(rev);
        let mut parents = Vec::with_capacity(2);
        for parent in [p1, p2].into_iter().flatten() {
            parents.push(self.commit_of(parent).ok_or_else(|| {
                changelog.corrupt(rev, "its parent is not among the changesets to convert")
            })?);
        }
        let text = self.texts.get(rev)?.text;
        let mut payload = Vec::new();
        let changeset = parse(changelog, rev, &text)?;
        commit::write(&mut payload, tree, &parents, &changeset);
        let parents = [p1, p2].into_iter().flatten().map(Rev::number);
        self.converted.heads.add(rev.number(), parents, branch_of(&changeset));
        let oid = loop {
            let head = object_header(Kind::Commit, payload.len() as u64);
            let oid = Oid::from_bytes(digest_one(Message { head: &head, body: &payload }));
            match self.sources.map.changeset(&oid) {
                None if self.take(oid) => break oid,
                None => {}
                Some(other) => self.note_displaced(rev, other),
            }
            payload.push(b'\n');
        };
        self.converted.commits.push(oid);
        let node = changelog.index().node(rev);
        batch.noted.push(Noted { rev, node, text, commit: batch.objects.len() });
        batch.objects.push(Object {
            kind: Kind::Commit,
            oid,
            base: None,
            payload,
            view: View::Git,
        });
        Ok(())
    }

    /// Takes an oid for the next commit; `false` if another has it.
    fn take(&mut self, oid: Oid) -> bool {
        let commits = &self.converted.commits;
        let hash = oid_hash(&oid);
        if self.taken.find(hash, |&at| commits[at as usize] == oid).is_some() {
            return false;
        }
        let position = u32::try_from(commits.len()).expect("revisions have 32 bits");
        self.taken.insert_unique(hash, position, |&at| oid_hash(&commits[at as usize]));
        true
    }

    /// Notes that a changeset of the map has the commit of `rev`, unless it comes before it.
    fn note_displaced(&mut self, rev: Rev, other: Node) {
        let index = self.sources.changelog.index();
        // one that is gone does not come before anything
        let comes_before = self
            .sources
            .changelog
            .find(&[other])
            .is_ok_and(|found| found.iter().all(|&other| other < rev));
        if !comes_before {
            let earlier = index.node(rev);
            self.converted.displaced.push(Displaced { later: other, earlier });
        }
    }

    fn commit_of(&self, rev: Rev) -> Option<Oid> {
        match self.sources.revs.binary_search(&rev) {
            Ok(position) => self.converted.commits.get(position).copied(),
            Err(_) => {
                let node: Node = self.sources.changelog.index().node(rev);
                self.sources.map.oid(Table::Changesets, &node)
            }
        }
    }
}

impl Iterator for History<'_> {
    type Item = Result<(u64, Batch)>;

    fn next(&mut self) -> Option<Self::Item> {
        let is_done = self.converted.commits.len() == self.sources.revs.len();
        (!is_done).then(|| self.batch())
    }
}

/// Oids are digests already.
fn oid_hash(oid: &Oid) -> u64 {
    let (beginning, _) = oid.as_bytes().split_first_chunk().expect("oids are longer");
    u64::from_ne_bytes(*beginning)
}

/// The changes of the manifest at `position`.
fn changes_at(changes: &ChangeLog, position: usize) -> Vec<Change<'_>> {
    let all = changes.of(position).map(|(path, file)| {
        let target = file.map(|(file, mode)| Target::File(file, mode));
        Change { path: changes.path(path), target }
    });
    all.collect()
}

/// The mode of a file in git.
pub(crate) const fn mode_of(flag: Flag) -> Mode {
    match flag {
        Flag::Regular => Mode::FILE,
        Flag::Executable => Mode::EXECUTABLE,
        Flag::Symlink => Mode::SYMLINK,
    }
}

/// The tree of a manifest that an earlier run converted.
fn load(
    sources: &Sources<'_>,
    texts: &mut Texts<'_>,
    rev: Rev,
    names: &mut Names,
    files: &mut FileTable,
) -> Result<Option<Arc<Directory>>> {
    let text = match sources.directories {
        Some(directories) => Arc::new(directories.flat_text(rev)?.into()),
        None => texts.get(rev)?.text,
    };
    if sources.check_texts && sources.directories.is_none() {
        // no changeset of this run has it, and each of them builds on it
        Check::new(sources.manifest).texts(&[(rev, text.as_slice())])?;
    }
    let mut changes = Vec::new();
    for line in Lines::new(&text) {
        let line = line.map_err(|problem| sources.manifest.corrupt(rev, problem))?;
        let path = names.number(line.path);
        let known = |node: &Node| sources.map.oid(Table::Files, node);
        let file = files.number(line.node, path, known);
        changes
            .push(Change { path: line.path, target: Some(Target::File(file, mode_of(line.flag))) });
    }
    let mut context = Context { names, files, writer: None };
    let tree = context.apply(None, &changes).map_err(|Unconverted(file)| {
        let what = format!("its file revision {} is not in the map", files.node(file));
        sources.manifest.corrupt(rev, what)
    })?;
    Ok(tree)
}
