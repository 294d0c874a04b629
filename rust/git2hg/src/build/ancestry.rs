//! Ancestry of file revisions, for the parents of a merged file.
//!
//! The rule is git-cinnabar's. It ignores the parents in filelogs. It looks at the manifests that
//! are ancestors of one of the merged manifests and not of the other, parents first. If the node of
//! a path differs from its nodes in the parents of a manifest, it descends from these.
//!
//! Only the changes of these manifests are read. Other entries come from the nearest manifest that
//! is an ancestor of both sides.

use std::collections::BinaryHeap;
use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};
use revlog::Node;

use crate::build::manifests::{Number, PushedManifests, changes};
use crate::error::Result;

/// Entries in memory at a time.
const MOST_ENTRIES: usize = 1 << 20;

/// Path with different nodes in the merged manifests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contested<'a> {
    pub path: &'a [u8],
    pub nodes: [Node; 2],
}

/// Nodes of a path that are parents in a merge: none, one or two.
pub(crate) type Heads = [Option<Node>; 2];

/// For each of `contested`, ascending by path, its heads in a merge of both manifests. Calls `tick`
/// regularly.
///
/// # Errors
///
/// As [`PushedManifests::text`], and the errors of `tick`.
pub(crate) fn heads(
    manifests: &mut PushedManifests<'_>,
    merged: [Number; 2],
    contested: &[Contested<'_>],
    mut tick: impl FnMut() -> Result<()>,
) -> Result<Vec<Heads>> {
    if contested.is_empty() {
        return Ok(Vec::new());
    }
    let divergence = Divergence::new(manifests, merged);
    let mut heads = Vec::with_capacity(contested.len());
    let mut rest = contested;
    while !rest.is_empty() {
        let entries = Entries::read(manifests, &divergence, rest, &mut tick)?;
        let (now, later) = rest.split_at(entries.of.len());
        rest = later;
        let known = entries.look_up(manifests, &divergence, now, &mut tick)?;
        let (mut edges, mut seen) = (Edges::new(), HashSet::new());
        for ((own, known), contested) in entries.of.iter().zip(&known).zip(now) {
            find_edges(&divergence, own, known, &mut edges);
            let [one, two] = contested.nodes;
            heads.push(if is_ancestor(&edges, one, two, &mut seen) {
                [Some(two), None]
            } else if is_ancestor(&edges, two, one, &mut seen) {
                [Some(one), None]
            } else {
                [Some(one), Some(two)]
            });
        }
        tick()?;
    }
    Ok(heads)
}

/// Node of a path in a manifest that differs from its first parent there.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Place of the manifest in [`Divergence`].
    place: u32,
    /// `None` if the manifest lacks the path.
    node: Option<Node>,
}

/// Changes of some paths: one list for each path, ascending by place.
struct Entries {
    of: Vec<Vec<Entry>>,
}

