//! Records that fit in memory, and records in a file.

use std::path::Path;

use super::*;
#[cfg(target_os = "linux")]
use crate::directory::without_nameless_files;

fn records(dir: &Path, count: u32) -> Records<32> {
    records_in(&Directory::open(dir).expect("is there"), count)
}

fn records_in(dir: &Directory, count: u32) -> Records<32> {
    let mut records = Records::new(dir);
    for number in 0..count {
        records.push(record(number)).expect("is writable");
    }
    records
}

/// A record that begins with a scrambled number, different for each, and ends with the number.
fn record(number: u32) -> [u8; 32] {
    let mut record = [7; 32];
    record[..4].copy_from_slice(&number.wrapping_mul(0x9E37_79B1).to_be_bytes());
    record[28..].copy_from_slice(&number.to_be_bytes());
    record
}

#[test]
fn records_are_found_in_memory_and_in_the_file() {
    for count in [0, 1, 1000, 40_000, 200_000] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let records = records(dir.path(), count);
        assert_eq!((records.len(), records.is_empty()), (count as usize, count == 0));
        assert!(records.newest.len() * 32 < NEWEST_BYTES);
        for number in (0..count).step_by(999).chain(count.checked_sub(1)) {
            let found = records.get(number as usize).expect("is readable");
            assert_eq!(found, record(number));
        }
        let mut numbers = 0..count;
        let each = |found: &[u8; 32]| {
            assert_eq!(Some(*found), numbers.next().map(record));
            Ok(())
        };
        records.for_each(each).expect("is readable");
        assert_eq!(numbers.next(), None);
        assert_eq!(dir.path().read_dir().expect("is there").count(), 0);
    }
}

#[test]
fn sorted_records_come_with_their_numbers() {
    for count in [0, 1, 1000, 600_000] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let records = records(dir.path(), count);
        let mut counts = [0; 256];
        (0..count).for_each(|number| counts[usize::from(record(number)[0])] += 1);
        let mut last = None;
        let mut found = 0;
        let each = |bytes: &[u8; 32], number| {
            assert_eq!(*bytes, record(number));
            assert!(last.replace(*bytes) < Some(*bytes));
            found += 1;
            Ok(())
        };
        records.for_each_sorted(&counts, each).expect("is readable");
        assert_eq!(found, count);
        assert_eq!(dir.path().read_dir().expect("is there").count(), 0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn without_nameless_files_all_stays_in_memory() {
    let Some(directory) = without_nameless_files() else { return };
    let mut records = records_in(&directory, 100_000);
    assert!(records.is_memory && records.file.is_none());
    assert_eq!(records.get(99_999).expect("is in memory"), record(99_999));
    records.push(record(100_000)).expect("is in memory");
    assert_eq!(records.newest.len(), 100_001);
}

#[test]
fn an_error_of_the_caller_ends_a_walk() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let records = records(dir.path(), 100_000);
    let ended = records.for_each(|_| Err(io::ErrorKind::Interrupted.into()));
    assert_eq!(ended.expect_err("was asked for").kind(), io::ErrorKind::Interrupted);
}
