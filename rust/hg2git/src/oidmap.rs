//! The oid map: which git object stands for which hg node, over all segments.
//!
//! Which segments count is the caller's knowledge (a docket kept by Python); their format is
//! `crate::segment`'s. The newest segment is asked first, it is the most likely to be meant.

use std::path::{Path, PathBuf};

use gitpack::Oid;
use revlog::Node;

use crate::error::Result;
use crate::segment::{Pair, Segment, TABLES, Table, create};

/// Open segments, oldest first.
#[derive(Debug)]
pub struct OidMap {
    directory: PathBuf,
    segments: Vec<Segment>,
}

/// What [`OidMap::extended`] wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extended {
    /// File names of all segments that now make the map, oldest first.
    pub segments: Vec<String>,
}

impl OidMap {
    /// Opens the segments with these names.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Io`] or [`crate::Error::Map`] if one cannot be read or is none.
    pub fn open<'a>(directory: &Path, names: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let segments = names.into_iter().map(|name| Segment::open(&directory.join(name)));
        Ok(Self { directory: directory.to_owned(), segments: segments.collect::<Result<_>>()? })
    }

    /// The oid of a node.
    #[must_use]
    pub fn oid(&self, table: Table, node: &Node) -> Option<Oid> {
        self.segments.iter().rev().find_map(|segment| segment.oid(table, node))
    }

    /// The changeset whose commit has this oid.
    #[must_use]
    pub fn changeset(&self, oid: &Oid) -> Option<Node> {
        self.segments.iter().rev().find_map(|segment| segment.changeset(oid))
    }

    /// Number of pairs in a table.
    #[must_use]
    pub fn len(&self, table: Table) -> usize {
        self.segments.iter().map(|segment| segment.len(table)).sum()
    }

    /// Whether there is no pair in any table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        TABLES.iter().all(|table| self.len(*table) == 0)
    }

    /// The segments, oldest first.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Writes new pairs as a segment, together with the newest segments that are not at least
    /// twice as long as what is written: so their number stays logarithmic. Old files stay.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Io`] if it cannot be written.
    pub(crate) fn extended(&self, prefix: &str, mut tables: [Vec<Pair>; 3]) -> Result<Extended> {
        let mut kept = self.segments.len();
        let mut count: usize = tables.iter().map(Vec::len).sum();
        while kept > 0 {
            let newest = &self.segments[kept - 1];
            let len: usize = TABLES.iter().map(|table| newest.len(*table)).sum();
            if len >= 2 * count {
                break;
            }
            for table in TABLES {
                tables[table as usize].extend(newest.pairs(table));
            }
            count += len;
            kept -= 1;
        }
        let name_of = |segment: &Segment| {
            let name = segment.path().file_name().expect("a segment has a name");
            name.to_string_lossy().into_owned()
        };
        let mut segments: Vec<String> = self.segments[..kept].iter().map(name_of).collect();
        segments.push(create(&self.directory, prefix, tables)?);
        Ok(Extended { segments })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(seed: u32) -> Pair {
        let of = |salt: u32| {
            let mut bytes = [0; 20];
            for (at, chunk) in bytes.chunks_mut(4).enumerate() {
                let word = (seed ^ salt).wrapping_mul(2_654_435_761).rotate_left(at as u32 * 5);
                chunk.copy_from_slice(&word.to_be_bytes());
            }
            bytes
        };
        Pair { node: Node::from_bytes(of(0)), oid: Oid::from_bytes(of(77)) }
    }

    fn map_of(directory: &Path, batches: &[Vec<u32>]) -> OidMap {
        let mut map = OidMap::open(directory, []).expect("empty");
        for batch in batches {
            let pairs: Vec<Pair> = batch.iter().copied().map(pair).collect();
            let tables = [pairs.clone(), Vec::new(), pairs];
            let names = map.extended("test", tables).expect("writable").segments;
            map = OidMap::open(directory, names.iter().map(String::as_str)).expect("readable");
        }
        map
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_pair_is_found_in_both_directions(
            batches in proptest::collection::vec(proptest::collection::vec(0..5000u32, 1..60), 0..8)
        ) {
            let directory = tempfile::tempdir()?;
            let map = map_of(directory.path(), &batches);
            for Pair { node, oid } in batches.iter().flatten().copied().map(pair) {
                prop_assert_eq!(map.oid(Table::Changesets, &node), Some(oid));
                prop_assert_eq!(map.oid(Table::Files, &node), Some(oid));
                prop_assert_eq!(map.oid(Table::Manifests, &node), None);
                prop_assert_eq!(map.changeset(&oid), Some(node));
            }
            prop_assert_eq!(map.changeset(&pair(9999).oid), None);
        }
    }

    #[test]
    fn many_small_extensions_leave_few_segments() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let batches: Vec<Vec<u32>> = (0..100).map(|number| vec![number]).collect();
        let map = map_of(directory.path(), &batches);
        assert!(map.segments().len() <= 8, "{}", map.segments().len());
        assert_eq!(map.len(Table::Changesets), 100);
    }

    #[test]
    fn a_cut_or_changed_segment_is_noticed() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let map = map_of(directory.path(), &[vec![1, 2, 3]]);
        assert!(map.segments()[0].is_intact());
        let path = map.segments()[0].path().to_owned();
        let mut bytes = std::fs::read(&path).expect("readable");
        bytes.pop();
        std::fs::write(directory.path().join("cut"), &bytes).expect("writable");
        assert!(OidMap::open(directory.path(), ["cut"]).is_err());
        bytes.push(0);
        std::fs::write(directory.path().join("changed"), &bytes).expect("writable");
        let changed = OidMap::open(directory.path(), ["changed"]).expect("its length is right");
        assert!(!changed.segments()[0].is_intact());
    }
}
