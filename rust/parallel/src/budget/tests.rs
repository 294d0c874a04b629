//! Buffers within a budget, beyond it, and on file systems that cannot reserve room.

use proptest::prelude::*;

use std::path::Path;

use super::*;
#[cfg(target_os = "linux")]
use crate::directory::without_nameless_files;

fn open(dir: &Path) -> Directory {
    Directory::open(dir).expect("is there")
}

#[test]
fn what_exceeds_a_budget_goes_to_a_file_and_comes_back_the_same() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let budget = Budget::new(1 << 20, &open(dir.path()));
    let within = |len| {
        let mut buffer = Buffer::new(Some(Arc::clone(&budget)));
        buffer.reserve_exact(len).expect("room");
        buffer
    };
    let first = within(700 << 10);
    let second = within(700 << 10);
    let small = within(10 << 10);
    assert_eq!([&first, &second, &small].map(Buffer::is_memory), [true, false, true]);
    assert_eq!(budget.taken_bytes(), 700 << 10);
    drop(first);
    assert_eq!(budget.taken_bytes(), 0);
    assert!(within(1 << 20).is_memory());
    assert_eq!(budget.taken_bytes(), 0);
    assert_eq!(dir.path().read_dir().expect("is there").count(), 0);
}

#[test]
fn a_place_without_room_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let budget = Budget::new(0, &open(dir.path()));
    let path = dir.path().to_owned();
    dir.close().expect("is ours");
    let mut buffer = Buffer::new(Some(budget));
    buffer.extend_from_slice(b"small").expect("is memory");
    let error = buffer.reserve(1 << 20).expect_err("no such directory");
    assert!(error.path == path);
    assert_eq!(buffer.as_slice(), b"small");
}

#[cfg(target_os = "linux")]
#[test]
fn what_no_file_is_safe_for_stays_in_memory() {
    let Some(directory) = without_nameless_files() else { return };
    let budget = Budget::new(1 << 20, &directory);
    let mut buffer = Buffer::new(Some(Arc::clone(&budget)));
    for len in [1 << 20, 2 << 20, 3 << 20] {
        buffer.resize(len).expect("is memory");
        buffer[len - 1] = 7;
        assert!(buffer.is_memory() && buffer.capacity() >= len);
    }
    assert_eq!(buffer[(1 << 20) - 1], 7);
    drop(buffer);
    assert_eq!(budget.taken_bytes(), 0);
}

proptest! {
    #[test]
    fn a_buffer_is_a_vector(
        most_bytes in 0..600_000_usize,
        steps in proptest::collection::vec((any::<u8>(), 0..90_000_usize, 0..4_u8), 0..12),
    ) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let budget = Budget::new(most_bytes, &open(dir.path()));
        let mut buffer = Buffer::new(Some(Arc::clone(&budget)));
        let mut vector = Vec::new();
        for (byte, count, step) in steps {
            match step {
                0 => {
                    vector.truncate(count);
                    buffer.truncate(count);
                }
                1 => {
                    vector.clear();
                    buffer.clear();
                }
                2 => {
                    vector.resize(count, 0);
                    buffer.resize(count).expect("room");
                    vector.fill(byte);
                    buffer.fill(byte);
                }
                _ => {
                    let bytes = vec![byte; count];
                    vector.extend_from_slice(&bytes);
                    buffer.extend_from_slice(&bytes).expect("room");
                }
            }
            prop_assert_eq!(buffer.as_slice(), vector.as_slice());
            prop_assert!(budget.taken_bytes() <= most_bytes);
        }
        drop(buffer);
        prop_assert_eq!(budget.taken_bytes(), 0);
    }
}