impl Entries {
    /// Reads the changes of the first of `contested`, as many as fit.
    fn read(
        manifests: &mut PushedManifests<'_>,
        divergence: &Divergence,
        contested: &[Contested<'_>],
        tick: &mut impl FnMut() -> Result<()>,
    ) -> Result<Self> {
        let mut of: Vec<Vec<Entry>> = vec![Vec::new(); contested.len()];
        let hashing = DefaultHashBuilder::default();
        let mut numbers = HashTable::with_capacity(contested.len());
        for (number, Contested { path, .. }) in contested.iter().enumerate() {
            let hash = |number: &usize| hashing.hash_one(contested[*number].path);
            numbers.insert_unique(hashing.hash_one(*path), number, hash);
        }
        let mut count = 0;
        for (place, manifest) in (0..).zip(divergence.manifests()) {
            // rare: such a manifest has nothing to differ from, so the missing path counts as a
            // change
            let starts = manifest.first.is_none() && manifest.second.is_some();
            if starts {
                for own in &mut of {
                    own.push(Entry { place, node: None });
                }
                count += of.len();
            }
            for (path, node) in changes(&manifests.changed(manifest.number)?) {
                let is_same = |number: &usize| contested[*number].path == path;
                let Some(number) = numbers.find(hashing.hash_one(path), is_same) else { continue };
                let Some(own) = of.get_mut(*number) else { continue };
                if starts {
                    own.pop();
                }
                own.push(Entry { place, node });
                count += 1;
            }
            while count > MOST_ENTRIES && of.len() > 1 {
                let dropped = of.split_off(of.len() / 2);
                count -= dropped.iter().map(Vec::len).sum::<usize>();
            }
            tick()?;
        }
        Ok(Self { of })
    }

    /// Looks up the entries of outside manifests that an entry descends from.
    fn look_up(
        &self,
        manifests: &mut PushedManifests<'_>,
        divergence: &Divergence,
        contested: &[Contested<'_>],
        tick: &mut impl FnMut() -> Result<()>,
    ) -> Result<Vec<HashMap<u32, Option<Node>>>> {
        let mut wanted: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut known: Vec<HashMap<u32, Option<Node>>> = vec![HashMap::new(); self.of.len()];
        for (path, own) in self.of.iter().enumerate() {
            let nearest = divergence.nearest(own.iter().map(|entry| entry.place));
            for entry in own {
                for found in parents(divergence, own, &nearest, *entry).into_iter().flatten() {
                    if let Found::Outside(number) = found
                        && known[path].insert(number, None).is_none()
                    {
                        wanted.entry(number).or_default().push(path);
                    }
                }
            }
        }
        let mut wanted: Vec<(u32, Vec<usize>)> = wanted.into_iter().collect();
        wanted.sort_unstable_by_key(|(number, _)| *number);
        for (number, paths) in wanted {
            let asked: Vec<&[u8]> = paths.iter().map(|path| contested[*path].path).collect();
            let nodes = manifests.nodes_at(number, &asked)?;
            for (path, node) in paths.into_iter().zip(nodes) {
                known[path].insert(number, node);
            }
            tick()?;
        }
        Ok(known)
    }
}

/// Entry of a parent at a path.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// Entry of a manifest in between.
    Entry(Option<Node>),
    /// Entry of this outside manifest, an ancestor of both sides.
    Outside(u32),
}

/// Entries of the parents of the manifest of `entry`, at its path; `None` for a missing parent.
fn parents(
    divergence: &Divergence,
    own: &[Entry],
    nearest: &Nearest,
    entry: Entry,
) -> [Option<Found>; 2] {
    let manifest = divergence.manifest(entry.place);
    [manifest.first, manifest.second].map(|parent| {
        let parent = parent?;
        let Some(place) = divergence.place(parent) else { return Some(Found::Outside(parent)) };
        // the last change on the way from the parent to its first ancestors
        Some(match (divergence.find(nearest, place), divergence.outside(place)) {
            (Some(at), _) => Found::Entry(own[at].node),
            (None, Some(number)) => Found::Outside(number),
            (None, None) => Found::Entry(None),
        })
    })
}

/// Predecessors of each node: none, one or two.
type Edges = HashMap<Node, [Option<Node>; 2]>;

/// Replaces `edges` by the edges of one path.
fn find_edges(
    divergence: &Divergence,
    own: &[Entry],
    known: &HashMap<u32, Option<Node>>,
    edges: &mut Edges,
) {
    edges.clear();
    let nearest = divergence.nearest(own.iter().map(|entry| entry.place));
    for entry in own {
        let before = parents(divergence, own, &nearest, *entry).map(|found| {
            found.map(|found| match found {
                Found::Entry(node) => node,
                Found::Outside(number) => known.get(&number).copied().flatten(),
            })
        });
        let is_new = !before.contains(&Some(entry.node));
        if !is_new || before == [None; 2] && entry.node.is_none() {
            continue;
        }
        let there = before.map(Option::flatten);
        for parent in there.into_iter().flatten() {
            edges.entry(parent).or_default();
        }
        if let Some(node) = entry.node {
            edges.entry(node).or_insert(there);
        }
    }
}

/// Whether one node is an ancestor of another. `seen` is a table for reuse.
fn is_ancestor(edges: &Edges, node: Node, of: Node, seen: &mut HashSet<Node>) -> bool {
    seen.clear();
    let mut pending: Vec<Node> = Vec::new();
    if edges.contains_key(&of) {
        pending.push(of);
    }
    while let Some(at) = pending.pop() {
        if at == node {
            return true;
        }
        if seen.insert(at) {
            pending.extend(edges[&at].into_iter().flatten());
        }
    }
    false
}

/// Manifest in between, with its parents.
#[derive(Clone, Copy, Debug)]
struct DivergentManifest {
    number: u32,
    first: Number,
    second: Number,
}

/// Manifests that are ancestors of one of two, and not of both. Parents come before children; the
/// place of a manifest is its index in this order.
///
/// First parents make them trees. Each tree is numbered from its root on, so the descendants of a
/// manifest are a range.
#[derive(Debug)]
struct Divergence {
    manifests: Vec<DivergentManifest>,
    /// For each, its nearest first ancestor outside.
    outside: Vec<Number>,
    /// Ranges of descendants.
    starts: Vec<u32>,
    lens: Vec<u32>,
}

impl Divergence {
    /// Finds them for two manifests.
    fn new(manifests: &PushedManifests<'_>, merged: [Number; 2]) -> Self {
        let manifests: Vec<DivergentManifest> = numbers(manifests, merged)
            .into_iter()
            .map(|number| {
                let [first, second] = manifests.parents(number);
                DivergentManifest { number, first, second }
            })
            .collect();
        let mut divergence =
            Self { manifests, outside: Vec::new(), starts: Vec::new(), lens: Vec::new() };
        let above: Vec<Option<u32>> = divergence
            .manifests
            .iter()
            .map(|manifest| manifest.first.and_then(|first| divergence.place(first)))
            .collect();
        (divergence.starts, divergence.lens) = ranges(&above);
        for (at, above) in above.iter().enumerate() {
            let outside = above.map(|above| divergence.outside[above as usize]);
            divergence.outside.push(outside.unwrap_or(divergence.manifests[at].first));
        }
        divergence
    }

