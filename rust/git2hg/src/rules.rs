//! The half of a dialect that conversions to Mercurial need, as values.

use dialect::{ChangesetInput, CopyRule, Dialect, ImportRules, InheritedFile, JudgedCommit, exact};
use gitpack::Oid;
use revlog::manifest::Flag;
use std::io::{Read, Write};

use crate::error::Result;
use crate::read::trees::{EntryKind, GitTrees, entries};

/// Rules for commits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitRules {
    /// Whether extras keep the parts that changesets cannot express.
    pub is_exact: bool,
    /// Whether commits need not come back from their changesets.
    pub is_lenient: bool,
    /// Whether changesets have no files that make a working copy a git repository.
    pub refuses_git: bool,
    pub judge: fn(&[u8]) -> JudgedCommit<'_>,
    pub changeset: fn(&[u8], &ChangesetInput<'_>) -> Option<Vec<u8>>,
    pub copies: CopyRule,
    inherited: Option<InheritedFile>,
    /// Rules for changesets that are made as Mercurial's commit makes them, instead of `changeset`.
    pub import: Option<ImportRules>,
}

/// Entry of a root directory.
fn root_entry(
    trees: &GitTrees<impl Write, impl Read>,
    tree: Oid,
    name: &[u8],
) -> Result<Option<(EntryKind, Oid)>> {
    let tree = trees.get(tree)?;
    let mut found = entries(&tree.content).take_while(|entry| entry.name <= name);
    let found = found.find(|entry| entry.name == name);
    Ok(found.and_then(|entry| Some((trees.kind_of(entry.mode)?, entry.oid))))
}

/// Verdict on a commit that comes back from its changeset, or with an extra.
fn judge_with_extras<D: Dialect>(content: &[u8]) -> JudgedCommit<'_> {
    let judged = D::judge(content);
    if judged.refused.is_some() { exact::judge(content) } else { judged }
}

impl CommitRules {
    /// Rules of a dialect, with extras or without. Without `round_trip`, commits need not come back.
    pub fn of<D: Dialect>(is_exact: bool, round_trip: bool) -> Self {
        let judge = match D::IMPORT {
            Some(_) if is_exact => judge_with_extras::<D>,
            None if is_exact => exact::judge,
            Some(import) if !round_trip => import.judge,
            _ => D::judge,
        };
        let (changeset, copies, import) = (D::changeset, D::COPIES, D::IMPORT);
        let is_lenient = import.is_some() && !is_exact && !round_trip;
        let (refuses_git, inherited) = (false, D::INHERITED);
        Self { is_exact, is_lenient, refuses_git, judge, changeset, copies, inherited, import }
    }

    /// Whether a file with this path can be in a changeset; others are left out, or refused.
    pub fn accepts(self, rules: ImportRules, path: &[u8]) -> bool {
        if self.is_lenient {
            return (rules.accepts)(path);
        }
        (rules.accepts_exactly)(path) && (self.is_exact || !self.hidden().any(|it| it == path))
    }

    /// Files in the root directory that trees do not have from their manifests.
    pub fn hidden(self) -> impl Iterator<Item = &'static [u8]> {
        self.inherited.into_iter().flat_map(InheritedFile::hidden)
    }

    /// The hidden files that `tree` has otherwise than `before`, the tree of its first parent, unless
    /// they follow the manifest. `is_shown` returns whether the parent's manifest has a file like
    /// its tree.
    ///
    /// # Errors
    ///
    /// The errors of [`GitTrees::get`] and `is_shown`.
    pub fn hidden_changes(
        self,
        trees: &GitTrees<impl Write, impl Read>,
        before: Option<Oid>,
        tree: Oid,
        mut is_shown: impl FnMut(&[u8], Flag, Oid) -> Result<bool>,
    ) -> Result<Vec<&'static [u8]>> {
        let mut found = Vec::new();
        for name in self.hidden().filter(|_| before != Some(tree)) {
            let was = match before {
                Some(before) => root_entry(trees, before, name)?,
                None => None,
            };
            let is_changed = was != root_entry(trees, tree, name)?;
            let follows = match was {
                Some((EntryKind::File(flag), blob)) if is_changed => is_shown(name, flag, blob)?,
                _ => false,
            };
            if is_changed && !follows {
                found.push(name);
            }
        }
        Ok(found)
    }

    /// Parents whose trees are compared with the child's tree.
    pub fn compared(self, parents: &[Oid]) -> &[Oid] {
        if self.import.is_some() { &parents[..parents.len().min(1)] } else { parents }
    }
}
