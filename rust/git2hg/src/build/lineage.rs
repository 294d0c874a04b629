//! Ancestry of new file revisions, without a look at manifests.
//!
//! It answers as `ancestry` where it can: in a store that was empty, and for revisions that are
//! later than the last manifest that lost their path. There, a revision descends from its parents.
//! `ancestry` follows only manifests between two merged ones, and that is the same for these
//! revisions: a later manifest has the revision of its parent or a descendant of it, since a merge
//! keeps a revision only if that descends from the other one. So a manifest that brings a
//! descendant of a revision is no ancestor of one that still has the revision.

use hashbrown::{HashMap, HashSet};

/// Revisions by number; parents have smaller ones.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    parents: Vec<[Option<u32>; 2]>,
    /// For lost paths, the number of the next revision then.
    lost: HashMap<u32, u32>,
    pending: Vec<u32>,
    seen: HashSet<u32>,
}

impl Lineage {
    /// Memory of a revision.
    pub const REVISION_BYTES: usize = size_of::<[Option<u32>; 2]>();

    /// Adds the next revision.
    pub fn push(&mut self, parents: [Option<u32>; 2]) {
        self.parents.push(parents);
    }

    /// Notes that a manifest lacks a path that a parent has.
    pub fn lose(&mut self, path: u32) {
        let next = u32::try_from(self.parents.len()).unwrap_or(u32::MAX);
        self.lost.insert(path, next);
    }

    /// Whether the `later` revision of a path descends from an earlier one. `None` if it has no
    /// answer.
    pub fn descends(&mut self, path: u32, later: u32, earlier: u32) -> Option<bool> {
        let is_lost = self.lost.get(&path).is_some_and(|lost| earlier < *lost);
        (!is_lost).then(|| self.is_ancestor(earlier, later))
    }

    fn is_ancestor(&mut self, number: u32, of: u32) -> bool {
        self.seen.clear();
        self.pending.clear();
        self.pending.push(of);
        while let Some(at) = self.pending.pop() {
            let parents = self.parents[at as usize];
            for parent in parents.into_iter().flatten() {
                if parent == number {
                    return true;
                }
                // one parent needs no table
                if parent > number && (parents[1].is_none() || self.seen.insert(parent)) {
                    self.pending.push(parent);
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_after_the_last_loss() {
        let mut lineage = Lineage::default();
        // 0 - 1 - 3, 0 - 2, and 4 merges 2 and 3
        for parents in [[None; 2], [Some(0), None], [Some(0), None], [Some(1), None]] {
            lineage.push(parents);
        }
        lineage.push([Some(2), Some(3)]);
        assert_eq!(lineage.descends(7, 3, 0), Some(true));
        assert_eq!(lineage.descends(7, 4, 1), Some(true));
        assert_eq!(lineage.descends(7, 3, 2), Some(false));
        lineage.lose(7);
        assert_eq!(lineage.descends(7, 4, 1), None);
        assert_eq!(lineage.descends(8, 4, 1), Some(true));
        lineage.push([Some(4), None]);
        lineage.push([Some(5), None]);
        assert_eq!(lineage.descends(7, 6, 4), None);
        assert_eq!(lineage.descends(7, 6, 5), Some(true));
    }
}
