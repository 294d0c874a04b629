//! Packs that git wrote, with their indexes.

use std::sync::Arc;

use gitpack::pack::{Objects, PackReader, PackTables};
use gitpack::{ObjectKind, Oid};

use crate::TEXT_BYTES;
use crate::scratch::{Planted, cut, directory, opened};

const IDS_AT: usize = 8 + 256 * 4;
const MOST_ASKED: usize = 20;

/// An index of version 2 and its pack. Each id gives its object or an error.
pub(crate) fn objects(input: &[u8]) {
    let (idx, pack) = cut(input);
    let _planted = [
        Planted::new(directory().join("pack-fuzz.idx"), idx),
        Planted::new(directory().join("pack-fuzz.pack"), pack),
    ];
    // of some inputs, ids stay in the index
    let most_bytes = input.len() >> (input.len() % 3);
    let packs = Arc::new(PackTables::open(&opened(), most_bytes as u64));
    let places: Vec<_> = packs.places().collect();
    assert!(packs.ids(&places).is_ok_and(|ids| ids.len() == places.len()));
    let mut reader = PackReader::new(packs, 4 * TEXT_BYTES, input.len().is_multiple_of(2));
    let Ok(objects) = Objects::open(&opened(), TEXT_BYTES) else { return };
    let ids = idx.get(IDS_AT..).unwrap_or_default().as_chunks().0;
    for id in ids.iter().take(MOST_ASKED) {
        for kind in [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob] {
            let oid = Oid::from_bytes(*id);
            let in_bulk = reader.read(kind, &oid);
            assert!(in_bulk.as_ref().is_none_or(|content| content.len() <= TEXT_BYTES));
            if let Ok(Some(content)) = objects.read(kind, &oid) {
                assert!(content.len() <= TEXT_BYTES);
                assert!(in_bulk.is_none_or(|bulk| **bulk == *content));
            }
        }
    }
}
