//! Errors of reading a store.

use std::io;
use std::path::PathBuf;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Bytes of a name that a message shows at most.
const MOST_SHOWN: usize = 1024;

/// Formats names and other bytes of a store for messages: on one line, and cut if very long.
///
/// ```
/// assert_eq!(revlog::readable(b"caf\xc3\xa9\n\xff"), "caf\u{e9}\\n\u{fffd}");
/// ```
#[must_use]
pub fn readable(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(MOST_SHOWN)];
    let mut out = String::with_capacity(shown.len());
    for char in String::from_utf8_lossy(shown).chars() {
        if char.is_control() {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
    }
    if shown.len() < bytes.len() {
        out.push_str("...");
    }
    out
}

/// Error with the revlog, the revision if one is at fault, and the problem found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system reported an error.
    #[error("{source}")]
    Io {
        /// File concerned.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Bytes on disk violate the format, or do not match their node.
    #[error("{revlog}: {what}")]
    Corrupt {
        /// The revlog as Mercurial names it to users: `filelog src/main.c`.
        revlog: String,
        /// Index or data file concerned.
        path: PathBuf,
        /// Problem found, with its revision.
        what: String,
    },
    /// Valid format that this reader does not support.
    #[error("{revlog}: {what}")]
    Unsupported {
        /// The revlog as Mercurial names it to users.
        revlog: String,
        /// Unsupported feature.
        what: String,
    },
}

impl From<parallel::Error> for Error {
    fn from(parallel::Error { path, source }: parallel::Error) -> Self {
        Self::Io { path, source }
    }
}
