//! Staged files that are placed, dropped, or cannot be written.

use std::fs;
use std::io::{Read, Seek};

use super::*;

fn open(dir: &tempfile::TempDir) -> Directory {
    Directory::open(dir.path()).expect("is there")
}

fn names(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().expect("directory exists");
    let name = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.file_name());
    let mut names: Vec<_> =
        entries.map(|entry| name(entry).expect("is read").into_string()).collect();
    names.sort();
    names.into_iter().map(|name| name.expect("is ASCII")).collect()
}

#[test]
fn a_dropped_file_is_gone() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (staged, _file) =
        Staged::create(&open(&dir), "tmp_pack_", Readers::BY_UMASK).expect("is writable");
    let names_while = names(dir.path());
    assert!(matches!(&names_while[..], [name] if name.starts_with("tmp_pack_")));
    drop(staged);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_placed_file_keeps_its_bytes_and_its_name() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("name");
    fs::write(&path, "older").expect("is writable");
    let (staged, mut file) =
        Staged::create(&open(&dir), "tmp_idx_", Readers::BY_UMASK).expect("is writable");
    file.write_all(b"bytes").expect("is writable");
    let mut back = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut back)).expect("is readable");
    assert_eq!(back, "bytes");
    staged.place("name").expect("is in one directory");
    assert_eq!(names(dir.path()), ["name"]);
    assert_eq!(fs::read(&path).expect("is readable"), b"bytes");
}

#[cfg(unix)]
#[test]
fn those_who_may_read_are_as_asked_and_nobody_may_write() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("temporary directory");
    let mode_of = |readers| {
        let (_staged, file) =
            Staged::create(&open(&dir), "tmp_pack_", readers).expect("is writable");
        file.metadata().expect("is open").permissions().mode() & 0o7777
    };
    assert_eq!(mode_of(Readers::BY_UMASK) & 0o333, 0);
    for (bits, mode) in [(0o660, 0o440), (0o666, 0o444), (0o600, 0o400), (0o664, 0o444)] {
        assert_eq!(mode_of(Readers::of_mode(bits)), mode);
    }
}

#[test]
fn a_file_that_is_not_written_leaves_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let try_with = |name: Option<&str>| {
        let name = name.map(str::to_owned);
        write_whole(&open(&dir), "tmp-", Readers::BY_UMASK, |out| {
            out.write_all(b"bytes")?;
            name.ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))
        })
    };
    let error = try_with(None).expect_err("there is no name");
    assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
    assert!(names(dir.path()).is_empty());
    try_with(Some("name")).expect("is writable");
    assert_eq!(fs::read(dir.path().join("name")).expect("is readable"), b"bytes");
    assert_eq!(names(dir.path()), ["name"]);
}

#[test]
fn a_whole_file_has_its_name_when_it_is_placed() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let create = |content: &'static [u8]| {
        let write = |out: &mut BufWriter<File>| {
            out.write_all(content)?;
            Ok("name".to_owned())
        };
        Whole::create(&open(&dir), "tmp-", Readers::BY_UMASK, write).expect("is writable")
    };
    let (dropped, placed) = (create(b"dropped"), create(b"placed"));
    assert_eq!(placed.name(), "name");
    assert!(names(dir.path()).iter().all(|name| name.starts_with("tmp-")));
    drop(dropped);
    placed.place().expect("is in one directory");
    assert_eq!(names(dir.path()), ["name"]);
    assert_eq!(fs::read(dir.path().join("name")).expect("is readable"), b"placed");
}

#[test]
fn an_error_names_the_file() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let gone = open(&dir);
    let path = dir.path().to_owned();
    let (staged, _file) =
        Staged::create(&gone, "tmp_pack_", Readers::BY_UMASK).expect("is writable");
    dir.close().expect("is ours");
    let error = staged.place("name").expect_err("there is no directory");
    assert_eq!(error.path, path.join("name"));
    let error =
        Staged::create(&gone, "tmp_pack_", Readers::BY_UMASK).expect_err("there is no directory");
    assert!(error.path.starts_with(&path));
    assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
}
