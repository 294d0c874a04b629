//! A repository's store: which file holds which revlog.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, readable};
use crate::index::{Index, Malformed};
use crate::path::Encoding;
use crate::revlog::Revlog;

/// Which revlog of a store is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// The changesets.
    Changelog,
    /// The manifests of the whole tree.
    Manifest,
    /// The revisions of one tracked path.
    Filelog(&'a [u8]),
}

impl Kind<'_> {
    /// The revlog as Mercurial names it to users: `filelog src/main.c`.
    fn name(self) -> String {
        match self {
            Self::Changelog => "changelog".to_owned(),
            Self::Manifest => "manifest".to_owned(),
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
        let mut bytes = Vec::new();
        match File::open(&index_path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Ok(_) => {}
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::Io { path: index_path, source }),
        }
        let index = Index::parse(bytes).map_err(|problem| {
            let (revlog, what) = (kind.name(), problem.to_string());
            match problem {
                Malformed::Version(_) | Malformed::Flags(_) => Error::Unsupported { revlog, what },
                _ => Error::Corrupt { revlog, path: index_path.clone(), what },
            }
        })?;
        Ok(Revlog::new(index, kind.name(), index_path, self.path(kind, b".d")))
    }

    fn path(&self, kind: Kind<'_>, suffix: &[u8]) -> PathBuf {
        let encoded = match kind {
            Kind::Changelog => [b"00changelog", suffix].concat(),
            Kind::Manifest => [b"00manifest", suffix].concat(),
            Kind::Filelog(path) => self.encoding.encode(&[b"data/", path, suffix].concat()),
        };
        self.root.join(OsStr::from_bytes(&encoded))
    }
}
