//! The output of a run: packs, and their publication.

pub(crate) mod packs;
pub(crate) mod publish;
