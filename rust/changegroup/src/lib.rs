//! Changegroups: the revisions of a set of changesets, as Mercurial exchanges them.
//!
//! Owns the format of `hg help internals.changegroups`, versions 02 and 03, and the choice of
//! revisions, order and delta bases. The choice is that of `mercurial/changegroup.py` and
//! `revlog.emitrevisions`. Only computed deltas differ from Mercurial's in their bytes; stored
//! deltas are copied. Does not know bundles, compression, phases, or the visibility of changesets.
//! Does not support tree manifests and narrow clones; callers leave these to Mercurial.
//!
//! [`RevisionChunk`] and [`line_delta`] serve other writers of changegroups, for history that no
//! store has.
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

/// Functions for the fuzz target: parsers of hostile bytes.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::changesets::ChangesetHead;
    pub use crate::delta::line_delta;
}
