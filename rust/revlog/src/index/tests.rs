use super::*;

fn entry(version: u32, compressed_len: i32, base: i32, p1: i32) -> Vec<u8> {
    let mut entry = vec![0; ENTRY_LEN];
    entry[..4].copy_from_slice(&version.to_be_bytes());
    entry[8..12].copy_from_slice(&compressed_len.to_be_bytes());
    entry[16..20].copy_from_slice(&base.to_be_bytes());
    entry[24..28].copy_from_slice(&p1.to_be_bytes());
    entry[28..32].copy_from_slice(&(-1i32).to_be_bytes());
    entry
}

#[test]
fn only_existing_revisions_are_named() {
    let index = Index::parse(entry(0x2_0001, 0, 0, -1)).expect("one whole entry");
    assert_eq!(index.rev(0), Some(Rev(0)));
    assert_eq!(index.rev(1), None);
    assert_eq!(index.parents(Rev(0)), Parents(None, None));
}

#[test]
fn a_cut_entry_is_refused() {
    let mut bytes = entry(0x2_0001, 0, 0, -1);
    bytes.truncate(63);
    assert_eq!(Index::parse(bytes).err(), Some(MalformedIndex::Truncated(0, 63)));
    assert_eq!(Index::parse(vec![0; 3]).err(), Some(MalformedIndex::Truncated(0, 3)));
}

#[test]
fn an_unknown_version_or_flag_is_refused() {
    assert_eq!(Index::parse(entry(0xdead, 0, 0, -1)).err(), Some(MalformedIndex::Version(0xdead)));
    assert_eq!(Index::parse(entry(0x10_0001, 0, 0, -1)).err(), Some(MalformedIndex::Flags(0x10)));
}

#[test]
fn entries_of_version_2_are_those_of_version_1_and_a_compression() {
    let mut first = entry(0, 7, -1, -1);
    first[32..52].fill(0xab);
    first.resize(ENTRY_2_LEN, 0);
    let mut second = first.clone();
    second[..8].copy_from_slice(&(9u64 << 16).to_be_bytes());
    second[16..20].copy_from_slice(&0i32.to_be_bytes());
    second[76] = 2;
    let bytes = [first, second].concat();
    let index = Index::parse_version_2(Version::Revlog2, &bytes).expect("two entries");
    let (first, second) = (Rev(0), Rev(1));
    assert_eq!((index.chunk_range(first), index.chunk_range(second)), ((0, 7), (9, 7)));
    assert_eq!((index.delta_base(first), index.delta_base(second)), (None, Some(first)));
    assert_eq!((index.is_plain(first), index.is_plain(second)), (true, false));
    assert_eq!(index.node(second), Node::from_bytes([0xab; 20]));
    let cut = Index::parse_version_2(Version::Revlog2, &bytes[..100]).err();
    assert_eq!(cut, Some(MalformedIndex::Truncated(1, 4)));
}

#[test]
fn changelogs_of_version_2_have_full_texts() {
    let mut first = entry(0, 7, -1, -1);
    first.splice(16..24, []);
    first[24..44].fill(0xab);
    first.resize(ENTRY_2_LEN, 0);
    let mut second = first.clone();
    second[16..20].copy_from_slice(&0i32.to_be_bytes());
    second[68] = 1;
    let bytes = [first, second].concat();
    let index = Index::parse_version_2(Version::Changelog2, &bytes).expect("two entries");
    let (first, second) = (Rev(0), Rev(1));
    assert_eq!(index.parents(second), Parents(Some(first), None));
    assert_eq!((index.delta_base(first), index.delta_base(second)), (None, None));
    assert_eq!((index.is_plain(first), index.is_plain(second)), (true, false));
    assert_eq!(index.node(second), Node::from_bytes([0xab; 20]));
}

#[test]
fn a_parent_that_does_not_come_earlier_is_refused() {
    let problem = Index::parse(entry(0x2_0001, 0, 0, 0)).err();
    assert_eq!(problem, Some(MalformedIndex::Field { rev: 0, field: "first parent", value: 0 }));
}

#[test]
fn inline_data_must_lie_in_the_file() {
    let mut bytes = entry(0x3_0001, 5, 0, -1);
    bytes.extend_from_slice(b"u123");
    assert_eq!(Index::parse(bytes.clone()).err(), Some(MalformedIndex::InlineData(0)));
    bytes.push(b'4');
    let index = Index::parse(bytes).expect("whole");
    assert_eq!(index.inline_chunk(Rev(0)), Some(&b"u1234"[..]));
}

#[test]
fn a_mapped_entry_is_checked_when_it_is_used() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("index");
    let mut bytes = entry(0x2_0001, 7, 0, -1);
    bytes.extend(entry(0, 7, 0, 5)); // its parent comes later
    bytes.extend(entry(0, 7, 1, 1));
    std::fs::write(&path, &bytes).expect("is writable");
    let file = std::fs::File::open(&path).expect("it was written");
    let len = bytes.len() as u64;
    let mapping = Mapping::new(&file, len, &file, len, crate::mapping::Prefault::Nothing);
    let index = Index::mapped(Arc::new(mapping.expect("it is mapped"))).expect("a header");
    assert_eq!(index.len(), 3);
    assert_eq!((index.stored_len(Rev(0)), index.parents(Rev(2))), (7, Parents(Some(Rev(1)), None)));
    assert_eq!(index.problem(), None);
    assert_eq!((index.stored_len(Rev(1)), index.parents(Rev(1))), (0, Parents(None, None)));
    assert_eq!((index.delta_base(Rev(1)), index.node(Rev(1))), (None, Node::from_bytes([0; 20])));
    let field = MalformedIndex::Field { rev: 1, field: "first parent", value: 5 };
    assert_eq!(index.problem(), Some(field));
    assert!(Index::parse(bytes).is_err(), "all entries that are read are checked");
}
