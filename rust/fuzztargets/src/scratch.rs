//! Temporary files for parsers of files, on a RAM disk if possible.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parallel::Directory;
use tempfile::TempDir;

const IN_MEMORY: &str = "/dev/shm";

/// Directory of this thread. Targets leave it empty.
pub(crate) fn directory() -> PathBuf {
    thread_local! {
        static DIRECTORY: OnceCell<TempDir> = const { OnceCell::new() };
    }
    DIRECTORY.with(|known| {
        let make = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix("amalgam-fuzz-");
            let in_memory =
                Path::new(IN_MEMORY).is_dir().then(|| builder.tempdir_in(IN_MEMORY).ok());
            in_memory.flatten().unwrap_or_else(|| builder.tempdir().expect("a temporary directory"))
        };
        known.get_or_init(make).path().to_owned()
    })
}

/// The directory of this thread, opened.
pub(crate) fn opened() -> Directory {
    Directory::open(&directory()).expect("it was made here")
}

/// A file that is removed when it is dropped.
pub(crate) struct Planted(PathBuf);

impl Planted {
    pub fn new(path: PathBuf, content: &[u8]) -> Self {
        fs::write(&path, content).expect("room for it");
        Self(path)
    }

    pub fn open(&self) -> File {
        File::open(&self.0).expect("it was made here")
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // the next one replaces it
    }
}

/// Splits off the first part of `input`; its first two bytes are the length.
pub(crate) fn cut(input: &[u8]) -> (&[u8], &[u8]) {
    let Some((len, rest)) = input.split_first_chunk() else { return (&[], &[]) };
    let len = usize::from(u16::from_be_bytes(*len));
    rest.split_at(len.min(rest.len()))
}
