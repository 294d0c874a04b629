//! Errors that end a survey or a conversion.

use std::io;

use gitpack::Oid;
use revlog::patch::Broken;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error that ends a survey or a conversion.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pipes to or from git fail.
    #[error("cannot read the output of git: {0}")]
    Io(#[from] io::Error),
    /// git ended in the middle of an answer.
    #[error("git ended before it had answered")]
    Ended,
    /// Output that is not of `git cat-file`.
    #[error("git cat-file answered '{0}'")]
    Answer(String),
    /// Object missing in the repository.
    #[error("object {0} is missing")]
    Missing(Oid),
    /// Object with another content than its id says.
    #[error(
        "object {0} has another content than its id says, or is part of a SHA-1 collision attack"
    )]
    Differs(Oid),
    /// Object too large to be read.
    #[error("object {oid} has {bytes} bytes, more than {most}")]
    TooLarge {
        /// Id of the object.
        oid: Oid,
        /// Its size.
        bytes: u64,
        /// Size limit.
        most: u64,
    },
    /// Commit that changes more files than the memory of a conversion allows.
    #[error("commit {0} changes more files than amalgam.git.memory allows")]
    TooManyFiles(Oid),
    /// Commit that brings all file revisions above the memory of a conversion.
    #[error("all commits up to {0} change more files than amalgam.git.memory allows")]
    TooManyRevisions(Oid),
    /// More commits, trees or entries than numbers for them.
    #[error("history is too large: more than {} objects", u32::MAX)]
    TooMany,
    /// The Mercurial store cannot be read.
    #[error(transparent)]
    Store(#[from] revlog::Error),
    /// A temporary file cannot be written or read.
    #[error("cannot use a temporary file: {0}")]
    Scratch(#[source] io::Error),
    /// The changegroup cannot be written or read.
    #[error("cannot write the changegroup: {0}")]
    Output(#[source] io::Error),
    /// Bug: a result is not as expected.
    #[error("made a wrong changegroup: {0}")]
    Wrong(String),
    /// Stopped by the caller.
    #[error("stopped on request")]
    Cancelled,
}

impl From<parallel::Error> for Error {
    fn from(error: parallel::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<Broken> for Error {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Delta(_, problem) => Self::Wrong(problem.to_string()),
            Broken::Room(problem) => problem.into(),
        }
    }
}

impl From<changegroup::LongChunk> for Error {
    fn from(error: changegroup::LongChunk) -> Self {
        Self::Wrong(error.to_string())
    }
}
