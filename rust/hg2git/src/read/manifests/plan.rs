//! The manifests to read, the base of each one's changes, and the manifests to hash.
//!
//! All of it follows from the index, the map, and the number of changes of a line's first manifest. So
//! threads and memory do not change it.

use std::collections::{HashMap, HashSet};

use gitpack::Oid;
use revlog::{Index, Node, Parents, Rev, Revlog};

use super::REACH;
use super::changes::{Base, Changes};
use crate::map::oidmap::OidMap;
use crate::map::segment::Table;

/// Budget of hashing, in bytes per manifest. Smaller manifests are all hashed.
pub(super) const HASHED_BYTES: u64 = 64 << 10;
/// Largest number of manifests that are all hashed, whatever their size: mostly those of a push.
pub(super) const FEW: usize = 64;
/// Longest delta, in stored bytes, that links a manifest to its child. A manifest counts as hashed
/// if a hashed child was rebuilt from it by such a delta, which leaves most of it unchanged.
const LONGEST_LINK: u32 = 32 << 10;
/// Most changes from the manifest before for the first manifest of a line. With more, it is told from
/// its start manifest. Then the trees that change are stored whole, not as deltas of other lines', so
/// that wide directories take as much room as a thousand changes.
const MOST_CHANGES: usize = 1024;
/// Shortest text, in bytes, of a line's first manifest that is told from its start manifest in any case:
/// to compare it with the manifest before would take longer.
const LONG_TEXT: u32 = 4 << 20;
/// Largest number of start manifests. Their trees are in memory together.
const MOST_STARTS: usize = 256;

/// The manifests to convert, and their order.
#[derive(Debug)]
pub(crate) struct ManifestPlan {
    /// Ascending.
    pub revs: Vec<Rev>,
    /// The start manifests: for the first position of a line, a parent that an earlier run converted.
    starts: HashMap<usize, Rev>,
}

/// The tree of a changeset to convert, by its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangesetTree {
    /// The null manifest: no file.
    Empty,
    /// Converted by an earlier run.
    Known(Oid),
    /// At this position of the manifests' plan.
    Position(usize),
}

/// The trees of changesets: 4 bytes each, and 20 more for a known tree.
#[derive(Debug, Default)]
pub(crate) struct ChangesetTrees {
    /// Positions, or [`NO_FILE`], or marked indexes into `known`.
    places: Vec<u32>,
    known: Vec<Oid>,
}

/// Mark of indexes into `known`. Revisions and positions have 31 bits.
const KNOWN_MARK: u32 = 1 << 31;
const NO_FILE: u32 = u32::MAX;

impl ChangesetTrees {
    fn push(&mut self, tree: ChangesetTree) {
        let number = |at: usize| u32::try_from(at).expect("revisions have 31 bits");
        self.places.push(match tree {
            ChangesetTree::Empty => NO_FILE,
            ChangesetTree::Known(oid) => {
                self.known.push(oid);
                KNOWN_MARK | number(self.known.len() - 1)
            }
            ChangesetTree::Position(position) => number(position),
        });
    }

    /// The tree of the changeset at this place.
    pub fn get(&self, at: usize) -> ChangesetTree {
        match self.places[at] {
            NO_FILE => ChangesetTree::Empty,
            place if place & KNOWN_MARK > 0 => {
                ChangesetTree::Known(self.known[(place & !KNOWN_MARK) as usize])
            }
            position => ChangesetTree::Position(position as usize),
        }
    }
}

impl ManifestPlan {
    /// The plan for changesets with these manifests, and their trees. Manifests in `map` are not
    /// planned.
    ///
    /// # Errors
    ///
    /// [`revlog::Error`] if a manifest is missing.
    pub fn of(
        nodes: &[Node],
        manifest: &Revlog,
        map: &OidMap,
    ) -> revlog::Result<(Self, ChangesetTrees)> {
        let known = |node: &Node| match *node {
            Node::NULL => Some(ChangesetTree::Empty),
            _ => map.oid(Table::Manifests, node).map(ChangesetTree::Known),
        };
        let unknown: Vec<Node> =
            nodes.iter().filter(|node| known(node).is_none()).copied().collect();
        let found = manifest.find(&unknown)?;
        let mut revs = found.clone();
        revs.sort_unstable();
        revs.dedup();
        let mut plan = Self { revs, starts: HashMap::new() };
        let index = manifest.index();
        plan.begin_lines(index, |rev| map.oid(Table::Manifests, &index.node(rev)).is_some());
        let mut found = found.into_iter();
        let mut trees = ChangesetTrees::default();
        for node in nodes {
            trees.push(known(node).unwrap_or_else(|| {
                let rev = found.next().expect("one for each unknown node");
                ChangesetTree::Position(plan.position(rev).expect("it was planned"))
            }));
        }
        Ok((plan, trees))
    }

