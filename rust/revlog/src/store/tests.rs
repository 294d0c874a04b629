use super::*;

#[test]
fn an_index_beyond_the_bound_is_not_read() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = File::create(dir.path().join("00manifest.i")).expect("is writable");
    // sparse: it takes no room
    file.set_len(1 << 40).expect("is writable");
    let store = Store::new(dir.path(), Encoding::DotEncode).bounded(1 << 20);
    let problem = store.open(RevlogKind::Manifest).expect_err("it is too long");
    assert_eq!(problem.to_string(), "manifest: index has more than 1048576 bytes");
}

/// The changelog's file, with a header and this many entries; the node of each is its number.
fn changelog(header: u32, len: u8, cut: usize) -> (tempfile::TempDir, Store) {
    let mut bytes: Vec<u8> = (0..len)
        .flat_map(|number| {
            let mut entry = [0; index::ENTRY_LEN];
            entry[19] = number; // it is whole
            entry[24..32].fill(0xff); // it has no parents
            entry[index::NODE_AT..index::NODE_AT + 20].fill(number);
            entry
        })
        .collect();
    bytes[..4].copy_from_slice(&header.to_be_bytes());
    bytes.truncate(bytes.len() - cut);
    let dir = tempfile::tempdir().expect("temporary directory");
    std::fs::write(dir.path().join("00changelog.i"), bytes).expect("is writable");
    let store = Store::new(dir.path(), Encoding::DotEncode);
    (dir, store)
}

fn pairs(numbers: &[u8]) -> impl Iterator<Item = (u32, Node)> {
    numbers.iter().map(|number| (u32::from(*number), Node::from_bytes([*number; 20])))
}

#[test]
fn changesets_are_looked_up_in_the_file() {
    // version 1, with and without the flag of general delta
    for header in [1, 0x0002_0001] {
        let (_dir, store) = changelog(header, 9, 0);
        for numbers in [&[][..], &[0], &[8], &[0, 1, 2, 5, 8]] {
            assert!(store.has_changesets(pairs(numbers)).expect("is read"), "{numbers:?}");
        }
        for numbers in [&[9][..], &[2, 9], &[200]] {
            assert!(!store.has_changesets(pairs(numbers)).expect("is read"), "{numbers:?}");
        }
        let other = pairs(&[3]).map(|(number, node)| (number + 1, node));
        assert!(!store.has_changesets(other).expect("is read"));
        let (_dir, store) = changelog(header, 9, 1);
        assert!(store.has_changesets(pairs(&[7])).expect("is read"));
        assert!(!store.has_changesets(pairs(&[7, 8])).expect("is read"), "the entry is cut");
    }
}

#[test]
fn changesets_of_other_kinds_of_index_are_looked_up_too() {
    // data between the entries: none here, as their lengths are zero
    let (_dir, store) = changelog(0x0001_0001, 3, 0);
    assert!(store.has_changesets(pairs(&[0, 2])).expect("is read"));
    assert!(!store.has_changesets(pairs(&[0, 3])).expect("is read"));
    let (_dir, store) = changelog(9, 3, 0);
    store.has_changesets(pairs(&[0])).expect_err("nobody knows version 9");
    let dir = tempfile::tempdir().expect("temporary directory");
    let store = Store::new(dir.path(), Encoding::DotEncode);
    assert!(store.has_changesets(pairs(&[])).expect("no file is no changeset"));
    assert!(!store.has_changesets(pairs(&[0])).expect("no file is no changeset"));
}

#[test]
fn a_path_that_leads_out_of_the_store_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    for encoding in [Encoding::Escaped, Encoding::Plain] {
        let store = Store::new(dir.path(), encoding);
        let problem = store.open(RevlogKind::Filelog(b"../../x")).expect_err("leads elsewhere");
        assert_eq!(problem.to_string(), "filelog ../../x: its path leads out of the store");
        assert!(store.open(RevlogKind::Filelog(b"..x/y..")).is_ok());
    }
    let store = Store::new(dir.path(), Encoding::DotEncode);
    assert!(store.open(RevlogKind::Filelog(b"../x")).is_ok(), "dots are escaped");
}
