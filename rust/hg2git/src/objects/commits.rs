//! Trees and commits, in the order of the changelog.
//!
//! The [`Dialect`] writes a commit, and handles an oid that another changeset has. So oids may
//! depend on the order. Adopted commits are taken unchanged ([`adopted`]).

mod adopted;
mod ancestors;
mod exacttrees;

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dialect::{CommitInput, Dialect, ParentCommit, exact};
use gitpack::{ObjectKind, Oid, object_header};
use hashbrown::HashTable;
use parallel::Buffer;
use revlog::{Changeset, Node, Parents, Rev, Revlog};
use sha1lanes::Message;

use self::adopted::{AdoptedCommit, AdoptedHistory};
use self::ancestors::StoreHistory;
pub(crate) use self::exacttrees::ExactSources;
use self::exacttrees::ExactTrees;
use crate::error::{Error, Misfit, Result, Unfit};
use crate::map::adopted::oid_of_commit;
use crate::map::segment::{NO_COMMIT, Table};
use crate::objects::branchheads::{BranchHeads, branch_of};
use crate::objects::collisions::CollisionCheck;
use crate::objects::directory::{EntryTarget, Replay, TreeChange, oid_of};
use crate::objects::history::{Batch, Drawn, Sources};
use crate::objects::imported::ImportedCommits;
use crate::objects::inherited::RootFile;
use crate::objects::object::Object;
use crate::objects::trees::{Purpose, Refused, TreeForm, TreeWriter};
use crate::read::changelog::parse;
use crate::read::files::FileTable;
use crate::read::manifests::ChangesetTree;
use crate::read::names::Names;

/// Approximate bytes of a commit beside its changeset.
const COMMIT_LINES_LEN: usize = 256;

/// Changeset of the map that has the commit of an earlier changeset.
///
/// In an export of all changesets at once, in the order of the changelog, the earlier changeset has
/// the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Displaced {
    /// Changeset that has the commit.
    pub later: Node,
    /// Changeset that should have it.
    pub earlier: Node,
}

/// Changeset with a new commit.
#[derive(Debug)]
pub(crate) struct Committed {
    pub rev: Rev,
    pub node: Node,
    pub text: Arc<Buffer>,
    /// Position of its commit among the objects made with it.
    pub commit: usize,
}

/// Results of converted changesets.
#[derive(Debug, Default)]
pub(crate) struct ConvertedChangesets {
    /// Commits of the changesets, in their order; [`NO_COMMIT`] for those without.
    pub commits: Vec<Oid>,
    /// Root trees of the plan's manifests, in its order.
    pub roots: Vec<Oid>,
    /// Changesets of earlier runs that have the commits of earlier changesets.
    pub displaced: Vec<Displaced>,
    /// Number of adopted commits.
    pub adopted: u64,
    /// Number of commits that extras name.
    pub exact: u64,
    /// The first changeset whose commit differs from the dialect's, if commits are judged.
    pub foreign: Option<Node>,
    /// Heads of branches, if they are counted.
    pub heads: Option<BranchHeads>,
}

/// Writer of trees and commits of batches, in order.
pub(crate) struct Commits<'a, D> {
    sources: &'a Sources<'a>,
    files: &'a FileTable,
    writer: TreeWriter<'a>,
    names: &'a Names,
    dialect: D,
    adopted: Option<AdoptedHistory<'a>>,
    exact_trees: Option<ExactTrees<'a>>,
    converted: ConvertedChangesets,
    /// Positions of the commits, by their oids.
    taken: HashTable<u32>,
    empty_tree_written: bool,
    /// Oids of the edited blobs that were written.
    edited_blobs: HashSet<Oid>,
    /// Imported commits that were written, though their changesets have others.
    twins: HashSet<Oid>,
    /// Trees with another inherited file, by the manifest's tree.
    inherited_trees: HashMap<(Oid, RootFile), Oid>,
}

