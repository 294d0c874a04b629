//! The payloads of packs, uncompressed: objects and deltas.
//!
//! Format: gitformat-pack(5). Panics on malformed packs: reads only packs that amalgam wrote.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use gitpack::deflate::inflate;

/// Maximum length of the payloads that the export compresses with presets.
pub const LONGEST: usize = 16 << 10;

/// Kinds of payloads: by type of the object, full or delta.
pub const KINDS: [&str; 6] =
    ["commits", "deltas of commits", "trees", "deltas of trees", "blobs", "deltas of blobs"];
const DELTAS_OF_TREES: usize = 3;

pub struct Stored {
    /// Index in [`KINDS`].
    pub kind: usize,
    pub payload: Vec<u8>,
}

/// All short payloads in the packs of a git directory, except for deltas of trees.
///
/// The export does not compress deltas of trees.
pub fn payloads(git_directory: &Path) -> Result<Vec<Stored>, Box<dyn Error>> {
    let mut packs = Vec::new();
    for entry in fs::read_dir(git_directory.join("objects/pack"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            packs.push((fs::read(&path)?, fs::read(path.with_extension("idx"))?));
        }
    }
    // whatever their names and the file system's order
    packs.sort();
    Ok(packs.iter().flat_map(|(pack, idx)| payloads_of(pack, idx)).collect())
}

fn payloads_of(pack: &[u8], idx: &[u8]) -> Vec<Stored> {
    let number = |at: usize| u32::from_be_bytes(idx[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(number(4), 2, "version of the index");
    let count = number(8 + 255 * 4) as usize;
    let places = 8 + 256 * 4 + count * (20 + 4);
    let mut starts: Vec<usize> = (0..count).map(|at| number(places + 4 * at) as usize).collect();
    assert!(starts.iter().all(|&start| start < 1 << 31), "packs of 2 GiB are not read");
    starts.sort_unstable();
    let (mut kinds, mut found) = (HashMap::new(), Vec::new());
    for start in starts {
        let Header { object_type, distance, len, end } = Header::at(pack, start);
        let kind = match distance {
            Some(distance) => kinds[&(start - distance)] | 1,
            None => 2 * (usize::from(object_type) - 1),
        };
        kinds.insert(start, kind);
        if len <= LONGEST && kind != DELTAS_OF_TREES && kind < KINDS.len() {
            let payload = inflate(&pack[end..], len).expect("is whole");
            found.push(Stored { kind, payload });
        }
    }
    found
}

struct Header {
    object_type: u8,
    /// Distance of the base of a delta.
    distance: Option<usize>,
    len: usize,
    end: usize,
}

impl Header {
    fn at(pack: &[u8], mut at: usize) -> Self {
        let object_type = pack[at] >> 4 & 7;
        let (mut len, mut shift) = (usize::from(pack[at] & 0xf), 4);
        while pack[at] & 0x80 != 0 {
            at += 1;
            len |= usize::from(pack[at] & 0x7f) << shift;
            shift += 7;
        }
        at += 1;
        if object_type != 6 {
            return Self { object_type, distance: None, len, end: at };
        }
        let mut distance = usize::from(pack[at] & 0x7f);
        while pack[at] & 0x80 != 0 {
            at += 1;
            distance = (distance + 1) << 7 | usize::from(pack[at] & 0x7f);
        }
        Self { object_type, distance: Some(distance), len, end: at + 1 }
    }
}
