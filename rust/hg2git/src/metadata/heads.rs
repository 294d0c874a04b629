//! The heads in the metadata commit, of branches and of manifests.
//!
//! A manifest is a head if it is no parent of another.

use gitpack::Oid;
use revlog::{Node, Parents, Rev, Revlog, Scratch, Texts};

use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::map::segment::Table;
use crate::objects::branchheads::{BranchHeads, branch_of};
use crate::progress::{Phase, ThrottledProgress};
use crate::read::changelog::{KEPT_TEXT_BYTES, parse};

/// The heads of branches among the changesets of `map`. Reads each changeset.
///
/// # Errors
///
/// [`crate::Error::Store`] with a changeset that cannot be read.
pub(crate) fn heads_of_map(
    changelog: &Revlog,
    map: &OidMap,
    scratch: &mut Scratch,
    progress: &mut ThrottledProgress<'_, '_>,
) -> Result<BranchHeads> {
    let mut texts = Texts::new(changelog, scratch, KEPT_TEXT_BYTES);
    let index = changelog.index();
    let total = map.len(Table::Changesets) as u64;
    let mut heads = BranchHeads::default();
    let has = |rev: Rev| map.oid(Table::Changesets, &index.node(rev)).is_some();
    for (done, rev) in (0..).zip(index.revs().filter(|rev| has(*rev))) {
        let text = texts.get(rev)?.text;
        heads.add(rev, index.parents(rev), branch_of(&parse(changelog, rev, &text)?));
        texts.recycle(text);
        progress.report(Phase::Changesets, done, total)?;
    }
    Ok(heads)
}

/// Commits of the manifests that are no parent of another, ascending. Only manifests with a commit
/// by `commit_of` count.
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
