//! A hash table from ids to entry numbers, with about eight bytes for each entry.
//!
//! The ids themselves are elsewhere, perhaps in a file. So a slot has sixteen more bits of the id,
//! and nearly every lookup reads only the id that it looks for. The table grows by a third. Its
//! owner fills it again, so the old and the new table never take memory at the same time.

/// Number of slots of the first table.
const FIRST_SLOTS: usize = 1024;
/// Maximum share of used slots: 17 of 20.
const MOST_USED: (usize, usize) = (17, 20);
/// The mark of a free slot.
const FREE: u16 = 0;

/// Entry numbers (places) by the hashes of ids.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// For each slot, bits of the hash, or [`FREE`].
    marks: Vec<u16>,
    /// For each slot, a place.
    slots: Vec<u32>,
    used: usize,
}

impl Places {
    /// Returns whether the table must grow before the next insertion.
    pub fn is_full(&self) -> bool {
        (self.used + 1) * MOST_USED.1 > self.marks.len() * MOST_USED.0
    }

    /// Removes all places, and makes room for a third more.
    pub fn grow(&mut self) {
        let slots = (self.marks.len() / 3 * 4).max(FIRST_SLOTS);
        *self = Self::default(); // frees the old table first
        *self = Self { marks: vec![FREE; slots], slots: vec![0; slots], used: 0 };
    }

    /// Finds the first place with this hash for which `is_it` returns true.
    ///
    /// # Errors
    ///
    /// The errors of `is_it`.
    pub fn find<E>(
        &self,
        hash: u64,
        mut is_it: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<Option<u32>, E> {
        if self.marks.is_empty() {
            return Ok(None);
        }
        let mark = mark(hash);
        let mut slot = self.first_slot(hash);
        while self.marks[slot] != FREE {
            if self.marks[slot] == mark && is_it(self.slots[slot])? {
                return Ok(Some(self.slots[slot]));
            }
            slot = self.after(slot);
        }
        Ok(None)
    }

    /// Adds a place. The table must not be full.
    pub fn insert(&mut self, hash: u64, place: u32) {
        let mut slot = self.first_slot(hash);
        while self.marks[slot] != FREE {
            slot = self.after(slot);
        }
        (self.marks[slot], self.slots[slot]) = (mark(hash), place);
        self.used += 1;
    }

    /// The first slot to probe, from the lower half of a hash.
    fn first_slot(&self, hash: u64) -> usize {
        (((hash & u64::from(u32::MAX)) * self.marks.len() as u64) >> 32) as usize
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.marks.len() { 0 } else { slot + 1 }
    }
}

/// The mark of a hash: its uppermost 16 bits, but never [`FREE`].
const fn mark(hash: u64) -> u16 {
    let [.., high, higher] = hash.to_le_bytes();
    let mark = u16::from_le_bytes([high, higher]);
    if mark == FREE { 1 } else { mark }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(places: &Places, hash: u64, place: u32) -> Option<u32> {
        let is_it = |at| Ok::<_, std::convert::Infallible>(at == place);
        places.find(hash, is_it).expect("cannot fail")
    }

    /// A hash that differs from others in all bits.
    fn hash(number: u32) -> u64 {
        u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    #[test]
    fn places_are_found_until_the_table_is_full() {
        let mut places = Places::default();
        assert!(places.is_full());
        assert_eq!(found(&places, 0, 0), None);
        for _ in 0..3 {
            places.grow();
            let mut count = 0;
            while !places.is_full() {
                places.insert(hash(count), count);
                count += 1;
            }
            assert!(count as usize * 10 >= places.marks.len() * 8);
            assert!((0..count).all(|at| found(&places, hash(at), at) == Some(at)));
            assert_eq!(found(&places, hash(count), count), None);
        }
        assert_eq!(places.marks.len(), 1816);
    }

    #[test]
    fn hashes_may_be_alike() {
        let mut places = Places::default();
        places.grow();
        for place in 0..100 {
            places.insert(u64::MAX, place);
            places.insert(0, 100 + place);
        }
        assert!((0..100).all(|at| found(&places, u64::MAX, at) == Some(at)));
        assert!((100..200).all(|at| found(&places, 0, at) == Some(at)));
        assert_eq!(found(&places, u64::MAX, 100), None);
    }

    #[test]
    fn hardly_any_other_place_is_asked_for() {
        let mut places = Places::default();
        places.grow();
        let mut count = 0;
        while !places.is_full() {
            places.insert(hash(count), count);
            count += 1;
        }
        let mut asked = 0;
        for number in count..count + 10_000 {
            let count = |_| {
                asked += 1;
                Ok::<_, std::convert::Infallible>(false)
            };
            assert_eq!(places.find(hash(number), count), Ok(None));
        }
        assert!(asked < 100, "{asked}");
    }
}
