//! Git objects made from changes: blobs, trees, commits, and their compression.

pub(crate) mod blobs;
pub(crate) mod branchheads;
pub(crate) mod collisions;
pub(crate) mod commits;
pub(crate) mod compress;
pub(crate) mod directory;
pub(crate) mod filelogs;
pub(crate) mod history;
pub(crate) mod imported;
pub(crate) mod inherited;
pub(crate) mod object;
pub(crate) mod pipeline;
pub(crate) mod reused;
pub(crate) mod storefiles;
pub(crate) mod storeids;
pub(crate) mod translate;
pub(crate) mod treeedits;
pub(crate) mod trees;
