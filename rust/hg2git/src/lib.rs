//! The conversion of Mercurial history to git objects.
//!
//! Owns the rules of the dialects (which commit stands for which changeset), the order of work and
//! the oid map. Reads stores through `revlog`, and writes packs through `gitpack`. Decides nothing about who may see what: the caller selects.
//!
//! By stage, each room built on those before it:
//!
//! - `map`: which object stands for which revision, on disk;
//! - `read`: history as changes, from changesets (`changelog`) and manifests (`manifests` or
//!   `treemanifests`, kept in `changes`);
//! - `objects`: git's objects, from file revisions (`filelogs`, `blobs`) and changes (`history`,
//!   `directory`, `trees`);
//! - `out`: packs, and how they become visible;
//! - `dialect`: commits, and what is kept beside them.
//!
//! [`export()`] does one run, in four phases; [`metadata_commit()`] names what runs have made. Each phase is on [`parallel::ordered`]: parallel work, results
//! in order, so that the same history gives the same bytes on any number of threads; what builds on
//! results before it has its [`parallel::Sequencer`].

mod dialect;
mod error;
mod export;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod map;
mod objects;
mod out;
mod progress;
mod read;
mod request;

pub use dialect::cinnabar::commit::write as write_commit;
pub use dialect::cinnabar::identity::{Who, read_back};
pub use error::{Error, Misfit, Result, Unfit};
pub use export::{export, metadata_commit};
pub use map::compare::{Comparison, Difference};
pub use map::content::Access;
pub use map::oidmap::{Matches, OidMap, Side};
pub use map::segment::{Pair, Segment, TABLES, Table};
pub use objects::commits::Displaced;
pub use progress::{Phase, ProgressFn};
pub use read::changelog::Selection;
pub use request::{
    AdoptedFile, MetadataFiles, PublishedCommit, PublishedFiles, PublishedMetadata, Report, Request,
};
pub use revlog::Prefix;
