//! Heads of branches, as git-cinnabar counts them.
//!
//! A changeset is a head of its branch as long as no child is on that branch. So a changeset whose
//! children are all on other branches is a head, and closed changesets are, too.

use std::collections::BTreeMap;

use revlog::{Changeset, Parents, Rev};

use crate::read::names::{NameId, Names};

/// Heads of branches, by their revision numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct BranchHeads {
    heads: BTreeMap<u32, NameId>,
    branches: Names,
}

impl BranchHeads {
    /// Adds a changeset. Its parents were added before.
    pub fn add(&mut self, rev: Rev, Parents(p1, p2): Parents, branch: &[u8]) {
        let parents = [p1, p2].into_iter().flatten().map(Rev::number);
        self.add_number(rev.number(), parents, branch);
    }

    fn add_number(&mut self, rev: u32, parents: impl IntoIterator<Item = u32>, branch: &[u8]) {
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

/// Branch of a changeset, from its text.
pub(crate) fn branch_of<'a>(changeset: &Changeset<'a>) -> &'a [u8] {
    let branches = changeset.extras().filter(|(key, _)| *key == b"branch");
    branches.last().map_or(b"default", |(_, branch)| branch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_that_others_leave_keeps_its_head() {
        let mut heads = BranchHeads::default();
        heads.add_number(0, [], b"default");
        heads.add_number(1, [0], b"stable");
        heads.add_number(2, [1], b"default");
        let all: Vec<_> = heads.iter().collect();
        assert_eq!(all, [(0, &b"default"[..]), (1, b"stable"), (2, b"default")]);
        heads.add_number(3, [2, 0], b"default");
        let all: Vec<_> = heads.iter().map(|(rev, _)| rev).collect();
        assert_eq!(all, [1, 3]);
    }
}
