//! Memory, files and threads, whatever they are for.
//!
//! Owns buffers within a budget ([`Budget`], [`Buffer`], [`Spare`]) and how memory is shared out
//! ([`Shares`]), directories by descriptor ([`Directory`]), and parallel work whose results come in
//! order ([`ordered`], [`Turns`], [`both`]). Knows neither Mercurial nor git.

mod both;
mod budget;
mod directory;
mod error;
pub mod hex;
pub mod ordered;
mod pages;
mod shares;
mod spare;
mod turns;

pub use both::both;
pub use budget::{Budget, Buffer};
pub use directory::Directory;
pub use error::{Error, Result};
pub use ordered::Width;
pub use pages::trim;
pub use shares::Shares;
pub use spare::Spare;
pub use turns::Turns;
