//! The entries of a notes tree, in place: tables of map segments, and the pairs of this run.

use gitpack::Oid;

use crate::notes::{Entries, Key};
use crate::oidmap::OidMap;
use crate::segment::{Pair, Segment, Table};

/// The node of an empty file without parents, of which git-cinnabar keeps no note: one of the
/// empty manifest, which has the same node, it keeps.
const EMPTY_FILE: Key = [
    0xb8, 0x0d, 0xe5, 0xd1, 0x38, 0x75, 0x85, 0x41, 0xc5, 0xf0, 0x52, 0x65, 0xad, 0x14, 0x4a, 0xb9,
    0xfa, 0x86, 0xd1, 0xdb,
];

/// Ascending runs of pairs, no two with a node in common, the empty file apart.
#[derive(Debug, Default)]
pub(crate) struct Leaves<'a> {
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

impl<'a> Leaves<'a> {
    /// Adds a table of a map, and the pairs that are new in it, ascending.
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

impl Entries for Leaves<'_> {
    fn entries_from(&self, start: Key) -> impl Iterator<Item = (Key, Oid)> {
        let mut heads: Vec<_> = self
            .runs
            .iter()
            .filter_map(|run| {
                let at = run.position(&start);
                Some((run.pair(at)?, at, run))
            })
            .collect();
        // there are few runs, and hardly ever more than one or two long ones
        let all = std::iter::from_fn(move || {
            let least = (0..heads.len()).min_by_key(|&head| heads[head].0.node)?;
            let (pair, at, run) = heads[least];
            match run.pair(at + 1) {
                Some(next) => heads[least] = (next, at + 1, run),
                None => drop(heads.swap_remove(least)),
            }
            Some((pair, run))
        });
        let kept = all.filter(|(pair, run)| !run.is_empty_file(pair));
        kept.map(|(pair, _)| (*pair.node.as_bytes(), pair.oid))
    }
}
