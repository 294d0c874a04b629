use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::map::compare::{Comparison, Difference};

fn pair(seed: u32) -> Pair {
    let of = |salt: u32| {
        let mut bytes = [0; 20];
        for (turn, chunk) in (0..).zip(bytes.chunks_mut(4)) {
            let word = (seed ^ salt).wrapping_mul(2_654_435_761).rotate_left(turn * 5);
            chunk.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    };
    Pair { node: Node::from_bytes(of(0)), oid: Oid::from_bytes(of(77_777)) }
}

fn tables_of(batch: &[u32]) -> [Vec<Pair>; 3] {
    let pairs: Vec<Pair> = batch.iter().copied().map(pair).collect();
    [pairs.clone(), Vec::new(), pairs]
}

fn open(directory: &Path, names: &[String]) -> OidMap {
    let directory = Directory::open(directory).expect("is there");
    let map = OidMap::open(&directory, names, &[]).expect("readable");
    // reading and mapping give the same map
    assert!(OidMap::open(&directory, names, names).is_ok());
    map
}

fn extended(directory: &Path, map: &OidMap, base: usize, tables: [Vec<Pair>; 3]) -> Vec<String> {
    let tables = sorted(tables);
    let directory = Directory::open(directory).expect("is there");
    let extended = map.extended((&directory, Readers::BY_UMASK), "test", base, &tables);
    extended.and_then(Extended::place).expect("writable")
}

fn map_of(directory: &Path, batches: &[Vec<u32>]) -> OidMap {
    let mut map = OidMap::default();
    for batch in batches {
        let names = extended(directory, &map, 0, tables_of(batch));
        map = open(directory, &names);
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
fn segments_of_the_base_stay_as_they_are() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let map = map_of(directory.path(), &[vec![1]]);
    let base = extended(directory.path(), &map, 1, tables_of(&[2]));
    assert_eq!(base.len(), 2);
    let map = open(directory.path(), &base);
    let names = extended(directory.path(), &map, 1, tables_of(&[3]));
    assert_eq!((names.len(), &names[0]), (2, &base[0]));
    assert_ne!(names[1], base[1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn abbreviations_match_what_begins_with_them(
        batches in proptest::collection::vec(proptest::collection::vec(0..5000u32, 1..60), 0..8),
        digits in 1..6usize,
        of in 0..5000u32,
    ) {
        let directory = tempfile::tempdir()?;
        let map = map_of(directory.path(), &batches);
        let mut pairs: Vec<Pair> = batches.iter().flatten().copied().map(pair).collect();
        pairs.sort_unstable();
        pairs.dedup();
        for side in [Side::Node, Side::Oid] {
            let id = |pair: &Pair| match side {
                Side::Node => *pair.node.as_bytes(),
                Side::Oid => *pair.oid.as_bytes(),
            };
            let prefix = Prefix::new(id(&pair(of)), digits).expect("1 to 40");
            let hits: Vec<Pair> =
                pairs.iter().copied().filter(|pair| prefix.begins(&id(pair))).collect();
            match map.matches(side, prefix) {
                Matches::None => prop_assert!(hits.is_empty()),
                Matches::One(found) => prop_assert_eq!(hits, vec![found]),
                Matches::Several(a, b) => {
                    prop_assert!(a != b && hits.contains(&a) && hits.contains(&b));
                }
            }
        }
    }

    #[test]
    fn a_comparison_finds_what_is_missing_changed_or_too_much(
        common in proptest::collection::vec(0..1000u32, 0..40),
        missing in proptest::collection::btree_set(1000..2000u32, 0..4),
        extra in proptest::collection::btree_set(2000..3000u32, 0..4),
        changed in proptest::collection::btree_set(3000..4000u32, 0..4),
    ) {
        let (here, there) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let right: Vec<u32> =
            common.iter().chain(&missing).chain(&changed).copied().collect();
        let expected = map_of(there.path(), &[right]);
        let wrong = changed.iter().map(|&seed| Pair { oid: pair(seed + 9000).oid, ..pair(seed) });
        let pairs: Vec<Pair> =
            common.iter().chain(&extra).copied().map(pair).chain(wrong).collect();
        let empty = OidMap::default();
        let names = extended(here.path(), &empty, 0, [Vec::new(), Vec::new(), pairs]);
        let found = open(here.path(), &names);
        let comparison =
            Comparison { found: &found, expected: &expected, table: Table::Files };
        let differences: Vec<_> =
            (0..comparison.len()).filter_map(|at| comparison.step(at)).collect();
        prop_assert_eq!(differences.len(), missing.len() + extra.len() + changed.len());
        for Difference { node, found: was, expected: should } in differences {
            prop_assert_eq!(was, found.oid(Table::Files, &node));
            prop_assert_eq!(should, expected.oid(Table::Files, &node));
        }
    }
}

#[test]
fn pairs_are_counted_over_all_segments() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let batches = [(0..50).collect(), vec![100], vec![200]];
    let map = map_of(directory.path(), &batches);
    assert!(map.segments().len() > 1);
    let count = map.len(Table::Changesets);
    let mut nodes: Vec<_> =
        (0..count).filter_map(|at| Some(map.pair(Table::Changesets, at)?.node)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), 52);
    assert_eq!(map.pair(Table::Changesets, count), None);
}

#[test]
fn a_segment_out_of_order_is_noticed_though_its_checksum_is_right() {
    use sha1::{Digest, Sha1};

    let directory = tempfile::tempdir().expect("temporary directory");
    let map = map_of(directory.path(), &[vec![1, 2, 3]]);
    let whole = std::fs::read(map.segments()[0].path()).expect("readable");
    let nodes = 64 + 1024; // of the changesets, at the beginning
    let by_oid = whole.len() - 20 - 3 * 4;
    for (name, at, len) in [("nodes", nodes, 20), ("commits", by_oid, 4)] {
        let mut bytes = whole.clone();
        bytes[at..at + 2 * len].rotate_left(len);
        let body = bytes.len() - 20;
        let sum = Sha1::digest(&bytes[..body]);
        bytes[body..].copy_from_slice(&sum);
        std::fs::write(directory.path().join(name), &bytes).expect("writable");
        let forged = open(directory.path(), &[name.to_owned()]);
        let problem = forged.segments()[0].check(true).expect_err("out of order");
        assert!(problem.to_string().contains(name), "{problem}");
    }
}

#[test]
fn a_cut_or_changed_segment_is_noticed() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let map = map_of(directory.path(), &[vec![1, 2, 3]]);
    assert!(map.segments()[0].check(true).is_ok());
    let path = map.segments()[0].path().to_owned();
    let mut bytes = std::fs::read(&path).expect("readable");
    bytes.pop();
    std::fs::write(directory.path().join("cut"), &bytes).expect("writable");
    let opened = Directory::open(directory.path()).expect("is there");
    for unmapped in [vec![], vec!["cut".to_owned()]] {
        assert!(OidMap::open(&opened, ["cut"], &unmapped).is_err());
    }
    bytes.push(0);
    std::fs::write(directory.path().join("changed"), &bytes).expect("writable");
    let changed = open(directory.path(), &["changed".to_owned()]);
    let problem = changed.segments()[0].check(true).expect_err("changed");
    assert!(problem.to_string().contains("checksum"), "{problem}");
}

#[test]
fn a_large_file_is_refused_before_it_is_read() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let map = map_of(directory.path(), &[vec![1, 2, 3]]);
    let names = [map.segments()[0].name().to_owned()];
    let path = map.segments()[0].path();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("ours");
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("writable");
    // sparse, and larger than the memory
    file.set_len(1 << 42).expect("sparse");
    let opened = Directory::open(directory.path()).expect("is there");
    for unmapped in [&[][..], &names] {
        let problem = OidMap::open(&opened, &names, unmapped).expect_err("another length");
        assert!(problem.to_string().contains("length"), "{problem}");
    }
}
