//! Comparison of two oid maps.
//!
//! Both are walked by position, so that a caller may stop and go on.

use gitpack::Oid;
use revlog::Node;

use crate::map::oidmap::OidMap;
use crate::map::segment::{Pair, Table};

/// A node that does not stand for the same object in both maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The node.
    pub node: Node,
    /// What the map that is looked at has.
    pub found: Option<Oid>,
    /// What it should have.
    pub expected: Option<Oid>,
}

/// A map, another that is known to be right, and the table to compare.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// The map that is looked at.
    pub found: &'a OidMap,
    /// What it should be.
    pub expected: &'a OidMap,
    /// The table.
    pub table: Table,
}

impl Comparison<'_> {
    /// Number of steps: one for each pair of both maps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.expected.len(self.table) + self.found.len(self.table)
    }

    /// Whether there is nothing to compare.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the step `at`, less than [`Self::len`], finds. A node that differs is answered once,
    /// or once for each segment that has a pair for it which is wrong.
    #[must_use]
    pub fn step(&self, at: usize) -> Option<Difference> {
        let Self { found, expected, table } = *self;
        let count = expected.len(table);
        if at < count {
            let Pair { node, oid } = expected.pair(table, at)?;
            let answer = found.oid(table, &node);
            let wrong = Difference { node, found: answer, expected: Some(oid) };
            return (answer != Some(oid)).then_some(wrong);
        }
        let Pair { node, oid } = found.pair(table, at - count)?;
        let right = expected.oid(table, &node);
        let wrong = Difference { node, found: Some(oid), expected: right };
        // a pair that a newer segment hides is not what the first half looked at
        let is_hidden = || found.oid(table, &node) != Some(oid);
        (right.is_none() || (right != Some(oid) && is_hidden())).then_some(wrong)
    }
}
