//! git objects, deltas and packs: what turns object contents into files that git reads.
//!
//! [`oid`] names objects, [`tree`] lays out trees, [`deflate`] compresses, [`diff`] and [`delta`]
//! say one content by another, and [`pack`] writes the pack, its index and its reverse index, as
//! [`staged`] files.
//! Formats are those of gitformat-pack(5), for SHA-1 repositories.
//!
//! Knows no Mercurial, and decides nothing about history: which objects go into a pack, in which
//! order, and which of them are deltas of which is the caller's business. Object ids are the
//! caller's too; [`object_header`] is what has to be hashed before a content.

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
