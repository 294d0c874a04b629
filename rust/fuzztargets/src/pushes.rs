//! Output of `git cat-file` for pushed commits and trees.

use std::io;

use dialect::{Cinnabar, Dialect, Reason};
use git2hg::judge::tree;
use git2hg::survey;

use crate::scratch::cut;

/// A commit object. An accepted one has a tree and at most two parents.
pub(crate) fn commit(input: &[u8]) {
    let judged = Cinnabar::judge(input);
    if judged.refused.is_none() {
        assert!(judged.tree.is_some());
        assert!(judged.parents.len() <= 2);
    }
}

/// A tree object. Each finding names one of its entries.
pub(crate) fn tree(input: &[u8]) {
    let judged = tree::judge(input);
    for reason in Reason::ALL {
        let culprit = tree::culprit(input, reason, false);
        assert_eq!(judged.reasons.has(reason), culprit.is_some());
    }
    assert!(judged.directories.iter().all(|(name, _)| !name.contains(&0)));
}

/// The output of two `git cat-file`: commits, and trees for any request.
pub(crate) fn history(input: &[u8]) {
    let (commits, trees) = cut(input);
    let Ok(found) = survey::<Cinnabar>(commits, io::sink(), trees, &|_| false) else { return };
    let refused: u64 = found.findings().iter().map(|finding| finding.commits).sum();
    assert_eq!(found.refused().count() as u64, refused);
    assert!(refused <= found.commits());
}
