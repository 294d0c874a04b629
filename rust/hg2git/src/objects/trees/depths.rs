//! Depths of the trees that were written lately.
//!
//! Branches make trees that other branches have made, as where a patch is applied to both. Such a
//! tree is not stored again, and the trees after it count on from the chain that it is stored in.

use gitpack::Oid;

/// Number of slots. Ids are evenly distributed, unless somebody chose them: then chains get longer.
const SLOTS: usize = 1 << 17;

/// Numbers of deltas in the chains of trees, until another tree takes the slot.
#[derive(Debug)]
pub(crate) struct Depths {
    /// An id, and its depth. No tree has the id of an empty slot.
    slots: Vec<[u8; 21]>,
}

impl Default for Depths {
    fn default() -> Self {
        Self { slots: vec![[0; 21]; SLOTS] }
    }
}

impl Depths {
    /// The depth of a tree that was written lately.
    pub fn get(&self, oid: &Oid) -> Option<u8> {
        let [id @ .., depth] = &self.slots[slot(oid)];
        (id == oid.as_bytes()).then_some(*depth)
    }

    /// Notes a tree that is written.
    pub fn insert(&mut self, oid: &Oid, depth: u8) {
        let [id @ .., of_id] = &mut self.slots[slot(oid)];
        (*id, *of_id) = (*oid.as_bytes(), depth);
    }
}

fn slot(oid: &Oid) -> usize {
    let [a, b, c, d, ..] = *oid.as_bytes();
    u32::from_le_bytes([a, b, c, d]) as usize % SLOTS
}
