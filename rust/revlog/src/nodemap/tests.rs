use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

const UID: &[u8] = b"0123456789abcdef";

type Nodes = Vec<[u8; 20]>;

fn index_of(nodes: &[[u8; 20]]) -> Vec<u8> {
    let mut bytes = vec![0; nodes.len() * ENTRY_LEN];
    for (entry, node) in bytes.chunks_mut(ENTRY_LEN).zip(nodes) {
        entry[NODE_AT..NODE_AT + 20].copy_from_slice(node);
    }
    bytes
}

/// A file with one run for each of `lens`, and where they are.
fn file_of(dir: &Path, entries: IndexEntries<'_>, lens: &[u32]) -> (PathBuf, Vec<Place>) {
    let (mut bytes, mut places, mut first) = (Vec::new(), Vec::new(), 0);
    for &revs in lens.iter().filter(|&&revs| revs > 0) {
        let place = Place { offset: bytes.len() as u64, first, revs };
        let mut run = vec![0; place.len_bytes()];
        file::write(&mut run, UID, place, entries).expect("fits");
        bytes.extend(run);
        places.push(place);
        first += revs;
    }
    let path = dir.join("map");
    fs::write(&path, bytes).expect("is writable");
    (path, places)
}

fn opened(path: &Path) -> File {
    File::open(path).expect("exists")
}

/// The plain definitions.
struct Plain(HashMap<[u8; 20], i32>);

impl Plain {
    fn new(nodes: &[[u8; 20]]) -> Self {
        let mut revs: HashMap<_, _> = nodes.iter().copied().zip(0..).collect();
        revs.insert([0; 20], NULL_REV);
        Self(revs)
    }

    fn matching(&self, prefix: Prefix) -> PrefixMatch {
        let mut found = self.0.keys().filter(|node| prefix.begins(node));
        match (found.next(), found.next()) {
            (None, _) => PrefixMatch::None,
            (Some(node), None) => PrefixMatch::One(Node::from_bytes(*node)),
            _ => PrefixMatch::Many,
        }
    }

    fn shortest(&self, node: [u8; 20]) -> Option<usize> {
        self.0.get(&node)?;
        (1..=DIGITS).find(|&digits| {
            self.matching(Prefix::new(node, digits).expect("1 to 40")) != PrefixMatch::Many
        })
    }
}

