//! Which of two revisions of a file is an ancestor of the other, for merges.
//!
//! The rule is git-cinnabar's: not the parents that filelogs have count, but the manifests that are
//! ancestors of one of the merged manifests and not of the other. In each of them, parents first, a
//! node that none of its parents has comes after the nodes that those have at this path.
//!
//! Only what these manifests change is looked at. What else they have comes from a manifest that is an
//! ancestor of both sides, and is looked up there.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};
use revlog::Node;

use crate::build::between::{Between, Nearest};
use crate::build::manifests::{Number, PushedManifests, changes};
use crate::error::Result;

/// Entries of paths that are in memory at a time.
const MOST_ENTRIES: usize = 1 << 20;

/// A path with two nodes, one in each of the merged manifests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contested<'a> {
    pub path: &'a [u8],
    pub nodes: [Node; 2],
}

/// For each of `contested`, ascending by path, the nodes that are parents of a merge of both
/// manifests. `tick` is called now and then.
///
/// # Errors
///
/// As [`PushedManifests::text`], and those of `tick`.
pub(crate) fn heads(
    manifests: &mut PushedManifests<'_>,
    merged: [Number; 2],
    contested: &[Contested<'_>],
    mut tick: impl FnMut() -> Result<()>,
) -> Result<Vec<Vec<Node>>> {
    if contested.is_empty() {
        return Ok(Vec::new());
    }
    let between = Between::new(manifests, merged);
    let mut heads = Vec::with_capacity(contested.len());
    let mut rest = contested;
    while !rest.is_empty() {
        let entries = Entries::read(manifests, &between, rest, &mut tick)?;
        let (now, later) = rest.split_at(entries.of.len());
        rest = later;
        let known = entries.look_up(manifests, &between, now, &mut tick)?;
        let (mut edges, mut seen) = (Edges::new(), HashSet::new());
        for ((own, known), contested) in entries.of.iter().zip(&known).zip(now) {
            find_edges(&between, own, known, &mut edges);
            let [one, two] = contested.nodes;
            heads.push(if is_ancestor(&edges, one, two, &mut seen) {
                vec![two]
            } else if is_ancestor(&edges, two, one, &mut seen) {
                vec![one]
            } else {
                vec![one, two]
            });
        }
        tick()?;
    }
    Ok(heads)
}

/// What a manifest has at a path, where it differs from its first parent.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The place of the manifest in [`Between`].
    place: u32,
    /// `None` if it has not the path.
    node: Option<Node>,
}

/// What the manifests change of some paths: lists, ascending by place.
struct Entries {
    of: Vec<Vec<Entry>>,
}

impl Entries {
    /// Those of the first of `contested`, as many as there is room for.
    fn read(
        manifests: &mut PushedManifests<'_>,
        between: &Between,
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
        for (place, manifest) in (0..).zip(between.manifests()) {
            // rare: nothing is there to differ from, so that it has no path is something, too
            let starts = manifest.first.is_none() && manifest.second.is_some();
            if starts {
                for own in &mut of {
                    own.push(Entry { place, node: None });
                }
                count += of.len();
            }
            for (path, node) in changes(&manifests.changed(manifest.number)?) {
                let is_it = |number: &usize| contested[*number].path == path;
                let Some(number) = numbers.find(hashing.hash_one(path), is_it) else { continue };
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

    /// What the manifests outside have, where an entry comes after it.
    fn look_up(
        &self,
        manifests: &mut PushedManifests<'_>,
        between: &Between,
        contested: &[Contested<'_>],
        tick: &mut impl FnMut() -> Result<()>,
    ) -> Result<Vec<HashMap<u32, Option<Node>>>> {
        let mut wanted: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut known: Vec<HashMap<u32, Option<Node>>> = vec![HashMap::new(); self.of.len()];
        for (path, own) in self.of.iter().enumerate() {
            let nearest = between.nearest(own.iter().map(|it| it.place));
            for entry in own {
                for found in parents(between, own, &nearest, *entry).into_iter().flatten() {
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

/// What a parent has at a path.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// What a manifest in between has.
    Entry(Option<Node>),
    /// What this manifest has, which is an ancestor of both sides.
    Outside(u32),
}

/// What the parents of the manifest of `entry` have at its path; `None` for a parent that is not there.
fn parents(
    between: &Between,
    own: &[Entry],
    nearest: &Nearest,
    entry: Entry,
) -> [Option<Found>; 2] {
    let manifest = between.manifest(entry.place);
    [manifest.first, manifest.second].map(|parent| {
        let parent = parent?;
        let Some(place) = between.place(parent) else { return Some(Found::Outside(parent)) };
        // the last of those that are on the way from it to its first ancestors
        Some(match (between.find(nearest, place), between.outside(place)) {
            (Some(at), _) => Found::Entry(own[at].node),
            (None, Some(number)) => Found::Outside(number),
            (None, None) => Found::Entry(None),
        })
    })
}

/// What each node comes after: none, one or two others.
type Edges = HashMap<Node, [Option<Node>; 2]>;

/// Replaces `edges` by those of one path.
fn find_edges(
    between: &Between,
    own: &[Entry],
    known: &HashMap<u32, Option<Node>>,
    edges: &mut Edges,
) {
    edges.clear();
    let nearest = between.nearest(own.iter().map(|it| it.place));
    for entry in own {
        let before = parents(between, own, &nearest, *entry).map(|found| {
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

/// Whether one node is an ancestor of another; `seen` is a table to use again.
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
