//! The oid map on disk: which git object stands for which revision.
//!
//! Format: `docs/formats/map.rst`. Knows neither how a revision is converted nor by which dialect.

pub(crate) mod compare;
pub(crate) mod oidmap;
pub(crate) mod segment;
