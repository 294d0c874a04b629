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
mod ids;
mod idx;
mod objects;
mod places;
mod rev;
mod sealed;
mod writer;

pub use checksum::Checksum;
pub use entry::{Entry, Offset};
pub use ids::Ids;
pub use objects::Objects;
pub use sealed::{Published, SealedPack};
pub use writer::PackWriter;

pub use crate::staged::Error;
