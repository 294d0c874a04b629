//! Memory, files and threads, whatever they are for.
//!
//! Owns buffers within a budget ([`Budget`], [`Buffer`], [`Spare`]) and directories by descriptor
//! ([`Directory`]). Knows neither Mercurial nor git.

mod budget;
mod directory;
mod error;
mod pages;
mod spare;

pub use budget::{Budget, Buffer};
pub use directory::Directory;
pub use error::{Error, Result};
pub use pages::trim;
pub use spare::Spare;
