//! Comparison of two oid maps.
//!
//! Steps walk both maps by position, so that a caller may stop and continue.

use gitpack::Oid;
use revlog::Node;

use crate::map::oidmap::OidMap;
use crate::map::segment::{Pair, Table};

/// A node with different objects in the two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The node.
    pub node: Node,
    /// The object in the examined map.
    pub found: Option<Oid>,
    /// The object in the reference map.
    pub expected: Option<Oid>,
}

/// An examined map, a reference map, and the table to compare.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// The examined map.
    pub found: &'a OidMap,
    /// The reference map, known to be right.
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

    /// Whether both maps have an empty table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The difference found by step `at`, which is less than [`Self::len`]. A node that differs is
    /// reported once, or once for each segment with a wrong pair for it.
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
        // a wrong pair that a newer segment hides was not seen by the first half
        let is_hidden = || found.oid(table, &node) != Some(oid);
        (right.is_none() || (right != Some(oid) && is_hidden())).then_some(wrong)
    }
}