impl<'a, D: Dialect> Commits<'a, D> {
    /// Converts `sources`. Counts heads of branches if `counts_heads`.
    pub fn new(
        sources: &'a Sources<'a>,
        names: &'a Names,
        files: &'a FileTable,
        dialect: D,
        counts_heads: bool,
    ) -> Self {
        let heads = counts_heads.then(BranchHeads::default);
        Self {
            sources,
            files,
            writer: TreeWriter::new(&TreeForm::GIT, names, files, sources.collisions),
            names,
            dialect,
            adopted: AdoptedHistory::of(sources),
            exact_trees: ExactTrees::of(sources, names, files, D::hides()),
            converted: ConvertedChangesets { heads, ..ConvertedChangesets::default() },
            taken: HashTable::new(),
            empty_tree_written: false,
            edited_blobs: HashSet::new(),
            twins: HashSet::new(),
            inherited_trees: HashMap::new(),
        }
    }

    /// Results of all batches.
    pub fn into_converted(self) -> ConvertedChangesets {
        self.converted
    }

    /// The objects of the next batch, and the changesets with a commit in it.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] if a file revision was not converted, a changeset cannot be read, or
    /// a tree or commit carries a collision attack. [`crate::Error::Unfit`] if an adopted commit
    /// does not fit.
    pub fn convert(&mut self, batch: &Batch) -> Result<(Vec<Object>, Vec<Committed>)> {
        let written = self.writer.write(&batch.made);
        let mut objects = written.map_err(|(made, refused)| {
            self.refused(self.sources.plan.revs[batch.position_of(made)], refused)
        })?;
        objects.reserve(batch.changesets.len());
        let roots = batch.manifests.iter();
        self.converted.roots.extend(roots.map(|made| oid_of(made.root.as_ref(), Purpose::Git)));
        for position in batch.first_manifest..batch.first_manifest + batch.manifests.len() {
            let blobs = self.sources.edits.blobs(position);
            objects.extend(blobs.filter(|blob| self.edited_blobs.insert(blob.oid)));
        }
        self.write_inherited(batch, &mut objects)?;
        if let Some(adopted) = &mut self.adopted {
            let trees = adopted.trees(batch, &self.converted.roots, self.names, self.files);
            for tree in trees {
                self.empty_tree_written |= tree.oid == Oid::EMPTY_TREE;
                objects.push(tree);
            }
        }
        let mut committed = Vec::with_capacity(batch.changesets.len());
        if let Some(exact) = &mut self.exact_trees {
            exact.keep(batch);
        }
        for drawn in &batch.changesets {
            let plain = self.tree_of(drawn, &mut objects)?;
            let mut tree = plain;
            if let Some(exact) = &mut self.exact_trees {
                let changeset = &parse(self.sources.changelog, drawn.rev, &drawn.text)?;
                let out = (&mut objects, &mut self.writer.depths);
                tree = exact.tree(drawn.rev, (drawn.tree, plain), changeset, out)?;
                self.converted.exact += u64::from(tree != plain);
            }
            let commit = self.commit(drawn, (plain, tree), batch, &mut objects)?;
            if let Some(exact) = &mut self.exact_trees {
                exact.done(drawn.rev, drawn.tree);
            }
            let Some(commit) = commit else { continue };
            self.add_empty_tree(tree, &mut objects);
            let node = self.sources.changelog.index().node(drawn.rev);
            let text = Arc::clone(&drawn.text);
            committed.push(Committed { rev: drawn.rev, node, text, commit: objects.len() });
            objects.push(commit);
        }
        Ok((objects, committed))
    }

    /// The root tree of a changeset.
    fn tree_oid(&self, tree: ChangesetTree) -> Oid {
        match tree {
            ChangesetTree::Known(oid) => oid,
            ChangesetTree::Empty => Oid::EMPTY_TREE,
            ChangesetTree::Position(position) => self.converted.roots[position],
        }
    }

