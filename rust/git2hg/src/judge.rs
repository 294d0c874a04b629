//! Judgement of a history: for each commit the first reason why it cannot be pushed.
//!
//! The dialect judges commit objects. `tree` has the rules for one tree, with its
//! reasons as a set (`reasons`); `trees` reads each tree of a history once. A survey judges all
//! commits, a conversion those from the first refused one on. A child of a refused commit is
//! refused, too: its parent would have another id.

pub(crate) mod reasons;
pub mod tree;
mod trees;

use std::io::{Read, Write};

use gitpack::Oid;
use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::judge::reasons::MOST_DETAIL;
use crate::judge::trees::Trees;
use crate::read::trees::GitTrees;
use crate::rules::CommitRules;
use dialect::exact::tree::{TrackedFile, edits_between};
use dialect::{JudgedCommit, MOST_PARENTS, Reason};

/// Commits to be judged, parents before children.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    commits: Vec<HistoryCommit>,
    numbers: HashMap<Oid, u32>,
    /// Details of commits, by their numbers.
    details: HashMap<u32, Vec<u8>>,
    /// First parents outside this history, by the numbers of commits.
    outside: HashMap<u32, Oid>,
}

/// A commit as far as its verdict needs it.
#[derive(Debug)]
struct HistoryCommit {
    oid: Oid,
    tree: Option<Oid>,
    parents: [Parent; MOST_PARENTS],
    /// Parents after these.
    others: Vec<Parent>,
    /// Reason of the commit object itself.
    own: Option<Reason>,
}

/// Parent of a commit.
#[derive(Clone, Copy, Debug)]
enum Parent {
    /// No parent, or a changeset of the repository.
    Accepted,
    /// Commit of this history, by its number.
    New(u32),
    /// Neither.
    Unknown,
}

impl Judge {
    /// Adds a commit after its parents. `is_known` returns whether a parent outside this history
    /// has a changeset.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`].
    pub fn add(
        &mut self,
        oid: Oid,
        judged: &JudgedCommit<'_>,
        is_known: impl Fn(&Oid) -> bool,
    ) -> Result<()> {
        let number = u32::try_from(self.commits.len()).map_err(|_| Error::TooMany)?;
        let mut parents = [Parent::Accepted; MOST_PARENTS];
        let mut others = vec![Parent::Accepted; judged.parents.len().saturating_sub(MOST_PARENTS)];
        let mut unknown = None;
        for (parent, oid) in parents.iter_mut().chain(&mut others).zip(&judged.parents) {
            if let Some(number) = self.numbers.get(oid) {
                *parent = Parent::New(*number);
            } else if !is_known(oid) {
                *parent = Parent::Unknown;
                unknown.get_or_insert(oid);
            }
        }
        if let Some(first) = judged.parents.first().filter(|it| !self.numbers.contains_key(*it)) {
            self.outside.insert(number, *first);
        }
        let detail = match judged.refused {
            Some((_, detail)) => detail[..detail.len().min(MOST_DETAIL)].to_vec(),
            None => unknown.map(|oid| oid.to_string().into_bytes()).unwrap_or_default(),
        };
        if !detail.is_empty() {
            self.details.insert(number, detail);
        }
        let own = judged.refused.map(|(reason, _)| reason);
        self.numbers.insert(oid, number);
        self.commits.push(HistoryCommit { oid, tree: judged.tree, parents, others, own });
        Ok(())
    }

    /// Reads the trees of all commits and judges them. The trees take about `most_bytes` of memory
    /// at most. `tick` gets the trees read, and the trees known so far.
    ///
    /// # Errors
    ///
    /// The errors of [`GitTrees::read_others`] and `tick`, and [`Error::TooManyRevisions`] if the
    /// trees need more memory.
    pub fn verdicts(
        self,
        git: &GitTrees<impl Write, impl Read>,
        most_bytes: usize,
        mut tick: impl FnMut(usize, usize) -> Result<()>,
    ) -> Result<Verdicts> {
        let Self { commits, details, outside, .. } = self;
        let mut trees = Trees::new(git.rules());
        for tree in commits.iter().filter_map(|commit| commit.tree) {
            trees.add(tree)?;
        }
        let last = commits.last().map_or(Oid::EMPTY_TREE, |commit| commit.oid);
        trees.read(git, |done, total, bytes| {
            if bytes > most_bytes { Err(Error::TooManyRevisions(last)) } else { tick(done, total) }
        })?;
        let mut reasons: Vec<Option<Reason>> = Vec::with_capacity(commits.len());
        for commit in &commits {
            let is_refused = |parent: &Parent| match parent {
                Parent::Accepted => false,
                Parent::New(number) => reasons[*number as usize].is_some(),
                Parent::Unknown => true,
            };
            let of_tree = || commit.tree.and_then(|tree| trees.reason_of_root(&tree));
            let of_parents = || {
                commit
                    .parents
                    .iter()
                    .chain(&commit.others)
                    .any(is_refused)
                    .then_some(Reason::Ancestor)
            };
            let reason = commit.own.or_else(of_tree).or_else(of_parents);
            reasons.push(reason);
        }
        Ok(Verdicts { commits, reasons, details, outside, trees })
    }
}

