//! Errors of writing a changegroup.

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no changegroup, or no more of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] revlog::Error),
    /// The changesets are not those that the caller saw: the repository was changed meanwhile.
    #[error("changesets were removed while they were read")]
    Moved,
    /// The progress callback asked to stop.
    #[error("stopped on request")]
    Cancelled,
}

impl From<parallel::Error> for Error {
    fn from(error: parallel::Error) -> Self {
        Self::Store(error.into())
    }
}
