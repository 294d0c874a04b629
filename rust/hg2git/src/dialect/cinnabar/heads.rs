//! The heads that git-cinnabar counts, as changesets and manifests are added in order.
//!
//! A changeset is a head of its branch as long as no child of it is on that branch: one whose only
//! children are on other branches stays one, and so do closed ones. A manifest is a head as
//! long as it is no parent of another.

use std::collections::{BTreeMap, BTreeSet};

use gitpack::Oid;
use revlog::Changeset;

use crate::read::names::{NameId, Names};

/// Heads of branches, by their revision numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangesetHeads {
    heads: BTreeMap<u32, NameId>,
    branches: Names,
}

impl ChangesetHeads {
    /// Adds a changeset; its parents came before.
    pub fn add(&mut self, rev: u32, parents: impl IntoIterator<Item = u32>, branch: &[u8]) {
        let branch = self.branches.number(branch);
        for parent in parents {
            if self.heads.get(&parent) == Some(&branch) {
                self.heads.remove(&parent);
            }
        }
        self.heads.insert(rev, branch);
    }

    /// All heads and their branches, in the changelog's order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.heads.iter().map(|(rev, branch)| (*rev, self.branches.get(*branch)))
    }
}

/// The branch of a changeset, as its text has it.
pub(crate) fn branch_of<'a>(changeset: &Changeset<'a>) -> &'a [u8] {
    let branches = changeset.extras().filter(|(key, _)| *key == b"branch");
    branches.last().map_or(b"default", |(_, branch)| branch)
}

/// Heads of manifests, by the oids of their commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ManifestHeads(pub BTreeSet<Oid>);

impl ManifestHeads {
    /// Adds a manifest's commit; those of its parents came before.
    pub fn add(&mut self, commit: Oid, parents: &[Oid]) {
        for parent in parents {
            self.0.remove(parent);
        }
        self.0.insert(commit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_that_others_leave_keeps_its_head() {
        let mut heads = ChangesetHeads::default();
        heads.add(0, [], b"default");
        heads.add(1, [0], b"stable");
        heads.add(2, [1], b"default");
        let all: Vec<_> = heads.iter().collect();
        assert_eq!(all, [(0, &b"default"[..]), (1, b"stable"), (2, b"default")]);
        heads.add(3, [2, 0], b"default");
        let all: Vec<_> = heads.iter().map(|(rev, _)| rev).collect();
        assert_eq!(all, [1, 3]);
    }
}
