//! Objects of a pack, whole and damaged.

use std::sync::Arc;

use super::*;
use crate::Deflater;
use crate::delta::{Op, encode};
use crate::pack::{Entry, PackReader, PackTables, PackWriter};
use crate::staged::Readers;

const MOST: usize = 1 << 20;

fn oid(kind: ObjectKind, content: &[u8]) -> Oid {
    let mut sha1 = Sha1::new();
    sha1.update(&*object_header(kind, content.len() as u64));
    sha1.update(content);
    Oid::from_bytes(sha1.finalize().into())
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    Deflater::new(6).deflate(bytes, &mut stream);
    stream
}

/// Contents of trees. Each is stored as a delta of the previous one.
fn contents() -> Vec<Vec<u8>> {
    let long: Vec<u8> = (0..40_000_u32).flat_map(u32::to_le_bytes).collect();
    (0..20).map(|number| [&long[..], &[number; 100]].concat()).collect()
}

/// Writes a pack of these trees.
fn write(directory: &Directory) {
    let pack = PackWriter::create(directory, Readers::BY_UMASK).expect("is writable");
    let mut pack = pack.without_sync();
    let mut before: Option<Vec<u8>> = None;
    for content in contents() {
        let id = oid(ObjectKind::Tree, &content);
        let (entry, payload) = match &before {
            None => (Entry::Full(ObjectKind::Tree), content.clone()),
            Some(base) => {
                let same = content.len() - 100;
                let ops = [Op::Copy { offset: 0, len: same as u64 }, Op::Insert(&content[same..])];
                let mut delta = Vec::new();
                let lens = (base.len() as u64, content.len() as u64);
                encode(lens.0, lens.1, ops, &mut delta).expect("fits");
                let base = pack.position(&oid(ObjectKind::Tree, base)).expect("is readable");
                (Entry::Delta { base: base.expect("was added") }, delta)
            }
        };
        pack.add(id, entry, payload.len() as u64, &deflated(&payload)).expect("is writable");
        before = Some(content);
    }
    pack.seal().and_then(crate::SealedPack::publish).expect("is writable");
}

fn open(path: &Path) -> Directory {
    Directory::open(path).expect("is there")
}

#[test]
fn objects_are_read_back_whatever_they_are_deltas_of() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let directory = open(dir.path());
    write(&directory);
    std::fs::write(dir.path().join("tmp_pack_1.idx"), b"not ours").expect("is writable");
    let objects = Objects::open(&directory, MOST).expect("is readable");
    for content in contents() {
        let id = oid(ObjectKind::Tree, &content);
        let read = |kind| objects.read(kind, &id);
        assert_eq!(read(ObjectKind::Tree).expect("is readable"), Some(content));
        assert_eq!(read(ObjectKind::Blob).expect_err("a tree").kind(), io::ErrorKind::InvalidData);
    }
    let none = objects.read(ObjectKind::Tree, &Oid::EMPTY_TREE);
    assert_eq!(none.expect("is readable"), None);
    // in any order, and with a cache of any size that has room for a text
    for (cache, keeps_all) in [(1 << 20, true), (1 << 24, true), (1 << 24, false)] {
        let tables = Arc::new(PackTables::open(&directory, 1 << 20));
        let mut reader = PackReader::new(tables, cache, keeps_all);
        for content in contents().into_iter().rev().chain(contents()) {
            let id = oid(ObjectKind::Tree, &content);
            assert_eq!(reader.read(ObjectKind::Tree, &id).expect("is read").as_slice(), content);
            assert!(reader.read(ObjectKind::Blob, &id).is_none());
        }
        assert!(reader.read(ObjectKind::Tree, &Oid::EMPTY_TREE).is_none());
    }
    let first = oid(ObjectKind::Tree, &contents()[0]);
    assert!(bulk(&directory, 1 << 19).read(ObjectKind::Tree, &first).is_none());
    let few = Objects::open(&directory, 1000).expect("is readable");
    let last = contents().pop().expect("there are some");
    assert!(few.read(ObjectKind::Tree, &oid(ObjectKind::Tree, &last)).is_err());
}

