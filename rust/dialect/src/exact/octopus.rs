//! Merges of more than two parents, as hg-git has them: a chain of changesets.
//!
//! The last two parents are merged by a changeset, and each parent before them with the changeset
//! before. The last changeset of the chain is the one of the commit.

use gitpack::Oid;
use revlog::Changeset;

use super::has_commit;
use crate::{ChangesetHistory, ParentCommit, Unreadable};

/// Key of the extra, which is hg-git's.
const KEY: &[u8] = b"hg-git";

/// Most parents of a commit.
pub const MOST_LINKED: usize = 256;

/// Part of a changeset in a merge of more than two parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Octopus {
    /// Merges parents for a later changeset.
    Link,
    /// Stands for the commit.
    Done,
}

impl Octopus {
    /// The extra of a changeset.
    #[must_use]
    pub const fn extra(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::Link => (KEY, b"octopus"),
            Self::Done => (KEY, b"octopus-done"),
        }
    }

    /// Part that a changeset has, if it has an extra for it.
    #[must_use]
    pub fn of(changeset: &Changeset<'_>) -> Option<Self> {
        changeset.extra?;
        let (_, value) = changeset.extras().filter(|(key, _)| *key == KEY).last()?;
        [Self::Link, Self::Done].into_iter().find(|part| part.extra().1 == value)
    }
}

/// Parents of the commit that an extra names: the changeset's, or those of a chain. Empty without
/// the extra.
///
/// # Errors
///
/// The errors of `history`.
pub fn linked_parents(
    changeset: &Changeset<'_>,
    parents: &[ParentCommit],
    history: &dyn ChangesetHistory,
) -> Result<Vec<Oid>, Unreadable> {
    if !has_commit(changeset) {
        return Ok(Vec::new());
    }
    let mut found: Vec<Oid> = parents.iter().filter_map(|parent| parent.commit).collect();
    let mut last = parents.get(1).copied();
    while let Some(link) = last.take().filter(|_| found.len() < MOST_LINKED) {
        if Octopus::of(changeset) != Some(Octopus::Done) {
            break;
        }
        let (text, above) = history.ancestor(&link.node)?;
        let part = Changeset::parse(&text).ok().and_then(|changeset| Octopus::of(&changeset));
        if part == Some(Octopus::Link) && above.len() == 2 {
            if link.commit.is_some() {
                found.pop();
            }
            found.extend(above.iter().filter_map(|parent| parent.commit));
            last = above.get(1).copied();
        }
    }
    Ok(found)
}