type Same = fn(&NodeMap, IndexEntries<'_>, &Plain, &[[u8; 20]]);

fn same(map: &NodeMap, entries: IndexEntries<'_>, plain: &Plain, asked: &[[u8; 20]]) {
    for node in asked {
        assert_eq!(map.rev(entries, node).expect("is whole"), plain.0.get(node).copied());
        assert_eq!(map.shortest(entries, node).expect("is whole"), plain.shortest(*node));
        for digits in [1, 2, 3, 4, 7, 8, 9, 15, 39, 40] {
            let prefix = Prefix::new(*node, digits).expect("1 to 40");
            let found = map.matching(entries, prefix).expect("is whole");
            assert_eq!(found, plain.matching(prefix), "{node:?} {digits}");
        }
    }
}

/// As `same`, for a map that lacks some revisions: it must report that a missing node is unknown.
fn same_if_found(map: &NodeMap, entries: IndexEntries<'_>, plain: &Plain, asked: &[[u8; 20]]) {
    for node in asked {
        match (map.rev(entries, node), plain.0.get(node)) {
            (Ok(found), rev) => assert_eq!(found, rev.copied()),
            (Err(Error::Unknown), None) => {}
            (other, rev) => panic!("{other:?} for {rev:?}"),
        }
        assert!(map.shortest(entries, node).is_err_and(|error| matches!(error, Error::Unknown)));
        for digits in [1, 4, 39, 40] {
            let prefix = Prefix::new(*node, digits).expect("1 to 40");
            if let Ok(found) = map.matching(entries, prefix) {
                assert_eq!((found, plain.matching(prefix)), (PrefixMatch::Many, PrefixMatch::Many));
            }
        }
    }
}

/// Nodes of which many begin alike, all different, none of them null.
fn nodes(most: usize) -> impl Strategy<Value = Nodes> {
    let byte = || prop_oneof![Just(0), Just(0xff), Just(0x10), any::<u8>()];
    let node = prop::array::uniform20(byte());
    prop::collection::hash_set(node, 1..most)
        .prop_map(|nodes| nodes.into_iter().filter(|node| *node != [0; 20]).collect())
}

fn near(nodes: &[[u8; 20]], extra: &Nodes) -> Nodes {
    let mut asked: Nodes = nodes.iter().take(40).copied().collect();
    for (at, node) in nodes.iter().take(20).enumerate() {
        let mut other = *node;
        other[at] ^= 1;
        asked.push(other);
    }
    asked.extend(extra.iter().take(10));
    asked.extend([[0; 20], [0xff; 20]]);
    asked
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn answers_are_those_of_the_plain_definition(
        (nodes, others) in (nodes(1200), nodes(12)),
        cuts in prop::array::uniform3(0u32..600),
        appended in 0usize..30,
        kept in any::<prop::sample::Index>(),
    ) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let on_disk = nodes.len().saturating_sub(appended);
        let index = index_of(&nodes[..on_disk]);
        let entries = IndexEntries::new(&index);
        let mut left = entries.len();
        let lens = cuts.map(|cut| { let len = cut.min(left); left -= len; len });
        let asked = near(&nodes, &others);

        let (path, places) = file_of(dir.path(), entries, &lens);
        let own = NodeMap::open(&opened(&path), UID, &places, u32::MAX, entries).expect("is whole");
        let covered = lens.iter().sum::<u32>();
        let trie = dir.path().join("trie");
        let below = index_of(&nodes[..covered as usize]);
        let content = upstream::content(IndexEntries::new(&below)).expect("all differ");
        fs::write(&trie, content).expect("is writable");
        let len = fs::metadata(&trie).expect("exists").len();
        let upstream = NodeMap::open_upstream(&opened(&trie), len, covered, true, entries)
            .expect("is whole");

        for (map, same) in [(&own, same as Same), (&upstream, same_if_found)] {
            map.check(entries).expect("is whole");
            for (node, rev) in nodes.iter().zip(0..).skip(on_disk) {
                map.append(*node, rev);
            }
            same(map, entries, &Plain::new(&nodes), &asked);
            let kept = kept.index(nodes.len() + 1);
            map.truncate(u32::try_from(kept).expect("small"));
            same(map, entries, &Plain::new(&nodes[..kept]), &asked);
            // some revisions return in another order
            let mut again = nodes[..kept].to_vec();
            for node in nodes[kept..].iter().rev() {
                map.append(*node, u32::try_from(again.len()).expect("small"));
                again.push(*node);
            }
            same(map, entries, &Plain::new(&again), &asked);
        }
    }

    #[test]
    fn a_damaged_file_never_gives_a_wrong_answer(
        nodes in nodes(900),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let index = index_of(&nodes);
        let entries = IndexEntries::new(&index);
        let (path, places) = file_of(dir.path(), entries, &[entries.len()]);
        let mut bytes = fs::read(&path).expect("exists");
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fs::write(&path, bytes).expect("is writable");
        let plain = Plain::new(&nodes);
        if let Ok(map) = NodeMap::open(&opened(&path), UID, &places, u32::MAX, entries) {
            for node in &near(&nodes, &Vec::new()) {
                if let Ok(rev) = map.rev(entries, node) {
                    prop_assert_eq!(rev, plain.0.get(node).copied());
                }
                if let Ok(digits) = map.shortest(entries, node) {
                    prop_assert_eq!(digits, plain.shortest(*node));
                }
            }
        }
    }

    #[test]
    fn any_bytes_may_be_a_trie(
        nodes in nodes(20),
        words in prop::collection::vec(prop_oneof![-30i32..30, any::<i32>()], 1..160),
    ) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let index = index_of(&nodes);
        let entries = IndexEntries::new(&index);
        let path = dir.path().join("trie");
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let len = (bytes.len() / 64 * 64) as u64;
        fs::write(&path, bytes).expect("is writable");
        let map = NodeMap::open_upstream(&opened(&path), len, entries.len(), false, entries)
            .expect("it is long enough");
        for (rev, node) in nodes.iter().enumerate() {
            let found = map.rev(entries, node);
            let right = found.is_err() || matches!(found, Ok(None))
                || matches!(found, Ok(Some(found)) if i32::try_from(rev) == Ok(found));
            prop_assert!(right);
            let _ends = map.shortest(entries, node);
        }
    }
}

