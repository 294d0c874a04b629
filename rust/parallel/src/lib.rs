//! Memory, files and threads for any purpose.
//!
//! Owns buffers within a budget ([`Budget`], [`Buffer`], [`BufferPool`]), a [`Cache`], tables in
//! temporary files ([`Records`]), the division of memory ([`MemoryPlan`]), directories by
//! descriptor ([`Directory`]), and parallel work with ordered results ([`ordered`], [`Sequencer`],
//! [`join()`]). Knows neither Mercurial nor git.

mod budget;
mod bufferpool;
mod cache;
mod directory;
mod error;
pub mod hex;
mod join;
mod memoryplan;
pub mod ordered;
mod pages;
mod records;
mod sequencer;

pub use budget::{Budget, Buffer};
pub use bufferpool::BufferPool;
pub use cache::Cache;
pub use directory::Directory;
pub use error::{Error, Result};
pub use join::join;
pub use memoryplan::MemoryPlan;
pub use ordered::Width;
pub use pages::trim;
pub use records::Records;
pub use sequencer::Sequencer;
