//! Packs: many objects in one file, with the two indexes that git opens it by.
//!
//! A [`PackWriter`] takes entries as they come; its [`SealedPack`] is whole and on disk, but not
//! seen by git until published. Which entry is a delta of which is the caller's choice, and so is
//! the truth of what it adds: an entry's id is not checked against its bytes.
//!
//! Formats: gitformat-pack(5), "pack-*.pack files have the following format", "Version 2
//! pack-*.idx files" and "pack-*.rev files"; all for SHA-1. Order of the steps: `pack-write.c` and
//! `builtin/index-pack.c` of git.

mod checksum;
mod entry;
mod idx;
mod rev;
mod sealed;
mod staged;
mod writer;

use std::io;
use std::path::{Path, PathBuf};

pub use checksum::Checksum;
pub use entry::{Entry, Offset};
pub use sealed::{Published, SealedPack};
pub use writer::PackWriter;

/// A file of a pack could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct Error {
    /// The file, under the name it has at this time, or the directory.
    pub path: PathBuf,
    /// What the system says of it.
    pub source: io::Error,
}

impl Error {
    /// For `map_err`: an error about `path`.
    fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self { path: path.to_owned(), source }
    }
}
