//! The half of a dialect that conversions to Mercurial need, as values.

use dialect::{ChangesetInput, CopyRule, Dialect, JudgedCommit};

/// Rules for commits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitRules {
    pub judge: fn(&[u8]) -> JudgedCommit<'_>,
    pub changeset: fn(&[u8], &ChangesetInput<'_>) -> Option<Vec<u8>>,
    pub copies: CopyRule,
}

impl CommitRules {
    /// Rules of a dialect.
    pub fn of<D: Dialect>() -> Self {
        Self { judge: D::judge, changeset: D::changeset, copies: D::COPIES }
    }
}
