//! Staged files: under a temporary name until they are complete.
//!
//! Every file of a store is written here, so one place decides who may read it. In `objects/pack`
//! the names begin with `tmp_`. No git program reads such a file, and git-gc(1) removes those that
//! a crash left. Does not know what the files contain.
//!
//! The crate `tempfile` creates, renames and removes files by path. Here everything is relative to
//! the descriptor of a [`Directory`], so nobody can swap the directory meanwhile
//! (`docs/security.rst`).

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use parallel::Directory;

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct Error {
    /// The file, under the name it has at this time, or the directory.
    pub path: PathBuf,
    /// What the system says of it.
    pub source: io::Error,
}

impl Error {
    /// For `map_err`: an error about `path`.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self { path: path.to_owned(), source }
    }
}

/// Who may read what is written. Nobody may write to it: such files never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readers {
    bits: Option<u32>,
    owner: Owner,
}

/// To whom files are given that are written; `None` leaves them with who writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user: only root can give a file to another one.
    pub user: Option<u32>,
    /// The group: others than root can give a file to their own groups only.
    pub group: Option<u32>,
}

impl Readers {
    /// Those whom the process's umask does not exclude.
    pub const BY_UMASK: Self = Self { bits: None, owner: Owner { user: None, group: None } };

    /// Those who may read a file with these permission bits, whatever the umask.
    #[must_use]
    pub const fn of_mode(bits: u32) -> Self {
        Self { bits: Some(bits & ALL), ..Self::BY_UMASK }
    }

    /// The same, and files are given to `owner`, as far as the system allows it.
    #[must_use]
    pub const fn owned_by(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }
}

/// Bytes collected before they are written.
const BUFFER_BYTES: usize = 0x4_0000;

/// Permission to read, for owner, group and others.
const ALL: u32 = 0o444;

/// The alphabet of mkstemp(3).
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// How many names are tried; a second is hardly ever needed.
const ATTEMPTS: usize = 100;

/// The name of an unfinished file, which is removed on drop, as well as that can be done.
#[derive(Debug)]
pub struct Staged {
    dir: Directory,
    /// Empty once there is nothing to remove.
    name: String,
    path: PathBuf,
}

impl Staged {
    /// Makes an empty file `<prefix>XXXXXXXX` in `dir`, open to read and write.
    ///
    /// # Errors
    ///
    /// [`Error`] if no file can be made there.
    pub fn create(dir: &Directory, prefix: &str, readers: Readers) -> Result<(Self, File), Error> {
        for _ in 0..ATTEMPTS {
            let name = format!("{prefix}{}", random_letters());
            let path = dir.join(&name);
            match dir.create(&name, readers.bits.unwrap_or(ALL)) {
                Ok(file) => {
                    let staged = Self { dir: dir.clone(), name, path };
                    readers.apply(&file).map_err(Error::at(&staged.path))?;
                    return Ok((staged, file));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(Error { path, source }),
            }
        }
        let source = io::Error::new(io::ErrorKind::AlreadyExists, "no free temporary name");
        Err(Error { path: dir.path().to_owned(), source })
    }

    /// What the file is called now.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name in its directory, in place of any other file of that name.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be renamed; then it is gone.
    pub fn place(mut self, name: &str) -> Result<(), Error> {
        self.dir.rename(&self.name, name).map_err(Error::at(&self.dir.join(name)))?;
        self.name.clear(); // nothing to remove
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // Nobody is left to be told, and git-gc(1) removes what stays.
            let _ = self.dir.remove(&self.name);
        }
    }
}

impl Readers {
    /// Lets these and no others read the file, and gives it to its owner.
    fn apply(self, file: &File) -> io::Result<()> {
        if self.owner != Owner::default() {
            // Who may not give it away keeps it, as with Mercurial's own files.
            let _ = std::os::unix::fs::fchown(file, self.owner.user, self.owner.group);
        }
        // What a file was opened with is less, if the umask says so.
        if let Some(bits) = self.bits {
            use std::os::unix::fs::PermissionsExt;
            file.set_permissions(std::fs::Permissions::from_mode(bits))?;
        }
        Ok(())
    }
}

/// A file that is complete and on disk, but not under its name, which it gets by [`Self::place`].
/// Dropped before that, it is gone.
#[derive(Debug)]
pub struct Whole {
    staged: Staged,
    name: String,
}

impl Whole {
    /// Makes a file in `dir` that `readers` may read. `write` writes it, and answers its name. Until it
    /// is placed, its name begins with `prefix`.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be written; then nothing is left behind.
    pub fn create(
        dir: &Directory,
        prefix: &str,
        readers: Readers,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<String>,
    ) -> Result<Self, Error> {
        let (staged, file) = Staged::create(dir, prefix, readers)?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let written = write(&mut out).and_then(|name| out.flush().map(|()| name));
        let name = written.map_err(Error::at(&staged.path))?;
        out.get_ref().sync_all().map_err(Error::at(&staged.path))?;
        Ok(Self { staged, name })
    }

    /// The name that it is to have.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives it that name, in place of any other file of that name. It is on disk once the directory
    /// is, see [`sync_dir`].
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be renamed; then it is gone.
    pub fn place(self) -> Result<(), Error> {
        self.staged.place(&self.name)
    }
}

/// Makes a file in `dir` that `readers` may read. `write` writes it, and answers its name.
///
/// It is complete and on disk when that name appears; until then its name begins with `prefix`. Any
/// other file of that name is replaced.
///
/// # Errors
///
/// [`Error`] if it cannot be written; then nothing is left behind, unless it is only that the
/// system does not say that the name is on disk.
pub fn write_whole(
    dir: &Directory,
    prefix: &str,
    readers: Readers,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<String>,
) -> Result<(), Error> {
    Whole::create(dir, prefix, readers, write)?.place()?;
    sync_dir(dir)
}

/// Waits until `dir` itself is on disk, and with it the names of its files.
///
/// # Errors
///
/// [`Error`] if the system does not say so.
pub fn sync_dir(dir: &Directory) -> Result<(), Error> {
    dir.sync().map_err(Error::at(dir.path()))
}

/// Eight letters that no other process has, and that nobody can know before.
fn random_letters() -> String {
    let bytes = RandomState::new().build_hasher().finish().to_le_bytes();
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    bytes.iter().map(letter).collect()
}

#[cfg(test)]
mod tests;
