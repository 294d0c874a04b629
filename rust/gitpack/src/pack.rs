//! Packs: many objects in one file, with its index and reverse index.
//!
//! A [`PackWriter`] appends entries. The [`SealedPack`] that it becomes is complete and fsynced,
//! but git does not see it before it is published. The caller chooses the bases of deltas. The
//! caller also guarantees the ids of entries: they are not checked.
//!
//! Formats: gitformat-pack(5), "pack-*.pack files have the following format", "Version 2
//! pack-*.idx files" and "pack-*.rev files"; all for SHA-1. Order of the steps: `pack-write.c` and
//! `builtin/index-pack.c` of git.

mod bulk;
mod checksum;
mod entry;
mod ids;
mod idx;
mod objects;
mod places;
mod rev;
mod sealed;
mod stored;
mod writer;

pub use bulk::{ObjectPlace, PackReader, PackTables};
pub use checksum::Checksum;
pub use entry::{Entry, Offset};
pub use ids::Ids;
pub use objects::Objects;
pub use sealed::{Published, SealedPack};
pub use stored::{BlobEntry, StoredBlobs};
pub use writer::PackWriter;

pub use crate::staged::Error;
