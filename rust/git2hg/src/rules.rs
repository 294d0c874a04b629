//! The half of a dialect that conversions to Mercurial need, as values.

use dialect::{ChangesetInput, CopyRule, Dialect, ImportRules, JudgedCommit};
use gitpack::Oid;

/// Rules for commits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitRules {
    pub judge: fn(&[u8]) -> JudgedCommit<'_>,
    pub changeset: fn(&[u8], &ChangesetInput<'_>) -> Option<Vec<u8>>,
    pub copies: CopyRule,
    /// Rules for changesets that are made as Mercurial's commit makes them, instead of `changeset`.
    pub import: Option<ImportRules>,
}

impl CommitRules {
    /// Rules of a dialect.
    pub fn of<D: Dialect>() -> Self {
        Self { judge: D::judge, changeset: D::changeset, copies: D::COPIES, import: D::IMPORT }
    }

    /// Parents whose trees are compared with the child's tree.
    pub fn compared(self, parents: &[Oid]) -> &[Oid] {
        if self.import.is_some() { &parents[..parents.len().min(1)] } else { parents }
    }
}
