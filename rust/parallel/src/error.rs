//! Errors of file operations.

use std::io;
use std::path::PathBuf;

/// Result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the operating system, with the path.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct Error {
    /// The file, or the directory.
    pub path: PathBuf,
    /// The error itself.
    pub source: io::Error,
}
