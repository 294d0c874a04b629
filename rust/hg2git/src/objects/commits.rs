//! Trees and commits, in the order of the changesets.
//!
//! How a commit is written, and what is done about an id that another changeset has already, is a
//! dialect's business: [`CommitForm`]. So ids may depend on the order, which is that of the changelog.
//! Commits that are given are taken as they are ([`given`]).

mod given;

use std::sync::Arc;

use gitpack::{ObjectKind, Oid, object_header};
use hashbrown::HashTable;
use parallel::Buffer;
use revlog::{Changeset, Node, Parents, Rev, Revlog};
use sha1lanes::Message;

use self::given::{GivenCommit, GivenCommits};
use crate::error::{Error, Misfit, Result, Unfit};
use crate::map::adopted::oid_of_commit;
use crate::map::segment::Table;
use crate::objects::collisions::CollisionCheck;
use crate::objects::directory::oid_of;
use crate::objects::history::{Batch, Drawn, Sources};
use crate::objects::object::Object;
use crate::objects::trees::{Purpose, Refused, TreeForm, TreeWriter};
use crate::read::changelog::parse;
use crate::read::files::FileTable;
use crate::read::manifests::ChangesetTree;
use crate::read::names::Names;

/// Bytes of a commit that its changeset does not have, about.
const COMMIT_LINES_LEN: usize = 256;

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

/// How a dialect writes commits. It is asked in the order of the changelog.
pub(crate) trait CommitForm {
    /// Appends the content of the commit of `changeset`, which is revision `rev`.
    fn write(
        &mut self,
        out: &mut Vec<u8>,
        tree: Oid,
        parents: &[Oid],
        changeset: &Changeset<'_>,
        revs: (Rev, Parents),
    );

    /// Changes `content`, if it has to be, until its id is not taken, and answers the id. It is taken from
    /// then on, as are all for which `is_taken` says so.
    fn settle(
        &mut self,
        content: &mut Vec<u8>,
        oid_of: impl FnMut(&[u8]) -> Oid,
        is_taken: impl FnMut(Oid) -> bool,
    ) -> Oid;
}

/// A changeset whose commit is made.
#[derive(Debug)]
pub(crate) struct Committed {
    pub rev: Rev,
    pub node: Node,
    pub text: Arc<Buffer>,
    /// Where its commit is among the objects made with it.
    pub commit: usize,
}

/// What the changesets became.
#[derive(Debug, Default)]
pub(crate) struct ConvertedChangesets {
    /// Commits of the changesets, in their order.
    pub commits: Vec<Oid>,
    /// Root trees of the plan's manifests, in its order.
    pub roots: Vec<Oid>,
    /// Earlier runs should have given these other commits.
    pub displaced: Vec<Displaced>,
    /// How many of the commits were given.
    pub given: u64,
    /// The first changeset whose commit is not what the dialect would have made, if that is asked.
    pub foreign: Option<Node>,
}

/// Makes trees and commits of batches, in order.
pub(crate) struct Commits<'a, F> {
    sources: &'a Sources<'a>,
    files: &'a FileTable,
    writer: TreeWriter<'a>,
    names: &'a Names,
    form: F,
    given: Option<GivenCommits<'a>>,
    converted: ConvertedChangesets,
    /// Positions of the commits, by their oids.
    taken: HashTable<u32>,
    empty_tree_written: bool,
}

impl<'a, F: CommitForm> Commits<'a, F> {
    /// Makes them of `sources`.
    pub fn new(sources: &'a Sources<'a>, names: &'a Names, files: &'a FileTable, form: F) -> Self {
        Self {
            sources,
            files,
            writer: TreeWriter::new(&TreeForm::GIT, names, files, sources.collisions),
            names,
            form,
            given: GivenCommits::of(sources),
            converted: ConvertedChangesets::default(),
            taken: HashTable::new(),
            empty_tree_written: false,
        }
    }

    /// What all became.
    pub fn into_converted(self) -> (ConvertedChangesets, F) {
        (self.converted, self.form)
    }

    /// The objects of the next batch, and the changesets in it.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] if a file revision was not converted, a changeset cannot be read, or a
    /// tree or commit carries a collision attack; [`crate::Error::Unfit`] if a given commit does not count.
    pub fn convert(&mut self, batch: &Batch) -> Result<(Vec<Object>, Vec<Committed>)> {
        let written = self.writer.write(&batch.made);
        let mut objects = written.map_err(|(made, refused)| {
            let rev = self.sources.plan.revs[batch.position_of(made)];
            match refused {
                Refused::Unconverted(file) => {
                    let node = self.files.node(file);
                    let what = format!("its file revision {node} was not converted");
                    self.sources.manifest.corrupt(rev, what)
                }
                Refused::Attack(attack) => self.sources.manifest.corrupt(rev, attack),
            }
        })?;
        objects.reserve(batch.changesets.len());
        let roots = batch.manifests.iter();
        self.converted.roots.extend(roots.map(|made| oid_of(made.root.as_ref(), Purpose::Git)));
        if let Some(given) = &mut self.given {
            let trees = given.trees(batch, &self.converted.roots, self.names, self.files);
            for tree in trees {
                self.empty_tree_written |= tree.oid == Oid::EMPTY_TREE;
                objects.push(tree);
            }
        }
        let mut committed = Vec::with_capacity(batch.changesets.len());
        for drawn in &batch.changesets {
            let tree = self.tree(drawn.tree, &mut objects);
            let commit = self.commit(drawn, tree)?;
            let node = self.sources.changelog.index().node(drawn.rev);
            let text = Arc::clone(&drawn.text);
            committed.push(Committed { rev: drawn.rev, node, text, commit: objects.len() });
            objects.push(commit);
        }
        Ok((objects, committed))
    }

