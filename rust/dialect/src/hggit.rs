//! The dialect of hg-git.
//!
//! The rules are those of hg-git 1.2.0 with Mercurial 7.1.2 and dulwich 0.22.8.
//! `docs/decisions/hggit.rst` has the cases in which they are not followed.

mod commit;
mod identity;
mod texts;

use crate::{
    ChangesetHistory, ChangesetInput, CommitInput, Dialect, JudgedCommit, MetadataKind, Unreadable,
};

/// The dialect.
#[derive(Debug, Default)]
pub struct HgGit;

impl Dialect for HgGit {
    const NAME: &'static str = "hggit";
    const METADATA: Option<MetadataKind> = None;
    const HAS_UNIQUE_COMMITS: bool = false;
    const READS_COPIES: bool = true;

    fn write_commit(
        &mut self,
        input: &CommitInput<'_>,
        history: &dyn ChangesetHistory,
        out: &mut Vec<u8>,
    ) -> Result<bool, Unreadable> {
        commit::write(out, input, history)
    }

    fn judge(_content: &[u8]) -> JudgedCommit<'_> {
        JudgedCommit::default()
    }

    fn changeset(_content: &[u8], _made: &ChangesetInput<'_>) -> Option<Vec<u8>> {
        None
    }
}
