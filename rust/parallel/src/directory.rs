//! Directories by descriptor: files in them are opened and created without a path.
//!
//! A name is one component, a symbolic link is refused, and opening a FIFO does not block. So
//! nobody can redirect a file by replacing parent directories or entries. The caller checks the
//! directory before it passes the descriptor.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Mode, OFlags};

/// An open directory. Clones share the descriptor.
#[derive(Clone, Debug)]
pub struct Directory {
    fd: Arc<OwnedFd>,
    path: PathBuf,
}

impl Directory {
    /// Wraps the descriptor of a directory. `path` is its name in errors.
    #[must_use]
    pub fn new(fd: OwnedFd, path: PathBuf) -> Self {
        Self { fd: Arc::new(fd), path }
    }

    /// Opens a directory. `path` may be a symbolic link to it.
    ///
    /// # Errors
    ///
    /// The errors of `open(2)`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self::new(fs::open(path, flags, Mode::empty())?, path.to_owned()))
    }

    /// The path of the directory, for messages only: no file is opened by path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in the directory, for messages.
    #[must_use]
    pub fn join(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.path.join(name.as_ref())
    }

    /// Names of all entries except `.` and `..`, in any order.
    ///
    /// # Errors
    ///
    /// The errors of `readdir(3)`.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&*self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Opens a regular file to read it.
    ///
    /// # Errors
    ///
    /// The errors of `open(2)`; [`io::ErrorKind::InvalidData`] if the entry is not a regular file.
    pub fn read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let found = fs::openat(&*self.fd, component(name.as_ref())?, flags, Mode::empty());
        let file = match found {
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Err(not_a_file()),
            found => File::from(found?),
        };
        if file.metadata()?.is_file() { Ok(file) } else { Err(not_a_file()) }
    }

    /// Creates a file, to read and write it, with the permission `bits` that the umask allows.
    ///
    /// # Errors
    ///
    /// The errors of `open(2)`: [`io::ErrorKind::AlreadyExists`] if an entry of that name exists.
    pub fn create(&self, name: &str, bits: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(bits as _);
        let fd = fs::openat(&*self.fd, component(name.as_ref())?, flags | OFlags::CLOEXEC, mode)?;
        Ok(File::from(fd))
    }

    /// Creates a file without a name on the directory's file system, to read and write it.
    ///
    /// The file is deleted when it is closed or the process dies. `None` if the file system does
    /// not support `O_TMPFILE`.
    ///
    /// # Errors
    ///
    /// The errors of `open(2)`.
    #[cfg(target_os = "linux")]
    pub fn create_nameless(&self) -> io::Result<Option<File>> {
        use rustix::io::Errno;
        let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        match fs::openat(&*self.fd, ".", flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => Ok(None),
            Err(problem) => Err(problem.into()),
        }
    }

    /// Returns `None`: only Linux has files without a name.
    ///
    /// # Errors
    ///
    /// None.
    #[cfg(not(target_os = "linux"))]
    pub fn create_nameless(&self) -> io::Result<Option<File>> {
        Ok(None)
    }

    /// Renames a file within the directory, and replaces any file named `new`.
    ///
    /// # Errors
    ///
    /// The errors of `rename(2)`.
    pub fn rename(&self, old: &str, new: &str) -> io::Result<()> {
        let fd = self.fd.as_fd();
        Ok(fs::renameat(fd, component(old.as_ref())?, fd, component(new.as_ref())?)?)
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// The errors of `unlink(2)`.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&*self.fd, component(name.as_ref())?, AtFlags::empty())?)
    }

    /// Fsyncs the directory, and so the names of its files.
    ///
    /// # Errors
    ///
    /// The errors of `fsync(2)`.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&*self.fd)?)
    }
}

/// Checks that a name is one component, so that it does not lead out of the directory.
fn component(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    if matches!(bytes, b"" | b"." | b"..") || bytes.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name in a directory"));
    }
    Ok(name)
}

fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a regular file")
}

/// A directory on a file system without nameless files: `/proc`.
///
/// `None` unless the user is root. For other users, the kernel checks the permissions of the
/// directory first, and refuses.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn without_nameless_files() -> Option<Directory> {
    use std::os::unix::fs::MetadataExt;

    let is_root = std::fs::metadata("/proc/self").expect("of this process").uid() == 0;
    is_root.then(|| Directory::open(Path::new("/proc")).expect("is there"))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    fn directory() -> (tempfile::TempDir, Directory) {
        let temporary = tempfile::tempdir().expect("temporary directory");
        let directory = Directory::open(temporary.path()).expect("is there");
        (temporary, directory)
    }

    #[test]
    fn links_and_special_files_are_not_read() {
        let (temporary, directory) = directory();
        std::fs::write(temporary.path().join("file"), "content").expect("is writable");
        symlink("file", temporary.path().join("link")).expect("is writable");
        std::fs::create_dir(temporary.path().join("inner")).expect("is writable");
        fs::mknodat(
            fs::CWD,
            temporary.path().join("fifo"),
            fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .expect("is writable");
        let mut content = String::new();
        directory.read("file").expect("is there").read_to_string(&mut content).expect("is read");
        assert_eq!(content, "content");
        for name in ["link", "inner", "fifo"] {
            let error = directory.read(name).expect_err(name);
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{name}");
        }
        assert_eq!(
            directory.read("missing").expect_err("is missing").kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn what_has_a_name_is_not_created() {
        let (temporary, directory) = directory();
        symlink("new", temporary.path().join("dangling")).expect("is writable");
        let error = directory.create("dangling", 0o600).expect_err("is there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(!temporary.path().join("new").exists());
    }

    #[test]
    fn all_names_are_listed_as_often_as_asked() {
        let (temporary, directory) = directory();
        let odd = OsStr::from_bytes(b"\xff.idx");
        for name in [OsStr::new("b"), OsStr::new("a"), odd] {
            std::fs::write(temporary.path().join(name), "").expect("is writable");
        }
        for _ in 0..2 {
            let mut names = directory.names().expect("is readable");
            names.sort();
            assert_eq!(names, [OsStr::new("a"), OsStr::new("b"), odd]);
        }
        assert!(directory.read(odd).is_ok());
    }

    #[test]
    fn what_took_the_place_of_a_directory_is_not_used() {
        let (temporary, _) = directory();
        let (inner, decoy) = (temporary.path().join("inner"), temporary.path().join("decoy"));
        std::fs::create_dir(&inner).expect("is writable");
        std::fs::create_dir(&decoy).expect("is writable");
        std::fs::write(inner.join("ours"), "").expect("is writable");
        std::fs::write(decoy.join("theirs"), "").expect("is writable");
        let directory = Directory::open(&inner).expect("is there");
        std::fs::rename(&inner, temporary.path().join("away")).expect("is writable");
        symlink("decoy", &inner).expect("is writable");
        assert_eq!(directory.names().expect("is readable"), ["ours"]);
        assert!(directory.read("ours").is_ok() && directory.read("theirs").is_err());
    }

    #[test]
    fn a_name_does_not_lead_out() {
        let (_temporary, directory) = directory();
        for name in ["", ".", "..", "../file", "/etc/passwd", "inner/file"] {
            let error = directory.read(name).expect_err(name);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
    }
}
