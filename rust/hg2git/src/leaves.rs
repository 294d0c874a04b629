//! The entries of a notes tree, in place: tables of map segments, and the pairs of this run.

use gitpack::Oid;

use crate::notes::{Entries, Key};
use crate::oidmap::OidMap;
use crate::segment::{Pair, Segment, Table};

/// Ascending runs of pairs, no two with a node in common; `excluded` is in none of them.
#[derive(Debug)]
pub(crate) struct Leaves<'a> {
    runs: Vec<Run<'a>>,
    excluded: Option<Key>,
}

#[derive(Clone, Copy, Debug)]
enum Run<'a> {
    Mapped(&'a Segment, Table),
    New(&'a [Pair]),
}

impl<'a> Leaves<'a> {
    /// No entries but those that are added, and not `excluded`.
    pub const fn without(excluded: Option<Key>) -> Self {
        Self { runs: Vec::new(), excluded }
    }

    /// Adds a table of a map, and the pairs that are new in it, ascending.
    pub fn add(&mut self, map: &'a OidMap, table: Table, new: &'a [Pair]) {
        self.runs.extend(map.segments().iter().map(|segment| Run::Mapped(segment, table)));
        self.runs.push(Run::New(new));
    }
}

impl Run<'_> {
    fn pair(&self, at: usize) -> Option<Pair> {
        match self {
            Self::Mapped(segment, table) => segment.pair(*table, at),
            Self::New(pairs) => pairs.get(at).copied(),
        }
    }

    /// The position of the first pair whose node is not below `start`.
    fn position(&self, start: &Key) -> usize {
        match self {
            Self::Mapped(segment, table) => segment.position(*table, start),
            Self::New(pairs) => pairs.partition_point(|pair| pair.node.as_bytes() < start),
        }
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
            Some((*pair.node.as_bytes(), pair.oid))
        });
        all.filter(|(key, _)| Some(*key) != self.excluded)
    }
}
