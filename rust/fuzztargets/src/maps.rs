//! Files of `.hg/amalgam`, and Mercurial's node map.

use hg2git::{Access, OidMap, Segment, TABLES, Table};
use revlog::nodemap::{IndexEntries, NodeMap, Place};
use revlog::{Node, Prefix};

use crate::scratch::{Planted, cut, directory, opened};

const PAGE: usize = 4096;
const ENTRY: usize = 64;
const UID: &[u8] = b"0123456789abcdef";

/// An index with a revision for each byte. The byte is the first one of its node.
fn index_of(nodes: &[u8]) -> Vec<u8> {
    let mut index = vec![0; nodes.len() * ENTRY];
    for (entry, first) in index.chunks_mut(ENTRY).zip(nodes) {
        entry[32] = *first;
        entry[33..52].fill(first.wrapping_mul(31));
    }
    index
}

fn ask(map: &NodeMap, entries: IndexEntries<'_>) {
    let _ = map.check(entries);
    for node in (0..entries.len()).filter_map(|rev| entries.node(rev)).chain(&[[0; 20], [1; 20]]) {
        if let Ok(Some(rev)) = map.rev(entries, node)
            && let Ok(rev) = u32::try_from(rev)
        {
            assert_eq!(entries.node(rev), Some(node), "a hit is compared");
        }
        let _ = map.shortest(entries, node);
        for digits in [1, 2, 7, 8, 9, 40] {
            let prefix = Prefix::new(*node, digits).expect("1 to 40");
            let _ = map.matching(entries, prefix);
        }
    }
    map.truncate(entries.len() / 2);
    map.append([7; 20], entries.len());
    let _ = map.rev(entries, &[7; 20]);
}

/// Nodes, places of runs of 12 bytes each, and the file of the runs. Checksums are corrected.
pub(crate) fn nodemap(input: &[u8]) {
    let (nodes, rest) = cut(input);
    let (places, file) = cut(rest);
    let index = index_of(&nodes[..nodes.len().min(PAGE)]);
    let entries = IndexEntries::new(&index);
    let word = |place: &[u8; 12], at: usize| {
        u32::from_be_bytes([place[at], place[at + 1], place[at + 2], place[at + 3]])
    };
    let places: Vec<_> = places
        .as_chunks::<12>()
        .0
        .iter()
        .map(|place| Place {
            offset: u64::from(word(place, 0)),
            first: word(place, 4),
            revs: word(place, 8),
        })
        .collect();
    let mut file = file.to_vec();
    for (number, page) in (0u64..).zip(file.chunks_mut(PAGE)) {
        if let Some((sum, content)) = page.split_first_chunk_mut() {
            let mut right = crc32fast::Hasher::new_with_initial(crc32fast::hash(UID));
            right.update(&number.to_be_bytes());
            right.update(content);
            *sum = right.finalize().to_be_bytes();
        }
    }
    let planted = Planted::new(directory().join("nodemap"), &file);
    if let Ok(map) = NodeMap::open(&planted.open(), UID, &places, entries.len(), entries) {
        ask(&map, entries);
    }
}

/// Nodes, and a node map of Mercurial.
pub(crate) fn upstream_nodemap(input: &[u8]) {
    let (nodes, file) = cut(input);
    let index = index_of(&nodes[..nodes.len().min(PAGE)]);
    let entries = IndexEntries::new(&index);
    let planted = Planted::new(directory().join("upstream"), file);
    for mapped in [false, true] {
        let (len, revs) = (file.len() as u64, entries.len());
        if let Ok(map) = NodeMap::open_upstream(&planted.open(), len, revs, mapped, entries) {
            ask(&map, entries);
        }
    }
}

/// A segment of the oid map.
pub(crate) fn segment(input: &[u8]) {
    let _planted = Planted::new(directory().join("s.map"), input);
    let opened = opened();
    let Ok(segment) = Segment::open(&opened, "s.map", Access::Read) else { return };
    let _ = segment.check(true);
    for table in TABLES {
        assert_eq!(segment.pairs(table).count(), segment.len(table));
        assert!(segment.pair(table, segment.len(table)).is_none());
        for pair in segment.pairs(table).take(50) {
            let _ = segment.oid(table, &pair.node);
            let _ = segment.changeset(&pair.oid);
        }
    }
    for byte in 0..=u8::MAX {
        let prefix = Prefix::new([byte; 20], 2).expect("1 to 40");
        let _ = (segment.nodes_with(prefix).count(), segment.oids_with(prefix).count());
        let _ = segment.oid(Table::Changesets, &Node::from_bytes([byte; 20]));
    }
    let map = OidMap::open(&opened, ["s.map", "s.map"], &[]).expect("it was opened");
    for at in 0..2 * segment.len(Table::Changesets) {
        let _ = map.pair(Table::Changesets, at);
    }
}
