//! Request and result of a conversion.

use changegroup::GroupVersion;
use gitpack::Oid;
use parallel::Directory;
use revlog::{Node, Store};

use dialect::{ImportSettings, Reason};

/// Pipes of git processes.
#[derive(Debug)]
pub struct ConversionPipes<C, W, R> {
    /// Output of `git cat-file --batch`: the new commits, parents before children.
    pub commits: C,
    /// To and from a `git cat-file --batch-command --buffer` for trees.
    pub trees: (W, R),
    /// To and from another one for blobs.
    pub blobs: (W, R),
}

/// Parent of new commits that is a changeset already.
#[derive(Clone, Copy, Debug)]
pub struct KnownChangeset<'a> {
    /// Id of the commit.
    pub oid: Oid,
    /// Node of the changeset.
    pub node: Node,
    /// Text of the changeset.
    pub text: &'a [u8],
}

/// End of a conversion whose file revisions need too much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLimit {
    /// An error.
    Fail,
    /// The first commits are converted.
    Stop,
}

/// Request for a conversion.
#[derive(Debug)]
pub struct ConversionRequest<'a> {
    /// The store that gets the changegroup.
    pub store: &'a Store,
    /// All parents of new commits that are not new commits.
    pub known: &'a [KnownChangeset<'a>],
    /// Packs that have most of the objects. git reads the others.
    pub packs: Option<&'a Directory>,
    /// Whether nobody has verified the objects in these packs.
    pub verifies: bool,
    /// Format of the changegroup.
    pub version: GroupVersion,
    /// Directory of temporary files.
    pub dir: &'a Directory,
    /// Memory for texts and trees.
    pub memory_bytes: usize,
    /// Length limit of files, beside the limit of 2 GiB of Mercurial.
    pub most_file_bytes: u64,
    /// Named branch of all new commits, as its extra is stored. `None`: the branch of the first
    /// parent.
    pub branch: Option<&'a [u8]>,
    /// Whether each commit has to come back from its changeset, and may have no file that the
    /// changeset would lack. Others are refused.
    pub round_trip: bool,
    /// Settings that changesets of some dialects depend on.
    pub import: ImportSettings<'a>,
    /// Whether extras keep the parts that changesets cannot express (`dialect::exact`).
    pub is_exact: bool,
    /// End of the conversion if all commits need too much memory.
    pub at_limit: AtLimit,
}

/// Refused commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Id of the commit.
    pub oid: Oid,
    /// Reason of the refusal.
    pub reason: Reason,
    /// Part of the commit that is the reason: a header, an author, a path. At most 512 bytes; may
    /// be empty.
    pub detail: Vec<u8>,
}

/// Result of a conversion.
#[derive(Debug, Default)]
pub struct Conversion {
    /// Commits and their changesets, parents first: the first ones of the request. Empty if any
    /// commit is refused.
    pub changesets: Vec<(Oid, Node)>,
    /// Commits that do not come back from their changesets.
    pub foreign: Vec<Oid>,
    /// Refused commits.
    pub refused: Vec<Refusal>,
    /// Whether all objects in the packs are verified, if that was requested.
    pub is_verified: bool,
}
