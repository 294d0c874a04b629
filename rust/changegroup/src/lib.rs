//! Changegroups: the revisions of a set of changesets, as Mercurial exchanges them.
//!
//! Owns the format of `hg help internals.changegroups`, versions 02 and 03, and the choice of
//! revisions, order and delta bases. All of these are as in `mercurial/changegroup.py` and
//! `revlog.emitrevisions`, so a receiver cannot tell the difference but by the bytes of deltas that are
//! computed. Stored deltas are copied. Does not know bundles, compression, phases, or which
//! changesets may leave. Tree manifests and narrow clones are the caller's: it does not come here.
//!
//! [`RevisionChunk`] and [`line_delta`] are for others who write changegroups: of history that is in no store yet.
//!
//! [`Changegroup::read`] makes the next few megabytes, on several threads that end with the call.

mod changesets;
mod chunk;
mod delta;
mod error;
mod files;
mod group;
mod manifests;
mod outgoing;
mod plan;
mod revset;
mod stream;

pub use chunk::{END, LongChunk, RevisionChunk, file_header};
pub use delta::{hunk_head, line_delta};
pub use error::{Error, Result};
pub use outgoing::{GroupVersion, Outgoing, Part, Reached};
pub use stream::Changegroup;

/// What the fuzz target calls: the parts that read hostile bytes.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::changesets::ChangesetHead;
    pub use crate::delta::line_delta;
}
