//! Errors that end a survey or a conversion.

use std::io;

use gitpack::Oid;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no survey, or no changegroup.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// git cannot be asked, or its answer cannot be read.
    #[error("cannot read what git answers: {0}")]
    Io(#[from] io::Error),
    /// git ended in the middle.
    #[error("git ended before it had answered")]
    Ended,
    /// An answer that is none of `git cat-file`.
    #[error("git cat-file answered '{0}'")]
    Answer(String),
    /// An object is not in the repository.
    #[error("object {0} is missing")]
    Missing(Oid),
    /// An object is too large to be looked at.
    #[error("object {oid} has {bytes} bytes, more than {most}")]
    TooLarge {
        /// The object.
        oid: Oid,
        /// What it has.
        bytes: u64,
        /// What it may have.
        most: u64,
    },
    /// A commit changes more files than the memory of a conversion allows.
    #[error("commit {0} changes more files than amalgam.git.memory allows")]
    TooManyFiles(Oid),
    /// The commits up to this one have more file revisions than the memory of a conversion allows.
    #[error("with commit {0} the push changes more files than amalgam.git.memory allows")]
    TooManyRevisions(Oid),
    /// More commits, trees or entries than can be counted.
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
    /// What was made here is not what it should be.
    #[error("made a wrong changegroup: {0}")]
    Wrong(String),
    /// The caller asked to stop.
    #[error("stopped on request")]
    Cancelled,
}

impl From<parallel::Error> for Error {
    fn from(error: parallel::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<changegroup::LongChunk> for Error {
    fn from(error: changegroup::LongChunk) -> Self {
        Self::Wrong(error.to_string())
    }
}
