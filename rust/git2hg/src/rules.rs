//! The half of a dialect that conversions to Mercurial need, as values.

use dialect::{ChangesetInput, CopyRule, Dialect, ImportRules, JudgedCommit, exact};
use gitpack::Oid;

/// Rules for commits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitRules {
    /// Whether extras keep the parts that changesets cannot express.
    pub is_exact: bool,
    pub judge: fn(&[u8]) -> JudgedCommit<'_>,
    pub changeset: fn(&[u8], &ChangesetInput<'_>) -> Option<Vec<u8>>,
    pub copies: CopyRule,
    /// Rules for changesets that are made as Mercurial's commit makes them, instead of `changeset`.
    pub import: Option<ImportRules>,
}

impl CommitRules {
    /// Rules of a dialect, with extras or without.
    pub fn of<D: Dialect>(is_exact: bool) -> Self {
        let judge = if is_exact { exact::judge } else { D::judge };
        let (changeset, copies, import) = (D::changeset, D::COPIES, D::IMPORT);
        Self { is_exact, judge, changeset, copies, import }
    }

    /// Parents whose trees are compared with the child's tree.
    pub fn compared(self, parents: &[Oid]) -> &[Oid] {
        if self.import.is_some() { &parents[..parents.len().min(1)] } else { parents }
    }
}
