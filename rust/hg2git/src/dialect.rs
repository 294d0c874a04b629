//! The dialects: which commit stands for a changeset, and what is kept beside it.

pub(crate) mod cinnabar;
