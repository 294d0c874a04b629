//! The side of git: trees and commits, in the order of the changesets.
//!
//! A commit id that another changeset has already is made different by line feeds at its end, as
//! git-cinnabar does it: so ids depend on the order, which is that of the changelog. Counts heads
//! on the way.

use std::sync::Arc;

use gitpack::{Kind, Oid, object_header};
use hashbrown::HashTable;
use revlog::{Node, Parents, Rev};
use sha1lanes::{Message, digest_one};

use crate::dialect::cinnabar::commit;
use crate::dialect::cinnabar::heads::{ChangesetHeads, branch_of};
use crate::dialect::cinnabar::note::Noted;
use crate::dialect::cinnabar::twins::Twins;
use crate::error::Result;
use crate::map::segment::Table;
use crate::objects::collisions::CollisionCheck;
use crate::objects::directory::oid_of;
use crate::objects::history::{Batch, Drawn, Sources, Tree};
use crate::objects::object::Object;
use crate::objects::trees::{Refused, TreeWriter, View};
use crate::read::changelog::parse;
use crate::read::files::FileTable;
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

/// What the changesets became.
#[derive(Debug, Default)]
pub(crate) struct Converted {
    /// Commits of the changesets, in their order.
    pub commits: Vec<Oid>,
    /// Root trees of the plan's manifests, in its order.
    pub roots: Vec<Oid>,
    /// Heads, those of earlier runs included.
    pub heads: ChangesetHeads,
    /// Earlier runs should have given these other commits.
    pub displaced: Vec<Displaced>,
}

/// Makes trees and commits of batches, in order.
pub(crate) struct Commits<'a> {
    sources: &'a Sources<'a>,
    files: &'a FileTable,
    writer: TreeWriter<'a>,
    converted: Converted,
    /// Positions of the commits, by their oids.
    taken: HashTable<u32>,
    twins: Twins,
    empty_tree_written: bool,
}

impl<'a> Commits<'a> {
    /// Makes them of `sources`; `heads` are those of earlier runs.
    pub fn new(
        sources: &'a Sources<'a>,
        names: &'a Names,
        files: &'a FileTable,
        heads: ChangesetHeads,
    ) -> Self {
        Self {
            sources,
            files,
            writer: TreeWriter::new(View::Git, names, files, sources.collisions),
            converted: Converted { heads, ..Converted::default() },
            taken: HashTable::new(),
            twins: Twins::default(),
            empty_tree_written: false,
        }
    }

    /// What all became.
    pub fn into_converted(self) -> Converted {
        self.converted
    }

    /// The objects of the next batch, and what its notes are to be made of.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] if a file revision was not converted, a changeset cannot be read, or a
    /// tree or commit carries a collision attack.
    pub fn convert(&mut self, batch: &Batch) -> Result<(Vec<Object>, Vec<Noted>)> {
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
        self.converted.roots.extend(roots.map(|made| oid_of(made.root.as_ref(), View::Git)));
        let mut noted = Vec::with_capacity(batch.changesets.len());
        for drawn in &batch.changesets {
            let tree = self.tree(drawn.tree, &mut objects);
            let commit = self.commit(drawn, tree)?;
            let node = self.sources.changelog.index().node(drawn.rev);
            let text = Arc::clone(&drawn.text);
            noted.push(Noted { rev: drawn.rev, node, text, commit: objects.len() });
            objects.push(commit);
        }
        Ok((objects, noted))
    }

    /// The root tree of a changeset.
    fn tree(&mut self, tree: Tree, objects: &mut Vec<Object>) -> Oid {
        let oid = match tree {
            Tree::Known(oid) => return oid,
            Tree::Empty => Oid::EMPTY_TREE,
            Tree::Position(position) => self.converted.roots[position],
        };
        if oid == Oid::EMPTY_TREE && !self.empty_tree_written {
            // git knows this tree without having it; other readers of packs may not
            self.empty_tree_written = true;
            let (kind, payload) = (Kind::Tree, Vec::new());
            objects.push(Object { kind, oid, base: None, payload, view: View::Git });
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
        commit::write(&mut payload, tree, &parents, &changeset);
        let parents = [p1, p2].into_iter().flatten().map(Rev::number);
        self.converted.heads.add(rev.number(), parents, branch_of(&changeset));
        let mut twins = std::mem::take(&mut self.twins);
        let oid = twins.place(&mut payload, oid_of_commit, |oid| self.is_taken(oid, rev));
        self.twins = twins;
        self.take(oid);
        let head = object_header(Kind::Commit, payload.len() as u64);
        let message = Message { head: &head, body: &payload };
        let passed = CollisionCheck::any_object(Kind::Commit, oid, message);
        passed.map_err(|attack| changelog.corrupt(rev, attack))?;
        self.converted.commits.push(oid);
        Ok(Object { kind: Kind::Commit, oid, base: None, payload, view: View::Git })
    }

    /// Whether another than `rev` has this commit.
    fn is_taken(&mut self, oid: Oid, rev: Rev) -> bool {
        if let Some(other) = self.sources.map.changeset(&oid) {
            self.note_displaced(rev, other);
            return true;
        }
        let commits = &self.converted.commits;
        self.taken.find(oid_hash(&oid), |&at| commits[at as usize] == oid).is_some()
    }

    /// Takes a free oid for the next commit.
    fn take(&mut self, oid: Oid) {
        let commits = &self.converted.commits;
        let position = u32::try_from(commits.len()).expect("revisions have 32 bits");
        let hash = |&at: &u32| oid_hash(&commits[at as usize]);
        self.taken.insert_unique(oid_hash(&oid), position, hash);
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

fn oid_of_commit(payload: &[u8]) -> Oid {
    let head = object_header(Kind::Commit, payload.len() as u64);
    Oid::from_bytes(digest_one(Message { head: &head, body: payload }))
}

/// Oids are digests already.
fn oid_hash(oid: &Oid) -> u64 {
    let (beginning, _) = oid.as_bytes().split_first_chunk().expect("oids are longer");
    u64::from_ne_bytes(*beginning)
}
