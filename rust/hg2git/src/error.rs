//! Errors that end a conversion.

use std::io;
use std::path::PathBuf;

use revlog::Node;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error that ended a conversion, before or during the work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be read, or is damaged.
    #[error(transparent)]
    Store(#[from] revlog::Error),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] gitpack::staged::Error),
    /// The operating system reported an error.
    #[error("{source}")]
    Io {
        /// File concerned.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A map segment is damaged.
    #[error("{what}")]
    Map {
        /// The segment's file.
        path: PathBuf,
        /// Defect of the file.
        what: String,
    },
    /// The file of adopted commits is damaged.
    #[error("{what}")]
    Adopted {
        /// The file.
        path: PathBuf,
        /// Defect of the file.
        what: String,
    },
    /// An object of an imported commit cannot be read, or their map is damaged.
    #[error("{what}")]
    Imported {
        /// The directory of the packs, or the map's file.
        path: PathBuf,
        /// The defect.
        what: String,
    },
    /// An adopted commit does not fit its changeset.
    #[error("the adopted commit does not fit changeset {}", .0.node)]
    Unfit(Unfit),
    /// The changelog changed since the caller looked at it.
    #[error("the repository changed meanwhile")]
    Moved,
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl From<parallel::Error> for Error {
    fn from(parallel::Error { path, source }: parallel::Error) -> Self {
        Self::Io { path, source }
    }
}

/// An adopted commit that does not fit its changeset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The changeset.
    pub node: Node,
    /// Defect of the commit.
    pub misfit: Misfit,
}

/// Defect of an adopted commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Its tree differs from the changeset's tree.
    Tree = 1,
    /// Its parents differ from the commits of the changeset's parents.
    Parents = 2,
    /// It has not the form of a commit.
    Form = 3,
    /// Another changeset has it already.
    Taken = 4,
}
