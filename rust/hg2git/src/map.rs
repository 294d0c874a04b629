//! Ids on disk: the oid map from revisions to git objects, and the adopted commits.
//!
//! Formats: `docs/formats/map.rst` and `docs/formats/adopted.rst`. Knows neither how a revision is
//! converted nor by which dialect.

pub(crate) mod adopted;
pub(crate) mod compare;
pub(crate) mod content;
pub(crate) mod oidmap;
pub(crate) mod segment;
