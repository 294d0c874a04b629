//! Errors of file operations.

use std::io;
use std::path::PathBuf;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The operating system refused.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct Error {
    /// The file, or the directory.
    pub path: PathBuf,
    /// What the system says of it.
    pub source: io::Error,
}