    /// Writes the trees of the batch's manifests with other inherited files.
    fn write_inherited(&mut self, batch: &Batch, objects: &mut Vec<Object>) -> Result<()> {
        let Some(inherited) = self.sources.inherited else { return Ok(()) };
        for (manifest, position) in batch.manifests.iter().zip(batch.first_manifest..) {
            for file in inherited.of_manifest(position) {
                let mut replay = Replay::new(self.names);
                let target = file.map(|id| EntryTarget::Object(Arc::new(id)));
                let change = TreeChange { path: inherited.name, target };
                let root = replay.apply(manifest.root.as_ref(), &[change]);
                let rev = self.sources.plan.revs[position];
                let written = self.writer.write(&replay.made);
                objects.append(&mut written.map_err(|(_, refused)| self.refused(rev, refused))?);
                let trees = (self.converted.roots[position], oid_of(root.as_ref(), Purpose::Git));
                self.inherited_trees.insert((trees.0, *file), trees.1);
            }
        }
        Ok(())
    }

    /// The error of a tree of a manifest.
    fn refused(&self, rev: Rev, refused: Refused) -> revlog::Error {
        match refused {
            Refused::Unconverted(file) => {
                let node = self.files.node(file);
                let what = format!("its file revision {node} was not converted");
                self.sources.manifest.corrupt(rev, what)
            }
            Refused::Attack(attack) => self.sources.manifest.corrupt(rev, attack),
        }
    }

    /// The tree of a changeset's commit.
    fn tree_of(&mut self, drawn: &Drawn, objects: &mut Vec<Object>) -> Result<Oid> {
        let oid = self.tree_oid(drawn.tree);
        let place = self.converted.commits.len();
        let Some((inherited, file)) = (self.sources.inherited)
            .and_then(|inherited| Some((inherited, inherited.file(place)?)))
        else {
            return Ok(oid);
        };
        if let Some(known) = self.inherited_trees.get(&(oid, file)) {
            return Ok(*known);
        }
        let tree = inherited.stored_tree(drawn.rev, oid, file)?;
        let made = tree.oid;
        self.inherited_trees.insert((oid, file), made);
        objects.push(tree);
        Ok(made)
    }

    /// Adds the empty tree once, if a changeset has it. git knows the empty tree without an object,
    /// but other readers of packs may not.
    fn add_empty_tree(&mut self, oid: Oid, objects: &mut Vec<Object>) {
        if oid == Oid::EMPTY_TREE && !self.empty_tree_written {
            self.empty_tree_written = true;
            let (kind, payload) = (ObjectKind::Tree, Vec::new());
            objects.push(Object { kind, oid, base: None, payload, purpose: Purpose::Git });
        }
    }

    /// The commit of a changeset; `None` if it has no commit, or the commit of another changeset.
    fn commit(
        &mut self,
        drawn: &Drawn,
        (plain, tree): (Oid, Oid),
        batch: &Batch,
        objects: &mut Vec<Object>,
    ) -> Result<Option<Object>> {
        let Drawn { rev, text, .. } = drawn;
        let (rev, changelog) = (*rev, self.sources.changelog);
        let index = changelog.index();
        let Parents(p1, p2) = index.parents(rev);
        let mut parents = Vec::with_capacity(2);
        for parent in [p1, p2].into_iter().flatten() {
            let commit = commit_of(self.sources, &self.converted, parent).ok_or_else(|| {
                changelog.corrupt(rev, "its parent is not among the changesets to convert")
            })?;
            let commit = Some(commit).filter(|commit| *commit != NO_COMMIT);
            parents.push(ParentCommit { node: index.node(parent), commit });
        }
        let mut payload = Vec::with_capacity(text.len() + COMMIT_LINES_LEN);
        let changeset = &parse(changelog, rev, text)?;
        if let Some(heads) = &mut self.converted.heads {
            heads.add(rev, Parents(p1, p2), branch_of(changeset));
        }
        let node = index.node(rev);
        let input = CommitInput { node, changeset, tree, parents: &parents };
        let Self { dialect, sources, files, names, converted, .. } = self;
        let history = StoreHistory {
            sources,
            files,
            names,
            rev,
            changeset,
            root: batch.root_of(drawn.tree),
            is_edited: D::is_edited,
            commit_of: &|rev| commit_of(sources, converted, rev),
            error: OnceCell::new(),
        };
        let Ok(has_commit) = dialect.write_commit(&input, &history, &mut payload) else {
            return Err(history.into_error());
        };
        if !has_commit {
            self.converted.commits.push(NO_COMMIT);
            return Ok(None);
        }
        let Ok(linked) = exact::linked_parents(changeset, &parents, &history) else {
            return Err(history.into_error());
        };
        let exact = self.exact(drawn, changeset, (tree, &linked));
        let adopted =
            self.adopted.as_ref().and_then(|adopted| Some((adopted, adopted.position(&node)?)));
        let oid = if let Some((adopted, at)) = adopted {
            let AdoptedCommit { oid, content } =
                adopted.commit(at, node, (drawn.tree, tree), &parents, &payload)?;
            if self.is_taken(oid) {
                return Err(Error::Unfit(Unfit { node, misfit: Misfit::Taken }));
            }
            let own = exact.map(|(oid, _)| oid);
            if self.is_judging()
                && own.unwrap_or_else(|| self.settle(rev, node, &mut payload)) != oid
            {
                self.converted.foreign = Some(node);
            }
            self.converted.adopted += 1;
            payload = content;
            oid
        } else if let Some((oid, content)) = exact {
            self.converted.exact += 1;
            payload = content;
            oid
        } else {
            let own = self.settle(rev, node, &mut payload);
            self.imported(drawn, (plain, own), &mut payload, objects)?
        };
        if !D::HAS_UNIQUE_COMMITS && self.is_taken(oid) {
            self.converted.commits.push(oid);
            return Ok(None);
        }
        self.take(oid);
        let head = object_header(ObjectKind::Commit, payload.len() as u64);
        let message = Message { head: &head, body: &payload };
        let passed = CollisionCheck::any_object(ObjectKind::Commit, oid, message);
        passed.map_err(|attack| changelog.corrupt(rev, attack))?;
        self.converted.commits.push(oid);
        let kind = ObjectKind::Commit;
        Ok(Some(Object { kind, oid, base: None, payload, purpose: Purpose::Git }))
    }

