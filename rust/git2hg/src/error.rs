//! Errors that end a survey.

use std::io;

use gitpack::Oid;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no survey.
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
    /// More commits, trees or entries than can be counted.
    #[error("history is too large: more than {} objects", u32::MAX)]
    TooMany,
    /// The caller asked to stop.
    #[error("stopped on request")]
    Cancelled,
}
