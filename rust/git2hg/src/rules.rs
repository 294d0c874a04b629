//! The half of a dialect that conversions to Mercurial need, as values.

use dialect::{
    ChangesetInput, CopyRule, Dialect, ImportRules, JudgedCommit, exact, exact::tree::Hides,
};
use gitpack::Oid;

use crate::judge::tree::TreeRules;

/// Rules for commits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitRules {
    /// Whether extras keep the parts that changesets cannot express.
    pub is_exact: bool,
    /// Whether commits need not come back from their changesets.
    pub is_lenient: bool,
    pub judge: fn(&[u8]) -> JudgedCommit<'_>,
    pub changeset: fn(&[u8], &ChangesetInput<'_>) -> Option<Vec<u8>>,
    pub copies: CopyRule,
    /// Paths of files that trees do not have from manifests.
    pub hides: Option<Hides>,
    /// Rules for changesets that are made as Mercurial's commit makes them, instead of `changeset`.
    pub import: Option<ImportRules>,
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
        let hides = D::hides();
        Self { is_exact, is_lenient, judge, changeset, copies, hides, import }
    }

    /// Which trees commits may have.
    pub fn trees(self) -> TreeRules {
        TreeRules { is_exact: self.is_exact, hides: self.hides.filter(|_| !self.is_lenient) }
    }

    /// Parents whose trees are compared with the child's tree.
    pub fn compared(self, parents: &[Oid]) -> &[Oid] {
        if self.import.is_some() { &parents[..parents.len().min(1)] } else { parents }
    }
}
