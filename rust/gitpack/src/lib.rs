//! git objects, deltas and packs: from object contents to files that git reads.
//!
//! [`oid`] has object ids, [`tree`] the content of trees. [`deflate`] compresses. [`diff`] finds
//! deltas, and [`delta`] writes and applies them. [`pack`] writes a pack, its index and its reverse
//! index, as [`staged`] files. Formats are those of gitformat-pack(5), for SHA-1 repositories.
//!
//! Knows no Mercurial, and decides nothing about history: the caller chooses the objects of a pack,
//! their order, and the bases of deltas. The caller also computes object ids. The bytes to hash are
//! [`object_header`] and the content.

pub mod deflate;
pub mod delta;
pub mod diff;
pub mod oid;
pub mod pack;
mod stackbytes;
pub mod staged;
pub mod tree;

pub use deflate::{Deflater, QuickDeflater};
pub use diff::Differ;
pub use oid::{ObjectHeader, ObjectKind, Oid, object_header};
pub use pack::{Entry, Offset, PackWriter, Published, SealedPack};
pub use staged::{Owner, Readers, Staged};
