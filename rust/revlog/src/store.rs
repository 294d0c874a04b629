//! A repository's store: which file holds which revlog.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::docket::{Docket, Version};
use crate::error::{Error, Result, readable};
use crate::index::{Index, Malformed};
use crate::path::Encoding;
use crate::revlog::Revlog;

/// Which revlog of a store is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// The changesets.
    Changelog,
    /// The manifests of the whole tree, or of its root if each directory has its own.
    Manifest,
    /// The manifests of a directory, its path without slashes at the ends.
    DirectoryManifest(&'a [u8]),
    /// The revisions of one tracked path.
    Filelog(&'a [u8]),
}

impl Kind<'_> {
    /// The revlog as Mercurial names it to users: `filelog src/main.c`.
    fn name(self) -> String {
        match self {
            Self::Changelog => "changelog".to_owned(),
            Self::Manifest => "manifest".to_owned(),
            Self::DirectoryManifest(path) => format!("manifest of {}", readable(path)),
            Self::Filelog(path) => format!("filelog {}", readable(path)),
        }
    }
}

/// The directory `.hg/store` and how names are encoded in it.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    encoding: Encoding,
}

impl Store {
    /// A store at `root`; nothing is read yet.
    #[must_use]
    pub fn new(root: &Path, encoding: Encoding) -> Self {
        Self { root: root.to_owned(), encoding }
    }

    /// Reads the index of a revlog; a revlog without a file is empty.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read; [`Error::Corrupt`] if its fields are out of
    /// range; [`Error::Unsupported`] if its version or flags are not known.
    pub fn open(&self, kind: Kind<'_>) -> Result<Revlog> {
        let index_path = self.path(kind, b".i");
        let bytes = read(&index_path, u64::MAX)?;
        let blame = |path: &Path, problem: Malformed| {
            let (revlog, path, what) = (kind.name(), path.to_owned(), problem.to_string());
            match problem {
                Malformed::Version(_) | Malformed::Flags(_) => Error::Unsupported { revlog, what },
                _ => Error::Corrupt { revlog, path, what },
            }
        };
        let Some(version) = bytes.first_chunk().and_then(|header| version_of(*header)) else {
            let index = Index::parse(bytes).map_err(|problem| blame(&index_path, problem))?;
            return Ok(Revlog::new(index, kind.name(), index_path, self.path(kind, b".d")));
        };
        let Some(docket) = Docket::parse(version, &bytes) else {
            return Err(blame(&index_path, Malformed::Docket));
        };
        let named = |uid: &[u8], suffix: &[u8]| self.path(kind, &[b"-", uid, suffix].concat());
        let index_path = named(docket.index_uid, b".idx");
        let bytes = read(&index_path, docket.index_len)?;
        let len = bytes.len() as u64;
        let index = if len < docket.index_len {
            Err(Malformed::Short(len, docket.index_len))
        } else {
            Index::parse_version_2(version, &bytes)
        };
        let index = index.map_err(|problem| blame(&index_path, problem))?;
        Ok(Revlog::new(index, kind.name(), index_path, named(docket.data_uid, b".dat")))
    }

    fn path(&self, kind: Kind<'_>, suffix: &[u8]) -> PathBuf {
        let encoded = match kind {
            Kind::Changelog => [b"00changelog", suffix].concat(),
            Kind::Manifest => [b"00manifest", suffix].concat(),
            Kind::DirectoryManifest(path) => {
                self.encoding.encode(&[b"meta/", path, b"/00manifest", suffix].concat())
            }
            Kind::Filelog(path) => self.encoding.encode(&[b"data/", path, suffix].concat()),
        };
        self.root.join(OsStr::from_bytes(&encoded))
    }
}

/// The version in the header of a file `*.i`, if it is a docket.
const fn version_of(header: [u8; 4]) -> Option<Version> {
    Version::from_number(u32::from_be_bytes(header) & 0xffff)
}

/// The first `most` bytes of a file; none if there is no file.
fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::Io { path: path.to_owned(), source })
        }
        _ => Ok(bytes),
    }
}
