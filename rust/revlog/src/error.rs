//! Errors of reading a store.

use std::io;
use std::path::PathBuf;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Most bytes of a name that a message shows.
const MOST_SHOWN: usize = 1024;

/// Names and other bytes of a store as messages show them: on one line, and not all of what is very
/// long, whatever they are.
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

/// Each says which revlog, which revision where one is to blame, and what was found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{source}")]
    Io {
        /// File concerned.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes on disk are not what the format or their node says.
    #[error("{revlog}: {what}")]
    Corrupt {
        /// The revlog as Mercurial names it to users: `filelog src/main.c`.
        revlog: String,
        /// Index or data file concerned.
        path: PathBuf,
        /// What was found, and in which revision.
        what: String,
    },
    /// The format is valid, but this reader does not know it.
    #[error("{revlog}: {what}")]
    Unsupported {
        /// The revlog as Mercurial names it to users.
        revlog: String,
        /// What is not known.
        what: String,
    },
}

impl From<parallel::Error> for Error {
    fn from(parallel::Error { path, source }: parallel::Error) -> Self {
        Self::Io { path, source }
    }
}
