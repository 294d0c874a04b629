//! Git objects made from changes: blobs, trees, and their compression.
//!
//! Contains no rule of a dialect.

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
