//! The output of a run: packs, and how they become visible.

pub(crate) mod packs;
pub(crate) mod publish;
