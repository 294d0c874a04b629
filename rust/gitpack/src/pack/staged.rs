//! Files under a name that git takes for unfinished, until they get their own.
//!
//! In `objects/pack` these are the names that begin with `tmp_`: no reader opens them, and git-gc(1)
//! removes those left by a crash. Knows nothing of what the files contain.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use super::Error;

/// Permissions before the umask; files of a pack never change once written.
#[cfg(unix)]
const MODE: u32 = 0o444;

/// The alphabet of mkstemp(3).
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// How many names are tried; a second is hardly ever needed.
const ATTEMPTS: usize = 100;

/// The name of an unfinished file, which is removed on drop, as well as that can be done.
#[derive(Debug)]
pub(super) struct Staged {
    path: PathBuf,
}

impl Staged {
    /// Makes an empty file `tmp_<what>_XXXXXX` in `dir`, open to read and write.
    pub(super) fn create(dir: &Path, what: &str) -> Result<(Self, File), Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, MODE);
        for _ in 0..ATTEMPTS {
            let path = dir.join(format!("tmp_{what}_{}", random_letters()));
            match options.open(&path) {
                Ok(file) => return Ok((Self { path }, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(Error { path, source }),
            }
        }
        let source = io::Error::new(io::ErrorKind::AlreadyExists, "no free temporary name");
        Err(Error { path: dir.to_owned(), source })
    }

    /// What the file is called now.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name, in place of any other file of that name.
    pub(super) fn place(mut self, path: &Path) -> Result<(), Error> {
        fs::rename(&self.path, path).map_err(Error::at(path))?;
        self.path.clear(); // nothing to remove
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            // Nobody is left to be told, and git-gc(1) removes what stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Waits until `dir` itself is on disk, and with it the names of its files.
pub(super) fn sync_dir(dir: &Path) -> Result<(), Error> {
    // Elsewhere a directory cannot be opened for this.
    if cfg!(unix) {
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::at(dir))?;
    }
    Ok(())
}

/// Six letters that no other process has; not a secret.
fn random_letters() -> String {
    let bytes = RandomState::new().build_hasher().finish().to_le_bytes();
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    bytes[..6].iter().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

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
        let (staged, _file) = Staged::create(dir.path(), "pack").expect("is writable");
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
        let (staged, mut file) = Staged::create(dir.path(), "idx").expect("is writable");
        file.write_all(b"bytes").expect("is writable");
        let mut back = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut back)).expect("is readable");
        assert_eq!(back, "bytes");
        staged.place(&path).expect("is in one directory");
        assert_eq!(names(dir.path()), ["name"]);
        assert_eq!(fs::read(&path).expect("is readable"), b"bytes");
    }

    #[cfg(unix)]
    #[test]
    fn nobody_may_write_to_a_staged_file() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("temporary directory");
        let (_staged, file) = Staged::create(dir.path(), "pack").expect("is writable");
        let mode = file.metadata().expect("is open").permissions().mode();
        assert_eq!(mode & 0o333, 0);
    }

    #[test]
    fn an_error_names_the_file() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let missing = dir.path().join("missing");
        let error = Staged::create(&missing, "pack").expect_err("there is no directory");
        assert!(error.path.starts_with(&missing));
        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
        let (staged, _file) = Staged::create(dir.path(), "pack").expect("is writable");
        let target = missing.join("name");
        let error = staged.place(&target).expect_err("there is no directory");
        assert_eq!(error.path, target);
        assert!(names(dir.path()).is_empty());
    }
}
