//! Request for a changegroup, and its progress.

use revlog::Node;

/// Version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupVersion {
    /// Deltas with a base.
    V02,
    /// Deltas with a base and the flags of the revision.
    V03,
}

/// Request for a changegroup.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Version of the format.
    pub version: GroupVersion,
    /// Number and node of each changeset, in ascending order.
    pub changesets: Vec<(u32, Node)>,
    /// Changesets of the receiver. The receiver also has all their ancestors.
    pub common: Vec<u32>,
    /// Whether the link of each revision names the changeset that brings it. True if the receiver
    /// gets all changesets that it lacks. Otherwise manifests are read to find the file revisions.
    pub trusts_links: bool,
    /// Number of threads; 0 for one per core.
    pub threads: usize,
}

/// Part of a changegroup.
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

/// Progress of a changegroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Part being written.
    pub phase: Part,
    /// Items written.
    pub done: u64,
    /// Number of items.
    pub total: u64,
}