    /// The commit that an extra of the changeset names, if it fits and no other changeset has it.
    fn exact(
        &mut self,
        drawn: &Drawn,
        changeset: &Changeset<'_>,
        (tree, parents): (Oid, &[Oid]),
    ) -> Option<(Oid, Vec<u8>)> {
        let named = exact::commit(changeset, (tree, parents), D::stands_for, oid_of_commit);
        let (oid, mut content) = named?;
        let node = self.sources.changelog.index().node(drawn.rev);
        let is_free = self.settle(drawn.rev, node, &mut content) == oid;
        is_free.then_some((oid, content))
    }

    /// The commit that became the changeset, if an import has noted one; otherwise its `own`.
    fn imported(
        &mut self,
        drawn: &Drawn,
        (plain, own): (Oid, Oid),
        payload: &mut Vec<u8>,
        objects: &mut Vec<Object>,
    ) -> Result<Oid> {
        let Some(imported) = self.sources.imported else { return Ok(own) };
        let node = self.sources.changelog.index().node(drawn.rev);
        let kept = imported.kept(&node);
        if kept.is_none() && imported.changeset(own) == Some(node) {
            return Ok(own);
        }
        let Some(oid) = kept.or_else(|| imported.commit(&node)) else { return Ok(own) };
        let content = imported.read(ObjectKind::Commit, oid)?;
        let judged = D::judge(&content);
        let others: Vec<Oid> =
            judged.parents.iter().copied().filter(|parent| !self.is_taken(*parent)).collect();
        // two commits became one changeset, which has the other one
        if !others.iter().all(|parent| self.is_twin(*parent, imported)) {
            return Ok(own);
        }
        for parent in others {
            self.add_twin(drawn.rev, (parent, imported), objects)?;
        }
        let tree = judged.tree.unwrap_or(Oid::EMPTY_TREE);
        if let Some(exact) = &mut self.exact_trees {
            exact.import(drawn.rev, (drawn.tree, plain), (tree, imported), objects)?;
        }
        self.add_empty_tree(tree, objects);
        self.converted.exact += 1;
        *payload = content;
        Ok(oid)
    }

