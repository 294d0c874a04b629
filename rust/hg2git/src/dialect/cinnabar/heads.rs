//! The heads that git-cinnabar counts: of branches, and of manifests.
//!
//! A changeset is a head of its branch as long as no child of it is on that branch: one whose only
//! children are on other branches stays one, and so do closed ones. A manifest is a head as
//! long as it is no parent of another.

use std::collections::BTreeMap;

use gitpack::Oid;
use revlog::{Changeset, Node, Parents, Rev, Revlog, Scratch, Texts};

use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::map::segment::Table;
use crate::progress::{Phase, ThrottledProgress};
use crate::read::changelog::{KEPT_TEXT_BYTES, parse};
use crate::read::names::{NameId, Names};

/// Heads of branches, by their revision numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangesetHeads {
    heads: BTreeMap<u32, NameId>,
    branches: Names,
}

impl ChangesetHeads {
    /// Those among the changesets of `map`. Reads each of them.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] that names a changeset which cannot be read.
    pub fn of_map(
        changelog: &Revlog,
        map: &OidMap,
        scratch: &mut Scratch,
        progress: &mut ThrottledProgress<'_, '_>,
    ) -> Result<Self> {
        let mut texts = Texts::new(changelog, scratch, KEPT_TEXT_BYTES);
        let index = changelog.index();
        let total = map.len(Table::Changesets) as u64;
        let mut heads = Self::default();
        let has = |rev: Rev| map.oid(Table::Changesets, &index.node(rev)).is_some();
        for (done, rev) in (0..).zip(index.revs().filter(|rev| has(*rev))) {
            let text = texts.get(rev)?.text;
            let Parents(p1, p2) = index.parents(rev);
            let parents = [p1, p2].into_iter().flatten().map(Rev::number);
            heads.add(rev.number(), parents, branch_of(&parse(changelog, rev, &text)?));
            texts.recycle(text);
            progress.report(Phase::Changesets, done, total)?;
        }
        Ok(heads)
    }

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

/// The commits of the manifests that are no parent of another, ascending. `commit_of` knows the
/// manifests that count.
pub(crate) fn manifest_heads(
    manifest: &Revlog,
    commit_of: impl Fn(&Node) -> Option<Oid>,
) -> Vec<Oid> {
    let index = manifest.index();
    let mut is_head = vec![false; index.len() as usize];
    for rev in index.revs().filter(|rev| commit_of(&index.node(*rev)).is_some()) {
        let Parents(p1, p2) = index.parents(rev);
        for parent in [p1, p2].into_iter().flatten() {
            is_head[parent.number() as usize] = false;
        }
        is_head[rev.number() as usize] = true;
    }
    let heads = index.revs().zip(is_head).filter(|(_, is_head)| *is_head);
    let mut commits: Vec<_> = heads.filter_map(|(rev, _)| commit_of(&index.node(rev))).collect();
    commits.sort_unstable();
    commits
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
