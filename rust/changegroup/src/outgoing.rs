//! What a changegroup is made of, and how far it is.

use revlog::Node;

/// The versions of the format that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupVersion {
    /// Deltas with a base.
    V02,
    /// The same, with the flags of each revision.
    V03,
}

/// Which changesets, for whom.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The format.
    pub version: GroupVersion,
    /// Number and node of each changeset, in ascending order.
    pub changesets: Vec<(u32, Node)>,
    /// Changesets that the receiver has, with all their ancestors.
    pub common: Vec<u32>,
    /// Whether every revision belongs to the changeset that its link names. That is so if the
    /// changesets are all that there are, but for what the receiver has. Otherwise manifests tell.
    pub trusts_links: bool,
    /// Threads that work; 0 is one for each core.
    pub threads: usize,
}

/// What is being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Part {
    /// Changesets; counted in changesets.
    #[default]
    Changesets = 0,
    /// Manifests; counted in manifests.
    Manifests = 1,
    /// Files; counted in files.
    Files = 2,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// What is being written.
    pub phase: Part,
    /// How much of it is done.
    pub done: u64,
    /// How much there is.
    pub total: u64,
}