    /// The root tree of a changeset.
    fn tree(&mut self, tree: ChangesetTree, objects: &mut Vec<Object>) -> Oid {
        let oid = match tree {
            ChangesetTree::Known(oid) => return oid,
            ChangesetTree::Empty => Oid::EMPTY_TREE,
            ChangesetTree::Position(position) => self.converted.roots[position],
        };
        if oid == Oid::EMPTY_TREE && !self.empty_tree_written {
            // git knows this tree without having it; other readers of packs may not
            self.empty_tree_written = true;
            let (kind, payload) = (ObjectKind::Tree, Vec::new());
            objects.push(Object { kind, oid, base: None, payload, purpose: Purpose::Git });
        }
        oid
    }

    fn commit(&mut self, drawn: &Drawn, tree: Oid) -> Result<Object> {
        let Drawn { rev, text, .. } = drawn;
        let (rev, changelog) = (*rev, self.sources.changelog);
        let Parents(p1, p2) = changelog.index().parents(rev);
        let mut parents = Vec::with_capacity(2);
        for parent in [p1, p2].into_iter().flatten() {
            parents.push(self.commit_of(parent).ok_or_else(|| {
                changelog.corrupt(rev, "its parent is not among the changesets to convert")
            })?);
        }
        let mut payload = Vec::with_capacity(text.len() + COMMIT_LINES_LEN);
        let changeset = parse(changelog, rev, text)?;
        self.form.write(&mut payload, tree, &parents, &changeset, (rev, Parents(p1, p2)));
        let node = changelog.index().node(rev);
        let given = self.given.as_ref().and_then(|given| Some((given, given.position(&node)?)));
        let oid = if let Some((given, at)) = given {
            let nodes = [p1, p2].into_iter().flatten().map(|parent| changelog.index().node(parent));
            let parents: Vec<_> = nodes.zip(parents).collect();
            let GivenCommit { oid, content } =
                given.commit(at, node, (drawn.tree, tree), &parents)?;
            if self.is_taken(oid) {
                return Err(Error::Unfit(Unfit { node, misfit: Misfit::Taken }));
            }
            if self.is_judging() && self.settle(rev, node, &mut payload) != oid {
                self.converted.foreign = Some(node);
            }
            self.converted.given += 1;
            payload = content;
            oid
        } else {
            self.settle(rev, node, &mut payload)
        };
        self.take(oid);
        let head = object_header(ObjectKind::Commit, payload.len() as u64);
        let message = Message { head: &head, body: &payload };
        let passed = CollisionCheck::any_object(ObjectKind::Commit, oid, message);
        passed.map_err(|attack| changelog.corrupt(rev, attack))?;
        self.converted.commits.push(oid);
        Ok(Object { kind: ObjectKind::Commit, oid, base: None, payload, purpose: Purpose::Git })
    }

    /// Lets the dialect find a free oid for what it has written. Those that are given are not.
    fn settle(&mut self, rev: Rev, node: Node, payload: &mut Vec<u8>) -> Oid {
        let is_judging = self.is_judging();
        let Self { form, sources, converted, taken, given, .. } = self;
        form.settle(payload, oid_of_commit, |oid| {
            let commits = &converted.commits;
            if taken.find(oid_hash(&oid), |&at| commits[at as usize] == oid).is_some() {
                return true;
            }
            let owner = given.as_ref().and_then(|given| given.changeset(&oid));
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

    /// Whether it is still to be found out if all commits are those of the dialect.
    const fn is_judging(&self) -> bool {
        self.sources.is_judging && self.converted.foreign.is_none()
    }

    /// Whether a changeset has the commit already.
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

/// That `other`, a changeset of the map, has the commit of `rev`, unless it comes before it.
fn displaced(changelog: &Revlog, rev: Rev, other: Node) -> Option<Displaced> {
    // one that is gone does not come before anything
    let found = changelog.find(&[other]);
    let comes_before = found.is_ok_and(|found| found.iter().all(|&other| other < rev));
    (!comes_before).then(|| Displaced { later: other, earlier: changelog.index().node(rev) })
}

/// Oids are digests already.
fn oid_hash(oid: &Oid) -> u64 {
    let (beginning, _) = oid.as_bytes().split_first_chunk().expect("oids are longer");
    u64::from_ne_bytes(*beginning)
}
