//! Where objects go: packs, and how they become visible.

pub(crate) mod packs;
pub(crate) mod publish;