#[test]
fn many_equal_keys_span_blocks_and_are_all_found() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let nodes: Nodes = (0..3000u32)
        .map(|rev| {
            let mut node = [7; 20];
            node[16..].copy_from_slice(&(rev * 7919 % 3001).to_be_bytes());
            node
        })
        .collect();
    let index = index_of(&nodes);
    let entries = IndexEntries::new(&index);
    let (path, places) = file_of(dir.path(), entries, &[entries.len()]);
    let map = NodeMap::open(&opened(&path), UID, &places, u32::MAX, entries).expect("is whole");
    map.check(entries).expect("is whole");
}

#[test]
fn what_is_asked_for_in_order_is_found_without_the_file() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let nodes: Nodes = (1..=5).map(|byte| [byte; 20]).collect();
    let index = index_of(&nodes);
    let entries = IndexEntries::new(&index);
    let (path, places) = file_of(dir.path(), entries, &[entries.len()]);
    let map = NodeMap::open(&opened(&path), UID, &places, u32::MAX, entries).expect("is whole");
    let other = index_of(&[nodes[0], [6; 20], [7; 20], [8; 20], nodes[4]]);
    let other = IndexEntries::new(&other);
    for node in [[1; 20], [6; 20], [7; 20]] {
        let found = map.rev(other, &node).expect("is found");
        assert_eq!(found.and_then(|rev| other.node(rev.cast_unsigned())), Some(&node));
    }
    // neither of these is next, and the check trusts no order
    assert_eq!(map.rev(other, &[6; 20]).expect("is whole"), None);
    assert!(map.check(other).is_err());
    // a truncated revision is not found as the next one
    assert_eq!(map.rev(entries, &nodes[1]).expect("is whole"), Some(1));
    map.truncate(2);
    assert_eq!(map.rev(entries, &nodes[2]).expect("is whole"), None);
}

#[test]
fn a_page_of_another_place_or_file_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let nodes: Nodes = (0..2000u32)
        .map(|rev| {
            let mut node = [9; 20];
            node[..4].copy_from_slice(&rev.wrapping_mul(0x9e37_79b9).to_be_bytes());
            node
        })
        .collect();
    let index = index_of(&nodes);
    let entries = IndexEntries::new(&index);
    let (path, places) = file_of(dir.path(), entries, &[entries.len()]);
    let open = |uid| {
        NodeMap::open(&opened(&path), uid, &places, u32::MAX, entries).expect("is long enough")
    };
    assert!(open(b"another".as_slice()).rev(entries, &nodes[0]).is_err());
    let bytes = fs::read(&path).expect("exists");
    let swapped = [&bytes[..4096], &bytes[8192..12288], &bytes[4096..8192], &bytes[12288..]];
    fs::write(&path, swapped.concat()).expect("is writable");
    assert!(nodes.iter().any(|node| open(UID).rev(entries, node).is_err()));
}

#[test]
fn a_map_of_more_revisions_than_there_are_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let nodes: Nodes = (1..=5).map(|byte| [byte; 20]).collect();
    let index = index_of(&nodes);
    let entries = IndexEntries::new(&index);
    let (path, places) = file_of(dir.path(), entries, &[entries.len()]);
    let fewer = IndexEntries::new(&index[..3 * ENTRY_LEN]);
    assert!(NodeMap::open(&opened(&path), UID, &places, u32::MAX, fewer).is_err());
    let map = NodeMap::open(&opened(&path), UID, &places, 3, fewer).expect("is limited");
    assert_eq!(map.rev(fewer, &nodes[4]).expect("is whole"), None);
    assert_eq!(map.rev(fewer, &nodes[2]).expect("is whole"), Some(2));
}