    /// All manifests, by their places.
    fn manifests(&self) -> &[DivergentManifest] {
        &self.manifests
    }

    /// The manifest at a place.
    fn manifest(&self, place: u32) -> DivergentManifest {
        self.manifests[place as usize]
    }

    /// Place of a manifest, if it is one of them.
    fn place(&self, number: u32) -> Option<u32> {
        let found = self.manifests.binary_search_by_key(&number, |manifest| manifest.number);
        found.ok().and_then(|place| u32::try_from(place).ok())
    }

    /// Nearest first ancestor outside of the manifest at `place`, if any.
    fn outside(&self, place: u32) -> Number {
        self.outside[place as usize]
    }

    /// Index over the manifests at `places`, for [`Self::find`].
    fn nearest(&self, places: impl Iterator<Item = u32>) -> Nearest {
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
        // ranges are nested or apart
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

    /// Index in `places` of the nearest first ancestor of the manifest at `place`, or of itself.
    fn find(&self, nearest: &Nearest, place: u32) -> Option<usize> {
        let start = self.starts[place as usize];
        let until = nearest.from.partition_point(|(from, _)| *from <= start);
        nearest.from[..until].last().and_then(|(_, at)| *at)
    }
}

/// Ranges of descendants, given the first parents.
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

/// Nearest of some manifests, by ranges: for each start of a range, the index of the manifest.
#[derive(Debug)]
struct Nearest {
    from: Vec<(u32, Option<usize>)>,
}

impl Nearest {
    /// Ends the open ranges that end up to `until`.
    fn close(&mut self, open: &mut Vec<(u32, usize)>, until: u32) {
        while let Some((end, _)) = open.pop_if(|(end, _)| *end <= until) {
            self.from.push((end, open.last().map(|(_, at)| *at)));
        }
    }
}

/// Numbers of the manifests in between, ascending.
fn numbers(manifests: &PushedManifests<'_>, merged: [Number; 2]) -> Vec<u32> {
    const BOTH: u8 = 3;
    let mut sides: HashMap<u32, u8> = HashMap::new();
    let mut pending = BinaryHeap::new();
    for (number, side) in merged.into_iter().zip([1, 2]) {
        let Some(number) = number else { continue };
        pending.push(number);
        *sides.entry(number).or_default() |= side;
    }
    // number of pending manifests of one side only
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
                (0..).zip(&drawn).map(|(at, (number, _))| (number % (at + 1)).checked_sub(1)).collect();
            let places: Vec<u32> =
                (0..).zip(&drawn).filter(|(_, (_, is))| *is).map(|(at, _)| at).collect();
            let (starts, lens) = ranges(&above);
            let divergence = Divergence { manifests: Vec::new(), outside: Vec::new(), starts, lens };
            let nearest = divergence.nearest(places.iter().copied());
            prop_assert!(nearest.from.len() <= 2 * places.len());
            for place in (0..).take(above.len()) {
                let mut way = std::iter::successors(Some(place), |at| above[*at as usize]);
                let expected = way.find_map(|at| places.binary_search(&at).ok());
                prop_assert_eq!(divergence.find(&nearest, place), expected);
            }
        }
    }
}
