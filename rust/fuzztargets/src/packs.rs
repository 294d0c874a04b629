//! Packs that git wrote, with their indexes.

use gitpack::pack::Objects;
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
    let Ok(objects) = Objects::open(&opened(), TEXT_BYTES) else { return };
    let ids = idx.get(IDS_AT..).unwrap_or_default().as_chunks().0;
    for id in ids.iter().take(MOST_ASKED) {
        for kind in [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob] {
            if let Ok(Some(content)) = objects.read(kind, &Oid::from_bytes(*id)) {
                assert!(content.len() <= TEXT_BYTES);
            }
        }
    }
}
