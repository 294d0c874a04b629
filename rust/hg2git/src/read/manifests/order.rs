//! The order in which the manifests of a plan are read.
//!
//! Each manifest comes after the base of its changes. All manifests built on it come before the
//! next branch from the same base. So a text is needed only while its branch is read, regardless of
//! the revision numbers. The largest branch comes last, so few texts are kept at a time: for a
//! million manifests, at most twenty.

use std::ops::Range;

use revlog::{Index, Rev};

use super::changes::Base;
use super::plan::{FEW, HASHED_BYTES, ManifestPlan};

/// Minimum of one job: bytes to hash, approximately, and number of revisions.
const JOB_WORK_BYTES: u64 = 32 << 20;
const JOB_REVS: usize = 32;
/// Part of a job that may be spent on rebuilding delta chains. A job that begins in the middle of a
/// chain rebuilds the chain first. So a job ends before a revision whose chain is at most this part
/// of the job, or when it has [`LONGEST_JOB_BYTES`] to hash.
const CHAIN_PART: usize = 4;
const LONGEST_JOB_BYTES: u64 = 8 * JOB_WORK_BYTES;
/// Longest text that extends a job, in bytes: an index may claim any length.
const MOST_WEIGHED: u64 = LONGEST_JOB_BYTES / 4;

/// No manifest.
const NONE: u32 = u32::MAX;

/// An order of positions of a plan.
#[derive(Debug)]
pub(super) struct ReadingOrder {
    positions: Vec<u32>,
    /// For each position, the place of the last manifest that is read with its text.
    last_uses: Vec<u32>,
}

impl ReadingOrder {
    /// The order of all manifests of `plan`.
    pub fn of(plan: &ManifestPlan, index: &Index) -> Self {
        let count = plan.revs.len();
        let bases = (0..count).map(|position| match plan.change_base(index, position) {
            Base::Position(base) => number(base),
            Base::Empty | Base::Known(_) => NONE,
        });
        let positions = ordered(&bases.collect::<Vec<_>>());
        let mut last_uses = vec![NONE; count];
        for (place, &position) in (0..).zip(&positions) {
            for base in plan.read_with(index, position as usize) {
                last_uses[base] = place;
            }
        }
        Self { positions, last_uses }
    }

    /// The position of the manifest at `place`.
    pub fn position(&self, place: usize) -> usize {
        self.positions[place] as usize
    }

    /// Whether no manifest after `place` needs the text of the manifest at `position`.
    pub fn is_done(&self, position: usize, place: usize) -> bool {
        let last_use = self.last_uses[position];
        last_use == NONE || last_use as usize <= place
    }

    /// Ranges of places for jobs of about equal work, with the approximate bytes of their changes.
    /// With `each`, all manifests are hashed.
    pub fn jobs(&self, plan: &ManifestPlan, index: &Index, each: bool) -> Vec<(u64, Range<usize>)> {
        let mut jobs = Vec::new();
        let mut chains = Chains { index, lens: Vec::new() };
        let is_each = each || plan.revs.len() <= FEW;
        let most_hashed = if is_each { u64::MAX } else { HASHED_BYTES };
        let (mut start, mut work_bytes, mut bytes) = (0, 0, 0);
        let mut revs =
            self.positions.iter().map(|&position| plan.revs[position as usize]).peekable();
        while let Some(rev) = revs.next() {
            let text_len = u64::from(index.text_len_hint(rev));
            work_bytes += text_len.min(most_hashed);
            bytes += u64::from(index.stored_len(rev)) * 2;
            let end = self.positions.len() - revs.len();
            let count = end - start;
            // the next job begins with a whole text, and hashes one at its end
            let least_bytes = JOB_WORK_BYTES.max(4 * text_len.min(MOST_WEIGHED));
            let is_enough = work_bytes >= least_bytes && count >= JOB_REVS;
            let is_end = revs.peek().is_none_or(|next| {
                is_enough
                    && (work_bytes >= LONGEST_JOB_BYTES
                        || chains.len(*next) as usize <= count / CHAIN_PART)
            });
            if is_end {
                jobs.push((bytes, start..end));
                (start, work_bytes, bytes) = (end, 0, 0);
            }
        }
        jobs
    }
}

