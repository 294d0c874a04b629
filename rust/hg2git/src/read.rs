//! Mercurial's history as changes: the changesets to convert, and the changes of each manifest.
//!
//! Asks the oid map which revisions are converted already. Knows no git object and no rule of a
//! dialect.

pub(crate) mod changelog;
pub(crate) mod changes;
pub(crate) mod files;
pub(crate) mod limits;
pub(crate) mod lookups;
pub(crate) mod manifests;
pub(crate) mod names;
pub(crate) mod treemanifests;
pub(crate) mod verify;
