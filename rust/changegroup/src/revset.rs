//! Sets of revisions of one revlog.

use revlog::{Index, Rev};

/// Set of revisions, one bit each.
#[derive(Clone, Debug, Default)]
pub(crate) struct RevSet(Vec<u64>);

impl RevSet {
    /// An empty set, with room for the first `len` numbers.
    pub fn new(len: u32) -> Self {
        Self(vec![0; (len as usize).div_ceil(64)])
    }

    /// Adds a number below `len`.
    pub fn insert(&mut self, number: u32) {
        self.0[number as usize / 64] |= 1 << (number % 64);
    }

    /// Whether a number is in the set. Any number may be given.
    pub fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// Numbers in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let words = (0..).zip(&self.0);
        words.flat_map(|(word, bits): (u32, &u64)| {
            (0..64).filter(move |bit| bits & (1 << bit) != 0).map(move |bit| 64 * word + bit)
        })
    }

    /// Adds all ancestors of the set. `newest` is its last number.
    pub fn close(&mut self, index: &Index, newest: Option<Rev>) {
        for number in (0..=newest.map_or(0, Rev::number)).rev() {
            if let Some(rev) = index.rev(number).filter(|_| self.contains(number)) {
                let parents = index.parents(rev);
                for parent in [parents.0, parents.1].into_iter().flatten() {
                    self.insert(parent.number());
                }
            }
        }
    }
}
