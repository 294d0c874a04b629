//! The manifests that are ancestors of one of two and not of the other.

use std::collections::BinaryHeap;

use hashbrown::{HashMap, HashSet};

use crate::build::manifests::{Number, PushedManifests};

/// One of them, with its parents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BetweenManifest {
    pub number: u32,
    pub first: Number,
    pub second: Number,
}

/// All of them, or of both one: parents before children. Each has a place in this order.
///
/// By their first parents they are trees. Each tree is numbered from its root on, so that what comes
/// from a manifest is a range.
#[derive(Debug)]
pub(crate) struct Between {
    manifests: Vec<BetweenManifest>,
    /// For each, the nearest of its first ancestors that is not one of them.
    outside: Vec<Number>,
    /// The ranges.
    starts: Vec<u32>,
    lens: Vec<u32>,
}

impl Between {
    /// Those of two manifests.
    pub fn new(manifests: &PushedManifests<'_>, merged: [Number; 2]) -> Self {
        let manifests: Vec<BetweenManifest> = numbers(manifests, merged)
            .into_iter()
            .map(|number| {
                let [first, second] = manifests.parents(number);
                BetweenManifest { number, first, second }
            })
            .collect();
        let mut between =
            Self { manifests, outside: Vec::new(), starts: Vec::new(), lens: Vec::new() };
        let above: Vec<Option<u32>> = between
            .manifests
            .iter()
            .map(|manifest| manifest.first.and_then(|first| between.place(first)))
            .collect();
        (between.starts, between.lens) = ranges(&above);
        for (at, above) in above.iter().enumerate() {
            let outside = above.map(|above| between.outside[above as usize]);
            between.outside.push(outside.unwrap_or(between.manifests[at].first));
        }
        between
    }

    /// All, by their places.
    pub fn manifests(&self) -> &[BetweenManifest] {
        &self.manifests
    }

    /// The one at a place.
    pub fn manifest(&self, place: u32) -> BetweenManifest {
        self.manifests[place as usize]
    }

    /// The place of a manifest, if it is one of them.
    pub fn place(&self, number: u32) -> Option<u32> {
        let found = self.manifests.binary_search_by_key(&number, |it| it.number);
        found.ok().and_then(|place| u32::try_from(place).ok())
    }

    /// Where first parents lead from the one at `place`: to a manifest that is an ancestor of both,
    /// or to nothing.
    pub fn outside(&self, place: u32) -> Number {
        self.outside[place as usize]
    }

    /// Of the ones at `places`, the one that first parents lead to first from each manifest, or that it is
    /// itself.
    pub fn nearest(&self, places: impl Iterator<Item = u32>) -> Nearest {
        let range = |place: u32| {
            let start = self.starts[place as usize];
            (start, start + self.lens[place as usize])
        };
        let mut ranges: Vec<(u32, u32, usize)> = places
            .enumerate()
            .map(|(at, place)| {
                let (start, end) = range(place);
                (start, end, at)
            })
            .collect();
        ranges.sort_unstable();
        // ranges lie within each other or apart
        let (mut open, mut nearest) =
            (Vec::new(), Nearest { from: Vec::with_capacity(ranges.len() * 2) });
        for (start, end, at) in ranges {
            nearest.close(&mut open, start);
            nearest.from.push((start, Some(at)));
            open.push((end, at));
        }
        nearest.close(&mut open, u32::MAX);
        nearest
    }

    /// Which of those are nearest to the one at `place`, by its number among them.
    pub fn find(&self, nearest: &Nearest, place: u32) -> Option<usize> {
        let start = self.starts[place as usize];
        let until = nearest.from.partition_point(|(from, _)| *from <= start);
        nearest.from[..until].last().and_then(|(_, at)| *at)
    }
}

/// The range of each, where `above` are their first parents.
fn ranges(above: &[Option<u32>]) -> (Vec<u32>, Vec<u32>) {
    let (mut starts, mut lens) = (vec![0; above.len()], vec![1; above.len()]);
    for (at, above) in above.iter().enumerate().rev() {
        if let Some(above) = above {
            lens[*above as usize] += lens[at];
        }
    }
    let mut next = vec![0; above.len()];
    let mut free = 0;
    for (at, above) in above.iter().enumerate() {
        let place = above.map_or(&mut free, |above| &mut next[above as usize]);
        starts[at] = *place;
        *place += lens[at];
        next[at] = starts[at] + 1;
    }
    (starts, lens)
}

/// What [`Between::nearest`] finds: from which start on it is which.
#[derive(Debug)]
pub(crate) struct Nearest {
    from: Vec<(u32, Option<usize>)>,
}

impl Nearest {
    /// Ends the ranges that end up to `until`.
    fn close(&mut self, open: &mut Vec<(u32, usize)>, until: u32) {
        while let Some((end, _)) = open.pop_if(|(end, _)| *end <= until) {
            self.from.push((end, open.last().map(|(_, at)| *at)));
        }
    }
}

/// Their numbers, ascending.
fn numbers(manifests: &PushedManifests<'_>, merged: [Number; 2]) -> Vec<u32> {
    const BOTH: u8 = 3;
    let mut sides: HashMap<u32, u8> = HashMap::new();
    let mut pending = BinaryHeap::new();
    for (number, side) in merged.into_iter().zip([1, 2]) {
        let Some(number) = number else { continue };
        pending.push(number);
        *sides.entry(number).or_default() |= side;
    }
    // how many of the pending ones are of one side only
    let mut single = pending.len();
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    while let Some(number) = pending.pop() {
        if !seen.insert(number) {
            continue;
        }
        let side = sides[&number];
        if side != BOTH {
            single -= 1;
            found.push(number);
        }
        for parent in manifests.parents(number).into_iter().flatten() {
            let before = sides.get(&parent).copied();
            let after = before.unwrap_or(0) | side;
            sides.insert(parent, after);
            match before {
                None => {
                    pending.push(parent);
                    single += usize::from(after != BOTH);
                }
                Some(before) => single -= usize::from(before != BOTH && after == BOTH),
            }
        }
        if single == 0 {
            break;
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_nearest_is_the_first_on_the_way(
            drawn in proptest::collection::vec((any::<u32>(), any::<bool>()), 1..60),
        ) {
            let above: Vec<Option<u32>> =
                (0..).zip(&drawn).map(|(at, (it, _))| (it % (at + 1)).checked_sub(1)).collect();
            let places: Vec<u32> =
                (0..).zip(&drawn).filter(|(_, (_, is))| *is).map(|(at, _)| at).collect();
            let (starts, lens) = ranges(&above);
            let between = Between { manifests: Vec::new(), outside: Vec::new(), starts, lens };
            let nearest = between.nearest(places.iter().copied());
            prop_assert!(nearest.from.len() <= 2 * places.len());
            for place in (0..).take(above.len()) {
                let mut way = std::iter::successors(Some(place), |at| above[*at as usize]);
                let expected = way.find_map(|at| places.binary_search(&at).ok());
                prop_assert_eq!(between.find(&nearest, place), expected);
            }
        }
    }
}
