//! Objects of git, read from `git cat-file`: commits, their trees and blobs.

pub(crate) mod answers;
pub(crate) mod blobs;
pub(crate) mod commits;
pub(crate) mod decoder;
pub(crate) mod diff;
pub(crate) mod packed;
pub(crate) mod prefetch;
pub(crate) mod trees;