/// Verdicts on the commits of a history.
#[derive(Debug)]
pub(crate) struct Verdicts {
    commits: Vec<HistoryCommit>,
    reasons: Vec<Option<Reason>>,
    details: HashMap<u32, Vec<u8>>,
    outside: HashMap<u32, Oid>,
    trees: Trees,
}

impl Verdicts {
    /// Number of commits.
    pub fn commits(&self) -> usize {
        self.commits.len()
    }

    /// Number of different trees.
    pub fn trees(&self) -> usize {
        self.trees.len()
    }

    /// Refused commits by their numbers, parents before children.
    pub fn refused(&self) -> impl Iterator<Item = (u32, Oid, Reason)> + '_ {
        let verdicts = (0..).zip(&self.commits).zip(&self.reasons);
        verdicts.filter_map(|((number, commit), reason)| Some((number, commit.oid, (*reason)?)))
    }

    /// Number of accepted commits whose changesets need an extra for their trees. The manifests of
    /// parents outside the history have all files of their trees.
    ///
    /// # Errors
    ///
    /// The errors of [`GitTrees::get`].
    pub fn tree_extras(
        &self,
        rules: CommitRules,
        git: &GitTrees<impl Write, impl Read>,
    ) -> Result<u64> {
        let oids: Vec<Oid> = self.outside.values().copied().collect();
        let mut outside: HashMap<Oid, Oid> = HashMap::new();
        git.read_others(&oids, |at, _, content| {
            outside.extend((rules.judge)(content).tree.map(|tree| (oids[at], tree)));
            Ok(())
        })?;
        let mut count = 0;
        for ((number, commit), reason) in (0..).zip(&self.commits).zip(&self.reasons) {
            let Some(tree) = commit.tree.filter(|_| reason.is_none()) else { continue };
            let parent = self.outside.get(&number);
            let before = match (parent, commit.parents[0]) {
                (Some(parent), _) => outside.get(parent).copied(),
                (None, Parent::New(number)) => self.commits[number as usize].tree,
                (None, Parent::Accepted | Parent::Unknown) => None,
            };
            // a first parent's tree shows the hidden files of its manifest
            let hides = rules.hides;
            let mut follows = |path: &[u8], before: Option<TrackedFile>| {
                Ok(before.is_some() || !hides.is_some_and(|hides| hides(path)))
            };
            let may_be_odd = parent.is_some()
                || [before, Some(tree)].iter().flatten().any(|tree| self.trees.has_extra(tree));
            if may_be_odd {
                let mut read = |oid| Ok::<_, Error>(git.get(oid)?.content.to_vec());
                let edits = edits_between(before, Some(tree), &mut follows, &mut read)?;
                count += u64::from(!edits.is_empty());
            }
        }
        Ok(count)
    }

    /// Part of a refused commit that is the reason: a header, an author, a path. May be empty.
    ///
    /// # Errors
    ///
    /// The errors of [`GitTrees::get`].
    pub fn detail(&self, number: u32, git: &GitTrees<impl Write, impl Read>) -> Result<Vec<u8>> {
        let commit = &self.commits[number as usize];
        match (self.reasons[number as usize], commit.tree) {
            (Some(reason), Some(tree)) if commit.own.is_none() && reason != Reason::Ancestor => {
                self.trees.path(git, tree, reason)
            }
            _ => Ok(self.details.get(&number).cloned().unwrap_or_default()),
        }
    }
}
