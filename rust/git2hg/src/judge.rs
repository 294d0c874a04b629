//! Which commits can be pushed: the rules, one object each, and all of a history.

pub mod commit;
pub(crate) mod history;
pub(crate) mod names;
pub mod tree;
pub(crate) mod trees;