    /// Whether the changeset of an imported commit is converted.
    fn is_twin(&self, oid: Oid, imported: &ImportedCommits<'_>) -> bool {
        let found = imported.changeset(oid).map(|node| self.sources.changelog.find(&[node]));
        let Some(Ok(revs)) = found else { return false };
        revs.iter().all(|rev| commit_of(self.sources, &self.converted, *rev).is_some())
    }

    /// Adds an imported commit whose changeset has another one, and such ancestors.
    fn add_twin(
        &mut self,
        rev: Rev,
        (oid, imported): (Oid, &ImportedCommits<'_>),
        objects: &mut Vec<Object>,
    ) -> Result<()> {
        let mut left = vec![oid];
        while let Some(oid) = left.pop() {
            if self.is_taken(oid) || !self.twins.insert(oid) {
                continue;
            }
            let content = imported.read(ObjectKind::Commit, oid)?;
            let judged = D::judge(&content);
            let tree = judged.tree.unwrap_or(Oid::EMPTY_TREE);
            if let Some(exact) = &mut self.exact_trees {
                exact.copy_whole(rev, (tree, imported), objects)?;
            }
            self.add_empty_tree(tree, objects);
            left.extend(judged.parents);
            objects.push(Object::whole(ObjectKind::Commit, oid, content));
        }
        Ok(())
    }

    /// Lets the dialect change its commit until the oid is free. Oids of adopted commits are not
    /// free.
    fn settle(&mut self, rev: Rev, node: Node, payload: &mut Vec<u8>) -> Oid {
        let is_judging = self.is_judging();
        let Self { dialect, sources, converted, taken, adopted, .. } = self;
        dialect.settle(payload, oid_of_commit, |oid| {
            let commits = &converted.commits;
            if taken.find(oid_hash(&oid), |&at| commits[at as usize] == oid).is_some() {
                return true;
            }
            let owner = adopted.as_ref().and_then(|adopted| adopted.changeset(&oid));
            if let Some(owner) = owner {
                if is_judging && owner != node {
                    converted.foreign.get_or_insert(node);
                }
                return owner != node;
            }
            let other = sources.map.changeset(&oid);
            if let Some(other) = other {
                converted.displaced.extend(displaced(sources.changelog, rev, other));
            }
            other.is_some()
        })
    }

    /// Whether commits are still compared with the dialect's.
    const fn is_judging(&self) -> bool {
        self.sources.is_judging && self.converted.foreign.is_none()
    }

    /// Whether a changeset has this commit already.
    fn is_taken(&self, oid: Oid) -> bool {
        let commits = &self.converted.commits;
        self.taken.find(oid_hash(&oid), |&at| commits[at as usize] == oid).is_some()
            || self.sources.map.changeset(&oid).is_some()
    }

    /// Takes a free oid for the next commit.
    fn take(&mut self, oid: Oid) {
        let commits = &self.converted.commits;
        let position = u32::try_from(commits.len()).expect("revisions have 32 bits");
        let hash = |&at: &u32| oid_hash(&commits[at as usize]);
        self.taken.insert_unique(oid_hash(&oid), position, hash);
    }
}

/// The commit of a revision; [`NO_COMMIT`] if it has none, `None` if it is not converted.
fn commit_of(sources: &Sources<'_>, converted: &ConvertedChangesets, rev: Rev) -> Option<Oid> {
    match sources.revs.binary_search(&rev) {
        Ok(position) => converted.commits.get(position).copied(),
        Err(_) => sources.map.oid(Table::Changesets, &sources.changelog.index().node(rev)),
    }
}

/// `other`, a changeset of the map with the commit of `rev`, unless it comes before `rev`.
fn displaced(changelog: &Revlog, rev: Rev, other: Node) -> Option<Displaced> {
    // a stripped changeset has no position
    let found = changelog.find(&[other]);
    let comes_before = found.is_ok_and(|found| found.iter().all(|&other| other < rev));
    (!comes_before).then(|| Displaced { later: other, earlier: changelog.index().node(rev) })
}

/// The first 8 bytes of an oid, which is a digest already.
fn oid_hash(oid: &Oid) -> u64 {
    let (beginning, _) = oid.as_bytes().split_first_chunk().expect("oids are longer");
    u64::from_ne_bytes(*beginning)
}