/// Orders positions by their bases, each an earlier position or [`NONE`].
fn ordered(bases: &[u32]) -> Vec<u32> {
    // for each position, the size of its branch with itself, and its largest branch
    let mut sizes = vec![1_u32; bases.len()];
    let mut largest = vec![NONE; bases.len()];
    for (position, &base) in bases.iter().enumerate().rev() {
        if base != NONE {
            let (size, base) = (sizes[position], base as usize);
            sizes[base] += size;
            if largest[base] == NONE || size > sizes[largest[base] as usize] {
                largest[base] = number(position);
            }
        }
    }
    let mut positions = vec![0; bases.len()];
    // the place of each position, then of its next branch; set ahead for a largest branch
    let mut places = vec![0; bases.len()];
    let mut end = 0;
    for (position, &base) in bases.iter().enumerate() {
        let size = sizes[position];
        let place = if base == NONE {
            end += size;
            end - size
        } else if largest[base as usize] == number(position) {
            places[position]
        } else {
            let next = &mut places[base as usize];
            std::mem::replace(next, *next + size)
        };
        positions[place as usize] = number(position);
        places[position] = place + 1;
        if largest[position] != NONE {
            let largest = largest[position] as usize;
            places[largest] = place + size - sizes[largest];
        }
    }
    positions
}

fn number(position: usize) -> u32 {
    u32::try_from(position).expect("revisions have 32 bits")
}

/// Lengths of delta chains, counted on demand.
struct Chains<'a> {
    index: &'a Index,
    lens: Vec<u32>,
}

impl Chains<'_> {
    /// Number of revisions needed to rebuild `rev`, without `rev` itself.
    fn len(&mut self, rev: Rev) -> u32 {
        let start = number(self.lens.len());
        for number in start..=rev.number() {
            let base = self.index.rev(number).and_then(|rev| self.index.delta_base(rev));
            self.lens.push(base.map_or(0, |base| self.lens[base.number() as usize] + 1));
        }
        self.lens[rev.number() as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn places(positions: &[u32]) -> Vec<usize> {
        let mut places = vec![usize::MAX; positions.len()];
        for (place, &position) in positions.iter().enumerate() {
            places[position as usize] = place;
        }
        assert!(!places.contains(&usize::MAX), "each position has its place");
        places
    }

    /// Most texts that wait at a time, with the text read last.
    fn most_waiting(bases: &[u32], positions: &[u32]) -> usize {
        let places = places(positions);
        let mut last_uses = vec![0; bases.len()];
        for (position, &base) in bases.iter().enumerate().filter(|(_, base)| **base != NONE) {
            last_uses[base as usize] = last_uses[base as usize].max(places[position]);
        }
        let waiting = |place: usize| {
            let read = positions[..place].iter();
            read.filter(|position| last_uses[**position as usize] >= place).count()
        };
        (0..bases.len()).map(waiting).max().unwrap_or(0)
    }

    #[test]
    fn a_line_is_read_as_it_is() {
        assert_eq!(ordered(&[NONE, 0, 1, 2]), [0, 1, 2, 3]);
        assert_eq!(ordered(&[NONE, 0, NONE, 2]), [0, 1, 2, 3]);
        assert_eq!(ordered(&[]), [0_u32; 0]);
    }

    #[test]
    fn of_branches_the_largest_comes_last() {
        // 1, 3 and 5 follow 0; 2 follows 1, and 4 and 6 follow 3
        assert_eq!(ordered(&[NONE, 0, 1, 0, 3, 0, 3]), [0, 1, 2, 5, 3, 4, 6]);
    }

    #[test]
    fn branches_that_take_turns_are_read_one_by_one() {
        let bases: Vec<u32> =
            (0..1000).map(|at: u32| at.checked_sub(100).unwrap_or(NONE)).collect();
        let positions = ordered(&bases);
        assert!(positions.chunks(10).all(|line| line.is_sorted_by_key(|position| position / 100)));
        assert_eq!(most_waiting(&bases, &positions), 1);
    }

    proptest! {
        #[test]
        fn each_comes_after_its_base_and_few_wait(
            backs in proptest::collection::vec(prop_oneof![0..4_u32, 0..400_u32], 0..400),
        ) {
            let bases: Vec<u32> = (0..).zip(&backs).map(|(at, back)| match back {
                0 => NONE,
                back => u32::checked_sub(at, *back).unwrap_or(NONE),
            }).collect();
            let positions = ordered(&bases);
            let places = places(&positions);
            for (position, &base) in bases.iter().enumerate().filter(|(_, base)| **base != NONE) {
                prop_assert!(places[base as usize] < places[position]);
            }
            let most = usize::BITS - bases.len().leading_zeros();
            prop_assert!(most_waiting(&bases, &positions) <= most as usize);
        }
    }
}
