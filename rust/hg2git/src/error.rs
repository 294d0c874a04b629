//! Errors that end a conversion.

use std::io;
use std::path::PathBuf;

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
    /// The changelog is no longer the one that the caller looked at.
    #[error("the repository changed meanwhile")]
    Moved,
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl From<workshop::Error> for Error {
    fn from(workshop::Error { path, source }: workshop::Error) -> Self {
        Self::Io { path, source }
    }
}
