//! What is on disk of ids: which git object stands for which revision, and which commits are given.
//!
//! Formats: `docs/formats/map.rst` and `docs/formats/adopted.rst`. Knows neither how a revision is
//! converted nor by which dialect.

pub(crate) mod adopted;
pub(crate) mod compare;
pub(crate) mod content;
pub(crate) mod oidmap;
pub(crate) mod segment;
