//! The dialect of git-cinnabar.
//!
//! The rules are git-cinnabar's; `docs/formats/cinnabar.rst` lists them. [`note()`] makes the
//! metadata of one changeset. `hg2git::metadata` has the metadata of whole histories.

pub mod commit;
mod duplicates;
mod identity;
pub mod judge;
mod linediff;
mod note;

use gitpack::Oid;
use revlog::Changeset;

use self::duplicates::Duplicates;
pub use self::note::note;
use crate::{
    ChangesetHistory, ChangesetInput, CommitInput, CopyRule, Dialect, JudgedCommit, MetadataKind,
    Unreadable,
};

/// The dialect, with the duplicates that a run has met.
#[derive(Debug, Default)]
pub struct Cinnabar {
    duplicates: Duplicates,
}

impl Dialect for Cinnabar {
    const NAME: &'static str = "cinnabar";
    const METADATA: Option<MetadataKind> = Some(MetadataKind::Cinnabar);
    const COPIES: CopyRule = CopyRule::Identical;

    fn write_commit(
        &mut self,
        CommitInput { changeset, tree, parents, .. }: &CommitInput<'_>,
        _history: &dyn ChangesetHistory,
        out: &mut Vec<u8>,
    ) -> Result<bool, Unreadable> {
        commit::write(out, *tree, parents.iter().filter_map(|parent| parent.commit), changeset);
        Ok(true)
    }

    fn settle(
        &mut self,
        content: &mut Vec<u8>,
        oid_of: impl FnMut(&[u8]) -> Oid,
        is_taken: impl FnMut(Oid) -> bool,
    ) -> Oid {
        self.duplicates.place(content, oid_of, is_taken)
    }

    fn judge(content: &[u8]) -> JudgedCommit<'_> {
        judge::judge(content)
    }

    fn stands_for(changeset: &Changeset<'_>, content: &[u8]) -> bool {
        judge::stands_for(changeset, content)
    }

    fn changeset(content: &[u8], made: &ChangesetInput<'_>) -> Option<Vec<u8>> {
        match made.exact {
            Some(exact) => judge::exact_changeset(content, made, exact),
            None => judge::CommitParts::of(content)?.changeset(made),
        }
    }
}
