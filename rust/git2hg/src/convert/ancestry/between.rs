//! The manifests that are ancestors of one of two and not of the other.

use std::collections::BinaryHeap;

use hashbrown::{HashMap, HashSet};

use crate::convert::manifests::{Number, PushedManifests};

/// One of them, with its parents.
#[derive(Clone, Copy, Debug)]
pub(super) struct BetweenManifest {
    pub number: u32,
    pub first: Number,
    pub second: Number,
}

/// All of them, or of both one: parents before children. Each has a place in this order.
///
/// By their first parents they are trees. Each tree is numbered from its root on, so that what comes
/// from a manifest is a range.
#[derive(Debug)]
pub(super) struct Between {
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
        let count = manifests.len();
        let mut between =
            Self { manifests, outside: Vec::new(), starts: vec![0; count], lens: vec![1; count] };
        let above: Vec<Option<u32>> = between
            .manifests
            .iter()
            .map(|manifest| manifest.first.and_then(|first| between.place(first)))
            .collect();
        for (at, above) in above.iter().enumerate().rev() {
            if let Some(above) = above {
                between.lens[*above as usize] += between.lens[at];
            }
        }
        let mut next = vec![0; count];
        let mut free = 0;
        for (at, above) in above.iter().enumerate() {
            let place = above.map_or(&mut free, |above| &mut next[above as usize]);
            between.starts[at] = *place;
            *place += between.lens[at];
            next[at] = between.starts[at] + 1;
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

    /// Whether first parents lead from the one at `place` to the one at `from`, or these are one.
    pub fn inherits(&self, place: u32, from: u32) -> bool {
        let start = self.starts[from as usize];
        (start..start + self.lens[from as usize]).contains(&self.starts[place as usize])
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