/// Writes a pack of `count` blobs, and returns their ids in the order of the pack.
fn write_blobs(directory: &Directory, count: u32) -> Vec<Oid> {
    let pack = PackWriter::create(directory, Readers::BY_UMASK).expect("is writable");
    let mut pack = pack.without_sync();
    let add = |number: u32| {
        let content = number.to_be_bytes();
        let id = oid(ObjectKind::Blob, &content);
        let entry = Entry::Full(ObjectKind::Blob);
        pack.add(id, entry, 4, &deflated(&content)).expect("is writable");
        id
    };
    let ids = (0..count).map(add).collect();
    pack.seal().and_then(crate::SealedPack::publish).expect("is writable");
    ids
}

#[test]
fn places_are_the_same_whether_ids_are_in_memory_or_not() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let directory = open(dir.path());
    let count = 5000;
    let ids = write_blobs(&directory, count);
    let held = PackTables::open(&directory, 28 * u64::from(count));
    let read = PackTables::open(&directory, 28 * u64::from(count) - 1);
    assert!(!PackTables::open(&directory, 4 * u64::from(count) - 1).is_whole());
    let places: Vec<_> = held.places().collect();
    assert_eq!(read.places().collect::<Vec<_>>(), places);
    for tables in [&held, &read] {
        assert!(tables.is_whole());
        for id in &ids {
            let place = tables.find(id).expect("is there");
            assert_eq!(Some(place), held.find(id));
            assert!(tables.is_at(id, place));
            assert_eq!(places[tables.number(place)], place);
            let mut other = *id.as_bytes();
            other[19] ^= 1;
            assert_eq!(tables.find(&Oid::from_bytes(other)), None);
        }
        for ends in [[0; 20], [255; 20]] {
            assert_eq!(tables.find(&Oid::from_bytes(ends)), None);
        }
        let some: Vec<_> = places.iter().copied().step_by(99).collect();
        let mut found = tables.ids(&some).expect("is readable");
        found.sort_unstable_by_key(|id| tables.find(id));
        let expected: Vec<_> = some.iter().map(|place| held.number(*place)).collect();
        assert_eq!(found, expected.into_iter().map(|at| ids[at]).collect::<Vec<_>>());
        assert!(!tables.is_at(&ids[0], some[1]));
    }
}

/// Half of the objects are moved by 3 GiB, as in a long pack.
#[test]
fn objects_beyond_2_gib_are_read() {
    const MOVED: u32 = 3 << 30;
    let dir = tempfile::tempdir().expect("temporary directory");
    let directory = open(dir.path());
    let count = 1000;
    let ids = write_blobs(&directory, count);
    let path = |end: &str| {
        let mut names = directory.names().expect("is readable").into_iter();
        let name = names.find(|it| it.to_string_lossy().ends_with(end));
        dir.path().join(name.expect("is there"))
    };
    let mut idx = std::fs::read(path(".idx")).expect("is readable");
    let len = ids.len();
    let table = idx.get_mut(1032 + 24 * len..1032 + 28 * len).expect("is there");
    let (words, _) = table.as_chunks_mut::<4>();
    let mut offsets: Vec<u32> = words.iter().map(|word| u32::from_be_bytes(*word)).collect();
    offsets.sort_unstable();
    let (middle, at) = (len / 2, offsets[len / 2]);
    let mut large: Vec<u8> = Vec::new();
    for word in words {
        let offset = u32::from_be_bytes(*word);
        if offset >= at {
            let number = u32::try_from(large.len() / 8).expect("is small");
            *word = (LARGE | number).to_be_bytes();
            large.extend(u64::from(offset + MOVED).to_be_bytes());
        }
    }
    idx.splice(1032 + 28 * len..1032 + 28 * len, large);
    // files of packs cannot be written to
    std::fs::remove_file(path(".idx")).expect("is writable");
    std::fs::write(path(".pack").with_extension("idx"), &idx).expect("is writable");
    let bytes = std::fs::read(path(".pack")).expect("is readable");
    let (front, back) = bytes.split_at(at as usize);
    let pack = path(".pack");
    std::fs::remove_file(&pack).expect("is writable");
    std::fs::write(&pack, front).expect("is writable");
    let file = std::fs::File::options().write(true).open(&pack).expect("is writable");
    file.write_all_at(back, u64::from(at + MOVED)).expect("is writable");
    for most_bytes in [1 << 20, 4 * u64::from(count)] {
        let tables = Arc::new(PackTables::open(&directory, most_bytes));
        assert!(tables.is_whole());
        let mut reader = PackReader::new(tables, MOST, true);
        let is_read = |id| reader.read(ObjectKind::Blob, id).is_some();
        let read: Vec<bool> = ids.iter().map(is_read).collect();
        // the one before the hole seems to be long
        assert_eq!(read.iter().position(|is_read| !is_read), Some(middle - 1));
        assert_eq!(read.iter().filter(|is_read| **is_read).count(), ids.len() - 1);
    }
}

