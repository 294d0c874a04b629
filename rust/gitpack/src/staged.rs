//! Staged files: under a temporary name until they are complete.
//!
//! Every file of a store is written here, so one place sets the permissions. In `objects/pack`
//! temporary names begin with `tmp_`. No git program reads such a file, and git-gc(1) removes those
//! that a crash left. Does not know the content of the files.
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

/// An error of the operating system while a file is written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct Error {
    /// The current path of the file, or the directory.
    pub path: PathBuf,
    /// The error itself.
    pub source: io::Error,
}

impl Error {
    /// For `map_err`: an error about `path`.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self { path: path.to_owned(), source }
    }
}

/// Permissions of new files. They never include writing, since such files never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readers {
    bits: Option<u32>,
    owner: Owner,
}

/// Owner of new files; `None` leaves the user and group of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user. Only root can give a file to another user.
    pub user: Option<u32>,
    /// The group. Users other than root can give a file only to their own groups.
    pub group: Option<u32>,
}

impl Readers {
    /// Everyone may read, except as the umask of the process forbids.
    pub const BY_UMASK: Self = Self { bits: None, owner: Owner { user: None, group: None } };

    /// The read permissions of these bits, independent of the umask.
    #[must_use]
    pub const fn of_mode(bits: u32) -> Self {
        Self { bits: Some(bits & ALL), ..Self::BY_UMASK }
    }

    /// The same permissions, with an owner, as far as the system allows it.
    #[must_use]
    pub const fn owned_by(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }
}

/// Size of the write buffer.
const BUFFER_BYTES: usize = 0x4_0000;

/// Permission to read, for owner, group and others.
const ALL: u32 = 0o444;

/// The alphabet of mkstemp(3).
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Maximum number of names that are tried. A second is hardly ever needed.
const ATTEMPTS: usize = 100;

/// An unfinished file. On drop it is removed; errors of that are ignored.
#[derive(Debug)]
pub struct Staged {
    dir: Directory,
    /// The temporary name; empty once the file has its final name.
    name: String,
    path: PathBuf,
}

impl Staged {
    /// Creates an empty file `<prefix>XXXXXXXX` in `dir`, open to read and write.
    ///
    /// # Errors
    ///
    /// [`Error`] if no file can be created there.
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

    /// The temporary path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file to its final name in the directory, and replaces any file of that name.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be renamed. It is removed then.
    pub fn place(mut self, name: &str) -> Result<(), Error> {
        self.dir.rename(&self.name, name).map_err(Error::at(&self.dir.join(name)))?;
        self.name.clear(); // nothing to remove
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // The error cannot be reported from here, and git-gc(1) removes the file.
            let _ = self.dir.remove(&self.name);
        }
    }
}

impl Readers {
    /// Sets owner and permissions of the file.
    fn apply(self, file: &File) -> io::Result<()> {
        if self.owner != Owner::default() {
            // Users who may not give the file away keep it, as with Mercurial's own files.
            let _ = std::os::unix::fs::fchown(file, self.owner.user, self.owner.group);
        }
        // The umask may have removed bits when the file was created.
        if let Some(bits) = self.bits {
            use std::os::unix::fs::PermissionsExt;
            file.set_permissions(std::fs::Permissions::from_mode(bits))?;
        }
        Ok(())
    }
}

/// A complete and fsynced file under a temporary name, until [`Self::place`].
///
/// It is removed if it is dropped before.
#[derive(Debug)]
pub struct Whole {
    staged: Staged,
    name: String,
}

impl Whole {
    /// Creates a file in `dir` that `readers` may read.
    ///
    /// `write` writes the content, and returns the final name. The temporary name begins with
    /// `prefix`.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be written. It is removed then.
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

    /// The final name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Renames the file to its final name, and replaces any file of that name.
    ///
    /// The name survives a crash after the directory was fsynced, see [`sync_dir`].
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be renamed. It is removed then.
    pub fn place(self) -> Result<(), Error> {
        self.staged.place(&self.name)
    }
}

/// Writes a file in `dir` that `readers` may read, under its final name.
///
/// `write` writes the content, and returns the final name. The file is complete and fsynced before
/// it gets that name; the temporary name begins with `prefix`. Any file of the final name is
/// replaced.
///
/// # Errors
///
/// [`Error`] if the file cannot be written. It is removed then. If only the fsync of the directory
/// fails, the file stays.
pub fn write_whole(
    dir: &Directory,
    prefix: &str,
    readers: Readers,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<String>,
) -> Result<(), Error> {
    Whole::create(dir, prefix, readers, write)?.place()?;
    sync_dir(dir)
}

/// Fsyncs `dir`, and so the names of its files.
///
/// # Errors
///
/// [`Error`] if the fsync fails.
pub fn sync_dir(dir: &Directory) -> Result<(), Error> {
    dir.sync().map_err(Error::at(dir.path()))
}

/// Eight random letters, unpredictable for other processes.
fn random_letters() -> String {
    let bytes = RandomState::new().build_hasher().finish().to_le_bytes();
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    bytes.iter().map(letter).collect()
}

#[cfg(test)]
mod tests;
