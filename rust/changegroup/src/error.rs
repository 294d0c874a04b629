//! Errors of writing a changegroup.

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error that ends a changegroup.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] revlog::Error),
    /// The repository changed: changesets of the request are gone.
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