    /// Finds the start manifests among those that are known.
    fn begin_lines(&mut self, index: &Index, is_known: impl Fn(Rev) -> bool) {
        let mut distinct = HashSet::new();
        for (position, &rev) in self.revs.iter().enumerate() {
            let Parents(p1, p2) = index.parents(rev);
            let parents = [p1, p2].into_iter().flatten();
            if parents.clone().any(|parent| self.position(parent).is_some()) {
                continue;
            }
            let near = index.delta_base(rev).filter(|_| position == 0);
            let Some(start) = parents.chain(near).find(|rev| is_known(*rev)) else { continue };
            if distinct.len() < MOST_STARTS || distinct.contains(&start) {
                distinct.insert(start);
                self.starts.insert(position, start);
            }
        }
    }

    /// The start manifest, if it is the better base for the manifest at `position`, whose `changes`
    /// are many.
    pub fn better_base(&self, position: usize, changes: &Changes) -> Option<Base> {
        let start = Base::Known(*self.starts.get(&position)?);
        (changes.count() > MOST_CHANGES && changes.base != start).then_some(start)
    }

    /// The position of `rev` in the order.
    pub fn position(&self, rev: Rev) -> Option<usize> {
        // mostly the plan has all of a history
        let number = rev.number() as usize;
        if self.revs.get(number) == Some(&rev) {
            return Some(number);
        }
        self.revs.binary_search(&rev).ok()
    }

    /// The manifests to hash, regardless of their changes: small ones, some of the larger ones at a
    /// cost of [`HASHED_BYTES`] per manifest, and those that no child is linked to. With `each`, or
    /// if they are few, all manifests.
    pub fn hashed(&self, index: &Index, each: bool) -> Vec<bool> {
        let mut hashed = vec![true; self.revs.len()];
        if each || self.revs.len() <= FEW {
            return hashed;
        }
        for rev in &self.revs {
            let Parents(p1, p2) = index.parents(*rev);
            if let Some(base) = index.delta_base(*rev)
                && [p1, p2].contains(&Some(base))
                && index.stored_len(*rev) <= LONGEST_LINK
                && let Some(base) = self.position(base)
            {
                hashed[base] = false;
            }
        }
        let mut saved_bytes = 0;
        for (rev, is_hashed) in self.revs.iter().zip(&mut hashed) {
            saved_bytes += HASHED_BYTES;
            if saved_bytes >= u64::from(index.text_len_hint(*rev)) {
                *is_hashed = true;
                saved_bytes = 0;
            }
        }
        hashed
    }

    /// The base of the changes of the manifest at `position`: its delta base, if that is a parent
    /// or near. Otherwise as [`Self::parent_of`].
    pub fn change_base(&self, index: &Index, position: usize) -> Base {
        let rev = self.revs[position];
        let Parents(p1, p2) = index.parents(rev);
        let delta_base = index.delta_base(rev);
        let is_parent = [p1, p2].contains(&delta_base);
        let base = delta_base.and_then(|base| self.position(base));
        match base.filter(|base| is_parent || base + REACH >= position) {
            Some(base) => Base::Position(base),
            None => self.parent_of(index, position),
        }
    }

    /// A parent. Otherwise the start manifest, for a long text and for the first position, or else the
    /// manifest before.
    pub fn parent_of(&self, index: &Index, position: usize) -> Base {
        let rev = self.revs[position];
        let Parents(p1, p2) = index.parents(rev);
        let mut parents = [p1, p2].into_iter().flatten();
        if let Some(parent) = parents.find_map(|parent| self.position(parent)) {
            return Base::Position(parent);
        }
        let is_long = index.text_len_hint(rev) >= LONG_TEXT;
        match (self.starts.get(&position), position.checked_sub(1)) {
            (Some(start), before) if is_long || before.is_none() => Base::Known(*start),
            (_, before) => before.map_or(Base::Empty, Base::Position),
        }
    }

    /// The positions whose texts are needed to read the manifest at `position`.
    pub fn read_with(&self, index: &Index, position: usize) -> impl Iterator<Item = usize> {
        let delta_base = index.delta_base(self.revs[position]);
        let change_base = match self.change_base(index, position) {
            Base::Position(base) => Some(base),
            Base::Empty | Base::Known(_) => None,
        };
        delta_base.and_then(|base| self.position(base)).into_iter().chain(change_base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_as_they_were_added() {
        let oid = |byte| ChangesetTree::Known(Oid::from_bytes([byte; 20]));
        let all = [
            ChangesetTree::Position(0),
            oid(1),
            ChangesetTree::Empty,
            oid(2),
            ChangesetTree::Position(0x7fff_fffe),
        ];
        let mut trees = ChangesetTrees::default();
        for tree in all {
            trees.push(tree);
        }
        assert!(all.into_iter().eq((0..all.len()).map(|at| trees.get(at))));
    }
}
