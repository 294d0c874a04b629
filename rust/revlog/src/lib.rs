//! Mercurial stores: revlog files, indexes, texts, and their content.
//!
//! Owns the formats of `hg help internals.revlogs`, `hg help internals.changegroups` (deltas), and
//! the encodings of store paths. Does not know git, configuration, or Python. The caller decides
//! which changesets are visible. Store files are read, never mapped: a strip in another process
//! truncates them, and a process that maps them would die. [`mapping`] maps copies; a [`Store`] can
//! use an index mapped before.

pub mod changeset;
mod error;
mod filelog;
mod index;
pub mod manifest;
pub mod mapping;
pub mod node;
pub mod nodemap;
pub mod patch;
mod prefix;
mod revlog;
mod shared;
mod store;
mod texts;
pub mod writing;

pub use changeset::Changeset;
pub use error::{Error, Result, readable};
pub use filelog::{Split, copy_source, split_metadata};
pub use index::{FLAG_CENSORED, FLAG_EXTERNAL, Index, Parents, Rev};
pub use manifest::{Flag, Line, Lines, ManifestEntries, ManifestEntry};
pub use node::Node;
pub use patch::{Delta, Hunk};
pub use prefix::Prefix;
pub use revlog::Revlog;
pub use shared::{Cursor, SharedText, Tally};
pub use store::path::Encoding;
pub use store::{MappedIndexes, RevlogKind, Store};
pub use texts::chunk::{Undecodable, Unpacking};
pub use texts::{KeptTexts, Revision, Scratch, StoredDelta, Texts};
