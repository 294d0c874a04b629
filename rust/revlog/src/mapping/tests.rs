use super::*;
use std::io::Write;

const PREFAULTS: [Prefault; 3] = [Prefault::Nothing, Prefault::WillNeed, Prefault::Populate];

fn file(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(content).expect("room for it");
    file
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at * 31 % 251).expect("less than 251")).collect()
}

#[test]
fn pages_and_what_lies_behind_are_one() {
    let page = rustix::param::page_size();
    let short = [1, 64, page - 64, page, page + 64, 5 * page, 5 * page + 192];
    for len in short.into_iter().chain([LARGE_PAGE - 1, LARGE_PAGE, LARGE_PAGE + page + 64]) {
        for covered in [1, 64, page - 1, page, page + 1, 3 * page, len] {
            if covered > len {
                continue;
            }
            let bytes = content(len);
            let index = file(&bytes);
            // further bytes of the snapshot are not mapped
            let snapshot = file(&[&bytes[..covered], b"later".as_slice()].concat());
            for prefault in PREFAULTS {
                let mapping = Mapping::new(&snapshot, covered as u64, &index, len as u64, prefault)
                    .expect("both fit");
                assert_eq!(mapping.bytes(), bytes, "{covered} of {len}");
                let is_aligned = mapping.start.addr().get().is_multiple_of(LARGE_PAGE);
                assert!(is_aligned || len < LARGE_PAGE);
                mapping.let_go();
                assert_eq!(mapping.bytes(), bytes, "{covered} of {len}, again");
            }
        }
    }
}

#[test]
fn an_index_that_is_cut_later_stays() {
    let page = rustix::param::page_size();
    let bytes = content(4 * page + 128);
    let (index, snapshot) = (file(&bytes), file(&bytes[..4 * page]));
    let (covered, len) = (4 * page as u64, bytes.len() as u64);
    let mapping =
        Mapping::new(&snapshot, covered, &index, len, Prefault::Nothing).expect("both fit");
    index.set_len(64).expect("a file of ours");
    drop((index, snapshot));
    assert_eq!(mapping.bytes(), bytes);
}

#[test]
fn expectations_change_nothing() {
    let bytes = content(70_000);
    let (index, snapshot) = (file(&bytes), file(&bytes[..66_000]));
    let mapping = Mapping::new(&snapshot, 66_000, &index, 70_000, Prefault::Nothing);
    let mapping = mapping.expect("both fit");
    for expected in [Expected::FewPlaces, Expected::Stretches, Expected::Everything] {
        for range in [0..70_000, 5000..9000, 65_900..70_000, 66_100..usize::MAX, 0..0] {
            mapping.expect(expected, range);
            assert_eq!(mapping.bytes(), bytes);
        }
    }
}

#[test]
fn what_is_not_as_was_said_is_refused() {
    let page = rustix::param::page_size();
    let bytes = content(2 * page);
    let (covered, len) = (page as u64 + 64, bytes.len() as u64);
    let refused = |snapshot: &[u8], covered, index: &[u8], len| {
        let (snapshot, index) = (file(snapshot), file(index));
        match Mapping::new(&snapshot, covered, &index, len, Prefault::Nothing) {
            Err(MappingError::Moved(message)) => message,
            other => panic!("not refused: {other:?}"),
        }
    };
    let message = refused(&bytes[..page], covered, &bytes, len);
    assert_eq!(message, "the snapshot is cut");
    let directory = File::open(std::env::temp_dir()).expect("is there");
    let other_kind = Mapping::new(&directory, 64, &file(&bytes), len, Prefault::Nothing);
    assert!(matches!(other_kind, Err(MappingError::Moved("the snapshot is not a regular file"))));
    let message = refused(&bytes, covered, &bytes[..page + 64], len);
    assert_eq!(message, "the index is shorter than it was");
    let mut other = bytes.clone();
    other[page + 63] ^= 1; // the last byte that is covered
    let message = refused(&bytes, covered, &other, len);
    assert_eq!(message, "the index was rewritten");
    for covered in [0, len + 1] {
        let message = refused(&bytes, covered, &bytes, len);
        assert_eq!(message, "the snapshot covers nothing, or too much");
    }
}

#[test]
fn the_first_difference_ends_what_is_common() {
    let bytes = content(COMPARED_AT_ONCE * 2 + 700);
    let len = bytes.len() as u64;
    let snapshot = file(&bytes);
    let common = |index: &[u8], covered, len| {
        common_prefix(&snapshot, covered, &file(index), len).expect("readable")
    };
    assert_eq!(common(&bytes, len, len), len);
    assert_eq!(common(&bytes, 100, len), 100);
    assert_eq!(common(&bytes, len, 100), 100);
    assert_eq!(common(&bytes[..500], len, len), 500);
    assert_eq!(common(&bytes, len + 9, len + 9), len);
    for at in [0, 1, COMPARED_AT_ONCE - 1, COMPARED_AT_ONCE, COMPARED_AT_ONCE * 2 + 699] {
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert_eq!(common(&other, len, len), at as u64);
    }
}
