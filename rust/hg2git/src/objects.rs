//! Objects of git, made from changes: blobs, trees, and how each is compressed.
//!
//! No rule of a dialect is here.

pub(crate) mod blobs;
pub(crate) mod collisions;
pub(crate) mod commits;
pub(crate) mod compress;
pub(crate) mod directory;
pub(crate) mod filelogs;
pub(crate) mod history;
pub(crate) mod object;
pub(crate) mod pipeline;
pub(crate) mod storeids;
pub(crate) mod translate;
pub(crate) mod trees;
