//! The entries of a notes tree, read in place: tables of map segments, and the new pairs of this
//! run.

use gitpack::Oid;

use crate::map::oidmap::OidMap;
use crate::map::segment::{Pair, Segment, Table};
use crate::metadata::notestree::{Key, NotesEntries};

/// The node of an empty file without parents. git-cinnabar keeps no note of it, but keeps one of
/// the empty manifest, which has the same node.
const EMPTY_FILE: Key = [
    0xb8, 0x0d, 0xe5, 0xd1, 0x38, 0x75, 0x85, 0x41, 0xc5, 0xf0, 0x52, 0x65, 0xad, 0x14, 0x4a, 0xb9,
    0xfa, 0x86, 0xd1, 0xdb,
];

/// Ascending runs of pairs. For equal nodes, changesets take precedence, then manifests. A manifest
/// has the same node as a file with the same text and parents.
#[derive(Debug, Default)]
pub(crate) struct NotesTables<'a> {
    runs: Vec<Run<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Run<'a> {
    table: Table,
    pairs: Pairs<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Pairs<'a> {
    Mapped(&'a Segment),
    New(&'a [Pair]),
}

impl<'a> NotesTables<'a> {
    /// Adds a table of a map, and its new pairs, ascending.
    pub fn add(&mut self, map: &'a OidMap, table: Table, new: &'a [Pair]) {
        let mapped = map.segments().iter().map(Pairs::Mapped);
        let all = mapped.chain(std::iter::once(Pairs::New(new)));
        self.runs.extend(all.map(|pairs| Run { table, pairs }));
    }
}

impl Run<'_> {
    fn pair(&self, at: usize) -> Option<Pair> {
        match self.pairs {
            Pairs::Mapped(segment) => segment.pair(self.table, at),
            Pairs::New(pairs) => pairs.get(at).copied(),
        }
    }

    /// The position of the first pair whose node is not below `start`.
    fn position(&self, start: &Key) -> usize {
        match self.pairs {
            Pairs::Mapped(segment) => segment.position(self.table, start),
            Pairs::New(pairs) => pairs.partition_point(|pair| pair.node.as_bytes() < start),
        }
    }

    fn is_empty_file(&self, pair: &Pair) -> bool {
        self.table == Table::Files && *pair.node.as_bytes() == EMPTY_FILE
    }
}

impl NotesEntries for NotesTables<'_> {
    fn entries_from(&self, start: Key) -> impl Iterator<Item = (Key, Oid)> {
        let mut heads: Vec<_> = self
            .runs
            .iter()
            .filter_map(|run| {
                let at = run.position(&start);
                Some((run.pair(at)?, at, run))
            })
            .collect();
        // runs are few, and rarely more than two are long
        let all = std::iter::from_fn(move || {
            let rank = |&head: &usize| (heads[head].0.node, heads[head].2.table as u8);
            let least = (0..heads.len()).min_by_key(rank)?;
            let (pair, at, run) = heads[least];
            match run.pair(at + 1) {
                Some(next) => heads[least] = (next, at + 1, run),
                None => drop(heads.swap_remove(least)),
            }
            Some((pair, run))
        });
        let kept = all.filter(|(pair, run)| !run.is_empty_file(pair));
        let mut last = None;
        kept.map(|(pair, _)| (*pair.node.as_bytes(), pair.oid))
            .filter(move |(key, _)| last.replace(*key) != Some(*key))
    }
}

#[cfg(test)]
mod tests {
    use revlog::Node;

    use super::*;

    #[test]
    fn of_two_with_one_node_the_manifest_counts() {
        let pair =
            |node, oid| Pair { node: Node::from_bytes(node), oid: Oid::from_bytes([oid; 20]) };
        let map = OidMap::default();
        let files = [pair([1; 20], 1), pair([2; 20], 2), pair(EMPTY_FILE, 3)];
        let manifests = [pair([2; 20], 4), pair(EMPTY_FILE, 5)];
        let mut leaves = NotesTables::default();
        leaves.add(&map, Table::Files, &files);
        let of = |leaves: &NotesTables<'_>| -> Vec<_> {
            leaves.entries_from([0; 20]).map(|(_, oid)| oid.as_bytes()[0]).collect()
        };
        assert_eq!(of(&leaves), [1, 2]);
        leaves.add(&map, Table::Manifests, &manifests);
        assert_eq!(of(&leaves), [1, 4, 5]);
    }
}