#[test]
fn hostile_indexes_give_contents_or_are_left_to_git() {
    type Forge = fn(&mut [u8], usize);
    let dir = tempfile::tempdir().expect("temporary directory");
    let directory = open(dir.path());
    let count = 3000;
    let ids = write_blobs(&directory, count);
    let names = directory.names().expect("is readable");
    let name = names.iter().find(|it| it.to_string_lossy().ends_with(".idx")).expect("is there");
    let path = dir.path().join(name);
    let whole = std::fs::read(&path).expect("is readable");
    std::fs::remove_file(&path).expect("is writable");
    // each with the answer whether the pack is read at all
    let forgeries: [(Forge, bool); 9] = [
        (|idx, count| idx[1032..1032 + 20 * count].reverse(), true), // ids descend
        (|idx, count| idx[1032..1032 + 20 * count].fill(0x80), true), // one id
        (|idx, _| idx[8..8 + 128 * 4].fill(0), true),                // fan-out: ids are missing
        (|idx, _| idx[8..12].fill(0x7f), false),                     // fan-out descends
        (|idx, _| idx[8..1032].fill(0xff), false),                   // more ids than the file has
        (|idx, count| idx[1032 + 24 * count..][..8].fill(0), false), // two ids for an offset
        (|idx, count| idx[1032 + 24 * count..][..4].fill(0x7f), false), // offset past the end
        (|idx, count| idx[1032 + 24 * count..][..4].fill(0xff), false), // no such large offset
        (|idx, count| idx[1032 + 24 * count] |= 0x80, false), // a large offset in the checksum
    ];
    for (forge, is_read) in forgeries {
        let mut idx = whole.clone();
        forge(&mut idx, count as usize);
        std::fs::write(&path, idx).expect("is writable");
        for most_bytes in [28 * u64::from(count), 4 * u64::from(count)] {
            let tables = Arc::new(PackTables::open(&directory, most_bytes));
            assert_eq!(tables.is_whole(), is_read);
            let places: Vec<_> = tables.places().collect();
            assert_eq!(tables.ids(&places).expect("is readable").len(), places.len());
            let mut reader = PackReader::new(Arc::clone(&tables), MOST, true);
            for id in ids.iter().step_by(7).chain(&[Oid::from_bytes([0x80; 20])]) {
                let content = reader.read(ObjectKind::Blob, id);
                assert!(content.is_none_or(|content| content.len() == 4));
            }
        }
    }
}

fn bulk(directory: &Directory, cache_bytes: usize) -> PackReader {
    PackReader::new(Arc::new(PackTables::open(directory, 1 << 20)), cache_bytes, true)
}

#[test]
fn damage_is_an_error() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let directory = open(dir.path());
    write(&directory);
    let names = directory.names().expect("is readable");
    let is = |name: &OsString, end: &str| name.to_string_lossy().ends_with(end);
    let last = contents().pop().expect("there are some");
    let id = oid(ObjectKind::Tree, &last);
    for end in [".idx", ".pack"] {
        let name = names.iter().find(|name| is(name, end)).expect("is there");
        let path = dir.path().join(name);
        let whole = std::fs::read(&path).expect("is readable");
        std::fs::remove_file(&path).expect("is writable");
        let mut wrong = 0;
        for at in (0..whole.len()).step_by(whole.len() / 400 + 1) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x11;
            for bytes in [&flipped[..], &whole[..at]] {
                std::fs::write(&path, bytes).expect("is writable");
                let read = Objects::open(&directory, MOST)
                    .and_then(|objects| objects.read(ObjectKind::Tree, &id));
                let in_bulk = bulk(&directory, MOST).read(ObjectKind::Tree, &id);
                assert!(in_bulk.is_none_or(|content| content.len() <= MOST));
                match read {
                    Ok(Some(content)) => assert_eq!(content, last),
                    Ok(None) | Err(_) => wrong += 1,
                }
            }
        }
        assert!(wrong > 100, "{wrong}");
        std::fs::write(&path, whole).expect("is writable");
    }
}
