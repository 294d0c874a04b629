//! Errors that end a conversion.

use std::io;
use std::path::PathBuf;

use revlog::Node;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nothing, or nothing more, was converted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be read, or what it holds cannot be right.
    #[error(transparent)]
    Store(#[from] revlog::Error),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] gitpack::staged::Error),
    /// The operating system refused.
    #[error("{source}")]
    Io {
        /// File concerned.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A map segment is not what its format says.
    #[error("{what}")]
    Map {
        /// The segment's file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The file of adopted commits is not what its format says.
    #[error("{what}")]
    Adopted {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// An adopted commit does not fit its changeset.
    #[error("the adopted commit does not fit changeset {}", .0.node)]
    Unfit(Unfit),
    /// The changelog is no longer the one that the caller looked at.
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

/// A commit that was given for a changeset, and is not one of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The changeset.
    pub node: Node,
    /// What is wrong with the commit.
    pub misfit: Misfit,
}

/// What is wrong with a commit that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Its tree is not that of the changeset.
    Tree = 1,
    /// Its parents are not the commits of the changeset's parents.
    Parents = 2,
    /// Its lines are not those of a commit.
    Form = 3,
    /// Another changeset has it.
    Taken = 4,
}
